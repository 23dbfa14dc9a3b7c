retrograd gates fmul.add --format 8,4 --budget 20
