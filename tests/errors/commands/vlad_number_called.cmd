retrograd run vlad_number_called.vlad
