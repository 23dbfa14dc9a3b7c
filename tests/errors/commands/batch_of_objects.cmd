retrograd run functions.py:dot --batch objects.npz
