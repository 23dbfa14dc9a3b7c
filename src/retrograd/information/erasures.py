"""The erased words of runs, observed step by step, and the bits that a netlist leaves as garbage.

A run is a bijection of its input onto its kept and its erased words, so H(erased | kept) = H(input) − H(kept).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from retrograd.compiler.ir.statements import Op, Var
from retrograd.functions.execution import ProgramTrap, execute
from retrograd.functions.requests import Request
from retrograd.hdl.reversible.circuit import simulate, transposed
from retrograd.information.distributions import WordRows
from retrograd.netlists.function_netlists import FunctionNetlist
from retrograd.simulator.energy.counts import SourceLine, functions_of, lines_of
from retrograd.simulator.engines.choice import machine_for
from retrograd.simulator.machine import Machine


class Site(NamedTuple):
    """A place that erases: an instruction, or a word of garbage."""

    #: the variable or the word
    name: str
    #: None: garbage of a netlist
    line: SourceLine | None
    function: str

    def __str__(self) -> str:
        return self.name if self.line is None else f"{self.name}, {self.line}"


class Observed(NamedTuple):
    """The runs of all rows."""

    #: row -> a number for its input, and one for its kept words
    inputs: list[Any]
    kept: list[Any]
    #: of each site, its erasures in a run: the erased word of each row + 1, or 0 where it does not happen
    erased: Mapping[Site, Sequence[NDArray[Any]]]
    #: of each site, the bits that a row erases
    bits: Mapping[Site, NDArray[np.float64]]
    #: row -> whether it trapped
    trapped: NDArray[np.bool_]


class _Recorder:
    """Notes the words that a machine erases; the `observe` of a run."""

    def __init__(self, machine: Machine) -> None:
        code, forward = machine.program.instructions, machine.direction > 0
        inverse = machine.program.table.inverse
        self.fields = [(i.rd, i.ra, i.rb) for i in code]
        self.erases = [bool((i.opcode if forward else inverse(i.opcode)).erased_words) for i in code]
        self.known = list(machine.registers)
        self.words: list[tuple[int, int]] = []

    def __call__(self, machine: Machine, pc: int) -> None:
        fields = self.fields[pc]
        if self.erases[pc]:
            self.words.append((pc, self.known[fields[0]]))
        for at in fields:
            self.known[at] = machine.registers[at]


def of_runs(request: Request, given: WordRows, *, traps: bool) -> Observed:
    """The runs of a program on a machine. `traps`: note the rows that trap, in place of raising ProgramTrap."""
    compiled, rows = given.compiled, given.rows
    done: dict[tuple[int, ...], tuple[tuple[int, ...], list[tuple[int, int]]] | None] = {}
    for row in rows:
        if row in done:
            continue
        machine = machine_for(compiled.emitted.program, request.engine, backward=request.backward)
        machine.load(0, row)
        recorder = _Recorder(machine)
        try:
            execute(compiled, machine, request.max_steps, recorder, externals=False)
        except ProgramTrap as trap:
            if not traps or trap.trap is None:
                raise
            done[row] = None
        else:
            done[row] = tuple(machine.memory[: compiled.argument_words]), recorder.words
    trapped = np.array([done[row] is None for row in rows])
    kept_rows = [row for row in rows if done[row] is not None]
    results = [result for row in kept_rows if (result := done[row]) is not None]
    events: dict[tuple[int, int], NDArray[Any]] = {}
    for k, (_, words) in enumerate(results):
        seen: dict[int, int] = {}
        for pc, word in words:
            number = seen[pc] = seen.get(pc, -1) + 1
            column = events.get((pc, number))
            if column is None:
                # A word of 64 bits plus one needs 65 bits.
                kind = object if compiled.format.width == 64 else np.int64
                column = events[pc, number] = np.zeros(len(results), kind)
            column[k] = word + 1
    sites = _sites(compiled)
    erased: dict[Site, list[NDArray[Any]]] = {}
    for (pc, _), column in sorted(events.items()):
        erased.setdefault(sites[pc], []).append(column)
    width = compiled.format.width
    bits = {site: width * sum(((c != 0).astype(float) for c in found), np.zeros(len(results)))
            for site, found in erased.items()}  # fmt: skip
    return Observed(kept_rows, [kept for kept, _ in results], erased, bits, trapped)


def _sites(compiled: Any) -> list[Site]:
    """The site of each address."""
    program = compiled.emitted.program
    out = []
    for origin, line, function in zip(compiled.emitted.origins, lines_of(program), functions_of(program), strict=True):
        named = isinstance(origin, Op) and isinstance(origin.d, Var)
        out.append(Site(origin.d.name if named else "a word", line, function))
    return out


def of_netlist(netlist: FunctionNetlist, given: WordRows) -> Observed:
    """The bits that a netlist leaves as garbage: each line is a site."""
    circuit, rows = netlist.circuit, given.rows
    state = [0] * circuit.lines
    for name, column in zip(netlist.words, zip(*rows, strict=True), strict=True):
        lines = circuit.inputs[name]
        for line, bits in zip(lines, transposed(column, len(lines)), strict=True):
            state[line] = bits
    simulate(circuit.gates, state, (1 << len(rows)) - 1)
    words = [transposed([state[q] for q in circuit.outputs[name]], len(rows)) for name in netlist.words]
    erased = {
        Site(f"line {line}", None, netlist.compiled.function.__name__): [np.array([1 + (state[line] >> k & 1) for k in range(len(rows))])]
        for line in circuit.garbage
    }  # fmt: skip
    ones = np.ones(len(rows))
    kept = [*zip(*words, strict=True)] if words else [()] * len(rows)
    return Observed(rows, kept, erased, dict.fromkeys(erased, ones), np.zeros(len(rows), bool))
