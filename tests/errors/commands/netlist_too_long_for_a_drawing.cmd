retrograd gates fmul.add --width 8 --draw picture.svg
