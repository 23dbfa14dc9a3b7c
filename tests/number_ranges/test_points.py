"""Ranges and error bounds of programs with binary points of their own: each number at its point."""

from __future__ import annotations

import json
import warnings
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from retrograd.isa.words import Format

import retrograd as rg
from retrograd.cli.main import main
from tests.language.test_points import compiled, program

_ORBIT = """
@rg.reversible
def orbit(x: rg.Array[fixed[{x}], 2], v: rg.Array[fixed[{v}], 2], mass: fixed[{mass}], dt: fixed[{dt}], n: int):
    for _ in range(n):
        x += v * (dt * 0.5)
        with rg.routine() as r:
            s: fixed[{s}] = x[0] * x[0] + x[1] * x[1]
            u: fixed[{u}] = fixed[{t}](6.674e-11 * mass * dt) / rg.sqrt(s)
            k: fixed[{k}] = u / s
        v -= k * x
        ~r
        x += v * (dt * 0.5)
"""
_POINTS = {"x": 21, "v": 46, "mass": -40, "dt": 40, "s": -13, "u": 18, "t": -17, "k": 92}
_ARGUMENTS = ([1.496e11, 0.0], [0.0, 29780.0], 1.989e30, 8640.0, 4)


def orbit(places: int = 0, **others: int) -> Any:
    """The orbit with so many places more everywhere, and with other points of some variables."""
    points = {name: point + places for name, point in (_POINTS | others).items()}
    return compiled(_ORBIT.format(**points), "orbit", format=f"64,{32 + places}")


@pytest.mark.parametrize("first", range(0, 5000, 25))
def test_no_error_of_a_program_with_points_is_beyond_the_bound(first: int) -> None:
    """|result − exact| ≤ bound + terms of second order, in rationals, for the programs of the language's test."""
    near = 0
    for seed in range(first, first + 25):
        w = Format(*((64, 32), (64, 48), (32, 16))[seed % 3])
        text, term, point, args = program(seed, w)
        f = compiled(text, format=f"{w.width},{w.frac}")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", rg.PrecisionWarning)
            try:
                [word] = rg.run(f, 0.0, *args, engine="reference").words["y"]
                found = rg.error_bound(f, 0.0, *args)
            except (rg.CompileError, rg.ProgramTrap):
                continue
        result = w.at(point).to_real(word)
        # The program whose roundings are recorded is the same.
        assert found.value == float(result), text
        error_, unit = abs(result - term.value), Fraction(2) ** -point
        bound = Fraction(found.bound)
        assert error_ <= bound * Fraction(102, 100) + 2 * term.second + unit / 64, (text, float(error_ / unit), found)
        near += error_ > bound / 10
    # A bound that is far too high says nothing.
    assert near >= 5


def test_every_number_is_measured_at_its_own_point() -> None:
    found = rg.ranges(orbit(), *_ARGUMENTS)
    points = {(r.name, r.point) for r in found.values if r.name}
    assert points == {(name, point) for name, point in _POINTS.items() if name != "t"}
    by_name = {r.name: r for r in found.values if not r.line}
    assert by_name["mass"].greatest == pytest.approx(1.989e30)
    assert by_name["dt"].greatest == 8640.0
    # A term of `x` has its point, and a temporary that of its expression.
    assert {r.point for r in found.values if not r.name} >= {21, 46, -17, 9}
    [k] = [r for r in found.values if r.name == "k" and r.line == 9]
    assert k.least == pytest.approx(6.674e-11 * 1.989e30 * 8640.0 / 1.496e11**3, rel=1e-3)


def test_the_table_names_points_and_the_finest_that_hold_the_numbers() -> None:
    text = str(rg.ranges(orbit(), *_ARGUMENTS))
    head = next(line for line in text.splitlines() if line.startswith("values"))
    assert head.split() == ["values", "line", "least", "greatest", "bits", "point", "finest"]
    # 1.5e11 < 2^38
    assert any(line.split()[0] == "x" and line.split()[-2:] == ["21", "24"] for line in text.splitlines() if line)
    assert "point" not in str(
        rg.ranges(compiled("@rg.reversible\ndef f(y: fixed, x: fixed):\n    y += x * x\n"), 0.0, 2.0)
    )


@pytest.mark.parametrize("name", ["x", "v", "mass", "dt"])
def test_the_finest_point_of_a_variable_holds_it(name: str) -> None:
    """With one bit of room, so that one place more is possible, and two are not."""
    measured = rg.ranges(orbit(), *_ARGUMENTS).values
    finest = min(r.fits() for r in measured if r.name == name)
    assert finest == {"x": 24, "v": 47, "mass": -39, "dt": 48}[name]
    rg.run(orbit(**{name: finest}), *_ARGUMENTS[:-1], 0)
    rg.run(orbit(**{name: finest + 1}), *_ARGUMENTS[:-1], 0)
    with pytest.raises(rg.RetrogradError, match="RG0601") as error:
        rg.run(orbit(**{name: finest + 2}), *_ARGUMENTS[:-1], 0)
    # What an argument that left its range is told is the point that holds it.
    assert f"`fixed[{finest + 1}]`" in str(error.value)


def test_the_format_moves_all_points() -> None:
    found = rg.ranges(orbit(-3), *_ARGUMENTS)
    places = found.fits().frac - found.format.frac
    assert places > 0
    rg.run(orbit(-3 + places), *_ARGUMENTS)
    with pytest.raises(rg.RetrogradError, match=r"RG0404|RG0601"):
        rg.run(orbit(-3 + places + 2), *_ARGUMENTS)
    assert f"{found.fits()} holds the values, with one bit of room, where each point of its own has {places}" in str(
        found
    )


@pytest.mark.parametrize("tolerance", [1.0, 1e-3, 3e-6])
def test_the_format_of_a_tolerance_moves_all_points(tolerance: float) -> None:
    first = rg.error_bound(orbit(), *_ARGUMENTS, loss="x[1]")
    w = first.fits(tolerance)
    again = rg.error_bound(orbit(w.frac - 32), *_ARGUMENTS, loss="x[1]", precision="ignore")
    assert tolerance / 4 < again.bound <= tolerance * 1.05


def test_the_lines_of_a_bound_name_points() -> None:
    found = rg.error_bound(orbit(), *_ARGUMENTS, loss="x[0]")
    assert {line.line: line.point for line in found.lines}[5] == _POINTS["x"]
    assert "fixed[21]" in str(found)


def test_a_number_of_the_source_counts_at_its_own_point() -> None:
    """0.1 beside the point 50 is wrong by less than 2^−51, and 3.0 at the point −1 is 4.0."""
    f = compiled("@rg.reversible\ndef f(y: fixed[50], x: fixed[50]):\n    y += x + 0.1\n")
    assert rg.error_bound(f, 0.0, 0.5).bound <= 2.0**-51
    g = compiled("@rg.reversible\ndef g(y: fixed[-1], x: fixed[-1]):\n    y += x + 3.0\n", "g")
    assert rg.error_bound(g, 0.0, 8.0).bound == 1.0


def test_a_number_of_which_nothing_is_left_counts() -> None:
    """x of the point 64 is less than half of a unit of y: fixed[0]."""
    f = compiled("@rg.reversible\ndef f(y: fixed[0], x: fixed[64]):\n    y += x\n")
    assert rg.run(f, 0.0, 0.4).values.y == 0.0
    assert rg.error_bound(f, 0.0, 0.4).bound >= 0.4


def test_cotangents_and_their_scale() -> None:
    f = orbit()
    found = rg.ranges(rg.grad(f, loss="x[0]"), *_ARGUMENTS)
    mass = min((r for r in found.cotangents if r.name == "mass"), key=lambda r: r.line)
    exact = rg.grad(f, "mass", loss="x[0]")(*_ARGUMENTS)
    assert mass.greatest == pytest.approx(abs(exact), rel=1e-3)
    # A cotangent of the point p has F + q − p places.
    assert mass.point == 32 + 21 + 40
    scale = found.scale()
    assert rg.grad(f, "mass", loss="x[0]", scale=scale)(*_ARGUMENTS) == pytest.approx(exact, rel=1e-6)
    with pytest.raises(rg.RetrogradError, match=r"RG0404|RG0603"):
        rg.grad(f, "mass", loss="x[0]", scale=scale + 3)(*_ARGUMENTS)


def test_cotangents_that_overflow_at_every_scale_are_an_error() -> None:
    """None of them is measured as 0 where the least scales of a format begin with no bit."""
    f = compiled("@rg.reversible\ndef f(y: fixed[20], x: fixed[-10]):\n    y += x\n", format="32,16")
    with pytest.raises(rg.ProgramTrap, match="RG0404"):
        rg.ranges(rg.grad(f), 0.0, 1024.0)
    steep = compiled("@rg.reversible\ndef f(y: fixed[20], x: fixed[4]):\n    y += x\n", format="32,16")
    found = rg.ranges(rg.grad(steep), 0.0, 1024.0)
    assert {r.greatest for r in found.cotangents} == {1.0}


def test_the_command_prints_points(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "own.py"
    file.write_text(
        "import retrograd as rg\n@rg.reversible\ndef f(y: rg.fixed[50], x: rg.fixed[40]):\n    y += x * x\n"
    )
    assert main(["ranges", f"{file}:f", "0", "0.5", "--loss", "y", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {r["name"]: r["point"] for r in found["values"]} == {"x": 40, "y": 50, "": 50}
    assert {r["name"]: r["point"] for r in found["cotangents"]} == {"x": 42, "y": 32}
    assert [line["point"] for line in found["error_bound"]["lines"]] == [50]
