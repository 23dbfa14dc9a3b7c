retrograd explain swap
