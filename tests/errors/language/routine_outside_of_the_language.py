import retrograd as rg

with rg.routine() as r:
    pass
