"""The Python values from around a function that its compiled code was made from, and whether they are still the same.

    W = [1.0, 2.0]
    @reversible
    def f(y: fixed): y += W[0] * SCALE        captures the globals W and SCALE, and the items of the list W

A capture is a binding (name → value, in a module, a closure, an object or a class), or the items of a container that can change.
Compiled code is reused while `hold()`: each binding leads to the same object, each container has the same items.
Another object of the same type and value is the same, too: `SCALE = 0.5` in a notebook cell that is run again changes nothing.

Cost: one identity comparison for each name and item, made in C; of an array, a comparison of its bytes.
Trap: values that a function declared with `rg.pure` reads are not captured. Attributes of math, numpy and retrograd are read once.
A read-only array is not compared: it must not be made writeable, changed, and made read-only again between two calls.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from operator import is_, itemgetter
from types import CellType, MappingProxyType, ModuleType
from typing import Any

import numpy as np
from retrograd.compiler.language.types import is_struct

#: packages whose modules do not change
_STEADY = ("math", "cmath", "numpy", "retrograd.library")
#: values that cannot change
_ATOMS = frozenset({bool, int, float, complex, str, bytes, type(None), type(Ellipsis), range})
_MISSING: Any = object()


class _Bindings:
    """Names in one mapping: the globals of a module, the attributes of an object or a class."""

    def __init__(self, owner: Any, table: Mapping[str, Any]) -> None:
        self.owner, self.table = owner, table
        self.values: dict[str, Any] = {}
        self.absent: set[str] = set()
        self._get: Callable[[Any], tuple[Any, ...]] | None = None
        self._saved: tuple[Any, ...] = ()

    def freeze(self) -> None:
        # Of one name, itemgetter gives no tuple.
        names = [*self.values, *self.values][: max(2, len(self.values))] if self.values else []
        self._get = itemgetter(*names) if names else None
        self._saved = tuple(self.values[name] for name in names)

    def hold(self) -> bool:
        table = self.table
        if self.absent and not table.keys().isdisjoint(self.absent):
            return False
        if self._get is None:
            return True
        try:
            return all(map(is_, self._get(table), self._saved)) or self._equal()
        except KeyError:
            return False

    def _equal(self) -> bool:
        """Whether names lead to other objects of the same values; if so, these are remembered."""
        now = {name: self.table[name] for name in self.values}
        if not all(same(now[name], value) for name, value in self.values.items()):
            return False
        self.values = now
        self.freeze()
        return True


class _Items:
    """The items of a list, a set or a dict."""

    def __init__(self, container: Any) -> None:
        self.container = container
        self._read = next((read for kind, read in _READERS if isinstance(container, kind)), _keys_and_values)
        self.items = self._read(container)

    def hold(self) -> bool:
        now, saved = self._read(self.container), self.items
        if len(now) != len(saved):
            return False
        if all(map(is_, now, saved)):
            return True
        if not all(map(same, now, saved)):
            return False
        self.items = now
        return True


def _keys_and_values(found: Mapping[Any, Any]) -> Sequence[Any]:
    return (*found.keys(), *found.values())


#: class → its items, read by the methods of the built-in class, since a subclass may have a user's methods
_READERS: tuple[tuple[type, Callable[[Any], Sequence[Any]]], ...] = (
    (list, list.copy),
    (dict, lambda found: (*dict.keys(found), *dict.values(found))),
    (set, lambda found: tuple(set.__iter__(found))),
)


class _Array:
    """The elements of a NumPy array."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.array = array
        self._saved = self._now()
        #: of objects the bytes are addresses, which no other object takes while these live
        self._alive = array.ravel().tolist() if array.dtype.hasobject else None

    def _now(self) -> tuple[Any, ...]:
        mask = np.ma.getmaskarray(self.array).tobytes() if isinstance(self.array, np.ma.MaskedArray) else None
        return self.array.shape, self.array.dtype, np.ndarray.tobytes(self.array), mask

    def hold(self) -> bool:
        return self._now() == self._saved


class _ReadOnlyArray:
    """A NumPy array that owns its elements and cannot be written, so that these are not compared."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.array = array

    def hold(self) -> bool:
        return not self.array.flags.writeable


class _Cell:
    """A variable of the function around."""

    def __init__(self, cell: CellType, value: Any) -> None:
        self.cell, self.value = cell, value

    def hold(self) -> bool:
        try:
            now = self.cell.cell_contents
        except ValueError:
            return False
        if now is not self.value:
            if not same(now, self.value):
                return False
            self.value = now
        return True


class _Slot:
    """An attribute that lies in no dict: of an object with `__slots__`."""

    def __init__(self, owner: Any, name: str, value: Any) -> None:
        self.owner, self.name, self.value = owner, name, value

    def hold(self) -> bool:
        now = getattr(self.owner, self.name, _MISSING)
        return now is self.value or same(now, self.value)


class Captures:
    """The values that one compilation read from around its functions, recorded while it runs, frozen at its end.

    A pickle of it is empty: compiled code from another process keeps the values of that process.
    """

    def __init__(self) -> None:
        self._tables: dict[int, _Bindings] = {}
        #: by identity; each keeps its object alive, so that no other can take the identity
        self._others: dict[Any, _Items | _Array | _ReadOnlyArray | _Cell | _Slot] = {}
        self._all: tuple[Any, ...] = ()

    def __reduce__(self) -> tuple[Any, ...]:
        return Captures, ()

    def freeze(self) -> Captures:
        """End the recording; `hold` may be called from now on."""
        for table in self._tables.values():
            table.freeze()
        self._all = (*self._tables.values(), *self._others.values())
        return self

    def hold(self) -> bool:
        """Whether all captured values are unchanged."""
        for capture in self._all:  # noqa: SIM110  (a generator takes twice as long)
            if not capture.hold():
                return False
        return True

    # ------------------------------------------------------------------ recording

    def binding(self, owner: Any, table: Mapping[str, Any], name: str, value: Any = _MISSING) -> None:
        """The name leads to the value in the table, which belongs to `owner`; without a value, it is not in there."""
        found = self._tables.get(id(owner))
        if found is None:
            found = self._tables[id(owner)] = _Bindings(owner, table)
        if value is _MISSING:
            found.absent.add(name)
            return
        if name not in found.values:
            found.values[name] = value
            self.contents(value)

    def cell(self, cell: CellType, value: Any) -> None:
        """A closure's variable holds the value."""
        if id(cell) not in self._others:
            self._others[id(cell)] = _Cell(cell, value)
            self.contents(value)

    def attribute(self, owner: Any, name: str, value: Any) -> None:
        """`owner.name` is the value: the binding is found where Python finds it."""
        if isinstance(owner, ModuleType):
            if owner.__name__ != "retrograd" and not steady(owner.__name__):
                self.binding(vars(owner), vars(owner), name, value)
            return
        cls = owner if isinstance(owner, type) else type(owner)
        classes = cls.__mro__
        if cls.__module__ in ("builtins", "numpy") or issubclass(cls, Enum):
            self.contents(value)
            return
        own = None if isinstance(owner, type) else getattr(owner, "__dict__", None)
        if own is not None:
            if name in own:
                self.binding(own, own, name, own[name])
                return
            self.binding(own, own, name)
        for cls in classes:
            if name not in vars(cls):
                if cls.__module__ != "builtins":
                    self.binding(cls, vars(cls), name)
                continue
            raw = vars(cls)[name]
            self.binding(cls, vars(cls), name, raw)
            if not isinstance(owner, type) and hasattr(type(raw), "__set__") and not isinstance(raw, property):
                self._others[id(owner), name] = _Slot(owner, name, value)
            break
        self.contents(value)

    def contents(self, value: Any) -> None:
        """The items of a container that can change, and of the containers in it."""
        kind = type(value)
        if kind in _ATOMS or id(value) in self._others:
            return
        if isinstance(value, np.ndarray):
            looked_at = value.flags.writeable or value.base is not None or value.dtype.hasobject
            self._others[id(value)] = _Array(value) if looked_at else _ReadOnlyArray(value)
            if value.dtype.hasobject:
                self._inside(value.ravel().tolist())
        elif isinstance(value, list | dict | set | MappingProxyType):
            found = self._others[id(value)] = _Items(value)
            self._inside(found.items)
        elif isinstance(value, tuple | frozenset):
            self._inside(tuple.__iter__(value) if isinstance(value, tuple) else frozenset.__iter__(value))
        elif is_struct(kind):
            for name, inner in vars(value).items():
                self.binding(vars(value), vars(value), name, inner)

    def _inside(self, items: Iterable[Any]) -> None:
        for item in items:
            if type(item) not in _ATOMS:
                self.contents(item)


def steady(module: str) -> bool:
    """Whether the names in a module are read once, and never compared again."""
    return any(module == name or module.startswith(f"{name}.") for name in _STEADY)


def same(x: Any, y: Any) -> bool:
    """Whether two values compile to the same code: the same object, or immutable and equal in type and value."""
    if x is y:
        return True
    if type(x) is not type(y):
        return False
    if isinstance(x, float):
        return x == y and math.copysign(1.0, x) == math.copysign(1.0, y)
    if type(x) in _ATOMS:
        return bool(x == y)
    if type(x) is tuple:
        return len(x) == len(y) and all(map(same, x, y))
    if isinstance(x, np.generic) and not x.dtype.hasobject:
        return bool(x.dtype == y.dtype) and x.tobytes() == y.tobytes()
    return False


def static_key(value: Any) -> Any:
    """The key of a static value. It names types at every depth, since 1 == 1.0 == True.

    A value without a hash counts by its identity; `Captures` compares its contents.
    """
    kind = type(value)
    if kind is tuple or kind is frozenset:
        return kind.__name__, kind(static_key(v) for v in value)
    if kind is float:
        return "float", value, math.copysign(1.0, value)
    try:
        hash(value)
    except TypeError:
        return id(value), kind.__name__
    if is_dataclass(kind):
        return kind, tuple(static_key(getattr(value, f.name)) for f in fields(kind))
    return kind.__name__, value
