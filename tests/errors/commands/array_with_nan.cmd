retrograd run add.rga --mem nan.npy
