retrograd run add.rga --out 9=out.bin
