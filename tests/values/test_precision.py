"""Numbers that lose more than half of their bits as words: found in every place, reported once a call, as `precision` states."""

from __future__ import annotations

import json
import random
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from retrograd.isa.words import Format

import retrograd as rg
from retrograd import Array, fixed, lognum, reversible
from retrograd.runtime._marshal import Losses

FORMATS = [Format(8, 4), Format(16, 8), Format(32, 16), Format(32, 2), Format(64, 32), Format(64, 4), Format(64, 60)]
Cli = Callable[..., tuple[int, str, str]]


def numbers(w: Format) -> list[float]:
    """Numbers around the one below which bits are lost, and around the smallest of the format; exact ones, zeros, halves."""
    rng = random.Random(str(w))
    sizes = [2.0 ** rng.uniform(-w.frac - 8, w.width // 4 - w.frac + 2) for _ in range(400)]
    exact = [k * 2.0**-w.frac for k in range(5)] + [(k + 0.5) * 2.0**-w.frac for k in range(5)]
    found = [rng.choice((-1, 1)) * x for x in [*sizes, *exact, 0.0, 5e-324, 1e-300]]
    return [x for x in found if abs(x) < 2.0 ** (w.width - 1 - w.frac)]


@pytest.mark.parametrize("w", FORMATS, ids=str)
def test_the_numbers_are_those_that_a_format_does_not_keep(w: Format) -> None:
    xs = numbers(w)
    lost = [i for i, x in enumerate(xs) if not w.keeps(x)]
    gone = [i for i, x in enumerate(xs) if w.vanishes(x)]
    assert lost
    assert gone
    for dtype in (np.float64, np.longdouble):
        found = Losses()
        found.array("x", np.array(xs, dtype).reshape(-1, 1), w)
        (one,) = found
        assert (one.place, one.value, one.lost, one.zeros) == ((lost[0], 0), xs[lost[0]], len(lost), len(gone))
    alone = Losses()
    for x in xs:
        alone.number("x", x, w)
    assert [one.value for one in alone] == [xs[i] for i in lost]
    assert sum(one.zeros for one in alone) == len(gone)


def test_no_element_of_an_array_is_left_out() -> None:
    """Arrays are looked at in blocks; ends, zeros and the signs of others do not matter."""
    w, size = Format(), 1 << 17
    for fill in (0.0, 1.0, -1.0):
        for at in (0, (1 << 16) - 1, 1 << 16, size - 1):
            for small in (1e-11, -1e-9):
                xs = np.full(size, fill)
                xs[at] = small
                xs[size // 3] = -fill
                found = Losses()
                found.array("x", xs, w)
                assert [(one.place, one.value, one.lost) for one in found] == [((at,), small, 1)]


@rg.struct
class Point:
    x: fixed
    row: Array[fixed, 2]
    n: int
    size: lognum


@reversible
def f(y: fixed, xs: Array[fixed, "n"], p: Point, z: complex, zs: Array[complex, 2], tree, *more: fixed):
    y += xs[0]


GIVEN: dict[str, Any] = {
    "y": 0.5, "xs": [0.5, 0.25], "p": Point(0.5, [0.5, 0.5], 3, 0.3), "z": 0.5j, "zs": [0.5, 1j], "tree": {"a": 0.5, "b": {"c": [0.5]}}, "more": (0.5,),
}  # fmt: skip
#: where the number stands -> (the arguments that differ, its name)
PLACES: dict[str, tuple[Callable[[Any], dict[str, Any]], str]] = {
    "number": (lambda x: {"y": x}, "y"),
    "list": (lambda x: {"xs": [0.5, x, 0.5]}, "xs[1]"),
    "array": (lambda x: {"xs": np.array([0.5, 0.5, x])}, "xs[2]"),
    "float32": (lambda x: {"xs": np.array([0.5, x], np.float32)}, "xs[1]"),
    "field": (lambda x: {"p": Point(x, [0.5, 0.5], 3, 0.3)}, "p.x"),
    "row of a struct": (lambda x: {"p": Point(0.5, [x, 0.5], 3, 0.3)}, "p.row[0]"),
    "part": (lambda x: {"z": complex(x, 0.5)}, "z.re"),
    "complex numbers": (lambda x: {"zs": np.array([0.5j, x])}, "zs[1]"),
    "tree": (lambda x: {"tree": {"a": 0.5, "b": {"c": [x]}}}, "tree.b.c[0]"),
    "further": (lambda x: {"more": (0.5, x)}, "more[1]"),
}


@pytest.mark.parametrize("place", PLACES)
def test_a_number_is_found_wherever_it_stands(place: str) -> None:
    changed, name = PLACES[place]
    for precision in ("warn", "error", "ignore"):
        for number, lost in ((1e-11, True), (1e-7, True), (0.001, False), (2.0**-20, False), (0.0, False)):
            given = GIVEN | changed(number)
            args = (*(given[k] for k in list(GIVEN)[:-1]), *given["more"])
            with warnings.catch_warnings(record=True) as found:
                warnings.simplefilter("always")
                try:
                    rg.run(f, *args, precision=precision)
                    error = None
                except rg.InputError as refused:
                    error = refused
            messages = [str(one.message) for one in found]
            assert len(messages) == (lost and precision == "warn"), messages
            assert (error is not None) == (lost and precision == "error")
            if lost and precision != "ignore":
                text = messages[0] if error is None else error.diagnostics[0].message
                assert f"`{name}` = {number:.6g} is " in text


def test_what_has_a_word_loses_nothing() -> None:
    """Integers, bools, lognums, and results of runs, which keep their words."""
    w = Format(64, 48)
    words = [3, 5 << 20, (1 << 60) + 1]

    @reversible
    def g(xs: Array[fixed, 3], n: int, s: lognum):
        n += 1

    xs = rg.fixed.to_reals(words, w)
    assert rg.run(g, xs, 0, 1e-30, format=w, precision="error").words["xs"] == words
    assert rg.run(g, xs.tolist(), 0, 1e-30, format=w, precision="error").words["xs"] == words
    assert rg.run_batch(g, xs[None], [0], [1e-30], format=w, precision="error").matrix[0, :3].tolist() == words


@reversible
def shift(y: fixed, x: fixed):
    y += x


def test_a_batch_is_reported_once() -> None:
    xs = np.linspace(0.5, 1.0, 1000)
    xs[[7, 500]] = 1e-11, 1e-9
    with pytest.warns(rg.PrecisionWarning) as found:
        rg.run_batch(shift, np.zeros(1000), xs)
    (warning,) = found
    text = "2 numbers lose more than half of their bits, and 1 of them becomes 0; the first is `x[7]` = 1e-11"
    assert str(warning.message).startswith(text)
    assert warning.filename == __file__
    with pytest.warns(rg.PrecisionWarning, match=r"`x` = 1e-11") as found:
        rg.run_batch(shift, np.zeros(1000), 1e-11, in_axes=[0, None])
    assert len(found) == 1


def test_a_mapped_file_is_reported_by_its_first_part(tmp_path: Path) -> None:
    xs = np.lib.format.open_memmap(tmp_path / "x.npy", "w+", np.float64, (100,))
    xs[:] = 0.5
    xs[[30, 31, 90]] = 1e-11
    with pytest.warns(rg.PrecisionWarning, match=r"2 numbers .* the first is `x\[30\]`") as found:
        rg.run_batch(shift, np.zeros(100), xs, executor=1, chunk=10)
    assert len(found) == 1
    with pytest.raises(rg.InputError, match="RG0607"):
        rg.run_chunked(shift, np.zeros(100), xs, out=tmp_path / "out", chunk=10, precision="error")


@reversible
def square(y: fixed, x: Array[fixed, 2]):
    y += x[0] * x[0]


def test_given_derivatives_are_looked_at() -> None:
    """At the scale of the run, which keeps more places: cotangents, tangents and vectors."""
    x = [0.5, 0.25]
    _, pull = rg.vjp(square, 0.0, x)
    coarse = rg.vjp(square, 0.0, x, scale=0)[1]
    assert pull({"y": 1e-7}).x[0] == pytest.approx(1e-7, rel=1e-4)
    for call, said in (
        (lambda: coarse({"y": 1e-7}), "the cotangent of `y` = 1e-07 is 9.98843e-08 in Q32.32"),
        (lambda: pull({"x": [0.5, 1e-20]}), r"the cotangent of `x\[1\]` = 1e-20 is 0 in Q16.48"),
        (lambda: rg.jvp(square, (0.0, x), {"x": [1e-20, 0.0]}), r"the tangent of `x\[0\]` = 1e-20 is 0 in Q16.48"),
        (lambda: rg.hvp(square, "x")((0.0, x), [0.0, 1e-11]), r"the vector of `x\[1\]` = 1e-11 is 0 in Q32.32"),
    ):
        with pytest.warns(rg.PrecisionWarning, match=said) as found:
            call()
        assert len(found) == 1
    with pytest.raises(rg.InputError, match="RG0607"):
        rg.vjp(square, 0.0, x, scale=0, precision="error")[1]({"y": 1e-7})
    assert rg.vjp(square, 0.0, x, scale=0, precision="ignore")[1]({"y": 1e-12}).x[0] == 0.0


def test_each_function_has_its_own() -> None:
    quiet = shift.with_options(precision="ignore")
    assert quiet(0.0, 1e-11).y == rg.grad(quiet, "x", "y")(0.0, 1e-11) - 1.0 == 0.0
    strict = shift.with_options(precision="error")
    with pytest.raises(rg.InputError, match="RG0607"):
        strict(0.0, 1e-11)
    assert rg.run(strict, 0.0, 1e-11, precision="ignore").values.y == 0.0
    with pytest.raises(rg.InputError, match="RG0607"):
        rg.run(quiet, 0.0, 1e-11, precision="error")


def test_on_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from retrograd.cli.main import main

    monkeypatch.chdir(tmp_path)
    Path("s.py").write_text(
        "from retrograd import fixed, reversible\n\n@reversible\ndef f(y: fixed, x: fixed):\n    y += x\n"
    )
    np.savez("b.npz", y=np.zeros(3), x=[0.5, 1e-11, 1e-9])
    for command, name in (
        (("run", "s.py:f", "0.0", "1e-11"), "`x` = 1e-11"),
        (("run", "s.py:f", "--batch", "b.npz"), "`x[1]` = 1e-11"),
        (("grad", "s.py:f", "0.0", "1e-11", "--loss", "y"), "`x` = 1e-11"),
        (("energy", "s.py:f", "0.0", "1e-11"), "`x` = 1e-11"),
        (("ranges", "s.py:f", "0.0", "1e-11"), "`x` = 1e-11"),
        (("sweep", "s.py:f", "--args", "0.0", "1e-11"), "`x` = 1e-11"),
        (("entropy", "s.py:f", "y=0.0", "x=1e-11,0.5"), "`x` = 1e-11"),
    ):
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            assert main([*command, "--json"]) == 0
            json.loads(capsys.readouterr().out)
            assert [name in str(one.message) for one in found] == [True]
            assert main([*command, "--precision", "ignore"]) == 0
            capsys.readouterr()
            assert main([*command, "--precision", "error"]) == 2
        assert len(found) == 1
        assert f"error[RG0607]: {'2 numbers' if 'b.npz' in command else name}" in capsys.readouterr().err
