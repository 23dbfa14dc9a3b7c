retrograd compile functions.py:misspelled
