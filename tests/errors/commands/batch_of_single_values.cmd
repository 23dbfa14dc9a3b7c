retrograd run functions.py:root --batch values.npz
