retrograd run add.rga --batch dots.npz
