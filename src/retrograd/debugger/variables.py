"""Variables of the source: the places and values of the variables that are live where the machine stands.

    forward, the machine stands before the instruction at pc: point pc of the code
    backward, the instruction at pc is undone next:           point pc + 1

The compiler records the locations (`isa.program.VariableLocation`). Two variables of one name may be live, since a callee that was
inlined has variables of its own: the name then means the variable that became live last. The elements of an array are words of
memory, or variables `name[k]` of their own where the optimiser has put element k into a register.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import prod
from typing import NamedTuple

from retrograd.debugger.places import Place, cotangent_of
from retrograd.isa.diagnostics import Diagnostic, InputError
from retrograd.isa.program import Program, VariableLocation
from retrograd.isa.words import Format
from retrograd.runtime._arrays import real_of
from retrograd.runtime._binding import lognum
from retrograd.simulator.machine import Machine

Value = int | bool | float | Fraction
#: the elements of an array, nested by its axes
Values = list["Value | Values"]

_INDICES = re.compile(r"\[([^\[\]]*)\]")


#: behind a value that is `Variable.unsettled`, and its meaning
UNSETTLED = "~"
UNSETTLED_NOTE = (
    "~: the source may give another value at this line: the optimiser has joined, moved or cancelled updates, or has an element in a register, "
    "or the variable is lent to a view"
)


@dataclass(frozen=True)
class Variable:
    """A live variable. A fixed-point value is exact, as a Fraction; that of a lognum is rounded to a float.

    The value of an array is a list, of as many elements as asked for; that of a stack has the elements that were pushed.
    """

    name: str
    kind: str
    place: Place
    value: Value | Values
    #: ∂loss/∂variable so far; None unless the machine differentiates
    cotangent: Fraction | list[Fraction | None] | None = None
    #: of an array: its axes; of a stack: the number of its elements
    shape: tuple[int, ...] = ()
    #: whether the source may give it another value here: the optimiser has joined, moved or cancelled updates around this line, or keeps an
    #: element in a register, or a view has turned the word
    unsettled: bool = False


class Word(NamedTuple):
    """The word of a scalar variable or of an element: its place, and its kind."""

    kind: str
    place: Place

    def value(self, machine: Machine) -> Value:
        """The word as a number."""
        return value_of(self.kind, int(self.place.word(machine)), machine.format)


def live(program: Program, point: int) -> Sequence[VariableLocation]:
    """The locations that hold at a point of the code, the variable that became live last at the end."""
    return sorted((v for v in program.variables if v.first <= point <= v.last), key=lambda v: v.first)


def point_of(machine: Machine) -> int:
    """The point of the code where the machine stands: between two instructions; where it halts, outside of the code."""
    return machine.pc + ((machine.direction < 0) ^ machine.at_end)


def is_variable(text: str, program: Program) -> bool:
    """Whether the source has a variable or an array with this name, live or not. Indices are left out."""
    name = _INDICES.sub("", text)
    return any(v.name in (text, name) for v in program.variables)


def named(text: str, machine: Machine, *, condition: bool = False) -> Word | VariableLocation | None:
    """The live variable of a name, an element `a[2, 3]`, or the array of a name; None if there is none.

    `condition`: an argument that has a register elsewhere is not meant. Raises InputError RG1302 for an element out of range.
    """
    found = live(machine.program, point_of(machine))
    exact = [v for v in found if v.name == text]
    last = next(reversed(exact), None)
    if last is not None and not last.layout:
        return Word(last.kind, place_of(last))
    name, indices = _INDICES.sub("", text), _indices(text)
    array = next((v for v in reversed(found) if v.name == name and v.layout), None)
    if array is None or array.layout is None or indices is None:
        return None
    if not array.layout.shape:
        if indices or (condition and _elsewhere(array, machine.program)):
            return None
        return Word(array.kind, Place(base_of(array, machine), memory=True))
    if not indices and name == text:
        return array
    shape = (stack_length(array, machine),) if array.layout.stack else array.layout.shape
    if len(indices) != len(shape) or any(not 0 <= i < n for i, n in zip(indices, shape, strict=True)):
        lengths = " × ".join(map(str, shape))
        raise InputError(Diagnostic("RG1302", f"`{text[:60]}` is no element of `{name}`, which has {lengths} elements"))
    return _element_of(array, found, machine)(indices)


def _indices(text: str) -> tuple[int, ...] | None:
    """All indices in a name such as `ps[2].x[0, 1]`; None where one is no number."""
    try:
        return tuple(int(i, 0) for part in _INDICES.findall(text) for i in part.strip("() ").split(",") if i.strip())
    except ValueError:
        return None


def _elsewhere(array: VariableLocation, program: Program) -> bool:
    return any(v.name == array.name and v.layout is None for v in program.variables)


def place_of(location: VariableLocation) -> Place:
    """The place that a location stands for."""
    return Place(location.number, location.memory)


def base_of(array: VariableLocation, machine: Machine) -> int:
    """The address of an array's first element now."""
    assert array.layout is not None
    if not array.indirect:
        return array.number
    return (int(place_of(array).word(machine)) + array.layout.offset) & machine.format.mask


def stack_length(stack: VariableLocation, machine: Machine) -> int:
    """The number of elements that are on a stack."""
    assert stack.layout is not None
    count = Place(base_of(stack, machine) - 1, memory=True)
    return min(max(_word_or_zero(count, machine), 0), stack.layout.shape[-1])


def _word_or_zero(place: Place, machine: Machine) -> int:
    return machine.format.signed(int(place.word(machine))) if place.index < len(machine._memory) else 0


def value_of(kind: str, word: int, w: Format) -> Value:
    """The value of a word by the kind of its variable."""
    match kind:
        case "fixed":
            return w.to_real(word)
        case "lognum":
            return float(real_of(word, "lognum", w))
        case "bool" if word in (0, 1):
            return bool(word)
        case "uint":
            return word & w.mask
        case _:
            return w.signed(word)


#: a number as it is typed; the exponent is short, since an exact number with a long one fills the memory
_NUMBER = re.compile(r"[+-]?(\d{1,40}(\.\d{0,60})?|\.\d{1,60})(e[+-]?\d{1,3})?", re.IGNORECASE | re.ASCII)
_TRUTH = {"true": 1, "false": 0, "1": 1, "0": 0}


def word_of_text(kind: str, text: str, w: Format) -> int:
    """The word of a value that is typed for a variable of a kind: the nearest one. Raises InputError RG1307, RG0601, RG0602.

    value_of(kind, word_of_text(kind, str(value), w), w) == value, for the values of words
    """
    given = text.strip()
    found: int | None = None
    if kind == "bool":
        found = _TRUTH.get(given.lower())
    elif kind in ("fixed", "lognum"):
        if _NUMBER.fullmatch(given):
            if kind == "lognum":
                return int(lognum.to_words([float(given)], w)[0])
            found = round(Fraction(given) * (1 << w.frac))
            found = found if -w.sign <= found < w.sign else None
    elif re.fullmatch(r"[+-]?(0x[0-9a-f]{1,32}|\d{1,40})", given, re.IGNORECASE | re.ASCII):
        number = int(given, 16 if "x" in given.lower() else 10)
        found = number if (0 if kind == "uint" else -w.sign) <= number <= w.mask else None
    if found is None:
        raise InputError(Diagnostic("RG1307", f"`{given[:60]}` is no value of type {kind} in {w.width} bits"))
    return found & w.mask


def _element_of(
    array: VariableLocation, found: Sequence[VariableLocation], machine: Machine
) -> Callable[[tuple[int, ...]], Word]:
    """Indices -> the word of the element."""
    layout = array.layout
    assert layout is not None
    base, mask = base_of(array, machine), machine.format.mask
    own = {} if array.indirect else {v.name: v for v in found if v.name.startswith(f"{array.name}[")}

    def element(indices: tuple[int, ...]) -> Word:
        flat = 0
        for i, n in zip(indices, layout.shape, strict=True):
            flat = flat * n + i
        kept = own.get(f"{array.name}[{flat}]")
        if kept is not None:
            return Word(array.kind, place_of(kept))
        address = base + sum(i * s for i, s in zip(indices, layout.strides, strict=True))
        return Word(array.kind, Place(address & mask, memory=True))

    return element


def elements(array: VariableLocation, machine: Machine, most: int = 1 << 20) -> Iterator[Word]:
    """The words of an array's first `most` elements, in row-major order; of a stack, the elements that were pushed."""
    layout = array.layout
    assert layout is not None
    shape = (stack_length(array, machine),) if layout.stack else layout.shape
    element = _element_of(array, live(machine.program, point_of(machine)), machine)
    for flat in range(min(prod(shape), most)):
        indices: list[int] = []
        rest = flat
        for n in reversed(shape):
            rest, i = divmod(rest, n)
            indices.insert(0, i)
        word = element(tuple(indices))
        if word.place.index < len(machine._memory) or not word.place.memory:
            yield word


def _array(array: VariableLocation, machine: Machine, most: int) -> Variable:
    assert array.layout is not None
    words = list(elements(array, machine, most))
    shape = (stack_length(array, machine),) if array.layout.stack else array.layout.shape
    values: list[Value | Values] = [word.value(machine) for word in words]
    if len(values) == prod(shape):
        for n in reversed(shape[1:]):
            values = [values[k : k + n] for k in range(0, len(values), n)] if n else []
    cotangents = [cotangent_of(word.place, machine) for word in words] if machine._cotangents is not None else None
    place = words[0].place if words else Place(base_of(array, machine), memory=True)
    return Variable(array.name, array.kind, place, values, cotangents, shape)


def array_value(array: VariableLocation, machine: Machine) -> Value | Values:
    """The elements of an array, nested by its axes."""
    return _array(array, machine, 1 << 20).value


def variables(machine: Machine, most: int = 1 << 20) -> list[Variable]:
    """The live variables, and the arrays, each with up to `most` elements.

    Trap: within one statement of the source a word may lie elsewhere for a few instructions.
    """
    out: dict[str, Variable] = {}
    found = live(machine.program, point_of(machine))
    arrays = {v.name for v in found if v.layout and not v.indirect}
    bases = {(v.number, v.memory) for v in found if v.indirect}
    for v in found:
        if v.layout and v.layout.shape:
            out[v.name] = _array(v, machine, most)
            continue
        if v.layout and _elsewhere(v, machine.program):
            continue
        if v.name.partition("[")[0] in arrays and "[" in v.name:
            continue
        place = Place(base_of(v, machine), memory=True) if v.layout else place_of(v)
        if v.kind == "address" and (place.index, place.memory) in bases:
            continue
        value = value_of(v.kind, int(place.word(machine)), machine.format)
        out[v.name] = Variable(v.name, v.kind, place, value, cotangent_of(place, machine))
    unsettled = unsettled_names(machine)
    return [replace(v, unsettled=True) if is_among(v.name, unsettled) else v for v in out.values()]


def is_among(name: str, variables: Collection[str]) -> bool:
    """Whether these are the variable `name`, a struct of which it is a field, or an array of which it is an element."""
    return any(name[:end] in variables for end in (*(m.start() for m in re.finditer(r"[.\[]", name)), len(name)))


def unsettled_names(machine: Machine) -> frozenset[str]:
    """The variables to which the source may give other values at the line where the machine stands."""
    program = machine.program
    span = None if machine.at_end else program.source.span(machine.pc)
    if span is None:
        return frozenset()
    return frozenset(name for name, lines in program.unsettled.items() if (span.file, span.line) in lines)
