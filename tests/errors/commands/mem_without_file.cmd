retrograd run add.rga --mem table=
