retrograd entropy functions.py:root y=0.0 x=-1.0,1.0
