retrograd run vlad_bracket_open.vlad
