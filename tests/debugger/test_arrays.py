"""Arrays, structs and stacks of the source in the debugger, by name, wherever the compiler has put their words."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from retrograd.assembler.assemble import assemble
from retrograd.isa.diagnostics import InputError
from retrograd.simulator.machine import Machine

import retrograd as rg
from retrograd import Array, Stack, fixed, reversible
from retrograd.derivatives import grad
from retrograd.derivatives._requests import way_back
from retrograd.observe._session import Session
from retrograd.runtime._binding import bind
from retrograd.runtime._execution import load
from retrograd.runtime._reversible import Reversible

TABLE = [[1, 2, 3], [4, 5, 6]]


@rg.struct
class Point:
    x: fixed
    v: Array[fixed, 2]


@reversible
def shapes(y: fixed, p: Point, ps: Array[Point, 2], m: Array[int, 2, 3], s: Stack[int, 8]):
    t = 2.0 * p.v
    for i in range(2):
        y += t[i] * ps[i].v[1]
    k = 0
    k += m[1, 2]
    rg.push(s, k)
    y += p.x
    del t


@reversible
def nested(out: int, n: int, xs: Array[int, 3]):
    if n > 0:
        local = xs + n
        m = n - 1
        nested(out, m, xs)
        out += local[1]
        del m
        del local


@reversible
def whole(out: int, n: int, m: Array[int, 2, 3]):
    nested(out, n, m[1])
    out += 1


def session_of(f: Reversible, *args: Any, level: int = 1) -> Session:
    f = f.with_options(level=level)
    values = bind(f, args, {})
    return Session(load(f.compiled(*values), values, engine="reference"))


def line_of(f: Reversible, text: str) -> str:
    """The line of a statement, as a place of a breakpoint."""
    source = f.source
    return f":{1 + next(n for n, line in enumerate(source.lines) if line.strip() == text)}"


POINT = Point(0.5, [1.0, 3.0])
POINTS = [Point(1.0, [2.0, 4.0]), Point(5.0, [6.0, 7.0])]


@pytest.mark.parametrize("level", [0, 1])
def test_arrays_have_the_values_of_the_source(level: int) -> None:
    session = session_of(shapes, 0.0, POINT, POINTS, TABLE, [7], level=level)
    session.break_at(line_of(shapes, "y += p.x"))
    for _ in range(2):
        assert session.resume().reason == "breakpoint"
        found = {v.name: v for v in session.variables()}
        assert found["t"].value == [2, 6]
        assert found["m"].value == TABLE
        assert found["m"].shape == (2, 3)
        assert found["p.v"].value == [1, 3]
        assert found["ps.v"].value == [[2, 4], [6, 7]]
        assert found["ps.x"].value == [1, 5]
        assert (found["s"].value, found["s"].shape) == ([7, 6], (2,))
        assert not any(name.startswith("t[") for name in found)
        for text, value in {
            "t[1]": 6, "m[1, 2]": 6, "m[1,0] + 1": 5, "ps[1].x": 5, "ps[1].v[0]": 6, "p.v[1]": 3, "s[1]": 6,
            "m[k, 1]": 2, "m[k + 1, 2]": 6, "t": [2, 6], "m": TABLE, "y": 50,
        }.items():  # fmt: skip
            assert session.evaluate(text) == value, text
        assert session.place("t[1]").word(session.machine) == 6 << 32
        # From behind, too.
        session.resume()
        assert session.resume(back=True).reason == "breakpoint"
        assert session.evaluate("t") == [2, 6]
        session.to(0)


@reversible
def deep(a: Array[Stack[int, 3], 2], s: Stack[Stack[Point, 3], 2], ps: Array[Stack[fixed, 4], 2, 2], y: int):
    rg.push(a[1], y)
    t = rg.pop(a[0])
    y += t
    rg.push(a[0], t)


@pytest.mark.parametrize("level", [0, 1])
def test_stacks_in_arrays_and_stacks_show_what_they_hold(level: int) -> None:
    given = [[4, 5], []], [[POINT, *POINTS], []], [[[1.0], []], [[2.0, 3.0], [4.0]]], 7
    session = session_of(deep, *given, level=level)
    session.break_at(line_of(deep, "y += t"))
    for _ in range(2):
        assert session.resume().reason == "breakpoint"
        found = {v.name: v.value for v in session.variables()}
        assert found["a"] == [[4], [7]]
        assert (found["s.x"], found["s.v"]) == ([[0.5, 1, 5], []], [[[1, 3], [2, 4], [6, 7]], []])
        assert found["ps"] == [[[1], []], [[2, 3], [4]]]
        for text, value in {"a[1, 0]": 7, "s[0, 2].v[1]": 7, "ps[1, 0, 1]": 3, "a": [[4], [7]]}.items():
            assert session.evaluate(text) == value, text
        for text, lengths in {"a[0, 1]": "2 × 1", "s[1, 0].x": "2 × 0", "ps[0, 1, 0]": "2 × 2 × 0"}.items():
            with pytest.raises(InputError, match=f"which has {lengths} elements"):
                session.evaluate(text)
        # The first elements, across the tops of stacks.
        assert {v.name: (v.value, v.more) for v in session.variables(2)}["ps"] == ([1, 2], True)
        session.resume()
        assert session.resume(back=True).reason == "breakpoint"
        assert session.evaluate("a") == [[4], [7]]
        session.to(0)
    assert [session.resume().reason for _ in range(2)] == ["breakpoint", "end"]
    assert session.evaluate("a") == [[4, 5], [7]]


@pytest.mark.parametrize("level", [0, 1])
def test_arrays_of_each_activation(level: int) -> None:
    """An array in a frame and an array parameter: the address is in a variable."""
    session = session_of(whole, 0, 3, TABLE, level=level)
    session.break_at(line_of(nested, "out += local[1]"))
    for n in (1, 2, 3):
        assert session.resume().reason == "breakpoint"
        found = {v.name: v for v in session.variables()}
        assert found["local"].value == [4 + n, 5 + n, 6 + n]
        assert found["xs"].value == [4, 5, 6]
        assert session.evaluate("local[2] - n") == 6
        assert "local.base" not in found
    assert session.resume().reason == "end"
    assert session.resume(back=True).reason == "breakpoint"
    assert session.evaluate("local") == [7, 8, 9]


def test_a_condition_on_an_element() -> None:
    session = session_of(whole, 0, 3, TABLE)
    session.break_at(line_of(nested, "out += local[1]"), "local[1] == 7")
    assert session.resume().reason == "breakpoint"
    assert session.evaluate("n") == 2
    assert session.resume().reason == "end"


def test_watch_an_element() -> None:
    session = session_of(shapes, 0.0, POINT, POINTS, TABLE, [])
    session.watch("m[1, 2]")
    assert session.resume().reason == "end"
    session = session_of(shapes, 0.0, POINT, POINTS, TABLE, [])
    session.break_at(line_of(shapes, "y += p.x"))
    session.resume()
    session.watch("s[0]")
    event = session.resume(back=True)
    assert event.reason == "watch"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("m[2, 0]", "no element of `m`, which has 2 × 3 elements"),
        ("m[1]", "no element of `m`"),
        ("m[-1, 0]", "no element"),
        ("s[1]", "no element of `s`, which has 0 elements"),
        ("ps[2].x", "no element of `ps.x`"),
        ("mm[0]", "no place"),
        ("m[x]", "no place"),
    ],
)
def test_elements_that_are_not_there(text: str, said: str) -> None:
    session = session_of(shapes, 0.0, POINT, POINTS, TABLE, [])
    with pytest.raises(InputError, match=said):
        session.evaluate(text)


def test_an_array_is_no_place() -> None:
    session = session_of(shapes, 0.0, POINT, POINTS, TABLE, [])
    with pytest.raises(InputError, match="is an array: name an element"):
        session.place("m")


def test_cotangents_of_arrays() -> None:
    request = grad(shapes, loss="y").request
    values = request.values((0.0, POINT, POINTS, TABLE, []), {})
    turned = way_back(request, values)
    machine = request.machine(turned.compiled, values)
    machine.run()
    turned.begin(machine)
    machine.run()
    session = Session(machine)
    found = {v.name: v for v in session.variables()}
    assert found["p.v"].cotangent == [8, 14]
    assert found["ps.v"].cotangent == [0, 2, 0, 6]
    assert session.evaluate("cotangent(p.v[1])") == Fraction(14)
    assert session.evaluate("cotangent(y)") == 1


FIXED_DATA = """
.data
n:      .word 3
half:   .word 0.5q
row:    .word 1.5q, 0, -2q
mixed:  .word 1.5q, 2
x5q:    .word 7
.equ k5q, 4
named:  .word k5q
.text
        start
        add r1, 1
        finish
"""


def test_fixed_point_data_of_assembly_are_numbers() -> None:
    session = Session(Machine(assemble(FIXED_DATA)))
    found = {v.name: v.value for v in session.variables()}
    assert found == {"half": Fraction(1, 2), "row": [1.5, 0, -2]}
    assert session.evaluate("half + row[2]") == -1.5
    assert [session.evaluate(x) for x in ("n", "mixed", "mixed[1]", "named", "x5q")] == [3, 3 << 31, 2, 4, 7]
    document = rg.explore(Machine(assemble(FIXED_DATA))).as_dict()
    assert [a["name"] for a in document["arrays"]] == ["row"]
