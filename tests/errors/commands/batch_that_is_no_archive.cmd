retrograd run functions.py:dot --batch words.txt
