"""The log-likelihood of a Gaussian mixture, with a Wishart prior on its covariances.

    L = Σₓ ln Σⱼ exp(αⱼ + Σ qⱼ − |Qⱼ (x − μⱼ)|² / 2)  −  n ln Σⱼ exp αⱼ  −  n d ln(2π) / 2
        + Σⱼ (γ²/2 (|exp qⱼ|² + |lⱼ|²) − m Σ qⱼ)  −  k C(d, γ, m)

for n points x of d numbers and k components with weights αⱼ (unnormalised, in logarithms), means μⱼ, and inverse covariance
factors Qⱼ: lower triangular, the logarithms qⱼ of the diagonal first, then the part lⱼ below it, column by column. The
definition and the files of data are those of ADBench (microsoft/ADBench, gmm.h).

Each point needs k quadratic forms, their maximum, so that no exponential is out of range, and the logarithm of a sum. These are
computed, added to `out` and uncomputed before the next point. The memory therefore does not grow with n, and no garbage is
left.

A maximum loses the smaller number. `logsumexp` of the library keeps the maxima of the first 1, 2, … k terms. Each is computed
from two known numbers, and can be uncomputed.

    python -m retrograd.examples.gmm [file]
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import retrograd as rg
from retrograd import Array, fixed, reversible
from retrograd.library.statistics import logsumexp

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Reals = NDArray[np.float64]

DATA = Path(__file__).parent / "data" / "gmm"


@rg.pure
def columns(d: int) -> list[tuple[int, int, int]]:
    """(i, first, last + 1): the range in lⱼ of the part of column i below the diagonal."""
    starts = np.cumsum([0, *range(d - 1, 0, -1)]).tolist()
    return [(i, starts[i], starts[i + 1]) for i in range(d - 1)]


@rg.pure
def wishart_constant(d: int, gamma: float, m: int) -> float:
    """C = N d (ln γ − ln 2 / 2) − ln Γ_d(N/2), N = d + m + 1, with the multivariate gamma function Γ_d."""
    n = d + m + 1
    log_gamma = 0.25 * d * (d - 1) * math.log(math.pi) + sum(math.lgamma(0.5 * (n - i)) for i in range(d))
    return n * d * (math.log(gamma) - 0.5 * math.log(2)) - log_gamma


@reversible
def whiten(
    y: Array[fixed, "d"],
    x: Array[fixed, "d"],
    mean: Array[fixed, "d"],
    scale: Array[fixed, "d"],
    lower: Array[fixed, "l"],
) -> None:
    """y += Q (x − mean), with Q's diagonal in `scale`, the part below it in `lower`, column by column. Inverse: −=."""
    with rg.routine() as r:
        z = x - mean
    y += scale * z
    for i, first, end in columns(len(x)):
        y[i + 1 :] += lower[first:end] * z[i]
    ~r


@reversible
def log_likelihood(
    out: fixed,
    means: Array[fixed, "k", "d"],
    scales: Array[fixed, "k", "d"],
    lower: Array[fixed, "k", "l"],
    offsets: Array[fixed, "k"],
    x: Array[fixed, "n", "d"],
) -> None:
    """out += Σₓ ln Σⱼ exp(offsetsⱼ − |Qⱼ (x − μⱼ)|² / 2), where `scales` and `lower` make up Q. Inverse: −=."""
    for i in range(len(x)):
        with rg.routine() as r:
            terms = rg.zeros_like(offsets)
            y = rg.zeros_like(means)
            for j in range(len(offsets)):
                whiten(y[j], x[i], means[j], scales[j], lower[j])
                terms[j] += offsets[j] - rg.sum(y[j] * y[j]) / 2
        logsumexp(out, terms)
        ~r


@reversible
def gmm_objective(
    out: fixed,
    alphas: Array[fixed, "k"],
    means: Array[fixed, "k", "d"],
    icf: Array[fixed, "k", "l"],
    x: Array[fixed, "n", "d"],
    gamma: rg.static = 1.0,
    m: rg.static = 0,
) -> None:
    """out += L. Inverse: −=. Error: 10⁻⁶ for a thousand points in ten dimensions, a last place for each summand.

    Gradient: 10⁻⁸ of the largest.
    """
    n, d = x.shape
    k = len(alphas)
    with rg.routine() as r:
        scales = rg.exp(icf[:, :d])
        offsets = rg.zeros_like(alphas)
        for j in range(k):
            offsets[j] += alphas[j] + rg.sum(icf[j, :d])
        normalisation = fixed(0)
        logsumexp(normalisation, alphas)
    lower = icf[:, d:]
    log_likelihood(out, means, scales, lower, offsets, x)
    out -= n * normalisation + n * d * 0.5 * math.log(2 * math.pi)
    out += 0.5 * gamma**2 * (rg.sum(scales * scales) + rg.sum(lower * lower)) - m * rg.sum(icf[:, :d])
    out -= k * wishart_constant(d, gamma, m)
    ~r


# ---------------------------------------------------------------------- data, and the same in floating point


@dataclass(frozen=True)
class Mixture:
    """alphas (k), means (k × d), icf (k × d(d+1)/2), points x (n × d), and the prior's γ and m."""

    alphas: Reals
    means: Reals
    icf: Reals
    x: Reals
    gamma: float
    m: int

    @property
    def arguments(self) -> tuple[Reals, Reals, Reals, Reals, float, int]:
        """The arguments of `gmm_objective`."""
        return self.alphas, self.means, self.icf, self.x, self.gamma, self.m


def read(path: Path, limit: int | None = None) -> Mixture:
    """A file of ADBench: `d k n`, alphas, means, icf, points, `γ m`; the first `limit` points only."""
    numbers = path.read_text(encoding="utf-8").split()
    d, k, n = map(int, numbers[:3])
    values = np.array(numbers[3:-2], dtype=np.float64)
    size = d * (d + 1) // 2
    alphas, means, icf, x = np.split(values, np.cumsum([k, k * d, k * size]))
    x = x.reshape(-1, d)[: n if limit is None else limit]
    return Mixture(alphas, means.reshape(k, d), icf.reshape(k, size), x, float(numbers[-2]), int(numbers[-1]))


def reference(alphas: Reals, means: Reals, icf: Reals, x: Reals, gamma: float = 1.0, m: int = 0) -> float:
    """L in floating point."""
    n, d = x.shape
    k = len(alphas)
    q, lower = icf[:, :d], icf[:, d:]
    factors = np.zeros((k, d, d))
    for i, first, end in columns(d):
        factors[:, i + 1 :, i] = lower[:, first:end]
    factors[:, range(d), range(d)] = np.exp(q)
    y = np.einsum("jab,njb->nja", factors, x[:, None] - means)
    terms = alphas + q.sum(axis=1) - 0.5 * (y**2).sum(axis=-1)
    largest = terms.max(axis=1)
    likelihood = np.sum(np.log(np.exp(terms - largest[:, None]).sum(axis=1)) + largest)
    normalisation = np.log(np.exp(alphas - alphas.max()).sum()) + alphas.max()
    prior = 0.5 * gamma**2 * (np.exp(2 * q).sum() + (lower**2).sum()) - m * q.sum() - k * wishart_constant(d, gamma, m)
    return float(likelihood - n * normalisation - 0.5 * n * d * np.log(2 * np.pi) + prior)


def main() -> None:
    """Print L of a file, forward and back."""
    mixture = read(Path(sys.argv[1]) if len(sys.argv) > 1 else DATA / "test.txt")
    after = gmm_objective(0.0, *mixture.arguments)
    exact = reference(*mixture.arguments)
    print(
        f"{len(mixture.x)} points, {len(mixture.alphas)} components: L = {after.out:.9f}, error {after.out - exact:+.1e}"
    )
    before = (~gmm_objective)(*after)
    print(f"backward: L = {before.out}")


if __name__ == "__main__":
    main()
