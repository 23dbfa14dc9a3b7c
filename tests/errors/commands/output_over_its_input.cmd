retrograd asm add.rga -o ./add.rga
