retrograd run add.rga --break agian
