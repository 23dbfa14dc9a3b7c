retrograd asm add.rga -o nowhere/add.rgx
