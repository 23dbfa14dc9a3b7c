retrograd gates mov.add --garbage left
