"""The workloads and their derivatives a second time: NumPy in float64, SciPy and mpmath, independent of the code under test.

complex_step    derivatives of any NumPy function, exact to rounding
adbench         bundle adjustment and the Gaussian mixture, and readers of ADBench's files
planets         the leapfrog method, all derivatives at once
series          Bessel functions and their derivatives, by mpmath
formulas        a graph embedding, and functions of the library: matrices, transforms, densities, layers
"""
