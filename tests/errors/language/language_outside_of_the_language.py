import retrograd as rg

rg.sqrt(2.0)
