retrograd run add.rga --mem tabel=bytes.bin,u8
