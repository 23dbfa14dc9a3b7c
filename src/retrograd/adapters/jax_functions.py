"""A reversible function as a `jax.custom_vjp`: JAX differentiates through it by its own way back.

g = to_jax(f);  jax.grad(g)(x) = rg.grad(f)(x),  rounded to the dtype of x
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from retrograd.adapters.requests import Adapted, plain_value, refuse_missing
from retrograd.compiler.compiled import Precision
from retrograd.differentiation.arguments import Which
from retrograd.differentiation.scales import Scale
from retrograd.functions.reversible import Inverse, Reversible
from retrograd.isa.words import Format


def to_jax(
    f: Reversible | Inverse,
    outputs: Which = 0,
    *,
    scale: Scale = "auto",
    engine: str = "auto",
    format: Format | str | None = None,
    precision: Precision | None = None,
) -> Callable[..., Any]:
    """g(*args) = the values that the arguments `outputs` have after f(*args), a function of JAX with f's own derivative.

    `outputs`: a position, a name or a part such as `"a.x"` gives one value, a sequence a tuple, None all arguments. jax.grad, vjp and jacrev run the gradient
    program; jax.jit and vmap call it as a host function, vmap one element at a time. Arguments are JAX arrays, numbers, or
    pytrees of these for structs; each result has the shape and dtype of its argument. Static arguments and functions are passed as they are.
    Raises InputError where JAX is not installed, NotDifferentiable for outputs that do not exist; a call raises as `vjp`.
    Trap: JAX raises an error of a call, a ProgramTrap for example, as a JaxRuntimeError with the text of ours. JAX has float32 unless `jax_enable_x64` is set, and a result is rounded to it. Forward mode, jax.jvp, is refused by JAX.

    >>> g = rg.to_jax(energy)           # doctest: +SKIP
    >>> jax.grad(g, argnums=1)(0.0, x)  # doctest: +SKIP
    """
    try:
        import jax
    except ImportError:
        refuse_missing("to_jax", "jax")
    adapted = Adapted(f, outputs, scale, engine, format, precision)

    def host(values: list[Any]) -> list[Any]:
        return [jax.tree.map(lambda leaf: plain_value(np.asarray(leaf)), value) for value in values]

    def like(shapes: Any, values: Any) -> Any:
        """The values as arrays of these shapes and dtypes."""
        return jax.tree.map(lambda shape, v: np.asarray(v, dtype=shape.dtype).reshape(shape.shape), shapes, values)

    def call(values: list[Any], fixed_values: dict[int, Any]) -> Any:
        """The custom_vjp of the arguments that are arrays, at these static values."""

        def whole(arrays: list[Any]) -> list[Any]:
            found = iter(host(arrays))
            return [fixed_values[i] if i in fixed_values else next(found) for i in range(len(adapted.static))]

        def shapes_of(of: Any) -> Any:
            return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), of)

        def place(i: int) -> int:
            return i - sum(j < i for j in fixed_values)

        def primal(arrays: list[Any]) -> list[Any]:
            shapes = shapes_of([arrays[place(i)] for i in adapted.chosen])

            def run(given: list[Any]) -> Any:
                return like(shapes, adapted.run(whole(given))[0])

            results: list[Any] = jax.pure_callback(run, shapes, arrays, vmap_method="sequential")
            return results

        def forward(arrays: list[Any]) -> tuple[list[Any], list[Any]]:
            return primal(arrays), arrays

        def back(arrays: list[Any], cotangents: list[Any]) -> tuple[list[Any]]:
            # In a function that JAX has traced, an argument that is a number of the source comes back as a literal.
            arrays = jax.tree.map(jax.numpy.asarray, arrays)
            real = [jax.tree.map(_is_inexact, arrays[place(i)]) for i in adapted.chosen]
            # JAX gives cotangents of integers the dtype float0, which no callback takes.
            given = jax.tree.map(lambda c, r: c if r else np.zeros(c.shape), cotangents, real)
            shapes = jax.tree.map(
                lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype if _is_inexact(a) else np.dtype(np.float32)), arrays
            )

            def run(given_arrays: list[Any], given_cotangents: list[Any]) -> Any:
                pullback = adapted.run(whole(given_arrays))[1]
                turned = host(jax.tree.map(np.conj, given_cotangents))
                kept = [c if any(jax.tree.leaves(r)) else None for c, r in zip(turned, real, strict=True)]
                pulled = [p for i, p in enumerate(adapted.pulled(pullback, kept)) if i not in fixed_values]
                # In JAX the cotangent of a complex number is ∂L/∂re − i ∂L/∂im.
                return [
                    jax.tree.map(np.conj, like(shape, value))
                    if value is not None
                    else jax.tree.map(lambda s: np.zeros(s.shape, s.dtype), shape)
                    for shape, value in zip(shapes, pulled, strict=True)
                ]

            found = jax.pure_callback(run, shapes, arrays, given, vmap_method="sequential")
            zero = jax.dtypes.float0
            return (jax.tree.map(lambda a, c: c if _is_inexact(a) else np.zeros(a.shape, zero), arrays, found),)

        differentiable = jax.custom_vjp(primal)
        differentiable.defvjp(forward, back)
        return differentiable(values)

    def g(*args: Any, **keywords: Any) -> Any:
        values = adapted.values(args, keywords)
        fixed_values = {i: v for i, v in enumerate(values) if adapted.static[i] or isinstance(v, Reversible | Inverse)}
        # Copies: an array of NumPy may be changed before the way back.
        arrays = [jax.tree.map(jax.numpy.array, v) for i, v in enumerate(values) if i not in fixed_values]
        results = iter(call(arrays, fixed_values) if arrays else ())
        return adapted.returned(list(results))

    g.__name__ = f"to_jax({f.__name__})"
    g.__doc__ = f"{f.__name__} as a function of JAX."
    return g


def _is_inexact(leaf: Any) -> bool:
    """Whether an array has a derivative: of floats or complex numbers."""
    return bool(np.issubdtype(leaf.dtype, np.inexact))
