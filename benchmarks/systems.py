"""The systems of one problem: each is checked, then all that are ready are timed in turns.

Correctness comes first: our numbers against the reference; engines against each other, bit for bit; peers against the reference.
A wrong result is not timed.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from retrograd.benchmarks.measure import Spent, optimised, timed
from retrograd.benchmarks.operations import operations
from retrograd.benchmarks.ours import Ours
from retrograd.benchmarks.peers import Peer, Prepared
from retrograd.benchmarks.workload import Problem, Sizes, Task

from retrograd.runtime._batch_runs import BatchWords

#: largest error of a peer against the reference, as a part of the largest number: a fast wrong peer is no peer
PEER_TOLERANCE = 1e-10
#: limits of the slow engines: steps, and elements; they run the elements in sequence, each on a machine that Python sets up
STEPS = {"threaded": (2_000_000, 20_000_000), "reference": (30_000, 100_000)}
#: a single run of more steps is left to the translation
LONGEST = 50_000_000
#: a peer that takes longer to compile a task has no place in its curve, which would compile it for each size: seconds
SLOW = 20.0
ELEMENTS = 300
#: repeats, and seconds for all repeats of one system: quick, and full
REPEATS, BUDGET = (3, 5), (0.25, 5.0)

#: progress: called with a line for people, and with True at the next workload or part
Say = Callable[[str, bool], None]


def reason_of(error: BaseException) -> str:
    first = str(error).strip().splitlines()
    return f"{type(error).__name__}: {first[0][:200] if first else ''}".rstrip(": ")


@dataclass
class System:
    """One system on one task: the call to time, or the reason for its absence."""

    what: str
    name: str
    ours: bool
    status: str = "timed"
    reason: str = ""
    note: str = ""
    error: float | None = None
    call: Callable[[], object] | None = None
    #: evaluations of one call
    evaluations: float = 1.0
    spent: Spent | None = None
    #: seconds until the system was ready, its first call included
    prepared: float = 0.0

    def document(self) -> dict[str, Any]:
        each = None if self.spent is None else [t / self.evaluations for t in self.spent]
        return {
            "system": self.name, "ours": self.ours, "status": self.status, "reason": self.reason, "note": self.note,
            "error": self.error, "median": each[0] if each else None, "minimum": each[1] if each else None,
            "prepared": self.prepared, "peak_bytes": None,
        }  # fmt: skip


@dataclass
class _Asked:
    """A task with its systems."""

    task: Task
    systems: list[System] = field(default_factory=list)
    instructions: float | None = None
    #: instructions of one run, over the operations of the irreversible program for the same value
    per_operation: float | None = None
    words: int | None = None
    own: int | None = None


def run_problem(problem: Problem, peers: Sequence[Peer], sizes: Sizes, say: Say) -> dict[str, Any]:
    asked = []
    irreversible = operations(problem.tasks[0].data)
    for task in problem.tasks:
        one = _Asked(task)
        asked.append(one)
        try:
            _ask_ours(one, problem, sizes, irreversible)
        except (KeyboardInterrupt, MemoryError):
            raise
        except Exception as error:
            one.systems.append(System(task.what, "translated", True, "failed", reason_of(error)))
        for peer in peers:
            say(f"{problem.size}: {task.what} by {peer.name}", False)
            for name, made in peer.systems(type(task.data), task.what).items():
                one.systems.append(ask_peer(name, made, task, problem))
    ready = {(s.what, s.name): s for one in asked for s in one.systems if s.status == "timed"}
    say(f"{problem.size}: timing {len(ready)} systems", False)
    tasks = {f"{what} by {name}": s.call for (what, name), s in ready.items() if s.call is not None}
    spent = timed(tasks, REPEATS[not sizes.quick], BUDGET[not sizes.quick], clock=time.process_time)
    for (what, name), s in ready.items():
        s.spent = spent[f"{what} by {name}"]
    return {
        "size": problem.size, "evaluations": problem.evaluations,
        "tasks": [
            {
                "what": one.task.what, "tolerance": one.task.tolerance, "absolute": one.task.absolute,
                "instructions": one.instructions, "per_operation": one.per_operation, "words": one.words,
                "extra_words": None if one.words is None or one.own is None else one.words - one.own,
                "systems": [s.document() for s in one.systems],
            }
            for one in asked
        ],
    }  # fmt: skip


def _ask_ours(one: _Asked, problem: Problem, sizes: Sizes, irreversible: float | None) -> None:
    """Our systems, checked and ready. If translation fails, the interpreter takes part all the same."""
    task, program = one.task, one.task.ours()
    main = System(task.what, "translated", True)
    one.systems.append(main)
    try:
        # Small sizes would wait for the compiler longer than they run.
        with nullcontext() if sizes.quick else optimised():
            first = program.run("translated")
    except (KeyboardInterrupt, MemoryError):
        raise
    except Exception as raised:
        main.status, main.reason = "failed", reason_of(raised)
        first = program.run("threaded")
    rows = len(first.steps)
    evaluations = program.evaluations or problem.evaluations
    one.instructions = float(first.steps.sum()) / evaluations
    if irreversible is not None and task.what != "hessian":
        # One run is one row of a Jacobian, and beyond that as many evaluations as the problem has for each row.
        each = max(1.0, evaluations / rows)
        one.per_operation = float(first.steps.mean()) / (irreversible * each)
    one.words, one.own = program.words, program.own
    found = program.read(first)
    off, error = task.error(found), task.relative_error(found)
    main.error = error
    main.evaluations, main.call = evaluations, functools.partial(program.run, "translated")
    if not off <= task.tolerance:
        main.status, main.reason = "wrong", f"the error is {off:.1e}, and may be {task.tolerance:.1e}"
        return
    if main.status == "timed":
        one.systems += _variants(task, program, evaluations, error, sizes, int(first.steps.max()))
    for engine, limits in STEPS.items():
        one.systems.append(_slow(engine, limits[not sizes.quick], program, first, task, rows / evaluations, error))


def _variants(task: Task, program: Ours, evaluations: float, error: float, sizes: Sizes, steps: int) -> list[System]:
    """The translation without checks, the public call of a short program, and the run backward."""
    calls: dict[str, Callable[[], object]] = {}
    if not sizes.quick:
        calls["unchecked"] = functools.partial(program.run, "translated", checks=False)
    if program.public is not None and steps <= LONGEST and not (sizes.quick and task.what == "hessian"):
        calls["public"] = functools.partial(program.public, "translated")
    if task.what == "value":
        calls["uncall"] = program.uncall()
    if not sizes.quick:
        for call in calls.values():
            _warm(call)
    return [
        System(task.what, name, True, call=call, evaluations=evaluations, error=None if name == "uncall" else error)
        for name, call in calls.items()
    ]


def _warm(call: Callable[[], object]) -> None:
    """Call once, with optimised code and code for lanes, which later calls use."""
    with optimised():
        call()


def _slow(
    engine: str, limit: int, program: Ours, first: BatchWords, task: Task, rows_each: float, error: float
) -> System:
    """An engine that runs the first rows only; its words must equal those of the translation."""
    system = System(task.what, engine, True, error=error)
    total = np.cumsum(first.steps)
    elements = int(np.searchsorted(total, limit, side="right"))
    elements = min(elements, ELEMENTS)
    if elements == 0:
        if engine == "reference" or first.steps[0] > LONGEST:
            system.status, system.reason = "left out", f"one run takes {int(first.steps[0])} instructions"
            return system
        elements = 1
    found = program.run(engine, elements)
    for part in ("after", "steps", "erased_bits"):
        if not np.array_equal(getattr(found, part), getattr(first, part)[:elements]):
            system.status, system.reason = "wrong", f"its {part.replace('_', ' ')} differ from those of the translation"
            return system
    system.call = functools.partial(program.run, engine, elements)
    system.evaluations = elements / rows_each
    return system


def ask_peer(name: str, made: Callable[[Any], Prepared] | None, task: Task, problem: Problem) -> System:
    system = System(task.what, name, False)
    begun = time.perf_counter()
    if made is None:
        system.status, system.reason = "not written", "this workload is not written with it here"
        return system
    try:
        prepared: Prepared = made(task.data)
        system.error = task.relative_error(prepared.read(prepared.call()))
    except (KeyboardInterrupt, MemoryError):
        raise
    except Exception as error:
        system.status, system.reason = "failed", reason_of(error)
        return system
    system.note = prepared.note
    system.prepared = time.perf_counter() - begun
    if not system.error <= PEER_TOLERANCE:
        system.status = "wrong"
        system.reason = f"off by {system.error:.1e}, and not timed: {PEER_TOLERANCE:.0e} is allowed"
        return system
    system.call, system.evaluations = prepared.call, prepared.evaluations or problem.evaluations
    return system
