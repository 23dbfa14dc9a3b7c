retrograd run add.rga --mem bytes.bin,u32eb
