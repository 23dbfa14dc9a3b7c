retrograd run add.rga --mem empty.npy
