retrograd run vlad_no_binding.vlad
