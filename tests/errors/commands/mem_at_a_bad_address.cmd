retrograd run add.rga --mem 5x=bytes.bin,u8
