"""Named tuples of results: all arguments of a function after a run, by position and by name.

    named_tuple("f", ("y", "x"))(1.0, 2.0)  =  f(y=1.0, x=2.0)

There is one class for each name and fields: to make it takes as long as a short run. A class that no function and no value has any more is
freed, so that a process which compiles function after function does not grow.

Trap: a named tuple of Python's has no field `_x`, and none that is a keyword, such as `in`. Here `r._asdict()` has all names, and
`r._x` and `getattr(r, "in")` are attributes, unless a method of tuples has the name. `r._fields` names such a field by its position, `_1`.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from functools import lru_cache
from operator import itemgetter
from typing import Any, cast
from weakref import WeakValueDictionary

_classes: WeakValueDictionary[tuple[str, tuple[str, ...]], type[Any]] = WeakValueDictionary()


# The last ones stay, for pickles that are read one after the other.
@lru_cache(maxsize=64)
def named_tuple(name: str, fields: tuple[str, ...]) -> Callable[..., Any]:
    """The class of named tuples with this name and these fields."""
    known = _classes.get((name, fields))
    if known is not None:
        return known
    made = cast("Any", namedtuple)(name, fields, rename=True)
    if made._fields != fields:
        made._asdict = lambda self: dict(zip(fields, self, strict=True))
        shown = ", ".join(f"{field}=%r" for field in fields)
        made.__repr__ = lambda self: f"{name}({shown})" % tuple(self)
        for i, field in enumerate(fields):
            if not hasattr(made, field):
                setattr(made, field, property(itemgetter(i)))
    # No module names the class, so a pickle holds its name and fields.
    made.__reduce__ = lambda self: (_restored, (name, fields, tuple(self)))
    # Of two threads that make the class at once, both get the same.
    return cast("Callable[..., Any]", _classes.setdefault((name, fields), made))


class FurtherArguments(tuple[Any, ...]):
    """The values of `*xs` among the results of a function. As the only argument in the place of `*xs`, it stands for all of them."""

    __slots__ = ()


def _restored(name: str, fields: tuple[str, ...], values: tuple[Any, ...]) -> Any:
    return named_tuple(name, fields)(*values)
