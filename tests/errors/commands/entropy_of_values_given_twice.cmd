retrograd entropy functions.py:add total=0 x=0..3 x=1
