"""Code that is optimised in the background: runs agree with the reference machine before, while and after it comes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

import numpy as np
import pytest
from retrograd.simulator.engines import native, tiering
from retrograd.simulator.engines.batch import cpu, loops
from retrograd.simulator.engines.llvm import tiered_code
from retrograd.simulator.engines.llvm.jit import BackgroundCompiler, BackgroundError, background, jit_compiler
from retrograd.simulator.engines.llvm.tiered_code import TieredCode
from retrograd.simulator.engines.machines import WholeRuns
from retrograd.simulator.engines.tiered_machine import TieredMachine
from retrograd.simulator.engines.tiering import Costs, Policy, Reason
from retrograd.simulator.engines.translator import translate
from support import generator

import retrograd as rg

MODULE = "define i64 @f() {\n  ret i64 42\n}\n"
#: as many passes as M[0], each with a sum that goes to memory
LOOP = """
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


class Looked(Future[bytes]):
    """Object code that has come when it is looked for the third time."""

    looks = 0

    def done(self) -> bool:
        self.looks += 1
        return self.looks > 2


class AtOnce:
    """A background compiler that has always compiled already."""

    def __init__(self) -> None:
        self.compiled = 0
        self.future = Future[bytes]

    def compile(self, emit: Callable[[], str], level: int) -> Future[bytes]:
        future = self.future()
        future.set_result(jit_compiler().compile(emit(), level))
        self.compiled += 1
        return future


@pytest.fixture
def empty(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No code is loaded or on the disk, and all optimised code comes from the background, from the first run on."""
    monkeypatch.setattr(tiering, "policy", Policy(Costs(wait=-1.0, background_share=0.0)))
    monkeypatch.setenv("RETROGRAD_CACHE", "")
    monkeypatch.setattr(jit_compiler(), "_linked", {})
    monkeypatch.setattr(loops, "_loops", {})
    translate._translation_of.cache_clear()
    yield
    translate._translation_of.cache_clear()


@pytest.fixture
def at_once(empty: None, monkeypatch: pytest.MonkeyPatch) -> AtOnce:
    found = AtOnce()
    monkeypatch.setattr(tiered_code, "background", lambda: found)
    return found


def state(machine: rg.Machine) -> Any:
    return (
        (machine.pc, machine.br, machine.direction, machine.retired, machine.erased_bits),
        (list(machine.registers), list(machine.memory), list(machine.executed[1]), list(machine.executed[-1])),
    )


def ran(machine: rg.Machine, limit: int) -> Any:
    """The machine's state after a run, with the run's steps or its trap."""
    try:
        return machine.run(limit).steps, state(machine)
    except rg.Trap as trap:
        return str(trap), state(machine)


# ---------------------------------------------------------------- runs


@pytest.mark.parametrize("seed", range(6000, 6006))
def test_runs_before_and_after_the_switch(seed: int, at_once: AtOnce) -> None:
    case = generator.generate(seed, sizes=(10, 25))
    for _ in range(3):
        machines = [rg.Machine(case.program), TieredMachine(case.program, engine="translated")]
        for machine in machines:
            machine.memory[: len(case.memory)] = case.memory
        expected, found = (ran(machine, 10_000) for machine in machines)
        assert found == expected
    # Once for each translation.
    assert at_once.compiled == translate._translation_of.cache_info().currsize


def test_a_run_begins_anew_in_optimised_code(at_once: AtOnce, monkeypatch: pytest.MonkeyPatch) -> None:
    at_once.future = Looked
    monkeypatch.setattr(native, "BRIEF", 64)
    monkeypatch.setattr(native, "GLANCE", 0.001)
    program = rg.assemble(LOOP)
    trips = 20_000_000
    machines = [TieredMachine(program, engine=engine) for engine in ("threaded", "translated")]
    with tiering.recorded() as found:
        for machine in machines:
            machine.memory[:2] = trips, 5
            machine.run()
    assert ("translated", Reason.FIRST_CODE) in found
    assert ("translated", Reason.OPTIMISED_CODE) in found
    assert at_once.compiled == 1
    assert state(machines[0]) == state(machines[1])


def test_whole_runs_move_to_optimised_code(at_once: AtOnce) -> None:
    program = rg.assemble(LOOP)
    runs = WholeRuns(program, backward=False, overflow=True)
    addresses = []
    for n in range(1, 4):
        found = runs([n, 10], "translated", None, {})
        assert found is not None
        assert list(found.memory[:2]) == [n, 10 + n * (n + 1) // 2]
        addresses.append(runs._loaded_at)
    assert addresses[0] != addresses[1] == addresses[2]


@pytest.mark.parametrize("lanes", [1, 8])
def test_batches_move_to_optimised_code(lanes: int, at_once: AtOnce, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jit_compiler(), "lanes", lanes)
    tiering.policy.costs.threads = tiering.policy.costs.lanes = 0.0
    text = ".memory 2\n.text\nstart\nld.add r1, [r0]\nfmul.add r2, r1, r1\nst.add [r0 + 1], r2\nfmul.sub r2, r1, r1\nld.sub r1, [r0]\nfinish"
    program = rg.assemble(text)
    rows = np.array([[i << 20, 7] for i in range(300)], dtype=np.uint64)
    first: Any = None
    addresses = []
    for _ in range(3):
        found = cpu.run_batch(program, rows, threads=2)
        got = found.rows.tolist(), found.steps.tolist(), found.failed.tolist()
        first = first or got
        assert got == first
        addresses.append(loops.loop_of(program, loops.variant_of(program, False, True, True)).address)
    for row, (x, y) in zip(first[0], rows.tolist(), strict=True):
        machine = rg.Machine(program)
        machine.memory[:2] = x, y
        machine.run()
        assert row == list(machine.memory[:2])
    assert addresses[0] == addresses[-1]
    assert at_once.compiled == 1 + (lanes > 1)


# ---------------------------------------------------------------- the other process


def test_object_code_comes_from_another_process(empty: None) -> None:
    code = TieredCode("of a test", "f", lambda: MODULE, 2, 1.0)
    first = code.address
    assert code.pending
    until = time.monotonic() + 60
    while not code.count(1.0) and time.monotonic() < until:
        time.sleep(0.01)
    assert not code.pending
    assert code.address != first


def test_an_error_in_the_background_is_reported_and_the_first_code_stays(empty: None) -> None:
    texts = iter([MODULE, "nonsense"])
    code = TieredCode("of a test with an error", "f", lambda: next(texts), 2, 1.0)
    address = code.address
    code.count(1.0)
    assert code._future is not None
    with pytest.raises(BackgroundError, match="status 1"):
        code._future.result(60)
    with tiering.recorded() as found, pytest.warns(RuntimeWarning, match="is not optimised"):
        assert not code.count(1.0)
    assert (code.address, code.pending) == (address, False)
    assert ("translated", Reason.NOT_OPTIMISED) in found


def test_without_another_process_a_thread_compiles(empty: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "")
    assert len(background().compile(lambda: MODULE, 1).result(60)) > 100


@pytest.mark.parametrize(("name", "value"), [("executable", ""), ("executable", None), ("frozen", True)])
def test_what_is_no_interpreter_is_not_started(
    empty: None, monkeypatch: pytest.MonkeyPatch, name: str, value: object
) -> None:
    """Also the executable of a frozen application: it would run the application again."""
    started: list[object] = []
    monkeypatch.setattr(subprocess, "Popen", lambda *arguments, **_: started.append(arguments))
    monkeypatch.setattr(sys, name, value, raising=False)
    assert len(background().compile(lambda: MODULE, 1).result(60)) > 100
    with pytest.raises(BackgroundError, match="no process"):
        background().run(lambda: "module", "").result(60)
    assert not started


def test_another_compiler_runs_a_program_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    program = "from retrograd.simulator.engines.llvm.jit import answer; answer({})"
    other = background("other")
    assert other is background("other") is not background()
    assert other.run(lambda: "module", program.format("lambda text: text.upper().encode()")).result(60) == b"MODULE"
    with pytest.raises(BackgroundError, match="ZeroDivisionError"):
        other.run(lambda: "module", program.format("lambda text: 1 // 0")).result(60)
    monkeypatch.setattr(sys, "executable", "")
    with pytest.raises(BackgroundError, match="no process"):
        other.run(lambda: "module", program).result(60)


def test_a_compiler_that_is_closed_leaves_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = BackgroundCompiler()
    slow = "import time; time.sleep(600)#{}{}"
    monkeypatch.setattr("retrograd.simulator.engines.llvm.jit._PROGRAM", slow)
    future = compiler.compile(lambda: MODULE, 1)
    until = time.monotonic() + 60
    while compiler._process is None and time.monotonic() < until:
        time.sleep(0.01)
    process = compiler._process
    assert process is not None
    compiler.close()
    with pytest.raises(BackgroundError):
        future.result(60)
    assert process.wait(60) == (-signal.SIGKILL if hasattr(signal, "SIGKILL") else 1)
    assert not compiler._thread.is_alive()


SCRIPT = """
import os, signal, sys
from retrograd.simulator.engines.llvm.jit import background
future = background().compile(lambda: {text!r}, 1)
{then}
print("ended")
"""
THEN = {
    "exit": "",
    "fork": """
child = os.fork()
if not child:
    assert len(background().compile(lambda: {text!r}, 1).result(60)) > 100
    sys.exit(3)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
assert len(future.result(60)) > 100
""",
    "interrupt": """
try:
    signal.raise_signal(signal.SIGINT)
except KeyboardInterrupt:
    pass
assert len(future.result(60)) > 100
""",
}


@pytest.mark.parametrize("name", THEN)
def test_a_process_ends_cleanly_while_it_compiles(name: str) -> None:
    if name == "fork" and not hasattr(os, "fork"):
        pytest.skip("this system has no fork")
    script = SCRIPT.format(text=MODULE, then=THEN[name].format(text=MODULE))
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False)
    assert (found.returncode, found.stdout, found.stderr) == (0, "ended\n", "")
