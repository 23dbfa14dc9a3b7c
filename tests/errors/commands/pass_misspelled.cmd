retrograd compile functions.py:add --dump-ir emti
