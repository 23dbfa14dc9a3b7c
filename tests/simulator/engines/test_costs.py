"""`auto` learns from run to run: what a program has cost counts over all calls, in steps, so that these tests hang on no clock."""

from __future__ import annotations

import numpy as np
import pytest
from retrograd.simulator.engines import choice, costs, native
from retrograd.simulator.engines.batch import cpu as batch
from retrograd.simulator.engines.choice import StartingMachine, machine_for
from retrograd.simulator.engines.costs import FREE, ROW, Cost, cost_of, translation_seconds
from retrograd.simulator.engines.native import NativeMachine

import retrograd as rg
from retrograd import fixed, reversible
from retrograd.batch import runs as batch_runs

#: goes round as often as r2 says, five instructions each time
LOOP = """
        start
        add r2, {trips}
top:    from.ne r1, r0, bottom
        add r1, 1
        xor r3, r1
        add r4, {other}
bottom: goto.ne r1, r2, top
        finish
"""


RUNS = 30


class Steps:
    """How many steps each tier has taken."""

    python = threaded = translated = 0


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Steps:
    """Counts steps, with no costs from other tests; of no program is there anything on disk."""
    found = Steps()
    loop, threaded, translated = rg.Machine._loop, NativeMachine._run_threaded, NativeMachine._run_translated

    def of_python(self: rg.Machine, max_steps: int | None) -> int:
        taken = loop(self, max_steps)
        found.python += taken
        return taken

    def of_interpreter(self: NativeMachine, most: int) -> tuple[int, int]:
        why, taken = threaded(self, most)
        found.threaded += taken
        return why, taken

    def of_translation(self: NativeMachine, left: int) -> int:
        taken = translated(self, left)
        found.translated += taken
        return taken

    monkeypatch.setattr(rg.Machine, "_loop", of_python)
    monkeypatch.setattr(NativeMachine, "_run_threaded", of_interpreter)
    monkeypatch.setattr(NativeMachine, "_run_translated", of_translation)
    monkeypatch.setattr(costs, "_costs", {})
    monkeypatch.setattr(native, "is_translated", lambda *asked: False)
    monkeypatch.setattr(native, "passes_over_interpreter", lambda *asked: False)
    return found


@pytest.mark.parametrize("trips", [40, 1900, 2100, 4000])
@pytest.mark.parametrize("lifted", [False, True])
def test_python_ends_once_for_all_runs(steps: Steps, trips: int, lifted: bool) -> None:
    """In many runs of a program, Python takes its 10,000 steps and at most the rest of the run in which they end."""
    program = rg.assemble(LOOP.format(trips=trips, other=11))
    every = 0
    for _ in range(RUNS):
        machine = NativeMachine(program)
        machine.differentiating = lifted
        machine.run()
        every += machine.retired
    weight = costs.LIFTED if lifted else 1
    run = every // RUNS
    share = (weight * run - FREE) / (weight * run)
    assert steps.python * weight * share <= native.SHORT + weight * run + RUNS * FREE
    if every > 3 * native.SHORT:
        assert steps.python < every / 2
        assert steps.threaded + steps.translated > 0


def test_runs_that_compiled_code_would_not_shorten_stay_in_python(steps: Steps) -> None:
    program = rg.assemble(LOOP.format(trips=12, other=12))
    for _ in range(500):
        machine = NativeMachine(program)
        assert machine.run().steps <= FREE
        assert machine.engine == "reference"
    assert steps.threaded == steps.translated == 0


def test_the_interpreter_ends_when_it_has_cost_a_translation(steps: Steps, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "SPEED", 1e6)
    program = rg.assemble(LOOP.format(trips=3000, other=13))
    worth = translation_seconds(len(program.code))
    engines = []
    for _ in range(12):
        machine = NativeMachine(program)
        machine.run()
        engines.append(machine.engine)
    # Each tier in its turn, and never back.
    assert engines == sorted(engines, key=["reference", "threaded", "translated"].index)
    assert {"threaded", "translated"} <= set(engines)
    assert (steps.python + steps.threaded) * 1e-6 <= worth + 12 * FREE * 1e-6
    assert cost_of(program).seconds >= worth


def test_a_translation_that_is_there_is_run_at_once(steps: Steps) -> None:
    program = rg.assemble(LOOP.format(trips=300, other=14))
    NativeMachine(program, tier="translated").run()
    before = steps.python
    machine = NativeMachine(program)
    machine.run()
    assert (machine.engine, steps.python) == ("translated", before)


def test_short_runs_add_up_to_the_import_of_the_engines(steps: Steps, monkeypatch: pytest.MonkeyPatch) -> None:
    program = rg.assemble(LOOP.format(trips=500, other=15))
    monkeypatch.setattr(StartingMachine, "all_taken", 0)
    for _ in range(100):
        monkeypatch.delitem(choice.sys.modules, choice._NATIVE, raising=False)
        machine = machine_for(program)
        if not isinstance(machine, StartingMachine):
            break
        machine.run()
    assert not isinstance(machine, StartingMachine)
    assert steps.python <= choice.MANY + 4 * 500 * 5


def test_the_table_does_not_grow_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(costs, "_costs", {})
    monkeypatch.setattr(costs, "_MOST", 5)
    program = rg.assemble("start\nfinish")
    first = cost_of(program)
    assert cost_of(program) is first
    assert cost_of(program, True) is not first
    assert cost_of(program, kind="batch") is not first
    for k in range(9):
        cost_of(rg.assemble(f"start\nadd r1, {k}\nfinish"))
    assert len(costs._costs) == 5
    assert cost_of(program) is not first


def test_steps_of_python() -> None:
    cost = Cost(weight=3)
    cost.count_python(FREE // 3)
    assert (cost.python, cost.python_left(10)) == (0, 4)
    cost.count_python(1000)
    assert (cost.python, cost.python_left(3000), cost.python_left(10)) == (3000 - FREE, 34, 0)


# ---------------------------------------------------------------- batches and functions


@reversible
def powers(y: fixed, x: fixed, n: int):
    for _ in range(n):
        y += x * x


def test_batches_add_up(steps: Steps, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many small batches cost at most about what one large one does."""
    monkeypatch.setattr(batch, "_loops", {})
    monkeypatch.setattr(batch, "on_disk", lambda *asked, **modes: False)
    monkeypatch.setattr(
        "retrograd.simulator.engines.interpreter.handlers.passes_over_interpreter", lambda *asked: False
    )
    engines, rows = [], 0
    for _ in range(400):
        found = rg.run_batch(powers, np.zeros(4), np.full(4, 0.5), 50, in_axes=(0, 0, None))
        engines.append(found.engine)
        rows += 4
        assert found.values.y.tolist() == [12.5] * 4
        if found.engine == "translated":
            break
    assert engines == sorted(engines, key=["reference", "threaded", "translated"].index)
    assert engines[-1] == "translated"
    worth = translation_seconds(len(found.compiled.program.code))
    assert steps.python <= batch_runs.SHORT + found.steps.max()
    # The last batch of the interpreter ends with the row in which it has cost enough.
    assert (rows - 4) * ROW <= worth + steps.python / found.steps.max() * ROW + 4 * ROW


def test_gradients_learn(steps: Steps) -> None:
    """120 calls, each of more steps than Python takes of a program: Python's part ends with the first of them."""
    f = rg.value_and_grad(powers, "x")
    for _ in range(120):
        assert f(0.0, 0.5, 1200) == (300.0, 1200.0)
    assert steps.python < 3 * native.SHORT
