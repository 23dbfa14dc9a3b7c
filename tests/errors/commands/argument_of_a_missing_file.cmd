retrograd run functions.py:dot 0.0 @missing.npy '[1.0]'
