retrograd run leaving.py:f 1.0
