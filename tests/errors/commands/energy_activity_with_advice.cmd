retrograd energy functions.py:add 1.0 2.0 --tech cmos_switching --advise --activity energy_activity_good.json
