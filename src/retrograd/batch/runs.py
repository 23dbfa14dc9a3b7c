"""A compiled function on a matrix of words, one row for each element of a batch, by any engine.

rows[i] := the words that are kept of memory, after the function has run on shared words and rows[i]
sums    := Σᵢ of words of memory, exactly
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retrograd.batch.arguments import Loaded
from retrograd.compiler.compiled import Compiled
from retrograd.functions.execution import ProgramTrap, execute
from retrograd.isa.diagnostics import Diagnostic, InputError
from retrograd.isa.program import Program
from retrograd.presentation.progress import Bar
from retrograd.simulator.engines.batch.layout import BatchLayout, Range, width
from retrograd.simulator.engines.choice import engine_named, engine_of, machine_for
from retrograd.simulator.engines.costs import ROW, cost_of, translation_seconds
from retrograd.simulator.machine import REGISTERS, Machine, Trap
from retrograd.simulator.stores import limit_of

Words = NDArray[np.uint64]
Counts = NDArray[np.int64]

#: steps of Python, in all batches of a program, before code is compiled for them
SHORT = 10_000
#: seconds that the interpreter takes for a step, and steps that a row of a batch is worth
INTERPRETED = 3e-9
EACH = round(ROW / INTERPRETED)


class ElementTrap(ProgramTrap):
    """A trap in one element of a batch; `machine` is that element's, and can run back to its start.

    The other elements have been run all the same: `result` holds them, where a batch was run as one.
    """

    result: Any = None

    def __init__(self, diagnostic: Diagnostic, machine: Machine, trap: Trap | None, element: int) -> None:
        super().__init__(replace(diagnostic, message=f"element {element}: {diagnostic.message}"), machine, trap)
        self.element = element


@dataclass
class Rows:
    """A batch after the run. What trapped has its words as they were."""

    #: the words that are kept
    after: Words
    #: instructions executed by each element
    steps: Counts
    #: bits erased by each
    erased_bits: Counts
    #: what ran most of it
    engine: str
    #: the words that are summed, over all elements that came to the end
    sums: list[int]
    traps: dict[int, ElementTrap] = field(default_factory=dict)
    #: what each would take on the co-processor, if asked for
    cycles: Counts | None = None


def run_rows(
    compiled: Compiled,
    loaded: Loaded,
    kept: Sequence[Range],
    summed: Sequence[Range] = (),
    *,
    engine: str = "auto",
    backward: bool = False,
    overflow: bool = True,
    checks: bool = True,
    limit: int | None = None,
    cycles: bool = False,
    progress: bool | None = None,
    counted: Callable[[int, Machine], object] | None = None,
) -> Rows:
    """Run the program for every row. Raises InputError RG1001, DeviceError; traps are in the result.

    `kept`, `summed`: the memory that is handed back of each element, and that is added up over all. `limit`: steps for each row. `progress`: a bar, or none; None shows one where a terminal waits for more than a second.
    `counted` is shown every row's machine as it has come to its end: rows are then run by machines, which keep all counts, one by one.
    """
    found, limit = engine_named(engine), limit_of(limit)
    if not checks:
        found = _unchecked(found, compiled)
    rows, columns = loaded.rows, BatchLayout(loaded.given, tuple(kept), tuple(summed))
    begin = np.array(compiled.program.data, dtype=np.uint64)
    shared = np.zeros(max(len(begin), len(loaded.shared), columns.end), dtype=np.uint64)
    shared[: len(begin)] = begin
    shared[: len(loaded.shared)] = loaded.shared
    steps, erased = np.zeros(len(rows), dtype=np.int64), np.zeros(len(rows), dtype=np.int64)
    after = np.empty((len(rows), width(columns.kept)), dtype=np.uint64)
    out = Rows(after, steps, erased, "reference", [0] * width(columns.summed))
    if cycles:
        out.cycles = np.zeros(len(rows), dtype=np.int64)
    alone = _Alone(compiled, out, rows, columns, shared, backward, overflow, checks, limit, counted)
    with Bar(len(rows), progress, "running") as bar:
        if found == "reference" or compiled.emitted.externals:
            # What the host looks at on the way is shown by a machine that is looked at.
            alone.run(range(len(rows)), "reference", bar)
            return out
        if counted is not None:
            alone.run(range(len(rows)), found, bar)
            return out
        first = 0
        if found == "auto" and not alone.at_hand():
            first = _by_machines(compiled.program, steps, alone, bar)
        if first < len(rows):
            _compiled(compiled, out, rows, first, found, alone, bar)
    return out


def _by_machines(program: Program, steps: Counts, alone: _Alone, bar: Callable[[int], object]) -> int:
    """Run rows one by one until, with all batches of the program before, they have cost what a translation does; the row behind the last."""
    cost = cost_of(program, kind="backward batch" if alone.backward else "batch")
    first, every = 0, len(alone.rows)
    if left := cost.python_left(SHORT):
        first = alone.run(range(every), "reference", bar, budget=left)
        cost.python += int(steps[:first].sum())
    worth = translation_seconds(len(program.code))
    if first == every or cost.seconds >= worth:
        return first
    if cost.unlooked:
        # Imported here: NumPy is there, but LLVM is for those who use it.
        from retrograd.simulator.engines.interpreter.handlers import passes_over_interpreter

        cost.unlooked = False
        if alone.on_disk() or passes_over_interpreter(program, False, worth):
            cost.threaded = worth
            return first
    last = alone.run(
        range(first, every), "threaded", bar, budget=round((worth - cost.seconds) / INTERPRETED), each=EACH
    )
    cost.threaded += (last - first) * ROW + int(steps[first:last].sum()) * INTERPRETED
    return last


def _unchecked(engine: str, compiled: Compiled) -> str:
    """The engine that leaves checks out: machines, which can stop anywhere and go back, always make them."""
    if compiled.emitted.externals:
        raise InputError(
            Diagnostic("RG1001", "a function with `rg.external` is run by machines, which make every check")
        )
    if engine in ("reference", "threaded"):
        hint = "engine = auto, native, translated or cuda; or checks = True"
        raise InputError(Diagnostic("RG1001", f"the engine `{engine}` makes every check", hint=hint))
    return "native" if engine == "auto" else engine


def _compiled(
    compiled: Compiled, out: Rows, rows: Words, first: int, engine: str, alone: _Alone, bar: Callable[[int], object]
) -> None:
    """The rows from `first` on by an engine that takes them as one."""
    if engine == "threaded":
        out.engine = "threaded"
        alone.run(range(first, len(rows)), "threaded", bar)
        return
    run: Callable[..., Any]
    if engine == "cuda":
        from retrograd.simulator.engines.cuda import batch as on_gpus

        out.engine, run = "cuda", on_gpus.run_batch
    else:
        from retrograd.simulator.engines.batch import cpu as on_cores

        out.engine, run = "translated", on_cores.run_batch
    ran = run(
        compiled.program,
        rows[first:],
        columns=alone.columns,
        shared=alone.shared,
        backward=alone.backward,
        overflow=alone.overflow,
        checks=alone.checks,
        cycles=out.cycles is not None,
        limit=alone.limit,
        progress=bar,
    )
    if first:
        out.after[first:] = ran.rows
    else:
        out.after = ran.rows
    out.steps[first:] = ran.steps
    out.sums = [a + b for a, b in zip(out.sums, ran.sums, strict=True)]
    out.erased_bits[first:] = ran.lost_words * compiled.format.width
    if out.cycles is not None and ran.cycles is not None:
        out.cycles[first:] = ran.cycles
    for counts in (out.steps, out.erased_bits, out.cycles):
        if counts is not None:
            counts[first + ran.failed] = 0
    # Why a row failed, and whether a limit was met to the step, one machine at a time can tell.
    if len(ran.failed):
        alone.run((first + int(i) for i in ran.failed), "auto", lambda _: None)


@dataclass
class _Alone:
    """Rows one by one, on one machine that serves for all: to decode a program takes as long as a hundred steps."""

    compiled: Compiled
    out: Rows
    rows: Words
    columns: BatchLayout
    shared: Words
    backward: bool
    overflow: bool
    checks: bool
    limit: int | None
    counted: Callable[[int, Machine], object] | None = None

    def at_hand(self) -> bool:
        """Whether compiled code for such rows is loaded already."""
        engine = sys.modules.get("retrograd.simulator.engines.batch.cpu")
        modes = {"backward": self.backward, "overflow": self.overflow, "checks": self.checks}
        return engine is not None and engine.at_hand(self.compiled.program, **modes, cycles=self.out.cycles is not None)

    def on_disk(self) -> bool:
        """Whether compiled code for such rows need not be made."""
        from retrograd.simulator.engines.batch import cpu as batch

        modes = {"backward": self.backward, "overflow": self.overflow, "checks": self.checks}
        return batch.on_disk(self.compiled.program, **modes, cycles=self.out.cycles is not None)

    def run(
        self,
        which: Iterable[int],
        engine: str,
        bar: Callable[[int], object],
        budget: int | None = None,
        each: int = 0,
    ) -> int:
        """Run these rows. Returns the index behind the last row that was run. `budget`: the steps after which no further row begins; a
        row counts as `each` steps more."""
        machine: Machine | None = None
        blank = self.shared.tolist()
        given, kept, summed = (_places(r) for r in (self.columns.given, self.columns.kept, self.columns.summed))
        signed = self.compiled.format.signed
        i = -1
        for i in which:
            if machine is None:
                modes: dict[str, Any] = {"backward": self.backward, "overflow": self.overflow}
                machine = machine_for(self.compiled.program, engine, **modes)
                blank += [0] * (len(machine.memory) - len(blank))
                origin = machine.pc
            begin = blank.copy()
            for place, word in zip(given, self.rows[i].tolist(), strict=True):
                begin[place] = word
            # Words already: not looked at once more.
            machine.memory.store[:] = begin
            machine.registers.store[:] = [0] * REGISTERS
            machine.pc, machine.br, machine.direction = origin, 0, -1 if self.backward else 1
            for hits in machine.executed.values():
                hits[:] = [0] * len(hits)
            try:
                execute(self.compiled, machine, self.limit)
            except ProgramTrap as trap:
                self.out.traps[i] = ElementTrap(trap.diagnostics[0], trap.machine, trap.trap, i)
                self.out.after[i] = [begin[place] for place in kept]
                machine = None  # it stays as it is, for whoever wants to look
                continue
            finally:
                bar(1)
            if self.counted is not None:
                self.counted(i, machine)
                self.out.engine = engine_of(machine)
            words = list(machine.memory)
            self.out.after[i] = [words[place] for place in kept]
            self.out.sums = [a + signed(words[place]) for a, place in zip(self.out.sums, summed, strict=True)]
            self.out.steps[i], self.out.erased_bits[i] = machine.retired, machine.erased_bits
            if self.out.cycles is not None:
                self.out.cycles[i] = machine.cycles
            if budget is not None:
                budget -= int(self.out.steps[i]) + each
                if budget <= 0:
                    break
        return i + 1


def _places(ranges: Sequence[Range]) -> list[int]:
    """The addresses in the ranges, one by one."""
    return [place for address, count in ranges for place in range(address, address + count)]
