import retrograd as rg

rg.use_format(32)
