retrograd run add.rga --mem objects.npy
