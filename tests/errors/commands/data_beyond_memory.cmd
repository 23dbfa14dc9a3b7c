retrograd run add.rga --mem 100=bytes.bin,u8
