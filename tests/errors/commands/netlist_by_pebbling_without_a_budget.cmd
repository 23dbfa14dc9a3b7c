retrograd gates fmul.add --format 8,4 --strategy pebble
