retrograd run add.rga --resume other.state
