retrograd gates erase
