retrograd run endless.rga --max-steps=-5
