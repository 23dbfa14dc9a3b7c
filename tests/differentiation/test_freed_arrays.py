"""Arrays that a pass of a loop makes and frees: no cotangent stays in them.

So passes have the gradients that they have alone, to the bit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from retrograd.compiler.ir.effects import AccessAnalysis, RestoredArrays
from retrograd.compiler.ir.statements import Within
from retrograd.compiler.ir.traversal import bodies, walk

import retrograd as rg
from retrograd import Array, fixed, reversible
from retrograd.library import logsumexp
from retrograd.testing import check_gradient

#: elements of an array, too many for variables; passes
D, PASSES = 20, 3


@reversible
def routine(out: fixed, x: Array[fixed, "n", "d"], w: Array[fixed, "d"]) -> None:
    for i in range(len(x)):
        with rg.routine() as r:
            t = rg.zeros_like(w)
            for j in range(len(w)):
                t[j] += w[j] * x[i, j]
        for j in range(len(w)):
            out += t[j] * t[j]
        ~r


@reversible
def by_hand(out: fixed, x: Array[fixed, "n", "d"], w: Array[fixed, "d"]) -> None:
    for i in range(len(x)):
        t = rg.zeros(len(w))
        for j in range(len(w)):
            t[j] += w[j] * x[i, j]
        for j in range(len(w)):
            out += t[j] * t[j]
        for j in range(len(w)):
            t[j] -= w[j] * x[i, j]
        del t


@reversible
def squares(y: Array[fixed, "d"], x: Array[fixed, "d"], w: Array[fixed, "d"]) -> None:
    """y += the squares of prefix sums, which are an array of this procedure."""
    with rg.routine() as r:
        sums = rg.zeros_like(w)
        for j in range(1, len(w)):
            sums[j] += w[j] * x[j] + sums[j - 1]
    for j in range(len(w)):
        y[j] += sums[j] * sums[j]
    ~r


@reversible
def nested(out: fixed, x: Array[fixed, "n", "d"], w: Array[fixed, "d"]) -> None:
    """A procedure that is called in two places, and arrays that are read by statements with temporaries."""
    for i in range(len(x)):
        with rg.routine() as r:
            y = rg.zeros_like(w)
            squares(y, x[i], w)
            z = rg.zeros_like(w)
            squares(z, w, x[i])
            for j in range(len(w)):
                z[j] += y[j] * w[j]
        for j in range(len(w)):
            out += rg.sin(z[j]) * (y[j] + rg.sum(z * z))
        ~r


@reversible
def branches(out: fixed, x: Array[fixed, "n", "d"], w: Array[fixed, "d"]) -> None:
    """Arrays of some passes only, and of passes of a loop inside."""
    for i in range(len(x)):
        if x[i, 0] > 0:
            for k in range(2):
                with rg.routine() as r:
                    t = rg.zeros(len(w), 2)
                    for j in range(len(w)):
                        t[j, k] += w[j] * x[i, j]
                        t[j, 1 - k] += w[j] * t[j, k]
                for j in range(len(w)):
                    out += t[j, 1] * t[j, 0]
                ~r
        else:
            logsumexp(out, w)
            with rg.routine() as r:
                s = rg.zeros_like(w)
                for j in range(len(w)):
                    s[j] += w[j] * x[i, j]
            logsumexp(out, s)
            ~r


@reversible
def carried(out: fixed, x: Array[fixed, "n", "d"], w: Array[fixed, "d"]) -> None:
    """Array `e` lives in all passes, and statements of a pass restore it; `c` is read in a routine that it outlives."""
    with rg.routine() as r:
        e = rg.zeros_like(w)
        c = rg.zeros_like(w)
        for j in range(len(w)):
            c[j] += rg.exp(w[j] / 4)
    for i in range(len(x)):
        with rg.routine() as q:
            for j in range(len(w)):
                e[j] += c[j] * x[i, j]
        for j in range(len(w)):
            out += e[j] * w[j] * c[j]
        ~q
    ~r


@reversible
def prefixes(y: Array[fixed, "d"], x: Array[fixed, "d"], w: Array[fixed, "d"]) -> None:
    """As `squares`, its array freed by hand."""
    sums = rg.zeros(len(w))
    for j in range(1, len(w)):
        sums[j] += w[j] * x[j] + sums[j - 1]
    for j in range(len(w)):
        y[j] += sums[j] * sums[j]
    for j in reversed(range(1, len(w))):
        sums[j] -= w[j] * x[j] + sums[j - 1]
    del sums


@reversible
def uncalled(out: fixed, x: Array[fixed, "n", "d"], w: Array[fixed, "d"]) -> None:
    """Procedures that run in both directions, and with cotangents in both."""
    for i in range(len(x)):
        y = rg.zeros(len(w))
        (~squares)(y, x[i], w)
        prefixes(y, w, x[i])
        for j in range(len(w)):
            out += y[j] * y[j] * w[j]
        (~prefixes)(y, w, x[i])
        squares(y, x[i], w)
        del y


@reversible
def falling(y: Array[fixed, "d"], x: Array[fixed, "n", "d"], w: Array[fixed, "d"]) -> None:
    """y −= the squares of a pass, += those of another."""
    for i in range(len(x)):
        (~squares)(y, x[i], w)
        squares(y, x[len(x) - 1 - i], w)


@reversible
def several(y: Array[fixed, "d"], x: Array[fixed, "n", "d"], w: Array[fixed, "d"]) -> None:
    """As `routine`, a result for each j."""
    for i in range(len(x)):
        with rg.routine() as r:
            t = rg.zeros_like(w)
            for j in range(len(w)):
                t[j] += w[j] * x[i, j]
        for j in range(len(w)):
            y[j] += t[j] * t[len(w) - 1 - j]
        ~r


@reversible
def of_the_run(out: fixed, x: Array[fixed, "n", "d"], w: Array[fixed, "d"], size: int) -> None:
    """An array on the stack, of a length that an argument says, and with it another one."""
    for i in range(len(x)):
        with rg.routine() as r:
            t = rg.zeros(size)
            for j in range(size):
                t[j] += w[j] * x[i, j]
            s = rg.zeros(size)
            for j in range(size):
                s[j] += t[j] * w[j]
        for j in range(size):
            out += t[j] * s[j]
        ~r


@reversible
def recursive(out: fixed, x: Array[fixed, "n", "d"], w: Array[fixed, "d"], i: int) -> None:
    """The arrays of all passes lie on the stack at once."""
    if i > 0:
        with rg.routine() as r:
            k = i - 1
            t = rg.zeros_like(w)
            for j in range(len(w)):
                t[j] += w[j] * x[k, j]
        recursive(out, x, w, k)
        for j in range(len(w)):
            out += t[j] * t[j]
        ~r


FUNCTIONS = [routine, by_hand, nested, branches, carried, uncalled, of_the_run]


def further(f: rg.Reversible, x: Any) -> tuple[int, ...]:
    """Arguments behind x and w."""
    return {"of_the_run": (x.shape[1],), "recursive": (len(x),)}.get(f.__name__, ())


def given(passes: int = PASSES, size: int = D) -> tuple[Any, Any]:
    rng = np.random.default_rng(3)
    return rng.uniform(-0.5, 0.5, (passes, size)), rng.uniform(0.1, 0.5, size)


@pytest.mark.parametrize("size", [3, D])
@pytest.mark.parametrize("f", FUNCTIONS)
def test_passes_have_the_gradients_that_they_have_alone(f: rg.Reversible, size: int) -> None:
    """Short arrays are tested word by word where they are freed."""
    x, w = given(PASSES, size)
    slope = rg.grad(f, ("x", "w"), scale=0)
    by_x, by_w = slope(0.0, x, w, *further(f, x))
    each = [slope(0.0, x[i : i + 1], w, *further(f, x[:1])) for i in range(PASSES)]
    assert (by_x == np.concatenate([one for one, _ in each])).all()
    if f is not carried:  # its routine around all passes rounds their sum once
        assert (by_w == sum(one for _, one in each)).all()
    assert np.abs(by_w - sum(one for _, one in each)).max() < 1e-8


@pytest.mark.parametrize("level", [0, 1])
@pytest.mark.parametrize("f", [*FUNCTIONS, recursive])
def test_gradients_are_those_of_differences_and_of_the_machine(f: rg.Reversible, level: int) -> None:
    """The machine discards the same cotangents in differentiation mode. At level 0 no procedure is inlined."""
    f = f.with_options(level=level)
    x, w = given()
    args = 0.0, x, w, *further(f, x)
    by_x, by_w = rg.grad(f, ("x", "w"), scale=0)(*args)
    machine = rg.gradient_report(f, ("x", "w"), scale=0)(*args).gradients
    assert (machine[0] == by_x).all()
    assert (machine[1] == by_w).all()
    check_gradient(f, *args)


@pytest.mark.parametrize("f", FUNCTIONS)
def test_second_derivatives_and_several_cotangents(f: rg.Reversible) -> None:
    x, w = given(3)
    more = further(f, x)
    h = rg.hessian(f, "w", format="Q16.48")(0.0, x, w, *more)
    near = 1e-4
    slope = rg.grad(f, "w", format="Q16.48")
    for k in range(0, D, 5):
        step = near * np.eye(D)[k]
        assert (
            np.abs((slope(0.0, x, w + step, *more) - slope(0.0, x, w - step, *more)) / (2 * near) - h[k]).max() < 1e-4
        )
    _, pullback = rg.vjp(f, 0.0, x, w, *more, scale=0)
    jacobian = rg.jacobian(f, "w", "out", scale=0)(0.0, x, w, *more)
    assert np.abs(jacobian - pullback({"out": 1.0}).w).max() < 1e-8


@pytest.mark.parametrize("f", [routine, by_hand, of_the_run])
def test_cotangents_do_not_grow_from_pass_to_pass(f: rg.Reversible) -> None:
    """That of t[j] is about 2 w[j] x[i, j] · 2^5 in each pass, and the sum of all of them does not fit a word."""
    x, w = np.ones((300, D)), np.full(D, 0.1)
    f = f.with_options(format="Q8.24", precision="ignore")
    slope = rg.grad(f, "x", "out", scale=5)(0.0, x, w, *further(f, x))
    one = rg.grad(f, "x", "out")(0.0, x[:1], w, *further(f, x[:1]))
    assert np.abs(slope - one).max() < 1e-6


def test_rows_of_a_jacobian() -> None:
    """Several cotangents run side by side: rows are those that run alone."""
    x, w = given(1)
    given_x = np.tile(x, (3, 1))
    jacobian = rg.jacobian(several, "x", "y", scale=0, pattern=np.ones((D, 3 * D)))(np.zeros(D), given_x, w)
    jacobian = np.asarray(jacobian.toarray()).reshape(D, 3, D)
    _, pullback = rg.vjp(several, np.zeros(D), given_x, w, scale=0)
    assert all((jacobian[k] == pullback({"y": np.eye(D)[k]}).x).all() for k in range(D))
    assert all((jacobian[:, i] == jacobian[:, 0]).all() for i in range(3))


@pytest.mark.parametrize("level", [0, 1])
def test_a_procedure_that_runs_in_both_directions(level: int) -> None:
    """Where it runs backward, it runs forward on the way back, and its array dies at its end."""
    x, w = given()
    f = falling.with_options(level=level)
    args = np.zeros(D), x, w
    _, pullback = rg.vjp(f, *args, scale=0)
    machine = rg.gradient_report(f, ("x", "w"), "y[5]", scale=0)(*args).gradients
    expected = pullback({"y": np.eye(D)[5]})
    assert (machine[0] == expected.x).all()
    assert (machine[1] == expected.w).all()


def names(f: rg.Reversible, *args: Any) -> set[str]:
    module = f.compiled(*args).module
    restored = RestoredArrays(module, AccessAnalysis(module))
    found = (n for body in bodies(module) for n in walk(body) if isinstance(n, Within))
    return {region.name.rpartition(".")[2] for node in found for region in restored.of(node)}


@reversible
def changed(out: fixed, x: Array[fixed, "n", "d"], w: Array[fixed, "d"]) -> None:
    """The body changes what the array was computed from, and back."""
    for i in range(len(x)):
        with rg.routine() as r:
            t = rg.zeros(4 * len(w))
            for j in range(4 * len(w)):
                t[j] += w[0] * x[i, 0]
        w[0] += x[i, 1]
        for j in range(4 * len(w)):
            out += t[j] * t[j]
        w[0] -= x[i, 1] / 2
        w[0] -= x[i, 1] / 2
        ~r


@reversible
def one_word(out: fixed, x: Array[fixed, "n", "d"], w: Array[fixed, "d"]) -> None:
    """A pass visits one word of the array: to clear all of them would take longer."""
    t = rg.zeros(100)
    for i in range(len(x)):
        with rg.routine() as r:
            t[7 * i] += w[0] * x[i, 0]
        out += t[7 * i] * t[7 * i]
        ~r


@reversible
def once(out: fixed, x: Array[fixed, "n", "d"], w: Array[fixed, "d"]) -> None:
    with rg.routine() as r:
        t = rg.zeros(40)
        for j in range(40):
            t[j] += w[0] * x[0, 0] * j
    for j in range(40):
        out += t[j] * t[j]
    ~r


@pytest.mark.parametrize(
    ("f", "expected"),
    [
        (routine, {"t"}), (nested, {"y", "z", "sums"}), (carried, {"e"}),
        (changed, set()), (one_word, set()), (once, set()),
    ],
)  # fmt: skip
def test_arrays_that_are_zero_between_passes(f: rg.Reversible, expected: set[str]) -> None:
    x = np.ones((14, 40 if f in (routine, nested, carried) else D))
    assert names(f, 0.0, x, np.ones(x.shape[1])) == expected
