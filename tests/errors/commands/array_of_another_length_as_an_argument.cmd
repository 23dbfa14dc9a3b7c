retrograd run functions.py:dot 0.0 @reals.npy '[1.0, 2.0, 3.0]'
