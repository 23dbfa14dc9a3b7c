RETROGRAD_ENGINE=cuda retrograd run functions.py:add 1.0 2.0
