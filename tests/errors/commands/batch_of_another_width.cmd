retrograd run functions.py:dot --batch widths.npz
