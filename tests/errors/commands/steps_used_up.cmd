retrograd run endless.rga --set r2=1000 --max-steps 25
