retrograd run small.rga --mem large.txt
