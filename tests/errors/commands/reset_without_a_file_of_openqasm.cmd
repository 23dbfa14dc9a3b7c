retrograd gates mov.add --reset
