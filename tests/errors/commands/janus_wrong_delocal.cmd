retrograd run janus_wrong_delocal.ja
