retrograd run functions.py:dot --batch dots.npz --max-steps 3
