retrograd run not_there.rga
