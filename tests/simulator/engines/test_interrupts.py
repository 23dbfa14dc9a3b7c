"""Ctrl-C: a run in compiled code ends soon, and leaves a machine that can go on, and back."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from retrograd.simulator.engines import native
from retrograd.simulator.engines.tiered_machine import TieredMachine
from support.machines import Lockstep

import retrograd as rg

Make = Callable[..., rg.Machine]

#: 2^40 times round: days
ENDLESS = """
        start
        add r5, 1
        shli.add r2, r5, 40
top:    from.ne r1, r0, bottom
        add r1, 1
        add r3, r1
bottom: goto.ne r1, r2, top
        finish
"""
#: where control ends that a jump leads astray: on what is no branch, outside the code
ASTRAY = {
    "no branch": "start\nadd r1, 1\nadd r1, 2\nadd r1, 3\nadd r1, 4\ngoto .+2\nfinish\nadd r1, 5",
    "outside": "start\nadd r1, 1\nadd r1, 2\nadd r1, 3\nadd r1, 4\ngoto .+7\nfinish",
    "far outside": "start\nadd r1, 1\nadd r1, 2\nadd r1, 3\nadd r1, 4\nswapbr r9\nfinish",
}


@pytest.fixture
def interrupt() -> Iterator[Callable[[], None]]:
    """Press Ctrl-C soon."""
    timers: list[threading.Timer] = []
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)

    def soon() -> None:
        timers.append(threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)))
        timers[-1].start()

    yield soon
    for timer in timers:
        timer.join()
    signal.signal(signal.SIGINT, handler)


def consistent(machine: rg.Machine) -> None:
    """Words and counts say the same: how often it came round."""
    rounds = machine.registers[1]
    # None at all, if the machine was so busy that it had not begun.
    assert 0 <= rounds < 1 << 40
    added = machine.executed[+1][5] - machine.executed[-1][5]
    assert rounds == machine.executed[+1][4] - machine.executed[-1][4]
    assert added in (rounds, rounds - 1)
    assert machine.registers[3] == (added * (added + 1) // 2) % (1 << 64)
    assert machine.retired == sum(machine.executed[+1]) + sum(machine.executed[-1])


@pytest.mark.parametrize("tier", ["threaded", "translated", "auto"])
def test_interrupted_runs_can_go_back(
    tier: Any, interrupt: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native, "SLICE", 1 << 20)
    machine = TieredMachine(rg.assemble(ENDLESS), engine=tier)
    before = machine.state()
    machine.run(1000)
    interrupt()
    with pytest.raises(KeyboardInterrupt):
        machine.run()
    consistent(machine)
    # On it goes, from where it was.
    rounds, here = machine.registers[1], machine.retired
    machine.run(4000)
    assert machine.registers[1] == rounds + 1000
    assert machine.retired == here + 4000
    consistent(machine)
    machine.run_back()
    assert machine.state() == before
    # What was executed one way was executed the other.
    assert list(machine.executed[+1]) == list(machine.executed[-1])


@pytest.mark.parametrize("tier", ["threaded", "translated"])
def test_a_run_interrupted_from_its_start(
    tier: Any, interrupt: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native, "SLICE", 1 << 20)
    program = rg.assemble(ENDLESS)
    # Compiled beforehand, that it is not the compiler which is interrupted.
    TieredMachine(program, engine=tier).run(100)
    machine = TieredMachine(program, engine=tier)
    interrupt()
    with pytest.raises(KeyboardInterrupt):
        machine.run()
    assert machine.engine == tier
    consistent(machine)
    machine.turn()
    assert machine.run().stop is rg.Stop.HALTED
    assert not any(machine.registers)


@pytest.mark.parametrize("steps", [7, 50, 1000])
@pytest.mark.parametrize("which", ["limit", "trap", "end", *ASTRAY])
def test_interrupted_as_compiled_code_returns(which: str, steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The moment at which Python raises it: whatever the code returned for, the machine stands where it stopped."""
    text = {
        "limit": ENDLESS,
        "trap": "start\nadd r1, 1\nadd r1, 1\nadd r1, 1\nadd r1, 1\ndiv.add r3, r1, r9\nfinish",
        "end": "start\nadd r1, 1\nadd r1, 1\nadd r1, 1\nadd r1, 1\nadd r1, 1\nfinish",
        **ASTRAY,
    }[which]
    program = rg.assemble(text, check=False)
    both = Lockstep(partial(TieredMachine, engine="threaded"), program)
    both.set(lambda m: m.registers.__setitem__(9, 1000 * (which == "far outside")))
    run, sentinel = native.entry()

    def interrupted(*arguments: Any) -> int:
        run(*arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(native, "entry", lambda: (interrupted, sentinel))
        with pytest.raises(KeyboardInterrupt):
            both.tested.run(steps)
    both.reference.run(both.tested.retired)
    both.check()
    both.run(steps)
    both.run_back()


def test_machines_in_threads_of_their_own() -> None:
    """Compiled code runs beside other Python, and beside itself."""
    text = ENDLESS.replace("add r5, 1\n        shli.add r2, r5, 40", "add r2, 200000\n        add r5, 1")
    program = rg.assemble(text)
    reference = rg.Machine(program)
    reference.run()
    machines = [TieredMachine(program, engine=tier, level=0) for tier in ("threaded", "translated") for _ in range(2)]
    threads = [threading.Thread(target=machine.run) for machine in machines]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for machine in machines:
        assert machine.state() == reference.state()
        assert machine.executed == reference.executed
