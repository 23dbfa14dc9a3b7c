retrograd gates reset_late.qasm
