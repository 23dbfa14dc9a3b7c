retrograd run functions.py:scale 1.0 2.0
