retrograd run small.rga --set r1=200q
