retrograd run add.rga --mem bytes.bin,i32
