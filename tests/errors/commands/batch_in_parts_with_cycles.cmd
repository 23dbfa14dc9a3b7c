retrograd run functions.py:dot --batch dots.npz -o parts/ --cycles
