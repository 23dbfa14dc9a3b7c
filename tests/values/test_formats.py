"""Formats by name: whatever takes a format takes its name, and refuses what is none, with RG0604."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from retrograd.hdl.parameters import Parameters
from retrograd.isa.words import WIDTHS, format_of

import retrograd as rg
from retrograd import derivatives, fixed, lognum, reversible, testing
from retrograd.hardware import run_on_hardware
from retrograd.runtime import _compilation as functions

W, NAME = rg.Format(64, 48), "Q16.48"


@reversible
def square(y: fixed, x: fixed):
    y += x * x


@reversible
def added(y: fixed, x: fixed):
    y += x


@rg.functional
def squared(x: fixed):
    return x * x


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    before = functions._default_format
    yield
    rg.use_format(before)


def by_default(format: Any) -> Any:
    """What a function gives in the format of all functions."""
    rg.use_format(format)
    xs = np.array([0.1, 0.3])
    return (
        square(0.0, 0.1),
        square.lower(0.0, 0.1).as_text(),
        square.assembly(),
        square.program(),
        rg.grad(square)(0.0, 0.1),
        rg.vmap(square)(np.zeros(2), xs).y.tolist(),
        rg.vmap(rg.value_and_grad(square))(np.zeros(2), xs)[0].tolist(),
        rg.energy(square, 0.0, 0.1).counts.program.format,
        testing.check_inverse(square, 0.0, 0.1),
        rg.Machine(square.program()).format,
    )


def made_with(format: Any) -> Any:
    return reversible(format=format)(square.fn)(0.0, 0.1)


#: public name -> what it gives in a format, to be compared
CALLS: dict[str, Callable[[Any], Any]] = {
    "use_format": by_default,
    "reversible": made_with,
    "functional": lambda w: rg.functional(format=w)(squared.fn)(0.1),
    "Functional": lambda w: squared.with_options(format=w)(0.1),
    "Reversible": lambda w: square.with_options(format=w)(0.0, 0.1),
    "run": lambda w: rg.run(square, 0.0, 0.1, format=w).words,
    "run_batch": lambda w: rg.run_batch(square, np.zeros(2), [0.1, 0.3], format=w).matrix.tolist(),
    "entropy": lambda w: rg.entropy(square, {"y": [0.0], "x": [0.1, 0.3]}, format=w).as_dict(),
    "netlist": lambda w: rg.netlist(added, format=w).counts,
    "energy": lambda w: [rg.energy(f, *xs, format=w).counts.program.format for f, *xs in ((square, 0.0, 0.1), (rg.vmap(square), [0.0], [0.1]))],
    "explore": lambda w: rg.explore(square, 0.0, 0.1, format=w).as_dict(),
    "autoscale": lambda w: rg.autoscale(square, 0.0, 0.1, format=w).program(0.0, 0.1).format,
    "ranges": lambda w: rg.ranges(square, 0.0, 0.1, format=w).as_dict(),
    "error_bound": lambda w: rg.error_bound(square, 0.0, 0.1, format=w).as_dict(),
    "energy_sweep": lambda w: [row.format for row in rg.energy_sweep(square, [(0.0, 0.1)], formats=[w])],
    "assemble": lambda w: rg.assemble("start\n finish", format=w).format,
    "Program": lambda w: rg.Machine(rg.Program(rg.assemble("start\n finish").code, format=w)).format,
    "Machine": lambda w: rg.Machine(rg.Program(rg.assemble("start\n finish").code, format=w)).format,
    "fixed": lambda w: [fixed.to_words([0.1, 3.0], w).tolist(), fixed.to_words([1, 3], w).tolist(), fixed.to_reals([1 << 48], w).tolist()],
    "lognum": lambda w: [lognum.to_words([0.1, 3.0], w).tolist(), lognum.to_reals([1 << 48], w).tolist()],
    "words": lambda w: repr(testing.words(w)),
    "fixed_numbers": lambda w: repr(testing.fixed_numbers(w, 0, 1)),
    "run_on_hardware": lambda w: run_on_hardware(square, 0.0, 0.1, format=w).values,
    "Parameters": Parameters,
}  # fmt: skip


@pytest.mark.parametrize("name", [n for n in CALLS if n != "run_on_hardware"])
def test_a_name_is_its_format(name: str) -> None:
    assert CALLS[name](NAME) == CALLS[name](W) == CALLS[name]("64,48")


@pytest.mark.long
def test_a_name_is_its_format_on_hardware() -> None:
    """In a format that is soon simulated."""
    assert CALLS["run_on_hardware"]("Q16.16") == CALLS["run_on_hardware"](rg.Format(32, 16))


@pytest.mark.parametrize("wrong", ["Q16.47", "Q48", "q16.48", "", 48, (16, 48), b"Q16.48"], ids=repr)
@pytest.mark.parametrize("name", CALLS)
def test_what_is_no_format(name: str, wrong: Any) -> None:
    with pytest.raises(rg.InputError) as caught:
        CALLS[name](wrong)
    assert caught.value.diagnostics[0].code == "RG0604"
    # Refused before anything has changed.
    assert functions._default_format == rg.Format()


def test_no_public_name_is_left_out() -> None:
    """Every function and class of the package that has a parameter for formats is called above."""
    names = {name: getattr(rg, name) for name in rg.__all__} | {n: getattr(testing, n) for n in testing.__all__}
    takes = {"fixed", "lognum"}
    for name, item in names.items():
        try:
            parameters = inspect.signature(item).parameters
        except (TypeError, ValueError):
            continue
        if {"format", "formats"} & set(parameters):
            takes.add(name)
    takes -= {
        "GradientComparison",
        "Compiled",
        "Ranges",
        "Scaling",
        "ErrorBound",
        "EntropyReport",
        "DeviceArray",
    }  # results
    takes -= {
        *derivatives.__all__,
        "learn_by_consistency",
        "vmap",
        "run_chunked",
    }  # in tests/functions/test_requests.py
    takes -= {"to_jax", "to_torch"}  # in tests/adapters/test_adapters.py
    assert len(takes) > 8
    assert takes <= set(CALLS)


@given(st.sampled_from(WIDTHS), st.data())
def test_every_format_has_its_name(width: int, data: st.DataObject) -> None:
    w = rg.Format(width, data.draw(st.integers(0, width - 1)))
    assert format_of(str(w)) == format_of(f"{w.width},{w.frac}") == format_of(w) == w


@given(st.text("Q0123456789.,- ", max_size=9))
def test_any_text_is_a_format_or_is_refused(text: str) -> None:
    try:
        found = format_of(text)
    except rg.InputError as refused:
        code = refused.diagnostics[0].code
        assert code == "RG0604"
        return
    # As written, but for zeros in front of a number.
    first, fraction = (int(part) for part in text.lstrip("Q").replace(",", ".").split("."))
    assert (first + fraction * text.startswith("Q"), fraction) == (found.width, found.frac)
