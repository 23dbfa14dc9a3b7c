retrograd gates fmul.add --width 8 --strategy pebble
