retrograd run vlad_format.vlad
