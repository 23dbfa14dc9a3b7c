retrograd compile functions.py:add --arch sm_90
