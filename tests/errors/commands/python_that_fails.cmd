retrograd run failing.py:f 1.0
