retrograd run add.rga --set r256=1
