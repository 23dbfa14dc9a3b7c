retrograd run small.rga --set r1=1.5
