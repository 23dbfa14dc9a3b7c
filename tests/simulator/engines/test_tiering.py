"""The policy of tiers: decisions follow from the table of costs and from accounts of steps, so that these tests need no clock."""

from __future__ import annotations

import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from retrograd.simulator.engines import native, tiered_machine, tiering
from retrograd.simulator.engines.batch import loops
from retrograd.simulator.engines.choice import machine_for
from retrograd.simulator.engines.machines import FinishedRun, WholeRuns
from retrograd.simulator.engines.native import NativeEngine
from retrograd.simulator.engines.tiered_machine import TieredMachine
from retrograd.simulator.engines.tiering import OPTIMISED_FULLY, Costs, Decision, Policy, Ready, Reason, recorded
from retrograd.simulator.machine import Snapshot

import retrograd as rg
from retrograd import fixed, reversible

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
PROGRAM = rg.assemble(LOOP.format(trips=3, other=10))
NEVER = Ready(interpreter=1e9, translation=1e10)

#: a second for a step of Python, a hundredth for one of the interpreter; Python may take half of a price
SLOW: dict[str, Any] = {
    "python_step": 1.0,
    "python_lifted_step": 2.0,
    "interpreter_step": 0.01,
    "enter": 10.0,
    "share": 0.5,
}


class Steps:
    """The steps of each engine."""

    python = threaded = translated = 0


@pytest.fixture
def plant(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Policy]:
    """plant(ready, to_import=…, **costs): a policy of these costs, with empty accounts; the prices of all compiled code are `ready`."""

    def planted(ready: Ready | None = None, *, to_import: float = 0.0, **costs: Any) -> Policy:
        policy = Policy(Costs(**SLOW | costs))
        monkeypatch.setattr(tiering, "policy", policy)
        monkeypatch.setattr(policy, "to_import", lambda: to_import)
        if ready is not None:
            monkeypatch.setattr(native, "ready", lambda *_: ready)
        return policy

    return planted


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Steps:
    found = Steps()
    loop = rg.Machine._loop

    def of_python(self: rg.Machine, max_steps: int | None) -> int:
        taken = loop(self, max_steps)
        found.python += taken
        return taken

    monkeypatch.setattr(rg.Machine, "_loop", of_python)
    interpreted, translated = NativeEngine.interpreted, NativeEngine.translated

    def of_interpreter(self: NativeEngine, machine: rg.Machine, most: int) -> int:
        taken = interpreted(self, machine, most)
        found.threaded += taken
        return taken

    def of_translation(self: NativeEngine, machine: rg.Machine, most: int, before: Snapshot | None = None) -> int:
        taken = translated(self, machine, most, before)
        found.translated += taken
        return taken

    monkeypatch.setattr(NativeEngine, "interpreted", of_interpreter)
    monkeypatch.setattr(NativeEngine, "translated", of_translation)
    without_machine = WholeRuns.__call__

    def of_whole_runs(self: WholeRuns, *arguments: Any) -> FinishedRun | None:
        run = without_machine(self, *arguments)
        found.translated += 0 if run is None else run.retired
        return run

    monkeypatch.setattr(WholeRuns, "__call__", of_whole_runs)
    return found


# ---------------------------------------------------------------- decisions


def decide(policy: Policy, ready: Ready = NEVER, steps: int | None = None, **known: Any) -> Decision:
    account = policy.account(PROGRAM)
    account.steps = steps
    return policy.decide(PROGRAM, account, lambda: ready, **known)


@given(
    steps=st.integers(1, 10**7), to_import=st.floats(0, 2), instructions=st.integers(1, 3000), handlers=st.floats(0, 3),
    differentiating=st.booleans(), runs=st.integers(0, 3),
)  # fmt: skip
def test_no_run_waits_longer_than_the_bound(
    steps: int, to_import: float, instructions: int, handlers: float, differentiating: bool, runs: int
) -> None:
    """A run is followed through its decisions, as a machine follows them, after some runs of the same program."""
    policy, costs = Policy(), Costs()
    program: Any = SimpleNamespace(code=(0,) * instructions, format=None)
    account = policy.account(program, differentiating)
    left = {"import": to_import, "handlers": handlers, "translation": costs.translation(instructions, differentiating)}
    policy.to_import = lambda: left["import"]  # type: ignore[method-assign]
    seconds = 0.0

    def pay(*names: str) -> None:
        nonlocal seconds
        for name in names:
            seconds += left[name]
            left[name] = 0.0

    def ready() -> Ready:
        pay("import")
        return Ready(left["handlers"], left["translation"])

    for _ in range(runs + 1):
        seconds, taken = 0.0, 0
        bound = costs.longest_wait(instructions, differentiating, left["import"])
        while taken < steps:
            decision = policy.decide(program, account, ready, differentiating=differentiating)
            most = steps - taken if decision.steps is None else min(steps - taken, decision.steps)
            if decision.engine == "translated":
                pay("import", "translation")
                break
            if decision.engine == "reference":
                seconds += most * costs.python(differentiating)
                policy.count_python(account, most, differentiating)
                account.steps = None
            else:
                pay("import", "handlers")
                seconds += most * costs.interpreter_step
                policy.count_interpreted(account, most)
            taken += most
        account.steps = steps
        # Two times it enters compiled code, and a step is not divided.
        assert seconds <= bound + 2 * costs.enter + 2 * costs.python_lifted_step


def test_the_bound_is_said_where_decisions_are_recorded(plant: Callable[..., Policy]) -> None:
    policy = plant(to_import=100.0)
    bound = policy.costs.longest_wait(len(PROGRAM.code), False, 100.0)
    with recorded() as found:
        assert decide(policy).wait == bound > 150.0
    with recorded():
        # A run that begins inside waits for handlers, of which the bound says nothing.
        assert decide(policy, whole=False).wait == 0.0
    assert f"begin again, take {1000 * bound:.1f} ms at most" in str(found)
    assert decide(policy).wait == 0.0


def test_python_takes_its_share_of_the_import(plant: Callable[..., Policy]) -> None:
    policy = plant(to_import=100.0)
    assert decide(policy) == Decision("reference", Reason.IMPORT, 0.0, 50.0, 100.0, steps=60)
    # Of a run, the time to enter compiled code is not counted.
    policy.count_python(policy.account(PROGRAM), 30, False)
    assert decide(policy) == Decision("reference", Reason.IMPORT, 20.0, 50.0, 100.0, steps=40)
    policy.count_python(policy.account(PROGRAM), 40, False)
    assert decide(policy, Ready(1.0, 2.0)).reason is Reason.PAID


def test_time_in_python_counts_for_the_import_whatever_the_program(plant: Callable[..., Policy]) -> None:
    policy = plant(to_import=100.0)
    policy.count_python(policy.account(rg.assemble("start\nfinish")), 60, False)
    # Of this program, Python has taken nothing yet.
    assert decide(policy).reason is Reason.CHEAP


def test_the_compiler_is_not_imported_for_the_decision(plant: Callable[..., Policy]) -> None:
    policy = plant(to_import=100.0)

    def imports() -> Ready:
        pytest.fail("imported")

    assert policy.decide(PROGRAM, policy.account(PROGRAM), imports).engine == "reference"


@pytest.mark.parametrize(
    ("expected", "engine"), [(None, "reference"), (10, "reference"), (60, "reference"), (61, "translated")]
)
def test_a_run_that_would_exceed_the_share_is_not_begun_in_python(
    plant: Callable[..., Policy], expected: int | None, engine: str
) -> None:
    """60 steps take 50 seconds more than to enter compiled code."""
    assert decide(plant(), Ready(100.0, 100.0, kept=True), expected).engine == engine


def test_runs_that_end_before_compiled_code_is_entered_stay_in_python(plant: Callable[..., Policy]) -> None:
    policy = plant()
    policy.count_python(policy.account(PROGRAM), 1000, False)
    assert decide(policy, Ready(100.0, 100.0), 10) == Decision("reference", Reason.CHEAP, 990.0, 50.0, 100.0, steps=10)
    assert decide(policy, Ready(100.0, 100.0), 11).engine == "translated"


def test_steps_with_cotangents_cost_more(plant: Callable[..., Policy]) -> None:
    assert decide(plant(to_import=100.0), differentiating=True).steps == 30


@pytest.mark.parametrize("instructions", [range(1, OPTIMISED_FULLY + 1), range(OPTIMISED_FULLY + 1, 2000, 7)])
def test_the_price_of_a_translation_grows_with_the_program(instructions: range) -> None:
    """And with cotangents by a factor that grows from 1 to 4."""
    costs = Costs()
    plain, lifted = (
        [costs.optimised_translation(n, differentiating) - costs.translate for n in instructions]
        for differentiating in (False, True)
    )
    assert plain == sorted(plain)
    assert lifted == sorted(lifted)
    factors = [round(b / a, 9) for a, b in zip(plain, lifted, strict=True)]
    assert factors == sorted(factors)
    assert factors[0] >= 1
    assert factors[-1] == 4


@pytest.mark.parametrize(
    ("ready", "spent", "engine", "reason"),
    [
        (Ready(0.0, 0.0), 0.0, "translated", Reason.LOADED),
        (Ready(9.0, 5.0, kept=True), 0.0, "translated", Reason.KEPT),
        (Ready(9.0, 100.0), 99.0, "threaded", Reason.INTERPRETER),
        (Ready(9.0, 100.0), 100.0, "translated", Reason.PAID),
        (Ready(51.0, 100.0), 0.0, "translated", Reason.NO_INTERPRETER),
    ],
)
def test_compiled_code(plant: Callable[..., Policy], ready: Ready, spent: float, engine: str, reason: Reason) -> None:
    policy = plant()
    policy.account(PROGRAM).interpreter = spent
    found = decide(policy, ready, python=False)
    assert (found.engine, found.reason) == (engine, reason)
    # The interpreter goes on until it has taken as long as the translation takes.
    assert found.steps == (101 if engine == "threaded" else None)


def test_a_run_from_within_the_program_is_not_translated(plant: Callable[..., Policy]) -> None:
    policy = plant()
    found = decide(policy, Ready(20.0, 0.0), whole=False)
    assert (found.engine, found.reason, found.limit) == ("reference", Reason.CHEAP, 10.0)
    policy.count_python(policy.account(PROGRAM), 100, False)
    assert decide(policy, Ready(20.0, 0.0), whole=False) == Decision("threaded", Reason.INSIDE)


def test_rows(plant: Callable[..., Policy]) -> None:
    policy = plant(python_row=5.0, interpreter_row=7.0)
    account = policy.account(PROGRAM, kind="batch")

    def engine(rows: int, price: float = 100.0, loaded: bool = False) -> tuple[str, Reason]:
        found = policy.decide_rows(account, rows, loaded, lambda: price)
        return found.engine, found.reason

    assert engine(1000, loaded=True) == ("translated", Reason.LOADED)
    assert engine(1000) == ("auto", Reason.ROWS)  # a first row, to know the price of one
    policy.count_rows(account, 2, 10, "reference")
    assert account.row == 10.0
    assert engine(3) == ("auto", Reason.ROWS)
    assert engine(4) == ("translated", Reason.BATCH)
    policy.count_rows(account, 1, 100, "threaded")
    assert account.row == 8.0
    assert engine(2) == ("auto", Reason.ROWS)
    assert engine(3) == ("translated", Reason.BATCH)


def test_rows_count_for_the_import(plant: Callable[..., Policy]) -> None:
    policy = plant(to_import=100.0)
    account = policy.account(PROGRAM, kind="batch")
    account.row = 1.0
    assert policy.decide_rows(account, 50, False, lambda: pytest.fail("imported")).reason is Reason.ROWS_IMPORT
    assert policy.decide_rows(account, 51, False, lambda: 90.0).engine == "translated"
    # A machine counts its steps but for the time to enter compiled code, 10 seconds of each row.
    policy.costs.python_row = 5.0
    policy.count_rows(account, 2, 40, "reference")
    assert (policy.python, account.python) == (30.0, 50.0)


def test_the_table_of_accounts_does_not_grow_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiering, "_MOST", 5)
    policy = Policy()
    first = policy.account(PROGRAM)
    assert policy.account(PROGRAM) is first
    assert policy.account(PROGRAM, True) is not first
    assert policy.account(PROGRAM, kind="batch") is not first
    for k in range(9):
        policy.account(rg.assemble(f"start\nadd r1, {k}\nfinish"))
    assert len(policy._accounts) == 5
    assert policy.account(PROGRAM) is not first


def test_every_reason_has_its_figures() -> None:
    for reason in Reason:
        text = str(Decision("threaded", reason, 0.0123, 0.5, 2.0))
        assert text.startswith("threaded: ")
        assert not re.search(r"[{}]", text)
    assert str(Decision("reference", Reason.CHEAP, 0.0123, 0.5, 2.0)).startswith(
        "reference: Python has taken 12.3 ms of the 500.0 ms"
    )


def test_records_hold_all_decisions_within(plant: Callable[..., Policy]) -> None:
    policy = plant(to_import=100.0)
    with tiering.recorded() as outer:
        decide(policy)
        with tiering.recorded() as inner:
            decide(policy, python=False)
        decide(policy)
    decide(policy)
    assert [(d.engine, n) for d, n in outer.values()] == [("reference", 2), ("threaded", 1)]
    assert [(d.engine, n) for d, n in inner.values()] == [("threaded", 1)]
    assert re.search(r"\(100000\.0 ms\); .* at most \(2 times\)$", str(outer).splitlines()[0])


def test_a_named_engine_is_recorded() -> None:
    for name in ("reference", "threaded", "translated"):
        with tiering.recorded() as found:
            machine = machine_for(rg.assemble(LOOP.format(trips=100, other=10)), name)
            machine.run()
        assert list(found) == [(name, Reason.NAMED)]
        assert machine.engine == name


# ---------------------------------------------------------------- runs


@pytest.mark.parametrize("lifted", [False, True])
@pytest.mark.parametrize("trips", [10, 100, 150, 700])
def test_python_ends_once_for_all_runs(plant: Callable[..., Policy], steps: Steps, trips: int, lifted: bool) -> None:
    """Over all runs of a program, Python takes its share of the price, and runs that are over before compiled code is entered."""
    policy = plant(Ready(2000.0, 2000.0), enter=100.0)
    program = rg.assemble(LOOP.format(trips=trips, other=11))
    for _ in range(20):
        machine = TieredMachine(program)
        machine.differentiating = lifted
        machine.run()
    every = 20 * machine.retired
    account = policy.account(program, lifted)
    assert account.python <= 0.5 * 2000.0
    assert steps.python * policy.costs.python(lifted) <= 0.5 * 2000.0 + 20 * 100.0 + 20 * 4
    assert steps.python + steps.threaded + steps.translated >= every


def test_the_interpreter_ends_when_it_has_cost_a_translation(plant: Callable[..., Policy], steps: Steps) -> None:
    policy = plant(Ready(20.0, 200.0))
    program = rg.assemble(LOOP.format(trips=1000, other=13))
    engines = []
    for _ in range(12):
        machine = TieredMachine(program, level=0)
        assert machine.run().steps == 5002
        engines.append(machine.engine)
    # Each tier in its turn, and never back. Python leaves 10 seconds, the interpreter 190 at 50 seconds for a run.
    assert engines == ["threaded"] * 3 + ["translated"] * 9
    assert policy.account(program).spent == pytest.approx(200.0, abs=0.1)


def test_a_translation_that_is_loaded_is_run_at_once(plant: Callable[..., Policy], steps: Steps) -> None:
    plant()
    program = rg.assemble(LOOP.format(trips=300, other=14))
    TieredMachine(program, engine="translated").run()
    before = steps.python
    machine = TieredMachine(program)
    machine.run()
    assert (machine.engine, steps.python) == ("translated", before)
    assert machine.decision == Decision("translated", Reason.LOADED)


def test_a_machine_that_moved_does_not_go_back_to_python(plant: Callable[..., Policy]) -> None:
    policy = plant(Ready(100.0, 1000.0))
    machine = TieredMachine(rg.assemble(LOOP.format(trips=100, other=15)))
    assert machine.run(200).steps == 200
    assert machine.engine == "threaded"
    policy._accounts.clear()
    machine.run()
    assert machine.decision is not None
    assert machine.decision.engine == "threaded"


def test_the_disk_is_searched_once_for_each_variant(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[Any] = []
    monkeypatch.setattr(tiering, "policy", Policy())
    monkeypatch.setattr(native, "is_translated", lambda *key: bool(searched.append(key)))
    program = rg.assemble(LOOP.format(trips=4, other=16))
    for overflow in (True, False, True, False):
        machine = TieredMachine(program, overflow=overflow)
        account = tiering.policy.account(program)
        assert native.ready(machine, None, account).translation == tiering.policy.costs.translation(8)
    assert len(searched) == 2


def test_handlers_that_have_run_have_no_price(plant: Callable[..., Policy]) -> None:
    policy = plant()
    account = policy.account(PROGRAM)
    account.prices["forward"] = Ready(5.0, 9.0)
    policy.count_interpreted(account, 100)
    assert account.prices == {"forward": Ready(0.0, 9.0)}
    assert (account.interpreter, account.spent) == (1.0, 1.0)


def test_single_steps_ask_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Policy, "decide", lambda *_, **__: pytest.fail("decided"))
    machine = TieredMachine(PROGRAM)
    assert machine.step()
    assert machine.run(tiered_machine.FEW - 1).steps == tiered_machine.FEW - 1


# ---------------------------------------------------------------- devices


def test_the_kernel_for_a_device() -> None:
    """Small batches of a new program are interpreted; large ones begin so; code that is ready is used."""
    decide = Policy(Costs()).decide_device
    cases = {
        (100, 10, False, True, False): ("interpreted", Reason.DEVICE_SMALL),
        (100, 1 << 30, False, True, False): ("both", Reason.DEVICE_LARGE),
        (100, 10, True, True, False): ("translated", Reason.LOADED),
        (100, 10, False, False, False): ("translated", Reason.DEVICE_WITHOUT_INTERPRETER),
        (100, 1 << 30, True, False, True): ("interpreted", Reason.DEVICE_ONLY),
    }
    assert {case: (found.engine, found.reason) for case in cases for found in [decide(*case)]} == cases
    # The bound: a share of the price of the translation.
    costs = Costs()
    rows = int(costs.share * costs.optimised_translation(100) / (100 * costs.device_step))
    assert [decide(100, n, False, True, False).engine for n in (rows - 1, rows + 2)] == ["interpreted", "both"]


# ---------------------------------------------------------------- batches and functions


@reversible
def powers(y: fixed, x: fixed, n: int):
    for _ in range(n):
        y += x * x


def test_batches_add_up(plant: Callable[..., Policy], monkeypatch: pytest.MonkeyPatch) -> None:
    """Many small batches move on to a loop over rows as one large batch does."""
    plant(NEVER, python_row=5.0)
    monkeypatch.setattr(loops, "_loops", {})
    monkeypatch.setattr(loops, "price", lambda *_, **__: 8_000.0)
    engines = []
    for _ in range(10):
        found = rg.run_batch(powers, np.zeros(4), np.full(4, 0.5), 50, in_axes=(0, 0, None))
        engines.append(found.engine)
        assert found.values.y.tolist() == [12.5] * 4
    assert engines == ["reference"] * 4 + ["translated"] * 6
    steps = int(found.steps[0])
    # A batch of four takes four times a row; half the price is reached in the fifth.
    assert 4 * 4 * (steps + 5) <= 4000 < 5 * 4 * (steps + 5)


def test_a_large_batch_is_compiled_after_one_row(plant: Callable[..., Policy], monkeypatch: pytest.MonkeyPatch) -> None:
    plant(NEVER)
    monkeypatch.setattr(loops, "_loops", {})
    monkeypatch.setattr(loops, "price", lambda *_, **__: 10_000.0)
    with tiering.recorded() as found:
        assert rg.run_batch(powers, np.zeros(40), np.full(40, 0.5), 50, in_axes=(0, 0, None)).engine == "translated"
    assert found["auto", Reason.ROWS][1] == 1


def test_gradients_learn(plant: Callable[..., Policy], steps: Steps) -> None:
    """The steps of Python end with the first calls of 60."""
    plant(Ready(4000.0, 8000.0, kept=True), enter=100.0)
    f = rg.value_and_grad(powers, "x")
    for _ in range(60):
        assert f(0.0, 0.5, 200) == (50.0, 200.0)
    # None where this process knows the program already.
    assert steps.python < 10_000
    assert steps.translated + steps.threaded > 50 * 1000
