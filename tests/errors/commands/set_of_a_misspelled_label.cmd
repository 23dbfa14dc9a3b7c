retrograd run add.rga --set tabel=1
