retrograd run functions.py:plain 1.0
