retrograd run functions.py:dot y=1.0 --batch dots.npz
