retrograd run functions.py:add 1.0 1e300
