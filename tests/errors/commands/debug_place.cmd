retrograd debug add.rga -x place.script
