retrograd run vlad_no_else.vlad
