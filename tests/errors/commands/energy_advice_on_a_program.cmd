retrograd energy add.rga --advise
