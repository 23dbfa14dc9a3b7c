retrograd compile functions.py:add --format wide
