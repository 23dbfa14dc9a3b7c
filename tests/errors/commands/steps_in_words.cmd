retrograd run endless.rga --max-steps many
