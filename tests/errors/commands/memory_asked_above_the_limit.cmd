retrograd run add.rga --memory 1000000000000
