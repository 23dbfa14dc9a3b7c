retrograd run vlad_two_types.vlad
