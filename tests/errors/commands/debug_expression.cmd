retrograd debug add.rga -x expression.script
