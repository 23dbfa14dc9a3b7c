retrograd run broken.py:f 1.0
