"""The base of all laws: their error, runs of a function on fresh machines, names of words of memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from retrograd.compiler.compiled import Compiled
from retrograd.compiler.ir.statements import Kind, Op, Var
from retrograd.compiler.language.types import ArrayType, ScalarType, StackType, StaticType, StructType, Type
from retrograd.isa.diagnostics import Diagnostic, RetrogradError
from retrograd.isa.words import Format
from retrograd.runtime._execution import ProgramTrap, execute, load
from retrograd.runtime._marshal import from_words
from retrograd.runtime._reversible import Inverse, Reversible, oriented, request_of
from retrograd.runtime._traps import LANDAUER_300K, explain
from retrograd.simulator.machine import Machine, Trap
from retrograd.simulator.stores import Store, changed, copied

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
        # These are words already, in the kind of store that the machine has.
        machine.memory.store[:] = memory
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
            words = (cell for k in range(capacity) for cell in cells(element, f"{name}[{k}]"))
            return [Cell(f"len({name})", Kind.INT), *words]
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
    addresses = changed(before, after)
    out = []
    for address in addresses[:_NAMED]:
        cell = cell_at(compiled, address)
        was, now = (shown(m[address], cell.kind, compiled.format) for m in (before, after))
        out.append(f"`{cell.name}` was {was}, and is {now}")
    if len(addresses) > _NAMED:
        out.append(f"and {len(addresses) - _NAMED} more words differ")
    return out


def nonzero(registers: Store) -> list[str]:
    """A phrase for each register that is not zero, the first few of many."""
    dirty = [(i, word) for i, word in enumerate(registers) if word]
    out = [f"register r{i} holds 0x{word:x}" for i, word in dirty[:_NAMED]]
    if len(dirty) > _NAMED:
        out.append(f"and {len(dirty) - _NAMED} more registers")
    return out


# -----------------------------------------------------------------------------
# The law of the inverse: (~f)(f(x)) == x, in every word of memory.

#: the inverse may run long on arguments that f never reaches: its limit, in runs of f
_PATIENCE = 10


@dataclass(frozen=True)
class InverseReport:
    """A law that holds: `steps` of f, the `stops` after which it turned back, and whether `(~f)(x)` has a value."""

    steps: int
    erased_bits: int
    memory_words: int
    stops: tuple[int, ...]
    other_order: bool


def check_inverse(f: Reversible | Inverse, /, *args: Any, stops: int = 3, **keywords: Any) -> InverseReport:
    """(~f)(f(x)) == x, and f((~f)(x)) == x where ~f has a value at x; and back to x from `stops` points in the middle.

    Equal means every word of memory, not only those of the arguments, and all registers zero. Trap: two whole runs alone would not
    detect a wrong inverse of a function that is its own inverse, so the machine also turns in the middle.
    Raises LawBroken RG0901 naming the words that differ; ProgramTrap where f has no value at x, after the machine has run back
    from the trap to x; CompileError, InputError.
    """
    s = subject(f, args, keywords)
    machine = s.machine()
    before = copied(machine.memory.store)
    _run_or_return(s, machine, before)
    after, steps = copied(machine.memory.store), machine.retired
    there = f"after `{s.name}`"
    _compare(s, machine, after, there)

    back = s.machine_on(after, inverse=True)
    _run(s, back, f"`{s.inverse_name}` does not run where `{s.name}` has run")
    _compare(s, back, before, f"after `{s.name}` and then `{s.inverse_name}`")

    other = s.machine(inverse=True)
    reachable = True
    try:
        _run_or_return(s, other, before, _PATIENCE * steps + 1000)
    except ProgramTrap:
        reachable = False
    if reachable:
        again = s.machine_on(other.memory.store)
        _run(s, again, f"`{s.name}` does not run where `{s.inverse_name}` has run")
        _compare(s, again, before, f"after `{s.inverse_name}` and then `{s.name}`")

    # The middles of `stops` equal parts of the run.
    points = tuple(sorted({steps * (2 * i + 1) // (2 * stops) for i in range(stops)} - {0}))
    for point in points:
        turned = s.machine()
        turned.run(point)
        turned.turn()
        _run(s, turned, f"`{s.name}` does not run back from step {point}", plainly=True)
        _compare(s, turned, before, f"after {point} steps of `{s.name}` and then back")
        if point == points[-1]:
            turned.turn()
            _run(s, turned, f"`{s.name}` does not run again after step {point} and back", plainly=True)
            _compare(s, turned, after, f"after {point} steps of `{s.name}`, back, and forward to its end")
    return InverseReport(steps, machine.erased_bits, len(before), points, reachable)


def _run_or_return(s: Subject, machine: Machine, before: Store, max_steps: int | None = None) -> None:
    """Run to the end. After a trap, run back to the start and raise ProgramTrap."""
    try:
        s.run(machine, max_steps)
    except ProgramTrap as stopped:
        why = stopped.diagnostics[0].message
        try:
            machine.run_back()
        except Trap as trap:
            error = explained(s, machine, trap)
            s.broken("RG0901", f"`{s.name}` stopped ({why}), and does not run back from there", trap=error)
        _compare(s, machine, before, f"after `{s.name}` stopped ({why}) and ran back")
        raise


def _run(s: Subject, machine: Machine, message: str, *, plainly: bool = False) -> None:
    """Run to the end; a trap breaks the law. `plainly`: without `rg.external` blocks."""
    try:
        if plainly:
            machine.run()
        else:
            s.run(machine)
    except Trap as trap:
        s.broken("RG0901", message, trap=explained(s, machine, trap))
    except RetrogradError as error:
        s.broken("RG0901", message, trap=error)


def _compare(s: Subject, machine: Machine, expected: Store, when: str) -> None:
    wrong = differences(s.compiled, expected, machine.memory.store) + nonzero(machine.registers)
    if wrong:
        s.broken("RG0901", f"{when}: " + "; ".join(wrong))


# -----------------------------------------------------------------------------
# Laws of garbage and erasure: a function leaves no garbage, and erases no more bits than allowed.

#: steps that are taken back to find the last write to a word
_SEARCHED = 200_000


@dataclass(frozen=True)
class ErasureReport:
    """The `bits` erased in a run, the `joules` of their uniform local erasure at 300 K, and the bits erased by each line of the source."""

    steps: int
    bits: int
    joules: float
    lines: dict[str, int]


def assert_no_garbage(f: Reversible | Inverse, /, *args: Any, **keywords: Any) -> ErasureReport:
    """After f: registers 0, memory outside the arguments as before, bits erased 0.

    Raises LawBroken RG0904 naming the dirty word, by its array or variable and the line that wrote it last; RG0905 for
    erased bits; ProgramTrap, CompileError, InputError.
    """
    s = subject(f, args, keywords)
    machine = s.machine()
    before = copied(machine.memory.store)
    try:
        s.run(machine)
    except ProgramTrap as trap:
        if trap.code == "RG0802":
            s.broken("RG0904", f"`{s.name}` leaves garbage", trap=trap)
        raise
    report = _erasures(s, machine)
    own = {i for a in s.compiled.arguments for i in range(a.address, a.address + a.type.size)}
    for address in changed(before, machine.memory.store):
        if address not in own:
            was, now = before[address], machine.memory[address]
            cell = cell_at(s.compiled, address)
            values = f"was {shown(was, cell.kind, machine.format)}, and is {shown(now, cell.kind, machine.format)}"
            writer = _last_writer(s, machine, lambda at=address: machine.memory[at])  # type: ignore[misc]
            s.broken("RG0904", f"`{cell.name}` {values} after `{s.name}`{writer}")
    for number, word in enumerate(machine.registers):
        if word:
            writer = _last_writer(s, machine, lambda at=number: machine.registers[at])  # type: ignore[misc]
            s.broken("RG0904", f"register r{number} holds 0x{word:x} after `{s.name}`{writer}")
    if report.bits:
        s.broken("RG0905", f"`{s.name}` erases {_described(report)}")
    return report


def assert_erased_bits_below(bits: int, f: Reversible | Inverse, /, *args: Any, **keywords: Any) -> ErasureReport:
    """erased(f(x)) < bits.

    Strictly: 1 allows nothing. Raises LawBroken RG0905 with the count, its joules at 300 K (kT ln 2 a bit), and the lines that erase;
    ProgramTrap, CompileError, InputError.
    """
    s = subject(f, args, keywords)
    machine = s.machine()
    s.run(machine)
    report = _erasures(s, machine)
    if report.bits >= bits:
        s.broken("RG0905", f"`{s.name}` erases {_described(report)}; allowed are fewer than {bits}")
    return report


def _erasures(s: Subject, machine: Machine) -> ErasureReport:
    """The bits erased in a run, in all and by line."""
    lines: dict[str, int] = {}
    program, way = machine.program, machine.direction
    for pc, count in enumerate(machine.executed[way]):
        words = program.table[program.instructions[pc].opcode.name].erased_words
        if count and words:
            span = program.source.span(pc)
            where = f"pc {pc}" if span is None else f"{span.file}:{span.line}"
            lines[where] = lines.get(where, 0) + count * words * machine.format.width
    return ErasureReport(machine.retired, machine.erased_bits, machine.erased_bits * LANDAUER_300K, lines)


def _described(report: ErasureReport) -> str:
    """192 bits, 5.5e-19 J at 300 K (128 bits in f.py:3, …)."""
    most = sorted(report.lines.items(), key=lambda item: -item[1])
    lines = ", ".join(f"{bits} in {where}" for where, bits in most[:5]) + (", …" if len(most) > 5 else "")
    return f"{report.bits} bits, {report.joules:.2g} J at 300 K" + (f" ({lines})" if lines else "")


def _last_writer(s: Subject, machine: Machine, watch: Callable[[], int]) -> str:
    """`: x, written last in f.py:3`, found by taking steps back; the machine stays at that place."""
    value = watch()
    try:
        for _ in range(_SEARCHED):
            if not machine.step_back():
                return ", which no instruction has written"
            if watch() != value:
                break
    except Trap:
        return ""
    span, origin = machine.program.source.span(machine.pc), s.compiled.emitted.origins[machine.pc]
    name = f": `{origin.d.name}`" if isinstance(origin, Op) and isinstance(origin.d, Var) else ""
    return name + (f", written last in {span.file}:{span.line}" if span is not None else "")
