retrograd run vlad_bound_twice.vlad
