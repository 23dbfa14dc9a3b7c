retrograd run ''
