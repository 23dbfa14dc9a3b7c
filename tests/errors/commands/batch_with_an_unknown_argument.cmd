retrograd run functions.py:dot --batch excess.npz
