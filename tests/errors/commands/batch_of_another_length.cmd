retrograd run functions.py:dot --batch lengths.npz
