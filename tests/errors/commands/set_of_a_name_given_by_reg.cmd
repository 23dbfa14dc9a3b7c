retrograd run add.rga --set amount=1
