retrograd run functions.py:dot --batch dots.npz --max-expanded 100
