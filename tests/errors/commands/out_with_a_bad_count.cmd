retrograd run add.rga --out table:many=out.bin
