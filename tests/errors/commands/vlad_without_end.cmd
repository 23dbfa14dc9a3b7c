retrograd run vlad_without_end.vlad
