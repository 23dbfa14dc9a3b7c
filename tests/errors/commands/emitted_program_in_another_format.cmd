retrograd compile add.rga --emit llvm --format 32,16
