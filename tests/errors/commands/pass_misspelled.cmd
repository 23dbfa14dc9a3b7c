retrograd compile functions.py:add --dump-ir eliminate_dead_cod
