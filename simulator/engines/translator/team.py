"""A second thread for translated code: it waits in machine code for rows of a loop (parallel_loops.py), and executes them.

Both threads share the words of TeamSlot. One thread owns them at a time, and hands them over by an atomic store of the state:

    IDLE or DONE → WORK     by the thread of the run
    WORK → DONE             by the second thread
    any → QUIT              by Python, behind the run

A thread that waits looks at the state again and again; after a while it lets other threads run, and later it sleeps. The second thread exists only while
a run of translated code that shares rows goes on.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray
from retrograd.simulator.engines.llvm.builder import Callee, FunctionBuilder, Pointer, Value
from retrograd.simulator.engines.llvm.jit import jit_compiler, source_digest
from retrograd.simulator.engines.llvm.types import I32, I64, POINTER
from retrograd.simulator.engines.state.control_block import TeamSlot, TeamState

#: looks at the state between which other threads may run; such pauses before a thread sleeps, and the microseconds of its sleep
_LOOKS, _PAUSES, _SLEEP = 1 << 10, 1 << 6, 50


def set_state(team: Pointer, state: TeamState) -> None:
    """Hand the words over, behind all stores so far."""
    team.code.do(f"store atomic i64 {int(state)}, ptr {team[TeamSlot.STATE].name} release, align 8")


def wait(team: Pointer, states: tuple[TeamState, ...]) -> Value:
    """Wait for one of the states; the state."""
    code = team.code
    looks = code.variable(I64, "looks", 0)
    names = ("wait", "wait.more", "wait.rest", "wait.yield", "wait.sleep", "wait.end")
    head, more, rest, pause, sleep, end = map(code.block, names)
    code.start(head)
    place, state = team[TeamSlot.STATE], Value(code, I64, code.name())
    code.do(f"{state.name} = load atomic i64, ptr {place.name} acquire, align 8")
    code.branch(code.any(state.eq(int(wanted)) for wanted in states), end, more)
    code.start(more)
    looks.add(1)
    code.branch((looks.load() & _LOOKS - 1).eq(0), rest, head)
    code.start(rest)
    code.branch(looks.load().lt(_LOOKS * _PAUSES), pause, sleep)
    code.start(pause)
    code.call(code.module.declare("sched_yield", I32, pure=False))
    code.jump(head)
    code.start(sleep)
    code.call(code.module.declare("usleep", I32, I32, pure=False), _SLEEP)
    code.jump(head)
    code.start(end, keep=True)
    return state


def _work() -> str:
    module = jit_compiler().module()
    code = module.function("work", I64, {"team": POINTER}, linkage="")
    team = code.arguments[0].of(I64)
    again, work, end = map(code.block, ("again", "work", "end"))
    code.start(again)
    state = wait(team, (TeamState.WORK, TeamState.QUIT))
    code.branch(state.eq(int(TeamState.WORK)), work, end)
    code.start(work)
    _execute(code, team)
    set_state(team, TeamState.DONE)
    code.jump(again)
    code.start(end)
    code.ret(0)
    return module.text()


def _execute(code: FunctionBuilder, team: Pointer) -> None:
    pointers = [team[slot].load().of(I64) for slot in (TeamSlot.MEMORY, TeamSlot.REGISTERS, TeamSlot.DELTAS)]
    function = team[TeamSlot.FUNCTION].load().of(I64)
    n, first, last, passes = (team[s].load() for s in (TeamSlot.WORDS, TeamSlot.FIRST, TeamSlot.LAST, TeamSlot.PASSES))
    types = (POINTER, I64, POINTER, POINTER, I64, I64, I64)
    callee = Callee(function.name, I64, types)
    result = code.call(callee, pointers[0], n, pointers[1], pointers[2], first, last, passes)
    team[TeamSlot.RESULT].store(result)


@contextmanager
def second_thread() -> Iterator[NDArray[np.int64]]:
    """A thread that waits for work as long as the context is entered; the words that are shared with it."""
    words = np.zeros(len(TeamSlot), dtype=np.int64)
    address = jit_compiler().load(f"{source_digest()} team", ("work",), _work)["work"]
    work = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(address)
    # The thread keeps the words, should it outlive the context.
    thread = threading.Thread(target=lambda: work(words.ctypes.data), daemon=True)
    thread.start()
    try:
        yield words
    finally:
        words[TeamSlot.STATE] = TeamState.QUIT
        thread.join()
