retrograd run vlad_defined_twice.vlad
