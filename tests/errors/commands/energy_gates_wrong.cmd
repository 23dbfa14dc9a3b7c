retrograd energy functions.py:add 1.0 2.0 --tech aqfp --gates energy_gates.json
