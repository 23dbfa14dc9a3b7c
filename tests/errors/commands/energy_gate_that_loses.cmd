retrograd energy functions.py:add 1.0 2.0 --tech energy_gate_that_loses.toml
