retrograd compile add.rga 1.0 --emit llvm
