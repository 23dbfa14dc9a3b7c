retrograd entropy functions.py:add total=0 x
