retrograd energy
