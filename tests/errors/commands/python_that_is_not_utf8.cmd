retrograd run undecodable.py:f 1.0
