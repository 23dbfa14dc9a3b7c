retrograd gates fmul.add --format 8,4 --draw picture.svg
