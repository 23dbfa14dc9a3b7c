retrograd debug add.rga -x command.script
