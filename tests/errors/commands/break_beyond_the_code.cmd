retrograd run add.rga --break 99
