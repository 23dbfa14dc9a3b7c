RETROGRAD_ENGINE=quick retrograd run add.rga
