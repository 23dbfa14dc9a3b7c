retrograd run add.rga --mem many.txt
