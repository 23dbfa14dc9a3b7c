retrograd run functions.py:dot --batch notes.npz
