retrograd explain RG0199
