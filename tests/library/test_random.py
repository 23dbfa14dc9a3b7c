"""Random numbers against published words and NumPy's generators; run back; the same on every engine and in batches."""

from __future__ import annotations

from math import factorial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import retrograd as rg
from retrograd import Array, fixed, reversible, uint
from retrograd.library import random
from retrograd.library.random import (
    PCG32,
    PCG64,
    Xoshiro256,
    bernoulli,
    dropout,
    integer,
    normal,
    permutation,
    philox,
    shuffle,
    uniform,
    word,
)

ALL = 2**64 - 1
WORDS = st.integers(0, ALL)
GENERATORS = {"pcg32": PCG32.seeded(42, 54), "pcg64": PCG64.seeded(42), "xoshiro256": Xoshiro256.seeded(42)}
each_generator = pytest.mark.parametrize("rng", list(GENERATORS.values()), ids=list(GENERATORS))


@reversible
def words(out: Array[uint, "n"], rng: Any):
    word.each(out, rng)


@reversible
def outputs(out: Array[uint, "n"], rng: PCG32):
    """The outputs of PCG32, of 32 bits."""
    for i in range(len(out)):
        rng.half(out[i])
        rng.step()


@reversible
def uniforms(us: Array[fixed, "n"], rng: Any):
    uniform.each(us, rng)


@reversible
def normals(a: Array[fixed, "n"], b: Array[fixed, "n"], rng: Any):
    normal.each(a, b, rng)


@reversible
def integers(ns: Array[uint, "n"], bound: uint, rng: Any):
    integer.each(ns, bound, rng)


@reversible
def mask(bs: Array[bool, "n"], p: fixed, rng: Any):
    bernoulli.each(bs, p, rng)


def empty(n: int) -> Any:
    return np.zeros(n, np.uint64)


# -----------------------------------------------------------------------------
# The published words.


def test_the_outputs_of_pcg32_are_those_of_its_demonstration():
    """pcg32-demo, seed 42, stream 54."""
    found = outputs(empty(6), PCG32.seeded(42, 54)).out.tolist()
    assert found == [0xA15C02B7, 0x7B47F409, 0xBA1D3330, 0x83D2F293, 0xBFA4784B, 0xCBED606E]
    pairs = words(empty(3), PCG32.seeded(42, 54)).out.tolist()
    assert pairs == [(a << 32) + b for a, b in zip(found[::2], found[1::2], strict=True)]


@pytest.mark.parametrize("seed", [0, 1, 42, 2**70])
def test_the_words_of_pcg64_are_those_of_numpy(seed):
    assert words(empty(50), PCG64.seeded(seed)).out.tolist() == np.random.PCG64(seed).random_raw(50).tolist()


def test_a_generator_of_numpy_goes_on_here():
    theirs = np.random.PCG64(7)
    np.random.Generator(theirs).random(10)
    assert words(empty(5), PCG64.seeded(theirs)).out.tolist() == theirs.random_raw(5).tolist()


def test_the_words_of_xoshiro256_are_those_of_its_reference_code():
    """From the state 1, 2, 3, 4, as rand_xoshiro lists them; the seed 42 goes through SplitMix64."""
    expected = [
        11520, 0, 1509978240, 1215971899390074240, 1216172134540287360, 607988272756665600, 16172922978634559625,
        8476171486693032832, 10595114339597558777, 2904607092377533576,
    ]  # fmt: skip
    assert words(empty(10), Xoshiro256(1, 2, 3, 4)).out.tolist() == expected
    assert words(empty(2), Xoshiro256.seeded(42)).out.tolist() == [1546998764402558742, 6990951692964543102]


#: Random123, kat_vectors: counter, key, words of philox4x64-10
KNOWN_ANSWERS = [
    ("0" * 16 + " " + "0" * 16 + " " + "0" * 16 + " " + "0" * 16, "0" * 16 + " " + "0" * 16,
     "16554d9eca36314c db20fe9d672d0fdc d7e772cee186176b 7e68b68aec7ba23b"),
    (" ".join(["f" * 16] * 4), " ".join(["f" * 16] * 2),
     "87b092c3013fe90b 438c3c67be8d0224 9cc7d7c69cd777b6 a09caebf594f0ba0"),
    ("243f6a8885a308d3 13198a2e03707344 a4093822299f31d0 082efa98ec4e6c89", "452821e638d01377 be5466cf34e90c6c",
     "a528f45403e61d95 38c72dbd566e9788 a5a1610e72fd18b5 57bd43b5e52b7fe6"),
]  # fmt: skip


@pytest.mark.parametrize(("counter", "key", "expected"), KNOWN_ANSWERS)
def test_philox_has_the_known_answers_of_random123(roundtrip, counter, key, expected):
    block, key, expected = ([int(h, 16) for h in text.split()] for text in (counter, key, expected))
    found = roundtrip(philox, block, key)
    assert found.block.tolist() == expected
    assert (~philox)(*found).block.tolist() == block


def number_of(words: list[int]) -> int:
    """NumPy takes one number; it would make floats of a list."""
    return sum(w << 64 * i for i, w in enumerate(words))


def philox_of_numpy(counter: list[int], key: list[int]) -> list[int]:
    """NumPy counts before its first block."""
    generator = np.random.Philox(counter=(number_of(counter) - 1) % 2**256, key=number_of(key))
    return generator.random_raw(4).tolist()


@settings(max_examples=25, deadline=None)
@given(st.lists(WORDS, min_size=4, max_size=4), st.lists(WORDS, min_size=2, max_size=2))
def test_philox_is_that_of_numpy(counter, key):
    assert philox(counter, key).block.tolist() == philox_of_numpy(counter, key)


@settings(max_examples=50, deadline=None)
@given(WORDS, WORDS, WORDS)
def test_the_upper_half_of_a_product(out, a, b):
    assert random.add_high(out, a, b).out == (out + (a * b >> 64)) & ALL


# -----------------------------------------------------------------------------
# There and back.


@each_generator
def test_every_draw_runs_back(roundtrip, rng):
    roundtrip(word, 5, rng)
    roundtrip(uniform, 0.25, rng)
    roundtrip(normal, 0.25, -1.5, rng)
    roundtrip(integer, 3, 6, rng)
    roundtrip(integer, 3, 2**63 + 1, rng)
    roundtrip(bernoulli, True, 0.5, rng)
    roundtrip(permutation, [0] * 5, rng)
    roundtrip(shuffle, [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], rng)
    roundtrip(dropout, [0.5] * 4, [1.0, 2.0, 3.0, 4.0], 0.25, rng)


@settings(max_examples=25, deadline=None)
@given(st.lists(WORDS, min_size=4, max_size=4), st.sampled_from([PCG64, Xoshiro256]))
def test_a_step_is_a_bijection(state, generator):
    rng = generator(*state)
    assert (~word)(*word(0, rng)) == (0, rng)
    assert word(*(~word)(0, rng)) == (0, rng)


@each_generator
def test_a_thousand_words_back_give_the_generator_again(rng):
    drawn = words(empty(1000), rng)
    assert len(set(drawn.out.tolist())) == 1000
    back = (~words)(*drawn)
    assert back.rng == rng
    assert not back.out.any()


@each_generator
def test_every_draw_takes_as_many_words_whatever_they_are(rng):
    """In particular integers of which half of the words are rejected."""
    after = words(empty(8), rng).rng
    assert uniforms(np.zeros(8), rng).rng == after
    assert normals(np.zeros(4), np.zeros(4), rng).rng == after
    assert integers(empty(8), 2**63 + 1, rng).rng == after
    assert mask([False] * 8, 0.5, rng).rng == after
    assert permutation([0] * 9, rng).rng == after
    assert dropout(np.zeros(8), np.ones(8), 0.5, rng).rng == after


# -----------------------------------------------------------------------------
# The numbers that are drawn.


@each_generator
def test_uniform_numbers_are_the_upper_bits_of_words(rng):
    expected = [int(w) >> 32 for w in words(empty(40), rng).out]
    assert [u * 2**32 for u in uniforms(np.zeros(40), rng).us.tolist()] == expected


@pytest.mark.parametrize(
    ("bits", "form"), [(1, "Q32.32"), (11, "Q32.32"), (48, "Q16.48"), (52, "Q12.52"), (16, "Q48.16")]
)
def test_uniform_numbers_of_other_formats(bits, form):
    rng = PCG64.seeded(5)
    assert (
        rg.run(uniform, 0.0, rng, bits, format=form).values.u
        == (np.random.PCG64(5).random_raw() >> 64 - bits) / 2**bits
    )


@pytest.mark.parametrize(("bits", "form"), [(33, "Q32.32"), (64, "Q32.32"), (32, "Q48.16")])
def test_a_unit_below_the_last_place_is_refused(bits, form):
    with pytest.raises(rg.RetrogradError, match="RG0804"):
        rg.run(uniform, 0.0, PCG64.seeded(5), bits, format=form)


@pytest.mark.parametrize("bits", [0, 65])
def test_a_word_has_64_bits(bits):
    with pytest.raises(rg.CompileError, match="bits are not taken from a word of 64"):
        uniform(0.0, PCG64.seeded(5), bits)


def test_a_part_that_does_not_fit_as_an_integer_is_refused():
    rng = Xoshiro256(0, ALL, 0, 0)
    with pytest.raises(rg.RetrogradError, match="RG0404"):
        rg.run(uniform, 0.0, rng, 32, format="Q8.56")


@pytest.mark.parametrize("rng", [PCG32(1, 1), PCG64(0, 1, 0, 1), Xoshiro256(1, 2, 3, 4)])
def test_words_of_other_widths_are_refused(rng):
    with pytest.raises(rg.RetrogradError, match="RG0714"):
        rg.run(word, 0, rng, format="Q16.16")
    with pytest.raises(rg.RetrogradError, match="RG0714"):
        rg.run(philox, [0] * 4, [0] * 2, format="Q16.16")


def test_normal_numbers_are_those_of_box_and_muller():
    u, v = (np.random.PCG64(3).random_raw(4000) >> np.uint64(32)).reshape(-1, 2).T / 2**32
    radius = np.sqrt(-2 * np.log1p(-u))
    found = normals(np.zeros(2000), np.zeros(2000), PCG64.seeded(3))
    np.testing.assert_allclose(found.a, radius * np.cos(2 * np.pi * v), rtol=0, atol=1e-8)
    np.testing.assert_allclose(found.b, radius * np.sin(2 * np.pi * v), rtol=0, atol=1e-8)
    assert stats.kstest(np.concatenate([found.a, found.b]), "norm").pvalue > 0.01


def below(bound: int, rng: PCG64) -> int:
    """`integer` in numbers of Python, its rejected words replaced by words of NumPy's Philox."""
    state = [rng.high, rng.low, rng.increment_high, rng.increment_low]
    w, tries = word(0, rng).out, 0
    while w * bound % 2**64 < 2**64 % bound:
        tries += 1
        w = philox_of_numpy(state, [tries, random.REPLACED])[0]
    return w * bound >> 64


@pytest.mark.parametrize("bound", [1, 2, 6, 10**9, 2**32, 2**63 - 1, 2**63 + 1, 3 * 2**62 - 1, ALL])
def test_integers_are_those_of_lemires_method(bound):
    rng = PCG64.seeded(bound)
    for _ in range(12):
        found = integer(0, bound, rng)
        assert found.n == below(bound, rng)
        rng = found.rng


def test_large_integers_are_those_of_numpy():
    """NumPy draws integers above 2³² by the same method; a word is rejected too seldom to occur here."""
    bound = 10**12
    expected = np.random.Generator(np.random.PCG64(9)).integers(0, bound, size=30)
    assert integers(empty(30), bound, PCG64.seeded(9)).ns.tolist() == expected.tolist()


def test_integers_below_a_bound_that_rejects_half_of_the_words_have_no_bias():
    """Thirds of the range of 3·2⁶² − 1: without rejection, two quarters of the words would fall upon one third."""
    bound = 3 * 2**62 - 1
    found = integers(empty(3000), bound, Xoshiro256.seeded(1)).ns
    counts = np.bincount([int(n) * 3 // bound for n in found], minlength=3)
    assert stats.chisquare(counts).pvalue > 0.01


def test_no_integer_is_below_zero():
    with pytest.raises(rg.RetrogradError, match="RG0804"):
        integer(0, 0, PCG32.seeded(1))


def test_permutations_have_equal_probabilities():
    many = [Xoshiro256.seeded(seed) for seed in range(2400)]
    found = rg.run_batch(permutation, np.zeros((2400, 4), int), many).values.p
    _, counts = np.unique(found, axis=0, return_counts=True)
    assert len(counts) == factorial(4)
    assert stats.chisquare(counts).pvalue > 0.01


@each_generator
def test_a_permutation_is_that_of_fisher_and_yates(rng):
    expected, at = list(range(20)), rng
    for i in range(19, 0, -1):
        drawn = integer(0, i + 1, at)
        expected[i], expected[drawn.n] = expected[drawn.n], expected[i]
        at = drawn.rng
    assert permutation([0] * 20, rng).p.tolist() == expected


@each_generator
def test_masks_and_dropout_are_comparisons_of_uniform_numbers(rng):
    us = uniforms(np.zeros(30), rng).us
    x = np.arange(30) / 4
    assert mask([False] * 30, 0.25, rng).bs.tolist() == (us < 0.25).tolist()
    np.testing.assert_allclose(dropout(np.zeros(30), x, 0.25, rng).y, np.where(us < 0.25, 0, x / 0.75), atol=1e-8)
    tie = float(us.min())
    assert not any(mask([False] * 30, tie, rng).bs)
    assert (dropout(np.zeros(30), x + 1, tie, rng).y > 0).all()


def test_dropout_in_a_format_of_fewer_places():
    x = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    found = rg.run(dropout, [0.0] * 6, x, 0.5, PCG64.seeded(1), 16, format="Q48.16").values.y
    assert found.tolist() == dropout([0.0] * 6, x, 0.5, PCG64.seeded(1)).y.tolist()
    with pytest.raises(rg.RetrogradError, match="RG0804"):
        rg.run(dropout, [0.0] * 6, x, 0.5, PCG64.seeded(1), format="Q48.16")


@reversible
def loss(s: fixed, x: Array[fixed, "n"], rate: fixed, rng: Xoshiro256):
    with rg.routine() as r:
        y = rg.zeros_like(x)
        dropout(y, x, rate, rng)
    s += rg.sum(y * y)
    ~r


def test_the_gradient_goes_through_the_same_mask():
    x, rng = np.arange(1.0, 9.0), Xoshiro256.seeded(3)
    kept = uniforms(np.zeros(8), rng).us >= 0.5
    assert 0 < kept.sum() < 8
    by_x, by_rate = rg.grad(loss, ("x", "rate"))(0.0, x, 0.5, rng)
    assert by_x.tolist() == np.where(kept, 8 * x, 0).tolist()
    assert by_rate == pytest.approx(16 * (x[kept] ** 2).sum(), abs=1e-6)


# -----------------------------------------------------------------------------
# One stream everywhere.


@reversible
def everything(us: Array[fixed, 3], z1: fixed, z2: fixed, n: uint, p: Array[int, 4], rng: Any):
    uniform.each(us, rng)
    normal(z1, z2, rng)
    integer(n, 2**63 + 1, rng)
    permutation(p, rng)


START: tuple[Any, ...] = (np.zeros(3), 0.0, 0.0, 0, np.zeros(4, int))


@each_generator
@pytest.mark.parametrize("engine", ["threaded", "native", "translated", "auto"])
def test_every_engine_has_the_stream_of_the_reference_machine(engine, rng):
    expected = rg.run(everything, *START, rng, engine="reference")
    found = rg.run(everything, *START, rng, engine=engine)
    assert found.words == expected.words
    assert found.steps == expected.steps


@pytest.mark.parametrize("generator", [PCG32, PCG64, Xoshiro256])
def test_a_batch_has_the_streams_of_its_elements(generator):
    rngs = [generator.seeded(seed) for seed in range(6)]
    batch = rg.run_batch(everything, *START, rngs, in_axes=(None,) * 5 + (0,))
    for i, rng in enumerate(rngs):
        alone = rg.run(everything, *START, rng).values
        assert batch.values.us[i].tolist() == alone.us.tolist()
        assert (batch.values.z1[i], batch.values.z2[i], batch.values.n[i]) == (alone.z1, alone.z2, alone.n)
        assert batch.values.p[i].tolist() == alone.p.tolist()
        assert batch.values.rng[i] == alone.rng
