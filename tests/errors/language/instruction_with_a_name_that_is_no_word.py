import retrograd as rg

rg.instruction("soft sign", lambda x, w: x)
