retrograd energy functions.py:add 1.0 2.0 --tech landauer --figure energy=1zJ
