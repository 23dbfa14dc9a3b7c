retrograd run functions.py:add 1.0 2.0 --workers 2
