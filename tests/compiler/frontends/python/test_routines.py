"""Variables of the use of a routine: freed by `~r`, or kept for later statements; arrays that are freed by their value."""

from __future__ import annotations

import ast
import itertools
import linecache
import re
import textwrap
from typing import Any

import numpy as np
import pytest
from retrograd.compiler.frontends.python.statements import first_use
from retrograd.isa.diagnostics import CompileError

import retrograd as rg
from retrograd import Array, fixed, reversible
from retrograd.testing import check_gradient, check_inverse


@reversible
def taken_out(y: fixed, x: fixed) -> None:
    with rg.routine() as r:
        t = x * x
    z = fixed(0)
    z += t
    ~r
    y += z
    z -= x * x


@reversible
def of_elements(y: fixed, x: Array[fixed, 2]) -> None:
    with rg.routine() as r:
        t = x[0] * x[1]
    z = rg.zeros(2)
    z[0] += t
    ~r
    y += z[0] * x[1]
    z[0] -= x[0] * x[1]


@reversible
def freed_by_its_value(y: fixed, x: fixed) -> None:
    with rg.routine() as r:
        t = x * x
    z = t + 1
    ~r
    y += z
    rg.free(z, x * x + 1)


@reversible
def made_from_another(y: fixed, x: fixed) -> None:
    with rg.routine() as r:
        t = x * x
    a = x + 1
    z = a * 2
    y += t * z
    ~r
    y += z


@reversible
def not_used_later(y: fixed, x: fixed) -> None:
    with rg.routine() as r:
        t = x * x
    z = x * 2
    y += t * z
    ~r
    x += 1


@reversible
def bound_anew(y: fixed, x: fixed) -> None:
    with rg.routine() as r:
        t = x * x
    z = x * 2
    y += t * z
    ~r
    z = x * 3
    y += z


@reversible
def of_run_length(y: fixed, x: Array[fixed, "n"]) -> None:
    with rg.routine() as r:
        t = x * 2
    z = rg.zeros(len(x))
    z += t
    w = x[1:]
    ~r
    y += z[0] * w[0]
    z -= x * 2


@reversible
def in_a_loop(y: fixed, x: fixed) -> None:
    for i in range(3):
        with rg.routine() as r:
            t = x * i
        z = fixed(0)
        z += t
        ~r
        if i > 0:
            y += z * z
        z -= x * i


@reversible
def twice(y: fixed, x: fixed) -> None:
    with rg.routine() as r:
        t = x * x
    z = fixed(0)
    z += t
    ~r
    y += z
    r()
    z -= t
    ~r


@reversible
def array_of_numbers(y: fixed, x: fixed) -> None:
    t = rg.zeros(2)
    t[0] += 1.0
    t[1] += x
    y += t[0] * t[1]
    t[1] -= x - 2.0
    rg.free(t, [1.0, 2.0])


@reversible
def array_of_an_expression(y: fixed, x: Array[fixed, "n"]) -> None:
    t = rg.zeros(len(x))
    for i in range(len(x)):
        t[i] += x[i] * x[i]
    y += rg.sum(t)
    rg.free(t, x * x)


FUNCTIONS: list[tuple[rg.Reversible, tuple[Any, ...], float, Any]] = [
    (taken_out, (0.0, 3.0), 9.0, 6.0),
    (of_elements, (0.0, [3.0, 4.0]), 48.0, [16.0, 24.0]),
    (freed_by_its_value, (0.0, 3.0), 10.0, 6.0),
    (made_from_another, (0.0, 3.0), 80.0, 68.0),
    (not_used_later, (0.0, 3.0), 54.0, 54.0),
    (bound_anew, (0.0, 3.0), 63.0, 57.0),
    (of_run_length, (0.0, [3.0, 4.0]), 24.0, [8.0, 6.0]),
    (in_a_loop, (0.0, 3.0), 45.0, 30.0),
    (twice, (0.0, 3.0), 9.0, 6.0),
    (array_of_numbers, (0.0, 3.0), 3.0, 1.0),
    (array_of_an_expression, (0.0, [3.0, 4.0]), 25.0, [6.0, 8.0]),
]


@pytest.mark.parametrize("level", [0, 1])
@pytest.mark.parametrize(("f", "args", "value", "slope"), FUNCTIONS, ids=lambda v: getattr(v, "__name__", ""))
def test_values_inverses_and_gradients(
    f: rg.Reversible, args: tuple[Any, ...], value: float, slope: Any, level: int
) -> None:
    g = f.with_options(level=level)
    assert g(*args).y == value
    assert np.allclose(rg.grad(g, "x")(*args), slope, atol=1e-7)
    check_inverse(g, *args)
    check_gradient(g, *args)


@reversible
def made_from_the_routine(y: fixed, x: fixed) -> None:
    with rg.routine() as r:
        t = x * x
    z = t + 1
    ~r
    y += z


@reversible
def left(y: fixed, x: fixed) -> None:
    with rg.routine() as r:
        t = x * x
    z = fixed(0)
    z += t
    ~r
    y += z


@reversible
def on_the_stack(y: fixed, x: fixed, n: int) -> None:
    if n > 0:
        with rg.routine() as r:
            t = x * x
        z = rg.zeros(2)
        z[0] += t
        ~r
        on_the_stack(y, x, n - 1)
        y += z[0]


def test_what_cannot_stay_is_refused_with_a_way_out() -> None:
    with pytest.raises(rg.CompileError, match=r"(?s)RG0718.*`z` was made from `t`, which was freed.*rg\.free\(z, …\)"):
        made_from_the_routine(0.0, 3.0)
    with pytest.raises(rg.ProgramTrap, match=r"RG0802.*`z` holds 9\.0"):
        left(0.0, 3.0)
    with pytest.raises(rg.CompileError, match=r"(?s)RG0711.*`z` lies on the stack.*before `with"):
        on_the_stack(0.0, 3.0, 2)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("y += z", "used"),
        ("z += y", "used"),
        ("del z", "used"),
        ("f(y, z)", "used"),
        ("z[0] += 1", "used"),
        ("z = y", "bound"),
        ("z = z + y", "used"),
        ("for z in range(3): y += z", None),
        ("for i in range(z): y += i", "used"),
        ("for i in range(3):\n    z = i\n    y += z", None),
        ("if y > 0:\n    z = x\n    y += z\ny += z", "used"),
        ("while (y > 0, z > 0): y += 1", "used"),
        ("with rg.routine() as s:\n    z = x\ny += z", "bound"),
        ("with rg.view(-z) as m: m += 1", "used"),
        ("with rg.routine() as z: y += 1", "bound"),
        ("with rg.external(): print(z)", "used"),
        ("def g(a): a += z", "used"),
        ("def g(z): z += 1", None),
        ("def z(a): a += 1", "bound"),
        ("y += x", None),
    ],
)
def test_first_use(text: str, expected: str | None) -> None:
    assert first_use("z", ast.parse(text).body) == expected


@reversible
def freed_as_another(y: fixed, x: fixed) -> None:
    t = rg.zeros(2)
    t[1] += x
    y += t[1]
    rg.free(t, [0.0, 1.0])


@reversible
def freed_as_itself(y: fixed, x: Array[fixed, 2]) -> None:
    t = x * 2
    t[0] += 1
    rg.free(t, t + 0)


@reversible
def freed_in_another_shape(y: fixed, x: Array[fixed, 3]) -> None:
    t = rg.zeros(2)
    rg.free(t, x)


def test_arrays_that_do_not_hold_the_value_are_not_freed() -> None:
    assert freed_as_another(0.0, 1.0).y == 1.0
    with pytest.raises(rg.ProgramTrap, match=r"RG0802.*`t\[1\]` holds 3\.0 .* must hold 1\.0"):
        freed_as_another(0.0, 3.0)
    with pytest.raises(rg.CompileError, match="RG0704"):
        freed_as_itself(0.0, [1.0, 2.0])
    with pytest.raises(rg.CompileError, match="RG0712"):
        freed_in_another_shape(0.0, [1.0, 2.0, 3.0])


@rg.struct
class Parts:
    a: fixed
    n: int
    v: Array[fixed, 2]


@rg.struct
class Piled:
    pile: rg.Stack[int, 3]


#: annotation, value, an update of a copy `c`, a number of the copy and its value
COPIED: list[tuple[Any, Any, str, str, float]] = [
    (int, 5, "c += 2", "c", 7), (rg.uint, 5, "c += 2", "c", 7), (fixed, 1.5, "c += 2", "c", 3.5),
    (bool, True, "c ^= True", "(2 if c else 1)", 1), (complex, 1 + 2j, "c += 2j", "c.imag", 4.0),
    (Array[int, 2], [3, 4], "c[1] += 2", "c[0] + c[1]", 9),
    (Array[complex, 2], [1j, 2j], "c[1] += 2j", "c[1].imag", 4.0),
    (Parts, Parts(1.0, 2, np.array([3.0, 4.0])), "c.n += 1; c.v[1] += 2; c.a += 1", "c.a + c.n + c.v[1]", 11.0),
]  # fmt: skip


def copying(statements: str, annotation: Any) -> Any:
    """`f(y: fixed, z: fixed, x: annotation)` with these statements."""
    text = f"def f(y: fixed, z: fixed, x: annotation):\n{textwrap.indent(statements, '    ')}\n"
    name = f"<copy {next(_numbers)}>"
    linecache.cache[name] = len(text), None, text.splitlines(keepends=True), name
    names: dict[str, Any] = {"rg": rg, "fixed": fixed, "annotation": annotation}
    exec(compile(text, name, "exec"), names)
    return reversible(names["f"])


_numbers = itertools.count()


@pytest.mark.parametrize(("annotation", "x", "change", "number", "wanted"), COPIED, ids=lambda p: str(p)[:30])
def test_a_copy_changes_alone(annotation: Any, x: Any, change: str, number: str, wanted: float) -> None:
    own = re.sub(r"\bc\b", "x", number)
    made = f"with rg.routine() as r:\n    c = rg.copy(x)\n    {change}\n"
    f = copying(f"{made}y += {number}\nz += {own}\n~r", annotation)
    assert f(0.0, 0.0, x)[:2] == (wanted, eval(own, {"x": x}))
    check_inverse(f, 0.0, 0.0, x)


STACK, PARTS = rg.Stack[int, 3], Parts(1.0, 2, np.zeros(2))


@pytest.mark.parametrize(
    ("annotation", "x", "part"),
    [(STACK, [1], "x"), (Array[Parts, 2], [PARTS] * 2, "x"), (Piled, Piled([1]), "x"), (Piled, Piled([1]), "x.pile")],
)
def test_stacks_and_arrays_of_structs_are_copied_part_by_part(annotation: Any, x: Any, part: str) -> None:
    with pytest.raises(CompileError, match=r"RG0703.*cannot be copied whole") as refused:
        copying(f"c = rg.copy({part})", annotation)(0.0, 0.0, x)
    assert refused.value.diagnostics[0].hint == "Copy its fields or elements."
