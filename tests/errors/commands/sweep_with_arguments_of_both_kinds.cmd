retrograd sweep functions.py:add --args '1.0 x=2.0'
