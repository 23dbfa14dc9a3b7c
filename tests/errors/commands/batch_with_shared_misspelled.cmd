retrograd run functions.py:dot --batch dots.npz --shared yy
