retrograd compile functions.py:add 1.0 2.0 --strategy energy --erase
