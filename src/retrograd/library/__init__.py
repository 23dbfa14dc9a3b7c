"""The library: reversible functions, written in the language, that serve as examples of it.

A function adds its result to its first arguments and does not change the others, unless it works in place; `~f`
subtracts the result. No garbage is left.

    elementary       tanh, sinh, cosh, asin, acos, log2, log10, exp2, expm1, log1p, cbrt, hypot, erf
    arithmetic       imul, idiv, scale, factorial, log_factorial, power, iexp, fibonacci, first_fibonacci
    complex          Complex, complex_abs, complex_arg
    linear_algebra   matvec, matmul, eliminate, solve, inverse, determinant, qr, rotate_planes;
                     of sparse matrices: sparse_dot, sparse_dot_scattered, sparse_matmul; Vector3, Quaternion,
                     scalar_product, vector_norm, rotate; of arrays: total, dot, norm, norm2, axpy, affine, mapfold,
                     filter_into, argmax, sort, sort_pairs, permute, cumulative_sum, reverse; hadamard, fft
    factorisations   cholesky, lstsq, eigh, svd
    calculus         interpolate, spline, interpolate_cubic, trapezoid, simpson, gauss_legendre
    statistics       mean, variance, covariance, correlation, largest, logsumexp, softmax, cross_entropy, relu,
                     normal_logpdf, normal_loglikelihood, box_muller; perceptron, nice
    dynamics         verlet, yoshida4, reversible_heun, rk4, leapfrog, kick, lax_wendroff, lax_wendroff_step
    dictionaries     Dictionary, insert, remove, get, add; imported from the module
    random           PCG32, PCG64, Xoshiro256, philox; word, uniform, normal, integer, shuffle, permutation, bernoulli,
                     dropout; imported from the module
    time_space       bennett, bennett_steps, bennett_calls, bennett_states, bennett_any, bennett_any_calls; treeverse,
                     treeverse_steps, revolve, online
"""

from retrograd.library.arithmetic import (
    factorial,
    fibonacci,
    first_fibonacci,
    idiv,
    iexp,
    imul,
    log_factorial,
    power,
    scale,
)
from retrograd.library.calculus import gauss_legendre, interpolate, interpolate_cubic, simpson, spline, trapezoid
from retrograd.library.complex import Complex, complex_abs, complex_arg
from retrograd.library.dynamics import (
    kick,
    lax_wendroff,
    lax_wendroff_step,
    leapfrog,
    reversible_heun,
    rk4,
    verlet,
    yoshida4,
)
from retrograd.library.factorisations import cholesky, eigh, lstsq, svd
from retrograd.library.linear_algebra import (
    Quaternion,
    Vector3,
    affine,
    argmax,
    axpy,
    cumulative_sum,
    determinant,
    dot,
    eliminate,
    fft,
    filter_into,
    hadamard,
    inverse,
    mapfold,
    matmul,
    matvec,
    norm,
    norm2,
    permute,
    qr,
    reverse,
    rotate,
    rotate_planes,
    scalar_product,
    solve,
    sort,
    sort_pairs,
    sparse_dot,
    sparse_dot_scattered,
    sparse_matmul,
    total,
    vector_norm,
)
from retrograd.library.statistics import (
    box_muller,
    correlation,
    covariance,
    cross_entropy,
    largest,
    logsumexp,
    mean,
    nice,
    normal_loglikelihood,
    normal_logpdf,
    perceptron,
    relu,
    softmax,
    variance,
)
from retrograd.library.time_space import (
    bennett,
    bennett_any,
    bennett_any_calls,
    bennett_calls,
    bennett_states,
    bennett_steps,
    online,
    revolve,
    treeverse,
    treeverse_steps,
)

__all__ = [
    "Complex", "Quaternion", "Vector3", "affine", "argmax", "axpy", "bennett", "bennett_any", "bennett_any_calls",
    "bennett_calls", "bennett_states", "bennett_steps", "box_muller", "cholesky", "complex_abs", "complex_arg",
    "correlation", "covariance", "cross_entropy", "cumulative_sum", "determinant", "dot", "eigh", "eliminate",
    "factorial", "fft", "fibonacci", "filter_into", "first_fibonacci", "gauss_legendre", "hadamard", "idiv", "iexp", "imul",
    "interpolate", "interpolate_cubic", "inverse", "kick", "largest", "lax_wendroff", "lax_wendroff_step",
    "leapfrog", "log_factorial", "logsumexp", "lstsq", "mapfold", "matmul", "matvec", "mean", "nice", "norm",
    "norm2", "normal_loglikelihood", "normal_logpdf", "online", "perceptron", "permute", "power", "qr", "relu",
    "reverse", "reversible_heun", "revolve", "rk4", "rotate", "rotate_planes", "scalar_product", "scale", "simpson",
    "softmax", "solve", "sort", "sort_pairs", "sparse_dot", "sparse_dot_scattered", "sparse_matmul", "spline",
    "svd", "total", "trapezoid", "treeverse", "treeverse_steps", "variance", "vector_norm", "verlet", "yoshida4",
]  # fmt: skip
