retrograd run add.rga --mem table=.,u8
