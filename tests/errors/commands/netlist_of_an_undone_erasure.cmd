retrograd gates unerase
