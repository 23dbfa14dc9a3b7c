retrograd run add.rga --set r1=
