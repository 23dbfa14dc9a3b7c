retrograd run add.rga --out nowhere/out.bin
