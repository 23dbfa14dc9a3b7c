retrograd run vlad_option_out_of_place.vlad --backward
