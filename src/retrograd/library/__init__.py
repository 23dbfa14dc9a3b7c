"""The library: reversible functions, written in the language, that serve as examples of it.

A function adds its result to its first arguments and does not change the others, unless it works in place; `~f`
subtracts the result. No garbage is left.

    elementary       tanh, sinh, cosh, asin, acos, log2, log10, exp2, expm1, log1p, cbrt, hypot, erf
    arithmetic       imul, idiv, scale, factorial, log_factorial, power, iexp, fibonacci, first_fibonacci
    complex          Complex, complex_abs, complex_arg
    linear_algebra   matvec, matmul, eliminate, solve, inverse, determinant, qr, cholesky, lstsq, eigh, rotate_planes;
                     of sparse matrices: sparse_dot, sparse_dot_scattered, sparse_matmul; Vector3, Quaternion,
                     scalar_product, vector_norm, rotate; of arrays: total, dot, norm, norm2, axpy, affine, mapfold,
                     filter_into, argmax, sort, cumulative_sum, reverse; fft
    statistics       mean, variance, covariance, largest, logsumexp, softmax, cross_entropy, relu, normal_logpdf,
                     normal_loglikelihood, box_muller; perceptron, nice
    dynamics         leapfrog, kick, lax_wendroff, lax_wendroff_step
    dictionaries     Dictionary, insert, remove, get, add; imported from the module
    random           PCG32, PCG64, Xoshiro256, philox; word, uniform, normal, integer, shuffle, permutation, bernoulli,
                     dropout; imported from the module
    time_space       bennett, bennett_steps, bennett_calls, bennett_states; treeverse, treeverse_steps, revolve
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
from retrograd.library.complex import Complex, complex_abs, complex_arg
from retrograd.library.dynamics import kick, lax_wendroff, lax_wendroff_step, leapfrog
from retrograd.library.linear_algebra import (
    Quaternion,
    Vector3,
    affine,
    argmax,
    axpy,
    cholesky,
    cumulative_sum,
    determinant,
    dot,
    eigh,
    eliminate,
    fft,
    filter_into,
    inverse,
    lstsq,
    mapfold,
    matmul,
    matvec,
    norm,
    norm2,
    qr,
    reverse,
    rotate,
    rotate_planes,
    scalar_product,
    solve,
    sort,
    sparse_dot,
    sparse_dot_scattered,
    sparse_matmul,
    total,
    vector_norm,
)
from retrograd.library.statistics import (
    box_muller,
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
    bennett_calls,
    bennett_states,
    bennett_steps,
    revolve,
    treeverse,
    treeverse_steps,
)

__all__ = [
    "Complex", "Quaternion", "Vector3", "affine", "argmax", "axpy", "bennett", "bennett_calls", "bennett_states",
    "bennett_steps", "box_muller", "cholesky", "complex_abs", "complex_arg", "covariance", "cross_entropy",
    "cumulative_sum", "determinant", "dot", "eigh", "eliminate", "factorial", "fft", "fibonacci", "filter_into",
    "first_fibonacci", "idiv", "iexp", "imul", "inverse", "kick", "largest", "lax_wendroff", "lax_wendroff_step",
    "leapfrog", "log_factorial", "logsumexp", "lstsq", "mapfold", "matmul", "matvec", "mean", "nice", "norm",
    "norm2", "normal_loglikelihood", "normal_logpdf", "perceptron", "power", "qr", "relu", "reverse", "revolve",
    "rotate", "rotate_planes", "scalar_product", "scale", "softmax", "solve", "sort", "sparse_dot",
    "sparse_dot_scattered", "sparse_matmul", "total", "treeverse", "treeverse_steps", "variance", "vector_norm",
]  # fmt: skip
