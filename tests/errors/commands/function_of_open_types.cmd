retrograd compile functions.py:dot
