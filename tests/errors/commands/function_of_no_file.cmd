retrograd run missing.py:f 1.0
