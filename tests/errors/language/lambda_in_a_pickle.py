import pickle

import retrograd as rg

pickle.dumps(rg.vmap(lambda x: x + 1))
