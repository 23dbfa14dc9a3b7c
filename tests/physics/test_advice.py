"""Erase or uncompute: what is advised is the cheaper, measured on whole programs, and compiles so."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
from retrograd.examples.tradeoffs import forgetting_chain
from retrograd.isa.diagnostics import InputError
from retrograd.simulator.energy.counts import Ledger
from retrograd.simulator.energy.pricing import price
from retrograd.simulator.energy.technology import Range, Technology, from_text
from retrograd.simulator.engines.choice import machine_for

import retrograd as rg
from retrograd import Array, fixed, library, reversible
from retrograd.library import bennett, bennett_calls, bennett_states, bennett_steps
from retrograd.physics.advice import EXPRESSIONS, _uncomputing, break_even, break_even_per_memory_unit, erasing_wins
from retrograd.runtime._binding import bind, types_of
from retrograd.runtime._execution import load

#: energies are smaller than 1e-12, the absolute tolerance of pytest.approx
approx = partial(pytest.approx, rel=1e-6, abs=0.0)


def toll(instruction: float, bit: float) -> Technology:
    """A technology with a price for an instruction, and one for an erased bit, in joules."""
    return from_text(
        f"""
schema = "retrograd.technology/1"
id = "toll"
version = "1"
title = "A toll"
doc = "For each instruction and each erased bit."
covered = ["leakage", "clock", "memory"]
[temperature]
value = 300
unit = "K"
source = "a room"
evidence = "assumed"
[[charge]]
cause = "logic"
label = "toll"
law = "instruction"
[charge.energy]
value = {instruction}
unit = "J"
source = "made up"
evidence = "assumed"
[[charge]]
cause = "erasure"
label = "bits"
law = "erased bit"
[charge.energy]
value = {bit}
unit = "J"
source = "made up"
evidence = "assumed"
""",
        "toll.toml",
    )


@reversible
def two(y: fixed, xs: Array[fixed, "n"]) -> None:
    with rg.routine() as long:
        s = fixed(0)
        for i in range(len(xs)):
            s += rg.sqrt(xs[i])
    y += s * s
    ~long
    with rg.routine() as short:
        q = xs[0] * xs[1]
    y += rg.sin(xs[0] - xs[1]) + q * q
    ~short


XS = [1.0 + i for i in range(12)]


def test_dear_bits_are_uncomputed_and_dear_instructions_spared() -> None:
    by_bits = rg.advise(two, 0.0, XS, tech=toll(1e-12, 1.0))
    assert {v.routine: v.erase for v in by_bits.verdicts}["long"] is False
    assert by_bits.options.erase is False
    by_steps = rg.advise(two, 0.0, XS, tech=toll(1.0, 1e-12))
    assert {v.routine: v.erase for v in by_steps.verdicts}["long"] is True
    assert by_steps.after.counts.retired < by_steps.before.counts.retired
    assert by_steps.after.counts.erased_bits > 0


@pytest.mark.parametrize(("count", "text"), [(0, "0 instructions,"), (1, "1 instruction,"), (2, "2 instructions,")])
def test_a_count_and_its_noun(count: int, text: str) -> None:
    advice = rg.advise(two, 0.0, XS, tech=toll(1.0, 1.0))
    verdict = replace(advice.verdicts[0], instructions=count, bits=1)
    assert text in str(replace(advice, verdicts=(verdict,)))


def test_the_crossover() -> None:
    """Uncompute iff N · E_instruction < E_bit · bits: on either side of where they are equal."""
    verdict = next(v for v in rg.advise(two, 0.0, XS, tech=toll(1.0, 1.0)).verdicts if v.routine == "long")
    assert verdict.bits > 0
    assert verdict.instructions > 0
    even = verdict.instructions / verdict.bits
    for bit, erase in ((even * 0.99, True), (even * 1.01, False)):
        found = rg.advise(two, 0.0, XS, tech=toll(1.0, bit))
        assert {v.routine: v.erase for v in found.verdicts}["long"] is erase


def ranged(instruction: tuple[float, float, float], bit: tuple[float, float, float]) -> Technology:
    """A toll of which both figures have a range."""
    model = toll(1.0, 1.0)
    prices = {"logic": instruction, "erasure": bit}
    charges = [
        replace(c, figures={"energy": replace(c.figures["energy"], written=Range(*prices[c.cause]))})
        for c in model.charges
    ]
    return replace(model, charges=tuple(charges))


def test_what_uncomputing_takes_has_the_ends_of_the_figures() -> None:
    """N · E_instruction at each end, also where it takes fewer instructions than erasing."""
    for low, value, high in ((1.0, 2.0, 5.0), (0.5, 0.5, 0.5)):
        advice = rg.advise(two, 0.0, XS, tech=ranged((low, value, high), (1.0, 1.0, 1.0)))
        assert [v.routine for v in advice.verdicts if v.bits] == ["long", "short", EXPRESSIONS]
        for v in advice.verdicts:
            ends = sorted(v.instructions * x for x in (low, value, high))
            assert v.energy == approx(Range(ends[0], v.instructions * value, ends[2]))


def test_less_by_the_same_ends() -> None:
    """A difference of prices is a range also where it is negative."""
    model = ranged((1.0, 2.0, 5.0), (1.0, 1.0, 1.0))
    short, long = (price(rg.energy(f, 0.0, [4.0]).counts, model) for f in (library.norm, two_roots))
    few, many = (sum(i.count for i in p.items if i.of == "instructions") for p in (short, long))
    assert few < many
    assert _uncomputing(long, short) == Range(1.0, 2.0, 5.0) * (many - few)
    assert _uncomputing(short, long) == Range(-5.0 * (many - few), -2.0 * (many - few), -1.0 * (many - few))


def test_a_verdict_that_hangs_on_the_range_is_not_certain() -> None:
    verdict = next(v for v in rg.advise(two, 0.0, XS, tech=toll(1.0, 1.0)).verdicts if v.routine == "long")
    even = verdict.instructions / verdict.bits
    for ends, certain, erase in (
        ((0.5, 0.9, 1.1), False, True), ((0.9, 1.1, 2.0), False, False), ((0.5, 0.7, 0.9), True, True), ((1.1, 1.5, 2.0), True, False),
    ):  # fmt: skip
        advice = rg.advise(two, 0.0, XS, tech=ranged((1.0, 1.0, 1.0), (even * ends[0], even * ends[1], even * ends[2])))
        found = next(v for v in advice.verdicts if v.routine == "long")
        assert (found.certain, found.erase, found.known) == (certain, erase, True)
        row = next(line for line in str(advice).splitlines() if line.startswith("long "))
        assert ("within the figures' ranges" in row) is not certain


@reversible
def two_roots(y: fixed, xs: Array[fixed, "n"]) -> None:
    y += rg.sqrt(rg.sqrt(xs[0]) + xs[0]) * rg.sqrt(xs[0] + 1)


def test_what_is_advised_is_what_is_compiled() -> None:
    advice = rg.advise(two, 0.0, XS, tech="cmos45")
    ran, plain = rg.run(advice.advised, 0.0, XS), rg.run(two, 0.0, XS)
    assert ran.words == plain.words
    assert ran.steps == advice.after.counts.retired
    assert ran.erased_bits == advice.after.counts.erased_bits
    after, before = advice.after.price.program, advice.before.price.program
    assert isinstance(after, Range)
    assert isinstance(before, Range)
    assert after.nominal <= before.nominal


@pytest.mark.parametrize("tech", ["landauer", "cmos45"])
@pytest.mark.parametrize("function", [library.norm, library.softmax])
def test_advice_is_never_the_dearer(tech: str, function: rg.Reversible) -> None:
    args = (0.0, [3.0, 4.0]) if function is library.norm else ([0.0, 0.0], [1.0, 2.0])
    advice = rg.advise(function, *args, tech=tech)
    after, before = advice.after.price.program, advice.before.price.program
    assert isinstance(after, Range)
    assert isinstance(before, Range)
    assert after.nominal <= before.nominal


def test_by_landauer_nothing_is_erased() -> None:
    advice = rg.advise(two, 0.0, XS)
    assert not any(v.erase for v in advice.verdicts)
    assert advice.advised.options.erase is False
    assert "erasing costs" in str(advice)


def test_expressions_are_one_item() -> None:
    @reversible
    def f(y: fixed, x: fixed) -> None:
        y += rg.sqrt(x * x + 1) * rg.sin(x)

    advice = rg.advise(f, 0.0, 0.5, tech=toll(1.0, 1e-9))
    assert [v.routine for v in advice.verdicts] == [EXPRESSIONS]
    assert advice.options.erase
    assert advice.options.temporaries


def test_without_a_figure_nothing_is_known() -> None:
    uncounted = two.with_options(format=rg.Format(64, 40))  # whose gates nobody has counted
    advice = rg.advise(uncounted, 0.0, XS, tech="aqfp")
    long = next(v for v in advice.verdicts if v.routine == "long")
    assert (long.erase, long.known) == (False, False)
    assert "not known" in str(advice)


def test_an_inverse_cannot_erase() -> None:
    with pytest.raises(InputError, match="RG0603"):
        rg.advise(~two, 0.0, XS)


def test_json() -> None:
    told = rg.advise(two, 0.0, XS, tech="cmos45").as_dict()
    assert told["schema"] == "retrograd.energy-advice/1"
    assert {r["routine"] for r in told["routines"]} >= {"long", "short"}


# ------------------------------------------------------------------ Bennett's scheme


@reversible
def logistic(y: fixed, x: fixed) -> None:
    y += 3.5 * x - 3.5 * x * x


@pytest.mark.parametrize(("k", "n", "calls", "states"), [(4, 4, 2401, 14), (2, 10, 59049, 12)])
def test_calls_and_states(k: int, n: int, calls: int, states: int) -> None:
    assert (bennett_calls(k, n), bennett_states(k, n)) == (calls, states)


@pytest.mark.parametrize(("k", "n"), [(2, 3), (3, 2), (4, 2)])
def test_states_that_are_live(k: int, n: int) -> None:
    """Seen by looking at every step: of all words of memory at most n(k − 1) + 2 are not zero, and so many are."""
    start = [0.3] + [0.0] * (bennett_states(k, n) - 1)
    values = bind(bennett, (logistic, k, n, start), {})
    compiled = bennett.compiled_for(types_of(bennett, values))
    machine = machine_for(compiled.program, "reference")
    machine.load(0, load(compiled, values).memory)
    most = 0

    def look(machine: rg.Machine, pc: int) -> None:
        nonlocal most
        most = max(most, sum(map(bool, machine.memory)))

    machine.run(observe=look)
    held = {sum(map(bool, machine.memory))}
    assert held == {2}
    assert bennett_states(k, n) - 1 <= most <= bennett_states(k, n)


@pytest.mark.parametrize(("k", "n", "even"), [(2, 4, 0.198), (2, 10, 0.0173), (4, 4, 0.107), (8, 3, 0.152)])
def test_erasing_wins_by_the_energy_of_both_runs(k: int, n: int, even: float) -> None:
    """The erasing run takes kⁿ steps, the scheme (2k − 1)ⁿ calls: (2k − 1)ⁿ·ξ > kⁿ."""
    assert break_even(k, n) == approx(bennett_steps(k, n) / bennett_calls(k, n)) == approx(even, rel=5e-3)
    assert erasing_wins(k, n, 1.001 * break_even(k, n))
    assert not erasing_wins(k, n, 0.999 * break_even(k, n))


@pytest.mark.parametrize(("k", "n"), [(2, 4), (2, 10), (4, 4), (8, 3)])
def test_one_unit_of_memory_is_another_criterion(k: int, n: int) -> None:
    """(2k − 1)ⁿ·ξ = 1: the calls of the whole scheme against one erasure. The run pays long before."""
    assert break_even_per_memory_unit(k, n) * bennett_calls(k, n) == approx(1)
    assert break_even_per_memory_unit(k, n) == approx(break_even(k, n) / bennett_steps(k, n))
    assert not erasing_wins(k, n, 2 * break_even_per_memory_unit(k, n))


@pytest.mark.parametrize(("k", "n"), [(2, 2), (2, 3), (4, 2)])
def test_the_criterion_is_that_of_runs(k: int, n: int) -> None:
    """Products of the step, which are all that the two runs multiply: their ratio is 1 / `break_even`."""
    start = [0.3] + [0.0] * (bennett_states(k, n) - 1)
    scheme = rg.energy(bennett, logistic, k, n, start, baseline=False).counts
    erasing = rg.energy(forgetting_chain, 0.0, 0.3, k**n, baseline=False).counts
    ratio = scheme.operations["multiplier"] / erasing.operations["multiplier"]
    assert ratio * break_even(k, n) == approx(1)
    assert scheme.erased_bits == 0 < erasing.erased_bits


def test_a_ledger_of_the_scheme() -> None:
    """The ancillas of the scheme are what grows with k and n, as the formula says; what one step takes is beside it."""
    peaks = {}
    for k, n in ((2, 2), (2, 4)):
        start = [0.3] + [0.0] * (bennett_states(k, n) - 1)
        values = bind(bennett, (logistic, k, n, start), {})
        compiled = bennett.compiled_for(types_of(bennett, values))
        machine = load(compiled, values, engine="reference")
        ledger = Ledger(machine)
        machine.run(observe=ledger)
        peaks[n] = ledger.peak_bits // 64
    assert peaks[4] - peaks[2] >= bennett_states(2, 4) - bennett_states(2, 2)
