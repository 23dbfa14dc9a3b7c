"""One description of a run for all public functions: `engine=` and `format=` mean the same in each; warm calls are short."""

from __future__ import annotations

import inspect
import re
import sys
import tempfile
import warnings
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest
from retrograd.isa.words import Format

import retrograd as rg
from retrograd import Array, fixed, reversible
from retrograd import derivatives as differentiation

ROOT = Path(rg.__file__).resolve().parents[2]
#: its powers are rounded in NARROW, and exact in Q32.32
X = 1 + 2.0**-14
NARROW = Format(32, 16)
ZEROS, XS = np.zeros(2), np.array([X, 2 * X])


@reversible
def quartic(y: fixed, x: fixed):
    y += x * x * x * x


def learnt(f: Any, **how: Any) -> Any:
    return rg.learn_by_consistency(f, (0.0, X), {"y": 1.0}, "x", steps=1, **how).history["y"]


def chunked(f: Any, **how: Any) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        return np.array(rg.run_chunked(f, ZEROS, XS, out=folder, **how).values["y"])


#: public functions that run a program; each call gives numbers that depend on the format
CALLS: dict[str, Callable[..., Any]] = {
    "run": lambda f, **how: rg.run(f, 0.0, X, **how).values.y,
    "run_batch": lambda f, **how: rg.run_batch(f, ZEROS, XS, **how).values.y,
    "run_chunked": chunked,
    "vmap": lambda f, **how: rg.vmap(f, **how)(ZEROS, XS).y,
    "grad": lambda f, **how: rg.grad(f, "x", **how)(0.0, X),
    "value_and_grad": lambda f, **how: rg.value_and_grad(f, "x", **how)(0.0, X),
    "gradient_report": lambda f, **how: rg.gradient_report(f, "x", **how)(0.0, X).gradients,
    "vjp": lambda f, **how: rg.vjp(f, 0.0, X, **how)[1]({"y": 1.0}).x,
    "jacobian": lambda f, **how: rg.jacobian(f, "x", "y", **how)(0.0, X),
    "jvp": lambda f, **how: rg.jvp(f, (0.0, X), {"x": 1.0}, **how)[1].y,
    "hvp": lambda f, **how: rg.hvp(f, "x", **how)((0.0, X), 1.0),
    "hessian": lambda f, **how: rg.hessian(f, "x", **how)(0.0, X),
    "learn_by_consistency": learnt,
    "energy": lambda f, **how: rg.energy(f, 0.0, X, **how).counts.program.format.frac,
}
#: functions made from others: the settings of the inner and of the outer function
COMPOSED: dict[str, Callable[..., Any]] = {
    "grad of grad": lambda f, **how: rg.grad(rg.grad(f, "x"), "x", **how)(0.0, X),
    "grad of grad, inside": lambda f, **how: rg.grad(rg.grad(f, "x", **how), "x")(0.0, X),
    "vmap of grad": lambda f, **how: rg.vmap(rg.grad(f, "x"), **how)(ZEROS, XS),
    "vmap of grad, inside": lambda f, **how: rg.vmap(rg.grad(f, "x", **how))(ZEROS, XS),
    "vmap of jacobian": lambda f, **how: rg.vmap(rg.jacobian(f, "x", "y"), **how)(ZEROS, XS),
    "vmap of vmap": lambda f, **how: rg.vmap(rg.vmap(f), **how)(ZEROS[None], XS[None]).y,
    "energy of grad, inside": lambda f, **how: rg.energy(rg.grad(f, "x", **how), 0.0, X).counts.program.format.frac,
    "energy of vmap": lambda f, **how: rg.energy(rg.vmap(f), ZEROS, XS, **how).counts.program.format.frac,
    "energy of vmap, inside": lambda f, **how: rg.energy(rg.vmap(f, **how), ZEROS, XS).counts.program.format.frac,
    "energy of vmap of grad, inside": lambda f, **how: (
        rg.energy(rg.vmap(rg.grad(f, "x", **how)), ZEROS, XS).counts.program.format.frac
    ),
}
ALL = CALLS | COMPOSED


@pytest.mark.parametrize("name", ALL)
def test_a_format_is_that_of_the_run(name: str) -> None:
    """As if the function had been declared in it."""
    call = ALL[name]
    found, declared = call(quartic, format=NARROW), call(quartic.with_options(format=NARROW))
    assert np.array_equal(np.asarray(found), np.asarray(declared))
    assert not np.array_equal(np.asarray(found), np.asarray(call(quartic)))
    assert np.array_equal(np.asarray(call(quartic, format="Q16.16")), np.asarray(found))
    with pytest.raises(rg.InputError) as caught:
        call(quartic, format="Q99")
    assert caught.value.code == "RG0604"


#: a number that keeps 13 bits in NARROW, and a number that becomes 0
SMALL = {0.001: "is 0.00100708", 1e-6: "is 0 in Q16.16"}


@pytest.mark.parametrize("name", ALL)
def test_numbers_that_lose_their_bits_are_reported_once_a_call(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As `precision` of the run states; an array in a batch is read as a whole."""
    call = ALL[name]
    for small, said in SMALL.items():
        monkeypatch.setitem(globals(), "X", small)
        monkeypatch.setitem(globals(), "XS", np.array([0.5, small]))
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            expected = call(quartic, format=NARROW)
        assert [str(one.message).partition(" Q")[0] for one in found if one.category is rg.PrecisionWarning][1:] == []
        assert re.search(rf"`x(\[1\])?` = {small:.6g} {said}", str(found[0].message)), found[0]
        assert found[0].filename == __file__
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            ignored = call(quartic, format=NARROW, precision="ignore")
        assert found == []
        assert np.array_equal(np.asarray(ignored), np.asarray(expected))
        with pytest.raises(rg.InputError) as caught:
            call(quartic, format=NARROW, precision="error")
        assert caught.value.code == "RG0607"
    with pytest.raises(rg.InputError, match="precision = 'no'"):
        call(quartic, precision="no")


@pytest.mark.parametrize("name", ALL)
def test_an_engine_gives_the_same_bits(name: str) -> None:
    call = ALL[name]
    expected = np.asarray(call(quartic))
    for engine in ("reference", "threaded"):
        assert np.array_equal(np.asarray(call(quartic, engine=engine)), expected)
    with pytest.raises(rg.InputError) as caught:
        call(quartic, engine="threadde")
    assert caught.value.code == "RG1001"
    assert "threaded" in str(caught.value)


def test_no_public_function_is_left_out() -> None:
    """Each public function that takes an engine takes a format too, and is in the table; so is each derivative."""
    taking = {
        name
        for name in rg.__all__
        if inspect.isfunction(getattr(rg, name)) and "engine" in inspect.signature(getattr(rg, name)).parameters
    }
    # A sweep and advice run a function in several formats, and name them in the plural; adapters are in tests/adapters.
    assert taking - {"energy_sweep", "advise", "to_jax", "to_torch"} == set(CALLS)
    derivatives = set(differentiation.__all__) - {"reversible_gradient"}
    assert {name for name in derivatives if name.islower()} <= set(CALLS)


# ---------------------------------------------------------------------- warm calls


def passed(call: Callable[[], object]) -> tuple[int, int, int]:
    """(different functions of ours, files in which they lie, changes from one file to another) of a warm call.

    Some calls do work that is not theirs: they install code that the background has optimised, or the collector runs the
    callbacks of dead objects. The least of several calls is the call itself.
    """

    def once() -> tuple[int, int, int]:
        frames: list[tuple[str, str]] = []

        def look(frame: FrameType, event: str, _: object) -> None:
            code = frame.f_code
            if event == "call" and code.co_filename.startswith(str(ROOT)) and code.co_filename != __file__:
                frames.append((code.co_filename, code.co_qualname))

        sys.setprofile(look)
        try:
            call()
        finally:
            sys.setprofile(None)
        return len(set(frames)), len({file for file, _ in frames}), sum(a[0] != b[0] for a, b in pairwise(frames))

    call()
    return min(once() for _ in range(6))


def test_a_warm_call_passes_few_functions() -> None:
    """A gradient passed 102 functions in 20 files, with 171 changes of file, before the gradient program computed it.

    The translation, which a busy machine may take, has five files that the interpreter has not.
    """
    slope = rg.grad(quartic, "x")
    for call, most in ((lambda: quartic(0.0, X), (75, 26, 70)), (lambda: slope(0.0, X), (81, 29, 70))):
        assert all(found <= bound for found, bound in zip(passed(call), most, strict=True)), passed(call)


def test_a_warm_call_compiles_nothing_and_makes_no_message(monkeypatch: pytest.MonkeyPatch) -> None:
    slope, report = rg.grad(quartic, "x"), []
    slope(0.0, X)
    monkeypatch.setattr("retrograd.runtime._compilation.compile_function", lambda *given: report.append(given))
    monkeypatch.setattr("retrograd.derivatives._requests.loss_gradient_program", report.append)
    monkeypatch.setattr("retrograd.derivatives._requests.emit_optimised", report.append)
    monkeypatch.setattr("retrograd.runtime._execution.explain", report.append)
    assert slope(0.0, X) == slope(0.0, X)
    assert report == []


# ---------------------------------------------------------------------- arguments that are kept for later


@reversible
def weighed(y: fixed, v: Array[fixed, "n"], p):
    for i in range(len(v)):
        y += v[i] * v[i] * p.a * p.b[i]


def test_a_pullback_is_that_of_the_call() -> None:
    """Arrays, lists and trees may change between the call and the way back."""
    for v in ([1.0, 2.0, 3.0], np.array([1.0, 2.0, 3.0])):
        tree = {"a": 2.0, "b": np.ones(3)}
        found, pull = rg.vjp(weighed, 0.0, v, tree)
        expected = rg.grad(weighed)(0.0, v, tree)
        v[1] = 10.0
        tree["a"], tree["c"] = 7.0, 1.0
        tree["b"][:] = 5.0
        for _ in range(2):
            slope = pull({"y": 1.0})
            assert np.array_equal(slope.v, expected.v)
            assert (slope.p.keys(), slope.p["a"]) == ({"a", "b"}, expected.p["a"])
            assert np.array_equal(slope.p["b"], expected.p["b"])
        assert found.y == 28.0


def test_a_choice_is_that_of_the_function() -> None:
    """Lists of axes and of arguments, and a pattern, may change after `vmap`, `grad` and `jacobian`."""
    axes: list[int | None] = [0, 0, None]
    each = rg.vmap(product, axes)
    chosen = ["x", "z"]
    made = {name: getattr(rg, name)(product, chosen) for name in ("grad", "value_and_grad", "hessian", "jacobian")}
    pattern = np.array([[True, True]])
    sparse = rg.jacobian(product, chosen, pattern=pattern)
    axes[2] = 0
    chosen[:] = ["y"]
    pattern[0, 1] = False
    assert each(np.zeros(2), np.ones(2), 3.0).y.tolist() == [3.0, 3.0]
    assert made["grad"](0.0, 2.0, 3.0) == made["jacobian"](0.0, 2.0, 3.0) == (3.0, 2.0)
    assert made["value_and_grad"](0.0, 2.0, 3.0) == (6.0, (3.0, 2.0))
    assert made["hessian"](0.0, 2.0, 3.0) == ((0.0, 1.0), (1.0, 0.0))
    # An outer vmap makes the function again.
    by_x, by_z = rg.vmap(made["grad"], engine="reference")(np.zeros(1), np.full(1, 2.0), np.full(1, 3.0))
    assert (by_x.tolist(), by_z.tolist()) == ([3.0], [2.0])
    assert sparse(0.0, 2.0, 3.0).data.tolist() == [3.0, 2.0]


@reversible
def product(y: fixed, x: fixed, z: fixed):
    y += x * z


WEIGHTS = np.array([1.0, 2.0])
WEIGHTS.flags.writeable = False


@reversible
def weight(y: fixed):
    y += WEIGHTS[0]


def test_a_captured_array_that_is_made_writeable() -> None:
    assert weight(0.0).y == 1.0
    WEIGHTS.flags.writeable = True
    WEIGHTS[0] = 5.0
    assert weight(0.0).y == 5.0
    WEIGHTS[0] = 6.0
    assert weight(0.0).y == 6.0
