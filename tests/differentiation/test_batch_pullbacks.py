"""Pullbacks of a batch: each element has the bits of its own `vjp`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import retrograd as rg
from retrograd import Array, fixed, lognum, reversible
from retrograd.derivatives._arguments import differentiable
from retrograd.derivatives._gradients import batch_pullback
from retrograd.runtime._batch_runs import ElementTrap
from retrograd.runtime._binding import FurtherArguments


@reversible
def mixed(y: fixed, p, x: Array[fixed, 2], n: int):
    for i in range(2):
        y += p["w"][i] * x[i] * x[i] * n
    y += p["b"] * p["b"]
    x[1] += y
    n += 1


@reversible
def logs(u: lognum, v: lognum, z: complex, w: complex):
    u *= v * v
    z += w * w


@reversible
def several(y: fixed, x: fixed, *cs: fixed):
    for k, c in enumerate(cs):
        y += c * x ** (k + 1)


@reversible
def steep(y: fixed, x: fixed):
    y += rg.exp(x)


def rows(shape: tuple[int, ...], seed: int) -> Any:
    return np.random.default_rng(seed).uniform(0.5, 2, shape)


def own(f: Any, args: list[Any], cotangents: list[Any], **settings: Any) -> Any:
    return rg.vjp(f, *args, **settings)[1](cotangents)._asdict()


@pytest.mark.parametrize("scale", ["auto", 3])
@pytest.mark.parametrize("inverse", [False, True])
def test_each_element_has_its_own_bits(scale: Any, inverse: bool) -> None:
    f = ~mixed if inverse else mixed
    p = np.empty(5, dtype=object)
    p[:] = [{"w": w, "b": float(b)} for w, b in zip(rows((5, 2), 1), rows((5,), 2), strict=True)]
    x, n, ybar, xbar = rows((5, 2), 3), np.arange(5), rows((5,), 4), rows((5, 2), 5)
    found = batch_pullback(
        differentiable(f, scale), [0.25, p, x, n], (None, 0, 0, 0), [ybar, None, xbar, None]
    )._asdict()
    for i in range(5):
        wanted = own(f, [0.25, p[i], x[i], int(n[i])], [ybar[i], None, xbar[i], None], scale=scale)
        assert found.keys() == wanted.keys()
        assert found["y"][i] == wanted["y"]
        assert np.array_equal(found["x"][i], wanted["x"])
        assert found["p"][i]["b"] == wanted["p"]["b"]
        assert np.array_equal(found["p"][i]["w"], wanted["p"]["w"])


def test_lognums_and_complex_numbers() -> None:
    u, v, w, ubar = rows((4,), 1), rows((4,), 2), rows((4,), 3) + 1j * rows((4,), 4), rows((4,), 5)
    zbar = rows((4,), 6) + 1j * rows((4,), 7)
    found = batch_pullback(differentiable(logs), [u, v, 0j, w], (0, 0, None, 0), [ubar, None, zbar, None])._asdict()
    for i in range(4):
        wanted = own(logs, [u[i], v[i], 0j, complex(w[i])], [ubar[i], None, complex(zbar[i]), None])
        for name in "uv":
            assert found[name][i] == wanted[name]
        assert found["w"][i] == complex(wanted["w"].re, wanted["w"].im)


def test_any_number_of_arguments() -> None:
    x, c, ybar = rows((3,), 1), rows((3,), 2), rows((3,), 3)
    axes = {"y": None, "x": 0, "cs": [0, None]}
    found = batch_pullback(
        differentiable(several), [0.0, x, FurtherArguments((c, 1.5))], axes, [ybar, None, None]
    )._asdict()
    for i in range(3):
        wanted = own(several, [0.0, x[i], c[i], 1.5], [ybar[i], None, None])
        assert (found["x"][i], *(one[i] for one in found["cs"])) == (wanted["x"], *wanted["cs"])


def test_each_element_has_its_own_scale() -> None:
    """A cotangent of e^9 overflows at the first scale, and the others keep theirs; so do cotangents that are given."""
    x, ybar = np.array([0.125, 9.0, 0.0625, 0.125]), np.array([1 / 3, 3.0, 2.0**-31, 2.0**29 / 3])
    found = batch_pullback(differentiable(steep), [0.0, x], (None, 0), [ybar, None])
    for i in range(4):
        assert found.x[i] == own(steep, [0.0, x[i]], [ybar[i], None])["x"]


def test_an_element_without_a_gradient_is_named() -> None:
    with pytest.raises(ElementTrap, match="element 1: running back, cotangent overflow"):
        batch_pullback(
            differentiable(steep), [0.0, np.array([0.0, 20.0, 21.0])], (None, 0), [np.array([1.0, 2e5, 1e5]), None]
        )
    with pytest.raises(rg.InputError, match=r"element 2: cotangent of `y`: 1e[+]12|1000000000000.0 does not fit"):
        batch_pullback(differentiable(steep), [0.0, np.zeros(3)], (None, 0), [np.array([1.0, 1.0, 1e12]), None])
    with pytest.raises(rg.InputError, match=r"element 0: .*NaN is not a number"):
        batch_pullback(differentiable(steep), [0.0, np.zeros(2)], (None, 0), [np.array([np.nan, 1.0]), None])


@pytest.mark.parametrize("f", [steep, logs])
def test_cotangents_that_lose_their_bits_are_reported(f: Any) -> None:
    if f is steep:
        args, axes, small, one = [0.0, np.ones(2)], (None, 0), [np.array([1.0, 2.0**-47 * 1.3]), None], [2.0**-47 * 1.3]
    else:
        args, axes = [1.0, 1.0, 0j, np.ones(2, complex)], (None, None, None, 0)
        small, one = [None, None, np.array([1j, 2.0**-47 * 1.3j]), None], [None, None, 2.0**-47 * 1.3j]
    for call in (
        lambda: batch_pullback(differentiable(f, precision="error"), args, axes, small),
        lambda: rg.vjp(f, *(a if isinstance(a, float | complex) else a[1] for a in args), precision="error")[1](
            [*one, None]
        ),
    ):
        with pytest.raises(rg.InputError, match="RG0607"):
            call()
