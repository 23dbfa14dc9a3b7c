retrograd run add.rga --memory lots
