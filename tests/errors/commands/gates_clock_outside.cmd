retrograd gates mov.add --tech aqfp --frequency 6GHz
