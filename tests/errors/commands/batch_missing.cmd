retrograd run functions.py:dot --batch nowhere.npz
