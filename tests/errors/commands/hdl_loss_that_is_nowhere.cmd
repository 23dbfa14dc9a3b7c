retrograd hdl run add.rga --grad sum
