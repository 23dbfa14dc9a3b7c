retrograd run small.rga --mem reals.npy
