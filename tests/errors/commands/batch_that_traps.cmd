retrograd run functions.py:root --batch roots.npz
