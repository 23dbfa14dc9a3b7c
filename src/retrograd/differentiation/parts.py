"""Parts of arguments by name: the loss `"a.x"`, the outputs `"y[1]"`.

    part(f, "ps[2].x").of(f, arguments)  =  the argument `ps[2].x`, of the part's own type, at its own address

A path is an argument's name, then fields `.x` and indices `[1]`, `[-1]`, `[0, 2]`. Indices that are left out at the end leave an
array: `m[0]` is the first row of a matrix.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from retrograd.compiler.language.types import (
    FIXED,
    ArrayType,
    ScalarType,
    StackType,
    StaticType,
    StructType,
    Type,
)
from retrograd.compiler.pipeline import Argument
from retrograd.differentiation.arguments import (
    direction_of,
    is_one,
    loss_position,
    position,
    refuse,
    without_derivative,
)
from retrograd.isa.diagnostics import nearest

_PATH = re.compile(r"\s*(?P<name>[^\W\d]\w*)\s*(?P<rest>[.\[].*)", re.DOTALL)
_STEP = re.compile(r"\s*(?:\.\s*(?P<field>[^\W\d]\w*)|\[(?P<index>\s*-?\d{1,18}\s*(?:,\s*-?\d{1,18}\s*)*)\])\s*")
Step = str | tuple[int, ...]


@dataclass(frozen=True)
class ArgumentPart:
    """An argument by its position, and the steps from it to a part: names of fields, and indices."""

    position: int
    steps: tuple[Step, ...] = ()

    @property
    def path(self) -> str:
        """The steps as text: `.x[1]`."""
        return "".join(f".{s}" if isinstance(s, str) else f"[{', '.join(map(str, s))}]" for s in self.steps)

    def of(self, f: Any, arguments: Sequence[Argument]) -> Argument:
        """The part as an argument of its own. Raises NotDifferentiable where the type has no such part."""
        a = arguments[self.position]
        for step in self.steps:
            a = _field(f, a, step) if isinstance(step, str) else _element(f, a, step)
        return a


def part(f: Any, which: Any) -> ArgumentPart:
    """The part of an argument that a position, a name or a path denotes. Raises NotDifferentiable."""
    found = _PATH.fullmatch(which) if isinstance(which, str) else None
    if found is None:
        variadic = direction_of(f)[0].variadic
        if variadic is not None and isinstance(which, int) and not isinstance(which, bool) and which >= variadic:
            # A position counts the arguments of the call.
            return ArgumentPart(variadic, ((which - variadic,),))
        return ArgumentPart(position(f, which))
    at, steps, rest = position(f, found["name"]), [], found["rest"]
    while rest:
        step = _STEP.match(rest)
        if step is None:
            refuse(
                f"{which!r:.60} is no part of an argument of `{f.__name__}`",
                "a part is a name with fields and indices, such as 'a.x', 'y[1]' or 'm[0, 2]'",
            )
        field = step["field"]
        steps.append(field if field is not None else tuple(int(i) for i in step["index"].split(",")))
        rest = rest[step.end() :]
    return ArgumentPart(at, tuple(steps))


def chosen_parts(f: Any, argnums: Any) -> list[ArgumentPart] | None:
    """The parts that `argnums` names, in its order; None for all arguments that have a derivative."""
    if argnums is None:
        return None
    found = [part(f, which) for which in (list(argnums) if not is_one(argnums) else [argnums])]
    for k, one in enumerate(found):
        if one in found[:k]:
            name = direction_of(f)[0].parameters[one.position].name + one.path
            refuse(f"`{name}` of `{f.__name__}` is chosen twice", "choose it once")
    return found


def loss_part(f: Any, loss: Any) -> ArgumentPart:
    """The part that the loss is; of a functional function, the default 0 stands for its first result. Raises NotDifferentiable."""
    found = part(f, loss)
    return found if found.steps else ArgumentPart(loss_position(f, loss))


def with_derivative(arguments: Sequence[Argument]) -> list[ArgumentPart]:
    """All arguments of which some number has a derivative, whole."""
    return [ArgumentPart(i) for i, a in enumerate(arguments) if without_derivative(a.type) is None]


def first_number(a: Argument) -> str | None:
    """The path of the first fixed number in an argument, or None."""
    path, t = a.name, a.type
    while t != FIXED:
        match t:
            case ArrayType(element, shape) if t.size:
                path, t = f"{path}[{', '.join('0' for _ in shape)}]", element
            case StructType(_, fields):
                found = (first_number(Argument(f"{path}.{field}", inner, 0)) for field, inner in fields)
                return next((name for name in found if name is not None), None)
            case ArrayType() | ScalarType() | StackType() | StaticType():
                return None
    return path


def _field(f: Any, a: Argument, name: str) -> Argument:
    """The field of a struct."""
    if not isinstance(a.type, StructType):
        refuse(f"`{a.name}` of `{f.__name__}` is {a.type}, and has no field `{name}`", _contents(a.type))
    address = a.address
    for field, inner in a.type.fields:
        if field == name:
            return Argument(f"{a.name}.{name}", inner, address)
        address += inner.size
    names = [field for field, _ in a.type.fields]
    refuse(f"`{a.name}` of `{f.__name__}` has no field `{name}`", nearest(name, names) or _contents(a.type))


def _element(f: Any, a: Argument, index: tuple[int, ...]) -> Argument:
    """The element of an array, or the row that fewer indices than axes leave."""
    shown = f"{a.name}[{', '.join(map(str, index))}]"
    t: Type = a.type
    if isinstance(t, StructType) and t.is_tuple and len(index) == 1:
        count = len(t.fields)
        if not -count <= index[0] < count:
            refuse(f"`{f.__name__}` has no argument `{shown}`", f"`{a.name}` has {count} item{'s' * (count != 1)} here")
        return replace(_field(f, a, t.fields[index[0]][0]), name=shown)
    if not isinstance(t, ArrayType):
        refuse(f"`{a.name}` of `{f.__name__}` is {t}, and has no element `{shown}`", _contents(t))
    if len(index) > len(t.shape):
        refuse(
            f"`{shown}` has {len(index)} indices, and `{a.name}` of `{f.__name__}` has shape {t.shape}", _contents(t)
        )
    rest = t.shape[len(index) :]
    of = ArrayType(t.element, rest) if rest else t.element
    address, stride = a.address, t.size
    for i, n in zip(index, t.shape, strict=False):
        if not -n <= i < n:
            refuse(
                f"`{shown}` is outside of `{a.name}` of `{f.__name__}`, which has shape {t.shape}",
                f"indices of this axis are {-n} to {n - 1}" if n else "the array is empty",
            )
        stride //= n
        address += i % n * stride
    return Argument(shown, of, address)


def _contents(t: Type) -> str | None:
    match t:
        case StructType(_, fields):
            return f"its fields are {', '.join(name for name, _ in fields)}"
        case ArrayType(_, shape):
            return f"its elements are chosen by an index for each axis of {shape}"
        case ScalarType():
            return "a number has no parts: give its name alone"
        case StackType() | StaticType():
            return None
