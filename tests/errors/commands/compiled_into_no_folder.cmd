retrograd compile functions.py:add -o nowhere/add.rgx
