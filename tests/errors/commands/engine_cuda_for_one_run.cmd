retrograd run add.rga --engine cuda
