retrograd entropy functions.py:dot y=0 a=words b=words
