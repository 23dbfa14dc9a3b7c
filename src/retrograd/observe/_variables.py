"""Places: registers and words of memory, by number or by their names in the program.

A place has a static set of instructions that may write it (`writers`). The set is complete: an instruction outside of it never
changes the place. An address is static if no instruction of the program writes its base register.
"""

from __future__ import annotations

import ast
import operator
import re
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import islice
from math import isfinite
from typing import Any, NamedTuple, cast

from retrograd.isa.diagnostics import Diagnostic, InputError, nearest
from retrograd.isa.encoding import Instruction
from retrograd.isa.program import Program, VariableLocation
from retrograd.isa.words import Format, numbers_of
from retrograd.runtime._arrays import real_of
from retrograd.runtime._binding import lognum
from retrograd.simulator.machine import REGISTERS, Machine

#: part of an instruction's effect -> the field that names its register
_FIELDS = {"d": "rd", "a": "ra", "b": "rb"}


@dataclass(frozen=True)
class Place:
    """A register (`memory` is false) or a word of memory."""

    index: int
    memory: bool = False

    def __str__(self) -> str:
        return f"M[{self.index}]" if self.memory else f"r{self.index}"

    def word(self, machine: Machine) -> int:
        """The word that the place holds now."""
        return (machine._memory if self.memory else machine._registers)[self.index]


def cotangent_of(place: Place, machine: Machine, kind: str | None = None) -> Fraction | None:
    """The cotangent that a place holds beside its value, as a number; None unless the machine differentiates.

    ∂L/∂x = c / 2^(F + q − p)      of a word x·2^p of a kind, and a loss L·2^q; c / 2^F for a place of no kind
    """
    if machine._cotangents is None:
        return None
    store = machine._cotangents.memory if place.memory else machine._cotangents.registers
    w, word = machine.format, int(store[place.index])
    if kind is None or machine.loss_point is None:
        return w.to_real(word)
    numbers = numbers_of(kind, w) or w
    return w.times(w.signed(word), numbers.frac - machine.loss_point - w.frac)


def place_named(text: str, program: Program, words: int) -> Place:
    """The place with a name; `words`: the size of memory. Raises InputError RG1302."""
    found = re.fullmatch(r"r(\d{1,3})", text)
    if found is not None and int(found[1]) < REGISTERS:
        return Place(int(found[1]))
    if text in program.register_names:
        return Place(program.register_names[text])
    base, offset = text, "0"
    found = re.fullmatch(r"([A-Za-z_][\w.]*)\[\s*(\w+)\s*\]", text)
    if found is not None:
        base, offset = found[1], found[2]
    known: Mapping[str, int] = {"M": 0, **program.data_labels} if found is not None else program.data_labels
    if base in known:
        try:
            address = known[base] + int(offset, 0)
        except ValueError:
            address = -1
        if 0 <= address < words:
            return Place(address, memory=True)
        raise InputError(Diagnostic("RG1302", f"`{text[:60]}` lies outside of the {words} words of memory"))
    hint = nearest(text, [*program.register_names, *program.data_labels])
    raise InputError(Diagnostic("RG1302", f"`{text[:60]}` is no place of this program", hint=hint))


def memory_names(program: Program, words: int) -> Callable[[int], str]:
    """Address -> `label`, `label[k]` within the words up to the next label, or `M[address]` before all labels."""
    labels = sorted((address, name) for name, address in program.data_labels.items() if address < words)
    addresses = [address for address, _ in labels]

    def name(address: int) -> str:
        k = bisect_right(addresses, address)
        if not k:
            return f"M[{address}]"
        start, label = labels[k - 1]
        end = addresses[k] if k < len(addresses) else words
        return label if end - start == 1 else f"{label}[{address - start}]"

    return name


def entries(program: Program) -> frozenset[int]:
    """The addresses at which calls enter and leave procedures."""
    return frozenset(pc for pc, i in enumerate(program.instructions) if i.opcode.name == "swapbr")


def line_addresses(program: Program) -> dict[str, dict[int, frozenset[int]]]:
    """file -> line -> the first addresses of each stretch of its code; of the line that heads a procedure, its entry.

    The code of such a line frames the body, so its first address is that of the return.
    """
    found: dict[str, dict[int, set[int]]] = {name: {} for name in program.source.files}
    heads: dict[tuple[str, int], set[int]] = {}
    before: tuple[str, int] | None = None
    entered = entries(program)
    for pc in range(len(program.code)):
        span = program.source.span(pc)
        now = None if span is None else (span.file, span.line)
        if now is not None and now != before:
            found[now[0]].setdefault(now[1], set()).add(pc)
        if now is not None and pc in entered:
            heads.setdefault(now, set()).add(pc)
        before = now
    return {
        name: {n: frozenset(heads.get((name, n), pcs)) for n, pcs in sorted(of.items())} for name, of in found.items()
    }


def written_registers(i: Instruction) -> set[int]:
    """The registers that an instruction or its inverse may write."""
    return {getattr(i, _FIELDS[part]) for part in i.opcode.writes if part in _FIELDS}


def writers(place: Place, machine: Machine) -> frozenset[int]:
    """The addresses of the instructions that may change the place."""
    code = machine.program.instructions
    if not place.memory:
        return frozenset(pc for pc, i in enumerate(code) if place.index in written_registers(i))
    changed = set[int]().union(*map(written_registers, code))
    mask = machine.format.mask
    return frozenset(
        pc
        for pc, i in enumerate(code)
        if "m" in i.opcode.writes and (i.ra in changed or (machine._registers[i.ra] + i.imm) & mask == place.index)
    )


# -----------------------------------------------------------------------------
# Variables of the source: the places and values of the variables that are live where the machine stands.
#
#     forward, the machine stands before the instruction at pc: point pc of the code
#     backward, the instruction at pc is undone next:           point pc + 1
#
# The compiler records the locations (`isa.program.VariableLocation`). Two variables of one name may be live, since a callee that was
# inlined has variables of its own: the name then means the variable that became live last. The elements of an array are words of
# memory, or variables `name[k]` of their own where the optimiser has put element k into a register.

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

    The value of an array is a list, of as many elements as asked for; that of a stack, also within an array or a stack,
    has the elements that were pushed.
    """

    name: str
    kind: str
    place: Place
    value: Value | Values
    #: ∂loss/∂variable so far; None unless the machine differentiates
    cotangent: Fraction | list[Fraction | None] | None = None
    #: of an array: its axes; of a stack: the number of its elements; of stacks in an array or a stack: their room
    shape: tuple[int, ...] = ()
    #: whether an array has more elements than asked for
    more: bool = False
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
    shape = [length(array, indices[:k], machine) for k in range(len(array.layout.shape))]
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


def length(array: VariableLocation, before: tuple[int, ...], machine: Machine) -> int:
    """The number of elements along the axis behind these indices; of a stack, of those that were pushed."""
    assert array.layout is not None
    axis, layout = len(before), array.layout
    if not any(layout.counts[axis : axis + 1]):
        return layout.shape[axis]
    away = sum(i * s for i, s in zip(before, layout.strides, strict=False)) - layout.counts[axis]
    return min(max(_word_or_zero(Place(base_of(array, machine) + away, memory=True), machine), 0), layout.shape[axis])


def _all_indices(array: VariableLocation, machine: Machine, before: tuple[int, ...] = ()) -> Iterator[tuple[int, ...]]:
    """The indices of all elements that begin with these, in row-major order; () of a number."""
    assert array.layout is not None
    if not array.layout.shape:
        yield ()
        return
    for i in range(length(array, before, machine)):
        if len(before) + 1 == len(array.layout.shape):
            yield (*before, i)
        else:
            yield from _all_indices(array, machine, (*before, i))


def _word_or_zero(place: Place, machine: Machine) -> int:
    return machine.format.signed(int(place.word(machine))) if 0 <= place.index < len(machine._memory) else 0


def value_of(kind: str, word: int, w: Format) -> Value:
    """The value of a word by the kind of its variable."""
    numbers = numbers_of(kind, w)
    if numbers is not None:
        return numbers.to_real(word)
    match kind:
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
    elif kind == "lognum" or (numbers := numbers_of(kind, w)) is not None:
        if _NUMBER.fullmatch(given):
            if kind == "lognum":
                return int(lognum.to_words([float(given)], w)[0])
            assert numbers is not None
            found = round(w.times(Fraction(given), numbers.frac))
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
    element = _element_of(array, live(machine.program, point_of(machine)), machine)
    for indices in islice(_all_indices(array, machine), most):
        word = element(indices)
        if word.place.index < len(machine._memory) or not word.place.memory:
            yield word


def _array(array: VariableLocation, machine: Machine, most: int) -> Variable:
    assert array.layout is not None
    words = list(elements(array, machine, most + 1))
    more = len(words) > most
    words = words[:most]
    shape = (length(array, (), machine), *array.layout.shape[1:])
    values: list[Value | Values] = [word.value(machine) for word in words]
    # An address that leads out of memory, as within a statement, has no words.
    if not more and len(words) == sum(1 for _ in _all_indices(array, machine)):
        left = iter(values)

        def nested(before: tuple[int, ...]) -> Value | Values:
            if len(before) == len(shape):
                return cast(Value, next(left))
            return [nested((*before, i)) for i in range(length(array, before, machine))]

        values = cast(Values, nested(()))
    differentiates = machine._cotangents is not None
    cotangents = [cotangent_of(word.place, machine, array.kind) for word in words] if differentiates else None
    place = words[0].place if words else Place(base_of(array, machine), memory=True)
    return Variable(array.name, array.kind, place, values, cotangents, shape, more)


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
        out[v.name] = Variable(v.name, v.kind, place, value, cotangent_of(place, machine, v.kind))
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


# -----------------------------------------------------------------------------
# Expressions of the debugger: conditions of breakpoints, values to print.
#
#     n > 10 and total[2] == r1         variables of the source; registers, names of registers, data labels, M[ADDRESS], pc, br,
#                                       direction: signed integers
#     real(total) > 1.5                 real(place) is the word as a fixed-point number
#     cotangent(x) != 0                 cotangent(variable or place), of a machine that differentiates
#
# A name is first a variable that is live where the machine stands, then a place. Where a variable is not live, a condition with its
# name does not hold.
#
# The syntax is that of Python, of which `ast.parse` reads it. Only the nodes below have a meaning, so an expression calls nothing.

_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod, ast.BitAnd: operator.and_, ast.BitOr: operator.or_, ast.BitXor: operator.xor,
}  # fmt: skip
_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le,
    ast.Gt: operator.gt, ast.GtE: operator.ge,
}  # fmt: skip
#: an expression that is longer is refused: no condition that a person writes is
_LONGEST = 1000

_Value = Callable[[Machine], Any]


class _NotLive(Exception):
    """A variable in the expression is not live where the machine stands."""


class Expression:
    """An expression over the state of a machine. `condition`: its names of variables stand for no other places.

    Raises InputError RG1301, RG1302.
    """

    def __init__(self, text: str, machine: Machine, *, condition: bool = False) -> None:
        self.text = text
        self._condition = condition
        self._machine = machine
        try:
            if len(text) > _LONGEST:
                raise ValueError
            tree = ast.parse(text.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            hint = "Registers of PISA are r0 … r31 here: `r2` is $2." if "$" in text else None
            raise self._fault(f"`{text[:60]}` is no expression", hint) from None
        self._value = self._compiled(tree)

    def __call__(self, machine: Machine) -> Any:
        """The value in the state of a machine: an int, a bool, a float, or a Fraction. Raises InputError RG1301, RG1302."""
        try:
            return self._value(machine)
        except _NotLive as error:
            hint = "`info` lists the variables that are"
            raise InputError(Diagnostic("RG1302", f"`{error}` is not live here", hint=hint)) from None
        except (ArithmeticError, TypeError) as error:
            raise self._fault(f"`{self.text[:60]}`: {error}") from None

    def holds(self, machine: Machine) -> bool:
        """Whether it is true in the state of a machine; false where one of its variables is not live. Raises InputError RG1301."""
        try:
            return bool(self._value(machine))
        except _NotLive:
            return False
        except (ArithmeticError, TypeError) as error:
            raise self._fault(f"`{self.text[:60]}`: {error}") from None

    @staticmethod
    def _fault(message: str, hint: str | None = None) -> InputError:
        return InputError(Diagnostic("RG1301", message, hint=hint))

    def _place(self, text: str) -> Place:
        return place_named(text, self._machine.program, len(self._machine._memory))

    def _named(self, text: str) -> _Value:
        """The value of a name: of the variable, where one is live; else of the place."""
        signed = self._machine.format.signed
        if is_variable(text, self._machine.program):
            place = None if self._condition else self._place_or_none(text, known=True)

            def value(machine: Machine) -> Any:
                found = named(text, machine, condition=self._condition)
                if found is None:
                    if place is None:
                        raise _NotLive(text)
                    return signed(place.word(machine))
                return found.value(machine) if isinstance(found, Word) else array_value(found, machine)

            return value
        place = self._place(text)
        return lambda machine: signed(place.word(machine))

    def _cotangent(self, text: str) -> _Value:
        """The cotangent of a live variable, or else of a place."""
        if self._machine._cotangents is None:
            raise self._fault(
                f"cotangent({text[:40]}): this machine does not differentiate; `--loss NAME` debugs the way back"
            )
        known = is_variable(text, self._machine.program)
        fixed = None if known and self._condition else self._place_or_none(text, known)

        def value(machine: Machine) -> Any:
            found = named(text, machine, condition=self._condition)
            place = found.place if isinstance(found, Word) else fixed
            if place is None:
                raise _NotLive(text)
            return cotangent_of(place, machine, None if found is None else found.kind)

        return value

    def _path(self, node: ast.expr) -> _Value:
        """A name with fields and indices, such as `ps[i].x[0]`; an index is an expression."""
        parts: list[str | _Value] = []
        rest = node
        while not isinstance(rest, ast.Name):
            if isinstance(rest, ast.Attribute):
                parts.append(f".{rest.attr}")
                rest = rest.value
            elif isinstance(rest, ast.Subscript):
                indices = rest.slice.elts if isinstance(rest.slice, ast.Tuple) else [rest.slice]
                inner: list[str | _Value] = ["["]
                for i in indices:
                    fixed = isinstance(i, ast.Constant) and isinstance(i.value, int)
                    inner += [", "] * (len(inner) > 1)
                    inner.append(ast.unparse(i) if fixed else self._compiled(i))
                parts += reversed([*inner, "]"])
                rest = rest.value
            else:
                raise self._fault(f"`{self.text[:60]}`: `{ast.unparse(node)[:40]}` has no meaning here")
        parts.append(rest.id)
        parts.reverse()
        if all(isinstance(part, str) for part in parts):
            return self._named("".join(map(str, parts)))

        def value(machine: Machine) -> Any:
            return self._named("".join(p if isinstance(p, str) else f"{p(machine)}" for p in parts))(machine)

        return value

    def _place_or_none(self, text: str, known: bool) -> Place | None:
        """The place with a name; of a variable that is no place as well, None. Raises InputError RG1302."""
        try:
            return self._place(text)
        except InputError:
            if known:
                return None
            raise

    def _compiled(self, node: ast.expr) -> _Value:
        match node:
            case ast.Constant(value=bool() | int() as value):
                return lambda _: value
            case ast.Constant(value=float() as value) if isfinite(value):
                number = Fraction(value)
                return lambda _: number
            case ast.Name(id="pc" | "br" | "direction" as name):
                return lambda machine: getattr(machine, name)
            case ast.Name() | ast.Subscript() | ast.Attribute():
                return self._path(node)
            case ast.Call(func=ast.Name(id="real"), args=[inner], keywords=[]):
                real, exact = self._machine.format.to_real, self._place(ast.unparse(inner))
                return lambda machine: real(exact.word(machine))
            case ast.Call(func=ast.Name(id="cotangent"), args=[inner], keywords=[]):
                return self._cotangent(ast.unparse(inner))
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
                return _both(_ARITHMETIC[type(op)], self._compiled(left), self._compiled(right))
            case ast.UnaryOp(op=ast.USub(), operand=inner):
                negated = self._compiled(inner)
                return lambda machine: -negated(machine)
            case ast.UnaryOp(op=ast.Not(), operand=inner):
                opposite = self._compiled(inner)
                return lambda machine: not opposite(machine)
            case ast.Compare(left=left, ops=ops, comparators=right) if all(type(op) in _COMPARISONS for op in ops):
                terms = [self._compiled(x) for x in (left, *right)]
                pairs = [_both(_COMPARISONS[type(op)], a, b) for op, a, b in zip(ops, terms, terms[1:], strict=False)]
                return lambda machine: all(holds(machine) for holds in pairs)
            case ast.BoolOp(op=op, values=values):
                parts, every = [self._compiled(x) for x in values], isinstance(op, ast.And)
                return lambda machine: _operand(parts, every, machine)
            case _:
                divides = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div)
                hint = "Words are integers: `//` divides and rounds down." if divides else None
                raise self._fault(f"`{self.text[:60]}`: `{ast.unparse(node)[:40]}` has no meaning here", hint)


def _operand(parts: Sequence[_Value], conjunction: bool, machine: Any) -> Any:
    """The value of the first operand that decides, else that of the last one, as Python gives it."""
    found: Any = conjunction
    for part in parts:
        found = part(machine)
        if bool(found) is not conjunction:
            break
    return found


def _both(apply: Callable[[Any, Any], Any], left: _Value, right: _Value) -> _Value:
    return lambda machine: apply(left(machine), right(machine))


# -----------------------------------------------------------------------------
# Stops of a session: breakpoints, watches, their hit conditions, and log messages.
#
#     HitCondition("% 3")(passes)       the machine stands at the place for the 3rd, 6th … time
#     LogMessage("i = {i}", machine)    the text, with the values of the expressions in braces
#
# The number of passes is that of the step: it is the same whether the run came there forward or backward.

_COMPARE: dict[str, Callable[[int, int], bool]] = {
    "": operator.eq, "=": operator.eq, "==": operator.eq, "<": operator.lt, "<=": operator.le,
    ">": operator.gt, ">=": operator.ge, "%": lambda n, k: k > 0 and n % k == 0,
}  # fmt: skip
_LONGEST_CONDITION = 1000


class HitCondition:
    """A condition on the number of passes: `N` or `== N`, `< N`, `<= N`, `> N`, `>= N`, `% N` (each N-th). Raises InputError RG1301."""

    def __init__(self, text: str) -> None:
        self.text = text
        found = re.fullmatch(r"\s*(==|=|<=|<|>=|>|%|)\s*(\d{1,18})\s*", text, re.ASCII)
        if found is None:
            hint = "write a number, or `>= 3`, `% 10`"
            raise InputError(Diagnostic("RG1301", f"`{text[:60]}` is no hit condition", hint=hint))
        self._holds, self._number = _COMPARE[found[1]], int(found[2])

    def __call__(self, passes: int) -> bool:
        """Whether it holds for the present pass, counted from 1."""
        return self._holds(passes, self._number)


class LogMessage:
    """A text with expressions in braces; `{{` and `}}` are braces themselves. Raises InputError RG1301, RG1302."""

    def __init__(self, text: str, machine: Machine) -> None:
        self.text = text
        if len(text) > _LONGEST_CONDITION:
            raise InputError(Diagnostic("RG1301", f"a log message has at most {_LONGEST_CONDITION} characters"))
        self._parts: list[str | Expression] = []
        for literal, inner in re.findall(r"((?:[^{}]|\{\{|\}\})+)|\{([^{}]*)\}", text):
            if literal:
                self._parts.append(literal.replace("{{", "{").replace("}}", "}"))
            else:
                self._parts.append(Expression(inner, machine))

    def __call__(self, machine: Machine) -> str:
        """The text in the state of a machine; an expression without a value is shown as its error."""
        out = []
        for part in self._parts:
            if isinstance(part, str):
                out.append(part)
                continue
            try:
                out.append(shown(part(machine)))
            except InputError as error:
                out.append(f"<{error.diagnostics[0].message}>")
        return "".join(out)


def shown(value: object) -> str:
    """A value of an expression as text."""
    if value is None:
        return ""
    if isinstance(value, list):
        return f"[{', '.join(map(shown, value))}]"
    return f"{float(value):.10g}" if isinstance(value, Fraction | float) else str(value)


@dataclass
class Breakpoint:
    """A stop before the instruction at one of the addresses, where `condition` and the hit condition hold.

    A procedure is left through its entry. At an address of `entries` the breakpoint stops where a call enters, and not at the return.
    With `message` the text is logged, and the run goes on.
    """

    number: int
    addresses: frozenset[int]
    text: str
    entries: frozenset[int] = frozenset()
    condition: Expression | None = None
    hit: HitCondition | None = None
    message: LogMessage | None = None


@dataclass(frozen=True)
class Watch:
    """A stop where a place changes, and where `condition` and the hit condition hold. A pass is an execution of an instruction that may write it."""

    number: int
    place: Place
    text: str
    condition: Expression | None = None
    hit: HitCondition | None = None
