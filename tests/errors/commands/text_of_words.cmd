retrograd run add.rga --mem words.txt
