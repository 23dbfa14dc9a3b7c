retrograd sweep functions.py:add --args '1.0 2.0'
