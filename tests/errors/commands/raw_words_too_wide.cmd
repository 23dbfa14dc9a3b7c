retrograd run small.rga --mem bytes.bin,u32
