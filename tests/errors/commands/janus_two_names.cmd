retrograd run janus_two_names.ja
