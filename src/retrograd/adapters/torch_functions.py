"""A reversible function as a `torch.autograd.Function`: Torch differentiates through it by its own way back.

g = to_torch(f);  g(x).backward();  x.grad = rg.grad(f)(x),  rounded to the dtype of x
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

    `outputs`: a position, a name or a part such as `"a.x"` gives one value, a sequence a tuple, None all arguments. `backward()` runs the gradient program.
    Tensors, and trees of tensors for structs, are differentiated where they require it; other arguments are passed as they are.
    Results are tensors on the CPU, of the dtype of the argument, float64 for Python's floats. The gradient has no derivative in
    Torch: second derivatives are those of rg.hessian.
    Raises InputError where Torch is not installed, NotDifferentiable for outputs that do not exist; a call raises as `vjp`.
    Trap: a tensor that is changed in place before `backward()` makes Torch raise a RuntimeError, as with operations of its own.
    """
    try:
        import torch
        from torch.utils import _pytree as pytree
    except ImportError:
        refuse_missing("to_torch", "torch")
    adapted = Adapted(f, outputs, scale, engine, format, precision)

    def host(value: Any) -> Any:
        return plain_value(value.detach().cpu().numpy()) if isinstance(value, torch.Tensor) else value

    def tensor(value: Any, like: Any) -> Any:
        """A real result as a tensor of the dtype and device of `like`, an argument."""
        dtype, device = (like.dtype, like.device) if isinstance(like, torch.Tensor) else (None, None)
        return torch.tensor(np.array(value), dtype=dtype, device=device)

    class Run(torch.autograd.Function):  # type: ignore[misc]
        """The leaves of the arguments → the leaves of the chosen results."""

        @staticmethod
        def forward(ctx: Any, spec: Any, *leaves: Any) -> Any:
            values = pytree.tree_unflatten([host(leaf) for leaf in leaves], spec)
            results, ctx.pullback = adapted.run(values)
            of = pytree.tree_unflatten([*leaves], spec)
            given, ctx.results = pytree.tree_flatten([of[i] for i in adapted.chosen])
            found = pytree.tree_leaves(results)
            out = tuple(tensor(value, like) for value, like in zip(found, given, strict=True))
            ctx.mark_non_differentiable(*[t for t in out if not _is_inexact(t)])
            # Torch refuses the way back where a saved tensor has been changed in place since.
            ctx.save_for_backward(*[leaf for leaf in leaves if isinstance(leaf, torch.Tensor)])
            ctx.others = [_SAVED if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
            ctx.spec, ctx.real = spec, [_is_inexact(t) for t in out]
            return out

        @staticmethod
        @torch.autograd.function.once_differentiable  # type: ignore[untyped-decorator]
        def backward(ctx: Any, *cotangents: Any) -> Any:
            whole = pytree.tree_unflatten([host(c) for c in cotangents], ctx.results)
            real = pytree.tree_unflatten(ctx.real, ctx.results)
            kept = [c if any(pytree.tree_leaves(r)) else None for c, r in zip(whole, real, strict=True)]
            pulled = adapted.pulled(ctx.pullback, kept)
            saved = iter(ctx.saved_tensors)
            of = pytree.tree_unflatten([next(saved) if leaf is _SAVED else leaf for leaf in ctx.others], ctx.spec)
            found: list[Any] = []
            for value, argument in zip(pulled, of, strict=True):
                likes = pytree.tree_leaves(argument)
                parts = [None] * len(likes) if value is None else pytree.tree_leaves(value)
                for part, like in zip(parts, likes, strict=True):
                    differentiated = isinstance(like, torch.Tensor) and _is_inexact(like)
                    found.append(tensor(part, like) if differentiated and part is not None else None)
            return None, *found

    def g(*args: Any, **keywords: Any) -> Any:
        leaves, spec = pytree.tree_flatten(adapted.values(args, keywords))
        out = Run.apply(spec, *leaves)
        of = pytree.tree_unflatten(leaves, spec)
        _, results = pytree.tree_flatten([of[i] for i in adapted.chosen])
        return adapted.returned(pytree.tree_unflatten([*out], results))

    g.__name__ = f"to_torch({f.__name__})"
    g.__doc__ = f"{f.__name__} as a function of Torch."
    return g


def _is_inexact(t: Any) -> bool:
    """Whether a tensor has a derivative: of floats or complex numbers."""
    return bool(t.is_floating_point() or t.is_complex())
