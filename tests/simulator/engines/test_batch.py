"""Batches on the CPU: every row as the reference machine runs it, by whatever threads; and they can be stopped."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from retrograd.simulator.engines.batch import run_batch
from retrograd.simulator.engines.steps import step

import retrograd as rg

#: r1 := M[0]; M[1] += M[0] + (M[0] − 1) + … + 1; as often as M[0] says, and without end for 0
COUNTDOWN = """
        .memory 4
        .text
        start
        ld.add r1, [r0]
        add r2, r1
top:    from.ne r1, r2, bottom
        st.add [r0 + 1], r1
        sub r1, 1
bottom: goto.ne r1, r0, top
        ld.sub r2, [r0]
        finish
"""


@pytest.fixture
def stopped() -> Iterator[Callable[[], None]]:
    """Press Ctrl-C soon."""
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    timers: list[threading.Timer] = []

    def soon() -> None:
        timers.append(threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)))
        timers[-1].start()

    yield soon
    for timer in timers:
        timer.join()
    signal.signal(signal.SIGINT, handler)


def quick(opcode: Any) -> bool:
    """Whether LLVM is soon done with it."""
    return step(opcode, rg.Format(64, 32), False, False).size <= 60


def expected(program: rg.Program, row: list[int], limit: int | None) -> tuple[list[int], int, bool]:
    machine = rg.Machine(program)
    machine.load(0, row)
    try:
        ended = machine.run(limit).stop is rg.Stop.HALTED
    except rg.Trap:
        ended = False
    return (machine.memory[: len(row)] if ended else row), machine.retired, ended


@pytest.mark.parametrize("threads", [1, 2, 7])
@pytest.mark.parametrize("limit", [None, 60])
def test_rows_are_as_the_machine_runs_them(threads: int, limit: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("retrograd.simulator.engines.batch.BRIEF", 0.0)
    program = rg.assemble(COUNTDOWN)
    rows = np.array([[1 + i * 7 % 23, i, 5] for i in range(100)], dtype=np.uint64)
    told: list[int] = []
    ran = run_batch(program, rows, limit=limit, threads=threads, progress=told.append)
    assert sum(told) == len(rows)
    for i, row in enumerate(rows.tolist()):
        words, steps, ended = expected(program, row, limit)
        # How near it comes to the limit, compiled code sees only where loops come round.
        assert ended or i in ran.failed
        assert not ended or i not in ran.failed or (limit is not None and steps > limit - 2 * len(program.code))
        assert ran.rows[i].tolist() == (row if i in ran.failed else words)
        assert i in ran.failed or ran.steps[i] == steps


def test_random_programs(generator: ModuleType) -> None:
    """What a program of the suite makes of its data, once for each of some rows."""
    for seed in range(4000, 4012):
        case = generator.generate(seed, allow=quick, sizes=(10, 25))
        program = case.program
        rng = np.random.default_rng(seed)
        rows = np.array([case.memory] * 5, dtype=np.uint64)
        rows[1:, :8] ^= rng.integers(0, 4, rows[1:, :8].shape, dtype=np.uint64)
        ran = run_batch(program, rows, limit=10_000)
        for i, row in enumerate(rows.tolist()):
            words, steps, ended = expected(program, row, 10_000)
            assert (ran.rows[i].tolist(), i not in ran.failed) == (words, ended), seed
            assert not ended or ran.steps[i] == steps


@pytest.mark.parametrize("threads", [1, 3])
def test_an_endless_batch_is_interrupted(threads: int, stopped: Callable[[], None]) -> None:
    program = rg.assemble(COUNTDOWN)
    rows = np.array([[3, 0]] * 5 + [[0, 0]] * 20, dtype=np.uint64)
    run_batch(program, rows, limit=1000)  # compiled beforehand, that it is not the compiler which is interrupted
    stopped()
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        run_batch(program, rows, threads=threads)
    # Of itself it would end after days.
    assert time.monotonic() - began < 60


def test_an_error_of_who_is_told_stops_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("retrograd.simulator.engines.batch.BRIEF", 0.0)

    def refuse(ended: int) -> Any:
        raise ValueError("enough")

    with pytest.raises(ValueError, match="enough"):
        run_batch(rg.assemble(COUNTDOWN), np.array([[0, 0]] * 4, dtype=np.uint64), progress=refuse)
