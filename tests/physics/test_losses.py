"""Entropies of erasures: figures, sums that are exact, netlists against machines, mismatch."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from retrograd.isa.diagnostics import InputError

import retrograd as rg
from retrograd import Array, fixed, reversible
from retrograd.physics.entropy import Loss, divergence, mismatch


@reversible
def three_words(y: int, a: int, b: int) -> None:
    """Erases 6, 3 and 2 bits of 6, all of which are kept."""
    t = a * 8 + b
    u = a ^ 5
    v = b // 2
    y += t + u + v
    rg.erase(t)
    rg.erase(u)
    rg.erase(v)


@reversible
def low_bits(x: int) -> None:
    """x := x mod 8"""
    t = x & 7
    rg.swap(t, x)
    rg.erase(t)


@reversible
def sometimes(y: int, x: int) -> None:
    """Erases as many words as x has, each of its own value, and half of them never again."""
    for i in range(x & 3):
        t = x * i
        y += t
        rg.erase(t)
    if x > 4:
        u = x & 1
        rg.swap(u, y)
        rg.erase(u)


@reversible
def two_arguments(y: int, x: int) -> None:
    """Keeps y, and 3 bits of x."""
    t = x & 7
    rg.swap(t, x)
    rg.erase(t)


@reversible
def positive(y: int, x: int) -> None:
    """Traps for x ≤ 0; erases y."""
    u = rg.select(x > 0, 0, 1)
    rg.free(u, 0)
    t = x & 0
    rg.swap(t, y)
    rg.erase(t)


@reversible
def distance(out: fixed, x: Array[fixed, "n"]) -> None:  # type: ignore[valid-type]
    """Its routine is erased in erase mode."""
    with rg.routine() as r:
        square = rg.sum(x**2)
    out += rg.sqrt(square)
    ~r


def bits(loss: Loss) -> tuple[float | None, ...]:
    return tuple(found.bits for found in loss)


def test_the_figures_of_a_small_program() -> None:
    """Of 192 bits counted, the marginal entropies have the sum 11, the joint entropy is 6, and given the kept words 0."""
    found = rg.entropy(three_words, {"y": [0], "a": range(8), "b": range(8)})
    assert found.exact
    assert found.runs == 64
    assert bits(found.whole) == pytest.approx((192, 11, 6, 0), abs=1e-12)
    assert [bits(loss) for loss in found.erasures.values()] == [(64, 6, 6, 0), (64, 3, 3, 0), (64, 2, 2, 0)]
    assert [site.name for site in found.erasures] == ["t", "u", "v"]
    assert list(found.functions) == ["three_words"]
    first = min(line.line for line in found.lines)
    assert [line.line - first for line in found.lines] == [0, 1, 2]
    assert found.whole.capacity.bits == rg.energy(three_words, 0, 1, 2).counts.erased_bits


def test_bits_that_are_not_kept_are_lost() -> None:
    found = rg.entropy(low_bits, {"x": range(64)})
    assert bits(found.whole) == pytest.approx((64, 6, 6, 3), abs=1e-12)
    assert (found.inputs.bits, found.kept.bits) == pytest.approx((6, 3))
    assert found.joules == pytest.approx(2.87098e-21, rel=1e-5, abs=0)
    report = found.as_dict()
    assert report["whole"]["conditional"]["joules"] == pytest.approx(3 * found.joules, rel=1e-9, abs=0)


@settings(max_examples=12, deadline=None)
@given(st.lists(st.integers(0, 9), min_size=8, max_size=8).filter(any))
def test_a_run_loses_no_more_and_no_less_than_its_input(weights: list[int]) -> None:
    """capacity ≥ Σ marginal ≥ joint ≥ H(erased | kept) = H(input) − H(kept), whichever words a run erases."""
    p = {(7, x): w / sum(weights) for x, w in enumerate(weights)}
    for f in (sometimes, low_bits):
        inputs = p if f is sometimes else {x: q for (_, x), q in p.items()}
        found = rg.entropy(f, inputs)
        capacity, marginal, joint, given_kept = bits(found.whole)
        assert capacity is not None
        assert marginal is not None
        assert joint is not None
        assert given_kept is not None
        assert found.inputs.bits is not None
        assert found.kept.bits is not None
        assert found.inputs.bits == pytest.approx(-sum(q * math.log2(q) for q in p.values() if q))
        assert given_kept == pytest.approx(found.inputs.bits - found.kept.bits, abs=1e-9)
        assert capacity + 1e-9 >= marginal >= joint - 1e-9 >= given_kept - 2e-9
        runs = [(q, rg.run(f, *(x if isinstance(x, tuple) else (x,))).erased_bits) for x, q in inputs.items()]
        assert capacity == pytest.approx(sum(q * n for q, n in runs))


def test_each_occurrence_in_a_loop_is_an_erasure() -> None:
    """Each pass is an erasure, and the number of passes is a part of the information."""
    found = rg.entropy(sometimes, {"y": [0], "x": range(4)})
    (loss,) = found.erasures.values()
    assert loss.capacity.bits == 64 * 1.5
    # Not at all, or 0: 1 of 4 and 3 of 4. Not at all, or 2, or 3. Not at all, or 6: 3 of 4 and 1 of 4.
    quarter = 2 - 0.75 * math.log2(3)
    assert loss.marginal.bits == pytest.approx(quarter + 1.5 + quarter)
    assert loss.joint.bits == pytest.approx(2)


def test_erase_mode_erases() -> None:
    inputs = [(0.0, [3.0, float(k)]) for k in range(4)]
    assert rg.entropy(distance, inputs).whole.capacity.bits == 0
    found = rg.entropy(distance.with_options(erase=True), {(0.0, (3.0, float(k))): 0.25 for k in range(4)})
    assert found.whole.capacity.bits == rg.run(distance.with_options(erase=True), *inputs[0]).erased_bits > 0
    assert found.whole.joint.bits == pytest.approx(2)
    assert found.whole.conditional.bits == pytest.approx(0)


@pytest.mark.parametrize("f", [three_words, low_bits], ids=lambda f: f.__name__)
def test_garbage_of_a_netlist_is_the_erased_words(f: Any) -> None:
    """The erased words of runs on a machine, and the lines of garbage of the circuit, have the same entropies."""
    inputs: Any = {"y": [0], "a": range(8), "b": range(8)} if f is three_words else "words"
    machine = rg.entropy(f, inputs, format="Q4.4")
    circuit = rg.entropy(rg.netlist(f, format="Q4.4"), inputs)
    for found in (circuit, machine):
        assert found.exact
    assert circuit.whole.joint.bits == pytest.approx(machine.whole.joint.bits)
    assert circuit.whole.conditional.bits == pytest.approx(machine.whole.conditional.bits)
    assert circuit.kept.bits == pytest.approx(machine.kept.bits)
    marginal = circuit.whole.marginal.bits
    assert marginal is not None
    assert marginal >= (machine.whole.marginal.bits or 0) - 1e-9
    assert all(loss.capacity.bits == 1 for loss in circuit.erasures.values())


def test_the_four_forms_of_a_distribution_agree() -> None:
    by_probability = rg.entropy(low_bits, dict.fromkeys(range(16), 1 / 16))
    assert bits(rg.entropy(low_bits, {"x": range(16)}).whole) == pytest.approx(bits(by_probability.whole))
    sampled = rg.entropy(low_bits, list(range(16)) * 100)
    drawn = rg.entropy(low_bits, lambda rng: int(rng.integers(16)), samples=3000, seed=1)
    again = rg.entropy(low_bits, lambda rng: int(rng.integers(16)), samples=3000, seed=1)
    assert str(drawn) == str(again)
    for found in (sampled, drawn):
        assert not found.exact
        for estimate, exact in zip(found.whole, by_probability.whole, strict=True):
            assert estimate.bits is not None
            assert exact.bits is not None
            assert estimate.error is not None
            assert abs(estimate.bits - exact.bits) < 5 * estimate.error + 0.01


def test_words_beyond_enumeration() -> None:
    """61 bits of 64 are lost: the entropy of the input is known, and that of 8 kept words is estimated."""
    found = rg.entropy(low_bits, "words", samples=2000)
    assert not found.exact
    assert found.inputs == (64, 0)
    assert found.whole.conditional.bits == pytest.approx(61, abs=0.01)
    assert found.whole.joint.error is None
    assert found.whole.joint.bits == found.whole.conditional.bits
    (loss,) = found.erasures.values()
    assert (loss.conditional.bits, loss.joint.error) == (None, None)
    assert "≥" in str(found)
    assert "not known" in str(found)


def test_inputs_that_trap_are_left_out_on_request() -> None:
    @reversible
    def small_only(y: int, x: int) -> None:
        u = rg.select(x < 4, 0, 1)
        rg.free(u, 0)
        v = x & 1
        rg.swap(v, y)
        rg.erase(v)

    with pytest.raises(rg.ProgramTrap):
        rg.entropy(small_only, {"y": [0], "x": range(8)})
    found = rg.entropy(small_only, {"y": [0], "x": range(8)}, traps="condition")
    assert (found.runs, found.trapped, found.inputs.bits, found.whole.joint.bits) == (4, 0.5, 2, 0)
    found = rg.entropy(small_only, {"y": range(2), "x": range(8)}, traps="condition")
    assert (found.runs, found.trapped, found.inputs.bits, found.whole.joint.bits) == (8, 0.5, 3, 1)


def test_mismatch_of_a_function() -> None:
    """Against the definition, over 16 inputs of which pairs are joined."""
    p = {x: (x + 1) / 136 for x in range(16)}
    found = rg.entropy(low_bits, p, prior={"x": range(16)})
    joined = [p[k] + p[k + 8] for k in range(8)]
    expected = sum(q * math.log2(q * 16) for q in p.values()) - sum(q * math.log2(q * 8) for q in joined)
    assert found.mismatch == pytest.approx(expected)
    assert expected > 0
    assert (
        rg.entropy(
            three_words, {(0, 1, 2): 0.5, (0, 3, 4): 0.5}, prior={"y": [0], "a": range(8), "b": range(8)}
        ).mismatch
        == 0
    )


@given(st.lists(st.integers(0, 9), min_size=8, max_size=8).filter(any), st.integers(0, 7))
def test_uniform_local_erasure_is_entropy_and_mismatch(weights: list[int], constant: int) -> None:
    """W = H(p) + KL(p ‖ uniform); a bijection has no mismatch; joining states never has less than none."""
    p = {k: w / sum(weights) for k, w in enumerate(weights)}
    uniform = dict.fromkeys(range(8), 1 / 8)
    entropy = -sum(x * math.log2(x) for x in p.values() if x)
    assert entropy + mismatch(p, uniform, lambda k: 0) == pytest.approx(3)
    assert mismatch(p, uniform, lambda k: k ^ constant) == pytest.approx(0, abs=1e-12)
    assert mismatch(p, uniform, lambda k: {k: 0.5, constant: 0.5}) >= 0
    assert divergence(p, p) == 0


def test_mismatch_of_a_noisy_process() -> None:
    """A bit that is flipped with probability 1/4: (1, 0) becomes (3/4, 1/4), and the uniform prior stays uniform."""
    noise = {0: {0: 0.75, 1: 0.25}, 1: {0: 0.25, 1: 0.75}}
    found = mismatch({0: 1.0}, {0: 0.5, 1: 0.5}, noise.__getitem__)
    assert found == pytest.approx(1 - (0.75 * math.log2(1.5) + 0.25 * math.log2(0.5)))


@pytest.mark.parametrize(
    ("inputs", "code"),
    [
        ({0: 0.5}, "RG1601"), ({0: -1.0, 1: 2.0}, "RG1601"), ({0: "x"}, "RG1601"), ([], "RG1601"), ("word", "RG1601"), (7, "RG1601"),
        ({"x": []}, "RG1601"), ({"x": 3}, "RG1601"), ({"x": "word"}, "RG1601"), ({"z": [1]}, "RG1601"), ({}, "RG1601"),
        ({(1, 2): 1.0}, "RG0603"), ({"x": [1, 2.5]}, "RG0602"), ([1, 2.5], "RG0602"), ({0: math.nan}, "RG1601"),
    ],
)  # fmt: skip
def test_wrong_distributions(inputs: Any, code: str) -> None:
    with pytest.raises(InputError) as caught:
        rg.entropy(low_bits, inputs)
    assert caught.value.code == code


def test_a_long_range_is_drawn_from() -> None:
    found = rg.entropy(low_bits, {"x": range(-(1 << 40), 1 << 40)}, samples=500)
    assert (found.inputs.bits, found.exact, found.runs) == (41, False, 500)
    assert found.whole.conditional.bits == pytest.approx(38, abs=0.05)
    with pytest.raises(InputError) as caught:
        rg.entropy(low_bits, {"x": range(1 << 70)})
    assert caught.value.code == "RG1601"


def test_draws_reach_the_last_value() -> None:
    found = rg.entropy(two_arguments, {"y": [0, 8], "x": "words"}, samples=200)
    assert found.inputs.bits == 65
    assert found.kept.bits == pytest.approx(4, abs=0.1)


def test_inputs_that_trap_leave_an_unknown_input() -> None:
    """Half of the inputs trap, so that H(input) is not that of the distribution; of a prior, the others are weighed anew."""
    found = rg.entropy(positive, {"y": range(4), "x": range(-(1 << 20), 1 << 20)}, traps="condition", samples=300)
    assert 0.3 < found.trapped < 0.7
    assert found.inputs.error is None
    exact = rg.entropy(positive, {"y": [0], "x": [1, 2]}, prior={"y": [0], "x": range(-8, 9)}, traps="condition")
    assert exact.mismatch == pytest.approx(0, abs=1e-12)
    lossy = rg.entropy(positive, {"y": [0, 1], "x": [1]}, prior={"y": [0, 1, 2, 3], "x": [-1, 1]}, traps="condition")
    # KL(p ‖ q) = 1 bit, and both end in one state.
    assert lossy.mismatch == pytest.approx(1)


def test_inputs_of_several_types() -> None:
    for inputs in ([(0.0, [1.0]), (0.0, [1.0, 2.0])], {"out": [0.0], "x": [[1.0], [1.0, 2.0]]}):
        with pytest.raises(InputError) as caught:
            rg.entropy(distance, inputs)
        assert caught.value.code == "RG1601"
    with pytest.raises(InputError) as caught:
        rg.entropy(distance, "words")
    assert caught.value.code == "RG1601"


def test_wrong_requests() -> None:
    for how, code in (
        ({"prior": {0: 1.0}}, "RG1602"), ({"prior": [0, 1]}, "RG1602"), ({"temperature": 0}, "RG0507"), ({"samples": 0}, "RG1601"),
        ({"temperature": "3 m"}, "RG1105"),
    ):  # fmt: skip
        with pytest.raises(InputError) as caught:
            rg.entropy(low_bits, {"x": range(4)}, **how)  # type: ignore[arg-type]
        assert caught.value.code == code
    with pytest.raises(ValueError, match="traps is"):
        rg.entropy(low_bits, {"x": range(4)}, traps="return")  # type: ignore[arg-type]
    many = dict.fromkeys(itertools.islice(itertools.count(), (1 << 16) + 1), 1 / ((1 << 16) + 1))
    with pytest.raises(InputError):
        rg.entropy(low_bits, many)
