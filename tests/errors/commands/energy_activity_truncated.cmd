retrograd energy functions.py:add 1.0 2.0 --tech cmos_switching --figure capacitance=1fF --figure voltage=0.9V --activity energy_activity_truncated.json
