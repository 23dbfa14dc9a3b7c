retrograd sweep functions.py:add
