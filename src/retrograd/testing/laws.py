"""The base of all laws: their error, runs of a function on fresh machines, names of words of memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from retrograd.compiler.compiled import Compiled
from retrograd.compiler.ir.statements import Kind
from retrograd.compiler.language.types import ArrayType, ScalarType, StackType, StaticType, StructType, Type
from retrograd.isa.diagnostics import Diagnostic, RetrogradError
from retrograd.isa.words import Format
from retrograd.runtime._execution import execute, load
from retrograd.runtime._marshal import from_words
from retrograd.runtime._reversible import Inverse, Reversible, oriented, request_of
from retrograd.runtime._traps import explain
from retrograd.simulator.machine import Machine, Trap
from retrograd.simulator.stores import Store

#: words that are named where more differ
_NAMED = 4


class LawBroken(RetrogradError, AssertionError):
    """A law does not hold for a function; the message names the argument, the element, the values, and the function's line."""


@dataclass(frozen=True)
class Subject:
    """The subject of a law: a function, its direction, and its arguments."""

    function: Reversible
    backward: bool
    values: list[Any]
    compiled: Compiled

    @property
    def name(self) -> str:
        return f"{'~' if self.backward else ''}{self.function.__name__}"

    @property
    def inverse_name(self) -> str:
        return f"{'' if self.backward else '~'}{self.function.__name__}"

    def machine(self, *, inverse: bool = False) -> Machine:
        """A machine at the start of the function, or of its inverse, with the arguments."""
        return load(self.compiled, self.values, backward=self.backward is not inverse)

    def machine_on(self, memory: Store, *, inverse: bool = False) -> Machine:
        """A machine at the start of the function, with these words of memory."""
        machine = Machine(self.compiled.program, backward=self.backward is not inverse)
        machine.load(0, memory)
        return machine

    def run(self, machine: Machine, max_steps: int | None = None) -> None:
        """To the end. Raises ProgramTrap."""
        execute(self.compiled, machine, max_steps)

    def broken(
        self, code: str, message: str, hint: str | None = None, *, trap: RetrogradError | None = None
    ) -> NoReturn:
        """Raise LawBroken, pointing at the function's head."""
        source = self.function.source
        span = source.span(self.function.tree)
        found = Diagnostic(code, message, span, hint, source.text(span.line))
        raise LawBroken(found, *(() if trap is None else trap.diagnostics))


def subject(f: Reversible | Inverse, args: Sequence[Any], keywords: dict[str, Any]) -> Subject:
    """The function and its arguments, compiled. Raises CompileError, InputError."""
    function, backward = oriented(f)
    request = request_of(f)
    values = request.values(tuple(args), keywords)
    return Subject(function, backward, values, request.compiled(values))


def explained(s: Subject, machine: Machine, trap: Trap) -> RetrogradError:
    """A trap of the machine in terms of the source."""
    return RetrogradError(explain(s.compiled, machine, trap))


# ---------------------------------------------------------------------- words by name


@dataclass(frozen=True)
class Cell:
    """A word of an argument: its name, such as `x[2].re`, and its kind; INT for the count of a stack."""

    name: str
    kind: Kind


def cells(t: Type, name: str) -> list[Cell]:
    """The words of a type, in the order of memory."""
    match t:
        case ScalarType(kind):
            return [Cell(name, kind)]
        case ArrayType(element, shape):
            out: list[Cell] = []
            for k in range(t.size // element.size if element.size else 0):
                index = []
                for length in reversed(shape):
                    k, at = divmod(k, length)  # noqa: PLW2901
                    index.append(str(at))
                out += cells(element, f"{name}[{', '.join(reversed(index))}]")
            return out
        case StructType(_, fields):
            return [cell for field, inner in fields for cell in cells(inner, f"{name}.{field}")]
        case StackType(element, capacity):
            return [Cell(f"len({name})", Kind.INT), *(Cell(f"{name}[{k}]", element.kind) for k in range(capacity))]
        case StaticType():
            return []


def shown(word: int, kind: Kind, w: Format) -> str:
    """A word as its value, and in hexadecimal: values that differ in the last place look alike in decimal."""
    value = from_words(ScalarType(kind if kind is not Kind.ADDRESS else Kind.INT), [word], w)
    return f"{value} (0x{word:x})"


def cell_at(compiled: Compiled, address: int) -> Cell:
    """The word at an address: of an argument, of an array of the program, or of the stack."""
    for a in compiled.arguments:
        if a.address <= address < a.address + a.type.size:
            return cells(a.type, a.name)[address - a.address]
    for region in compiled.module.regions:
        if region.address is not None and region.address <= address < region.address + region.size:
            return Cell(f"{region.name}[{address - region.address}]", Kind.INT)
    return Cell(f"word {address - compiled.module.memory} of the stack", Kind.INT)


def differences(compiled: Compiled, before: Store, after: Store) -> list[str]:
    """`x[2]` was 1.5 (0x18…), and is 1.75 (0x1c…): a line for each word that differs, the first few of many."""
    changed = [i for i, (a, b) in enumerate(zip(before, after, strict=True)) if a != b]
    out = []
    for address in changed[:_NAMED]:
        cell = cell_at(compiled, address)
        was, now = (shown(m[address], cell.kind, compiled.format) for m in (before, after))
        out.append(f"`{cell.name}` was {was}, and is {now}")
    if len(changed) > _NAMED:
        out.append(f"and {len(changed) - _NAMED} more words differ")
    return out


def nonzero(registers: Store) -> list[str]:
    """A phrase for each register that is not zero, the first few of many."""
    dirty = [(i, word) for i, word in enumerate(registers) if word]
    out = [f"register r{i} holds 0x{word:x}" for i, word in dirty[:_NAMED]]
    if len(dirty) > _NAMED:
        out.append(f"and {len(dirty) - _NAMED} more registers")
    return out
