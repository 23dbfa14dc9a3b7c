"""Arrays of other libraries on a device, used in place, without a copy: PyTorch, JAX, CuPy and Numba.

    words = borrowed(tensor, device, dtypes=[np.uint64])            a device array of Numba, on the same memory

by `__cuda_array_interface__`, or by DLPack if the library lacks it. Both pass an address and a stream, since work that writes the array may
still be queued; Numba synchronises that stream. An array is used in place, so it must be contiguous, in the byte order of the machine,
and on the same device. Results are device arrays of Numba, which other libraries take by the same interface.

Trap: a borrowed array holds a reference to its lender, so the memory lives as long as the borrowed array.

Source: CUDA array interface, version 3; array API 2024.12, `__dlpack__`.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NoReturn

import numpy as np
from numpy.typing import DTypeLike
from retrograd.isa.diagnostics import DeviceError, Diagnostic
from retrograd.simulator.engines.cuda.runtime import Device, array_of_interface, device, on, simulated, view_by_dlpack

#: types of devices in DLPack
_CPU, _CUDA, _MANAGED = 1, 2, 13


class ArrayError(DeviceError, BufferError):
    """RG1006: an array that cannot be used on the device."""


def refuse_array(name: str, why: str, hint: str | None = None) -> NoReturn:
    raise ArrayError(Diagnostic("RG1006", f"{name} {why}", hint=hint))


def is_device_array(value: object) -> bool:
    """Whether the object declares that it is on a CUDA device. Never raises."""
    try:
        if hasattr(value, "__cuda_array_interface__"):
            return True
        return hasattr(value, "__dlpack_device__") and int(value.__dlpack_device__()[0]) in (_CUDA, _MANAGED)
    except Exception:  # other libraries raise undocumented exceptions
        return False


class _Interface:
    """The CUDA array interface of memory that is lent by DLPack."""

    def __init__(self, view: Any, itemsize: int) -> None:
        self._view = view  # holds the lender's memory
        strides = None if view.strides is None else tuple(int(s) * itemsize for s in view.strides)
        self.__cuda_array_interface__ = {
            "shape": tuple(view.shape), "typestr": np.dtype(view.dtype).str, "data": (int(view.ptr), bool(view.readonly)),
            "strides": strides, "stream": None, "version": 3,
        }  # fmt: skip


def borrowed(
    value: Any,
    where: Device,
    *,
    name: str = "the array",
    dtypes: Collection[DTypeLike] | None = None,
    writable: bool = False,
) -> Any:
    """A device array of Numba on the memory of another library's array, which is ready when this returns.

    `dtypes`: accepted types. `writable`: it will be written. `name`: its name in errors. Raises ArrayError with the reason.
    """
    if simulated() and hasattr(value, "__cuda_ndarray__"):
        _check_type(name, value.dtype, dtypes)
        return value
    try:
        found = value if hasattr(value, "__cuda_array_interface__") else _by_dlpack(value, where, name)
        interface = found.__cuda_array_interface__
        shape = tuple(int(length) for length in interface["shape"])
        dtype, read_only = np.dtype(str(interface["typestr"])), bool(interface["data"][1])
        strides = interface.get("strides")
    except DeviceError:
        raise
    except Exception as error:  # PyTorch raises RuntimeError for a tensor with requires_grad
        refuse_array(name, f"is not lent by its library: {type(error).__name__}: {error}")
    if interface.get("mask") is not None:
        refuse_array(name, "is masked", "Fill in what is masked first.")
    _check_type(name, dtype, dtypes)
    if writable and read_only:
        refuse_array(name, "is read-only, and the program writes it", "Copy it with the library that it is from.")
    _check_contiguous(name, shape, strides, dtype.itemsize)
    _check_device(name, value, where)
    return array_of_interface(found, where, shape, dtype)


def _by_dlpack(value: Any, where: Device, name: str) -> _Interface:
    if not hasattr(value, "__dlpack__"):
        kind = type(value)
        refuse_array(
            name, f"is no array on a device, but {kind.__module__}.{kind.__qualname__}".replace("builtins.", "")
        )
    kind_, _ = (int(part) for part in value.__dlpack_device__())
    if kind_ not in (_CUDA, _MANAGED):
        place = "the host's memory" if kind_ == _CPU else f"a device of DLPack type {kind_}"
        refuse_array(name, f"is in {place}, and the program on {where}")
    _check_device(name, value, where)
    view = view_by_dlpack(value, where)
    return _Interface(view, np.dtype(view.dtype).itemsize)


def _check_type(name: str, dtype: np.dtype[Any], dtypes: Collection[DTypeLike] | None) -> None:
    if dtype.kind not in "biufc":
        refuse_array(name, f"has elements of type {dtype}, which are no numbers")
    if not dtype.isnative:
        refuse_array(name, f"has elements of type {dtype}, in the byte order of another machine")
    if dtypes is not None and dtype not in (wanted := [np.dtype(d) for d in dtypes]):
        refuse_array(name, f"has elements of type {dtype}, and the program takes {' or '.join(map(str, wanted))}")


def _check_contiguous(name: str, shape: tuple[int, ...], strides: Any, itemsize: int) -> None:
    if strides is None or 0 in shape:
        return
    step = itemsize
    for axis in reversed(range(len(shape))):
        if shape[axis] > 1 and int(strides[axis]) != step:
            refuse_array(
                name,
                f"is not contiguous: along axis {axis} its elements lie {strides[axis]} bytes apart, and not {step}",
                "Copy it: `x.contiguous()` in PyTorch, `cupy.ascontiguousarray(x)`.",
            )
        step *= shape[axis]


def _device_index(value: Any) -> int:
    """The index of an array's device: by DLPack, or the attribute `device` of CuPy's and Numba's arrays; else the current one, 0."""
    if hasattr(value, "__dlpack_device__"):
        return int(value.__dlpack_device__()[1])
    found = getattr(value, "device", None)
    return next((int(i) for i in (getattr(found, "id", None), getattr(found, "index", None)) if i is not None), 0)


def _check_device(name: str, value: Any, where: Device) -> None:
    index = _device_index(value)
    if index != where.index:
        refuse_array(name, f"is on cuda:{index}, and the program on {where}")


def copied_to_host(value: Any, name: str) -> Any:
    """A NumPy copy of a device array of any library; other objects unchanged. Raises DeviceError, ArrayError."""
    if not is_device_array(value):
        return value
    where = device(_device_index(value))
    found = borrowed(value, where, name=name)
    with on(where):
        return found.copy_to_host()
