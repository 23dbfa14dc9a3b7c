retrograd run functions.py:dot --batch altered.npz
