retrograd run add.rga --out table:9=out.bin
