retrograd run negative.rga --out table=out.bin,u8
