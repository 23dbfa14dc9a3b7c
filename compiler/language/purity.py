"""Purity of Python functions and values: a reversible function calls only functions that are known to be pure.

    y += math.sqrt(2.0) * len(W)        the compiler calls `math.sqrt` and `len` now, and the program holds the results

A call of a Python function is made once, when the reversible function is compiled, and its result is part of the program. An impure
function would be frozen unnoticed. These may be called:

    math, cmath     all functions
    builtins        functions in `_BUILTINS`
    NumPy           elementwise functions, types of numbers, functions in `_NUMPY` and `_LINEAR_ALGEBRA`
    constructors    of enums, dataclasses and named tuples without code of their own; of Fraction and Decimal
    methods         in `_METHODS`, of constant str, tuple, list, dict, int, float, arrays, …
    rg.pure         functions and classes that the user declares

All other calls are refused. So are operators, indices, loops and attributes that would run code of a user's class: `__getitem__`,
`__eq__`, `__bool__`, `__iter__`, a property, `__getattr__`.

Trap: `rg.pure` is a promise, not a test. Values that such a function reads are not captured: when they change, compiled code stays.
"""

from __future__ import annotations

import builtins
import cmath
import dataclasses
import math
import types
from collections.abc import Callable, Mapping
from enum import EnumMeta
from functools import cached_property
from itertools import islice
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np
from retrograd.compiler.language.types import check_call
from retrograd.isa.diagnostics import advised

F = TypeVar("F")


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _members(module: Any, names: str) -> frozenset[Any]:
    return frozenset(getattr(module, name) for name in _names(names))


_BUILTINS = _members(
    builtins,
    """
    abs all any ascii bin bool bytes chr complex dict divmod enumerate float frozenset hex int isinstance issubclass
    len list max min oct ord pow range repr reversed round set slice sorted str sum tuple zip
""",
)
_NUMPY = _members(
    np,
    """
    all allclose any append arange argmax argmin argsort around array array_equal asarray ascontiguousarray
    atleast_1d atleast_2d atleast_3d average bartlett blackman bincount broadcast_arrays broadcast_shapes
    broadcast_to column_stack concatenate convolve correlate count_nonzero cov cross cumprod cumsum delete diag
    diagflat diagonal diff digitize dot dtype ediff1d einsum expand_dims eye finfo flatnonzero flip fliplr flipud
    full full_like geomspace gradient hamming hanning histogram hsplit hstack identity iinfo imag indices inner
    insert interp isclose isin kaiser kron linspace logspace max mean median meshgrid min moveaxis nan_to_num ndim
    nonzero ones ones_like outer pad percentile poly polyfit polyval prod ptp quantile ravel real repeat reshape
    resize roll rollaxis roots rot90 round searchsorted shape sinc size sort split squeeze stack std sum swapaxes
    take tensordot tile trace transpose tri tril triu unique vander var vdot vsplit vstack where zeros zeros_like
""",
)
_LINEAR_ALGEBRA = _members(
    np.linalg,
    """
    cholesky cond det eig eigh eigvals eigvalsh inv lstsq matrix_power matrix_rank norm pinv qr slogdet solve svd
""",
)
_TRANSFORMS = _members(
    np.fft,
    """
    fft fft2 fftfreq fftn fftshift ifft ifft2 ifftn ifftshift irfft rfft rfftfreq
""",
)
#: functions that make text of their arguments
_TEXT: frozenset[Any] = frozenset({str, repr, ascii, bytes})
_KNOWN: frozenset[Any] = _BUILTINS | _NUMPY | _LINEAR_ALGEBRA | _TRANSFORMS

_NUMBER = _names("""
    as_integer_ratio bit_count bit_length conjugate from_bytes fromhex hex is_integer to_bytes
""")
_SET = _names("""
    copy difference intersection isdisjoint issubset issuperset symmetric_difference union
""")
_ARRAY = _names("""
    all any argmax argmin argsort astype choose clip compress conj conjugate copy cumprod cumsum diagonal dot
    flatten item max mean min nonzero prod ravel repeat reshape round searchsorted squeeze std sum swapaxes take
    tobytes tolist trace transpose var view
""")
#: type -> its methods that change nothing
_METHODS: dict[type, frozenset[str]] = {
    int: _NUMBER, bool: _NUMBER, float: _NUMBER, complex: frozenset({"conjugate"}),
    str: frozenset(n for n in dir(str) if not n.startswith("_")), bytes: frozenset(n for n in dir(bytes) if not n.startswith("_")),
    tuple: frozenset({"count", "index"}), list: frozenset({"copy", "count", "index"}), range: frozenset({"count", "index"}),
    dict: frozenset({"copy", "get", "items", "keys", "values", "fromkeys"}), set: _SET, frozenset: _SET,
    slice: frozenset({"indices"}), np.ndarray: _ARRAY, np.generic: _ARRAY,
}  # fmt: skip
#: modules whose classes have no code that a user wrote
_OURS = _names("""
    builtins numpy enum fractions decimal collections _collections typing types datetime numbers abc
""")
#: methods that every class may have: nothing in the language calls them
_QUIET = frozenset(
    {"__init__", "__new__", "__repr__", "__str__", "__init_subclass__", "__set_name__", "__class_getitem__", "__format__",
     "__reduce__", "__reduce_ex__", "__getstate__", "__setstate__", "__replace__", "__post_init__", "__dir__", "__sizeof__", "__del__",
     "__setattr__", "__delattr__", "__getattribute__", "__getattr__", "__enter__", "__exit__", "__call__", "__get__", "__set__", "__delete__",
     "__copy__", "__deepcopy__", "__subclasshook__", "__getnewargs__", "__getnewargs_ex__", "__instancecheck__", "__subclasscheck__"}
)  # fmt: skip
_CONTAINERS = (list, tuple, range, str, bytes, dict, set, frozenset, np.ndarray, types.MappingProxyType)
_VIEWS: tuple[type, ...] = (type({}.keys()), type({}.values()), type({}.items()))
_ATOMS: frozenset[type] = frozenset[type](
    (bool, int, float, complex, str, bytes, type(None), type(Ellipsis), range, slice)
).union(t for t in np.sctypeDict.values() if issubclass(t, np.number | np.bool_))
#: classes whose operators are Python's own or NumPy's
_PLAIN = _ATOMS | {list, tuple, dict, set, frozenset, np.ndarray}
#: declared with `rg.pure`, where the object itself cannot bear the mark
_declared: dict[int, Any] = {}
_MARK = "__retrograd_pure__"
#: values that are taken from an iterator
_MOST = 1 << 16


class Impure(Exception):
    """Python code that is not known to be pure would run; the message names it."""


def pure(function: F) -> F:
    """Declare a function to be pure: the same arguments give the same result, and nothing else happens.

    Reversible functions may then call it with constants, when they are compiled. A declared class has a pure constructor.
    Functions of other packages can be declared too: `gamma = rg.pure(scipy.special.gamma)`.
    Trap: values that it reads besides its arguments are not captured; when they change, compiled code stays.
    """
    if not callable(function):
        raise TypeError(f"rg.pure takes a function or a class, not {function!r:.60}")
    try:
        setattr(function, _MARK, function)
    except (AttributeError, TypeError):
        _declared[id(function)] = function
    return function


def is_declared(function: Any) -> bool:
    """Whether the user declared it with `rg.pure`; a subclass does not inherit that."""
    if isinstance(function, types.MethodType):
        function = function.__func__
    if id(function) in _declared:
        return _declared[id(function)] is function
    own = getattr(function, "__dict__", None)
    return own is not None and own.get(_MARK) is function


# ---------------------------------------------------------------------- calls


def call(
    callee: Callable[..., Any], args: tuple[Any, ...], name: str, dtypes: Mapping[str, Any] = MappingProxyType({})
) -> Any:
    """callee(*args), if the callee is known to be pure. Raises Impure, and the exceptions of the callee. `name`: for messages.

    `dtypes`: keywords that name a type of numbers. Iterators become tuples, which can be read more than once.
    """
    if not is_declared(callee):
        if not _is_known(callee):
            raise Impure(f"`{name}` is not known to be pure")
        receiver = getattr(callee, "__self__", None)
        text = callee in _TEXT or isinstance(receiver, str)
        for value in (*args, receiver, *dtypes.values()):
            need_plain(value, text=text)
        check_call(callee, args)
    found = callee(*args, **dtypes)
    if not hasattr(type(found), "__next__"):
        return found
    items = tuple(islice(found, _MOST + 1))
    if len(items) > _MOST:
        raise Impure(f"`{name}` gives more than {_MOST} values, one after the other,")
    return items


def _is_known(callee: Any) -> bool:
    kind = type(callee)
    if kind is np.ufunc:
        # A ufunc may be made of any function, by np.frompyfunc.
        return callee is getattr(np, callee.__name__, None)
    if isinstance(callee, type):
        return callee in _KNOWN or issubclass(callee, np.generic) or _constructs(callee)
    receiver = getattr(callee, "__self__", None) if kind in _BOUND else None
    if receiver is not None and not isinstance(receiver, types.ModuleType):
        cls = receiver if isinstance(receiver, type) else type(receiver)
        if cls is np.ufunc:
            return callee.__name__ in ("accumulate", "outer", "reduce") and _is_known(receiver)
        if cls.__module__ in ("fractions", "decimal"):
            return True
        return any(callee.__name__ in _METHODS[base] for base in cls.__mro__ if base in _METHODS) and (
            kind is types.BuiltinMethodType
        )
    if kind is types.BuiltinFunctionType and callee.__module__ in ("math", "cmath"):
        return callee is getattr(math if callee.__module__ == "math" else cmath, callee.__name__, None)
    return _ours(kind.__module__) and callee in _KNOWN


_BOUND = (types.BuiltinMethodType, types.MethodType)


def _constructs(cls: type) -> bool:
    """Whether making an object of this class only fills in its fields."""
    if cls.__module__ in ("fractions", "decimal"):
        return True
    own = [c for c in cls.__mro__ if c.__module__ not in _OURS]
    if isinstance(cls, EnumMeta):
        return type(cls) is EnumMeta and not any("_missing_" in vars(c) for c in own)
    if type(cls) is not type or not own:
        return cls is types.SimpleNamespace
    if issubclass(cls, tuple) and hasattr(cls, "_fields"):
        # The constructor of a named tuple has a module of its own. A derived class may have another constructor.
        makers = [getattr(vars(c)["__new__"], "__func__", None) for c in own if "__new__" in vars(c)]
        return not any("__init__" in vars(c) for c in own) and all(
            getattr(maker, "__globals__", {}).get("__name__", "").startswith("namedtuple_") for maker in makers
        )
    if not dataclasses.is_dataclass(cls):
        return False
    return (
        # A class derived from a dataclass may have an `__init__` of its own.
        _generated(cls.__init__)
        and not any(name in vars(c) for c in own for name in ("__post_init__", "__new__"))
        and not any("__setattr__" in vars(c) and not _generated(vars(c)["__setattr__"]) for c in own)
        and all(
            f.default_factory is dataclasses.MISSING or f.default_factory in _KNOWN or is_declared(f.default_factory)
            for f in dataclasses.fields(cls)
        )
    )


def _generated(function: Any) -> bool:
    """Whether `dataclass` made a method: its code comes from no file."""
    code = getattr(getattr(function, "__wrapped__", function), "__code__", None)
    return code is not None and code.co_filename == "<string>"


# ---------------------------------------------------------------------- values


def need_plain(value: Any, depth: int = 0, text: bool = False) -> None:
    """Raise Impure if an operation on the value could run a user's code: if its class, or the class of an item, has operators.

    `text`: the operation may make text of it.
    """
    kind = type(value)
    if kind in _ATOMS:
        return
    if isinstance(value, type):
        # A class may run code in `isinstance`.
        own = [kind, *value.__mro__, *kind.__mro__]
        if any("__subclasshook__" in vars(c) or "__instancecheck__" in vars(c) for c in own if not _ours(c.__module__)):
            raise Impure(f"the class `{value.__name__}` is not known to be pure")
    if isinstance(value, types.FunctionType | types.BuiltinFunctionType | types.ModuleType | np.ufunc):
        return
    need_operators(value, text)
    if hasattr(kind, "__next__"):
        raise Impure(f"an iterator, of type `{kind.__name__}`, is used up by the first to read it")
    if isinstance(value, np.ndarray):
        if not value.dtype.hasobject:
            return
        value = value.ravel().tolist()
    if isinstance(value, tuple | list | set | frozenset | dict):
        if depth > 20:
            raise Impure("a container holds containers too deep to be looked through")
        items = [*value, *value.values()] if isinstance(value, dict) else value
        for item in items:
            if type(item) not in _ATOMS:
                need_plain(item, depth + 1, text)


def need_operators(value: Any, text: bool = False) -> None:
    """Raise Impure if the class of the value has a user's operators: methods that `==`, `bool`, `len`, an index or a loop call.

    `text`: methods that `str` and `repr` call, too.
    """
    kind = type(value)
    if issubclass(kind, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise advised(TypeError("a masked array has elements without a value"), "fill it with `.filled(value)`")
    if issubclass(kind, np.matrix):
        raise advised(
            TypeError("`*` and `**` of np.matrix are products of matrices"), "make an array of it, by np.asarray"
        )
    found = None if kind in _PLAIN else _operator_of(kind, text)
    if found is not None:
        raise Impure(f"`{kind.__name__}.{found}` is not known to be pure")


def need_container(value: Any, what: str = "an index into", method: str = "__getitem__") -> None:
    """Raise Impure if indexing, len() or a loop over the value would run a user's code, or exhaust the value.

    Its items are not tested. `what`, `method`: the operation, in words and as a method. Python itself refuses a value without the method.
    """
    kind = type(value)
    need_operators(value)
    if isinstance(value, type) and method == "__getitem__" and not isinstance(value, EnumMeta):
        if not any("__class_getitem__" in vars(c) and not _ours(c.__module__) for c in value.__mro__):
            return
    elif isinstance(value, (*_CONTAINERS, *_VIEWS, EnumMeta, np.generic)) or not hasattr(kind, method):
        return
    raise Impure(f"{what} a `{kind.__name__}` is not known to be pure")


def need_iterable(value: Any) -> None:
    """Raise Impure if a loop over the value would run a user's code, or exhaust the value."""
    need_container(value, "a loop over", "__iter__")


def _operator_of(kind: type, text: bool) -> str | None:
    """The name of a method of a user's that an operation of Python calls, or None."""
    for cls in kind.__mro__:
        if cls.__module__ in _OURS or cls.__module__.partition(".")[0] in ("numpy", "retrograd"):
            continue
        for name, method in vars(cls).items():
            if (
                name.startswith("__")
                and (name not in _QUIET or (text and name in ("__str__", "__repr__", "__format__")))
                and isinstance(method, types.FunctionType)
                and not _ours(method.__module__)
                and not is_declared(method)
                and not _generated(method)
            ):
                return name
    return None


# ---------------------------------------------------------------------- attributes


def attribute(owner: Any, name: str) -> Any:
    """owner.name, if reading it runs no user's code. Raises Impure, AttributeError."""
    if isinstance(owner, types.ModuleType):
        if name not in vars(owner) and "__getattr__" in vars(owner) and not _ours(owner.__name__):
            raise Impure(f"`{owner.__name__}.__getattr__` is not known to be pure")
        return getattr(owner, name)
    is_class = isinstance(owner, type)
    for cls in type(owner).__mro__:
        # Of a class it is the metaclass; that of enums is Python's own.
        if not _ours(cls.__module__) and "__getattribute__" in vars(cls):
            raise Impure(f"`{cls.__name__}.__getattribute__` is not known to be pure")
    raw = _static(owner.__mro__ if is_class else type(owner).__mro__, name)
    if is_class and raw is None and any(name in vars(c) and not _ours(c.__module__) for c in type(owner).__mro__):
        raise Impure(f"`{type(owner).__name__}.{name}` is not known to be pure")
    own = {} if is_class else getattr(owner, "__dict__", {})
    if raw is None and name not in own:
        for cls in type(owner).__mro__:
            if "__getattr__" in vars(cls) and not _ours(cls.__module__):
                raise Impure(f"`{cls.__name__}.__getattr__` is not known to be pure")
    if raw is not None and not (is_class and isinstance(raw, property)):
        _need_plain_descriptor(owner, name, raw, own)
    return getattr(owner, name)


def _need_plain_descriptor(owner: Any, name: str, raw: Any, own: Any) -> None:
    kind = type(raw)
    shown = f"`{(owner if isinstance(owner, type) else type(owner)).__name__}.{name}`"
    if isinstance(raw, property | types.DynamicClassAttribute):
        getter = raw.fget
        if getter is not None and not is_declared(getter) and not _ours(getattr(getter, "__module__", "")):
            raise Impure(f"{shown}, a property, is not known to be pure")
    elif isinstance(raw, cached_property):
        if name not in own and not is_declared(raw.func):
            raise Impure(f"{shown}, a property, is not known to be pure")
    elif hasattr(kind, "__get__") and not _ours(kind.__module__) and (name not in own or hasattr(kind, "__set__")):
        raise Impure(f"{shown}, whose class `{kind.__name__}` has `__get__`, is not known to be pure")


def _static(mro: tuple[type, ...], name: str) -> Any:
    return next((vars(cls)[name] for cls in mro if name in vars(cls)), None)


def _ours(module: str) -> bool:
    """Whether a module belongs to Python, NumPy or Retrograd, and its classes have no impure operators."""
    return module in _OURS or module.partition(".")[0] in ("numpy", "retrograd", "functools", "math", "cmath")
