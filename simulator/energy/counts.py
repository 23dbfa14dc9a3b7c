"""Counts of a run: exact, equal on every engine, and known for each address, line and function of the program.

    counts(run) = counts(its first part) + counts(the rest)
    counts per address × source map → counts per line, and per function;      the parts add up to the whole

All counts follow from the executions of each instruction, by direction and by D. Engines keep these in any case, so counting
makes no run slower. Counts that depend on words, such as bits toggled, need a `Ledger`, which observes every step;
without it they are None, which is not 0:

    ledger = Ledger(machine);  machine.run(observe=ledger)

Toggled: the Hamming distance between the old and new words of registers, of memory, and of their cotangents. Live: the bits
of nonzero words of registers and memory, except the words named as `own`: the program's ancillas. Zero words need not be
erased.
Trap: a ledger observes a machine from its present state; changes by the host between runs count as toggled.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import NamedTuple, TypeVar

from retrograd.isa.entries import BAR
from retrograd.isa.microarchitecture.micro_operations import DEFAULT_UNITS, Units, core_units
from retrograd.isa.microarchitecture.schedule import Execution, microprograms, total_cycles
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


class Traffic(NamedTuple):
    """A word that crosses the border below each memory of `most` words or fewer that has more than `least`: see
    `Reuse`."""

    pc: int
    #: whether the word is written to the larger memory, or read from it
    written: bool
    least: int
    most: int


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
    #: words between memories of any size, from the run's own addresses; None: not counted
    traffic: Mapping[Traffic, int] | None = field(default=None, repr=False)

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

    def between(self, capacity: float, *, written: bool) -> int:
        """Words read from, or written to, what is behind a memory of `capacity` words. Trap: 0 where `traffic` is
        not counted."""
        return sum(
            n
            for found, n in (self.traffic or {}).items()
            if found.written == written and found.least <= capacity < found.most
        )

    def accessed(self, *, written: bool) -> int:
        """Words that the program reads, or writes, with their cotangents."""
        return sum(n * _accesses(e, self.format)[written] * (2 if e.lifted else 1) for e, n in self.executions.items())

    @cached_property
    def footprint(self) -> int:
        """Words of memory that the run may use, with their cotangents where these are live."""
        return self.program.memory * (2 if any(e.lifted for e in self.executions) else 1)

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
        traffic = None if self.traffic is None else {t: n for t, n in self.traffic.items() if t.pc in wanted}
        return Counts(
            self.program, executed, sum((dropped or {}).values()), NOTHING, toggled, dropped, self.core, traffic
        )

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
            _sum(self.traffic, other.traffic, sign),
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


# ---------------------------------------------------------------------- memories of any size

#: most words of a memory: what no memory holds
_UNBOUNDED = 1 << 62


class Reuse:
    """Stack distances: the words that cross the border of a memory, for memories of every size at once.

        distance of an access = distinct words accessed since the last access to its word, itself included
        a memory of C words holds the word  ⇔  distance ≤ C      (the least recently used word leaves first)

    Source: Mattson, Gecsei, Slutz, Traiger, IBM Syst. J. 9, 78 (1970). An access with distance d reads its word from
    what is behind each
    memory of fewer than d words. A word that was written leaves such a memory once, changed: for all capacities from
    the
    greatest distance since that write, up to d. Memories are fully associative, and a line is a word.
    """

    def __init__(self) -> None:
        self.traffic: Counter[Traffic] = Counter()
        #: word -> time of its last access; and a Fenwick tree of the times that are the last of a word
        self._last: dict[int, int] = {}
        self._marks: list[int] = [0]
        #: changed word -> its last writer, and the greatest distance of its accesses since
        self._changed: dict[int, tuple[int, int]] = {}

    def access(self, word: int, pc: int, *, written: bool) -> None:
        """The instruction at pc reads the word, and writes it back if `written`."""
        before = self._last.get(word)
        distance = _UNBOUNDED if before is None else self._since(before)
        self.traffic[Traffic(pc, False, 0, distance)] += 1
        self._leaves(word, distance)
        if before is not None:
            self._mark(before, -1)
        self._last[word] = len(self._marks)
        self._append()
        if written:
            self._changed[word] = pc, 0
        elif word in self._changed:
            writer, most = self._changed[word]
            self._changed[word] = writer, max(most, distance)

    def counted(self) -> dict[Traffic, int]:
        """The traffic so far. Changed words have left each memory that is too small to hold them still."""
        kept = self.traffic.copy()
        for word in self._changed:
            self._leaves(word, self._since(self._last[word]))
        found, self.traffic = dict(self.traffic), kept
        return found

    def _leaves(self, word: int, distance: int) -> None:
        writer, most = self._changed.get(word, (0, _UNBOUNDED))
        if most < distance:
            self.traffic[Traffic(writer, True, most, distance)] += 1

    # A Fenwick tree over times, which start at 1: sums of marks in time log n.

    def _since(self, time: int) -> int:
        return len(self._last) - self._until(time) + 1

    def _until(self, time: int) -> int:
        total = 0
        while time:
            total += self._marks[time]
            time &= time - 1
        return total

    def _mark(self, time: int, change: int) -> None:
        while time < len(self._marks):
            self._marks[time] += change
            time += time & -time

    def _append(self) -> None:
        """A mark at the next time."""
        time = len(self._marks)
        self._marks.append(1 + self._until(time - 1) - self._until(time & (time - 1)))


# ---------------------------------------------------------------------- bits over time

#: limit of samples; beyond it, every second sample is removed
SAMPLES = 4096


class Sample(NamedTuple):
    """The state of a ledger after a number of steps."""

    step: int
    live_bits: int
    #: steps since the ledger began
    erased_bits: int


class Ledger:
    """Count a step; the `observe` of a run."""

    def __init__(
        self,
        machine: Machine,
        own: Collection[int] = (),
        samples: int = SAMPLES,
        *,
        addresses: bool = False,
        silent: bool = False,
    ) -> None:
        #: whether it is kept for counts alone, and not for bits over time
        self.silent = silent
        #: bits toggled and bits of cotangents dropped at an address
        self.toggled: Counter[int] = Counter()
        self.dropped: Counter[int] = Counter()
        #: words between memories of any size, if they are counted
        self.reuse = Reuse() if addresses else None
        self._writes: dict[tuple[int, bool, int], bool] = {}
        self.steps = 0
        #: the most live bits after any step, sampled or not
        self.peak_bits = 0
        self._own = frozenset(own)
        self._every, self._most = 1, max(2, samples)
        self._words = list(machine.registers), list(machine.memory)
        self._cotangents = list(machine.cotangents), list(machine.memory_cotangents)
        self._live = sum(map(bool, self._words[0]))
        self._live += sum(bool(word) for at, word in enumerate(self._words[1]) if at not in self._own)
        self._erased = self._dropped = 0
        self._dropped_before = machine.dropped_bits
        self._counts = {way: list(hits) for way, hits in machine.executed.items()}
        self._width = machine.format.width
        self.samples: list[Sample] = []
        self._sample()

    def again(self, machine: Machine) -> Ledger:
        """A ledger of the same kind, from the present state of the machine. Words that are near stay near."""
        found = Ledger(machine, self._own, self._most, silent=self.silent)
        found.reuse = self.reuse
        return found

    @property
    def toggled_bits(self) -> int:
        """All bits toggled."""
        return self.toggled.total()

    def counted(self, counts: Counts) -> Counts:
        """The counts of the observed run, with bits toggled and dropped at each address."""
        traffic = None if self.reuse is None else self.reuse.counted()
        return replace(counts, toggled_at=dict(self.toggled), dropped_at=dict(self.dropped), traffic=traffic)

    def __call__(self, machine: Machine, pc: int) -> None:
        i = machine.program.instructions[pc]
        fields = {i.rd, i.ra, i.rb}
        for at in fields:
            self._look(self._words[0], at, machine.registers[at], pc, counts=True)
        uses_memory = "m" in i.opcode.reads or "m" in i.opcode.writes
        address = (machine.registers[i.ra] + i.imm) & machine.format.mask
        if uses_memory:
            if self.reuse is not None:
                self._access(self.reuse, machine, pc, address)
            self._look(self._words[1], address, machine.memory[address], pc, counts=address not in self._own)
        if machine.cotangents:
            registers, memory = self._cotangents
            if not registers:
                registers[:], memory[:] = [0] * len(self._words[0]), [0] * len(self._words[1])
            for at in fields:
                self._look(registers, at, machine.cotangents[at], pc)
            if uses_memory:
                self._look(memory, address, machine.memory_cotangents[address], pc)
        self._count(machine, pc)
        self.steps += 1
        self.peak_bits = max(self.peak_bits, self._live * self._width)
        if self.steps % self._every == 0:
            self._sample()

    def _access(self, reuse: Reuse, machine: Machine, pc: int, address: int) -> None:
        """The words of an access, by the counts of `Counts.accesses`: with D = 1 the cotangent lies in a second
        memory."""
        lifted, way = machine.differentiating, machine.direction
        written = self._writes.get((pc, lifted, way))
        if written is None:
            execution = Execution.at(machine.program, pc, lifted, way)
            written = self._writes[pc, lifted, way] = bool(_accesses(execution, machine.format)[1])
        reuse.access(address, pc, written=written)
        if lifted:
            reuse.access(address + machine.program.memory, pc, written=written)

    def _look(self, known: list[int], at: int, now: int, pc: int, *, counts: bool = False) -> None:
        was = known[at]
        if was == now:
            return
        self.toggled[pc] += (was ^ now).bit_count()
        known[at] = now
        if counts:
            self._live += bool(now) - bool(was)

    def _count(self, machine: Machine, pc: int) -> None:
        """The bits that the instruction at pc lost, by its direction of execution."""
        for way, hits in self._counts.items():
            n = machine.executed[way][pc]
            if n != hits[pc]:
                i = machine.program.instructions[pc]
                opcode = i.opcode if way > 0 else machine.program.table.inverse(i.opcode)
                self._erased += (n - hits[pc]) * opcode.erased_words * self._width
                hits[pc] = n
        dropped = machine.dropped_bits - self._dropped_before
        if dropped != self._dropped:
            self.dropped[pc] += dropped - self._dropped
            self._dropped = dropped

    def _sample(self) -> None:
        self.samples.append(Sample(self.steps, self._live * self._width, self._erased + self._dropped))
        self.peak_bits = max(self.peak_bits, self._live * self._width)
        if len(self.samples) > self._most:
            # Samples stay evenly spaced for a run of any length.
            self.samples, self._every = self.samples[::2], self._every * 2


# ---------------------------------------------------------------------- lines and functions of the source

_T = TypeVar("_T")

#: code without a place in the source: `start`, `finish`, constants, the frame of subroutines
FRAME = "(frame)"
#: the file of a program without a source
ADDRESS = "address"
#: code outside of functions and subroutines
TOP = "(program)"


class SourceLine(NamedTuple):
    """A line of the source; no file and line 0 stand for code that the compiler added.

    For a program without a source, such as an image, the addresses of its code stand for lines.
    """

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.file else FRAME


def lines_of(program: Program) -> list[SourceLine]:
    """The line that each address comes from."""
    if not any(program.source.spans):
        return [SourceLine(ADDRESS, pc) for pc in range(len(program.code))]
    spans = [program.source.span(pc) for pc in range(len(program.code))]
    return [SourceLine("", 0) if span is None else SourceLine(span.file, span.line) for span in spans]


def by_line(counts: Counts) -> dict[SourceLine, Counts]:
    """The counts of each line that was executed, in the order of files and lines."""
    return dict(sorted(_grouped(counts, lines_of(counts.program)).items()))


def by_function(counts: Counts) -> dict[str, Counts]:
    """The counts of each function of a Python source, or of each subroutine of assembly by its label."""
    return _grouped(counts, functions_of(counts.program))


def _grouped(counts: Counts, owners: Sequence[_T]) -> dict[_T, Counts]:
    addresses: dict[_T, set[int]] = {}
    for pc, _ in counts.executed:
        addresses.setdefault(owners[pc], set()).add(pc)
    return {owner: counts.at(found) for owner, found in addresses.items()}


def functions_of(program: Program) -> list[str]:
    """The function that each address belongs to."""
    source = program.source
    inside = {
        file: _python_functions(text)
        for file, text in zip(source.files, source.texts, strict=False)
        if not file.endswith(".rga")
    }
    subroutines = dict(_subroutines(program))
    out = []
    for pc in range(len(program.code)):
        span = source.span(pc)
        named = None if span is None else (inside.get(span.file) or {}).get(span.line)
        if named is not None:
            out.append(named)
        elif span is None and any(inside.values()):
            out.append(FRAME)
        else:
            out.append(subroutines.get(pc, TOP))
    return out


def _python_functions(lines: Sequence[str]) -> Mapping[int, str]:
    """line -> the innermost function around it."""
    try:
        tree = ast.parse("".join(line if line.endswith("\n") else line + "\n" for line in lines))
    except (SyntaxError, ValueError):
        return {}
    found: dict[int, str] = {}

    def visit(node: ast.AST, outer: str) -> None:
        for child in ast.iter_child_nodes(node):
            name = outer
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                name = f"{outer}.{child.name}" if outer else child.name
                if not isinstance(child, ast.ClassDef):
                    first = min([child.lineno, *(d.lineno for d in child.decorator_list)])
                    found.update(dict.fromkeys(range(first, (child.end_lineno or child.lineno) + 1), name))
            visit(child, name)

    visit(tree, "")
    return found


def _subroutines(program: Program) -> Iterator[tuple[int, str]]:
    """(address, name) of the code in subroutines: the innermost unconditional pair around a `swapbr`."""
    code = program.instructions
    names = {pc: name for name, pc in reversed(list(program.labels.items()))}
    pairs: list[tuple[int, int]] = []
    for pc, i in enumerate(code):
        while pairs and pairs[-1][1] <= pc:
            pairs.pop()
        if i.opcode.name in ("from", "goto") and i.imm > 0:
            pairs.append((pc, pc + i.imm))
        elif i.opcode.name == "swapbr":
            first, last = pairs[-1] if pairs else (pc, pc)
            label = names.get(pc) or next((names[at] for at in range(first, last + 1) if at in names), f"at {first}")
            yield from ((at, label) for at in range(first, last + 1))
