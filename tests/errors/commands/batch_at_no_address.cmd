retrograd run functions.py:dot --batch dots.npz --scheduler nowhere
