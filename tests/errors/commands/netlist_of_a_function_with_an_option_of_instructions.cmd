retrograd gates functions.py:add --trap
