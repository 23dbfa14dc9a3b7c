"""Limits of constants: a constant that would take memory or time without bound is refused before it is computed.

Operators and functions of constants are evaluated while a function is compiled. Here the size of the result is bounded
from the operands alone: at most `BITS` bits in an integer, `MOST` items in anything else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from math import ceil, log2, prod
from typing import Any

import numpy as np
from retrograd.isa.words import brief

#: bits that integers may have on the way to a word
BITS = 4096
#: items, or characters, of a result of constants
MOST = 1 << 24


class TooLarge(OverflowError):
    """A constant that would take too much memory."""


# ---------------------------------------------------------------------- operators


def check_operator(op: str, x: Any, y: Any) -> None:
    """Raises TooLarge where the result of `x op y` may be too large."""
    if isinstance(x, np.ndarray) or isinstance(y, np.ndarray):
        _check_arrays(op, x, y)
        return
    if op == "+" and hasattr(type(x), "__len__") and hasattr(type(y), "__len__"):
        _check_items(len(x) + len(y), f"the sum of {len(x)} and {len(y)} items")
    elif op == "*":
        for items, count in ((x, y), (y, x)):
            if isinstance(items, str | bytes | tuple | list) and isinstance(count, int):
                _check_items(len(items) * max(0, count), f"{len(items)} items times {brief(count)}")
    if not isinstance(y, int):
        return
    if op == "<<" and isinstance(x, int) and x:
        _check_bits(x.bit_length() + max(0, y), f"{brief(x)} << {brief(y)}")
    elif op == "**" and isinstance(x, int | Fraction):
        bits = max(abs(n) for n in (x.numerator, x.denominator)).bit_length()
        if bits > 1 and not (isinstance(x, int) and y < 0):
            _check_bits((bits - 1) * abs(y), f"{brief(x)} ** {brief(y)}")
    elif op == "*" and isinstance(x, int):
        _check_bits(x.bit_length() + y.bit_length() - 1, f"the product of {brief(x)} and {brief(y)}")


def check_result(value: Any) -> None:
    """Raises TooLarge for an integer that is too large to be computed with further."""
    if isinstance(value, int):
        _check_bits(value.bit_length(), "the constant")


def check_size(shape: tuple[Any, ...]) -> None:
    """Raises TooLarge for an array of too many items."""
    _check_items(prod(shape), f"an array of the shape {shape}")


def _check_arrays(op: str, x: Any, y: Any) -> None:
    if any(isinstance(v, np.ndarray) and v.dtype.kind == "O" for v in (x, y)):
        raise TypeError(f"{op} is not defined for an array of objects")
    try:
        shape = np.broadcast_shapes(np.shape(x), np.shape(y))
    except ValueError:
        return  # the operator raises its own error
    check_size(shape)


# ---------------------------------------------------------------------- calls


def check_call(callee: Callable[..., Any], args: Sequence[Any]) -> None:
    """Raises TooLarge where the result of a call may be too large, or may take too long."""
    name = getattr(callee, "__name__", "")
    if callee not in (range, reversed, enumerate, zip, len, isinstance, bool):
        for a in args:
            if isinstance(a, range):
                # A range takes no memory itself.
                _check_items(_length(a), f"a range of {brief(_length(a))} numbers")
    receiver = getattr(callee, "__self__", None)
    estimate: Callable[..., int] | None = None
    if isinstance(receiver, str | bytes):
        estimate = lambda *a: _of_text(receiver, name, a)  # noqa: E731
    elif isinstance(receiver, np.ndarray):
        estimate = _ARRAYS.get(name)
        args = (receiver, *args)
    elif isinstance(receiver, int):
        estimate = lambda *a: max((v for v in a if isinstance(v, int)), default=0)  # noqa: E731
    elif callee is pow and len(args) == 2:
        check_operator("**", *args)
    elif callee in (bytes, bytearray):
        estimate = lambda n=0, *_: n if isinstance(n, int) else 0  # noqa: E731
    elif getattr(callee, "__module__", None) == "math":
        bits = _MATH.get(name)
        if bits is not None and all(isinstance(a, int) for a in args):
            _check_bits(bits(*args), f"{name}({', '.join(map(brief, args))})")
    elif (getattr(callee, "__module__", None) or "").partition(".")[0] == "numpy":
        estimate = _ARRAYS.get(name)
    if estimate is not None:
        try:
            items = ceil(estimate(*args))
        except (TypeError, ValueError, ZeroDivisionError, IndexError, OverflowError):
            return  # the function raises its own error
        _check_items(items, f"`{name}` of {brief(items)} items")


def _of_text(text: str | bytes, name: str, args: Sequence[Any]) -> int:
    """An upper bound of the length of the result of a method of a text."""
    match name:
        case "ljust" | "rjust" | "center" | "zfill":
            return int(args[0])
        case "expandtabs":
            return len(text) * int(args[0] if args else 8)
        case "replace":
            return (len(text) + 1) * max(1, len(args[1]))
        case "join":
            return (len(text) + 1) * sum(len(x) for x in args[0])
        case "format" | "format_map":
            assert isinstance(text, str)
            # A width in a format is a number in the text, or an argument.
            digits = "".join(c if c.isdigit() else " " for c in text).split()
            widths = [int(d[:9]) for d in digits] + [a for a in args if isinstance(a, int)]
            return max(widths, default=0) * (text.count("{") + 1)
    return 0


def _size(x: Any) -> int:
    """Numbers in an array, or in a sequence of arrays."""
    if isinstance(x, tuple | list):
        return sum(map(_size, x))
    return int(np.size(x))


def _shape(x: Any) -> int:
    """The product of a shape, which may be one length."""
    return prod(abs(int(n)) for n in x) if isinstance(x, tuple | list | np.ndarray) else abs(int(x))


def _range_size(start: Any, stop: Any = None, step: Any = 1) -> int:
    first, last = (0, start) if stop is None else (start, stop)
    count: int = ceil((last - first) / step)
    return max(0, count)


def _outer(x: Any, y: Any) -> int:
    return _size(x) * _size(y)


def _together(*args: Any) -> int:
    return sum(map(_size, args))


#: bits of the result of functions of `math` that give long integers
_MATH: dict[str, Callable[..., float]] = {
    "factorial": lambda n: n * log2(max(2, n)),
    "comb": lambda n, k: min(k, max(0, n - k)) * log2(max(2, n)),
    "perm": lambda n, k=None: (n if k is None else k) * log2(max(2, n)),
}
#: items in the results of NumPy's functions
_ARRAYS: dict[str, Callable[..., int]] = {
    **dict.fromkeys(("zeros", "ones", "empty", "full"), lambda shape, *_: _shape(shape)),
    "indices": lambda shape, *_: len(shape) * _shape(shape),
    "identity": lambda n, *_: n * n,
    **dict.fromkeys(("eye", "tri"), lambda n, m=None, *_: n * (n if m is None else m)),
    "arange": _range_size,
    **dict.fromkeys(("linspace", "logspace", "geomspace"), lambda a, b, n=50, *_: _size(a) * n),
    **dict.fromkeys(("bartlett", "blackman", "hamming", "hanning", "kaiser", "fftfreq", "rfftfreq"), lambda n, *_: n),
    **dict.fromkeys(("repeat", "tile"), lambda x, n, *_: _size(x) * max(1, _shape(n) if np.ndim(n) else int(n))),
    **dict.fromkeys(("resize", "broadcast_to", "reshape"), lambda x, shape, *_: _shape(shape)),
    **dict.fromkeys(("outer", "kron", "tensordot", "convolve", "correlate"), lambda x, y, *_: _outer(x, y)),
    "meshgrid": lambda *xs: len(xs) * prod(map(_size, xs)),
    "vander": lambda x, n=None, *_: _size(x) * (_size(x) if n is None else n),
    **dict.fromkeys(("diag", "diagflat"), lambda x, k=0: (_size(x) + abs(k)) ** 2 if np.ndim(x) == 1 else 0),
    **dict.fromkeys(("fft", "ifft", "rfft", "irfft"), lambda x, n=None, *_: _size(x) if n is None else n),
    "bincount": lambda x, *_: int(np.max(x)) + 1 if _size(x) else 0,
    "histogram": lambda x, bins=10, *_: bins if isinstance(bins, int) else 0,
    "pad": lambda x, width, *_: prod(n + 2 * int(np.max(width)) for n in np.shape(x)),
    **dict.fromkeys(("append", "concatenate", "stack", "hstack", "vstack", "column_stack", "insert"), _together),
}  # fmt: skip


# ---------------------------------------------------------------------- limits


def _length(x: range) -> int:
    """The length of a range, which may be longer than `len` can give."""
    return max(0, (x.stop - x.start + x.step - (1 if x.step > 0 else -1)) // x.step)


def _check_items(count: int, what: str) -> None:
    if count > MOST:
        raise TooLarge(f"{what} would take {brief(count)} items, and a constant has {MOST} at most")


def _check_bits(count: float, what: str) -> None:
    if count > BITS:
        raise TooLarge(f"{what} would take more than {BITS} bits")
