retrograd run functions.py:dot --batch dots.npz --store functions.py
