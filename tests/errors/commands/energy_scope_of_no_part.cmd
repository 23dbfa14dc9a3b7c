retrograd energy functions.py:add 1.0 2.0 --compare cmos45,cmos7 --scope logic,wiring
