retrograd isa mull.add
