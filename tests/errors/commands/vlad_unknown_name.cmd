retrograd run vlad_unknown_name.vlad
