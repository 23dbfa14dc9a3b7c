"""Single runs by stepped launches, the code of whose kernels the host runs: in lockstep with the reference machine."""

from __future__ import annotations

import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from retrograd.examples import full_waveform_inversion
from retrograd.examples.wave import medium, misfit, propagate, pulse
from retrograd.isa.diagnostics import DeviceError, InputError
from retrograd.simulator.engines.choice import machine_for
from retrograd.simulator.engines.cuda import stepped_machine
from retrograd.simulator.engines.cuda.runtime import Device
from retrograd.simulator.engines.cuda.stepped_machine import DeviceMachine
from retrograd.simulator.engines.llvm.builder import I1, Pointer
from retrograd.simulator.engines.translator import row_sharing
from retrograd.simulator.engines.translator.translate import Translator
from support import kernel_on_host
from support.constant_factors import PROGRAMS, words_of_batch
from support.machines import Lockstep

import retrograd as rg
from tests.simulator.engines.test_parallel_loops import MEMORY, UPDATE, fill, generate, neighbours, nest, run

SOME, SLOW, SLOW_CHUNK = 12, 300, 100


@pytest.fixture(autouse=True)
def transformations() -> None:
    """These runs skip no uncompute blocks, and need vector loops."""


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The kernels, run by the host."""
    found = kernel_on_host.HostSteppedKernels
    monkeypatch.setattr(stepped_machine, "SteppedKernels", found)
    monkeypatch.setattr(stepped_machine, "FEW_PASSES", 4)
    stepped_machine._kernels.cache_clear()
    found.rounds.clear()
    found.refused = found.tested = found.measured = found.graphs = 0
    yield found
    stepped_machine._kernels.cache_clear()


@pytest.fixture
def make(host: Any, gpu: Device) -> Callable[..., rg.Machine]:
    return lambda program, **modes: DeviceMachine(program, gpu, **modes)


def test_rows_and_the_last_row(make: Any, host: Any) -> None:
    """All rows but the last, and then the passes of the last; both ways."""
    both = run(make, nest(neighbours(20)), list(range(MEMORY)), 0, [None])
    assert host.rounds == [(0, 14, 13), (1, 1, 13)] * 2
    assert both.tested.engine == "cuda"


@pytest.mark.parametrize("at", [402, 425, 470, 690])
def test_rows_that_fail(make: Any, host: Any, at: int) -> None:
    """A word that is too large: no cell is stored, and scalar code raises the trap. Only such words need tests."""
    words = [1 << 40] * MEMORY
    words[at] = (1 << 63) - 3
    both = run(make, nest(UPDATE), words, 0, [None])
    assert host.refused
    assert host.tested
    assert len(both.traps) == 1


#: one thread stores five times the largest word; p += q in the passes of a loop, six times
GROWING = """
        .memory 1200
        start
        ld.add r1, [r0 + 201]
        ld.add r2, [r0 + 201]
        fadd r1, r2
        fadd r2, r1
        fadd r1, r2
        st.add [r0 + 399], r1
        add r250, 100
        add r251, 6
again:  from.ne r6, r0, againb
        add r6, 1
loop:   from.ne r7, r0, next
        add r7, 1
        ld.add r8, [r7 + 200]
        exch r9, [r7]
        fadd r9, r8
        exch r9, [r7]
        ld.sub r8, [r7 + 200]
next:   goto.ne r7, r250, loop
        sub r7, 100
againb: goto.ne r6, r251, again
        finish
"""


@pytest.mark.parametrize(("word", "tested", "measured"), [(1, 0, 1), (1 << 47, 0, 1), (1 << 50, 5, 4)])
def test_cells_are_tested_where_the_bound_says_too_little(
    make: Any, host: Any, word: int, tested: int, measured: int
) -> None:
    """The bound grows with the terms; behind a test, the words are measured again."""
    both = Lockstep(make, rg.assemble(GROWING))
    both.set(lambda m: fill(m, [*range(200), *[word] * 200]))
    both.run()
    assert len(host.rounds) == 6
    assert (host.tested, host.measured, host.refused) == (tested, measured, 0)


@pytest.mark.parametrize("name", PROGRAMS)
def test_constant_factors_in_batches(tier: str, name: str) -> None:
    """By each tier: the words of the reference machine, there and back."""
    found = words_of_batch(name, engine="cuda")
    assert found == words_of_batch(name, engine="reference")


def test_random_nests(make: Any, host: Any) -> None:
    for seed in range(SOME):
        print(f"seed {seed}")
        run(make, *generate(random.Random(seed)))
    assert len(host.rounds) > SOME // 2


@pytest.mark.long
@pytest.mark.parametrize("first", range(0, SLOW, SLOW_CHUNK))
def test_many_random_nests(make: Any, host: Any, monkeypatch: pytest.MonkeyPatch, first: int) -> None:
    """Some of them in launches of few steps."""
    for seed in range(first + 5000, first + 5000 + SLOW_CHUNK):
        print(f"seed {seed}")
        monkeypatch.setattr(stepped_machine, "SLICE", 40 if seed % 4 == 0 else 1 << 18)
        run(make, *generate(random.Random(seed)))


def test_short_launches(make: Any, host: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every launch ends at a safepoint after a few steps, and the next one goes on there."""
    monkeypatch.setattr(stepped_machine, "SLICE", 25)
    monkeypatch.setattr(stepped_machine, "FEW_ROWS", 1 << 20)
    both = run(make, nest(UPDATE), list(range(MEMORY)), 0, [None])
    assert {found[1] for found in host.rounds} == {1}
    assert both.tested.retired > 1000


def test_an_interrupt_leaves_a_state_that_goes_on(make: Any, host: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stepped_machine, "SLICE", 25)
    begin, launch = stepped_machine._SteppedRun._run, host.launch
    runs: list[Any] = []

    def noted(run: Any) -> None:
        runs.append(run)
        begin(run)

    def interrupting(*arguments: Any) -> None:
        launch(*arguments)
        if len(runs) == 1:
            runs.append(None)
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            while not runs[0].stopping:
                time.sleep(0.001)

    monkeypatch.setattr(stepped_machine._SteppedRun, "_run", noted)
    monkeypatch.setattr(host, "launch", interrupting)
    both = Lockstep(make, nest(UPDATE))
    both.set(lambda m: fill(m, list(range(MEMORY))))
    # A process that a shell starts in the background ignores the signal.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            both.tested.run()
    finally:
        signal.signal(signal.SIGINT, before)
    taken = both.tested.retired
    assert 0 < taken < 2000
    both.reference.run(taken)
    both.check()
    both.run()


def test_many_rounds_are_launched_at_once(make: Any, host: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounds that need no test, and rounds behind a test that no launch made."""
    monkeypatch.setattr(stepped_machine, "MOST_ROUNDS", 2)
    for word, graphs in ((1, 3), (1 << 50, 1)):
        host.graphs = 0
        both = Lockstep(make, rg.assemble(GROWING))
        both.set(lambda m, word=word: fill(m, [*range(200), *[word] * 200]))
        both.run()
        assert host.graphs == graphs
    assert host.tested


def test_a_longer_slice_takes_fewer_launches(make: Any, host: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    launch, launches = host.launch, []

    def counted(*arguments: Any) -> None:
        launches.append(arguments)
        launch(*arguments)

    def number(steps: int) -> int:
        monkeypatch.setattr(stepped_machine, "SLICE", steps)
        launches.clear()
        both = Lockstep(make, nest(UPDATE))
        both.set(lambda m: fill(m, list(range(MEMORY))))
        both.run()
        return len(launches)

    monkeypatch.setattr(host, "launch", counted)
    assert number(25) > number(10**6)


def all_pass(self: Any) -> Any:
    """Words are not compared with their bounds."""
    self._begin("test", I1)
    self.always_tested = False
    self.code.ret(0)
    return self.code.callee


def plain_stores(self: Any, amount: Any) -> None:
    """A word is overwritten by the sum of two others."""
    self.store(amount + amount)


def unchecked(self: Any, holds: Any) -> None:
    """Words that a row reads may be written by another."""


#: p += q, where row r reads the words of row r + 2
LATER = ("ld.add r8, [r5 + 45]", "exch r9, [r5]", "fadd r9, r8", "exch r9, [r5]", "ld.sub r8, [r5 + 45]")


@pytest.mark.parametrize(
    ("owner", "name", "fault", "body", "large"),
    [
        (stepped_machine._CellEmitter, "emit_test", all_pass, UPDATE, 425),
        (Pointer, "atomic_add", plain_stores, UPDATE, None),
        (row_sharing.RowDistributionEmitter, "_unless", unchecked, LATER, None),
        (stepped_machine._PlannedLoopEmitter, "_is_tested", lambda *_: 0, UPDATE, 425),
        (stepped_machine._PlannedLoopEmitter, "_grown", lambda _, bound, terms: bound, UPDATE, None),
        (stepped_machine.SteppedTranslator, "_write", Translator._write, None, None),
    ],
    ids=["test", "sum", "read", "bound", "grown", "stored"],
)
def test_planted_faults_are_found(
    make: Any,
    host: Any,
    monkeypatch: pytest.MonkeyPatch,
    owner: Any,
    name: str,
    fault: Any,
    body: Any,
    large: int | None,
) -> None:
    words = list(range(MEMORY, 0, -1))
    if large is not None:
        words[large] = (1 << 63) - 3
    program = nest(body) if body else rg.assemble(GROWING)
    run(make, program, words, 0, [None])
    monkeypatch.setattr(owner, name, fault)
    stepped_machine._kernels.cache_clear()
    with pytest.raises(AssertionError):
        run(make, program, words, 0, [None])


def test_a_program_without_parallel_loops_is_refused() -> None:
    with pytest.raises(InputError, match=r"RG1001.*single run without parallel loops"):
        machine_for(rg.assemble("start\nadd r1, 1\nfinish\n"), "cuda")


@pytest.mark.parametrize("argument", ["q", "c"])
def test_the_gradient_of_a_wave(host: Any, argument: str) -> None:
    """Each update of the gradient adds to the cotangents of five cells."""
    n, steps = 12, 4
    given = pulse(n), np.zeros((n, n)), medium(n), np.zeros(n), 3, steps
    expected = rg.grad(misfit, argument, engine="native", scale=0)(0.0, *given)
    assert (rg.grad(misfit, argument, engine="cuda", scale=0)(0.0, *given) == expected).all()
    # Forward, and back with the cotangents; then the last row of each.
    assert [rows for _, rows, _ in host.rounds] == [n - 3, 1] * (2 * steps)
    assert (host.tested, host.measured) == (0, 1)


@pytest.mark.parametrize("gpu", ["cells", "shots"])
def test_an_inversion_has_the_gradient_of_the_cpu(host: Any, translated: Any, gpu: str) -> None:
    """With threads for cells, by parallel loops, and with threads for shots, on arrays of the device."""
    survey = full_waveform_inversion.survey(17, 2, 3)
    survey = survey._replace(pulse=survey.pulse[8:14])
    seen = np.ones((2, 6, 3))
    v = full_waveform_inversion.phantom(17)
    value, slope = full_waveform_inversion.objective(survey, seen)(v)
    found, by_device = full_waveform_inversion.objective(survey, seen, gpu)(v)
    assert found == value
    assert (by_device == slope).all()
    assert slope.any()
    assert bool(host.rounds) == (gpu == "cells")
    assert bool(translated.launches) == (gpu == "shots")


def test_the_simulator_refuses_a_single_run() -> None:
    with pytest.raises(DeviceError, match="runs no PTX") as caught:
        rg.run(propagate, pulse(8), np.zeros((8, 8)), medium(8), 1, engine="cuda")
    assert "run a batch" in str(caught.value)


def test_a_wave_forward_and_back(host: Any) -> None:
    n, steps = 14, 5
    given = pulse(n), np.zeros((n, n)), medium(n), steps
    there, expected = (rg.run(propagate, *given, engine=engine) for engine in ("cuda", "native"))
    assert (there.values.q == expected.values.q).all()
    assert (there.steps, there.engine) == (expected.steps, "cuda")
    back, expected = (rg.run(~propagate, *there.values, engine=engine) for engine in ("cuda", "native"))
    assert (back.values.q == expected.values.q).all()
    assert back.steps == expected.steps
    assert len(host.rounds) == 4 * steps
    # No cell is tested: a sum reads and writes each word once.
    assert (host.tested, host.measured) == (0, 2)
