retrograd run functions.py:dot --batch cut.npz
