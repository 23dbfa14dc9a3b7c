retrograd compile functions.py:add --dump-ir drop_ded
