import retrograd as rg

rg.Format(width=48, frac=24)
