"""Measurements of the toolchain, a part each: assembler, reference machine, compiler, loops on all machines, the cost of counting,
warm calls, start-up, first calls, series of calls, prints, cores. `PARTS` lists them.
"""

from __future__ import annotations

import functools
import math
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from retrograd.assembler.assemble import assemble
from retrograd.assembler.image import from_image, to_image
from retrograd.benchmarks.measure import Row, in_process, numbers_in_process, optimised, seconds, timed
from retrograd.benchmarks.workloads import simulations
from retrograd.compiler.language.types import ArrayAnnotation, scalar_of, struct_of
from retrograd.examples import bessel, bundle_adjustment, gmm
from retrograd.isa.files import write_file
from retrograd.isa.program import Program
from retrograd.simulator.energy.counts import Counts, by_line, counts_of
from retrograd.simulator.engines import interpreter
from retrograd.simulator.engines.interpreter import COUNT
from retrograd.simulator.engines.llvm.builder import FunctionBuilder
from retrograd.simulator.engines.tiered_machine import TieredMachine
from retrograd.simulator.machine import Machine

import retrograd as rg
from retrograd import Array, examples, fixed, library, reversible
from retrograd.runtime._execution import ENGINES
from retrograd.runtime._reversible import Reversible

#: the name of the row that is a bar
DIFFERENT = "assembler, all lines different"


def _source(lines: int) -> str:
    r = random.Random(1)
    out = ["start"]
    for i in range(lines // 5):
        a, b, c = r.sample(range(256), 3)
        out += [
            f"L{i}: add r{a}, {i}",
            f"    mul.add r{a}, r{b}, r{c}        ; r{a} += r{b} * r{c}",
            f"    fmul.sub r{a}, r{b}, r{c}",
            f"    exch r{a}, [r{b} + {i}]",
            f"    xor r{a}, r{b}",
        ]
    return "\n".join([*out, "finish"]) + "\n"


def measure_assembler(quick: bool) -> list[Row]:
    """Text to program, with and without the verifier; program to image and back."""
    lines = 20_000 if quick else 200_000
    different = _source(lines)
    repeated = "start\n" + "    mul.add r1, r2, r3\n    xor r4, r1\n" * (lines // 2) + "finish\n"
    image = to_image(assemble(different))
    tasks = {
        "different": lambda: assemble(different, check=False),
        "repeated": lambda: assemble(repeated, check=False),
        "verified": lambda: assemble(different),
        "image": lambda: from_image(image),
    }
    best = {name: lines / low for name, (_, low) in seconds(tasks, 3 if quick else 5).items()}
    return [
        Row(DIFFERENT, best["different"], "lines/s", 200_000),
        Row("assembler, repeated lines", best["repeated"], "lines/s", 200_000),
        Row("assembler and verifier, all lines different", best["verified"], "lines/s"),
        Row("image reader", best["image"], "instructions/s"),
    ]


# -----------------------------------------------------------------------------
# Instructions a second of the reference machine, and the ratio of backward to forward time.

#: two loops: the sum of products over an array; fixed-point product and quotient, as in the series of a Bessel function
REFERENCE_LOOPS = {
    "dot loop": """
        .memory 1024
                start
        top:    from.ne r1, r0, bottom
                ld.add r4, [r1]
                ld.add r5, [r1 + 1]
                mul.add r6, r4, r5
                ld.sub r5, [r1 + 1]
                ld.sub r4, [r1]
                add r1, 1
        bottom: goto.ne r1, r9, top
                finish
        """,
    "series loop": """
                start
        top:    from.ne r1, r0, bottom
                add r1, 1
                fmul.add r4, r2, r3
                fdiv.add r5, r4, r8
                fmov.add r6, r5
                fmov.sub r6, r5
                fdiv.sub r5, r4, r8
                fmul.sub r4, r2, r3
        bottom: goto.ne r1, r9, top
                finish
        """,
}


def measure_machine(quick: bool) -> list[Row]:
    """Each loop forward and backward."""
    rows = []
    for name, text in REFERENCE_LOOPS.items():
        machine = Machine(assemble(text))
        trips = 500 if name == "dot loop" else (10_000 if quick else 100_000)
        machine.registers[2:4] = [3 << 31, 5 << 30]
        machine.registers[8:10] = [7 << 32, trips]
        steps = machine.run().steps
        machine.run_back()
        repeats = 5 if quick else 9
        rounds = max(1, (50_000 if quick else 500_000) // steps)

        def forward(machine: Machine = machine) -> None:
            machine.run()

        def backward(machine: Machine = machine) -> None:
            machine.run_back()

        low = {"forward": 1e9, "backward": 1e9}
        for _ in range(rounds):
            for way, (_, least) in seconds({"forward": forward, "backward": backward}, repeats).items():
                low[way] = min(low[way], least)
        rows.append(Row(f"reference machine, {name}", steps / low["forward"], "instructions/s", 500_000))
        ratio = low["backward"] / low["forward"]
        rows.append(Row(f"backward over forward, {name}", ratio, "ratio", 1.1, lower_is_better=True))
    return rows


# -----------------------------------------------------------------------------
# Compile times, and the instructions that compiled programs execute, beside the same source compiled to erase.
#
# The uncomputing level is log2(N_reversible / N_erasing): at 1, uncomputing doubles the work.


def measure_compiler(quick: bool) -> list[Row]:
    """Compile times, and executed instructions of the workloads."""
    rows = []
    for name, function, args in _workloads(quick):
        fresh = function.with_options()
        begun = time.perf_counter()
        fresh.compiled(*args)
        bar = 1.0 if name.startswith("BA") else None
        rows.append(Row(f"compile {name}", time.perf_counter() - begun, "s", bar, lower_is_better=True))
        forward = rg.run(fresh, *args)
        plain = rg.run(function.with_options(level=0), *args)
        erasing = rg.run(function.with_options(erase=True), *args)
        rows.append(Row(f"instructions, {name}", forward.steps, ""))
        rows.append(Row(f"instructions, {name}, not optimised", plain.steps, ""))
        rows.append(Row(f"instructions, {name}, erasing", erasing.steps, ""))
        rows.append(Row(f"bits erased by that, {name}", erasing.erased_bits, ""))
        rows.append(Row(f"uncomputing level, {name}", math.log2(forward.steps / erasing.steps), ""))
    begun = time.perf_counter()
    count = 0
    for name, args in calls():
        _named(name).with_options().compiled(*args)
        count += 1
    rows.append(
        Row(f"compile the library, {count} functions", time.perf_counter() - begun, "s", 20, lower_is_better=True)
    )
    return rows


def _workloads(quick: bool) -> list[tuple[str, Reversible, tuple[Any, ...]]]:
    problem = bundle_adjustment.read(bundle_adjustment.DATA / "test.txt", 1)
    i, j = problem.observed[0]
    projection = (np.zeros(2), problem.cameras[i], problem.points[j], float(problem.weights[0]), problem.features[0])
    mixture = gmm.read(gmm.DATA / "test.txt")
    return [
        ("BA projection", bundle_adjustment.reprojection_error, projection),
        ("Bessel J₂(1), dirty product", bessel.bessel, (0.0, 1.0)),
        ("Bessel J₂(1), lognum", bessel.bessel_log, (0.0, 1.0)),
        ("GMM objective, test.txt", gmm.gmm_objective, (0.0, *mixture.arguments)),
    ]


#: lengths that annotations leave open, by function and parameter
_OPEN: dict[tuple[str, str], Any] = {
    ("bennett", "k"): 2, ("bennett", "levels"): 2, ("bennett", "states"): np.ones(9), ("covariance", "ddof"): 1,
    ("variance", "ddof"): 1, ("sparse_dot_scattered", "height"): 4, ("solve", "x"): np.ones(4), ("solve", "b"): np.ones(4),
    ("eigh", "sweeps"): 8, ("svd", "sweeps"): 9, ("permute", "x"): np.ones(4), ("sort_pairs", "y"): np.ones(4),
    ("simpson", "ys"): np.ones(5),
}  # fmt: skip
#: functions that take functions of their own kind are compiled in their tests
_SKIPPED = {
    "bennett",
    "bennett_any",
    "mapfold",
    "filter_into",
    "gauss_legendre",
    "verlet",
    "yoshida4",
    "reversible_heun",
    "rk4",
}


def _named(name: str) -> Reversible:
    found: Reversible = getattr(library, name)
    return found


def calls() -> list[tuple[str, tuple[Any, ...]]]:
    """(name, arguments) of the library's functions: every named length is 4, half of it 2, every number 1."""
    found = []
    for name in library.__all__:
        function = getattr(library, name)
        if not isinstance(function, Reversible) or name in _SKIPPED:
            continue
        found.append((name, tuple(_example(name, p.name, p.annotation) for p in function.parameters)))
    return found


def _example(name: str, parameter: str, annotation: Any) -> Any:
    if (name, parameter) in _OPEN:
        return _OPEN[name, parameter]
    if isinstance(annotation, ArrayAnnotation):
        shape = tuple(d if isinstance(d, int) else 2 if d == "half" else 4 for d in annotation.dims or (4,))
        struct = struct_of(annotation.element)
        if struct is not None:
            return np.ones(shape, dtype=complex)
        return np.ones(shape, dtype=int if annotation.element is int else float)
    struct = struct_of(annotation)
    if struct is not None:
        return struct.cls(*[1.0] * len(struct.fields))
    scalar = scalar_of(annotation)
    make: Callable[[Any], Any] = int if scalar is not None and scalar.kind.value == "int" else float
    return make(1)


# -----------------------------------------------------------------------------
# All machines on loops in assembly: forward, backward, with cotangents, and the cost of checks.
#
# Before anything is timed, results of the machines are compared with each other and with the exact results of the loops.

#: machines: classes that take a program and have `run`, `run_back`, registers and memory
MACHINES: dict[str, Callable[[Program], Any]] = {
    "reference": Machine,
    "threaded": functools.partial(TieredMachine, engine="threaded"),
    "translated": functools.partial(TieredMachine, engine="translated"),
}
#: bar: million instructions a second of the assembly loops
BARS = {"threaded": 500.0, "translated": 3000.0}
#: bar: speed of the interpreter with cotangents, relative to its speed without
ADJOINT = 0.8


@dataclass(frozen=True)
class Loop:
    """A program with `rounds` rounds; `{rounds}` in its text. `out` then holds `rounds` times `exact`."""

    text: str
    #: instructions of one round, about
    instructions: int
    exact: float
    tolerance: float


def _words(values: Iterable[int]) -> str:
    return ", ".join(map(str, values))


_X = [(37 * i) % 101 - 50 for i in range(256)]
_Y = [(53 * i) % 97 - 48 for i in range(256)]

LOOPS = {
    # Σ xᵢ yᵢ of integers. Both factors are loaded, used, and loaded again to clear them.
    "dot loop": Loop(
        f"""
                .reg    zero, r0
                .reg    i, r1
                .reg    n, r2
                .reg    rounds, r3
                .reg    size, r4
                .reg    a, r5
                .reg    b, r6
                .reg    sum, r7
                .data
        out:    .word   0
        x:      .word   {_words(_X)}
        y:      .word   {_words(_Y)}
                .text
                start
                add     size, {len(_X)}
                add     rounds, {{rounds}}
        again:  from.ne n, zero, next
        top:    from.ne i, zero, bottom
                ld.add  a, [i + x]
                ld.add  b, [i + y]
                mul.add sum, a, b
                ld.sub  b, [i + y]
                ld.sub  a, [i + x]
                add     i, 1
        bottom: goto.ne i, size, top
                sub     i, size
                add     n, 1
        next:   goto.ne n, rounds, again
                sub     n, rounds
                exch    sum, [zero + out]
                finish
        """,
        8 * len(_X) + 4,
        float(np.dot(_X, _Y)) / 2**32,
        0.0,
    ),
    # J₂(1) by its series. Each term is saved when the next is made of it. The way back recomputes each of the next terms and clears it.
    "Bessel-like loop": Loop(
        f"""
                .reg    zero, r0
                .reg    n, r1
                .reg    rounds, r2
                .reg    k, r3
                .reg    quarter, r4             ; (z/2)²
                .reg    least, r5
                .reg    term, r6
                .reg    last, r7                ; the term before
                .reg    size, r8                ; |term|
                .reg    ratio, r9
                .reg    factor, r10
                .reg    total, r11
                .reg    sum, r12
                .data
        out:    .word   0
        ratios: .word   {_words(round(-(2**32) / (k * (k + 2))) for k in range(1, 17))}
        terms:  .zero   16
                .text
                start
                add     quarter, 0.25q
                add     least, 43               ; 1.001e-8
                add     rounds, {{rounds}}
        again:  from.ne n, zero, next
                add     term, 0.125q
                fadd    total, term
                fabs.add size, term

        up:     from.ne k, zero, up.more
                fabs.sub size, term
                swap    term, last
                ld.add  ratio, [k + ratios]
                fmul.add factor, quarter, ratio
                fmul.add term, last, factor
                fmul.sub factor, quarter, ratio
                ld.sub  ratio, [k + ratios]
                exch    last, [k + terms]
                fadd    total, term
                fabs.add size, term
                add     k, 1
        up.more:
                goto.gt size, least, up

                fadd    sum, total

        down:   from.gt size, least, down.more
                sub     k, 1
                fabs.sub size, term
                fsub    total, term
                exch    last, [k + terms]
                ld.add  ratio, [k + ratios]
                fmul.add factor, quarter, ratio
                fmul.sub term, last, factor
                fmul.sub factor, quarter, ratio
                ld.sub  ratio, [k + ratios]
                swap    term, last
                fabs.add size, term
        down.more:
                goto.ne k, zero, down

                fabs.sub size, term
                fsub    total, term
                sub     term, 0.125q
                add     n, 1
        next:   goto.ne n, rounds, again
                sub     n, rounds
                exch    sum, [zero + out]
                finish
        """,
        140,
        0.1149034849298,
        2e-9,
    ),
}


def measure_loops(quick: bool, machines: Mapping[str, Callable[[Program], Any]] = MACHINES) -> list[Row]:
    """Each loop on each machine, forward and backward, with a length that fits the machine's speed."""
    rows = []
    for name, loop in LOOPS.items():
        states = {}
        tasks: dict[str, Callable[[], object]] = {}
        steps: dict[str, int] = {}
        for engine, factory in machines.items():
            states[engine] = _state(loop, factory)
            budget = (3e4 if quick else 1e6) if engine == "reference" else (1e7 if quick else 1e8)
            rounds = max(1, round(budget / loop.instructions))
            machine = factory(assemble(loop.text.format(rounds=rounds)))
            steps[engine] = machine.run().steps
            _check_loop(name, engine, loop, machine, rounds)
            machine.run_back()
            tasks[f"{engine} forward"], tasks[f"{engine} backward"] = machine.run, machine.run_back
            tasks[f"{engine} adjoint"] = _adjoint(factory(assemble(loop.text.format(rounds=rounds))))
        if "translated" in machines:
            rounds = round(steps["translated"] / loop.instructions)
            unchecked = TieredMachine(assemble(loop.text.format(rounds=rounds)), engine="translated", overflow=False)
            tasks["unchecked forward"], tasks["unchecked backward"] = unchecked.run, unchecked.run_back
        first = next(iter(states))
        for engine, state in states.items():
            if state != states[first]:
                raise AssertionError(f"{name}: {engine} and {first} differ")
        spent = seconds(tasks, 3 if quick else 7)
        for engine, count in steps.items():
            middle, low = spent[f"{engine} forward"]
            bar = BARS.get(engine)
            rows.append(Row(f"{name}, {engine}", count / middle / 1e6, "million instructions/s (median)"))
            rows.append(Row(f"{name}, {engine}", count / low / 1e6, "million instructions/s (most)", bar))
            back = spent[f"{engine} backward"][1] / low
            rows.append(Row(f"backward over forward, {name}, {engine}", back, "(time)", 1.1, lower_is_better=True))
            adjoint = 2 * low / spent[f"{engine} adjoint"][1]
            bar = ADJOINT if engine == "threaded" else None
            rows.append(Row(f"with cotangents over without, {name}, {engine}", adjoint, "(instructions/s)", bar))
        if "translated" in machines:
            cost = spent["translated forward"][1] / spent["unchecked forward"][1]
            rows.append(Row(f"with overflow checks over without, {name}, translated", cost, "(time)"))
    return rows


def _adjoint(machine: Any) -> Callable[[], object]:
    """Backward from the end and forward again, with cotangents: twice the instructions of a run."""
    machine.run()
    machine.differentiating = True
    machine.memory_cotangents[0] = 1 << 20

    def there_and_back() -> None:
        machine.run_back()
        machine.run()

    return there_and_back


def _state(loop: Loop, factory: Callable[[Program], Any]) -> tuple[Any, ...]:
    """(steps, registers, memory) after three rounds."""
    machine = factory(assemble(loop.text.format(rounds=3)))
    steps = machine.run().steps
    return steps, [int(word) for word in machine.registers], [int(word) for word in machine.memory]


def _check_loop(name: str, engine: str, loop: Loop, machine: Any, rounds: int) -> None:
    w = machine.program.format
    out = int(machine.memory[machine.program.data_labels["out"]])
    error = abs(w.signed(out) / 2.0**w.frac / rounds - loop.exact)
    if not error <= loop.tolerance:
        raise AssertionError(f"{name}, {engine}: the error of a round is {error:.1e}, and may be {loop.tolerance:.1e}")


# -----------------------------------------------------------------------------
# The cost of counting: a run in the threaded interpreter with all counts, beside the same run without.
#
#     overhead = time(run, counts, counts of each line) / time(run)
#     in the interpreter = time(run) / time(run by an interpreter that counts nothing)
#
# The engine counts executions during the run. All other counts are computed once at the end, for each address of the program.
# The interpreter that counts nothing is made here, in processes of its own, from the same handlers without the store of the count.

#: bar: time of a run on the threaded tier with counting, over the time without
BAR = 1.15
_LOOP = """
.memory 2
start
add r1, {passes}
top: from.ne r3, r0, bottom
add r3, 1
fmul.add r4, r5, r6
st.add [r0 + 1], r3
fmul.sub r4, r5, r6
ld.xor r7, [r0 + 1]
bottom: goto.ne r3, r1, top
finish
"""


def measure_counting(quick: bool) -> list[Row]:
    """The overhead of counting on the threaded tier."""
    program = assemble(_LOOP.format(passes=3_000_000 if quick else 5_000_000))
    found = seconds({"run": lambda: _run(program), "counted": lambda: _counted(program)}, 5 if quick else 9)
    ratio = found["counted"][1] / found["run"][1]
    inside = _inside(10_000_000 if quick else 30_000_000, 5 if quick else 9)
    return [
        Row("counting on the threaded tier, over a run without", ratio, "×", BAR, lower_is_better=True),
        Row("the threaded tier, over one that keeps no counts", inside, "×", BAR, lower_is_better=True),
    ]


# ---------------------------------------------------------------------- an interpreter that does not count


def _inside(passes: int, repeats: int) -> float:
    """Time with counters over time without: the least of each; the two take turns."""
    least = {True: math.inf, False: math.inf}
    with tempfile.TemporaryDirectory() as counting, tempfile.TemporaryDirectory() as other:
        for _ in range(repeats):
            for keeps, cache in ((True, counting), (False, other)):
                command = [sys.executable, "-m", "retrograd.benchmarks.toolchain", str(passes), str(int(keeps))]
                environment = {**os.environ, "RETROGRAD_CACHE": cache}
                told = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
                least[keeps] = min(least[keeps], float(told.stdout))
    return least[True] / least[False]


def _without_counts() -> None:
    """Make handlers that leave out the store of their count."""
    emit = vars(interpreter)["emit_handler"]

    def emitted(*arguments: Any) -> FunctionBuilder:
        code: FunctionBuilder = emit(*arguments)
        counts = set(re.findall(rf"(%\S+) = getelementptr i8, ptr %ip, i64 {COUNT}\b", "\n".join(code.lines)))
        stores = tuple(f"ptr {count}" for count in counts)
        code.lines = [line for line in code.lines if "store i64" not in line or not line.endswith(stores)]
        return code

    vars(interpreter)["emit_handler"] = emitted


def _one(passes: int, keeps: bool) -> float:
    """Seconds of the second run in this process; the first makes the handlers."""
    if not keeps:
        _without_counts()
    program = assemble(_LOOP.format(passes=passes))
    _run(program)
    began = time.process_time()
    machine = _run(program)
    took = time.process_time() - began
    assert any(machine.executed[+1]) == keeps
    return took


def _run(program: Program) -> TieredMachine:
    machine = TieredMachine(program, engine="threaded")
    machine.run()
    return machine


def _counted(program: Program) -> tuple[Counts, int]:
    counts = counts_of(_run(program))
    assert counts.accesses.reads
    assert counts.operations
    assert not counts.erased_bits
    return counts, sum(part.cycles for part in by_line(counts).values())


# -----------------------------------------------------------------------------
# Microseconds of a warm call of a small function, and of its gradient: the overhead of a call from Python.


@reversible
def small(y: fixed, x: fixed) -> None:
    """y += x² + sin x"""
    y += x * x + rg.sin(x)


def measure_calls(quick: bool) -> list[Row]:
    """The minimum of repeats, since the overhead is that of Python alone."""
    slope, both = rg.grad(small, "x"), rg.value_and_grad(small, "x")
    tasks = {
        "f(x)": lambda: small(0.0, 1.5),
        "rg.grad(f)(x)": lambda: slope(0.0, 1.5),
        "rg.value_and_grad(f)(x)": lambda: both(0.0, 1.5),
    }
    bars = {"f(x)": 60.0}
    spent = timed(tasks, 5 if quick else 15)
    return [
        Row(f"warm call, {name}", 1e6 * best, "µs", bars.get(name, 100.0), lower_is_better=True)
        for name, (_, best) in spent.items()
    ]


# -----------------------------------------------------------------------------
# The time of a whole process: `--help`, and a small run, on each engine.

CLI = ("-m", "retrograd.cli.main")
EXAMPLE = Path(examples.__file__).parent / "isqrt.rga"


def measure_startup(quick: bool) -> list[Row]:
    """Whole processes, beside an empty Python process in the same run. The first run of an engine fills its cache and is not timed."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "small.rga"
        write_file(program, "start\nadd r1, 2\nmul.add r2, r1, r1\nfinish\n")

        processes: dict[str, tuple[str, ...]] = {
            "an empty Python process": ("-c", "pass"),
            "retrograd --help": (*CLI, "--help"),
            "retrograd run, a small program": (*CLI, "run", str(program)),
        }
        absent = []
        for engine in _engines():
            chosen = ("--engine", engine) if engine else ()
            name = f"retrograd run {EXAMPLE.name}, {' '.join(chosen) or 'which has no --engine'}"
            run = (*CLI, "run", str(EXAMPLE), "--set", "n=1000000", *chosen)
            if _process(*run):
                processes[name] = run
            else:
                absent.append(Row(name, 0, "(absent)"))
        tasks = {name: functools.partial(_succeed, *arguments) for name, arguments in processes.items()}
        spent = seconds(tasks, 5 if quick else 15)
    bars = {"an empty Python process": None, "retrograd --help": 0.2}
    rows = [Row(name, middle, "s", bars.get(name, 0.5), lower_is_better=True) for name, (middle, _) in spent.items()]
    return rows + absent


def _process(*arguments: str) -> bool:
    """Whether Python succeeds with these arguments. Its output is discarded."""
    command = [sys.executable, *arguments]
    done = subprocess.run(command, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return done.returncode == 0


def _succeed(*arguments: str) -> None:
    if not _process(*arguments):
        raise AssertionError(f"{' '.join(arguments)} failed")


def _engines() -> tuple[str, ...]:
    """The engines of the command line; [""] if it has no option for them."""
    command = [sys.executable, *CLI, "run", "--help"]
    shown = subprocess.run(command, check=True, stdout=subprocess.PIPE, encoding="utf-8")
    return ENGINES if "--engine" in shown.stdout else ("",)


# -----------------------------------------------------------------------------
# The waiting time of a user: the first call of a function that is new to the cache, and 120 calls of a gradient by each engine.
#
# Each measurement is a process of its own with an empty cache; a small function and its gradient have run before, so that starting
# the engines is not part of it.

#: names of the rows that are bars
BA, GMM = "first call of a new function, BA Jacobian", "first call of a new function, GMM gradient"
AUTO = "auto over the best engine, 120 calls of a gradient"
TIMED_ENGINES = ("auto", "threaded", "translated")
CALLS = 120

_PREPARED = """\
import functools, sys, time
import numpy as np
import retrograd as rg
from retrograd import Array, fixed, reversible
from retrograd.benchmarks.toolchain import small
for _ in range(40):
    rg.value_and_grad(small, "x")(0.0, 1.5)
"""

_BA = """\
from retrograd.examples import bundle_adjustment as ba
p = ba.read(ba.DATA / "ba1_n49_m7776_p31843.txt", 1)
begun = time.perf_counter()
rg.jacobian(ba.reprojection_error, ("camera", "point", "weight"), "error")(
    np.zeros(2), p.cameras[0], p.points[0], float(p.weights[0]), p.features[0])
print(time.perf_counter() - begun)
"""

_GMM = """\
from retrograd.examples import gmm
m = gmm.read(gmm.DATA / "1k_d10_K25.txt")
begun = time.perf_counter()
rg.value_and_grad(gmm.gmm_objective, ("alphas", "means", "icf"), "out")(0.0, *m.arguments)
print(time.perf_counter() - begun)
"""

_CALLS = """\
from retrograd.benchmarks.toolchain import rosenbrock
slope = rg.value_and_grad(rosenbrock, "x", engine=sys.argv[1])
x = np.linspace(-1, 1, 1000)
begun = time.process_time()
for _ in range(int(sys.argv[2])):
    slope(0.0, x)
print(time.process_time() - begun)
"""


@reversible
def rosenbrock(y: fixed, x: Array[fixed, 1000]) -> None:
    """y += Σᵢ 100 (xᵢ₊₁ − xᵢ²)² + (1 − xᵢ)²"""
    for i in range(len(x) - 1):
        y += 100 * (x[i + 1] - x[i] * x[i]) ** 2 + (1 - x[i]) ** 2


def measure_first_calls(quick: bool) -> list[Row]:
    """The first calls in seconds, and the CPU time of all calls by `auto` over that by the best engine that was chosen by name."""
    repeats = 1 if quick else 2
    rows = [Row(BA, _least(_BA, repeats), "s", 0.5, lower_is_better=True)]
    if not quick:
        rows.append(Row(GMM, _least(_GMM, repeats), "s", 3.0, lower_is_better=True))
    calls = CALLS // 4 if quick else CALLS
    spent = {engine: _least(_CALLS, repeats, engine, str(calls)) for engine in TIMED_ENGINES}
    rows += [Row(f"{calls} calls of a gradient, {engine}", took, "s (CPU)") for engine, took in spent.items()]
    if not quick:
        best = min(took for engine, took in spent.items() if engine != "auto")
        rows.append(Row(AUTO, spent["auto"] / best, "×", 1.3, lower_is_better=True))
    return rows


def _least(code: str, repeats: int, *arguments: str) -> float:
    return min(in_process(_PREPARED + code, *arguments) for _ in range(repeats))


# -----------------------------------------------------------------------------
# Series of calls: the waiting time of each of the first calls of a function, in a process with an empty cache.
#
# A call waits for code that is made for it. So the slowest call after the third is held against a steady call, which
# is the median of the last quarter.

_SERIES = """\
{prepared}
{setting}
for _ in range(int(sys.argv[2])):
    begun = time.perf_counter()
    call()
    print(time.perf_counter() - begun)
"""

#: workload -> the code that defines `call`; sys.argv[1] is "1" for quick sizes
_SERIES_OF = {
    "regression, gradient": """\
from retrograd.benchmarks.workloads.dense import DATA, regression
n, k = DATA[sys.argv[1] == "0"]
rng = np.random.default_rng(7)
x, w = rng.uniform(-1, 1, (n, k)), rng.uniform(-1, 1, k)
slope, y = rg.grad(regression, "w"), x @ w
call = lambda: slope(0.0, w / 2, x, y)
""",
    "cubic polynomials, batch": """\
from retrograd.benchmarks.workloads.dense import ELEMENTS, polynomial
n = ELEMENTS[sys.argv[1] == "0"]
zeros, x = np.zeros(n), np.random.default_rng(8).uniform(-1, 1, n)
call = functools.partial(rg.vmap(polynomial, (0, 0, None, None, None, None)), zeros, x, 0.5, 0.25, 0.125, 0.0625)
""",
    "wave, gradient": """\
from retrograd.benchmarks.workloads.simulations import wave_data
from retrograd.examples.wave import misfit
d = wave_data(*((16, 10) if sys.argv[1] == "1" else (128, 100)))
slope = rg.grad(misfit, "c")
call = lambda: slope(0.0, d.q, d.p, d.c, d.seen, d.line, d.steps)
""",
}
#: the names of the rows, which are bars
SERIES = {name: f"slowest call after the third over a steady one, {name}" for name in _SERIES_OF}
SERIES_CALLS = 40


def measure_series(quick: bool) -> list[Row]:
    """The waiting time of each of the first calls."""
    rows = []
    for name, setting in _SERIES_OF.items():
        code = _SERIES.format(prepared=_PREPARED, setting=setting)
        took = numbers_in_process(code, str(int(quick)), str(8 if quick else SERIES_CALLS))
        steady = float(np.median(took[-len(took) // 4 :]))
        rows.append(
            Row(
                SERIES[name],
                max(took[3:]) / steady,
                "×",
                None if quick else 3.0,
                lower_is_better=True,
                series=tuple(took),
            )
        )
    return rows


# -----------------------------------------------------------------------------
# Programs that print, beside the same program without a print: before and behind a loop of many passes, and in it.

PRINTS = {"outside": "a print before and behind a loop, over none", "inside": "100 prints in a loop, over none"}


@reversible
def silent(s: int, t: int, passes: int) -> None:
    """s and t after 100 · passes steps of a recurrence."""
    for _ in range(100):
        for i in range(passes):
            s += i ^ t
            t += 3 * s


@reversible
def printing_outside(s: int, t: int, passes: int) -> None:
    """`silent`, with a print before and behind its loops."""
    with rg.external():
        print(s, t)
    for _ in range(100):
        for i in range(passes):
            s += i ^ t
            t += 3 * s
    with rg.external():
        print(s, t)


@reversible
def printing_inside(s: int, t: int, passes: int) -> None:
    """`silent`, with a print in its outer loop."""
    for _ in range(100):
        with rg.external():
            print(s, t)
        for i in range(passes):
            s += i ^ t
            t += 3 * s


def measure_prints(quick: bool) -> list[Row]:
    """Ratios of the times of whole calls, by translated code, without the time of a terminal."""
    passes = 100 if quick else 100_000
    functions = {"": silent, "outside": printing_outside, "inside": printing_inside}

    def call(f: Reversible) -> None:
        with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere):
            rg.run(f, 0, 1, passes, engine="translated")

    with optimised():
        spent = timed({name: functools.partial(call, f) for name, f in functions.items()}, 3 if quick else 7)
    best = spent[""].minimum
    return [
        Row(name, spent[where].minimum / best, "×", None if quick else 1.3, lower_is_better=True)
        for where, name in PRINTS.items()
    ]


# -----------------------------------------------------------------------------
# The wave on one core and on two, and 100,000 steps of it out and back.

#: names of the rows that are bars
CORES = "wave, gradient: one core over two"
RETURNS = "wave: words that differ after 100,000 steps of 64 × 64 cells out and back"

_GRADIENT = """\
import os, sys, time
n, steps, *cores = map(int, sys.argv[1:])
os.sched_setaffinity(0, cores)
import retrograd as rg
from retrograd.benchmarks.measure import optimised
from retrograd.benchmarks.workloads.simulations import wave_data
from retrograd.examples.wave import misfit
d = wave_data(n, steps)
slope = rg.grad(misfit, "c", engine="translated")
took = []
with optimised():
    for _ in range(4):
        begun = time.perf_counter()
        slope(0.0, d.q, d.p, d.c, d.seen, d.line, d.steps)
        took.append(time.perf_counter() - begun)
print(min(took))
"""


def measure_cores(quick: bool) -> list[Row]:
    """Processes on one core and on two, since engines count the cores when they start. A single run is timed: batches share rows otherwise."""
    rows = []
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_setaffinity") else []
    if len(cores) >= 2:
        size = ("64", "100") if quick else ("256", "400")
        one, two = (in_process(_GRADIENT, *size, *map(str, cores[:k])) for k in (1, 2))
        rows.append(Row(CORES, one / two, "×", 1.7))
    if not quick:
        with optimised():
            rows.append(Row(RETURNS, simulations.differing(64, 100_000), "words", 0, lower_is_better=True))
    return rows


# -----------------------------------------------------------------------------
#: name -> measurement, which takes `quick`
PARTS: dict[str, Callable[[bool], list[Row]]] = {
    "assembler": measure_assembler,
    "machine": measure_machine,
    "compiler": measure_compiler,
    "loops": measure_loops,
    "counting": measure_counting,
    "calls": measure_calls,
    "start-up": measure_startup,
    "first-calls": measure_first_calls,
    "series": measure_series,
    "prints": measure_prints,
    "cores": measure_cores,
}


if __name__ == "__main__":
    print(_one(int(sys.argv[1]), sys.argv[2] == "1"))
