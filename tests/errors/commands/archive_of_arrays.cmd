retrograd run add.rga --mem archive.npz,npy
