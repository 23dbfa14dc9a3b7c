"""DLPack: memory lent from one library to another, in a capsule around a C structure.

    look(capsule) -> Lent; lent.take() -> owner      the borrower's side
    lend(…) -> capsule                               the lender's side

A capsule is called `dltensor`, or `dltensor_versioned` since DLPack 1.0: that structure begins with its version, and has flags.
The borrower renames the capsule to `used_…`, and calls the deleter of the structure after its last use of the memory. It passes
the newest version that it can read as `max_version`: without it, or below 1.0, it must receive the old structure.

Source: dmlc/dlpack, dlpack.h 1.1, and its Python specification; array API 2024.12, `array.__dlpack__`.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from ctypes import (
    Structure,
    c_char_p,
    c_int,
    c_int32,
    c_int64,
    c_uint8,
    c_uint16,
    c_uint32,
    c_uint64,
    c_void_p,
    py_object,
)
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from retrograd.simulator.engines.cuda.context import when_collected

_T = TypeVar("_T")
#: the newest version that is read here; the version that is written, which all of 1.x can read
MAX_VERSION, _OWN_VERSION = (1, 1), (1, 0)
#: devices (DLDeviceType)
CUDA, CUDA_MANAGED = 2, 13
DEVICES = {
    1: "the host's memory", 2: "a CUDA device", 3: "the host's memory, pinned", 4: "an OpenCL device", 7: "a Vulkan device",
    8: "a Metal device", 10: "a ROCm device", 11: "the host's memory, pinned for ROCm", 13: "CUDA's managed memory",
    14: "a oneAPI device", 15: "a WebGPU device",
}  # fmt: skip
_READ_ONLY, _COPIED = 1, 2
#: types (DLDataTypeCode) that NumPy has, and their letters there
_LETTERS = {0: "i", 1: "u", 2: "f", 5: "c", 6: "b"}
_CODES = {letter: code for code, letter in _LETTERS.items()}
_NAMES = {0: "int", 1: "uint", 2: "float", 3: "opaque", 4: "bfloat", 5: "complex", 6: "bool"}
#: limit of axes, above that of any library
_MOST_AXES = 64


class _Device(Structure):
    _fields_ = (("type", c_int32), ("index", c_int32))


class _Type(Structure):
    _fields_ = (("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16))


class _Tensor(Structure):
    _fields_ = (
        ("data", c_void_p), ("device", _Device), ("ndim", c_int32), ("type", _Type),
        ("shape", ctypes.POINTER(c_int64)), ("strides", ctypes.POINTER(c_int64)), ("byte_offset", c_uint64),
    )  # fmt: skip


class _Managed(Structure):
    _fields_ = (("tensor", _Tensor), ("context", c_void_p), ("deleter", c_void_p))


class _Versioned(Structure):
    _fields_ = (
        ("major", c_uint32), ("minor", c_uint32), ("context", c_void_p), ("deleter", c_void_p), ("flags", c_uint64),
        ("tensor", _Tensor),
    )  # fmt: skip


def _immortal(thing: _T) -> _T:
    """An object that C code may use until the end of the process, even after this module."""
    ctypes.pythonapi.Py_IncRef(py_object(thing))
    return thing


_PLAIN, _NEW = _immortal(b"dltensor"), _immortal(b"dltensor_versioned")
_USED = {_PLAIN: _immortal(b"used_dltensor"), _NEW: _immortal(b"used_dltensor_versioned")}

_Deleter = ctypes.CFUNCTYPE(None, c_void_p)


def _api(name: str, result: Any, *arguments: Any) -> Any:
    return ctypes.PYFUNCTYPE(result, *arguments)((name, ctypes.pythonapi))


_is_called = _api("PyCapsule_IsValid", c_int, py_object, c_char_p)
_address_in = _api("PyCapsule_GetPointer", c_void_p, py_object, c_char_p)
_call_it = _api("PyCapsule_SetName", c_int, py_object, c_char_p)
_new_capsule = _api("PyCapsule_New", py_object, c_void_p, c_char_p, c_void_p)


# ------------------------------------------------------------------------------------------------ borrow


class _Owner:
    """An owner of borrowed memory; its end releases the memory to the lender."""


@dataclass(frozen=True)
class Lent:
    """The memory of a capsule before it is taken. `strides` in bytes, None: contiguous; if `dtype` is None, `type_name` names the type."""

    address: int
    device: tuple[int, int]
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    dtype: np.dtype[Any] | None
    type_name: str
    read_only: bool
    copied: bool
    capsule: Any
    name: bytes
    managed: int
    deleter: int | None

    def take(self) -> object:
        """Take the memory. It is released to the lender when the result is collected."""
        owner = _Owner()
        _call_it(self.capsule, _USED[self.name])
        if self.deleter:
            # Some deleters need the interpreter's lock without taking it, so it is held.
            when_collected(owner, _delete, ctypes.PYFUNCTYPE(None, c_void_p)(self.deleter), self.managed, os.getpid())
        return owner


def _delete(deleter: Callable[[int], None], managed: int, process: int) -> None:
    if process == os.getpid():  # a forked child did not borrow it
        deleter(managed)


def look(capsule: Any) -> Lent:
    """The memory of a capsule, without taking it. Raises ValueError with the reason if it is malformed."""
    name = next((name for name in _USED if _is_called(capsule, name)), None)
    if name is None:
        raise ValueError("its `__dlpack__` gives no DLPack capsule, or one that was used before")
    address = _address_in(capsule, name)
    flags = 0
    managed: _Managed | _Versioned
    if name == _PLAIN:
        managed = _Managed.from_address(address)
    else:
        managed = _Versioned.from_address(address)
        if managed.major != MAX_VERSION[0]:  # the other fields may be in other places
            raise ValueError(f"it is lent by DLPack {managed.major}.{managed.minor}, which is not known here")
        flags = managed.flags
    tensor = managed.tensor
    axes = tensor.ndim
    if not 0 <= axes <= _MOST_AXES or (axes and not tensor.shape):
        raise ValueError(f"its DLPack capsule speaks of {axes} axes")
    shape = tuple(tensor.shape[:axes]) if axes else ()
    code, bits, lanes = tensor.type.code, tensor.type.bits, tensor.type.lanes
    dtype = _dtype(code, bits) if lanes == 1 else None
    strides = None
    if axes and tensor.strides and dtype is not None:
        strides = tuple(stride * dtype.itemsize for stride in tensor.strides[:axes])
    return Lent(
        address=(tensor.data or 0) + tensor.byte_offset,
        device=(tensor.device.type, tensor.device.index),
        shape=shape,
        strides=strides,
        dtype=dtype,
        type_name=f"{_NAMES.get(code, f'DLPack type {code}, ')}{bits}" + f"×{lanes}" * (lanes != 1),
        read_only=bool(flags & _READ_ONLY),
        copied=bool(flags & _COPIED),
        capsule=capsule,
        name=name,
        managed=address,
        deleter=managed.deleter,
    )


def _dtype(code: int, bits: int) -> np.dtype[Any] | None:
    try:
        return np.dtype(f"{_LETTERS[code]}{bits // 8}") if bits % 8 == 0 else None
    except (KeyError, TypeError):
        return None


# -------------------------------------------------------------------------------------------------- lend


class _Loan:
    """A lent structure, with the data to which it points."""

    def __init__(self, managed: Structure, arrays: tuple[Any, ...], owner: object) -> None:
        self.managed, self.arrays, self.owner = managed, arrays, owner
        self.capsule: Any = None


#: address of the structure -> the loan, until the borrower calls the deleter
_loans: dict[int, _Loan] = {}


def _end_loan(managed: int, loans: dict[int, _Loan] = _loans) -> None:
    loans.pop(managed, None)


_deleter = _immortal(_Deleter(_end_loan))


def _references(loan: _Loan) -> int:
    return sys.getrefcount(loan.capsule)


def _references_of_ours() -> int:
    """The `_references` of a capsule that only its loan holds, which differ between versions of Python."""
    loan = _Loan(_Device(), (), None)
    loan.capsule = object()
    return _references(loan)


_OURS = _references_of_ours()


def _end_refused_loans() -> None:
    """End the loans whose capsule was dropped without being taken.

    Other libraries use a destructor of the capsule in C. A destructor in Python, by ctypes, fails: a capsule is dropped when a
    borrower raises an exception, and Python code that runs then loses the exception (SystemError: error return without
    exception set). The capsules are therefore kept, and checked when the next one is made.
    """
    for managed, loan in list(_loans.items()):
        if _references(loan) <= _OURS and any(_is_called(loan.capsule, name) for name in _USED):
            _loans.pop(managed, None)


def lend(
    address: int,
    device: tuple[int, int],
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    owner: object,
    *,
    versioned: bool,
    read_only: bool = False,
    copied: bool = False,
) -> Any:
    """A capsule that lends contiguous memory; `owner` is held until the borrower releases it.

    The old structure has no flag `read_only`, so it must not lend read-only memory.
    """
    _end_refused_loans()
    axes = len(shape)
    sizes = (c_int64 * axes)(*shape)
    strides = (c_int64 * axes)()
    step = 1
    for axis in reversed(range(axes)):
        strides[axis] = step
        step *= shape[axis]
    tensor = _Tensor(
        address or None, _Device(*device), axes, _Type(_CODES[dtype.kind], dtype.itemsize * 8, 1),
        ctypes.cast(sizes, ctypes.POINTER(c_int64)), ctypes.cast(strides, ctypes.POINTER(c_int64)), 0,
    )  # fmt: skip
    deleter = ctypes.cast(_deleter, c_void_p)
    managed: _Managed | _Versioned
    if versioned:
        managed = _Versioned(*_OWN_VERSION, None, deleter, _READ_ONLY * read_only | _COPIED * copied, tensor)
    elif read_only:
        raise ValueError("the old structure of DLPack has no flag for memory that is read-only")
    else:
        managed = _Managed(tensor, None, deleter)
    loan = _Loan(managed, (sizes, strides), owner)
    where = ctypes.addressof(managed)
    loan.capsule = _new_capsule(where, _NEW if versioned else _PLAIN, None)
    _loans[where] = loan
    return loan.capsule
