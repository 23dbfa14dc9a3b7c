"""Random programs with each transformation on and off: the compiler's passes, those of derivatives, and those of the engines.

A seed chooses the program, and the transformations that are left out, each about every second time. The properties:

    module        the words of the interpreter of the IR, which transforms nothing; and back to the words before
    gradient      the words of the gradient program without any transformation, where both end
    engine        on a few short modules: translated code and a batch as the reference machine

`check(seed)` is one program; `tools/long_runs/random_programs.py` runs any number of them.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import Any
from unittest.mock import patch

import numpy as np
from retrograd.compiler.backend.emission import emit
from retrograd.compiler.backend.memory_operands import promote_to_registers, use_memory_operands
from retrograd.compiler.compiled import store_results
from retrograd.compiler.derivatives.gradients import TRANSFORMATIONS, gradient
from retrograd.compiler.ir.statements import Module
from retrograd.compiler.pipeline import PASSES, optimise
from retrograd.isa.program import Program
from retrograd.simulator.engines import tiering
from retrograd.simulator.engines.batch import lanes as hammocks
from retrograd.simulator.engines.batch.cpu import run_batch
from retrograd.simulator.engines.llvm.jit import jit_compiler
from retrograd.simulator.engines.tiered_machine import TieredMachine
from retrograd.simulator.engines.translator import flow, loops
from retrograd.simulator.machine import Machine, Stop, Trap
from retrograd.simulator.semantics import Fault

#: transformations of a module behind the pipeline, of gradient programs, of engines
AFTER = ("store_results", "promote_to_registers", "use_memory_operands")
DERIVED = (*TRANSFORMATIONS, "eliminate_forward_sweep", "eliminate_uncomputation")
ENGINES = (
    "skip_uncompute", "clear_stacks", "vector_loops", "wide_chunks", "chosen_bounds", "lanes", "if_conversion", "optimised_code"
)  # fmt: skip
COMPILER = (*dict.fromkeys(name for name, _ in PASSES), *AFTER)
SWITCHES = (*COMPILER, *DERIVED, *ENGINES)

STEPS = 200_000
#: one seed in RARE runs on engines, which must compile its program, of at most SHORT instructions
RARE, SHORT = 200, 600
_GHOSTS = ("native", "machines", "batch.loops")


def check(seed: int, random_ir: ModuleType, random_sums: ModuleType, interpreter: ModuleType) -> Counter[str]:
    """One program: which transformations were on ("+name") and off ("-name"), and how the runs went. Raises AssertionError."""
    rng = random.Random(seed)
    off = {name for name in SWITCHES if rng.random() < 0.5}
    if seed % 4:
        case = random_ir.generate(seed)
        went = check_module(case.module, case.memory, off, interpreter, engines=seed % RARE == 1)
        used = (*COMPILER, *(ENGINES if "engines" in went else ()))
    else:
        went, used = check_gradient(random_sums.generate(seed), off), DERIVED
    return went + Counter(f"{'-' if name in off else '+'}{name}" for name in used)


# ---------------------------------------------------------------- modules


def check_module(
    module: Module, memory: list[int], off: set[str], interpreter: ModuleType, *, engines: bool
) -> Counter[str]:
    """The module, transformed, leaves the words of the interpreter, forward and back."""
    try:
        ran = interpreter.interpret(module, memory)
    except Fault:
        # A program that traps may trap elsewhere, or not at all.
        return Counter(["trapped"])
    expected = ran.memory[: module.memory]
    made = optimise(module, without=off)
    if "store_results" not in off:
        made, _ = store_results(made, 64)
    if "promote_to_registers" not in off:
        made = promote_to_registers(made, eager=bool(len(off) % 2))
    if "use_memory_operands" not in off:
        made = use_memory_operands(made)
    program = emit(made).program
    machine = Machine(program)
    machine.load(0, memory)
    before = machine.state()
    assert machine.run(STEPS).stop is Stop.HALTED
    assert machine.memory[: module.memory] == expected
    machine.run_back(STEPS)
    assert machine.state() == before
    if not engines or len(program.code) > SHORT:
        return Counter(["ended"])
    check_engines(program, memory, off)
    return Counter(["ended", "engines"])


@contextmanager
def engine_switches(off: set[str]) -> Iterator[int]:
    """These transformations of the engines on and off; gives LLVM's level."""
    lanes = 1 if "lanes" in off else 4
    no_clears = [
        patch(f"retrograd.simulator.engines.{name}.clears", lambda program: False) for name in ("native", "machines")
    ]
    no_ghosts = [patch(f"retrograd.simulator.engines.{name}.ghosts_of", lambda program: None) for name in _GHOSTS]
    chosen = [
        patch.object(jit_compiler(), "lanes", lanes),
        patch.object(tiering.policy.costs, "lanes", 0.0),
        patch.object(tiering.policy.costs, "wait", float("inf")),
        patch.object(flow, "VECTOR_LOOPS", "vector_loops" not in off),
        patch.object(loops, "FEW_NODES", 0 if "wide_chunks" in off else loops.FEW_NODES),
        *(() if "chosen_bounds" not in off else (patch.object(loops._Analysis, "_split", lambda self, proven: None),)),
        patch.object(hammocks, "enabled", "if_conversion" not in off),
        # Each program runs once.
        patch("retrograd.simulator.engines.llvm.jit.write", lambda key, code: None),
        patch("retrograd.simulator.engines.llvm.jit.read", lambda key: None),
        *(no_ghosts if "skip_uncompute" in off else ()),
        *(no_clears if "clear_stacks" in off else ()),
    ]
    for one in chosen:
        one.start()
    try:
        yield 0 if "optimised_code" in off else 2
    finally:
        for one in reversed(chosen):
            one.stop()


def check_engines(program: Program, memory: list[int], off: set[str]) -> None:
    """Translated code, of a machine and of a batch, leaves the state and the counts of the reference machine."""
    with engine_switches(off) as level:
        machines = [Machine(program), TieredMachine(program, engine="translated", level=level)]
        for machine in machines:
            machine.load(0, memory)
            assert machine.run(STEPS).stop is Stop.HALTED
        one, two = machines
        assert one.state() == two.state()
        assert one.counts() == two.counts()
        # One more than lanes.
        rows = np.array(
            [memory] * (4 * 64 // program.format.width + 1 if program.format.width > 8 else 9), dtype=np.uint64
        )
        # Some rows take other branches, or trap.
        rows[1::2] ^= np.random.default_rng(len(program.code)).integers(0, 3, rows[1::2].shape, dtype=np.uint64)
        ran = run_batch(program, rows, limit=STEPS, threads=1)
        for row, words, steps, failed in zip(
            rows.tolist(), ran.rows.tolist(), ran.steps, np.isin(range(len(rows)), ran.failed), strict=True
        ):
            after = _ran(program, row)
            assert after is not None or failed
            # A run that ends shortly before its limit may count as failed.
            assert after is None or (words, steps) == after or (failed and after[1] > STEPS // 2)
        for machine in machines:
            machine.run_back(STEPS)
        assert one.state() == two.state()


def _ran(program: Program, row: list[int]) -> tuple[list[int], int] | None:
    """(the row afterwards, steps) of the reference machine, if it ends."""
    machine = Machine(program)
    machine.load(0, row)
    try:
        halted = machine.run(STEPS).stop is Stop.HALTED
    except Trap:
        return None
    return (machine.memory[: len(row)], machine.retired) if halted else None


# ---------------------------------------------------------------- gradients


def check_gradient(case: Any, off: set[str]) -> Counter[str]:
    """The gradient of a module that mostly accumulates: the words of the plain gradient program."""
    rng = random.Random(case.seed)
    regions, w = case.regions, case.module.format
    inputs, outputs = [regions["x"], regions["loss"], regions["outs"]], [regions["loss"]]
    module = ~case.module if rng.random() < 0.3 else case.module
    plain = gradient(module, inputs, outputs, loss=0, without=TRANSFORMATIONS)
    made = gradient(
        module, inputs, outputs, loss=0, forward="eliminate_forward_sweep" in off, without=off & {*TRANSFORMATIONS}
    )
    if "eliminate_uncomputation" not in off:
        made = made.without_uncomputation()
    expected, found = (_results(m, _ended(m.module, case.memory)) for m in (plain, made))
    assert w == made.module.format
    if found is None:
        # Without a forward sweep, or with known zeros, a trap is decided elsewhere.
        assert expected is None or made.conditional
        return Counter(["trapped"])
    assert expected is None or found == expected
    return Counter(["ended"])


def _ended(module: Module, memory: Mapping[int, int] | list[int]) -> list[int] | None:
    machine = Machine(emit(module).program)
    machine.load(0, memory)
    try:
        return machine.memory[:] if machine.run(STEPS).stop is Stop.HALTED else None
    except Trap:
        return None


def _results(made: Any, memory: list[int] | None) -> list[int] | None:
    """The words of the arguments, of their shadows, and of the value of the loss."""
    if memory is None:
        return None
    regions = [*(made.module.arguments or ()), *made.results]
    return [word for r in regions if r.address is not None for word in memory[r.address : r.address + r.size]]
