retrograd run add.rga --mem complex.npy
