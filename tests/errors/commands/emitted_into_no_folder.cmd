retrograd compile functions.py:add --emit llvm -o nowhere/add.ll
