"""Moments and densities against NumPy and SciPy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

import retrograd as rg
from retrograd import Array, fixed, reversible
from retrograd.library import (
    box_muller,
    correlation,
    covariance,
    cross_entropy,
    largest,
    logsumexp,
    mean,
    normal_loglikelihood,
    normal_logpdf,
    relu,
    softmax,
    variance,
)
from retrograd.testing import check_gradient

rng = np.random.default_rng(5)
X, Y = rng.normal(size=(2, 6)) * 3


def near(expected):
    return pytest.approx(expected, abs=1e-7)


def test_moments(roundtrip):
    assert roundtrip(mean, 0.0, X).out == near(X.mean())
    for ddof in (0, 1):
        assert roundtrip(variance, 0.0, X, ddof).out == near(X.var(ddof=ddof))
        assert roundtrip(covariance, 0.0, X, Y, ddof).out == near(np.cov(X, Y, ddof=ddof)[0, 1])


def test_correlation(roundtrip):
    assert roundtrip(correlation, 0.5, X, Y).out == near(0.5 + np.corrcoef(X, Y)[0, 1])
    assert correlation(0.0, X, -2 * X).out == near(-1)
    check_gradient(correlation, 0.0, X, Y)
    with pytest.raises(rg.ProgramTrap, match="RG0402"):
        correlation(0.0, [1.0, 1.0], [1.0, 2.0])


def test_variance_with_a_large_mean(roundtrip):
    assert roundtrip(variance, 0.0, X + 1e6).out == near(X.var())


@pytest.mark.parametrize("shift", [0.0, 900.0, -900.0])
def test_softmax_and_its_logarithm(roundtrip, shift):
    x = X + shift
    assert roundtrip(largest, 0.0, x).out == near(x.max())
    assert roundtrip(logsumexp, 0.0, x).out == near(special.logsumexp(x))
    np.testing.assert_allclose(roundtrip(softmax, np.zeros(6), x).out, special.softmax(x), atol=1e-8)


def test_cross_entropy(roundtrip):
    p = special.softmax(Y)
    assert roundtrip(cross_entropy, 0.0, X, p).out == near(-p @ special.log_softmax(X))


def test_one_element(roundtrip):
    assert roundtrip(largest, 0.0, [-3.0]).out == -3
    assert roundtrip(logsumexp, 0.0, [-3.0]).out == near(-3)
    assert roundtrip(mean, 0.0, [-3.0]).out == near(-3)


@pytest.mark.parametrize("x", [-1.5, 0.0, 2.0])
def test_relu(roundtrip, x):
    assert roundtrip(relu, 1.0, x).out == 1 + max(x, 0)


@reversible
def all_logpdf(out: Array[fixed, "n"], x: Array[fixed, "n"], centre: fixed, deviation: fixed):
    normal_logpdf.each(out, x, centre, deviation)


def test_normal(roundtrip):
    from scipy import stats  # here: importing it takes a second, of every worker

    expected = stats.norm.logpdf(X, 0.3, 1.7)
    assert roundtrip(normal_logpdf, 0.0, X[0], 0.3, 1.7).out == near(expected[0])
    np.testing.assert_allclose(roundtrip(all_logpdf, np.zeros(6), X, 0.3, 1.7).out, expected, atol=1e-7)
    assert roundtrip(normal_loglikelihood, 0.0, X, 0.3, 1.7).out == pytest.approx(expected.sum(), abs=1e-6)


def test_normal_wants_a_positive_deviation():
    with pytest.raises(rg.ProgramTrap):
        normal_logpdf(0.0, 1.0, 0.0, -1.0)


@pytest.mark.parametrize(("u1", "u2"), [(0.5, 0.125), (1.0, 0.3), (1e-6, 0.9)])
def test_box_muller(roundtrip, u1, u2):
    found = roundtrip(box_muller, 0.0, 0.0, u1, u2)
    radius = np.sqrt(-2 * np.log(u1))
    assert found.z1 == pytest.approx(radius * np.cos(2 * np.pi * u2), abs=1e-4)
    assert found.z2 == pytest.approx(radius * np.sin(2 * np.pi * u2), abs=1e-4)
