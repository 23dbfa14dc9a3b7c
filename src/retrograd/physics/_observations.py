"""Inputs and erased words of observed runs, from which `entropy.py` computes entropies.

A distribution of arguments becomes rows of words, with or without probabilities:

    {(1, 2): 0.25, (3, 4): 0.75}             arguments and their probabilities
    {"x": range(8), "y": "words"}            independent and uniform: x among values, y among all words
    "words"                                  each word of each argument independent and uniform
    [(1, 2), (3, 4)]                         samples
    lambda rng: (rng.integers(8), 0)         a function that draws arguments, from a generator of NumPy with the given seed

Trap: independent values that are too many to be enumerated are drawn, and then all entropies are estimates.

Each row is run, and the words that it erases are noted step by step; of a netlist, the bits that it leaves as garbage. A run is a
bijection of its input onto its kept and its erased words, so H(erased | kept) = H(input) − H(kept).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from retrograd.compiler.compiled import Compiled
from retrograd.compiler.ir.statements import Op, Var
from retrograd.compiler.language.types import Type, complete
from retrograd.errors import refuse
from retrograd.hardware.function_netlists import FunctionNetlist
from retrograd.hdl.reversible.circuit import simulate, transposed
from retrograd.isa.words import Format
from retrograd.runtime._binding import bind
from retrograd.runtime._execution import ProgramTrap, Request, argument_words, execute
from retrograd.runtime._marshal import Losses, from_words
from retrograd.simulator.energy.counts import SourceLine, functions_of, lines_of
from retrograd.simulator.engines.choice import machine_for
from retrograd.simulator.machine import Machine

Distribution: TypeAlias = "Mapping[Any, Any] | Sequence[Any] | str | Callable[[np.random.Generator], Any]"

#: inputs that are enumerated at most
MOST_INPUTS = 1 << 16
#: stands for all words
WORDS = "words"


@dataclass(frozen=True)
class WordRows:
    """Inputs of a program, each as the words of its arguments."""

    compiled: Compiled
    rows: list[tuple[int, ...]]
    #: of each row; None: the rows are samples
    probabilities: NDArray[np.float64] | None
    #: the entropy of the input, where it is known although the rows are samples
    input_bits: float | None = None


def word_rows(request: Request, distribution: Distribution, samples: int, seed: int) -> WordRows:
    """The rows of a distribution. Raises InputError RG1601, RG0603; CompileError."""
    if samples < 1:
        raise refuse("RG1601", f"{samples} samples are none", "Draw at least 1.")
    if isinstance(distribution, str):
        if distribution != WORDS:
            raise refuse("RG1601", f"`{distribution[:40]}` names no distribution; `{WORDS}` does")
        distribution = {p.name: WORDS for p in request.function.parameters}
    if isinstance(distribution, Mapping):
        if all(isinstance(key, str) for key in distribution):
            return _independent(request, distribution, samples, np.random.default_rng(seed))
        return _with_probabilities(request, distribution)
    if callable(distribution):
        rng = np.random.default_rng(seed)
        return _Rows(request).words([distribution(rng) for _ in range(samples)])
    if not isinstance(distribution, Iterable):
        raise refuse("RG1601", f"`{distribution!r:.40}` is no distribution")
    return _Rows(request).words(list(distribution))


def _with_probabilities(request: Request, given: Mapping[Any, Any]) -> WordRows:
    if len(given) > MOST_INPUTS:
        raise refuse("RG1601", f"{len(given)} inputs have probabilities; at most {MOST_INPUTS} may", "Give samples.")
    found = {}
    for key, p in given.items():
        try:
            number = float(p)
        except (TypeError, ValueError):
            number = -1.0
        if not (math.isfinite(number) and number >= 0):
            raise refuse("RG1601", f"`{p!r:.40}` is no probability")
        if number:
            found[key] = number
    weight = math.fsum(found.values())
    if abs(weight - 1) > 1e-9:
        raise refuse("RG1601", f"the probabilities have the sum {weight:.9g}", "Divide each by their sum.")
    return _Rows(request).words(list(found), np.array([*found.values()]) / weight)


class _Rows:
    """Arguments as words of one program: all inputs have the types of the first."""

    def __init__(self, request: Request) -> None:
        self.request = request

    def words(self, inputs: Sequence[Any], probabilities: NDArray[np.float64] | None = None) -> WordRows:
        if not inputs:
            raise refuse("RG1601", "the distribution is empty")
        types: tuple[Type, ...] | None = None
        rows = []
        losses = Losses()
        for given in inputs:
            args = given if isinstance(given, tuple) else (given,)
            values = bind(self.request.function, args, {}, self.request.format)
            found = self.request.function.types_of(values)
            if types is None:
                types, compiled = found, self.request.compiled(values)
            elif found != types:
                hint = "Arrays have one size, and static arguments one value, in all inputs."
                raise refuse("RG1601", f"the input {given!r:.60} has other types than the first", hint)
            rows.append(tuple(argument_words(compiled, values, losses)))
        losses.report(compiled)
        return WordRows(compiled, rows, probabilities)


def _independent(request: Request, given: Mapping[str, Any], samples: int, rng: np.random.Generator) -> WordRows:
    parameters = request.function.parameters
    names = [p.name for p in parameters]
    for name in (*given, *names):
        if (name in given) != (name in names):
            what = "has no values" if name in names else f"is no parameter of `{request.function.__name__}`"
            raise refuse("RG1601", f"`{name}` {what}", f"Its parameters are {', '.join(names)}.")
    pools: dict[str, Sequence[Any]] = {}
    first = []
    for p in parameters:
        values = given[p.name]
        if isinstance(values, str):
            if values != WORDS:
                raise refuse("RG1601", f"`{p.name}`: `{values:.40}` are no values; `{WORDS}` stands for all")
            first.append(_zero(p.name, p.annotation))
            continue
        try:
            # A range may be long: of its numbers, the drawn numbers alone become words.
            pools[p.name] = values if isinstance(values, range) else list(values)
        except TypeError:
            raise refuse("RG1601", f"`{p.name}`: `{values!r:.40}` is no list of values") from None
        if not pools[p.name]:
            raise refuse("RG1601", f"`{p.name}` has no values")
        first.append(pools[p.name][0])
    compiled = request.compiled(first)
    types, losses = request.function.types_of(first), Losses()

    def chooser(i: int) -> Callable[[int], Sequence[int]]:
        """The words of value k of argument i."""
        argument = compiled.arguments[i]

        @cache
        def words(k: int) -> Sequence[int]:
            value = pools[argument.name][k]
            values = [*first[:i], value, *first[i + 1 :]]
            if request.function.types_of(values) != types:
                raise refuse("RG1601", f"`{argument.name}`: {value!r:.60} has another type than the first value")
            return argument_words(compiled, values, losses)[argument.address : argument.address + argument.type.size]

        return words

    # Word by word or argument by argument: the number of choices, and the words of a choice.
    choices: list[tuple[int, Callable[[int], Sequence[int]]]] = []
    for i, argument in enumerate(compiled.arguments):
        pool = pools.get(argument.name)
        if pool is None:
            choices += [(1 << compiled.format.width, lambda k: (k,))] * argument.type.size
        else:
            choices.append((_length(argument.name, pool), chooser(i)))
    inputs = math.prod(number for number, _ in choices)

    def row(numbers: Iterable[int]) -> tuple[int, ...]:
        return tuple(word for k, (_, words) in zip(numbers, choices, strict=True) for word in words(k))

    if inputs <= MOST_INPUTS:
        rows = [row(numbers) for numbers in itertools.product(*(range(number) for number, _ in choices))]
        _reported(losses, compiled)
        return WordRows(compiled, rows, np.full(inputs, 1 / inputs))
    drawn = [rng.integers(0, number - 1, samples, np.uint64, endpoint=True).tolist() for number, _ in choices]
    bits = math.fsum(math.log2(number) for number, _ in choices)
    rows = [row(numbers) for numbers in zip(*drawn, strict=True)]
    _reported(losses, compiled)
    return WordRows(compiled, rows, None, bits)


def _reported(losses: Losses, compiled: Compiled) -> None:
    """Report the losses; the first value of an argument became a word with each value of the others."""
    losses[:] = dict.fromkeys(losses)
    losses.report(compiled)


def _length(name: str, pool: Sequence[Any]) -> int:
    """The number of values, which a generator can draw."""
    try:
        return len(pool)
    except OverflowError:
        raise refuse("RG1601", f"`{name}` has more values than words") from None


def _zero(name: str, annotation: Any) -> Any:
    """A value of a parameter whose words are drawn."""
    try:
        t = complete(annotation)
    except TypeError:
        raise refuse("RG1601", f"`{name}`: its annotation leaves the number of words open", "Give values.") from None
    return from_words(t, [0] * t.size, Format(64, 32))


# ---------------------------------------------------------------------- erased words


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
