"""Arrays of other libraries as arrays of NumPy: PyTorch, JAX, and every library that lends arrays by DLPack.

    host_array(x)[i] == x[i],  exactly: numbers of bfloat16 and float8 are numbers of float32, too

Trap: a tensor of PyTorch that requires a gradient is refused, since the gradient would end at the call. `rg.to_torch(f)` continues it.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retrograd.isa.diagnostics import Diagnostic, InputError


def is_foreign(kind: type) -> bool:
    """Whether values of this type are arrays of another library."""
    return hasattr(kind, "__dlpack__") and not issubclass(kind, np.ndarray)


def way_out(value: Any) -> str | None:
    """A hint: the argument to pass in place of an array of another library; None for other values."""
    torch, jax = sys.modules.get("torch"), sys.modules.get("jax")
    if torch is not None and isinstance(value, torch.Tensor):
        if value.requires_grad or torch._C._functorch.is_functorch_wrapped_tensor(value):
            return "`rg.to_torch(f)` is a function that Torch differentiates and maps; `x.detach()` is the tensor without its gradient."
    elif jax is not None and isinstance(value, jax.core.Tracer):
        return "`rg.to_jax(f)` is a function that JAX compiles, differentiates and maps."
    if not is_foreign(type(value)):
        return None
    if hasattr(value, "item"):
        return "Pass a NumPy array of its numbers, or `x.item()` for one number."
    return "Pass a NumPy array of its numbers, `numpy.from_dlpack(x)`."


def host_array(value: Any) -> NDArray[Any]:
    """np.asarray(value), of a type of NumPy's own. Raises InputError RG0603 for an array that its library does not lend, naming a way out."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        if value.requires_grad:
            message = "a tensor of Torch that requires a gradient, which would end at this call"
            raise InputError(Diagnostic("RG0603", message, hint=way_out(value)))
        return tensor_array(value)
    try:
        array = np.asarray(value)
        if array.dtype == object and is_foreign(type(value)):
            array = np.from_dlpack(value)
    except Exception as error:  # libraries raise exceptions of their own
        if not hasattr(value, "__array__") and not is_foreign(type(value)):
            raise
        raise _not_lent(value, error) from None
    return of_own_type(array)


def tensor_array(tensor: Any) -> NDArray[Any]:
    """The numbers of a tensor of Torch, without its gradient. Raises InputError RG0603 for tensors without numbers on the host, such as sparse ones."""
    torch = sys.modules["torch"]
    try:
        t = tensor.detach().cpu().resolve_conj().resolve_neg()
        if t.dtype is torch.complex32:
            t = t.to(torch.complex64)
        elif t.is_floating_point() and t.dtype not in (torch.float16, torch.float32, torch.float64):
            t = t.to(torch.float32)
        found: NDArray[Any] = t.numpy()
    except Exception as error:  # RuntimeError, TypeError and NotImplementedError, by layout and version
        raise _not_lent(tensor, error) from None
    return found


def of_own_type(array: NDArray[Any]) -> NDArray[Any]:
    """An array of bfloat16, float8 or int4, types that JAX adds to NumPy, as one of float32 or int32, which hold each of their numbers."""
    # NumPy's own types are 1, structured ones 0.
    if array.dtype.isbuiltin != 2:
        return array
    return array.astype(np.int32 if "int" in array.dtype.name else np.float32)


def _not_lent(value: Any, error: Exception) -> InputError:
    kind = type(value)
    reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
    message = (
        f"an array of `{kind.__module__}.{kind.__qualname__}` that is not in the host's memory as numbers: {reason}"
    )
    return InputError(Diagnostic("RG0603", message, hint=way_out(value)))
