"""Estimates from samples: against the formulas written out, against exact entropies, and their errors."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrograd.physics import entropy
from retrograd.physics.entropy import conditional, entropy_of, labels, numbered, total


@cache
def unseen(n: int, a: Fraction) -> float:
    """Σ_{j ≥ 1} (1 − a)ʲ / (n − 1 + j), to the last place."""
    total, power, j = 0.0, 1.0, 0
    while power > 1e-18:
        j, power = j + 1, power * float(1 - a)
        total += power / (n - 1 + j)
    return total


def chao_wang_jost(samples: list[int]) -> float:
    """The formula of the paper, value by value, in bits."""
    n, counts = len(samples), Counter(samples)
    once, twice = (sum(1 for count in counts.values() if count == k) for k in (1, 2))
    nats = sum(x / n * sum(1 / k for k in range(x, n)) for x in counts.values())
    a = Fraction(1)
    if twice:
        a = Fraction(2 * twice, (n - 1) * once + 2 * twice)
    elif once:
        a = Fraction(2, (n - 1) * (once - 1) + 2)
    if a != 1:
        nats += once / n * unseen(n, a)
    return nats / math.log(2)


@given(st.lists(st.integers(0, 4), min_size=10, max_size=30))
def test_estimate_and_error_are_those_of_the_formulas(samples: list[int]) -> None:
    found = entropy_of(numbered(samples), None)
    assert found.covered
    assert found.bits == pytest.approx(chao_wang_jost(samples), abs=1e-12)
    without = [chao_wang_jost(samples[:i] + samples[i + 1 :]) for i in range(len(samples))]
    n, mean = len(samples), math.fsum(without) / len(samples)
    jackknife = math.sqrt((n - 1) / n * sum((x - mean) ** 2 for x in without))
    assert total([found]).error == pytest.approx(jackknife, abs=1e-9)


def partitions(n: int, most: int) -> Iterator[list[int]]:
    """The ways to write n as a sum of numbers up to `most`."""
    if not n:
        yield []
    for first in range(min(n, most), 0, -1):
        yield from ([first, *rest] for rest in partitions(n - first, first))


@pytest.mark.parametrize("n", range(1, 13))
def test_few_samples(n: int) -> None:
    """All numbers of occurrences that n samples can have: also those in which each unseen value has the share 0 (A = 1)."""
    for counts in partitions(n, n):
        samples = [k for k, count in enumerate(counts) for _ in range(count)]
        numbers, of_counts = np.unique(counts, return_counts=True)
        found = entropy.chao_wang_jost(numbers, of_counts)
        assert found == pytest.approx(chao_wang_jost(samples), rel=1e-9, abs=1e-12), counts


@pytest.mark.parametrize(
    ("counts", "bits"),
    [
        ([4, 2, 3, 2, 4, 2, 1, 1], 3.16976841374791), ([1, 1, 1, 5, 9], 2.0646992386685445), ([10, 20, 30], 1.4835265606239332),
        ([1, 1, 2, 2, 2, 40], 1.1240146280746648), ([50, 1, 3], 0.47055834710877387),
    ],
)  # fmt: skip
def test_estimates_of_another_program(counts: list[int], bits: float) -> None:
    """The figures are those of the package infomeasure 0.6.3."""
    samples = [k for k, count in enumerate(counts) for _ in range(count)]
    assert entropy_of(numbered(samples), None).bits == pytest.approx(bits, rel=1e-12)


def test_estimates_lie_about_the_entropy() -> None:
    """Over 40 draws the mean is near the entropy, though 400 samples are few for 256 values; the errors have the size of the scatter."""
    rng = np.random.default_rng(3)
    p = np.arange(1, 257.0)
    p /= p.sum()
    exact = -float(p @ np.log2(p))
    found = [total([entropy_of(rng.choice(256, 400, p=p), None)]) for _ in range(40)]
    values = np.array([estimate.bits for estimate in found], float)
    errors = np.array([estimate.error for estimate in found], float)
    assert abs(values.mean() - exact) < 0.03
    assert 0.5 < values.std() / errors.mean() < 2
    plug_in = -sum(q * math.log2(q) for q in np.bincount(rng.choice(256, 400, p=p)) / 400 if q)
    assert exact - plug_in > 0.2


def test_too_few_samples_give_a_lower_bound() -> None:
    found = entropy_of(np.arange(1000), None)
    assert not found.covered
    estimate = total([found, found])
    assert estimate.bits == pytest.approx(2 * math.log2(1000))
    assert estimate.error is None
    assert conditional(found, found).bits is None


def test_conditional_entropy_of_samples() -> None:
    """H(noise | value) where the noise depends on the value; the errors of the difference have the size of its scatter."""
    rng = np.random.default_rng(5)
    exact = sum(-p * math.log2(p) - (1 - p) * math.log2(1 - p) for p in np.arange(1, 17) / 33) / 16
    found = []
    for _ in range(30):
        value = rng.integers(0, 16, 1000)
        noise = rng.random(1000) < (value + 1) / 33
        pair = entropy_of(labels([value, noise], 1000), None)
        found.append(conditional(pair, entropy_of(value, None)))
    values = np.array([estimate.bits for estimate in found], float)
    errors = np.array([estimate.error for estimate in found], float)
    assert abs(values.mean() - exact) < 0.02
    assert 0.5 < values.std() / errors.mean() < 2


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 1)), min_size=12, max_size=30))
def test_error_of_a_difference(samples: list[tuple[int, int]]) -> None:
    """The jackknife of the difference, sample by sample."""
    pair = entropy_of(numbered(samples), None)
    found = conditional(pair, entropy_of(numbered(value for value, _ in samples), None))
    codes = [value * 2 + noise for value, noise in samples]
    without = [
        chao_wang_jost(codes[:i] + codes[i + 1 :]) - chao_wang_jost([code // 2 for code in codes[:i] + codes[i + 1 :]])
        for i in range(len(codes))
    ]
    n = len(codes)
    assert found.error == pytest.approx(math.sqrt((n - 1) * float(np.var(without))), abs=1e-9)


def test_rare_values_among_many_samples() -> None:
    """Few values are drawn once, and some more twice: the share of the others is small, and exact."""
    samples = [*range(3), *(k for k in range(10, 40) for _ in range(2)), *[99] * 200]
    assert entropy_of(numbered(samples), None).bits == pytest.approx(chao_wang_jost(samples), rel=1e-12)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 1 << 64), st.integers(0, 2)), min_size=1, max_size=40))
def test_labels_are_equal_for_equal_rows_only(rows: list[tuple[int, int, int]]) -> None:
    columns = [np.array(column, object) for column in zip(*rows, strict=True)]
    code = labels(columns, len(rows))
    assert len(set(zip(code.tolist(), rows, strict=True))) == len(set(rows)) == len(set(code.tolist()))
