retrograd gates full.real
