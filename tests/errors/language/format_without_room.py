import retrograd as rg

rg.Format(16, 20)
