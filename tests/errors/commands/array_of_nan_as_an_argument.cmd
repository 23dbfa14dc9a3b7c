retrograd run functions.py:dot 0.0 @nan.npy '[1.0, 2.0]'
