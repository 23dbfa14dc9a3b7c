retrograd run small.rga --set r1=70000
