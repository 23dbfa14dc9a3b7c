retrograd bench bessel --quick --peers jx
