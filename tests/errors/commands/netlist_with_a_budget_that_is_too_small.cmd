retrograd gates fmul.add --width 8 --budget 20
