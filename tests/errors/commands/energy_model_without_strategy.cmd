retrograd compile functions.py:add --tech cmos45
