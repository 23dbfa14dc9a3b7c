"""What a run did, counted: exact, equal on every engine, and known for each address of the program.

    counts(run) = counts(its first part) + counts(the rest)

All of it follows from how often each instruction was executed, in which direction and with which D: engines keep that
anyway, so counting makes no run slower. What hangs on the words themselves, bits toggled for one, is seen by
a `Ledger` that looks at every step; without one it is None, which is not 0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import NamedTuple, TypeVar

from retrograd.isa.entries import BAR
from retrograd.isa.microarchitecture.microprograms import microprograms
from retrograd.isa.microarchitecture.timing import Execution, total_cycles
from retrograd.isa.program import Program
from retrograd.isa.words import Format
from retrograd.simulator.machine import Machine

#: bits of an instruction's encoding
CODE_BITS = 64


class HostTraffic(NamedTuple):
    """Bits that the host overwrote: what lay there before is lost, whatever the program does."""

    #: the program's code, where another program's was
    code_bits: int = 0
    #: what it loads into registers and memory before the run: data, arguments
    data_bits: int = 0
    #: what it copies out of the machine after the run, over memory of its own
    copied_bits: int = 0

    def __add__(self, other: object) -> HostTraffic:  # a sum, not a longer tuple
        if not isinstance(other, HostTraffic):
            return NotImplemented
        return HostTraffic(*(x + y for x, y in zip(self, other, strict=True)))

    @property
    def bits(self) -> int:
        """All together."""
        return sum(self)


#: a host that is not looked at
NOTHING = HostTraffic()


def host_traffic(program: Program, loaded_words: int, copied_words: int) -> HostTraffic:
    """What a host overwrites that loads the program, so many words beside its data, and copies so many out."""
    width = program.format.width
    data = (len(program.data) + loaded_words) * width
    return HostTraffic(len(program.code) * CODE_BITS, data, copied_words * width)


class Access(NamedTuple):
    """Accesses to memory. With D = 1 a word's cotangent stands beside it, and is read and written along with it."""

    reads: int = 0
    writes: int = 0
    #: bits moved by both
    bits: int = 0


#: an address, and what was executed there
Site = tuple[int, Execution]


@dataclass(frozen=True)
class Counts:
    """The counts of a run, or of a part of one: of some of its steps, or of some of its addresses."""

    program: Program = field(repr=False)
    executed: Mapping[Site, int] = field(repr=False)
    #: bits of cotangents that were lost as ancillas were freed
    dropped_bits: int = 0
    host: HostTraffic = NOTHING
    #: address -> Hamming distance of its writes to registers and memory; None: not counted
    toggled_at: Mapping[int, int] | None = field(default=None, repr=False)
    #: address -> which of the dropped bits were lost there; None: not counted
    dropped_at: Mapping[int, int] | None = field(default=None, repr=False)

    @property
    def toggled_bits(self) -> int | None:
        """Hamming distance of all writes to registers and memory; None: not counted."""
        return None if self.toggled_at is None else sum(self.toggled_at.values())

    @property
    def format(self) -> Format:
        return self.program.format

    @cached_property
    def executions(self) -> Mapping[Execution, int]:
        """How often what was executed, anywhere."""
        out: Counter[Execution] = Counter()
        for (_, execution), n in self.executed.items():
            out[execution] += n
        return out

    @property
    def retired(self) -> int:
        """Instructions executed, both directions together."""
        return sum(self.executed.values())

    def retired_by_function(self) -> dict[str, dict[int, int]]:
        """function of the instruction table -> direction -> how often."""
        out: dict[str, dict[int, int]] = {}
        for execution, n in self.executions.items():
            found = out.setdefault(execution.opcode.entry.name, {+1: 0, -1: 0})
            found[execution.direction] += n
        return out

    @cached_property
    def cycles(self) -> int:
        """What the co-processor takes for it (docs/reference/timing.md)."""
        return total_cycles(self.executions, self.format)

    @cached_property
    def accesses(self) -> Access:
        """Reads and writes of data memory."""
        out = Access()
        for execution, n in self.executions.items():
            reads, writes = _accesses(execution, self.format)
            width = self.format.width * (2 if execution.lifted else 1)
            out = Access(out.reads + n * reads, out.writes + n * writes, out.bits + n * (reads + writes) * width)
        return out

    @cached_property
    def operations(self) -> Mapping[str, int]:
        """Function unit -> the micro-operations it did. An instruction is charged like its inverse: see `operations_of`."""
        out: Counter[str] = Counter()
        for execution, n in self.executions.items():
            for unit, times in operations_of(execution, self.format).items():
                out[unit] += n * times
        return out

    @cached_property
    def erase_bits(self) -> int:
        """Bits lost to `erase`: its words, whole, whatever they held."""
        return sum(n * e.opcode.erased_words for e, n in self.executions.items()) * self.format.width

    @property
    def erased_bits(self) -> int:
        """Bits that the program lost: to `erase`, and to freed ancillas whose cotangents were dropped."""
        return self.erase_bits + self.dropped_bits

    def at(self, addresses: Iterable[int]) -> Counts:
        """What was executed at these addresses, without the host's part.

        Where they dropped cotangents, and what they toggled, only a ledger knows; without one it is told of the whole alone.
        """
        wanted = frozenset(addresses)
        executed = {site: n for site, n in self.executed.items() if site[0] in wanted}
        toggled, dropped = (_within(found, wanted) for found in (self.toggled_at, self.dropped_at))
        return Counts(self.program, executed, sum((dropped or {}).values()), NOTHING, toggled, dropped)

    def with_host(self, host: HostTraffic) -> Counts:
        """The same with what the host did."""
        return replace(self, host=host)

    def __add__(self, other: Counts) -> Counts:
        return self._combined(other, +1)

    def __sub__(self, other: Counts) -> Counts:
        """What came after: `counts_of(machine) - before`."""
        return self._combined(other, -1)

    def _combined(self, other: Counts, sign: int) -> Counts:
        if self.program != other.program:
            raise ValueError("counts of different programs have no sum")
        executed = _sum(self.executed, other.executed, sign)
        assert executed is not None
        return Counts(
            self.program,
            executed,
            self.dropped_bits + sign * other.dropped_bits,
            self.host + HostTraffic(*(sign * bits for bits in other.host)),
            _sum(self.toggled_at, other.toggled_at, sign),
            _sum(self.dropped_at, other.dropped_at, sign),
        )


_Key = TypeVar("_Key", bound=Hashable)


def _sum(one: Mapping[_Key, int] | None, other: Mapping[_Key, int] | None, sign: int) -> dict[_Key, int] | None:
    """Key by key; None where either was not counted."""
    if one is None or other is None:
        return None
    out = Counter(one)
    for key, n in other.items():
        out[key] += sign * n
    return {key: n for key, n in out.items() if n}


def _within(found: Mapping[int, int] | None, wanted: frozenset[int]) -> dict[int, int] | None:
    return None if found is None else {at: n for at, n in found.items() if at in wanted}


def counts_of(machine: Machine, host: HostTraffic | None = None) -> Counts:
    """What the machine has done so far, on whatever engine."""
    return Counts(machine.program, machine.executions_at(), machine.dropped_bits, host or NOTHING)


@cache
def operations_of(execution: Execution, w: Format) -> Mapping[str, int]:
    """Function unit -> micro-operations that an instruction costs: as many as it or its inverse has, whichever has more.

    So a run back costs what the run did, as it takes as many cycles: of two that undo each other, the shorter waits.
    """
    opcode, lifted = execution.opcode, execution.lifted
    programs = microprograms(opcode.entry, w, lifted, execution.same)
    most: Counter[str] = Counter()
    for name in (opcode.name, opcode.inverse_name):
        most |= Counter(op.unit.value for op in programs[name].schedule.operations)
    return dict(most)


@cache
def _accesses(execution: Execution, w: Format) -> tuple[int, int]:
    """(reads, writes) of memory: a word that changes is read first, and one whose cotangent changes is written back."""
    opcode, lifted = execution.opcode, execution.lifted
    if "m" not in opcode.reads and "m" not in opcode.writes:
        return 0, 0
    programs = microprograms(opcode.entry, w, lifted, execution.same)
    changed = {name.removesuffix(BAR) for name in programs[opcode.name].schedule.after}
    return 1, int("m" in changed)
