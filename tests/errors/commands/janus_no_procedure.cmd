retrograd run janus_no_procedure.ja:fob
