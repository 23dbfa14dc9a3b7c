retrograd run functions.py:dot --batch lacking.npz
