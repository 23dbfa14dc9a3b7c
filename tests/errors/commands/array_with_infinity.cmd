retrograd run add.rga --mem infinity.npy
