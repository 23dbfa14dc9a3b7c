"""A reversible function as a `jax.custom_vjp`: JAX differentiates through it by its own way back.

g = to_jax(f);  jax.grad(g)(x) = rg.grad(f)(x),  rounded to the dtype of x
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retrograd.compiler.compiled import Precision
from retrograd.derivatives._adapters import Adapted, Trees, is_function, leading, refuse_missing
from retrograd.derivatives._arguments import Scale, Which
from retrograd.isa.words import Format
from retrograd.runtime._arrays import of_own_type
from retrograd.runtime._reversible import Inverse, Reversible

#: the callbacks that an adapter keeps
_CALLBACKS = 64


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
    program; jax.jit calls it as a host function, and jax.vmap runs all elements as one batch, each with the bits of its own call. Arguments are JAX arrays, numbers, or
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
    number = jax.numpy
    adapted = Adapted(f, outputs, scale, engine, format, precision, Trees(jax.tree.flatten, _unflatten))

    def is_inexact(leaf: Any) -> bool:
        """Whether an array has a derivative: of floats or complex numbers, those of JAX's own types, too."""
        return bool(number.issubdtype(leaf.dtype, number.inexact))

    #: the callbacks that were made, the last ones: of an equal call JAX compiles nothing again where the callback is the same object
    callbacks: dict[Any, Callable[..., Any]] = {}

    def on_host(run: Callable[..., list[NDArray[Any]]], fixed_values: dict[int, Any], shapes: Any, *arrays: Any) -> Any:
        """run(*arrays, rank) as arrays of these shapes and dtypes. JAX's vmap puts `rank` axes in front of all arrays.

        `run` is determined by its code, the static values, and the shapes.
        """
        given_leaves, given_form = jax.tree.flatten(arrays)
        wanted, form = jax.tree.flatten(shapes)
        known = tuple((leaf.shape, leaf.dtype) for leaf in (*given_leaves, *wanted))
        key = run.__code__, tuple((i, id(v)) for i, v in fixed_values.items()), given_form, form, known
        own = max((leaf.ndim for leaf in given_leaves), default=0)

        def called(*given: Any) -> Any:
            values = jax.tree.map(lambda leaf: of_own_type(np.asarray(leaf)), list(given))
            leaves = jax.tree.leaves(values)
            rank = max((leaf.ndim for leaf in leaves), default=0) - own
            lead = leading(leaves, rank)
            found = run(*values, rank) if 0 not in lead else [np.zeros(())] * len(wanted)
            made = [np.broadcast_to(v.astype(s.dtype), (*lead, *s.shape)) for v, s in zip(found, wanted, strict=True)]
            return jax.tree.unflatten(form, made)

        kept = callbacks.pop(key, called)
        callbacks[key] = kept
        if len(callbacks) > _CALLBACKS:
            callbacks.pop(next(iter(callbacks)), None)
        return jax.pure_callback(kept, shapes, *arrays, vmap_method="expand_dims")

    def call(values: list[Any], fixed_values: dict[int, Any]) -> Any:
        """The custom_vjp of the arguments that are arrays, at these static values."""

        def whole(arrays: list[Any]) -> list[Any]:
            found = iter(arrays)
            return [fixed_values[i] if i in fixed_values else next(found) for i in range(len(adapted.static))]

        def place(i: int) -> int:
            return i - sum(j < i for j in fixed_values)

        def primal(arrays: list[Any]) -> list[Any]:
            chosen = [arrays[place(i)] for i in adapted.chosen]
            shapes = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), chosen)

            def run(given: list[Any], rank: int) -> list[NDArray[Any]]:
                return adapted.results(whole(given), rank)

            results: list[Any] = on_host(run, fixed_values, shapes, arrays)
            return results

        def forward(arrays: list[Any]) -> tuple[list[Any], list[Any]]:
            return primal(arrays), arrays

        def back(arrays: list[Any], cotangents: list[Any]) -> tuple[list[Any]]:
            # In a function that JAX has traced, an argument that is a number of the source comes back as a literal.
            arrays = jax.tree.map(number.asarray, arrays)
            real = [jax.tree.map(is_inexact, arrays[place(i)]) for i in adapted.chosen]
            # JAX gives cotangents of integers the dtype float0, which no callback takes.
            given = jax.tree.map(lambda c, r: c if r else number.zeros(c.shape), cotangents, real)
            shapes = jax.tree.map(
                lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype if is_inexact(a) else np.dtype(np.float32)), arrays
            )

            def run(given_arrays: list[Any], given_cotangents: list[Any], rank: int) -> list[NDArray[Any]]:
                # In JAX the cotangent of a complex number is ∂L/∂re − i ∂L/∂im.
                turned = jax.tree.map(np.conj, given_cotangents)
                kept = [c if any(jax.tree.leaves(r)) else None for c, r in zip(turned, real, strict=True)]
                pulled = adapted.pulled(whole(given_arrays), kept, rank)
                out: list[NDArray[Any]] = []
                for i, leaves in enumerate(pulled):
                    if i not in fixed_values:
                        zeros = [np.zeros(())] * len(jax.tree.leaves(given_arrays[place(i)]))
                        out += zeros if leaves is None else [np.conj(leaf) for leaf in leaves]
                return out

            found = on_host(run, fixed_values, shapes, arrays, given)
            zero = jax.dtypes.float0
            return (jax.tree.map(lambda a, c: c if is_inexact(a) else np.zeros(a.shape, zero), arrays, found),)

        differentiable = jax.custom_vjp(primal)
        differentiable.defvjp(forward, back)
        return differentiable(values)

    def g(*args: Any, **keywords: Any) -> Any:
        values = adapted.values(args, keywords)
        fixed_values = {i: v for i, v in enumerate(values) if adapted.static[i] or is_function(v)}
        # Copies: an array of NumPy may be changed before the way back.
        arrays = [jax.tree.map(jax.numpy.array, v) for i, v in enumerate(values) if i not in fixed_values]
        results = iter(call(arrays, fixed_values) if arrays else ())
        return adapted.returned(list(results))

    g.__name__ = f"to_jax({f.__name__})"
    g.__doc__ = f"{f.__name__} as a function of JAX."
    return g


def _unflatten(leaves: list[Any], form: Any) -> Any:
    return form.unflatten(leaves)
