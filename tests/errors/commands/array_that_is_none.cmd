retrograd run add.rga --mem garbage.npy
