retrograd run add.rga --set r1=12ab
