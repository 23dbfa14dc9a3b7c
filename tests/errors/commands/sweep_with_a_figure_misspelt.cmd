retrograd sweep functions.py:add --args 1.0 2.0 --tech adiabatic_rc --figure resistanse=1ohm
