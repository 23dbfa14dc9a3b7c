"""`rg.ranges`: no number of a run lies outside of its ranges, and the formats that it names hold the runs."""

from __future__ import annotations

import ast
import json
import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from retrograd.isa.diagnostics import CompileError, InputError

import retrograd as rg
from retrograd import Array, fixed, library, lognum, reversible
from retrograd.cli.main import main
from retrograd.observe._session import Session
from retrograd.runtime._binding import bind
from retrograd.runtime._execution import ProgramTrap, load
from tests.number_ranges.samples import EXAMPLES, LIBRARY, SAMPLES, WITHOUT_NUMBERS, Sample


@reversible
def weighted(y: fixed, xs: Array[fixed, "n"], k: fixed) -> None:
    with rg.routine() as squares:
        s = 0.0
        for x in xs:
            s += x * x
    y += s * k
    ~squares


@reversible
def branches(y: fixed, x: fixed, n: int) -> None:
    for i in range(n):
        t = x * 0.5
        if t > 1.0:
            y += rg.exp(t) - i
        else:
            y -= rg.sqrt(x) * 0.125
        del t


@reversible
def temporary_only(y: fixed, x: fixed) -> None:
    """The term is greater than all variables."""
    y += x * x * 1000.0 - x * x * 999.0


@rg.functional
def steep(x: fixed) -> fixed:
    return rg.tanh(x) * 30.0 + x * x


def numbers(value: Any) -> list[Fraction]:
    if isinstance(value, list):
        return [n for item in value for n in numbers(item)]
    return [abs(value)] if isinstance(value, Fraction) and value else []


@pytest.mark.parametrize(
    ("f", "args"),
    [
        (weighted, (0.25, [0.5, -3.0, 0.001], 2.0)),
        (branches, (0.0, 3.5, 3)),
        (branches, (0.0, 0.01, 2)),
        (temporary_only, (0.0, 1.5)),
        (~weighted, (9.0, [0.5, -3.0], 2.0)),
    ],
)
def test_no_variable_leaves_its_range(f: Any, args: tuple[Any, ...]) -> None:
    """The debugger shows the values of all variables after each step."""
    found = rg.ranges(f, *args)
    least: dict[str, float] = {}
    greatest: dict[str, float] = {}
    for r in found.values:
        if r.greatest:
            least[r.name] = min(least.get(r.name, r.least), r.least)
            greatest[r.name] = max(greatest.get(r.name, 0.0), r.greatest)
    function = ~f if isinstance(f, rg.Inverse) else f
    given = bind(function, args, {})
    session = Session(load(function.compiled(*given), given, backward=function is not f, engine="reference"))
    checked = 0
    while not session.machine.at_end:
        session.step()
        for v in session.variables():
            for n in numbers(v.value):
                name = v.name.partition("[")[0]
                assert least[name] <= n <= greatest[name], (v.name, float(n))
                checked += 1
    assert checked > 10


def test_terms_are_measured() -> None:
    found = rg.ranges(temporary_only, 0.0, 1.5)
    assert found.greatest >= 1.5 * 1.5 * 999


OWN = {
    "weighted": Sample(weighted, lambda g: (0.0, g.normal(size=4) * 10.0 ** g.integers(-2, 3), g.normal()), "y"),
    "branches": Sample(branches, lambda g: (g.normal(), float(g.uniform(0.1, 12.0)), int(g.integers(0, 4))), "y"),
    "functional": Sample(steep, lambda g: (g.normal(), 0.0)),
}
#: of the default tier
FEW = ["dot", "logsumexp", "softmax", "power", "iexp"]
#: their greatest value is no constant and no round number, so a format with one bit less overflows
STEEP = ("weighted", "dot", "norm", "matvec")


def holds(f: Any, sampler: Any, runs: int, seed: int, *, steep: bool = False) -> None:
    """Measure, and run the same inputs in the formats that are named: forward, and for gradients back."""
    found = rg.ranges(f, sampler=sampler, runs=runs, seed=seed)
    inputs = inputs_of(sampler, runs, seed)
    for width in (32, 64):
        try:
            w = found.fits(width)
        except InputError:
            assert width < 64
            continue
        for args in inputs:
            rg.run(f, *args, format=w)
    narrow = found.fits(64, margin=-1)
    overflows = 0
    for args in inputs:
        try:
            rg.run(f, *args, format=narrow)
        except (ProgramTrap, InputError, CompileError):
            overflows += 1
    # A format without the bit that the greatest value needs overflows, unless constants need it, too.
    assert overflows or not steep or 63 - narrow.frac == found.constant_bits


def gradient_holds(f: Any, loss: str, sampler: Any, runs: int, seed: int) -> None:
    """The gradients do not overflow in the format of the values, at the scale that is named for it, and at twice the scale they do."""
    found = rg.ranges(rg.grad(f, loss=loss), sampler=sampler, runs=runs, seed=seed)
    w = found.fits(64)
    k = found.scale(w)
    inputs = inputs_of(sampler, runs, seed)
    if k < 0:
        w, k = rg.Format(64, w.frac + k), 0
    for args in inputs:
        rg.grad(f, loss=loss, format=w, scale=min(k, 62 - w.frac))(*args)


def inputs_of(sampler: Any, runs: int, seed: int) -> list[tuple[Any, ...]]:
    rng = np.random.default_rng(seed)
    return [tuple(sampler(rng)) for _ in range(runs)]


@pytest.mark.parametrize("name", [*OWN, *FEW])
def test_the_proposed_format_holds(name: str) -> None:
    s = (OWN | SAMPLES)[name]
    holds(s.function, s.arguments, 4, 1, steep=name in STEEP)
    if s.loss:
        gradient_holds(s.function, s.loss, s.arguments, 2, 1)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("name", [*OWN, *SAMPLES])
def test_the_proposed_format_holds_for_many_inputs(name: str, seed: int) -> None:
    s = (OWN | SAMPLES)[name]
    holds(s.function, s.arguments, s.runs, 100 + seed, steep=name in STEEP)
    if s.loss:
        gradient_holds(s.function, s.loss, s.arguments, s.runs, 100 + seed)


def test_every_function_of_the_library_has_samples() -> None:
    assert {*library.__all__} == {*LIBRARY, *WITHOUT_NUMBERS}
    missing = []
    for path in sorted(Path("examples").glob("*.py")):
        tree = ast.parse(path.read_text())
        functions = [n for n in tree.body if isinstance(n, ast.FunctionDef) and "fixed" in ast.unparse(n.args)]
        made = [n.name for n in functions if any("reversible" in ast.unparse(d) for d in n.decorator_list)]
        sampled = {s.function.__name__ for s in EXAMPLES.values()}
        if made and not sampled & {*made}:
            missing.append(path.name)
    # A chain that erases has no way back.
    assert missing == []


def test_gradients_and_their_scale() -> None:
    gradient = rg.grad(weighted, ["xs", "k"], "y")
    args = (0.0, [0.5, -3.0, 0.01], 0.001)
    found = rg.ranges(gradient, *args)
    assert {r.name for r in found.cotangents} >= {"xs", "k", "y"}
    assert max(r.greatest for r in found.cotangents if r.name == "k") == pytest.approx(9.2501)
    plain = gradient(*args)
    scaled = rg.grad(weighted, ["xs", "k"], "y", scale=found.scale())(*args)
    assert np.allclose(plain[0], scaled[0])
    with pytest.raises(ProgramTrap):
        rg.grad(weighted, ["xs", "k"], "y", scale=found.scale(margin=-1))(*args)


def test_an_overflow_is_measured_in_a_coarser_format() -> None:
    found = rg.ranges(weighted, 0.0, [3000.0, 1.0], 1000.0, format="Q16.16")
    assert str(found.format) != "Q16.16"
    assert found.greatest == pytest.approx(9e9, rel=1e-3)
    with pytest.raises(InputError, match="RG0604"):
        found.fits(32)
    assert rg.run(weighted, 0.0, [3000.0, 1.0], 1000.0, format=found.fits(64)).values.y == pytest.approx(9.000001e9)
    with pytest.raises(ProgramTrap):
        rg.ranges(branches, 0.0, -1.0, 1)


def test_wrong_arguments() -> None:
    for wrong in (
        lambda: rg.ranges(3),
        lambda: rg.ranges(weighted, 0.0, sampler=lambda g: ()),
        lambda: rg.ranges(weighted, runs=0),
    ):
        with pytest.raises(InputError):
            wrong()
    with pytest.raises(InputError, match="RG0603"):
        rg.ranges(weighted, 0.0, [1.0], 1.0).scale()


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "own.py"
    file.write_text("import retrograd as rg\n@rg.reversible\ndef f(y: rg.fixed, x: rg.fixed):\n    y += x * x\n")
    assert main(["ranges", f"{file}:f", "0", "3", "--loss", "y"]) == 0
    out = capsys.readouterr().out
    assert "Q6.58 holds the values" in out
    assert "cotangents" in out
    assert main(["ranges", f"{file}:f", "0", "3", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["schema"] == "retrograd.ranges/1"
    assert found["fits"] == "Q6.58"
    assert main(["ranges", f"{file}:f", "0", "3", "--max-steps", "2"]) == 4
    assert main(["ranges", str(file)]) == 2


@reversible
def square(z: lognum, x: lognum) -> None:
    z *= x * x


@pytest.mark.parametrize("width", [8, 16, 32, 64])
@pytest.mark.parametrize("x", [1.5, 128.0, 0.01, 2.0**-7.9, 1e9])
def test_the_finest_format_that_holds_logarithms(x: float, width: int) -> None:
    """With one place more the logarithm wraps, and with room for a bit the format is as fine or coarser."""
    found = rg.ranges(square, 1.0, x)
    holds = found.fits(width, margin=0)

    def error(w: rg.Format) -> float:
        return abs(math.log2(rg.run(square, 1.0, x, format=w).values.z) - 2 * math.log2(x))

    assert error(holds) <= 2 * 2.0**-holds.frac + 1e-13
    if holds.frac < width - 1:
        assert error(rg.Format(width, holds.frac + 1)) > 1
    assert found.fits(width).frac <= holds.frac


@reversible
def times(y: fixed, x: fixed, c: rg.static) -> None:
    y += x * c


@reversible
def plus(y: fixed, x: fixed, c: rg.static) -> None:
    y += x + c


@pytest.mark.filterwarnings("ignore::retrograd.isa.diagnostics.PrecisionWarning")
@pytest.mark.parametrize("x", [1.0, 1000.0, 1e6, 1e12])
@pytest.mark.parametrize("c", [0.5, 0.1, 1e-6, 1e-9, 6.674e-11])
def test_the_format_keeps_the_bits_of_the_constants(c: float, x: float) -> None:
    """It holds both, or there is no such format: the finest format that holds the values loses bits of the constant.

    A factor has a point of its own in every format.
    """
    measured = rg.Format(64, 20 if c == 0.5 else 35)
    if x > 2.0 ** (63 - measured.frac):
        return
    found = rg.ranges(plus, 0.0, x, c, format=measured)
    finest = rg.Format(64, 63 - 1 - int(np.frexp(x)[1]))
    if finest.keeps(c):
        assert found.fits() == finest
    else:
        with pytest.raises(InputError, match=f"RG0604.*the constant {c:.6g} of line"):
            found.fits()
    with pytest.raises(InputError, match="RG0604"):
        rg.ranges(plus, 0.0, 1.0, 1e-9).fits(32)
    assert rg.ranges(times, 0.0, x, c, format=measured).fits() == finest


@pytest.mark.filterwarnings("ignore::retrograd.isa.diagnostics.PrecisionWarning")
def test_a_run_that_overflows_where_a_constant_holds() -> None:
    with pytest.raises(
        InputError, match="a run overflows in finer formats, and in Q40\\.24 a constant of the source is 0"
    ):
        rg.ranges(plus, 0.0, 1e11, 1e-9)
    assert rg.ranges(times, 0.0, 1e11, 1e-9).format == rg.Format(64, 24)


def test_a_notebook_shows_tables() -> None:
    """Each row of the text, escaped, and the advice."""
    found = rg.ranges(rg.grad(weighted, loss="y"), 0.0, [1.0, 2.0], 0.5)
    shown = found._repr_html_()
    assert shown.count("<table>") == 2
    assert shown.count("<tr>") == 2 + len(found.values) + len(found.cotangents)
    for r in (*found.values, *found.cotangents):
        assert f"<td>{r.name or 'terms'}</td><td>{r.line or ''}</td><td>{r.least:.3g}</td>" in shown
    assert "is the greatest scale of the gradient" in shown
    hostile = replace(found, function="<b>f", values=(replace(found.values[0], name="<i>x&"),))
    assert "<b>" not in hostile._repr_html_()
    assert "&lt;i&gt;x&amp;" in hostile._repr_html_()


# ---------------------------------------------------------------------- fields and stacks


@rg.struct
class Pair:
    a: fixed
    b: fixed


@pytest.mark.parametrize("level", [0, 1])
def test_fields_and_elements_of_stacks_have_their_own_names(level: int) -> None:
    @reversible(level=level)
    def f(ps: Array[Pair, 2], q: Pair, s: rg.Stack[fixed, 4], t: rg.Stack[complex, 4], x: fixed, z: complex) -> None:
        for i in range(2):
            ps[i].a += 1.0
            ps[i].b += 2.0
        q.a += 4.0
        q.b += 8.0
        rg.push(s, x)
        rg.push(t, z)

    pair = Pair(0.0, 0.0)
    found: dict[str, float] = {}
    for r in rg.ranges(f, [pair, pair], pair, [64.0], [], 16.0, 32 + 128j).values:
        found[r.name] = max(found.get(r.name, 0.0), r.greatest)
    expected = {"ps.a": 1, "ps.b": 2, "q.a": 4, "q.b": 8, "s": 64, "t.re": 32, "t.im": 128, "x": 16, "z.re": 32}
    assert {name: found[name] for name in expected} == expected
