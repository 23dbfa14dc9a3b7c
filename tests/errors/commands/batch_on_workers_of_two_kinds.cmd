retrograd run functions.py:dot --batch dots.npz --scheduler tcp://127.0.0.1:1 --workers 2
