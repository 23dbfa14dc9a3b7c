retrograd sweep functions.py:add functions.py:root --args 0.0 -1.0
