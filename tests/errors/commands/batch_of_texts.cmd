retrograd run functions.py:dot --batch texts.npz
