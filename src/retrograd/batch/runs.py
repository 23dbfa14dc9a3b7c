"""A compiled function on a matrix of words, one row for each element of a batch, on any engine.

    rows[i] := the kept words of memory, after the function has run on the shared words and rows[i]
    sums    := Σᵢ of the summed words of memory, exactly

Engines that run a batch as one discard the results of an element that fails; a machine runs that element again, and gives
its trap.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from retrograd.batch.arguments import Loaded
from retrograd.compiler.compiled import Compiled
from retrograd.functions.execution import ProgramTrap, execute
from retrograd.functions.requests import RunSettings
from retrograd.isa.diagnostics import Diagnostic, InputError
from retrograd.isa.program import Program
from retrograd.isa.words import Format
from retrograd.presentation.progress import Bar
from retrograd.simulator.engines import tiering
from retrograd.simulator.engines.batch.layout import BatchLayout, Range, ResultArray, split_columns, width
from retrograd.simulator.engines.choice import machine_for
from retrograd.simulator.engines.tiering import Decision, Reason, engine_named
from retrograd.simulator.machine import REGISTERS, Machine, Stop, Trap
from retrograd.simulator.stores import limit_of

if TYPE_CHECKING:
    from retrograd.simulator.engines.batch.cpu import RowCounts

Words = NDArray[np.uint64]
Counts = NDArray[np.int64]

DEFAULT = RunSettings()
#: rows of a machine that are written together
_PORTION = 1024


class Numbers(NamedTuple):
    """How a kept range is returned as real numbers: 2^scale times as small. `words`: its words are returned, too."""

    scale: int = 0
    words: bool = True


@dataclass(frozen=True)
class Code:
    """A program as workers run it: without source, so that an element that does not end is reported by its index alone."""

    program: Program
    #: see `Compiled.derived`
    derived: dict[tuple[Any, ...], Any] = field(default_factory=dict, compare=False, repr=False)
    externals: ClassVar[Mapping[int, Any]] = MappingProxyType({})

    @classmethod
    def of(cls, program: Program) -> Code:
        """The code of a program, its table of instructions and its data: all that determines a run."""
        return cls(Program(program.code, program.data, program.memory, program.format, table=program.table))

    @property
    def format(self) -> Format:
        return self.program.format

    def __reduce__(self) -> tuple[Any, ...]:
        return Code, (self.program,)


class ElementTrap(ProgramTrap):
    """A trap in one element of a batch; `machine` is that element's, and can run back to its start.

    `result`: of `run_batch`, the BatchResult with all other elements, which have been run.
    """

    result: Any = None

    def __init__(self, diagnostic: Diagnostic, machine: Machine, trap: Trap | None, element: int) -> None:
        super().__init__(replace(diagnostic, message=f"element {element}: {diagnostic.message}"), machine, trap)
        self.element = element

    def renumbered(self, element: int) -> ElementTrap:
        """The same trap as that of another element."""
        d = self.diagnostics[0]
        plain = replace(d, message=d.message.removeprefix(f"element {self.element}: "))
        return ElementTrap(plain, self.machine, self.trap, element)


@dataclass
class BatchWords:
    """The words and counts of a batch after the run. An element that trapped has the words that it was given."""

    #: the kept words, one row for each element, and an array for each kept range
    after: Words = field(repr=False)
    results: list[ResultArray] = field(repr=False)
    #: instructions executed by each element
    steps: Counts
    #: bits erased by each element
    erased_bits: Counts
    #: the engine that ran most elements: reference, threaded, translated or cuda
    engine: str
    #: the summed words, over all elements that ended
    sums: list[int] = field(repr=False)
    #: the traps of elements that did not end
    traps: dict[int, ElementTrap] = field(default_factory=dict)
    #: cycles of each element on the co-processor, by the cycle model (docs/reference/timing.md); None unless requested
    cycles: Counts | None = None
    #: elements that did not end, of which no machine has given the trap: see `run_rows`
    failed: list[int] = field(default_factory=list)

    def replace_rows(self, which: range | list[int], other: BatchWords) -> None:
        """Put another batch in the place of these elements, which have not run, or did not end."""
        at = slice(which.start, which.stop) if isinstance(which, range) else which
        for own, others in zip(self.results, other.results, strict=True):
            own.put_rows(at, others)
        self.steps[at], self.erased_bits[at] = other.steps, other.erased_bits
        if self.cycles is not None and other.cycles is not None:
            self.cycles[at] = other.cycles
        self.sums = [a + b for a, b in zip(self.sums, other.sums, strict=True)]
        again = which if isinstance(which, range) else frozenset(which)
        self.traps = {i: trap for i, trap in self.traps.items() if i not in again}
        self.traps |= {which[i]: trap.renumbered(which[i]) for i, trap in other.traps.items()}
        self.failed = [i for i in self.failed if i not in again] + [which[i] for i in other.failed]


def run_rows(
    compiled: Compiled | Code,
    loaded: Loaded,
    kept: Sequence[Range],
    summed: Sequence[Range] = (),
    settings: RunSettings = DEFAULT,
    *,
    numbers: Mapping[Range, Numbers] = MappingProxyType({}),
    progress: bool | None = None,
    counted: Callable[[int, Machine], object] | None = None,
    explain: bool = True,
    threads: int | None = None,
) -> BatchWords:
    """Run the program for every row. Raises InputError RG1001, DeviceError; traps are part of the result.

    `kept`, `summed`: the memory that is returned of each element, and that is added up over all. `numbers`: the kept ranges that
    are returned as real numbers, too. `progress`: whether a bar is
    shown; None shows one on a terminal after a second. `counted(i, machine)` is called with each element's machine at
    its end: machines run the elements one after the other then, since only machines keep all counts. `explain`: False leaves
    elements that fail in an engine in `failed`, without their traps; so does `Code`. `threads`: by default one for each core.
    """
    found, loaded = engine_named(settings.engine), loaded.in_memory()
    if settings.max_steps is not None:
        settings = replace(settings, max_steps=limit_of(settings.max_steps))
    if not settings.checks:
        found = _unchecked(found, compiled)
    count, size = len(loaded), sum(n for _, n in summed)
    steps, erased = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
    after, results = empty_results(kept, numbers, count, compiled.format)
    out = BatchWords(after, results, steps, erased, "reference", [0] * size)
    if settings.cycles:
        out.cycles = np.zeros(count, dtype=np.int64)
    alone = _SequentialRunner(compiled, out, loaded, (tuple(kept), tuple(summed)), settings, counted)
    with Bar(count, progress, "running") as bar:
        if found == "reference" or compiled.externals:
            # Only a machine that stops at each mark can execute `rg.external` blocks.
            alone.run(range(count), "reference", bar)
            return out
        if counted is not None:
            alone.run(range(count), found, bar)
            return out
        first = 0
        if found != "auto":
            tiering.record(Decision(found, Reason.NAMED))
        else:
            first = _by_machines(compiled, steps, alone, bar)
        if first < count:
            _compiled(compiled, out, loaded, first, found, alone, bar, explain, threads)
    return out


def empty_results(
    kept: Sequence[Range], numbers: Mapping[Range, Numbers], count: int, w: Format
) -> tuple[Words, list[ResultArray]]:
    """(a matrix of kept words, the arrays of the results, whose words are its columns): see `run_rows`."""
    exact = [r for r in kept if r not in numbers or numbers[r].words]
    matrix = np.zeros((count, width(exact)), dtype=np.uint64)
    columns, out = iter(split_columns(matrix, exact)), []
    for r in kept:
        found = numbers.get(r)
        words = next(columns) if found is None or found.words else None
        reals = None if found is None else np.zeros((count, r[1]))
        out.append(ResultArray(words, reals, w, 0 if found is None else found.scale))
    return matrix, out


def _by_machines(
    compiled: Compiled | Code, steps: Counts, alone: _SequentialRunner, bar: Callable[[int], object]
) -> int:
    """Run rows on one machine, until a loop over the others pays (`Policy.decide_rows`). Returns the first row that is left."""
    first, every = 0, len(steps)
    account = tiering.policy.account(compiled.program, kind="backward batch" if alone.settings.backward else "batch")
    while first < every:
        decision = tiering.policy.decide_rows(account, every - first, alone.at_hand(), alone.price)
        if decision.engine != "auto":
            break
        # In portions that double, since the first rows may be no measure of the others.
        last = alone.run(range(first, min(every, first + max(first, 1))), "auto", bar)
        tiering.policy.count_rows(account, last - first, int(steps[first:last].sum()), alone.out.engine)
        first = last
    return first


def _unchecked(engine: str, compiled: Compiled | Code) -> str:
    """The engine that leaves checks out. Machines always make them: they can stop anywhere and go back. Raises InputError."""
    if compiled.externals:
        raise InputError(
            Diagnostic("RG1001", "a function with `rg.external` is run by machines, which make every check")
        )
    if engine in ("reference", "threaded"):
        hint = "engine = auto, native, translated or cuda; or checks = True"
        raise InputError(Diagnostic("RG1001", f"the engine `{engine}` makes every check", hint=hint))
    return "native" if engine == "auto" else engine


def _compiled(
    compiled: Compiled | Code,
    out: BatchWords,
    loaded: Loaded,
    first: int,
    engine: str,
    alone: _SequentialRunner,
    bar: Callable[[int], object],
    explain: bool,
    threads: int | None,
) -> None:
    """The rows from `first` on by an engine that takes them as one."""
    count, program = len(loaded) - first, compiled.program
    if engine == "threaded":
        alone.run(range(first, len(loaded)), "threaded", bar)
        return
    cycles, limit = out.cycles is not None, alone.settings.max_steps
    ran: RowCounts
    if engine == "cuda":
        from retrograd.simulator.engines.cuda import batch as on_gpus

        rows = on_gpus.run_batch(
            program,
            loaded.rows[first:],
            columns=alone.columns,
            shared=alone.shared,
            **alone.modes,
            cycles=cycles,
            limit=limit,
            progress=bar,
        )
        for result, part in zip(out.results, split_columns(rows.rows, alone.columns.kept), strict=True):
            result.put(slice(first, None), part)
        name, ran = "cuda", rows
    else:
        from retrograd.simulator.engines.batch import cpu as on_cores

        way = alone.settings
        key = (
            "row runs",
            loaded.given,
            alone.ranges,
            way.backward,
            way.overflow,
            way.checks,
            cycles,
            alone.modes["core"],
        )
        runs: on_cores.RowRuns | None = compiled.derived.get(key)
        if runs is None:
            runs = on_cores.RowRuns(program, alone.columns, **alone.modes, cycles=cycles)
            compiled.derived[key] = runs
        results = [result.part(first) for result in out.results] if first else out.results
        arrays = [array[first:] for array in loaded.arrays] if first else loaded.arrays
        name = "translated"
        ran = runs(count, arrays, results, loaded.shared, limit=limit, threads=threads, progress=bar)
        if ran.refused:
            raise AssertionError(f"all {len(loaded.rows)} rows have words")  # `rows` raises the InputError
        for result, part_of_it in zip(out.results, results, strict=True):
            result.large = result.large or part_of_it.large
    if first:
        out.steps[first:] = ran.steps
    else:
        out.steps = ran.steps
    if ran.sums:
        out.sums = [a + b for a, b in zip(out.sums, ran.sums, strict=True)]
    if ran.lost_words is not None:
        out.erased_bits[first:] = ran.lost_words * compiled.format.width
    if out.cycles is not None and ran.cycles is not None:
        out.cycles[first:] = ran.cycles
    if not len(ran.failed):
        out.engine = name
        return
    for counts in (out.steps, out.erased_bits, out.cycles):
        if counts is not None:
            counts[first + ran.failed] = 0
    failed = [first + int(i) for i in ran.failed]
    if explain and isinstance(compiled, Compiled):
        # A machine gives the trap of each row that failed, and meets a limit to the step.
        alone.run(failed, "auto", lambda _: None)
    else:
        out.failed = failed
    out.engine = name


@dataclass
class _SequentialRunner:
    """Runs rows one after the other on one machine: to decode a program takes as long as a hundred steps."""

    compiled: Compiled | Code
    out: BatchWords
    loaded: Loaded
    #: the ranges of memory that are kept, and that are summed
    ranges: tuple[tuple[Range, ...], tuple[Range, ...]]
    settings: RunSettings
    counted: Callable[[int, Machine], object] | None = None

    @cached_property
    def columns(self) -> BatchLayout:
        """The layout of the batch."""
        return BatchLayout(self.loaded.given, *self.ranges)

    @cached_property
    def shared(self) -> Words:
        """The first words of an instance's memory: the program's data, and the arguments that all elements share."""
        data, own = self.compiled.program.data, self.loaded.shared
        out = np.zeros(max(len(data), len(own), self.columns.end), dtype=np.uint64)
        out[: len(data)] = data
        out[: len(own)] = own
        return out

    @property
    def modes(self) -> dict[str, Any]:
        """The settings by which compiled code differs."""
        s = self.settings
        return {
            "backward": s.backward,
            "overflow": s.overflow,
            "checks": s.checks,
            "core": s.core if s.cycles else "small",
        }

    def at_hand(self) -> bool:
        """Whether compiled code for such rows is loaded already."""
        engine = sys.modules.get("retrograd.simulator.engines.batch.loops")
        # Another thread may be importing it now.
        found = getattr(engine, "at_hand", None)
        return found is not None and bool(
            found(self.compiled.program, **self.modes, cycles=self.out.cycles is not None)
        )

    def price(self) -> float:
        """Seconds until compiled code for such rows is loaded."""
        from retrograd.simulator.engines.batch import loops as batch

        return batch.price(self.compiled.program, **self.modes, cycles=self.out.cycles is not None)

    def run(self, which: Iterable[int], engine: str, bar: Callable[[int], object]) -> int:
        """Run these rows. Returns the index behind the last row that was run."""
        machine: Machine | None = None
        blank = self.shared.tolist()
        given, kept, summed = (_places(r) for r in (self.columns.given, self.columns.kept, self.columns.summed))
        signed, rows = self.compiled.format.signed, self.loaded.rows
        #: rows that ended, and their kept words
        done: list[tuple[int, list[int]]] = []
        i = -1
        for i in which:
            if machine is None:
                s = self.settings
                machine = machine_for(
                    self.compiled.program, engine, backward=s.backward, overflow=s.overflow, core=s.core
                )
                blank += [0] * (len(machine.memory) - len(blank))
                origin = machine.pc
            begin = blank.copy()
            for place, word in zip(given, rows[i].tolist(), strict=True):
                begin[place] = word
            # These are words already, so the checks of `machine.load` are left out.
            machine.memory.store[:] = begin
            machine.registers.store[:] = [0] * REGISTERS
            machine.pc, machine.br, machine.direction = origin, 0, -1 if self.settings.backward else 1
            for hits in machine.executed.values():
                hits[:] = [0] * len(hits)
            try:
                if isinstance(self.compiled, Code):
                    if not _ends(machine, self.settings.max_steps):
                        self.out.failed.append(i)
                        done.append((i, [begin[place] for place in kept]))
                        machine = None
                        continue
                else:
                    execute(self.compiled, machine, self.settings.max_steps)
            except ProgramTrap as trap:
                self.out.traps[i] = ElementTrap(trap.diagnostics[0], trap.machine, trap.trap, i)
                done.append((i, [begin[place] for place in kept]))
                machine = None  # the machine that trapped belongs to the trap
                continue
            finally:
                bar(1)
            if self.counted is not None:
                self.counted(i, machine)
            self.out.engine = machine.engine
            words = list(machine.memory)
            done.append((i, [words[place] for place in kept]))
            self.out.sums = [a + signed(words[place]) for a, place in zip(self.out.sums, summed, strict=True)]
            self.out.steps[i], self.out.erased_bits[i] = machine.retired, machine.erased_bits
            if self.out.cycles is not None:
                self.out.cycles[i] = machine.cycles
            if len(done) == _PORTION:
                self._put(done)
        self._put(done)
        return i + 1

    def _put(self, done: list[tuple[int, list[int]]]) -> None:
        """Write the kept words of rows, and forget these."""
        if done:
            at = np.array([i for i, _ in done], dtype=np.intp)
            words = np.array([row for _, row in done], dtype=np.uint64).reshape(len(done), width(self.columns.kept))
            for result, part in zip(self.out.results, split_columns(words, self.columns.kept), strict=True):
                result.put(at, part)
            done.clear()


def _ends(machine: Machine, max_steps: int | None) -> bool:
    """Run a machine; whether it halts."""
    try:
        return machine.run(max_steps).stop is Stop.HALTED
    except Trap:
        return False


def _places(ranges: Sequence[Range]) -> list[int]:
    """The addresses in the ranges, one by one."""
    return [place for address, count in ranges for place in range(address, address + count)]
