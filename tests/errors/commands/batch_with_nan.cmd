retrograd run functions.py:dot --batch nan.npz
