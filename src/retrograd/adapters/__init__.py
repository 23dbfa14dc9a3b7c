"""Reversible functions inside other systems of automatic differentiation.

    requests         the functions that are adapted: their chosen results, and values and cotangents of a call
    jax_functions    to_jax: a reversible function as a `jax.custom_vjp`
    torch_functions  to_torch: a reversible function as a `torch.autograd.Function`

Imports: differentiation and all before it. jax and torch are imported when an adapter is made, and by these two files only.
"""
