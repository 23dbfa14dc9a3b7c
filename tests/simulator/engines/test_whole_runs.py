"""Runs without a machine: results, counts and the machine made afterwards are those of the reference machine; traps and limits too."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from retrograd.simulator.engines import machines, native, tiering
from retrograd.simulator.engines.machines import FinishedRun, WholeRuns
from support.machines import PARTS, TOLD

import retrograd as rg
from retrograd import Array, Stack, fixed, reversible
from retrograd.runtime._execution import ProgramTrap

#: formats are narrow here, and numbers lose their bits on purpose
pytestmark = pytest.mark.filterwarnings("ignore::retrograd.PrecisionWarning")

FORMATS = ["Q2.2", "Q4.4", "Q8.8", "Q4.12", "Q16.16", "Q8.24", "Q32.32", "Q16.48", "Q48.16"]


@reversible
def mix(y: fixed, x: fixed, n: int):
    for _ in range(n):
        y += x * 0.5
        x -= y * 0.25


@reversible(erase=True)
def product(y: fixed, xs: Array[fixed, 3]):
    y += xs[0] * xs[1] * xs[2]


keeping = product.with_options(erase=False)


@reversible
def push(s: Stack[int, 4], n: int):
    n += 1
    rg.push(s, n)


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> list[FinishedRun]:
    """The runs without a machine, of functions that are not compiled yet."""
    for f in (mix, product, keeping, push, shift):
        f._versions.clear()
        f._last = (None, None, None, None)
    monkeypatch.setattr(tiering, "policy", tiering.Policy())
    found: list[FinishedRun] = []
    call = WholeRuns.__call__

    def recorded(self: WholeRuns, *arguments: Any) -> FinishedRun | None:
        run = call(self, *arguments)
        if run is not None:
            found.append(run)
        return run

    monkeypatch.setattr(WholeRuns, "__call__", recorded)
    return found


def same(found: Any, expected: Any, first: Any) -> None:
    """A Result, that of the reference machine, and that of a machine which ran the same translation."""
    assert repr(found.values) == repr(expected.values)
    assert (found.words, found.steps, found.erased_bits) == (expected.words, expected.steps, expected.erased_bits)
    for part in (PARTS, TOLD):
        for name, get in part.items():
            assert get(found.machine) == get(expected.machine), name
    assert found.machine.cycles == expected.machine.cycles
    assert found.engine == found.machine.engine == first.engine == "translated"
    assert found.machine.named == first.machine.named
    assert found.machine is found.machine


ARGUMENTS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "numbers": (mix, (0.25, 0.5, 3)),
    "arrays, erased": (product, (0.25, np.array([0.5, 1.0, -0.5]))),
    "stacks": (push, ([1, 2], 3)),
}


@pytest.mark.parametrize(
    ("case", "backward"),
    [(case, backward) for case in ARGUMENTS for backward in (False, True) if not (backward and "erased" in case)],
)
def test_runs_equal_those_of_machines(case: str, backward: bool, fresh: list[FinishedRun]) -> None:
    f, args = ARGUMENTS[case]
    if backward:
        args = tuple(rg.run(f, *args, engine="reference").values)
    for format in FORMATS if case == "numbers" else ["Q32.32", "Q16.16"]:
        for overflow in (True, False):
            how = {"backward": backward, "format": format, "overflow": overflow}
            first = rg.run(f, *args, engine="translated", **how)
            known = len(fresh)
            same(rg.run(f, *args, engine="translated", **how), rg.run(f, *args, engine="reference", **how), first)
            assert len(fresh) == known + 1


def test_the_machine_goes_back(fresh: list[FinishedRun]) -> None:
    for _ in range(2):
        machine = rg.run(mix, 0.25, 0.5, 3, engine="translated").machine
        machine.run_back()
        assert machine.memory[:3] == [1 << 30, 1 << 31, 3]
    assert fresh


def test_a_result_is_pickled(fresh: list[FinishedRun]) -> None:
    found = [rg.run(mix, 0.25, 0.5, 3, engine="translated") for _ in range(2)][1]
    again = pickle.loads(pickle.dumps(found))
    assert len(fresh) == 1
    assert (again.values, again.steps, again.words) == (found.values, found.steps, found.words)
    assert again.machine.state() == found.machine.state()
    assert again.engine == "translated"


def test_traps_and_limits_are_those_of_machines(fresh: list[FinishedRun]) -> None:
    steps = rg.run(mix, 0.25, 0.5, 3, engine="reference").steps
    for _ in range(2):
        assert rg.run(mix, 0.25, 0.5, 3, engine="translated").steps == steps
    for arguments, limit in [((0.25, 2.0**31 - 1, 60), None), *(((0.25, 0.5, 300), n) for n in (0, 1, 500, 501))]:
        errors = []
        for engine in ("reference", "translated"):
            with pytest.raises(ProgramTrap) as error:
                rg.run(mix, *arguments, engine=engine, max_steps=limit)
            errors.append((str(error.value), error.value.machine.state(), error.value.machine.retired))
        assert errors[0] == errors[1]
    for limit in (steps, 10 * steps, 1 << 70):
        assert rg.run(mix, 0.25, 0.5, 3, engine="translated", max_steps=limit).steps == steps
    with pytest.raises(ProgramTrap, match=f"limit of {steps - 1} steps"):
        rg.run(mix, 0.25, 0.5, 3, engine="translated", max_steps=steps - 1)


def test_long_runs_are_left_to_machines(fresh: list[FinishedRun], monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C cannot interrupt a run without a machine. After a short run, runs are tried without one again."""
    for module in (native, machines):
        monkeypatch.setattr(module, "BRIEF", 3000)
    expected = {n: rg.run(mix, 0.0, 2.0**-9, n, engine="reference").steps for n in (3, 1000)}
    assert expected[1000] > 3000
    for n, without in ((3, 0), (3, 1), (1000, 1), (1000, 1), (3, 1), (3, 2), (1000, 2)):
        assert rg.run(mix, 0.0, 2.0**-9, n, engine="translated").steps == expected[n]
        assert len(fresh) == without, n


def test_runs_of_some_milliseconds_need_no_machine(fresh: list[FinishedRun]) -> None:
    for without in (0, 1, 2):
        assert native.BRIEF < rg.run(mix, 0.0, 2.0**-20, 80_000, engine="translated").steps < machines.BRIEF
        assert len(fresh) == without


@reversible
def shift(xs: Array[fixed, 5], ns: Array[int, 4], y: fixed, n: int):
    for _ in range(n):
        for i in range(len(ns)):
            ns[i] += i
            xs[i + 1] += xs[i] * y


@pytest.mark.parametrize("format", ["Q32.32", "Q16.16", "Q8.8"])
@pytest.mark.parametrize("engine", ["translated", "auto", "native"])
def test_memory_of_long_runs_is_an_array(
    engine: str, format: str, fresh: list[FinishedRun], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compiled code uses it as it is. The machine goes on, and its words are not those of the values that a caller holds."""
    for module in (native, machines):
        monkeypatch.setattr(module, "BRIEF", 200)
    whole, frac = (int(part) for part in format[1:].split("."))
    # Sums of numbers so far apart are no floats, so the values keep their words.
    xs, ns = np.array([2.0 ** (whole - 3), 2.0**-frac, 0.5, 0.25, 0.0]), np.arange(4) - 2
    expected = rg.run(shift, xs, ns, 2.0**-6, 20, engine="reference", format=format)
    assert expected.steps > 200
    first = rg.run(shift, *expected.values, engine="reference", format=format, backward=True).words
    rg.run(shift, xs, ns, 2.0**-6, 20, engine="translated", format=format)
    born = []
    for _ in range(3):
        found = rg.run(shift, xs, ns, 2.0**-6, 20, engine=engine, format=format)
        born.append(isinstance(found.machine, machines.ArrayMachine))
        same(found, expected, rg.run(shift, xs, ns, 2.0**-6, 20, engine=engine, format=format))
        kept = repr(found.values)
        again = pickle.loads(pickle.dumps(found.machine))
        for machine in (found.machine, again):
            machine.run_back()
            assert (
                machine.memory[:5]
                == rg.run(shift, xs, ns, 2.0**-6, 0, engine="reference", format=format).machine.memory[:5]
            )
        assert repr(found.values) == kept
        assert rg.run(shift, *found.values, engine="reference", format=format, backward=True).words == first
    assert any(born)
    assert not fresh
    with pytest.raises(ProgramTrap) as error:
        rg.run(shift, xs, ns, 2.0**-6, 20, engine=engine, format=format, max_steps=expected.steps - 1)
    with pytest.raises(ProgramTrap) as wanted:
        rg.run(shift, xs, ns, 2.0**-6, 20, engine="reference", format=format, max_steps=expected.steps - 1)
    assert error.value.machine.state() == wanted.value.machine.state()


@pytest.mark.parametrize(
    "words", [np.array([7, 1 << 40], np.uint64), np.array([7, 8]), [7, 8], np.ones((1, 2), np.uint64)]
)
@pytest.mark.parametrize("address", [0, 2, 3, -1, -2, -9, 5, 0.5, None])
def test_loading_an_array_machine_is_loading_a_machine(address: Any, words: Any) -> None:
    """The same words, or the same error."""

    def loaded(machine: rg.Machine) -> Any:
        try:
            machine.load(address, words)
        except rg.InputError as error:
            return str(error)
        return list(machine.memory)

    program = rg.assemble(".format 32, 16\n.memory 4\nstart\nfinish\n")
    assert loaded(machines.ArrayMachine(program)) == loaded(rg.Machine(program))


def test_engines_are_those_that_are_named(fresh: list[FinishedRun], monkeypatch: pytest.MonkeyPatch) -> None:
    for engine in ("translated", "reference", "threaded"):
        rg.run(mix, 0.25, 0.5, 3, engine=engine)
    assert not fresh
    reasons = {"translated": tiering.Reason.NAMED, "native": tiering.Reason.LOADED, "auto": tiering.Reason.LOADED}
    for k, (engine, reason) in enumerate(reasons.items()):
        with tiering.recorded() as record:
            assert rg.run(mix, 0.25, 0.5, 3, engine=engine).engine == "translated"
        assert list(record) == [("translated", reason)]
        assert len(fresh) == k + 1
    monkeypatch.setenv(tiering.VARIABLE, "threaded")
    assert rg.run(mix, 0.25, 0.5, 3).engine == "threaded"
    assert len(fresh) == 3


def test_gradients_need_no_machine(fresh: list[FinishedRun]) -> None:
    f = rg.value_and_grad(mix, "x", "y", engine="translated")
    expected = rg.value_and_grad(mix, "x", "y", engine="reference")(0.25, 0.5, 3)
    assert f(0.25, 0.5, 3) == f(0.25, 0.5, 3) == expected
    assert len(fresh) == 1
    _, pullback = rg.vjp(keeping, 0.0, np.array([0.5, 1.5, 2.0]), engine="translated")
    slopes = [pullback({"y": 2.0}) for _ in range(2)]
    assert repr(slopes[0]) == repr(slopes[1])
    assert slopes[0].xs.tolist() == [6.0, 2.0, 1.5]
    assert len(fresh) == 2


def test_types_are_found_again() -> None:
    """The types of numbers and arrays are kept by shape and dtype; a mismatch is refused each time."""
    for _ in range(2):
        assert rg.run(product, 0.0, np.array([1.0, 2.0, 3.0])).values.y == 6.0
        assert rg.run(product, 0.0, np.array([1, 2, 3])).values.y == 6.0
        assert rg.run(product, 0, [1.0, 2.0, 3.0]).values.y == 6.0
        for wrong in (np.zeros(2), np.zeros((3, 1)), np.zeros(3, dtype=complex), np.array(["1", "2", "3"])):
            with pytest.raises(rg.InputError):
                rg.run(product, 0.0, wrong)
