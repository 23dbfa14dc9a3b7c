retrograd run functions.py:dot 0.0 @objects.npy @objects.npy
