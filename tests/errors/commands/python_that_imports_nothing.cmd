retrograd run importing.py:f 1.0
