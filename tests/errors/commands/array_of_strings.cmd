retrograd run add.rga --mem strings.npy
