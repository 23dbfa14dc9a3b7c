retrograd run endless.rga --max-steps 1e6
