retrograd sweep add.rga
