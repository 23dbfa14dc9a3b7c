retrograd run functions.py:ad 1.0 2.0
