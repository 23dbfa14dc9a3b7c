retrograd run add.rga --mem numbers.txt
