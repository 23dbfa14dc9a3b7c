retrograd compile functions.py
