retrograd run add.rga --mem table:2=bytes.bin,u8
