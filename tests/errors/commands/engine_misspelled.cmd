retrograd run add.rga --engine natvie
