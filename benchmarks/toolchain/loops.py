"""All machines on loops in assembly: forward, backward, with cotangents, and the cost of checks.

Before anything is timed, results of the machines are compared with each other and with the exact results of the loops.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from retrograd.assembler.assemble import assemble
from retrograd.benchmarks.measure import Row, seconds
from retrograd.isa.program import Program
from retrograd.simulator.engines.tiered_machine import TieredMachine
from retrograd.simulator.machine import Machine

#: machines: classes that take a program and have `run`, `run_back`, registers and memory
MACHINES: dict[str, Callable[[Program], Any]] = {
    "reference": Machine,
    "threaded": functools.partial(TieredMachine, engine="threaded"),
    "translated": functools.partial(TieredMachine, engine="translated"),
}
#: bar: million instructions a second of the assembly loops
BARS = {"threaded": 500.0, "translated": 3000.0}
#: bar: speed of the interpreter with cotangents, relative to its speed without
ADJOINT = 0.8


@dataclass(frozen=True)
class Loop:
    """A program with `rounds` rounds; `{rounds}` in its text. `out` then holds `rounds` times `exact`."""

    text: str
    #: instructions of one round, about
    instructions: int
    exact: float
    tolerance: float


def _words(values: Iterable[int]) -> str:
    return ", ".join(map(str, values))


_X = [(37 * i) % 101 - 50 for i in range(256)]
_Y = [(53 * i) % 97 - 48 for i in range(256)]

LOOPS = {
    # Σ xᵢ yᵢ of integers. Both factors are loaded, used, and loaded again to clear them.
    "dot loop": Loop(
        f"""
                .reg    zero, r0
                .reg    i, r1
                .reg    n, r2
                .reg    rounds, r3
                .reg    size, r4
                .reg    a, r5
                .reg    b, r6
                .reg    sum, r7
                .data
        out:    .word   0
        x:      .word   {_words(_X)}
        y:      .word   {_words(_Y)}
                .text
                start
                add     size, {len(_X)}
                add     rounds, {{rounds}}
        again:  from.ne n, zero, next
        top:    from.ne i, zero, bottom
                ld.add  a, [i + x]
                ld.add  b, [i + y]
                mul.add sum, a, b
                ld.sub  b, [i + y]
                ld.sub  a, [i + x]
                add     i, 1
        bottom: goto.ne i, size, top
                sub     i, size
                add     n, 1
        next:   goto.ne n, rounds, again
                sub     n, rounds
                exch    sum, [zero + out]
                finish
        """,
        8 * len(_X) + 4,
        float(np.dot(_X, _Y)) / 2**32,
        0.0,
    ),
    # J₂(1) by its series. Each term is saved when the next is made of it. The way back recomputes each of the next terms and clears it.
    "Bessel-like loop": Loop(
        f"""
                .reg    zero, r0
                .reg    n, r1
                .reg    rounds, r2
                .reg    k, r3
                .reg    quarter, r4             ; (z/2)²
                .reg    least, r5
                .reg    term, r6
                .reg    last, r7                ; the term before
                .reg    size, r8                ; |term|
                .reg    ratio, r9
                .reg    factor, r10
                .reg    total, r11
                .reg    sum, r12
                .data
        out:    .word   0
        ratios: .word   {_words(round(-(2**32) / (k * (k + 2))) for k in range(1, 17))}
        terms:  .zero   16
                .text
                start
                add     quarter, 0.25q
                add     least, 1.0e-8q
                add     rounds, {{rounds}}
        again:  from.ne n, zero, next
                add     term, 0.125q
                fadd    total, term
                fabs.add size, term

        up:     from.ne k, zero, up.more
                fabs.sub size, term
                swap    term, last
                ld.add  ratio, [k + ratios]
                fmul.add factor, quarter, ratio
                fmul.add term, last, factor
                fmul.sub factor, quarter, ratio
                ld.sub  ratio, [k + ratios]
                exch    last, [k + terms]
                fadd    total, term
                fabs.add size, term
                add     k, 1
        up.more:
                goto.gt size, least, up

                fadd    sum, total

        down:   from.gt size, least, down.more
                sub     k, 1
                fabs.sub size, term
                fsub    total, term
                exch    last, [k + terms]
                ld.add  ratio, [k + ratios]
                fmul.add factor, quarter, ratio
                fmul.sub term, last, factor
                fmul.sub factor, quarter, ratio
                ld.sub  ratio, [k + ratios]
                swap    term, last
                fabs.add size, term
        down.more:
                goto.ne k, zero, down

                fabs.sub size, term
                fsub    total, term
                sub     term, 0.125q
                add     n, 1
        next:   goto.ne n, rounds, again
                sub     n, rounds
                exch    sum, [zero + out]
                finish
        """,
        140,
        0.1149034849298,
        2e-9,
    ),
}


def measure(quick: bool, machines: Mapping[str, Callable[[Program], Any]] = MACHINES) -> list[Row]:
    """Each loop on each machine, forward and backward, with a length that fits the machine's speed."""
    rows = []
    for name, loop in LOOPS.items():
        states = {}
        tasks: dict[str, Callable[[], object]] = {}
        steps: dict[str, int] = {}
        for engine, factory in machines.items():
            states[engine] = _state(loop, factory)
            budget = (3e4 if quick else 1e6) if engine == "reference" else (1e7 if quick else 1e8)
            rounds = max(1, round(budget / loop.instructions))
            machine = factory(assemble(loop.text.format(rounds=rounds)))
            steps[engine] = machine.run().steps
            _check_loop(name, engine, loop, machine, rounds)
            machine.run_back()
            tasks[f"{engine} forward"], tasks[f"{engine} backward"] = machine.run, machine.run_back
            tasks[f"{engine} adjoint"] = _adjoint(factory(assemble(loop.text.format(rounds=rounds))))
        if "translated" in machines:
            rounds = round(steps["translated"] / loop.instructions)
            unchecked = TieredMachine(assemble(loop.text.format(rounds=rounds)), engine="translated", overflow=False)
            tasks["unchecked forward"], tasks["unchecked backward"] = unchecked.run, unchecked.run_back
        first = next(iter(states))
        for engine, state in states.items():
            if state != states[first]:
                raise AssertionError(f"{name}: {engine} and {first} differ")
        spent = seconds(tasks, 3 if quick else 7)
        for engine, count in steps.items():
            middle, low = spent[f"{engine} forward"]
            bar = BARS.get(engine)
            rows.append(Row(f"{name}, {engine}", count / middle / 1e6, "million instructions/s (median)"))
            rows.append(Row(f"{name}, {engine}", count / low / 1e6, "million instructions/s (most)", bar))
            back = spent[f"{engine} backward"][1] / low
            rows.append(Row(f"backward over forward, {name}, {engine}", back, "(time)", 1.1, lower_is_better=True))
            adjoint = 2 * low / spent[f"{engine} adjoint"][1]
            bar = ADJOINT if engine == "threaded" else None
            rows.append(Row(f"with cotangents over without, {name}, {engine}", adjoint, "(instructions/s)", bar))
        if "translated" in machines:
            cost = spent["translated forward"][1] / spent["unchecked forward"][1]
            rows.append(Row(f"with overflow checks over without, {name}, translated", cost, "(time)"))
    return rows


def _adjoint(machine: Any) -> Callable[[], object]:
    """Backward from the end and forward again, with cotangents: twice the instructions of a run."""
    machine.run()
    machine.differentiating = True
    machine.memory_cotangents[0] = 1 << 20

    def there_and_back() -> None:
        machine.run_back()
        machine.run()

    return there_and_back


def _state(loop: Loop, factory: Callable[[Program], Any]) -> tuple[Any, ...]:
    """(steps, registers, memory) after three rounds."""
    machine = factory(assemble(loop.text.format(rounds=3)))
    steps = machine.run().steps
    return steps, [int(word) for word in machine.registers], [int(word) for word in machine.memory]


def _check_loop(name: str, engine: str, loop: Loop, machine: Any, rounds: int) -> None:
    w = machine.program.format
    out = int(machine.memory[machine.program.data_labels["out"]])
    error = abs(w.signed(out) / 2.0**w.frac / rounds - loop.exact)
    if not error <= loop.tolerance:
        raise AssertionError(f"{name}, {engine}: the error of a round is {error:.1e}, and may be {loop.tolerance:.1e}")
