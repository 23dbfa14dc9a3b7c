"""Updates of whole structs: field by field, of structs of one type."""

from __future__ import annotations

import numpy as np
import pytest

import retrograd as rg
from retrograd import Array, fixed, reversible
from retrograd.testing import check_inverse

LEVELS = pytest.mark.parametrize("level", [0, 1])


@rg.struct
class Vector:
    x: fixed
    y: fixed


@rg.struct
class Body:
    at: Vector
    speed: Vector
    history: Array[fixed, 2]


@LEVELS
def test_sums_and_multiples(level: int) -> None:
    @reversible(level=level)
    def f(a: Vector, b: Vector, dt: fixed) -> None:
        a += b
        a += b * dt
        a -= 2 * b - b / 4
        a += Vector(1.0, dt)
        a += -b

    out = f(Vector(1.0, 2.0), Vector(3.0, 4.0), 0.5)
    assert out.a == Vector(1 + 3 * (1 + 0.5 - 2 + 0.25 - 1) + 1, 2 + 4 * (1 + 0.5 - 2 + 0.25 - 1) + 0.5)
    assert (~f)(*out).a == Vector(1.0, 2.0)
    assert rg.grad(f, "b", loss="a.x")(Vector(1.0, 2.0), Vector(3.0, 4.0), 0.5) == Vector(-1.25, 0.0)


@LEVELS
def test_structs_in_structs(level: int) -> None:
    @reversible(level=level)
    def f(a: Body, b: Body, dt: fixed) -> None:
        a.at += a.speed * dt
        a += b * 2
        a.speed, b.speed = b.speed, a.speed

    a = Body(Vector(1.0, 2.0), Vector(3.0, 4.0), np.array([5.0, 6.0]))
    out = f(a, a, 0.5)
    assert out.a.at == Vector(4.5, 8.0)
    assert out.b.speed == Vector(9.0, 12.0)
    assert out.a.history.tolist() == [15.0, 18.0]
    check_inverse(f, a, a, 0.5)


@LEVELS
def test_arrays_of_structs(level: int) -> None:
    @reversible(level=level)
    def f(a: Array[Vector, "n"], b: Array[Vector, "n"], dt: fixed) -> None:
        a += b * dt
        a[0] += a[1]
        a[1:] -= b[1:]
        t = a[0] - b[0]
        a[1] += t

    start = [Vector(1.0, 2.0)] * 2
    out = f(start, [Vector(4.0, 8.0)] * 2, 0.5)
    assert list(out.a) == [Vector(6.0, 12.0), Vector(1.0, 2.0)]
    assert list((~f)(*out).a) == start


@LEVELS
def test_a_variable_keeps_the_sum_that_it_was_made_with(level: int) -> None:
    @reversible(level=level)
    def f(y: fixed, a: Vector, b: Vector) -> None:
        t = a + b * 2
        s = -b
        a += b
        y += t.x * 10 + s.y
        a -= b

    assert f(0.0, Vector(1.0, 2.0), Vector(3.0, 4.0)).y == 70.0 - 4.0
    check_inverse(f, 0.0, Vector(1.0, 2.0), Vector(3.0, 4.0))


@LEVELS
def test_a_field_is_not_read_after_it_has_changed(level: int) -> None:
    @reversible(level=level)
    def turned(a: Array[Vector, "n"], i: int, j: int) -> None:
        a[i] += Vector(a[j].y, a[j].x)

    assert list(turned([Vector(1.0, 2.0), Vector(3.0, 4.0)], 0, 1).a) == [Vector(5.0, 5.0), Vector(3.0, 4.0)]
    with pytest.raises(rg.RetrogradError) as error:
        turned([Vector(1.0, 2.0), Vector(3.0, 4.0)], 1, 1)
    assert error.value.code == "RG0805"


def test_no_test_at_run_time_for_fields_that_never_meet() -> None:
    @reversible(level=0)
    def f(a: Array[Vector, 3], i: int, j: int) -> None:
        a[i] += Vector(a[j].x, 0.0)

    @reversible(level=0)
    def by_field(a: Array[Vector, 3], i: int, j: int) -> None:
        a[i].x += a[j].x

    assert str(f.lower()).count("RG0805") == str(by_field.lower()).count("RG0805") == 1
