retrograd compile functions.py:count
