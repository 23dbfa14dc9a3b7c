"""Counts of a run: exact, equal on every engine, and known for each address of the program.

    counts(run) = counts(its first part) + counts(the rest)

All counts follow from the executions of each instruction, by direction and by D. Engines keep these in any case, so counting
makes no run slower. Counts that depend on words, such as bits toggled, need a `Ledger`, which observes every step;
without it they are None, which is not 0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import NamedTuple, TypeVar

from retrograd.isa.entries import BAR
from retrograd.isa.microarchitecture.micro_operations import DEFAULT_UNITS, Units, core_units
from retrograd.isa.microarchitecture.microprograms import microprograms
from retrograd.isa.microarchitecture.timing import Execution, total_cycles
from retrograd.isa.program import Program
from retrograd.isa.words import Format
from retrograd.simulator.machine import Machine

#: bits of an instruction's encoding
CODE_BITS = 64


class HostTraffic(NamedTuple):
    """Bits that the host overwrote: their former contents are lost with every program."""

    #: the program's code, which overwrites another program
    code_bits: int = 0
    #: words loaded into registers and memory before the run: data, arguments
    data_bits: int = 0
    #: words copied out of the machine after the run, over memory of the host
    copied_bits: int = 0

    def __add__(self, other: object) -> HostTraffic:  # a sum, not a longer tuple
        if not isinstance(other, HostTraffic):
            return NotImplemented
        return HostTraffic(*(x + y for x, y in zip(self, other, strict=True)))

    @property
    def bits(self) -> int:
        """The sum of all bits."""
        return sum(self)


#: a host whose traffic is not counted
NOTHING = HostTraffic()


def host_traffic(program: Program, loaded_words: int, copied_words: int) -> HostTraffic:
    """The traffic of a host that loads the program and `loaded_words` beside its data, and copies `copied_words` out."""
    width = program.format.width
    data = (len(program.data) + loaded_words) * width
    return HostTraffic(len(program.code) * CODE_BITS, data, copied_words * width)


class Access(NamedTuple):
    """Accesses to memory. With D = 1 the cotangent of a word is read and written along with it."""

    reads: int = 0
    writes: int = 0
    #: bits moved by both
    bits: int = 0


#: address -> executions there
Site = tuple[int, Execution]


@dataclass(frozen=True)
class Counts:
    """The counts of a run, or of a part of one: of some of its steps, or of some of its addresses."""

    program: Program = field(repr=False)
    executed: Mapping[Site, int] = field(repr=False)
    #: bits of cotangents that were dropped when ancillas were freed
    dropped_bits: int = 0
    host: HostTraffic = NOTHING
    #: address -> Hamming distance of its writes to registers and memory; None: not counted
    toggled_at: Mapping[int, int] | None = field(default=None, repr=False)
    #: address -> bits of cotangents dropped there; None: not counted
    dropped_at: Mapping[int, int] | None = field(default=None, repr=False)
    #: the core that executes the run
    core: str = "small"

    @property
    def toggled_bits(self) -> int | None:
        """Hamming distance of all writes to registers and memory; None: not counted."""
        return None if self.toggled_at is None else sum(self.toggled_at.values())

    @property
    def format(self) -> Format:
        return self.program.format

    @cached_property
    def executions(self) -> Mapping[Execution, int]:
        """Execution -> number, over all addresses."""
        out: Counter[Execution] = Counter()
        for (_, execution), n in self.executed.items():
            out[execution] += n
        return out

    @property
    def retired(self) -> int:
        """Instructions executed, both directions together."""
        return sum(self.executed.values())

    def retired_by_function(self) -> dict[str, dict[int, int]]:
        """Function of the instruction table -> direction -> number."""
        out: dict[str, dict[int, int]] = {}
        for execution, n in self.executions.items():
            found = out.setdefault(execution.opcode.entry.name, {+1: 0, -1: 0})
            found[execution.direction] += n
        return out

    @cached_property
    def cycles(self) -> int:
        """The cycles of the co-processor (docs/reference/timing.md)."""
        return total_cycles(self.executions, self.format, core_units(self.core))

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
        """Function unit -> its micro-operations. An instruction is charged like its inverse: see `operations_of`."""
        out: Counter[str] = Counter()
        for execution, n in self.executions.items():
            for unit, times in operations_of(execution, self.format, core_units(self.core)).items():
                out[unit] += n * times
        return out

    @cached_property
    def erase_bits(self) -> int:
        """Bits lost to `erase`: whole words, zero or not."""
        return sum(n * e.opcode.erased_words for e, n in self.executions.items()) * self.format.width

    @property
    def erased_bits(self) -> int:
        """Bits that the program lost: to `erase`, and to freed ancillas whose cotangents were dropped."""
        return self.erase_bits + self.dropped_bits

    def at(self, addresses: Iterable[int]) -> Counts:
        """The counts at these addresses, without the host's part.

        Only a ledger counts dropped cotangents and toggled bits for each address; without it they are known for the whole run.
        """
        wanted = frozenset(addresses)
        executed = {site: n for site, n in self.executed.items() if site[0] in wanted}
        toggled, dropped = (_within(found, wanted) for found in (self.toggled_at, self.dropped_at))
        return Counts(self.program, executed, sum((dropped or {}).values()), NOTHING, toggled, dropped, self.core)

    def with_host(self, host: HostTraffic) -> Counts:
        """The same counts with the traffic of the host."""
        return replace(self, host=host)

    def __add__(self, other: Counts) -> Counts:
        return self._combined(other, +1)

    def __sub__(self, other: Counts) -> Counts:
        """The later part of a run: `counts_of(machine) - before`."""
        return self._combined(other, -1)

    def _combined(self, other: Counts, sign: int) -> Counts:
        if self.program != other.program or self.core != other.core:
            raise ValueError("counts of different programs or cores have no sum")
        executed = _sum(self.executed, other.executed, sign)
        assert executed is not None
        return Counts(
            self.program,
            executed,
            self.dropped_bits + sign * other.dropped_bits,
            self.host + HostTraffic(*(sign * bits for bits in other.host)),
            _sum(self.toggled_at, other.toggled_at, sign),
            _sum(self.dropped_at, other.dropped_at, sign),
            self.core,
        )


_Key = TypeVar("_Key", bound=Hashable)


def _sum(one: Mapping[_Key, int] | None, other: Mapping[_Key, int] | None, sign: int) -> dict[_Key, int] | None:
    """f of the counts key by key; None if either was not counted."""
    if one is None or other is None:
        return None
    out = Counter(one)
    for key, n in other.items():
        out[key] += sign * n
    return {key: n for key, n in out.items() if n}


def _within(found: Mapping[int, int] | None, wanted: frozenset[int]) -> dict[int, int] | None:
    return None if found is None else {at: n for at, n in found.items() if at in wanted}


def counts_of(machine: Machine, host: HostTraffic | None = None) -> Counts:
    """The counts of the machine so far, on any engine."""
    return Counts(machine.program, machine.executions_at(), machine.dropped_bits, host or NOTHING, core=machine.core)


@cache
def operations_of(execution: Execution, w: Format, units: Units = DEFAULT_UNITS) -> Mapping[str, int]:
    """Function unit -> micro-operations of an instruction: the larger number of the instruction and its inverse.

    A run back thus costs as much as the run. The cycle model treats cycles in the same way.
    """
    opcode, lifted = execution.opcode, execution.lifted
    programs = microprograms(opcode.entry, w, lifted, execution.same, units)
    most: Counter[str] = Counter()
    for name in (opcode.name, opcode.inverse_name):
        most |= Counter(op.unit.value for op in programs[name].schedule.operations)
    return dict(most)


@cache
def _accesses(execution: Execution, w: Format) -> tuple[int, int]:
    """(reads, writes) of memory: a word that changes is read first; a word whose cotangent changes is written back."""
    opcode, lifted = execution.opcode, execution.lifted
    if "m" not in opcode.reads and "m" not in opcode.writes:
        return 0, 0
    programs = microprograms(opcode.entry, w, lifted, execution.same)
    changed = {name.removesuffix(BAR) for name in programs[opcode.name].schedule.after}
    return 1, int("m" in changed)
