"""Laws of garbage and erasure: a function leaves no garbage, and erases no more bits than allowed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from retrograd.compiler.ir.statements import Op, Var
from retrograd.runtime._execution import ProgramTrap
from retrograd.runtime._reversible import Inverse, Reversible
from retrograd.runtime._traps import LANDAUER_300K
from retrograd.simulator.machine import Machine, Trap
from retrograd.testing.laws import Subject, cell_at, shown, subject

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
    before = list(machine.memory)
    try:
        s.run(machine)
    except ProgramTrap as trap:
        if trap.code == "RG0802":
            s.broken("RG0904", f"`{s.name}` leaves garbage", trap=trap)
        raise
    report = _erasures(s, machine)
    own = {i for a in s.compiled.arguments for i in range(a.address, a.address + a.type.size)}
    for address, (was, now) in enumerate(zip(before, machine.memory, strict=True)):
        if was != now and address not in own:
            cell = cell_at(s.compiled, address)
            values = f"was {shown(was, cell.kind, machine.format)}, and is {shown(now, cell.kind, machine.format)}"
            writer = _last_writer(s, machine, lambda at=address: machine.memory[at])  # type: ignore[misc]
            s.broken("RG0904", f"`{cell.name}` {values} after `{s.name}`{writer}")
    for register, word in enumerate(machine.registers):
        if word:
            writer = _last_writer(s, machine, lambda at=register: machine.registers[at])  # type: ignore[misc]
            s.broken("RG0904", f"register r{register} holds 0x{word:x} after `{s.name}`{writer}")
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
