retrograd run add.rga --max-input 16
