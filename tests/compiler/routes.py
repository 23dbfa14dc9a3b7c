"""The two routes to a gradient, which agree bit for bit: the machine's differentiation mode, and the gradient program.

    P, turned round with D = 1   =   P; lift(P⁻¹)

`compare(module, regions, memory, …)` goes both ways from one state, with random cotangents of the regions' words.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from retrograd.compiler.backend.emission import emit, with_arrays_discarded
from retrograd.compiler.derivatives.accumulators import useful_storage
from retrograd.compiler.derivatives.gradients import gradient
from retrograd.compiler.ir.statements import Module, Region
from retrograd.simulator.machine import Machine, Stop, Trap

#: steps that a run may take
STEPS = 20_000_000


def started(module: Module, memory: Sequence[int]) -> Machine:
    machine = Machine(emit(module).program)
    machine.load(0, memory)
    return machine


def ended(machine: Machine, steps: int = STEPS) -> str | None:
    """Run to the end; the code of the trap if it traps."""
    try:
        outcome = machine.run(steps)
    except Trap as trap:
        return trap.diagnostics[0].code
    assert outcome.stop is Stop.HALTED, "the program does not end"
    return None


def compare(
    module: Module,
    regions: Sequence[Region],
    memory: Sequence[int],
    *,
    keep: int = 0,
    seed: int = 0,
    steps: int = STEPS,
) -> str:
    """How it went: "ended", "trapped" by a cotangent, "trapped before" in P itself.

    `keep`: words for the cotangents of what is freed; then the gradient program is run backward, too, and all memory is
    as it began.
    """
    w, rng = module.format, random.Random(seed)
    words = [address for r in regions if r.address is not None for address in range(r.address, r.address + r.size)]
    seeds = {address: w.wrap(rng.randint(-1 << w.frac, 1 << w.frac)) for address in words}

    useful = useful_storage(module, regions)
    # A program that keeps cotangents of variables leaves those of arrays where they are.
    own = module if keep else with_arrays_discarded(module, useful)
    machine = started(replace(own, discarded=useful), memory)
    if ended(machine, steps) is not None:
        return "trapped before"
    machine.differentiating = True
    for address, word in seeds.items():
        machine.memory_cotangents[address] = word
    machine.turn()
    trapped = ended(machine)

    made = gradient(module, regions, regions, keep=keep)
    program = started(made.module, memory)
    for address, word in seeds.items():
        program.load(address + made.offset, [word])
    before = list(program.memory)
    # The machine has cotangents of constants, too, which may be the ones that do not fit.
    assert ended(program) in (None, trapped), "the program traps, the machine does not"
    if trapped is not None:
        return "trapped"
    found = {address: program.memory[address + made.offset] for address in words}
    wanted = {address: machine.memory_cotangents[address] for address in words}
    wrong = {a: (w.signed(found[a]), w.signed(wanted[a])) for a in words if found[a] != wanted[a]}
    assert not wrong, f"address: (cotangent by the program, by the machine) = {wrong}"
    assert program.memory[: module.memory] == before[: module.memory], "the words are not as they were"
    assert not any(program.registers), "registers are left"
    if keep:
        program.turn()
        assert ended(program) is None
        assert program.memory == before, "the way back does not give all memory back"
    return "ended"
