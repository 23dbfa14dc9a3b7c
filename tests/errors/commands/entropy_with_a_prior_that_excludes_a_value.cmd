retrograd entropy functions.py:add total=0 x=0..3 --prior x=0..2
