"""A reversible function as a `torch.autograd.Function`: Torch differentiates through it by its own way back.

g = to_torch(f);  g(x).backward();  x.grad = rg.grad(f)(x),  rounded to the dtype of x
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retrograd.compiler.compiled import Precision
from retrograd.derivatives._adapters import Adapted, Trees, refuse_missing
from retrograd.derivatives._arguments import Scale, Which
from retrograd.isa.diagnostics import Diagnostic
from retrograd.isa.words import Format
from retrograd.runtime._arrays import tensor_array
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

    `outputs`: a position, a name or a part such as `"a.x"` gives one value, a sequence a tuple, None all arguments. `backward()` runs the gradient program.
    torch.func.grad, vjp and jacrev do so, too; torch.func.vmap runs f, and the gradient program, on all elements as one batch, each with the bits of its own call.
    Tensors, and trees of tensors for structs, are differentiated where they require it; other arguments are passed as they are.
    Results are tensors on the CPU, of the dtype of the argument, float64 for Python's floats. The gradient has no derivative in
    Torch, and f no forward mode: second derivatives are those of rg.hessian, tangents those of rg.jvp.
    Raises InputError where Torch is not installed, NotDifferentiable for outputs that do not exist; a call raises as `vjp`.
    Trap: a tensor that is changed in place before `backward()` makes Torch raise a RuntimeError, as with operations of its own.
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
            # Torch refuses the way back where a saved tensor has been changed in place since.
            ctx.save_for_backward(*[leaf for leaf in leaves if isinstance(leaf, torch.Tensor)])
            ctx.others = [_SAVED if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]

        @staticmethod
        def backward(ctx: Any, *cotangents: Any) -> Any:
            saved = iter(ctx.saved_tensors)
            leaves = [next(saved) if leaf is _SAVED else leaf for leaf in ctx.others]
            pulled = iter(Pull.apply(ctx.spec, ctx.rank, len(leaves), *leaves, *cotangents))
            # An axis of length 1 is shared by all elements, whose cotangents are added up.
            found = [next(pulled).sum_to_size(leaf.shape) if _is_differentiated(leaf) else None for leaf in leaves]
            return None, None, *found

        @staticmethod
        def jvp(ctx: Any, *_: Any) -> Any:
            message = f"`{f.__name__}` has no forward mode in Torch"
            hint = "rg.jvp(f, args, tangents) is the forward mode, rg.hessian(f) has second derivatives; torch.func.grad and jacrev go backward."
            raise NotDifferentiable(Diagnostic("RG0603", message, hint=hint))

        @staticmethod
        def vmap(info: Any, dims: Any, spec: Any, rank: int, *leaves: Any) -> Any:
            found = Run.apply(spec, rank + 1, *along(dims[2:], leaves))
            return found, (0,) * len(found)

    class Pull(torch.autograd.Function):  # type: ignore[misc]
        """(the leaves of the arguments, the cotangents of the chosen results) → cotangents of the leaves that have a derivative."""

        @staticmethod
        def forward(spec: Any, rank: int, count: int, *both: Any) -> Any:
            leaves, cotangents = both[:count], both[count:]
            _, form = chosen_leaves(leaves, spec)
            whole = pytree.tree_unflatten([host(c) for c in cotangents], form)
            real = pytree.tree_unflatten([_is_inexact(c) for c in cotangents], form)
            kept = [c if any(pytree.tree_leaves(r)) else None for c, r in zip(whole, real, strict=True)]
            pulled = adapted.pulled(pytree.tree_unflatten([host(x) for x in leaves], spec), kept, rank)
            found: list[Any] = []
            for parts, argument in zip(pulled, pytree.tree_unflatten([*leaves], spec), strict=True):
                likes = pytree.tree_leaves(argument)
                for k, like in enumerate(likes):
                    if _is_differentiated(like):
                        found.append(torch.zeros_like(like) if parts is None else tensor(parts[k], like))
            return tuple(found)

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            pass

        @staticmethod
        def backward(ctx: Any, *_: Any) -> Any:
            hint = "rg.hessian(f) has the second derivatives."
            message = f"the gradient of `{f.__name__}` has no derivative in Torch"
            raise NotDifferentiable(Diagnostic("RG0603", message, hint=hint))

        @staticmethod
        def vmap(info: Any, dims: Any, spec: Any, rank: int, count: int, *both: Any) -> Any:
            found = Pull.apply(spec, rank + 1, count, *along(dims[3:], both))
            return found, (0,) * len(found)

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
