"""Ranges whose index leaves the word after the last pass: every range of words of 8 bits has the passes of Python's.

The index may wrap to its start (`range(-128, 126, 4)`), or to another word (`range(100, 127, 5)` stops at 130, which is −126).
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from retrograd.compiler.ir.instruction_selection import trip_values
from retrograd.compiler.ir.statements import Const, For, Kind, Var

import retrograd as rg
from retrograd import reversible

W = rg.Format(8, 3)
LOW, HIGH = -W.sign, W.sign - 1
STEPS = [s for s in range(-HIGH, HIGH + 1) if s]
#: how the passes of a range are gone through
FORMS = ("range", "reversed", "enumerate", "zip")


def between(form: str, step: int) -> Any:
    """f(y, z, a, b): y counts the passes of range(a, b, step), and z = Σ k · index of pass k depends on their order."""

    @reversible
    def plain(y: int, z: int, a: int, b: int) -> None:
        for i in range(a, b, step):
            y += 1
            z += y * i

    @reversible
    def backward(y: int, z: int, a: int, b: int) -> None:
        for i in reversed(range(a, b, step)):
            y += 1
            z += y * i

    @reversible
    def numbered(y: int, z: int, a: int, b: int) -> None:
        for j, i in enumerate(range(a, b, step)):
            y += 1
            z += (j + 1) * i

    @reversible
    def together(y: int, z: int, a: int, b: int) -> None:
        for i, _ in zip(range(a, b, step), reversed(range(a, b, step)), strict=True):
            y += 1
            z += y * i

    return {"range": plain, "reversed": backward, "enumerate": numbered, "zip": together}[form]


def constant(form: str, start: int, stop: int, step: int) -> Any:
    """f(y, z): `between` with constant ends."""
    inner = between(form, step)

    @reversible
    def f(y: int, z: int) -> None:
        inner(y, z, start, stop)

    @reversible
    def literal(y: int, z: int) -> None:
        for i in range(start, stop, step):
            y += 1
            z += y * i

    @reversible
    def literal_backward(y: int, z: int) -> None:
        for i in reversed(range(start, stop, step)):
            y += 1
            z += y * i

    return {"range": literal, "reversed": literal_backward}.get(form, f)


def expected(form: str, start: Any, stop: Any, step: int) -> tuple[Any, Any]:
    """(passes, Σ k · index of pass k), as words: n(n + 1)/2 · first + step · (n − 1)n(n + 1)/3."""
    n = np.maximum(0, -((start - stop) // step))
    first, by = (start + (n - 1) * step, -step) if form == "reversed" else (start, step)
    z = n * (n + 1) // 2 * first + by * ((n - 1) * n * (n + 1) // 3)
    return tuple((x + W.sign & W.mask) - W.sign for x in (n, z))


def check_all_ends(form: str, step: int, level: int = 1) -> None:
    """Run a range with a step for all starts and stops, forward and back."""
    f = between(form, step).with_options(level=level)
    a, b = (x.ravel() for x in np.meshgrid(np.arange(LOW, HIGH + 1), np.arange(LOW, HIGH + 1)))
    zeros = np.zeros(len(a), dtype=int)
    found = rg.run_batch(f, zeros, zeros, a, b, format=W).values
    for x, y in zip(found, expected(form, a, b, step), strict=False):
        wrong = np.flatnonzero(np.asarray(x) != y)
        assert not len(wrong), (form, step, a[wrong[0]], b[wrong[0]])
    back = rg.run_batch(~f, *found, format=W).values
    assert not np.any(back[:2])


@pytest.mark.parametrize(("form", "step"), [("range", 2), ("reversed", -64), ("enumerate", -2), ("zip", 1)])
def test_ends_known_at_run_time(form: str, step: int) -> None:
    check_all_ends(form, step)


@pytest.mark.long
@pytest.mark.parametrize("step", STEPS)
def test_every_step_with_ends_known_at_run_time(step: int) -> None:
    power = abs(step) & abs(step) - 1 == 0
    for form in FORMS if power else (FORMS[step % 4],):
        check_all_ends(form, step)
        if power:
            check_all_ends(form, step, level=0)


def check_constants(form: str, start: int, stop: int, step: int) -> None:
    y, z = expected(form, np.int64(start), np.int64(stop), step)
    f = constant(form, start, stop, step)
    for level in (0, 1):
        g = f.with_options(level=level)
        found = rg.run(g, 0, 0, format=W).values
        assert found == (y, z), (form, start, stop, step, level)
        assert rg.run(~g, *found, format=W).values == (0, 0)


def some_constants(seed: int, count: int) -> list[tuple[str, int, int, int]]:
    """Ranges with constant ends, half of which leave the word after their last pass."""
    rng = random.Random(seed)
    out: list[tuple[str, int, int, int]] = []
    while len(out) < count:
        step = rng.choice((*STEPS, *(s << k for s in (1, -1) for k in range(1, 7))))
        start, stop = rng.randint(LOW, HIGH), rng.randint(LOW, HIGH)
        if len(out) % 2:
            near = rng.randrange(abs(step)), rng.randrange(abs(step))
            start, stop = (LOW + near[0], HIGH - near[1]) if step > 0 else (HIGH - near[0], LOW + near[1])
        out.append((rng.choice(list(FORMS)), start, stop, step))
    return out


def test_constant_ends() -> None:
    for case in [("range", -128, 126, 4), ("range", 104, -110, -96), *some_constants(0, 30)]:
        check_constants(*case)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1, 11))
def test_many_constant_ends(seed: int) -> None:
    for case in some_constants(seed, 400):
        check_constants(*case)


def test_gradients() -> None:
    @reversible
    def constant(y: rg.fixed, x: rg.fixed, a: int, b: int) -> None:
        for _ in range(-128, 126, 32):
            y += x

    @reversible
    def up(y: rg.fixed, x: rg.fixed, a: int, b: int) -> None:
        for _ in range(a, b, 32):
            y += x

    @reversible
    def down(y: rg.fixed, x: rg.fixed, a: int, b: int) -> None:
        for _ in reversed(range(b, a, -32)):
            y += x

    for f, ends in ((constant, (0, 0)), (up, (-128, 126)), (down, (-128, 127))):
        value, gradients = rg.value_and_grad(f, format=W)(0.0, 0.125, *ends)
        assert (value, gradients.x) == (1.0, 8.0)


def test_the_body_may_change_the_place_of_an_end() -> None:
    """The ends of a loop are read once, also where the index is computed from the number of the pass."""

    @reversible
    def f(y: int, ends: rg.Array[int, 2]) -> None:
        for _ in range(ends[0], ends[1], 4):
            y += 1
            ends[0] += 1
            ends[0] -= 1

    assert rg.run(f, 0, [-128, 126], format=W).values[0] == 64


def test_a_known_start_keeps_the_index_as_the_counter() -> None:
    @reversible
    def known(y: int, n: int) -> None:
        for i in range(0, n, 2):
            y += i

    @reversible
    def unknown(y: int, m: int, n: int) -> None:
        for i in range(m, n, 2):
            y += i

    steps = [rg.run(known, 0, 100, format=W).steps, rg.run(unknown, 0, 0, 100, format=W).steps]
    assert steps[0] < steps[1]


def test_trip_values() -> None:
    """The passes of a loop with constant ends, for every start, stop and step."""
    rng = random.Random(2)
    for _ in range(5000):
        start, step, passes = rng.randint(LOW, HIGH), rng.choice(STEPS), rng.randrange(200)
        values = range(start, start + passes * step, step)
        if len(values) * abs(step) > W.mask or (values and not LOW <= values[-1] <= HIGH):
            continue
        i, stop = Var("i", Kind.INT), start + passes * step
        loop = For(i, Const(start & W.mask), Const(stop & W.mask), step, ())
        assert trip_values(loop, W) == values
        assert trip_values(loop._replace(backward=True), W) == values[::-1]
    assert trip_values(For(i, Const(5), Const(3), 1, ()), W) is None
    assert trip_values(For(i, Const(5), Const(8), 2, ()), W) is None
