"""`rg.autoscale`:

with the points that it chooses a function computes what float64 does, or better, and what it writes is what is compiled.
"""

from __future__ import annotations

import json
import math
import pickle
import re
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest
from retrograd.compiler.ir.real_numbers import Extent, RealProgram
from retrograd.compiler.passes.inlining import inline_calls, rename_locals
from retrograd.isa.diagnostics import InputError
from retrograd.isa.words import Format

import retrograd as rg
from retrograd import Array, Stack, fixed, library, lognum, reversible
from retrograd.cli.main import main
from retrograd.observe._autoscale import lowered_for
from retrograd.runtime._execution import ProgramTrap
from tests.number_ranges.samples import EXAMPLES, LIBRARY, Sample

#: samples that have no points: a lognum argument, functional functions
REFUSED = {"log_factorial", "exclusive_or", "layers_of_a_classifier"}
G = 6.674e-11


@reversible
def orbit(x: Array[fixed, 2], v: Array[fixed, 2], mass: fixed, dt: fixed, n: int) -> None:
    for _ in range(n):
        x += v * (dt * 0.5)
        with rg.routine() as r:
            s = x[0] * x[0] + x[1] * x[1]
            k = G * mass * dt / (s * rg.sqrt(s))
        v -= k * x
        ~r
        x += v * (dt * 0.5)


SI = ([1.496e11, 0.0], [0.0, 29780.0], 1.989e30, 8640.0, 100)


def _orbit_by_mpmath(x: Any, v: Any, mass: float, dt: float, n: int) -> list[Any]:
    with mpmath.workdps(40):
        q, u = [mpmath.mpf(a) for a in x], [mpmath.mpf(a) for a in v]
        h = mpmath.mpf(dt)
        for _ in range(n):
            q = [a + b * h / 2 for a, b in zip(q, u, strict=True)]
            s = q[0] ** 2 + q[1] ** 2
            k = mpmath.mpf(G) * mpmath.mpf(mass) * h / (s * mpmath.sqrt(s))
            u = [b - k * a for a, b in zip(q, u, strict=True)]
            q = [a + b * h / 2 for a, b in zip(q, u, strict=True)]
        return [*q, *u]


def test_gravity_in_si_units_is_as_exact_as_float64() -> None:
    scaled = rg.autoscale(orbit, *SI)
    after = scaled(*SI)
    exact = _orbit_by_mpmath(*SI)
    for found, wanted in zip([*after.x, *after.v], exact, strict=True):
        assert abs(found - wanted) <= 1e-13 * max(abs(exact[0]), abs(exact[1])) if abs(wanted) > 1e6 else 1e-9
    back = (~scaled)(*after)
    assert back.x.tolist() == SI[0]
    assert back.v.tolist() == SI[1]


def test_the_same_inputs_give_the_same_points() -> None:
    first, second = (rg.autoscale(orbit, *SI).scaling for _ in range(2))
    assert first == second
    assert first is not None
    assert [row.name for row in first.rows[:2]] == ["dt", "mass"]


EVERY = {**LIBRARY, **EXAMPLES}


@pytest.mark.parametrize("name", EVERY)
def test_every_function_of_the_library_and_the_examples_is_scaled(name: str) -> None:
    sample: Sample = EVERY[name]
    if sample.function.__name__ in REFUSED:
        with pytest.raises(InputError, match="RG0603"):
            rg.autoscale(sample.function, sampler=sample.arguments, runs=2)
        return
    scaling = rg.autoscale(sample.function, sampler=sample.arguments, runs=2).scaling
    assert scaling is not None
    # Lognums and powers by them keep the places of the format, and the planets the points in their source.
    assert scaling.difference < {"power": 1e-8, "product_by_lognum": 1e-8, "planets": 1e-11}.get(name, 1e-13)


@reversible
def mean_force(y: Array[fixed, 2], a: Array[fixed, 2], b: Array[fixed, 2], c: fixed) -> None:
    with rg.routine() as r:
        t = a * b / c
        u = (a * b + a) / c
    y += t + u
    ~r


def test_the_point_of_an_array_stands_around_those_of_the_parts_of_its_value() -> None:
    scaling = rg.autoscale(mean_force, [0.0, 0.0], [1.5e4, 2.5e4], [3.1e4, 1.1e4], 1e9).scaling
    assert scaling.difference < 1e-13
    for name in "tu":
        (line,) = (line for line in scaling.source.splitlines() if line.strip().startswith(f"{name} = "))
        found = re.search(r"= fixed\[(\d+)\]\(fixed\[(\d+)\]\(a \* b.*\) / c\)$", line)
        assert found is not None, line
        assert int(found[1]) > int(found[2]), line


# ------------------------------------------------------------------ random programs of numbers of all sizes


def _random_function(seed: int, folder: Path) -> tuple[Any, tuple[float, ...], str]:
    """A function of three positive numbers whose expression has no difference, so that float64 is right to a few places."""
    rng = np.random.default_rng(seed)
    numbers = tuple(float(10.0 ** rng.uniform(-5, 5)) for _ in range(3))

    def expression(depth: int) -> str:
        if not depth or rng.random() < 0.15:
            return str(rng.choice(["a", "b", "c", repr(float(f"{10.0 ** rng.uniform(-6, 6):.3g}"))]))
        operation = rng.choice(["*", "/", "+", "sqrt"], p=[0.4, 0.3, 0.15, 0.15])
        if operation == "sqrt":
            return f"rg.sqrt({expression(depth - 1)})"
        return f"({expression(depth - 1)} {operation} {expression(depth - 1)})"

    text = expression(3)
    while not {"a", "b", "c"} & set(text.replace("sqrt", "")):
        text = expression(3)
    other = expression(2)
    source = (
        "import retrograd as rg\nfrom retrograd import fixed, reversible\n\n@reversible\n"
        "def made(y: fixed, a: fixed, b: fixed, c: fixed):\n"
        f"    with rg.routine() as r:\n        t = a * {other}\n        s = {text} * t\n    y += s / 3\n    ~r\n"
    )
    file = folder / f"made_{seed}.py"
    file.write_text(source)
    scope: dict[str, Any] = {"__name__": f"made_{seed}"}
    exec(compile(source, str(file), "exec"), scope)
    return scope["made"], numbers, source


def _value(source: str, numbers: tuple[float, ...]) -> Any:
    """y by mpmath."""
    lines = [line.strip() for line in source.splitlines()]
    names: dict[str, Any] = dict(zip("abc", map(mpmath.mpf, numbers), strict=True))
    for line in lines:
        if line.startswith(("t =", "s =")):
            text = line[4:].replace("rg.sqrt", "sqrt")
            text = re.sub(r"(?<![\w.])\d[\d.]*(?:e[+-]?\d+)?", lambda m: f"mpf('{m[0]}')", text)
            names[line[0]] = eval(text, {"sqrt": mpmath.sqrt, "mpf": mpmath.mpf}, names)
    return names["s"] / 3


@pytest.mark.parametrize("seed", range(300))
def test_random_programs_are_as_exact_as_float64(seed: int, tmp_path: Path) -> None:
    function, numbers, source = _random_function(seed, tmp_path)
    with mpmath.workdps(40):
        exact = _value(source, numbers)
        inside = 1e-15 < exact < 1e15
    if not inside:
        # Such numbers may be beyond every point of 64 bits, −64 … 128.
        return
    scaled = rg.autoscale(function, 0.0, *numbers)
    found = scaled(0.0, *numbers)
    assert abs(found.y - exact) <= 1e-14 * exact, (source, numbers, scaled.scaling.source)
    assert (~scaled)(*found).y == 0.0


# ------------------------------------------------------------------ where points are written


def _source(f: Any, *args: Any, **options: Any) -> str:
    scaling = rg.autoscale(f, *args, **options).scaling
    assert scaling is not None
    return str(scaling.source)


@reversible
def bare(x, y, t) -> None:
    rg.rot(x, y, t)
    x, y = y, x


def test_numbers_that_are_exchanged_have_one_point_and_missing_annotations_are_written() -> None:
    source = _source(bare, 1e5, 2.0, 0.25)
    assert "def bare(x: fixed[45], y: fixed[45], t: fixed[63])" in source


def test_the_places_of_functions_are_chosen_too() -> None:
    scaled = rg.autoscale(bare, 1e5, 2.0, 0.25)
    assert scaled.format == Format(64, 61)
    assert '@reversible(format="Q3.61")' in scaled.scaling.source
    assert scaled(1e5, 2.0, 0.25).x == pytest.approx(1e5 * math.sin(0.25) + 2 * math.cos(0.25), rel=1e-15)
    assert rg.autoscale(bare, 1e5, 2.0, 0.25, format="Q32.32").format == Format(64, 32)


@reversible
def moved(x, v, dt) -> None:
    t = v * dt
    x += t
    rg.free(t, v * dt)


@reversible
def calling(x: Array[fixed, 3], v: Array[fixed, 3], y: fixed, w: fixed) -> None:
    for k in range(3):
        moved(x[k], v[k], 1e-8)
    moved(y, w, 1e6)


def test_functions_that_are_called_have_points_and_numbers_passed_to_them_keep_their_bits() -> None:
    scaled = rg.autoscale(calling, [1.0, 2, 3], [1e9, 2e9, 3e9], 0.0, 5.0)
    assert "t: fixed[39] = v * dt" in scaled.scaling.source
    assert "moved(x[k], v[k], fixed[78](1e-8))" in scaled.scaling.source
    assert scaled([1.0, 2, 3], [1e9, 2e9, 3e9], 0.0, 5.0).x.tolist() == [11.0, 22.0, 33.0]
    # The function that was called is as it was.
    assert not isinstance(moved, type(scaled))
    assert "fixed[" not in rg.autoscale(moved, 1.0, 1.0, 1.0).of.source.text(moved.source.line + 2)


@reversible
def several(y: fixed, a: fixed, x: Array[fixed, "n"]) -> None:
    u, w = a * 1e6, a / 1e6
    t = rg.zeros(len(x))
    t += x * u
    d = x - a * w
    y += rg.sum(t * d)
    rg.free(d, x - a * w)
    t -= x * u
    rg.free(u, a * 1e6)
    rg.free(w, a / 1e6)


def test_tuples_arrays_and_expressions_of_arrays_have_points() -> None:
    source = _source(several, 0.0, 3.0, [1e-3, 2e-3])
    assert "u, w = fixed[40](a * 1e6), fixed[80](a / 1e6)" in source
    assert "rg.zeros(len(x), dtype=fixed[49])" in source
    assert "d = fixed[70](x - fixed[78](a * w))" in source


@reversible
def with_own_point(y: fixed[10], x: fixed) -> None:
    t: fixed[20] = x * 1e-3
    y += t
    rg.free(t, x * 1e-3)


def test_what_follows_from_a_written_point_is_chosen() -> None:
    """The point that the language gives to p, 32 − 51 + 32, is no point of the user's, and would keep no bit of it."""

    @reversible
    def f(y: fixed, x: fixed[40], m: fixed) -> None:
        with rg.routine() as r:
            s: fixed[51] = x * x
            p = m / s
        y += p * x
        ~r

    scaled = rg.autoscale(f, 0.0, 3.0, 1e-3)
    points = {row.name: row.point for row in scaled.scaling.rows}
    assert (points["x"], points["s"], points["p"]) == (40, 51, 75)
    assert scaled(0.0, 3.0, 1e-3).y == pytest.approx(1e-3 / 3, rel=1e-15)


def test_the_gradient_of_each_loss_is_tried() -> None:
    @reversible
    def f(y: fixed, z: fixed, x: fixed) -> None:
        y += x * x
        z += x * 1e-6

    assert rg.autoscale(f, 0.0, 0.0, 3.0, loss=["y", "z"]).scaling.margin == 1
    with pytest.raises(rg.RetrogradError, match="nothing"):
        rg.autoscale(f, 0.0, 0.0, 3.0, loss=["y", "nothing"])


def test_points_of_the_user_stay() -> None:
    source = _source(with_own_point, 0.0, 7.0)
    assert "def with_own_point(y: fixed[10], x: fixed[59])" in source
    assert "t: fixed[20] = x * 1e-3" in source


@reversible
def parts(y: fixed, s: fixed, i: fixed, beta: fixed) -> None:
    y += beta * s * i * 0.1


def test_a_part_of_an_expression_has_a_point_where_that_of_the_language_does_not_fit() -> None:
    source = _source(parts, 0.0, 8e7, 100.0, 3e-9)
    assert "y += fixed[57](fixed[64](beta * s) * i) * 0.1" in source


def test_only_what_loses_bits_or_does_not_fit_is_converted() -> None:
    # At p + q − F the product of two numbers of half the word has all of its bits.
    source = _source(parts, 0.0, 1.0, 1.0, 1.0, format="Q2.62")
    assert "y += beta * s * i * 0.1" in source


@reversible
def stacked(s: Stack[fixed, 10], x: fixed) -> None:
    rg.push(s, x)


@rg.struct
class Body:
    m: fixed
    x: fixed


@reversible
def torque(out: fixed, b: Body) -> None:
    out += b.m * b.x * 1e-20


@rg.struct
class Orbit:
    """A field that is a struct, an array, an int, and a field whose point is the user's."""

    body: Body
    x: Array[fixed, 2]
    n: int
    pinned: fixed[20]


@reversible
def shifted(b: Body, dt: fixed) -> None:
    b.x += dt * b.m * 1e-30


@reversible
def of_fields(out: fixed, o: Orbit, bodies: Array[Body, "n"], dt: fixed) -> None:
    shifted(o.body, dt)
    for i in range(len(bodies)):
        shifted(bodies[i], dt)
        t = Body(bodies[i].m * 2, bodies[i].x)
        out += t.x * o.x[1]
        rg.free(t, Body(bodies[i].m * 2, bodies[i].x))
    out += o.pinned * 1e-20


def test_fields_of_structs_have_points() -> None:
    """In the text of their class, and in a class of its name, which takes and gives what the user's class does."""
    arguments = 0.0, Orbit(Body(2e30, 3e-9), [1.0, 5e-6], 3, 0.25), [Body(1e27, 1e-9), Body(3e30, 2e-9)], 1e-9
    scaled = rg.autoscale(of_fields, *arguments)
    points = {row.name: row.point for row in scaled.scaling.rows}
    assert points["Body.m"] == -41
    assert points["Body.x"] == 89
    assert points["Orbit.x"] == 61
    assert scaled.scaling.source.startswith("@rg.struct\nclass Body:\n    m: fixed[-41]\n    x: fixed[89]\n")
    assert "    body: Body\n    x: Array[fixed[61], 2]\n    n: int\n    pinned: fixed[20]\n" in scaled.scaling.source
    there = scaled(*arguments)
    body = there.o.body
    assert isinstance(body, Body)
    assert body.x == pytest.approx(3e-9 + 1e-9 * 2e30 * 1e-30, rel=1e-14)
    assert there.out == pytest.approx(sum(b.x * 5e-6 for b in there.bodies) + 0.25e-20, rel=1e-12)
    back = (~scaled)(*there)
    assert (back.o.body.m, back.o.body.x, back.bodies[1].m) == pytest.approx((2e30, 3e-9, 3e30), rel=1e-15)
    again = pickle.loads(pickle.dumps(scaled))(*arguments)
    assert repr(again) == repr(there)
    copied = pickle.loads(pickle.dumps(body))
    assert copied == body == Body(body.m, body.x) == copied
    assert rg.grad(scaled, "bodies", "out")(*arguments)[1].x == pytest.approx(5e-6, rel=1e-9)
    assert Body(2.0, 3.0) != body


def test_fields_without_a_class_in_a_file_are_named() -> None:
    @reversible
    def tree(out: fixed, b) -> None:  # type: ignore[no-untyped-def]
        out += b.m * b.x * 1e-20

    scaling = rg.autoscale(tree, 0.0, {"m": 1e8, "x": 3.0}).scaling
    (note,) = [row.note for row in scaling.rows if row.name == "b.x"]
    assert note == "its type stands in a class: write `x: fixed[60]` there"


def test_wide_ranges_are_named() -> None:
    @reversible
    def wide(y: fixed, xs: Array[fixed, "n"]) -> None:
        for x in xs:
            y += x * x

    scaling = rg.autoscale(wide, 0.0, [1e-9, 1e9]).scaling
    (note,) = [row.note for row in scaling.rows if row.name == "xs"]
    assert note.startswith("its numbers span 2^60")
    assert "lognum" in note
    assert note in str(scaling)


# ------------------------------------------------------------------ functions with points


def test_a_pickle_has_the_points() -> None:
    scaled = rg.autoscale(calling, [1.0, 2, 3], [1e9, 2e9, 3e9], 0.0, 5.0)
    again = pickle.loads(pickle.dumps(scaled))
    args = ([1.0, 2, 3], [1e9, 2e9, 3e9], 0.0, 5.0)
    assert [np.ravel(x).tolist() for x in again(*args)] == [np.ravel(x).tolist() for x in scaled(*args)]
    assert again.scaling == scaled.scaling
    assert again.program(*args) == scaled.program(*args)


def test_options_batches_and_derivatives_have_the_points() -> None:
    scaled = rg.autoscale(orbit, *SI)
    plain = scaled.with_options(level=0)
    assert plain(*SI).x.tolist() == scaled(*SI).x.tolist()
    rows = rg.run_batch(scaled, np.array([SI[0]] * 3), np.array([SI[1]] * 3), *SI[2:], in_axes=(0, 0, None, None, None))
    assert rows.values.x.tolist() == [scaled(*SI).x.tolist()] * 3
    for engine in ("reference", "native"):
        assert rg.run(scaled, *SI, engine=engine).values.x.tolist() == scaled(*SI).x.tolist()


def test_an_input_beyond_the_measured_range_traps_and_names_the_point() -> None:
    scaled = rg.autoscale(parts, 0.0, 8e7, 100.0, 3e-9)
    with pytest.raises(InputError, match=r"RG0601[\s\S]*`s`"):
        scaled(0.0, 8e9, 100.0, 3e-9)
    with pytest.raises(ProgramTrap, match=r"RG0404[\s\S]*fixed\[\d+\]` holds"):
        scaled(0.0, 1.3e8, 120.0, 7e-9)


def test_a_margin_leaves_room() -> None:
    for margin in (0, 4):
        scaling = rg.autoscale(parts, 0.0, 8e7, 100.0, 3e-9, margin=margin).scaling
        rows = {row.name: row for row in scaling.rows}
        room = 2.0 ** (63 - rows["s"].point) / rows["s"].greatest
        assert 2.0**scaling.margin < room <= 2.0 ** (scaling.margin + 1)
        assert scaling.margin >= margin


@reversible
def decaying(y: fixed, x: fixed) -> None:
    y += rg.exp(x)


def test_results_that_lose_their_bits_give_a_warning() -> None:
    # With 32 places e^−20 has four bits; where F is chosen, it has more.
    with pytest.warns(rg.PrecisionWarning, match=r"differ from float64's by 0\.\d+ of their size"):
        rg.autoscale(decaying, 0.0, -20.0, format="Q32.32")
    assert rg.autoscale(decaying, 0.0, -1.0).scaling.difference < 1e-15


# ------------------------------------------------------------------ refusals


@reversible
def divided(y: fixed, x: fixed) -> None:
    y += 1 / x


@reversible
def logarithmic(y: fixed, x: lognum) -> None:
    y += rg.log(x)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: rg.autoscale(~orbit, *SI), "RG0603.*inverse"),
        (lambda: rg.autoscale(len, 1), "RG0603"),
        (lambda: rg.autoscale(logarithmic, 0.0, 1.0), "RG0603.*lognum"),
        (lambda: rg.autoscale(divided, 0.0, 0.0), "RG0604.*division by zero"),
        (lambda: rg.autoscale(divided, 0.0, math.nan), "RG0602.*`x`: nan"),
        (lambda: rg.autoscale(divided, 0.0, 1.0, margin=-1), "RG0507"),
        (lambda: rg.autoscale(divided, sampler=lambda r: (0.0, 1.0), runs=0), "RG0507"),
        (lambda: rg.autoscale(divided, 0.0, sampler=lambda r: (0.0, 1.0)), "RG0603.*sampler"),
    ],
)
def test_what_has_no_points_is_refused(call: Callable[[], Any], text: str) -> None:
    with pytest.raises(rg.RetrogradError, match=text):
        call()


@reversible
def overflowing(y: fixed, x: fixed) -> None:
    t = x * x * x * x * x
    y += t - t
    rg.free(t, x * x * x * x * x)


def test_numbers_beyond_float64_are_refused() -> None:
    """An infinity has no point, and the difference of two has no value: neither may pass for a number that was measured."""
    with pytest.raises(InputError, match=r"RG0604[\s\S]*beyond the range of float64"):
        rg.autoscale(overflowing, 0.0, 1e70)
    assert rg.autoscale(overflowing, 0.0, 1e10).scaling.difference == 0.0


def test_a_format_that_the_user_wrote_stays_as_it_is_written() -> None:
    @reversible(format="32,16")
    def narrow(y: fixed, x: fixed) -> None:
        y += x * 1e-3

    assert '@reversible(format="32,16")' in _source(narrow, 0.0, 2.0)


def test_a_failing_run_is_shown_at_its_place() -> None:
    with pytest.raises(InputError) as caught:
        rg.autoscale(divided, 0.0, 0.0)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.line is not None
    assert diagnostic.line.strip() == "y += 1 / x"


# ------------------------------------------------------------------ programs over real numbers


def _memory_over_real_numbers(f: Any, *args: Any) -> tuple[Any, list[Any]]:
    values = rg.run(f, *args).compiled  # the types of these arguments
    types = [a.type for a in values.arguments]
    lowered = lowered_for(f, types, Format(64, 32), real=True)
    program = RealProgram(rename_locals(inline_calls(lowered.module)))
    given = {a.address: x for a, x in zip(lowered.arguments, args, strict=True)}
    return lowered, program.run(given, {})


@reversible
def integers(n: int, a: int, b: int, c: int) -> None:
    for i in range(n):
        a += b * i ^ 5
        if a % 3 == 0:
            c += a >> 2
        b -= c // 7
        rg.rol(c, 3)
        a, b = b, a


@pytest.mark.parametrize("n", [0, 1, 7, 40])
def test_integers_are_the_words_of_the_machine(n: int) -> None:
    lowered, memory = _memory_over_real_numbers(integers, n, 11, -5, 3)
    found = [Format(64, 0).signed(memory[a.address] & (2**64 - 1)) for a in lowered.arguments]
    assert found == [int(x) for x in rg.run(integers, n, 11, -5, 3).values]


def test_sizes_are_those_of_the_run() -> None:
    scaling = rg.autoscale(orbit, *SI).scaling
    rows = {row.name: row for row in scaling.rows}
    assert rows["mass"].greatest == rows["mass"].least == 1.989e30
    assert rows["s"].greatest == pytest.approx(1.496e11**2, rel=1e-4)
    assert rows["x"].greatest >= 1.496e11
    assert Extent(2.0, 3.0) == Extent(2.0, 3.0)


# ------------------------------------------------------------------ command line

FILE = '''import retrograd as rg
from retrograd import Array, reversible


@reversible
def orbit(x: Array[rg.fixed, 2], v: Array[rg.fixed, 2], mass, dt, n: int):
    """A planet."""
    for _ in range(n):
        x += v * (dt * 0.5)
        with rg.routine() as r:
            s = x[0] * x[0] + x[1] * x[1]
            k = 6.674e-11 * mass * dt / (s * rg.sqrt(s))
        v -= k * x
        ~r
        x += v * (dt * 0.5)
'''
ARGUMENTS = ("[1.496e11, 0.0]", "[0.0, 29780.0]", "1.989e30", "8640.0", "100")


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    made = tmp_path / "orbits_in_si.py"
    made.write_text(FILE)
    return made


def test_the_command_shows_and_writes_points(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = f"{file.name}:orbit"
    assert main(["ranges", name, *ARGUMENTS, "--points"]) == 0
    shown = capsys.readouterr().out
    assert "def orbit(x: Array[rg.fixed[24], 2], v: Array[rg.fixed[47], 2], mass: rg.fixed[-39]" in shown
    assert file.read_text() == FILE
    assert main(["ranges", name, *ARGUMENTS, "--apply"]) == 0
    assert capsys.readouterr().out.endswith(f"written into {file.name}\n")
    written = file.read_text()
    assert written.splitlines()[0] == FILE.splitlines()[0]
    assert len(written.splitlines()) == len(FILE.splitlines())
    assert main(["run", name, *ARGUMENTS]) == 0
    assert "mass = 1.989e+30" in capsys.readouterr().out
    # All points are the user's now, and stay.
    assert main(["ranges", name, *ARGUMENTS, "--apply"]) == 0
    assert file.read_text() == written


@pytest.mark.parametrize(("encoding", "end"), [("latin-1", "\n"), ("utf-8", "\r\n"), ("utf-8-sig", "\n")])
def test_a_file_keeps_its_encoding_and_line_ends(encoding: str, end: str, file: Path) -> None:
    head = f"# -*- coding: {encoding} -*-\n" if encoding == "latin-1" else ""
    old = f"{head}{FILE}# Käthe\n".replace("\n", end).encode(encoding)
    file.write_bytes(old)
    assert main(["ranges", f"{file.name}:orbit", *ARGUMENTS, "--apply"]) == 0
    new = file.read_bytes()
    changed = [line for line, before in zip(new.splitlines(True), old.splitlines(True), strict=True) if line != before]
    assert 1 < len(changed) < 6
    assert all(b"fixed[" in line and line.endswith(end.encode()) for line in changed)
    assert main(["run", f"{file.name}:orbit", *ARGUMENTS]) == 0


def test_the_functions_of_a_file_are_named(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Classes that it imports are none."""
    assert main(["ranges", f"{file.name}:missing", *ARGUMENTS, "--apply"]) == 2
    assert "it defines orbit\n" in capsys.readouterr().err


def test_the_command_as_json(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ranges", f"{file.name}:orbit", *ARGUMENTS, "--points", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["schema"] == "retrograd.autoscale/1"
    (mass,) = [v for v in found["variables"] if v["name"] == "mass"]
    assert mass["point"] == -39
    assert Fraction(mass["resolution"]) == 2**39


def test_room_without_points_is_refused(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ranges", f"{file.name}:orbit", *ARGUMENTS, "--margin", "2"]) == 2
    assert "RG0512" in capsys.readouterr().err


def test_points_of_another_file_are_not_written(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "from retrograd import fixed, library, reversible\n\n@reversible\ndef f(y: fixed, x: fixed):\n    library.norm2(y, [x, x])\n"
    text = text.replace("    library.norm2(y, [x, x])\n", "    g(y, x)\n").replace(
        "import fixed, library, ", "import fixed, "
    )
    (file.parent / "other_points.py").write_text(
        "from retrograd import fixed, reversible\n\n@reversible\ndef g(y: fixed, x: fixed):\n    t = x * 1e6\n    y += t * t\n    del t\n".replace(
            "    del t\n", "    t -= x * 1e6\n"
        )
    )
    (file.parent / "calls_other.py").write_text(text.replace("\n\n@", "\nfrom other_points import g\n\n@"))
    assert main(["ranges", "calls_other.py:f", "0.0", "3.0", "--apply"]) == 2
    assert "other_points.py" in capsys.readouterr().err


def test_an_import_is_written_where_it_is_missing(file: Path) -> None:
    text = (
        FILE.replace("rg.fixed", "F")
        .replace("import retrograd as rg\n", "import retrograd\n")
        .replace("rg.", "retrograd.")
    )
    text = text.replace(
        "from retrograd import Array, reversible\n",
        "from retrograd import Array, reversible\nfrom retrograd import fixed as F\n\n",
    )
    file.write_text(text)
    assert main(["ranges", f"{file.name}:orbit", *ARGUMENTS, "--apply"]) == 0
    assert "mass: F[-39]" in file.read_text()


def test_points_of_fields_are_written_into_their_class(file: Path) -> None:
    text = (
        "import retrograd as rg\n\n\n@rg.struct\nclass Planet:\n    m: float  # kg\n    x: rg.Array[rg.fixed, 2]\n\n\n"
        "@rg.reversible\ndef torque(out: rg.fixed, p: Planet):\n    out += p.m * p.x[0] * 1e-20\n"
    )
    made = file.parent / "planets_in_si.py"
    made.write_text(text)
    arguments = ["0.0", '{"m": 1e28, "x": [3.0, -1.0]}']
    assert main(["ranges", f"{made.name}:torque", *arguments, "--apply"]) == 0
    written = made.read_text()
    assert "    m: rg.fixed[-32]  # kg\n    x: rg.Array[rg.fixed[60], 2]\n" in written
    assert main(["run", f"{made.name}:torque", *arguments]) == 0
    assert main(["ranges", f"{made.name}:torque", *arguments, "--apply"]) == 0
    assert made.read_text() == written


def test_library_functions_are_called_with_points() -> None:
    @reversible
    def length(y: fixed, xs: Array[fixed, "n"]) -> None:
        library.norm(y, xs)

    scaled = rg.autoscale(length, 0.0, [3e9, 4e9])
    assert scaled(0.0, [3e9, 4e9]).y == 5e9


@rg.functional
def halves(x: fixed, n: int) -> fixed:
    return 0.0 if n == 0 else x + halves(x / 2, n - 1)


@rg.functional
def difference(xs):  # type: ignore[no-untyped-def]
    return xs[0] - xs[1]


@reversible
def of_functional_functions(y: fixed, x: fixed, xs: Array[fixed, 2], small: fixed) -> None:
    y += halves(x, 20) + difference(xs)
    y += small * xs[1]


@pytest.mark.parametrize(("size", "frac"), [(3000.0, 49), (3e-5, 60)])
def test_functional_functions_decide_where_the_point_of_the_format_is(size: float, frac: int) -> None:
    """F holds what they compute; arrays that are passed to them stay at F, and other variables have points."""
    arguments = 0.0, size, [size / 4, size / 8], size * 1e-9
    scaled = rg.autoscale(of_functional_functions, *arguments)
    assert scaled.format.frac == frac
    exact = size * (2 - 2.0**-19) + size / 8 + size * 1e-9 * size / 8
    assert scaled(*arguments).y == pytest.approx(exact, rel=2.0 ** -(frac - 8) / size)
    assert "xs: Array[fixed, 2]" in scaled.scaling.source
    points = {row.name: row.point for row in scaled.scaling.rows}
    assert points["xs"] == frac
    assert points["small"] > frac + 20
    assert rg.grad(scaled)(*arguments).x == pytest.approx(2 - 2.0**-19, rel=1e-12)


@reversible
def gathered(y: Array[fixed, 8], x: Array[fixed, 32], index: Array[int, 8]) -> None:
    for i in range(8):
        with rg.routine() as r:
            j = (3 * index[i] + i) % 32
            t = x[j] * x[j]
        y[(i * 5) % 8] += t * x[(j + 1) % 32]
        ~r


def test_what_ends_with_its_block_is_not_undone_over_real_numbers() -> None:
    """Addresses and temporaries are computed once; what they lead to in memory is put back."""
    rng = np.random.default_rng(2)
    x, index = rng.normal(size=32).tolist(), rng.integers(0, 30, size=8).tolist()
    types = [a.type for a in rg.run(gathered, [0.0] * 8, x, index).compiled.arguments]
    lowered = lowered_for(gathered, types, Format(64, 32), real=True)
    program = RealProgram(rename_locals(inline_calls(lowered.module)))
    given: dict[int, Any] = {}
    for argument, values in zip(lowered.arguments, ([0.0] * 8, x, index), strict=True):
        given.update(enumerate(values, argument.address))
    memory = program.run(given, {})
    at = [(3 * n + i) % 32 for i, n in enumerate(index)]
    for i, j in enumerate(at):
        assert memory[lowered.arguments[0].address + i * 5 % 8] == pytest.approx(x[j] ** 2 * x[(j + 1) % 32])
    assert memory[lowered.arguments[1].address : lowered.arguments[1].address + 32] == x
    assert sum("* 5" in line for line in program._lines) == 1


def test_an_element_that_takes_the_bits_of_the_others_is_named() -> None:
    @reversible
    def total(y: fixed, xs: Array[fixed, "n", 2]) -> None:
        for x in xs:
            y += x[0] * x[1] * 1e-3

    xs = [[1.0, 2.0], [3.0, 4000.0], [5.0, 6.0]]
    (note,) = [row.note for row in rg.autoscale(total, 0.0, xs).scaling.rows if row.name == "xs"]
    assert note.startswith("xs[1, 1] is much greater than each other element")
    assert note.endswith("leaves the others 9 bits more")
    (note,) = [
        row.note for row in rg.autoscale(total, 0.0, [[1.0, 2.0], [30.0, 40.0]]).scaling.rows if row.name == "xs"
    ]
    assert note == ""


def test_a_number_that_was_always_0_has_the_point_of_what_it_is_added_to() -> None:
    """At F its cotangent has too many places: it would overflow, and all derivatives would have fewer bits."""

    @reversible
    def filtered(loss: fixed, x: fixed, z: fixed, gain: fixed) -> None:
        with rg.routine() as r:
            seen = z - x
        loss += gain * seen * seen
        ~r

    arguments = 0.0, 0.0, 1e-6, 3.0
    scaled = rg.autoscale(filtered, *arguments)
    points = {row.name: row.point for row in scaled.scaling.rows}
    assert points["x"] == points["seen"] == 81
    assert rg.gradient_report(scaled)(*arguments).scale >= 20
    assert scaled(0.0, 1e-7, 1e-6, 3.0).loss == pytest.approx(3 * 0.9e-6**2, rel=1e-10)


# ------------------------------------------------------------------ gradients within programs


@reversible
def potential(e: fixed, m: Array[fixed, 2], q: Array[fixed, 2, 2]) -> None:
    with rg.routine() as r:
        d = q[1] - q[0]
        s = rg.sqrt(rg.sum(d * d))
    e -= G * m[0] / s * m[1]
    ~r


slope_of_potential = rg.reversible_gradient(potential, "q")


@reversible
def moved_by_a_potential(m: Array[fixed, 2], q: Array[fixed, 2, 2], v: Array[fixed, 2, 2], dt: fixed, n: int) -> None:
    for _ in range(n):
        q += v * (dt / 2)
        with rg.routine() as r:
            g = rg.zeros((2, 2))
            unused = fixed(0)
            slope_of_potential(unused, m, q, g)
        for i in range(2):
            v[i] -= g[i] / m[i] * dt
        ~r
        q += v * (dt / 2)


def test_programs_with_gradients_have_points() -> None:
    """Sun and Earth in SI units, by the gradient of a potential: the function that is derived has points, too."""
    arguments = [1.989e30, 5.972e24], [[0.0, 0.0], [1.496e11, 0.0]], [[0.0, 0.0], [0.0, 29780.0]], 8640.0, 50
    scaled = rg.autoscale(moved_by_a_potential, *arguments)
    assert scaled.scaling.difference < 1e-14
    assert "rg.sqrt(fixed[-13](rg.sum(d * d)))" in scaled.scaling.source
    there = scaled(*arguments)
    x, v = np.array(arguments[1]), np.array(arguments[2])
    for _ in range(50):
        x += v * 4320.0
        d = x[1] - x[0]
        pull = G * d / np.sqrt(d @ d) ** 3 * 8640.0
        v += [pull * 5.972e24, -pull * 1.989e30]
        x += v * 4320.0
    assert np.abs(there.q - x).max() < 1e-3
    back = (~scaled)(*there)
    assert back.q.tolist() == arguments[1]
    assert back.v.tolist() == arguments[2]


def test_points_of_the_user_beside_a_gradient_are_refused() -> None:
    @reversible
    def pinned(m: Array[fixed, 2], q: Array[fixed[20], 2, 2], g: Array[fixed, 2, 2]) -> None:
        unused = fixed(0)
        slope_of_potential(unused, m, q, g)
        rg.free(unused, 0)

    with pytest.raises(InputError, match=r"holds a gradient, and `.*` has a point already"):
        rg.autoscale(pinned, [1.0, 2.0], [[0.0, 0.0], [1.0, 0.0]], [[0.0, 0.0], [0.0, 0.0]])
