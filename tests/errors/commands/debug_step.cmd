retrograd debug add.rga -x step.script
