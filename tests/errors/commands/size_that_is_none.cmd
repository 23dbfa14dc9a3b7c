retrograd run add.rga --max-input plenty
