"""Reversible functions in Torch: a function as a `torch.autograd.Function`, with first and second derivatives.

g = to_torch(f);  g(x).backward();  x.grad = rg.grad(f)(x)          Run: leaves of the arguments → leaves of the results
torch.func.jvp(g, …)[1] = rg.jvp(f, …)                              Push, its derivative forward; Pull, backward
torch.func.hessian(g)(x) = rg.hessian(f)(x)                         Curve, the derivative of Pull
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from retrograd.compiler.compiled import Precision
from retrograd.derivatives._adapters import Adapted, Trees, refuse_missing
from retrograd.isa.diagnostics import Diagnostic
from retrograd.isa.words import Format
from retrograd.runtime._arrays import tensor_array
from retrograd.runtime._execution import Scale, Which
from retrograd.runtime._reversible import Inverse, NotDifferentiable, Reversible

#: the place of a tensor that Torch has saved
_SAVED = object()


def to_torch(
    f: Reversible | Inverse,
    outputs: Which = 0,
    *,
    scale: Scale = "auto",
    engine: str = "auto",
    format: Format | str | None = None,
    precision: Precision | None = None,
) -> Callable[..., Any]:
    """g(*args) = the values that the arguments `outputs` have after f(*args), tensors with f's own derivative.

    `outputs`: a position, a name or a part such as `"a.x"` gives one value, a sequence a tuple, None all arguments.
    `backward()` runs the gradient program. torch.func.grad, vjp and jacrev do so, too; torch.func.vmap runs f, and the
    gradient program, on all elements as one batch, each with the bits of its own call.
    Tensors, and trees of tensors for structs, are differentiated where they require it; other arguments are passed as
    they are. torch.func.jvp and jacfwd run rg.jvp, torch.func.hessian and a second `backward()` rg.hvp and rg.jvp, a
    run for each element of a batch.
    Results are tensors on the CPU, of the dtype of the argument, float64 for Python's floats. Second derivatives are of
    real results, and have no derivatives in Torch; nor has jvp a jvp.
    Raises InputError where Torch is not installed, NotDifferentiable for outputs that do not exist; a call raises as
    `vjp`.
    Trap: a tensor that is changed in place before `backward()` makes Torch raise a RuntimeError, as with operations of
    its own.
    """
    try:
        import torch
        from torch.utils import _pytree as pytree
    except ImportError:
        refuse_missing("to_torch", "torch")
    adapted = Adapted(f, outputs, scale, engine, format, precision, Trees(pytree.tree_flatten, pytree.tree_unflatten))

    def host(leaf: Any) -> Any:
        return tensor_array(leaf) if isinstance(leaf, torch.Tensor) else leaf

    def tensor(value: NDArray[Any], like: Any) -> Any:
        """A real result as a tensor of the dtype and device of `like`, an argument."""
        dtype, device = (like.dtype, like.device) if isinstance(like, torch.Tensor) else (None, None)
        return torch.tensor(value, dtype=dtype, device=device)

    def along(dims: Sequence[int | None], leaves: Sequence[Any]) -> list[Any]:
        """The leaves with one more axis in front: that of Torch's vmap, of length 1 where a tensor has none."""
        return [
            leaf[None] if isinstance(leaf, np.ndarray) else leaf if not isinstance(leaf, torch.Tensor)
            else leaf.unsqueeze(0) if dim is None else leaf.movedim(dim, 0)
            for leaf, dim in zip(leaves, dims, strict=True)
        ]  # fmt: skip

    def chosen_leaves(leaves: Sequence[Any], spec: Any) -> tuple[list[Any], Any]:
        """The leaves of the chosen arguments, and their form."""
        of = pytree.tree_unflatten([*leaves], spec)
        found: tuple[list[Any], Any] = pytree.tree_flatten([of[i] for i in adapted.chosen])
        return found

    class Run(torch.autograd.Function):  # type: ignore[misc]
        """The leaves of the arguments, with `rank` axes of Torch's vmap in front → the leaves of the chosen results."""

        @staticmethod
        def forward(spec: Any, rank: int, *leaves: Any) -> Any:
            values = pytree.tree_unflatten([host(leaf) for leaf in leaves], spec)
            given, _ = chosen_leaves(leaves, spec)
            return tuple(tensor(v, like) for v, like in zip(adapted.results(values, rank), given, strict=True))

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.spec, ctx.rank, *leaves = inputs
            ctx.mark_non_differentiable(*[t for t in output if not _is_inexact(t)])
            keep(ctx, leaves)

        @staticmethod
        def backward(ctx: Any, *cotangents: Any) -> Any:
            leaves = kept(ctx)
            pulled = iter(Pull.apply(ctx.spec, ctx.rank, len(leaves), *leaves, *cotangents))
            # An axis of length 1 is shared by all elements, whose cotangents are added up.
            found = [next(pulled).sum_to_size(leaf.shape) if _is_differentiated(leaf) else None for leaf in leaves]
            return None, None, *found

        @staticmethod
        def jvp(ctx: Any, *given: Any) -> Any:
            leaves = kept(ctx)
            return Push.apply(ctx.spec, ctx.rank, len(leaves), *leaves, *tangents_of(leaves, given[2:]))

        @staticmethod
        def vmap(info: Any, dims: Any, spec: Any, rank: int, *leaves: Any) -> Any:
            found = Run.apply(spec, rank + 1, *along(dims[2:], leaves))
            return found, (0,) * len(found)

    class Derivative(torch.autograd.Function):  # type: ignore[misc]
        """What the first and second derivatives share. Their own derivatives are refused where a class has none."""

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.spec, ctx.rank, ctx.count, *both = inputs
            keep(ctx, both)

        @staticmethod
        def backward(ctx: Any, *_: Any) -> Any:
            refuse_in_torch()

        @staticmethod
        def jvp(ctx: Any, *_: Any) -> Any:
            refuse_in_torch()

    class Pull(Derivative):
        """(the leaves of the arguments, the cotangents of the chosen results) → cotangents of the leaves that have a derivative."""

        @staticmethod
        def forward(spec: Any, rank: int, count: int, *both: Any) -> Any:
            leaves, cotangents = both[:count], both[count:]
            pulled = adapted.pulled(whole(leaves, spec), weights(leaves, cotangents, spec), rank)
            return differentiated(pulled, leaves, spec)

        @staticmethod
        def backward(ctx: Any, *ways: Any) -> Any:
            leaves, cotangents = apart(ctx)
            moved = placed(leaves, ways)
            curved = iter(Curve.apply(ctx.spec, ctx.rank, ctx.count, *leaves, *moved, *cotangents))
            pushed = Push.apply(ctx.spec, ctx.rank, ctx.count, *leaves, *moved)
            found = [next(curved).sum_to_size(leaf.shape) if _is_differentiated(leaf) else None for leaf in leaves]
            ends = [
                p.sum_to_size(c.shape) if _is_differentiated(c) else None
                for p, c in zip(pushed, cotangents, strict=True)
            ]
            return None, None, None, *found, *ends

        @staticmethod
        def jvp(ctx: Any, *given: Any) -> Any:
            leaves, cotangents = apart(ctx)
            ways = tangents_of(leaves, given[3 : 3 + ctx.count])
            turned = tangents_of(cotangents, given[3 + ctx.count :])
            curved = Curve.apply(ctx.spec, ctx.rank, ctx.count, *leaves, *ways, *cotangents)
            pulled = Pull.apply(ctx.spec, ctx.rank, ctx.count, *leaves, *turned)
            return tuple(a + b for a, b in zip(curved, pulled, strict=True))

        @staticmethod
        def vmap(info: Any, dims: Any, spec: Any, rank: int, count: int, *both: Any) -> Any:
            found = Pull.apply(spec, rank + 1, count, *along(dims[3:], both))
            return found, (0,) * len(found)

    class Push(Derivative):
        """(the leaves of the arguments, their tangents) → tangents of the leaves of the chosen results."""

        @staticmethod
        def forward(spec: Any, rank: int, count: int, *both: Any) -> Any:
            leaves, tangents = both[:count], both[count:]
            pushed = adapted.pushed(whole(leaves, spec), directions(leaves, tangents, spec), rank)
            given, _ = chosen_leaves(leaves, spec)
            return tuple(tensor(v, like) for v, like in zip(pushed, given, strict=True))

        @staticmethod
        def backward(ctx: Any, *cotangents: Any) -> Any:
            leaves, tangents = apart(ctx)
            curved = iter(Curve.apply(ctx.spec, ctx.rank, ctx.count, *leaves, *tangents, *cotangents))
            pulled = iter(Pull.apply(ctx.spec, ctx.rank, ctx.count, *leaves, *cotangents))
            real = [_is_differentiated(leaf) for leaf in leaves]
            found = [next(curved).sum_to_size(x.shape) if r else None for x, r in zip(leaves, real, strict=True)]
            ends = [next(pulled).sum_to_size(t.shape) if r else None for t, r in zip(tangents, real, strict=True)]
            return None, None, None, *found, *ends

        @staticmethod
        def vmap(info: Any, dims: Any, spec: Any, rank: int, count: int, *both: Any) -> Any:
            found = Push.apply(spec, rank + 1, count, *along(dims[3:], both))
            return found, (0,) * len(found)

    class Curve(Derivative):
        """(the leaves, their tangents, the cotangents of the chosen results) → the change of `Pull` in this direction."""

        @staticmethod
        def forward(spec: Any, rank: int, count: int, *given: Any) -> Any:
            leaves, tangents, cotangents = given[:count], given[count : 2 * count], given[2 * count :]
            curved = adapted.curved(
                whole(leaves, spec), directions(leaves, tangents, spec), weights(leaves, cotangents, spec), rank
            )
            return differentiated(curved, leaves, spec)

        @staticmethod
        def vmap(info: Any, dims: Any, spec: Any, rank: int, count: int, *given: Any) -> Any:
            found = Curve.apply(spec, rank + 1, count, *along(dims[3:], given))
            return found, (0,) * len(found)

    # ---------------------------------------------------------------- leaves and trees

    def keep(ctx: Any, leaves: Sequence[Any]) -> None:
        # Torch refuses the way back where a saved tensor has been changed in place since.
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        ctx.save_for_backward(*tensors)
        ctx.save_for_forward(*tensors)
        ctx.others = [_SAVED if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]

    def kept(ctx: Any) -> list[Any]:
        saved = iter(ctx.saved_tensors)
        return [next(saved) if leaf is _SAVED else leaf for leaf in ctx.others]

    def apart(ctx: Any) -> tuple[list[Any], list[Any]]:
        """The leaves of the arguments, and what was given with them."""
        both = kept(ctx)
        return both[: ctx.count], both[ctx.count :]

    def tangents_of(leaves: Sequence[Any], given: Sequence[Any]) -> list[Any]:
        """A tangent for each leaf; zeros where Torch has none, None for leaves without a derivative."""
        return [
            None if not _is_differentiated(x) else torch.zeros_like(x) if t is None else t
            for x, t in zip(leaves, given, strict=True)
        ]

    def placed(leaves: Sequence[Any], found: Sequence[Any]) -> list[Any]:
        """Tangents of the leaves that have a derivative, at the places of all."""
        each = iter(found)
        return tangents_of(leaves, [next(each) if _is_differentiated(x) else None for x in leaves])

    def whole(leaves: Sequence[Any], spec: Any) -> Any:
        return pytree.tree_unflatten([host(leaf) for leaf in leaves], spec)

    def directions(leaves: Sequence[Any], tangents: Sequence[Any], spec: Any) -> list[Any]:
        """The tangents of the arguments; None for an argument without a derivative."""
        real = pytree.tree_unflatten([_is_differentiated(x) for x in leaves], spec)
        given = [np.zeros(np.shape(host(x))) if t is None else host(t) for x, t in zip(leaves, tangents, strict=True)]
        found = pytree.tree_unflatten(given, spec)
        return [t if any(pytree.tree_leaves(r)) else None for t, r in zip(found, real, strict=True)]

    def weights(leaves: Sequence[Any], cotangents: Sequence[Any], spec: Any) -> list[Any]:
        """The cotangents of the chosen results; None for a result without a derivative."""
        _, form = chosen_leaves(leaves, spec)
        found = pytree.tree_unflatten([host(c) for c in cotangents], form)
        real = pytree.tree_unflatten([_is_inexact(c) for c in cotangents], form)
        return [c if any(pytree.tree_leaves(r)) else None for c, r in zip(found, real, strict=True)]

    def differentiated(found: Sequence[Any], leaves: Sequence[Any], spec: Any) -> tuple[Any, ...]:
        """The parts for the leaves that have a derivative, as tensors."""
        out: list[Any] = []
        for parts, argument in zip(found, pytree.tree_unflatten([*leaves], spec), strict=True):
            for k, like in enumerate(pytree.tree_leaves(argument)):
                if _is_differentiated(like):
                    out.append(torch.zeros_like(like) if parts is None else tensor(parts[k], like))
        return tuple(out)

    def refuse_in_torch() -> NoReturn:
        hint = "First and second derivatives are there: of the second ones, all but jvp of jvp."
        message = f"this derivative of a derivative of `{f.__name__}` is not there in Torch"
        raise NotDifferentiable(Diagnostic("RG0603", message, hint=hint))

    def g(*args: Any, **keywords: Any) -> Any:
        leaves, spec = pytree.tree_flatten(adapted.values(args, keywords))
        # Copies: an array of NumPy may be changed before the way back.
        leaves = [leaf.copy() if isinstance(leaf, np.ndarray) else leaf for leaf in leaves]
        out = Run.apply(spec, 0, *leaves)
        _, results = chosen_leaves(leaves, spec)
        return adapted.returned(pytree.tree_unflatten([*out], results))

    def _is_differentiated(leaf: Any) -> bool:
        return isinstance(leaf, torch.Tensor) and _is_inexact(leaf)

    g.__name__ = f"to_torch({f.__name__})"
    g.__doc__ = f"{f.__name__} as a function of Torch."
    return g


def _is_inexact(t: Any) -> bool:
    """Whether a tensor has a derivative: of floats or complex numbers."""
    return bool(t.is_floating_point() or t.is_complex())
