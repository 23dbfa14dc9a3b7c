retrograd energy functions.py:add 1.0 2.0 --scope logic
