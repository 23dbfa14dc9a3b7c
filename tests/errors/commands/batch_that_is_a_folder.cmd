retrograd run functions.py:dot --batch .
