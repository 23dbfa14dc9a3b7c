retrograd run add.rga --cycles --core large
