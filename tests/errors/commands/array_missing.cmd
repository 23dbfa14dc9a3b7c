retrograd run add.rga --mem not_there.npy
