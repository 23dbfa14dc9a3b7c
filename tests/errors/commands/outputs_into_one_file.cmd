retrograd run add.rga --out 0:1=x.txt --out 1:1=./x.txt
