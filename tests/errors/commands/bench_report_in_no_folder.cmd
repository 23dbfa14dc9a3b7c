retrograd bench bessel --report nowhere
