retrograd energy functions.py:add 1.0 2.0 --compare landauer,aqfp --figure resistance=1ohm
