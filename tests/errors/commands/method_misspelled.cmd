retrograd compile functions.py:Pair.swp
