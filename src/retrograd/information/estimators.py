"""Entropies in bits: exact from probabilities, estimated from samples.

H(X) = −Σ p log₂ p;  H(X, Y) of pairs;  H(X | Y) = H(X, Y) − H(Y)

From n samples, of which fₖ values occur k times, the entropy is estimated by A. Chao, Y. T. Wang and L. Jost (Methods Ecol. Evol. 4, 1091,
2013), in nats

    Ĥ = Σ x/n · (1/x + … + 1/(n − 1)) + f₁/n · Σ_{j ≥ 1} (1 − A)ʲ / (n − 1 + j),   A = 2f₂ / ((n − 1)f₁ + 2f₂)

The first sum, over the numbers of occurrences x, is the part of the values that were drawn; the second is that of the others. The standard
error is that of the jackknife, which leaves out one sample at a time (B. Efron, C. Stein, Ann. Stat. 9, 586, 1981).
Trap: 1 − f₁/n is the coverage by Good and Turing. Below 1/2 no estimator can be relied on. The entropy of the sample itself is then given
as a lower bound: its expectation is at most the entropy, because −p log p is concave.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

#: the least share of the distribution that the values seen must cover
LEAST_COVERAGE = 0.5


class Estimate(NamedTuple):
    """A number of bits, and its standard error: 0 where it is exact."""

    #: None: the samples do not suffice
    bits: float | None
    #: None: `bits` is a lower bound, from too few samples
    error: float | None = 0.0

    def __str__(self) -> str:
        if self.bits is None:
            return "not known"
        if self.error is None:
            return f"≥ {self.bits:.4f}"
        return f"{self.bits:.4f} ± {self.error:.2g}" if self.error else f"{self.bits:.4f}"

    def as_dict(self, joules: float) -> dict[str, float | None]:
        """For JSON, with the energy at this many joules for a bit."""
        return {"bits": self.bits, "error": self.error, "joules": None if self.bits is None else self.bits * joules}


class Term(NamedTuple):
    """An entropy, as a part of sums."""

    bits: float
    #: row -> the estimate without it; None: exact
    without: NDArray[np.float64] | None = None
    #: whether the coverage suffices
    covered: bool = True


def labels(columns: Sequence[NDArray[Any]], rows: int) -> NDArray[np.int64]:
    """A number for each row, the same where the rows of all columns agree."""
    code = np.zeros(rows, np.int64)
    for column in columns:
        _, inverse = np.unique(column, return_inverse=True)
        if inverse.any():
            code = np.unique(code * (int(inverse.max()) + 1) + inverse, return_inverse=True)[1]
    return code


def numbered(values: Iterable[Any]) -> NDArray[np.int64]:
    """Values of any kind as numbers, the same for equal values."""
    known: dict[Any, int] = {}
    return np.array([known.setdefault(value, len(known)) for value in values], np.int64)


def entropy_of(code: NDArray[np.int64], probabilities: NDArray[np.float64] | None) -> Term:
    """The entropy of the labels of rows: exact with the probabilities of the rows, else estimated from rows as samples."""
    if probabilities is not None:
        return Term(of_probabilities(np.bincount(code, weights=probabilities)))
    counts = np.bincount(code)
    numbers, of_counts = np.unique(counts[counts > 0], return_counts=True)
    if _coverage(numbers, of_counts) < LEAST_COVERAGE:
        return Term(of_probabilities(counts / len(code)), None, False)
    without = np.zeros(int(numbers[-1]) + 1)
    for count in numbers:
        without[count] = _without_one(numbers, of_counts, int(count))
    return Term(chao_wang_jost(numbers, of_counts), without[counts[code]])


def of_probabilities(p: Iterable[float]) -> float:
    """−Σ p log₂ p."""
    return max(0.0, -math.fsum(x * math.log2(x) for x in map(float, p) if x > 0))


def chao_wang_jost(numbers: NDArray[Any], of_counts: NDArray[Any]) -> float:
    """The estimate in bits, from the numbers of occurrences and how many values occur so often."""
    n = int(numbers @ of_counts)
    harmonic = np.concatenate([[0.0], np.cumsum(1 / np.arange(1, n))])
    nats = float(of_counts @ (numbers / n * (harmonic[n - 1] - harmonic[numbers - 1])))
    once, twice = (int(of_counts[numbers == k].sum()) for k in (1, 2))
    if once:
        nats += (
            once / n * _unseen(n, 2 * twice / ((n - 1) * once + 2 * twice) if twice else 2 / ((n - 1) * (once - 1) + 2))
        )
    return nats / math.log(2)


def _unseen(n: int, a: float) -> float:
    """Σ_{j ≥ 1} (1 − a)ʲ / (n − 1 + j) = (1 − a)^(1 − n) · (−log a − Σ_{r < n} (1 − a)ʳ / r)."""
    if a == 1:
        return 0.0
    if a * n < 5:  # the sum would be long, and the closed form loses few digits
        r = np.arange(1, n)
        return float((1 - a) ** (1 - n) * (-math.log(a) - math.fsum((1 - a) ** r / r)))
    j = np.arange(1, math.ceil(40 / a) + 1)
    return math.fsum((1 - a) ** j / (n - 1 + j))


def _coverage(numbers: NDArray[Any], of_counts: NDArray[Any]) -> float:
    """1 − f₁/n."""
    return 1 - int(of_counts[numbers == 1].sum()) / int(numbers @ of_counts)


def _without_one(numbers: NDArray[Any], of_counts: NDArray[Any], count: int) -> float:
    """The estimate without one of the samples whose value occurs `count` times."""
    left = dict(zip(numbers.tolist(), of_counts.tolist(), strict=True))
    left[count] -= 1
    if count > 1:
        left[count - 1] = left.get(count - 1, 0) + 1
    kept = sorted((number, times) for number, times in left.items() if times)
    if not kept:
        return 0.0
    return chao_wang_jost(*np.array(kept).T)


def total(terms: Sequence[Term]) -> Estimate:
    """Σ of entropies; a lower bound where the samples do not suffice for each."""
    bits = math.fsum(term.bits for term in terms)
    if not all(term.covered for term in terms):
        return Estimate(bits, None)
    return Estimate(bits, _jackknife([term.without for term in terms], [1] * len(terms)))


def conditional(pair: Term, given: Term) -> Estimate:
    """H(X | Y) of H(X, Y) and H(Y), at least 0; not known where the samples do not suffice."""
    if not (pair.covered and given.covered):
        return Estimate(None, None)
    return Estimate(max(0.0, pair.bits - given.bits), _jackknife([pair.without, given.without], [1, -1]))


def mean(values: NDArray[np.float64], probabilities: NDArray[np.float64] | None) -> Estimate:
    """The expectation of a number of bits."""
    if probabilities is not None:
        return Estimate(math.fsum(values * probabilities))
    n = len(values)
    return Estimate(float(values.mean()), float(values.std(ddof=1)) / math.sqrt(n) if n > 1 else None)


def _jackknife(without: Sequence[NDArray[np.float64] | None], signs: Sequence[int]) -> float:
    """√((n − 1)/n · Σ (θᵢ − θ̄)²) of θᵢ, the estimate without row i."""
    values: Any = sum(sign * column for sign, column in zip(signs, without, strict=True) if column is not None)
    if not isinstance(values, np.ndarray):
        return 0.0
    return math.sqrt((len(values) - 1) * float(values.var()))
