retrograd run functions.py:add total=1.0 x=2.0 x=3.0
