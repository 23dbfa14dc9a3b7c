retrograd run functions.py:dot 0.0 '[1.5, 9007199254740993]' '[1.0, 2.0]'
