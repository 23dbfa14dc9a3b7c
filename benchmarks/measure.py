"""How a system is measured: times, peak memory, counted operations; and all systems of one problem together.

Timing resists drift of the machine: repeats are interleaved, medians and minima are kept, ratios come from one run on one core.
"""

from __future__ import annotations
import __future__

import ast
import contextlib
import ctypes
import functools
import gc
import inspect
import itertools
import json
import math
import operator
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from retrograd.benchmarks.ours import Ours
from retrograd.benchmarks.peers import Peer, Prepared, by_numba
from retrograd.benchmarks.workload import (
    Bodies,
    Embeddings,
    Measurements,
    Mixture,
    Numbers,
    Problem,
    Sizes,
    SparsePair,
    Task,
    Wave,
)
from retrograd.simulator.engines import tiering

from retrograd.runtime._batch_runs import BatchWords

#: least duration of a spell: a shorter task is repeated within it
SPELL = 2e-3
#: variables that limit the libraries of peers to one thread; they are read when the library is imported
_SINGLE = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


@dataclass(frozen=True)
class Row:
    """One measured quantity: name, value, unit, and its bar (None: no bar)."""

    name: str
    value: float
    unit: str
    bar: float | None = None
    lower_is_better: bool = False
    #: the seconds of the calls that the value was computed from, in order
    series: tuple[float, ...] = ()

    @property
    def met(self) -> bool | None:
        """Whether the bar is met."""
        if self.bar is None:
            return None
        return self.value <= self.bar if self.lower_is_better else self.value >= self.bar


class Spent(NamedTuple):
    """Seconds of a task."""

    median: float
    minimum: float


def seconds(
    tasks: Mapping[str, Callable[[], object]],
    repeats: int,
    clock: Callable[[], float] | None = None,
    warm: Mapping[str, Callable[[], object]] | None = None,
) -> dict[str, Spent]:
    """Seconds of each task, by the wall's clock or another. The tasks take turns, so that a slow spell of the machine affects all of them.

    `warm`: name -> a call before each turn of the task, which is not timed.
    """
    spent: dict[str, list[float]] = {name: [] for name in tasks}
    for _ in range(repeats):
        for name, task in tasks.items():
            if warm and name in warm:
                warm[name]()
            spent[name].append(_taken(task, clock))
    return {name: Spent(statistics.median(times), min(times)) for name, times in spent.items()}


def _taken(task: Callable[[], object], clock: Callable[[], float] | None) -> float:
    now = clock or time.perf_counter
    begun = now()
    task()
    return now() - begun


def timed(
    tasks: Mapping[str, Callable[[], object]],
    repeats: int,
    budget: float = float("inf"),
    spell: float = SPELL,
    clock: Callable[[], float] | None = None,
) -> dict[str, Spent]:
    """`seconds` of tasks of any length: a short task is repeated within a spell, a task beyond the budget is timed once only.

    The first call of a spell is not timed if others follow: it finds caches that other tasks have filled.

    `budget`: seconds for all repeats of one task. Each task runs once before it is timed, or twice unless the first run shows that
    it is beyond the budget; a run that alone takes longer than the budget is the only run.
    """
    rounds: dict[str, int] = {}
    once: dict[str, Spent] = {}
    for name, task in tasks.items():
        taken = _taken(task, clock)
        if taken > budget:
            once[name] = Spent(taken, taken)
            continue
        taken = _taken(task, clock)
        if taken * repeats > budget >= taken:
            # The first run may compile code: an engine compiles once the batches of a program have taken long enough.
            taken = _taken(task, clock)
        rounds[name] = max(1, int(spell / taken)) if taken > 0 else 1
        if taken * repeats > budget:
            once[name] = Spent(taken, taken)

    def repeated(task: Callable[[], object], count: int) -> None:
        for _ in range(count):
            task()

    spells = {n: functools.partial(repeated, task, rounds[n]) for n, task in tasks.items() if n not in once}
    found = seconds(spells, repeats, clock, {name: tasks[name] for name in spells if rounds[name] > 1})
    many = {name: Spent(s.median / rounds[name], s.minimum / rounds[name]) for name, s in found.items()}
    return {name: once.get(name) or many[name] for name in tasks}


def in_process(code: str, *arguments: str) -> float:
    """The number that a process with an empty cache prints last."""
    return numbers_in_process(code, *arguments)[-1]


def numbers_in_process(code: str, *arguments: str) -> list[float]:
    """The numbers that a process with an empty cache prints."""
    with tempfile.TemporaryDirectory() as cache:
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments],
            check=True, stdout=subprocess.PIPE, encoding="utf-8", env={**os.environ, "RETROGRAD_CACHE": cache},
        )  # fmt: skip
    return [float(text) for text in done.stdout.split()]


@contextmanager
def optimised() -> Iterator[None]:
    """Optimised code at once, and for lanes too, in this block, so that no code is timed that better code is about to replace."""
    costs = tiering.policy.costs
    before = costs.wait, costs.lanes, costs.translate, costs.translate_instruction
    # A translation without a price is made in the first run.
    costs.wait, costs.lanes, costs.translate, costs.translate_instruction = float("inf"), 0.0, 0.0, (0.0, 0.0, 0.0)
    try:
        yield
    finally:
        costs.wait, costs.lanes, costs.translate, costs.translate_instruction = before


@contextmanager
def one_core() -> Iterator[int | None]:
    """Run this process on one core, and libraries imported within the block on one thread. Yields the number of the core.

    Yields None if the system does not let a process choose its core. Afterwards environment and cores are as before.
    """
    before = {name: os.environ.get(name) for name in _SINGLE}
    os.environ.update(dict.fromkeys(_SINGLE, "1"))
    cores: set[int] = os.sched_getaffinity(0) if hasattr(os, "sched_setaffinity") else set()
    core = max(cores, default=None)
    if core is not None:
        os.sched_setaffinity(0, {core})
    try:
        yield core
    finally:
        if core is not None:
            os.sched_setaffinity(0, cores)
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


# -----------------------------------------------------------------------------
# Peak memory: for each system on a task a process of its own, which makes the data, does the task once, and reports its largest size.
#
#     python -m retrograd.benchmarks.measure WORKLOAD problems|curve INDEX TASK SYSTEM
#
# The size is that of the whole process, with Python, the system and its compiler. Making the data is left out where the operating
# system lets a process forget its largest size (Linux); elsewhere there is no figure.

#: seconds after which a process is given up
PATIENCE = 120


class Place(NamedTuple):
    """A system on a task: the workload's name, `problems` or `curve`, which of them, the task and the system."""

    workload: str
    family: str
    number: int
    what: str
    system: str


def peaks(places: Iterable[Place], quick: bool = False) -> dict[Place, int]:
    """Bytes of each place whose process succeeds, two processes or more at a time: sizes do not depend on the load."""
    places = list(places)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        found = pool.map(lambda place: _peak(place, quick), places)
        return {place: size for place, size in zip(places, found, strict=True) if size is not None}


def _peak(place: Place, quick: bool) -> int | None:
    command = [sys.executable, "-m", "retrograd.benchmarks.measure", *map(str, place), *(["--quick"] if quick else [])]
    # An empty cache: each process compiles its program, as the peers do.
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "RETROGRAD_CACHE": cache}
        try:
            done = subprocess.run(
                command, check=True, capture_output=True, encoding="utf-8", timeout=PATIENCE, env=environment
            )
            size: int | None = json.loads(done.stdout.splitlines()[-1])
        except (subprocess.SubprocessError, ValueError, IndexError):
            return None
    return size


def main() -> None:
    """Measure one place, in this process."""
    workload, family, index, what, system = sys.argv[1:6]
    from retrograd.benchmarks.workloads import ALL

    found = next(w for w in ALL if w.name == workload)
    problem = list(getattr(found, family)(Sizes("--quick" in sys.argv)))[int(index)]
    task = next(t for t in problem.tasks if t.what == what)
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):  # without the GNU C library freed memory may count
        ctypes.CDLL(None).malloc_trim(0)
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    except OSError:
        print(json.dumps(None))
        return
    _do(task, system)
    print(json.dumps(_largest()))


def _do(task: Task, system: str) -> None:
    """The task once, by our translation or by a peer."""
    if system == "translated":
        task.ours().run("translated")
        return
    from retrograd.benchmarks.peers import PEERS

    made: Any = PEERS[system.partition("-")[0]].systems(type(task.data), task.what)[system]
    made(task.data).call()


def _largest() -> int | None:
    """The largest size of this process since it was reset, in bytes."""
    for line in Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines():
        name, _, value = line.partition(":")
        if name == "VmHWM":
            return 1024 * int(value.split()[0])
    return None


# -----------------------------------------------------------------------------
# Operations of the irreversible programs, counted exactly: the kernels of the peers in float64 run on numbers that count.
#
# Each operation on numbers of the data counts once: + − × ÷, a power, a sign, a size, a comparison, a maximum, a
# root, an exponential, a logarithm, a sine. Counters of loops and addresses of elements do not count, nor do loads and stores.

#: elements of a batch that are counted: all take about the same number of operations, but for numbers with loops of their own length
SAMPLE, NUMBERS = 10, 2000


class _Float(float):
    """A number whose operations count."""


class _Int(int):
    """The same for integers; as an index it is an integer."""


#: one number taken for each operation
_executed = itertools.count()


def _number(value: Any) -> Any:
    if isinstance(value, bool | np.bool_):
        return bool(value)
    return _Int(value) if isinstance(value, int | np.integer) else _Float(value)


def _counting(function: Callable[..., Any]) -> Callable[..., Any]:
    def counted(*operands: Any) -> Any:
        next(_executed)
        return _number(function(*(_plain(x) for x in operands)))

    return counted


def _plain(value: Any) -> Any:
    return int(value) if isinstance(value, int | np.integer) else float(value)


for _class in (_Float, _Int):
    for _name in ("add", "sub", "mul", "truediv", "pow", "lt", "le", "gt", "ge", "eq", "ne", "neg", "abs"):
        _function = getattr(operator, _name)
        setattr(_class, f"__{_name}__", _counting(_function))
        if _name in ("add", "sub", "mul", "truediv", "pow"):
            setattr(_class, f"__r{_name}__", _counting(lambda x, y, f=_function: f(y, x)))

#: the modules and functions of the kernels, with results that count
_NAMES: dict[str, Any] = {
    "math": types.SimpleNamespace(
        pi=math.pi, **{name: _counting(getattr(math, name)) for name in ("sqrt", "exp", "log", "sin", "cos", "lgamma")}
    ),
    "np": types.SimpleNamespace(
        inf=math.inf,
        empty=lambda shape: np.full(shape, _Float(0), dtype=object),
        zeros=lambda shape: np.full(shape, _Float(0), dtype=object),
        zeros_like=lambda a: np.full(a.shape, _Float(0), dtype=object),
    ),
    "max": lambda x, y: x if x > y else y,
    "float": _Float,
}


class _Literals(ast.NodeTransformer):
    """Numbers with a point in a kernel's text count, too."""

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        if isinstance(node.value, float):
            return ast.copy_location(ast.Call(ast.Name("float", ast.Load()), [node], []), node)
        return node


def count(kernel: Callable[..., Any], arguments: tuple[Any, ...]) -> int:
    """The operations of a kernel of `peers/by_numba.py` on these arguments."""
    tree = ast.fix_missing_locations(_Literals().visit(ast.parse(inspect.getsource(kernel))))
    names = dict(_NAMES)
    exec(compile(tree, inspect.getfile(kernel), "exec", flags=__future__.annotations.compiler_flag), names)
    begun = next(_executed)
    names[kernel.__name__](*(_counted(a) for a in arguments))
    return next(_executed) - begun - 1


def _counted(argument: Any) -> Any:
    if isinstance(argument, np.ndarray):
        out = np.empty(argument.shape, dtype=object)
        for i in np.ndindex(*argument.shape):
            out[i] = _number(argument[i])
        return out
    return _number(argument)


def _numbers(d: Numbers) -> float:
    z = d.z[:NUMBERS]
    return count(by_numba.bessel, (np.empty_like(z), z)) / len(z)


def _embeddings(d: Embeddings) -> float:
    x = d.x[:SAMPLE]
    return count(by_numba.embedding, (np.empty(len(x)), x, d.pairs, d.edges)) / len(x)


def _measurements(d: Measurements) -> float:
    few = tuple(part[:SAMPLE] for part in d.arguments)
    return count(by_numba.reprojection, (np.empty_like(few[3]), *few)) / len(few[3])


def _wave(d: Wave) -> float:
    """Each step has as many operations."""
    return count(by_numba.wave, (d.q, d.p, d.c, 1)) / d.q.size


#: by kind of data: operations of one evaluation of the value
OPERATIONS: dict[type, Callable[[Any], float]] = {
    Numbers: _numbers,
    Embeddings: _embeddings,
    Measurements: _measurements,
    Mixture: lambda d: count(by_numba.mixture, d.arguments),
    SparsePair: lambda d: count(by_numba.sparse_trace, (d.a_starts, d.a_rows, d.a, d.b_starts, d.b_rows, d.b)),
    Bodies: lambda d: count(by_numba.leapfrog, (d.q, d.v, d.gm, d.steps, d.h)) / d.steps,
    Wave: _wave,
}


def operations(data: Any) -> float | None:
    """Operations of one evaluation of the value, for the data of a task; None for data without a kernel."""
    counting = OPERATIONS.get(type(data))
    return None if counting is None else counting(data)


# -----------------------------------------------------------------------------
# The systems of one problem: each is checked, then all that are ready are timed in turns.
#
# Correctness comes first: our numbers against the reference; engines against each other, bit for bit; peers against the reference.
# A wrong result is not timed.

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


# -----------------------------------------------------------------------------
# Circumstances.

#: features of a processor that change the code of engines and peers
_FEATURES = ("avx2", "fma", "avx512f", "asimd", "sve")


def machine(core: int | None) -> dict[str, Any]:
    name, features = platform.processor() or platform.machine(), []
    try:
        for line in Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "model name":
                name = value.strip()
            elif key.strip() in ("flags", "Features"):
                features = [f for f in _FEATURES if f in value.split()]
                break
    except OSError:
        pass
    return {
        "processor": name, "features": features, "cores": os.cpu_count(), "pinned": core is not None,
        "architecture": platform.machine(), "system": platform.system(), "python": platform.python_version(),
    }  # fmt: skip


if __name__ == "__main__":
    main()
