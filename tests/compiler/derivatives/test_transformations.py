"""Gradient programs with a transformation and without it: the same words where both end, and no trap that is lost.

lift(P⁻¹) ends   ⇒   P; lift(P⁻¹) ends with the same memory
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest
from retrograd.compiler.backend.emission import emit
from retrograd.compiler.derivatives.gradients import TRANSFORMATIONS, Differentiated, dual, gradient
from retrograd.compiler.ir.statements import Call, Const, Kind, Local, Module, Node, Op, Procedure, Region, Var, Within
from retrograd.isa.table import TABLE
from retrograd.isa.words import Format
from retrograd.simulator.machine import Machine, Stop, Trap

QUICK, CHUNK = 60, 30
SLOW, SLOW_CHUNK = 40_000, 1000
STEPS = 20_000


def ended(
    made: Differentiated, case: Any, given: Mapping[int, int], others: Mapping[int, int] | None = None
) -> list[int] | None:
    """The memory after the run from these words; None after a trap, and where the run does not end."""
    machine = Machine(emit(made.module).program)
    machine.load(0, case.memory)
    for address, word in {**given, **(others or {})}.items():
        machine.load(address, [word])
    try:
        if machine.run(STEPS).stop is not Stop.HALTED:
            return None
    except Trap:
        return None
    assert not any(machine.registers), "registers are left"
    return machine.memory[:]


def cotangents(made: Differentiated) -> list[Region]:
    return [r for r in made.module.regions if r.name == "x.bar"]


def results(made: Differentiated, memory: list[int] | None) -> list[int] | None:
    """The words of the arguments, of their shadows, and of the value of the loss."""
    if memory is None:
        return None
    regions = [*(made.module.arguments or ()), *made.results]
    return [word for r in regions if r.address is not None for word in memory[r.address : r.address + r.size]]


def compare(case: Any) -> str:
    """How the gradient of one random module went with each set of transformations."""
    rng = random.Random(case.seed)
    regions, w = case.regions, case.module.format
    module = ~case.module if rng.random() < 0.3 else case.module
    inputs = [regions["x"], regions["loss"], regions["outs"]]
    options: dict[str, Any] = {"loss": 0} if rng.random() < 0.5 else {}
    outputs = [regions["loss"]] if options else [regions["loss"], regions["outs"], regions["x"]]
    seeds = {}
    if not options:
        given = [i for r in outputs for i in range(r.address, r.address + r.size)]
        seeds = {i + module.memory: rng.randint(-2 << w.frac, 2 << w.frac) & w.mask for i in given}
    whole = gradient(module, inputs, outputs, **options)
    assert whole.offset == module.memory
    expected = ended(whole, case, seeds)
    for name in TRANSFORMATIONS:
        plain = ended(gradient(module, inputs, outputs, without=(name,), **options), case, seeds)
        assert plain is None or plain == expected, name
    short = ended(whole.without_uncomputation(), case, seeds)
    assert results(whole, short) == results(whole, expected)
    fast = gradient(module, inputs, outputs, forward=False, **options)
    if not fast.conditional:
        return "reads what it changes"
    assert (fast.offset, fast.value) == (whole.offset, whole.value)
    found = ended(fast, case, seeds)
    short = ended(fast.without_uncomputation(), case, seeds)
    assert results(fast, short) == results(fast, found)
    if found is None:
        return "trapped" if expected is None else "undecided"
    assert found == expected
    # Tangents of the program that runs back only, and of the one with a forward sweep.
    if rng.random() < 0.2:
        seconds = [dual(m.module, inputs, cotangents(m), restoring=m.restoring) for m in (fast, whole)]
        one, two = (ended(s, case, seeds, {r.address + s.offset: 1 << w.frac for r in inputs}) for s in seconds)
        for made_twice, made, memory in zip(seconds, (fast, whole), (one, two), strict=True):
            second = replace(made_twice, results=made.results)
            given = {r.address + second.offset: 1 << w.frac for r in inputs}
            short = ended(second.without_uncomputation(), case, seeds, given)
            assert results(second, short) == results(second, memory)
        if one is not None:
            assert two is not None
            first = seconds[0].offset
            assert one[:first] == two[:first]
            own = {i for r in cotangents(whole) for i in range(r.address, r.address + r.size)}
            assert all(one[i + first] == two[i + first] for i in own), "the tangents of the cotangents"
    return "ended"


def compare_all(seeds: range, random_sums: ModuleType) -> Counter[str]:
    went: Counter[str] = Counter()
    failures: list[Exception] = []
    for seed in seeds:
        try:
            went[compare(random_sums.generate(seed))] += 1
        except Exception as error:
            error.add_note(f"random_sums.generate({seed})")
            failures.append(error)
    if failures:
        raise ExceptionGroup(f"{len(failures)} of {len(seeds)} modules", failures)
    return went


@pytest.mark.parametrize("first", range(0, QUICK, CHUNK))
def test_random_sums(first: int, random_sums: ModuleType) -> None:
    went = compare_all(range(first, first + CHUNK), random_sums)
    assert went["ended"] >= CHUNK // 4, went


@pytest.mark.long
@pytest.mark.parametrize("first", range(QUICK, QUICK + SLOW, SLOW_CHUNK))
def test_random_sums_at_length(first: int, random_sums: ModuleType) -> None:
    went = compare_all(range(first, first + SLOW_CHUNK), random_sums)
    assert went["ended"] >= SLOW_CHUNK // 4, went
    assert went["trapped"] >= SLOW_CHUNK // 50, went


def test_a_call_changes_the_shadows_of_the_arrays_that_it_reads() -> None:
    """loss += own[0]², by a procedure, where own[0] = x²: ∂loss/∂x = 4x³."""
    loss, x, own = Region("loss", 1, 0), Region("x", 1, 1), Region("own", 1, 2)
    w = Format(64, 32)
    out, t, a, b, c = (Var(name, Kind.FIXED) for name in ("out", "t", "a", "b", "c"))
    array = Region("array", 1)

    def load(target: Var, region: Region) -> tuple[Local, Op]:
        return Local(target), Op(TABLE["ld.add"], target, Const(region.address or 2), None, 0, None, region)

    square = Procedure(
        "square", (out,), (array,), (Within(load(t, array), (Op(TABLE["fmul.add"], out, t, t),)),), frozenset({0})
    )
    kept = Op(TABLE["exch"], b, Const(2), None, 0, None, own)
    fill = Within(load(a, x), (Within((Local(b), kept), (Op(TABLE["fmul.add"], b, a, a),)),))
    held = Op(TABLE["exch"], c, Const(0), None, 0, None, loss)
    entry = (Within((fill, Local(c), held), (Call("square", (c,), (own,)),)),)
    module = Module(entry, {"square": square}, (loss, x, own), 3, 64, w, ("x.py",), arguments=(loss, x))
    for forward in (True, False):
        made = gradient(module, [x], [loss], loss=0, forward=forward)
        assert made.conditional is not forward
        machine = Machine(emit(made.module).program)
        machine.load(1, [3 << 31])
        machine.run()
        assert machine.memory[1 + made.offset] == int(4 * 1.5**3 * 2**32)
        assert made.value is not None
        assert machine.memory[made.value] == int(1.5**4 * 2**32)


LOSS, X = Region("loss", 1, 0), Region("x", 1, 1)


def squared(compute: tuple[Node, ...], body: tuple[Node, ...]) -> Module:
    """loss += x², around a compute block and a body."""
    out, x = Var("out", Kind.FIXED), Var("x", Kind.FIXED)
    ports = (Local(out), Op(TABLE["exch"], out, Const(0), None, 0, None, LOSS))
    load = (Local(x), Op(TABLE["ld.add"], x, Const(1), None, 0, None, X))
    square = Op(TABLE["fmul.add"], out, x, x)
    return Module(
        (Within((*ports, *load), (Within(compute, (square, *body)),)),), {}, (LOSS, X), 2, 64, arguments=(LOSS, X)
    )


@pytest.mark.parametrize("forward", [True, False])
def test_an_unused_temporary_keeps_its_trap(forward: bool) -> None:
    t, root = Var("t", Kind.FIXED), Var("root", Kind.FIXED)
    load = Op(TABLE["ld.add"], t, Const(1), None, 0, None, X)
    module = squared((Local(t), load, Local(root), Op(TABLE["fsqrt.add"], root, t)), ())
    made = gradient(module, [X], [LOSS], loss=0, forward=forward).without_uncomputation()
    for word, code in ((4 << 32, None), (-4 << 32 & (1 << 64) - 1, "RG0403")):
        machine = Machine(emit(made.module).program)
        machine.load(1, [word])
        if code is None:
            machine.run()
            assert machine.memory[1 + made.offset] == 8 << 32
        else:
            with pytest.raises(Trap) as trap:
                machine.run()
            assert trap.value.diagnostics[0].code == code


@pytest.mark.parametrize("forward", [True, False])
def test_a_body_that_changes_a_temporary_keeps_the_check_of_its_end(forward: bool) -> None:
    t = Var("t", Kind.FIXED)
    load = Op(TABLE["ld.add"], t, Const(1), None, 0, None, X)
    for by, code in ((0, None), (1, "RG0407")):
        module = squared((Local(t, True), load), (Op(TABLE["imm.add"], t, imm=by),))
        made = gradient(module, [X], [LOSS], loss=0, forward=forward).without_uncomputation()
        machine = Machine(emit(made.module).program)
        machine.load(1, [4 << 32])
        if code is None:
            machine.run()
        else:
            with pytest.raises(Trap) as trap:
                machine.run()
            assert trap.value.diagnostics[0].code == code


def test_sine_cosine_and_root_are_each_computed_once() -> None:
    """loss += x², around s = sin r, c = cos r, r = √x: the derivative of each needs the value of another."""
    r, s, c, loss = (Var(name, Kind.FIXED) for name in ("r", "s", "c", "loss"))
    x = Var("t", Kind.FIXED)
    load = Op(TABLE["ld.add"], x, Const(1), None, 0, None, X)
    root = Op(TABLE["fsqrt.add"], r, x)
    made = (Op(TABLE["fsin.add"], s, r), Op(TABLE["fcos.add"], c, r))
    held = Within(
        (Local(loss), Op(TABLE["exch"], loss, Const(0), None, 0, None, LOSS)), (Op(TABLE["fmul.add"], loss, s, c),)
    )
    module = replace(
        squared((), ()), entry=(Within((Local(x), load, Local(r), root, Local(s), Local(c), *made), (held,)),)
    )
    program = gradient(module, [X], [LOSS], loss=0, forward=False)
    short, plain = (emit(m.module).program for m in (program.without_uncomputation(), program))
    counts = [Counter(i.opcode.entry.name for i in p.instructions) for p in (short, plain)]
    assert [counts[0][name] for name in ("fsin", "fcos", "fsqrt")] == [1, 1, 1]
    assert min(counts[1][name] for name in ("fsin", "fcos", "fsqrt")) > 1
    memories = []
    for p in (short, plain):
        machine = Machine(p)
        machine.load(1, [5 << 31])
        machine.run()
        memories.append([machine.memory[1 + program.offset], machine.memory[program.value or 0]])
    assert memories[0] == memories[1]
