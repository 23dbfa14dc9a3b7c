retrograd compile functions.py:add --format 3,1
