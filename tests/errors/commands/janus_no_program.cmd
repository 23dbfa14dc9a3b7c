retrograd run janus_no_program.ja
