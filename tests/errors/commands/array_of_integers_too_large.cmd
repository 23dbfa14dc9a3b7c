retrograd run small.rga --mem integers.npy
