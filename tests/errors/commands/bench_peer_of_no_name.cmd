retrograd bench bessel --quick --peers numba,fortran
