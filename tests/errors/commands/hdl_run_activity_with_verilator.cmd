retrograd hdl run functions.py:add 1.0 2.0 --verilator --activity a.json
