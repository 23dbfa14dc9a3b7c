retrograd run functions.py:dot 0.0 '[1.0, 2.0' '[1.0]'
