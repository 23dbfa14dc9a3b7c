retrograd run functions.py:add 1.0
