"""`rg.energy` of gradients and batches: the counts are those of what they run, and add up."""

from __future__ import annotations

import json
import math
from functools import partial, reduce
from operator import add
from typing import Any

import numpy as np
import pytest
from retrograd.isa.diagnostics import InputError
from retrograd.simulator.energy.pricing import NotModelled
from retrograd.simulator.energy.technology import BOLTZMANN, Range

import retrograd as rg
from retrograd import Array, fixed, library, reversible
from retrograd.derivatives import NotDifferentiable

#: energies are smaller than 1e-12, the absolute tolerance of pytest.approx
approx = partial(pytest.approx, rel=1e-6, abs=0.0)


@reversible
def cube(y: fixed, x: fixed) -> None:
    y += x * x * x


@reversible
def forgetful(y: fixed, xs: Array[fixed, "n"]) -> None:
    for i in range(len(xs)):
        t = xs[i] * xs[i]
        y += t
        rg.erase(t)


@reversible
def countdown(y: fixed, n: int) -> None:
    """As many steps as it is told."""
    for _ in range(n):
        y += 1


@reversible
def there_and_back(y: fixed, x: fixed, n: int) -> None:
    for _ in range(n):
        y += x * 0.5
    for _ in range(n):
        y -= x * 0.5


@reversible
def root(y: fixed, x: fixed) -> None:
    y += rg.sqrt(x)


def modelled(energy: Range | NotModelled) -> float:
    assert isinstance(energy, Range)
    return energy.nominal


# ------------------------------------------------------------------ gradients


@pytest.mark.parametrize("engine", ["reference", "threaded", "translated"])
def test_a_gradient(engine: str) -> None:
    found = rg.energy(rg.grad(library.norm), 0.0, [3.0, 4.0], engine=engine)
    plain = rg.gradient_report(library.norm)(0.0, [3.0, 4.0])
    assert (found.name, found.engine) == ("grad(norm)", engine)
    ways = {way: sum(n for e, n in found.counts.executions.items() if e.direction == way) for way in (1, -1)}
    # A machine that turns round at `finish` has not executed it.
    assert ways == {1: plain.backward_steps, -1: plain.backward_steps - 1}
    assert {e.direction: e.lifted for e in found.counts.executions} == {1: False, -1: True}
    assert found.counts.dropped_bits == plain.dropped_bits == 64
    assert found.baseline is None
    assert modelled(found.price.program) == approx(64 * BOLTZMANN * 300 * math.log(2))
    # Three words and the cotangent of the loss go in, two words of the gradient come out.
    assert (found.counts.host.data_bits, found.counts.host.copied_bits) == (4 * 64, 2 * 64)
    told: Any = json.loads(json.dumps(found.as_dict()))
    assert told["counts"]["erased_bits"] == {"erase": 0, "dropped_cotangents": 64}


def test_a_gradient_is_the_way_there_and_the_way_back() -> None:
    """Priced part by part it comes to the same, dropped cotangents beside."""
    found = rg.energy(rg.grad(library.norm), 0.0, [3.0, 4.0], tech="cmos45")
    executed = found.counts.executed
    parts = [
        type(found.counts)(found.counts.program, {s: n for s, n in executed.items() if s[1].direction == way})
        for way in (1, -1)
    ]
    assert all(part.executed for part in parts)
    assert modelled(found.price.program) == approx(sum(modelled(found.by.price(p).program) for p in parts))


def test_the_value_is_copied_out_too() -> None:
    gradient = rg.energy(rg.grad(library.norm, "x"), 0.0, [3.0, 4.0])
    both = rg.energy(rg.value_and_grad(library.norm, "x"), 0.0, [3.0, 4.0])
    assert both.counts.executed == gradient.counts.executed
    assert both.counts.host.copied_bits == gradient.counts.host.copied_bits + 64


def test_a_gradient_over_time() -> None:
    found = rg.energy(rg.grad(library.norm), 0.0, [3.0, 4.0], timeline=True)
    plain = rg.energy(rg.grad(library.norm), 0.0, [3.0, 4.0])
    assert found.ledger is not None
    assert found.back is not None
    assert found.counts.executed == plain.counts.executed
    assert found.counts.toggled_bits == found.ledger.toggled_bits + found.back.toggled_bits > 0
    assert found.ledger.samples[-1].erased_bits == 0
    assert found.back.samples[-1].erased_bits == found.counts.dropped_bits
    # What was dropped has a line now.
    lines = [line for line, p in found.lines.items() if modelled(p.program)]
    assert len(lines) == 1
    assert plain.counts.toggled_bits is None


def test_an_inverse_a_format_a_scale_and_a_gradient_of_a_gradient() -> None:
    back = rg.energy(rg.grad(~cube), 0.0, 2.0)
    assert {e.direction: e.lifted for e in back.counts.executions} == {-1: False, 1: True}
    small = rg.energy(rg.grad(cube, scale=4), 0.0, 2.0, format=rg.Format(32, 16))
    assert small.counts.format == rg.Format(32, 16)
    twice = rg.energy(rg.grad(rg.grad(cube, "x"), "x"), 0.0, 2.0)
    assert twice.name == "grad(grad(cube))"
    assert twice.counts.retired > rg.energy(rg.grad(cube, "x"), 0.0, 2.0).counts.retired


def test_cotangents_of_constants_that_outgrow_the_word() -> None:
    """A machine that has them traps; what is counted is then the gradient program, on which rg.grad falls back, too."""
    found = rg.energy(rg.grad(there_and_back, "x", scale=20), 0.0, 1000.0, 3000)
    assert {(e.direction, e.lifted) for e in found.counts.executions} == {(1, False)}
    report = rg.gradient_report(there_and_back, "x", scale=20)(0.0, 1000.0, 3000)
    assert found.counts.retired == report.forward_steps + report.backward_steps
    with pytest.raises(rg.ProgramTrap, match=r"RG0404.*cotangent"):
        rg.energy(rg.grad(there_and_back, "x", scale=30), 0.0, 1000.0, 3000)


@reversible
def steep_at_last(y: fixed, x: fixed, z: fixed, n: int) -> None:
    for _ in range(n):
        y += x * 0.25
    for _ in range(n):
        y -= x * 0.25
    y += z * 2.0**20


def test_the_gradient_program_runs_at_the_scale_of_the_machine() -> None:
    """`scale="auto"` is 0 here: at the scale that rg.grad tries first, the cotangent of z would outgrow the word."""
    found = rg.energy(rg.grad(steep_at_last, ("x", "z")), 0.0, 1.5e6, 0.5, 2000)
    assert {(e.direction, e.lifted) for e in found.counts.executions} == {(1, False)}
    with pytest.raises(rg.ProgramTrap, match=r"RG0404.*cotangent"):
        rg.energy(rg.grad(steep_at_last, ("x", "z"), scale=16), 0.0, 1.5e6, 0.5, 2000)


def test_wrong_gradients() -> None:
    with pytest.raises(NotDifferentiable, match="the loss `x` of `norm` is"):
        rg.energy(rg.grad(library.norm, "out", loss="x"), 0.0, [3.0, 4.0])
    with pytest.raises(rg.ProgramTrap, match="RG0420"):
        rg.energy(rg.grad(library.norm), 0.0, [3.0, 4.0], max_steps=20)
    with pytest.raises(rg.ProgramTrap, match="RG0420"):
        rg.energy(rg.grad(library.norm), 0.0, [3.0, 4.0], max_steps=2)
    for other in (rg.jacobian(library.norm), print, 4):
        with pytest.raises(InputError, match=r"RG0603.*has no energy report"):
            rg.energy(other, 0.0, [3.0, 4.0])  # type: ignore[arg-type]


# ------------------------------------------------------------------ batches

STARTS, XS = np.zeros(3), np.array([[3.0, 4.0], [1.0, 2.0], [6.0, 8.0]])


@pytest.mark.parametrize("engine", ["auto", "reference", "threaded", "translated", "native"])
@pytest.mark.parametrize("tech", ["landauer", "cmos45"])
def test_a_batch_is_its_elements(engine: str, tech: str) -> None:
    found = rg.energy(rg.vmap(forgetful), STARTS, XS, engine=engine, tech=tech)
    alone = [rg.energy(forgetful, 0.0, x, tech=tech) for x in XS]
    assert found.name == "vmap(forgetful)"
    assert found.each is not None
    assert [c.executed for c in found.each] == [r.counts.executed for r in alone]
    assert [p.program for p in found.prices] == [r.price.program for r in alone]
    assert found.counts.executed == reduce(add, (r.counts for r in alone)).executed
    assert modelled(found.price.program) == approx(sum(modelled(r.price.program) for r in alone))
    assert found.counts.erased_bits == 3 * 2 * 64
    # The code is loaded once, all else for each.
    one = alone[0].counts.host
    assert found.counts.host == (one.code_bits, 3 * one.data_bits, 3 * one.copied_bits)
    assert sum(c.host.bits for c in found.each) + one.code_bits == found.counts.host.bits


def test_elements_that_go_different_ways() -> None:
    found = rg.energy(rg.vmap(countdown), STARTS, np.array([1, 5, 1]))
    batch = rg.run_batch(countdown, STARTS, np.array([1, 5, 1]), cycles=True)
    assert batch.cycles is not None
    assert found.each is not None
    assert [c.retired for c in found.each] == batch.steps.tolist()
    assert [c.cycles for c in found.each] == batch.cycles.tolist()
    assert found.each[0] is found.each[2] is not found.each[1]
    assert found.counts.retired == batch.steps.sum()
    assert found.counts.cycles == batch.cycles.sum()
    text = str(found)
    assert "of an element" in text
    row = next(line for line in text.splitlines() if line.startswith("instructions  ") and "forward" not in line)
    assert row.split()[1:] == [str(batch.steps.min()), f"{batch.steps.mean():g}", str(batch.steps.max())]


def test_the_erasing_batch_stands_beside() -> None:
    found = rg.energy(rg.vmap(library.norm), STARTS, XS)
    beside = rg.run_batch(library.norm.with_options(erase=True), STARTS, XS)
    assert found.baseline is not None
    assert (found.baseline.retired, found.baseline.erased_bits) == (beside.steps.sum(), beside.erased_bits.sum())
    assert found.counts.erased_bits == 0
    assert rg.energy(rg.vmap(library.norm), STARTS, XS, baseline=False).baseline is None


def test_an_inverse_and_shared_arguments() -> None:
    back = rg.energy(rg.vmap(~library.norm), np.array([5.0, 5.0]), XS[:1].repeat(2, axis=0))
    assert back.name == "vmap(~norm)"
    assert {e.direction for e in back.counts.executions} == {-1}
    shared = rg.energy(rg.vmap(library.norm, in_axes=(0, None)), np.zeros(2), XS[0])
    # An element may change what it shares, so it is loaded for each.
    assert shared.counts.host.data_bits == 2 * 3 * 64


def test_a_batch_of_gradients() -> None:
    found = rg.energy(rg.vmap(rg.grad(library.norm)), STARTS, XS)
    assert (found.name, len(found.prices)) == ("vmap(grad(norm))", 3)
    assert found.each is not None
    assert found.counts.retired == sum(c.retired for c in found.each)
    assert found.counts.dropped_bits == 0
    assert found.counts.erased_bits > 0
    host = found.counts.host
    assert (host.data_bits, host.copied_bits) == (3 * 3 * 64, 3 * 2 * 64)
    total = rg.energy(rg.vmap(rg.grad(library.norm, "x"), in_axes=(0, None), shared="sum"), STARTS, XS[0])
    assert total.each is not None
    assert len(total.each) == 3


def test_json_of_a_batch() -> None:
    told: Any = json.loads(json.dumps(rg.energy(rg.vmap(forgetful), STARTS, XS).as_dict()))
    assert [e["erased_bits"] for e in told["elements"]] == [128] * 3
    assert sum(e["program"]["value"] for e in told["elements"]) == approx(told["price"]["program"]["value"])
    assert rg.energy(forgetful, 0.0, [1.0]).as_dict()["elements"] is None


def test_no_elements() -> None:
    found = rg.energy(rg.vmap(library.norm), np.zeros(0), np.zeros((0, 2)))
    assert found.each == ()
    assert found.counts.retired == 0
    assert "elements" in str(found)


def test_wrong_batches() -> None:
    with pytest.raises(rg.ElementTrap, match="element 1: "):
        rg.energy(rg.vmap(root), np.zeros(3), np.array([4.0, -1.0, 9.0]))
    with pytest.raises(InputError, match=r"RG1001.*cuda"):
        rg.energy(rg.vmap(root, engine="cuda"), np.zeros(1), np.ones(1))
    with pytest.raises(InputError, match=r"RG0603.*timeline"):
        rg.energy(rg.vmap(root), np.zeros(1), np.ones(1), timeline=True)
    with pytest.raises(InputError, match=r"RG0603.*has no energy report"):
        rg.energy(rg.vmap(lambda x: x), np.zeros(1))
    with pytest.raises(InputError, match="RG0603"):
        rg.energy(rg.vmap(root), np.zeros(2), np.ones(3))
