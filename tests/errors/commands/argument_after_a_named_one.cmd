retrograd run functions.py:add total=1.0 2.0
