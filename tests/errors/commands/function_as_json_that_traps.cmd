retrograd run functions.py:root 0.0 -1.0 --json
