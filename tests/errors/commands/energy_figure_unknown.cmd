retrograd energy functions.py:add 1.0 2.0 --tech adiabatic_rc --figure resistence=10kohm
