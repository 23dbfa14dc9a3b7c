retrograd run add.rga --mem latin1.txt
