retrograd run add.rga --memory-limit=-1
