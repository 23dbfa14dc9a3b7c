retrograd run .
