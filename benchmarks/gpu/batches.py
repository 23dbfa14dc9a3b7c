"""Batches on a GPU: the same bits as on the CPU, and how fast, beside jax and Warp in float64 on the same device.

    python -m retrograd.benchmarks.gpu [--quick] [--json FILE] [--fake]

Where Retrograd is not installed, from the root of the repository:

    make -B build/tree/retrograd && PYTHONPATH=build/tree python -m retrograd.benchmarks.gpu

1. Bit for bit: random programs and examples on the GPU, on the CPU's cores and on the reference machine.
2. The same gradient with blocks, pieces and devices of several numbers: the same bits.
3. Times by the device's own clock, kernel and copies apart, after what was computed has been held against float64.
4. PTX per ISA instruction; registers too where there is ptxas, and machine code (SASS) where there is cuobjdump. Needs no device.

Without a GPU only 4 is done. `--fake` does all of it, tiny, on the driver that the tests have in the place of a device: its times mean
nothing. The JSON (schema retrograd.gpu/1) has everything that was found; printed is a table in Markdown for docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import functools
import importlib.util
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from retrograd.assembler.assemble import assemble
from retrograd.benchmarks.gpu import peers as gpu_peers
from retrograd.benchmarks.gpu.peers import CHUNK
from retrograd.benchmarks.references import adbench, complex_step
from retrograd.compiler.compiled import Compiled
from retrograd.examples import bessel, bundle_adjustment, gmm, graph_embedding
from retrograd.isa.diagnostics import DeviceError
from retrograd.isa.files import write_file
from retrograd.isa.program import Program
from retrograd.isa.table import TABLE
from retrograd.simulator.engines.batch import cpu as on_cores
from retrograd.simulator.engines.batch.layout import BatchLayout
from retrograd.simulator.engines.cuda import batch as on_gpus
from retrograd.simulator.engines.cuda.batch import Setting, Timed
from retrograd.simulator.engines.cuda.driver import Driver, driver, size_text, using, version_text
from retrograd.simulator.engines.cuda.ptx import ptx, registers_and_instructions

import retrograd as rg
from retrograd.batch.arguments import Batch
from retrograd.differentiation.programs import gradient_program, loss_gradient_program
from retrograd.functions.requests import Request
from retrograd.functions.reversible import Reversible

Reals = NDArray[np.float64]
Words = NDArray[np.uint64]

SCHEMA = "retrograd.gpu/1"
#: measurements of ADBench's largest file
MEASUREMENTS = 9_125_125
#: elements of each batch that are held against float64
CHECKED = 5
#: ways to cut a batch up
SETTINGS = (
    Setting(),
    Setting(block=32, piece=1000),
    Setting(block=256),
    Setting(block=1024, piece=777),
    Setting(block=64, devices=[0]),
)
#: numbers from which on a term of the Bessel series is kept, and its gradient's scale: see the example
BESSEL_SCALE = 14


@dataclass
class Report:
    """What the JSON holds."""

    machine: dict[str, Any] = field(default_factory=dict)
    #: of each check: name, instances, failed instances, whether all bits are the same
    identical: list[dict[str, Any]] = field(default_factory=list)
    #: of each workload and system: milliseconds, error
    times: list[dict[str, Any]] = field(default_factory=list)
    #: of each instruction, and of whole programs
    counts: dict[str, Any] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)
    #: what ended with an error, and what it said: the rest is done all the same
    failed: list[dict[str, str]] = field(default_factory=list)


@dataclass(frozen=True)
class Sizes:
    """How much is done."""

    programs: int
    examples: int
    instances: int
    bessel: tuple[int, ...]
    measurements: int
    points: int
    repeats: int


SIZES = {
    "full": Sizes(200, 4, 256, (10**4, 10**5, 10**6, 10**7), MEASUREMENTS, 1000, 5),
    "quick": Sizes(20, 4, 64, (10**4, 10**6), 10**6, 200, 2),
    "fake": Sizes(2, 1, 12, (50,), 9, 2, 1),
}


def main() -> None:
    """Do what this machine allows."""
    parser = argparse.ArgumentParser(
        prog="python -m retrograd.benchmarks.gpu", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="smaller sizes, fewer repeats")
    parser.add_argument("--json", metavar="FILE", type=Path, help=f"write what was found (schema {SCHEMA})")
    parser.add_argument("--fake", action="store_true", help="on a driver without a device: to test this script")
    options = parser.parse_args()
    report = Report()
    sizes = SIZES["fake" if options.fake else "quick" if options.quick else "full"]
    with _fake() if options.fake else using_none():
        try:
            found = driver()
            _ = found.devices
        except DeviceError as error:
            said = error.diagnostics[0].message
            print(f"There is no GPU here ({said}): only the code that one would run is counted.")
            report.absent["device"] = said
        else:
            _with_device(report, found, sizes, fake=options.fake)
    with _guarded(report, "counts"):
        report.counts = counts(report.absent, quick=options.quick or options.fake)
    report.machine |= {"python": platform.python_version(), "numpy": np.__version__, "processor": platform.machine()}
    print(markdown(report))
    if options.json:
        write_file(options.json, json.dumps({"schema": SCHEMA, **asdict(report)}, indent=2, default=str) + "\n")
    if report.failed or not all(row["same"] for row in report.identical):
        sys.exit("Bits differ, or something failed: see above.")


def _with_device(report: Report, found: Driver, sizes: Sizes, *, fake: bool) -> None:
    device = found.device(0)
    report.machine = {
        "device": device.name, "capability": device.target, "memory": device.memory, "devices": len(found.devices),
        "multiprocessors": device.multiprocessors, "clock_khz": device.clock, "cuda": version_text(found.version), "fake": fake,
    }  # fmt: skip
    print(f"{device.name}, {device.target}, {size_text(device.memory)}, CUDA {version_text(found.version)}", flush=True)
    for check in (identical_programs, identical_examples, identical_cuts):
        with _guarded(report, check.__name__):
            report.identical += check(sizes)
            same = sum(row["same"] for row in report.identical)
            print(f"{check.__name__}: {same} of {len(report.identical)} the same so far", flush=True)
    workloads = {f"Bessel, {n}": functools.partial(_bessel, n) for n in sizes.bessel} | {"BA": _bundle, "GMM": _mixture}
    for name, workload in workloads.items():
        with _guarded(report, name):
            for row in workload(sizes):
                if "failed" in row:
                    report.failed.append({"what": f"{row['workload']}, {row['system']}", "error": row["failed"]})
                    continue
                report.times.append(row)
                print(_line(row), flush=True)
    for peer, why in gpu_peers.absent().items():
        report.absent[peer] = why


@contextmanager
def _guarded(report: Report, what: str) -> Iterator[None]:
    """An error is told at the end: hours on a device are not lost to the last of many rows."""
    try:
        yield
    except Exception as error:
        report.failed.append({"what": what, "error": f"{type(error).__name__}: {error}"})


@contextmanager
def using_none() -> Iterator[None]:
    """The driver of this machine."""
    yield


@contextmanager
def _fake() -> Iterator[None]:
    folder = Path(__file__).resolve().parents[2] / "tests" / "simulator" / "engines" / "cuda"
    fakes, on_host = _module(folder / "fake_driver.py"), _module(folder / "kernel_on_host.py")
    gpu_peers.anywhere = True
    library = fakes.FakeDriver(devices=[fakes.FakeDevice(), fakes.FakeDevice()])
    with using(library), on_host.batches_on(library, level=0, translated=False):
        yield
        library.check()


def _module(path: Path) -> ModuleType:
    name = f"retrograd_{path.stem}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return sys.modules[name]


# ---------------------------------------------------------------------- 1: the same bits


def _same(name: str, program: Program, rows: Words, reference: int, **modes: Any) -> dict[str, Any]:
    """One batch on the GPU and on the cores, its first instances on the reference machine too."""
    there, here = (engine.run_batch(program, rows, **modes) for engine in (on_gpus, on_cores))
    done = np.setdiff1d(np.arange(len(rows)), here.failed)
    same = np.array_equal(there.rows, here.rows) and np.array_equal(there.failed, here.failed)
    same = same and all(
        np.array_equal(getattr(there, p)[done], getattr(here, p)[done]) for p in ("steps", "lost_words")
    )
    for i in done[:reference].tolist():
        machine = rg.Machine(program, backward=modes.get("backward", False), overflow=modes.get("overflow", True))
        machine.load(0, rows[i].tolist())
        machine.run()
        same = (
            same
            and there.rows[i].tolist() == list(machine.memory[: rows.shape[1]])
            and there.steps[i] == machine.retired
        )
    return {"name": name, "instances": len(rows), "failed": len(there.failed), "same": bool(same)}


def identical_programs(sizes: Sizes) -> list[dict[str, Any]]:
    """Random programs on random memory: most instances of some trap."""
    generator = _module(Path(__file__).resolve().parents[2] / "tests" / "programs" / "generator.py")
    out = []
    for seed in range(sizes.programs):
        case = generator.generate(seed)
        rng, w = np.random.default_rng(seed), case.program.format
        rows = np.tile(np.array(case.memory, dtype=np.uint64), (sizes.instances, 1))
        fresh = rng.integers(0, 1 << min(63, w.width), size=rows.shape, dtype=np.uint64)
        rows = np.where(rng.random(rows.shape) < 0.5, rows, fresh)
        row = _same(
            f"random program {seed}, {w}", case.program, rows, 2, limit=2 * case.bound + 2 * len(case.program.code)
        )
        out.append(row)
    return out


def identical_examples(sizes: Sizes) -> list[dict[str, Any]]:
    """Examples, forward and back, and their gradient programs."""
    n = sizes.instances
    rng = np.random.default_rng(1)
    batches: list[tuple[str, Reversible, tuple[Any, ...]]] = [
        ("bessel", bessel.bessel, (np.zeros(n), rng.uniform(-4, 4, n))),
        ("bessel_log", bessel.bessel_log, (np.zeros(n), rng.uniform(0, 4, n))),
        ("projection", bundle_adjustment.reprojection_error, (np.zeros((n, 2)), *_measurements(n))),
        (
            "graph embedding",
            graph_embedding.embedding_loss,
            (np.zeros(n), rng.normal(size=(n, graph_embedding.VERTICES, 3))),
        ),
    ]
    out = []
    for name, function, args in batches[: sizes.examples]:
        compiled, rows = _words(function, args)
        out.append(_same(name, compiled.program, rows, 3))
        after = on_cores.run_batch(compiled.program, rows).rows
        out.append(_same(f"{name}, backward", compiled.program, after, 3, backward=True))
    return out


def identical_cuts(sizes: Sizes) -> list[dict[str, Any]]:
    """The gradient of a batch, one by one and added up, cut up in several ways."""
    _, program, rows, _ = _bessel_gradient(min(sizes.bessel[-1], 100_000))
    first = on_gpus.run_batch(program, rows, setting=SETTINGS[0])
    every = BatchLayout(given=((0, rows.shape[1]),), kept=(), summed=((0, rows.shape[1]),))
    sums = on_cores.run_batch(program, rows, columns=every).sums
    out = []
    for setting in SETTINGS:
        again = on_gpus.run_batch(program, rows, setting=setting)
        same = all(np.array_equal(getattr(again, p), getattr(first, p)) for p in ("rows", "steps", "failed"))
        added = on_gpus.run_batch(program, rows, columns=every, setting=setting)
        same = same and added.sums == sums
        out.append(
            {"name": f"Bessel gradient, {setting}", "instances": len(rows), "failed": len(again.failed), "same": same}
        )
    return out


# ---------------------------------------------------------------------- 3: times


def _words(function: Reversible, args: tuple[Any, ...], in_axes: Any = 0) -> tuple[Compiled, Words]:
    batch = Batch(Request(function), args, {}, in_axes)
    compiled = function.compiled_for(batch.types())
    return compiled, batch.words(compiled).matrix


def _padded(compiled: Compiled, rows: Words, width: int) -> Words:
    """Rows long enough for what a derived program writes behind the arguments."""
    out = np.zeros((len(rows), width), dtype=np.uint64)
    data = np.array(compiled.program.data[:width], dtype=np.uint64)
    out[:, : len(data)] = data
    out[:, : rows.shape[1]] = rows
    return out


def _run(program: Program, rows: Words, total: int, repeats: int) -> tuple[Words, dict[str, float]]:
    """(the first rows afterwards, times): the best of some runs of `total` instances, the rows over and over again.

    What is compiled before the first run is in none of them.
    """
    after = on_gpus.run_batch(program, rows[: max(CHECKED, 1)]).rows
    best: dict[str, float] = {}
    for _ in range(repeats):
        timed, begun = Timed(), time.perf_counter()
        left = total
        while left > 0:
            ran = on_gpus.run_batch(program, rows[:left], timed=timed)
            if len(ran.failed):
                raise AssertionError(f"{len(ran.failed)} instances failed")
            left -= len(rows)
        wall = 1e3 * (time.perf_counter() - begun)
        if not best or timed.kernel < best["kernel_ms"]:
            best = {"kernel_ms": timed.kernel, "copies_ms": timed.copies, "wall_ms": wall}
    return after, best


def _checked(name: str, found: Any, exact: Any, tolerance: float) -> float:
    """The error, of the largest or 1. Raises AssertionError if it is too large."""
    found, exact = np.ravel(found), np.ravel(exact)
    error = float(np.abs(found - exact).max() / max(1.0, float(np.abs(exact).max())))
    if not error <= tolerance:
        raise AssertionError(f"{name}: the error is {error:.1e}, and may be {tolerance:.1e}")
    return error


def _row(
    workload: str, system: str, instances: int, times: dict[str, float], error: float, note: str = ""
) -> dict[str, Any]:
    return {"workload": workload, "system": system, "instances": instances, **times, "error": error, "note": note}


def _peers(workload: str, instances: int, tasks: Sequence[gpu_peers.Task], sizes: Sizes) -> Iterator[dict[str, Any]]:
    for task in tasks:
        try:
            run = task.prepare()
            error = _checked(f"{workload}, {task.system}", run.sample(), task.exact, task.tolerance)
            times = {"kernel_ms": run.best(sizes.repeats)}
        except Exception as failure:  # out of memory, for one
            yield {"workload": workload, "system": task.system, "failed": f"{type(failure).__name__}: {failure}"}
            continue
        yield _row(workload, task.system, instances, times, error, task.note)


def _fixed(words: Words) -> Reals:
    return words.astype(np.int64) / 2.0**32


def _bessel_gradient(count: int) -> tuple[Compiled, Program, Words, tuple[int, int]]:
    """(function, gradient program, rows, places of value and slope)."""
    count = min(count, CHUNK)
    compiled, rows = _words(bessel.bessel, (np.zeros(count), np.linspace(0.5, 1.5, count)))
    out, z = (next(a for a in compiled.arguments if a.name == name) for name in ("out", "z"))
    made = loss_gradient_program(compiled, False, [z], out, BESSEL_SCALE)
    slope = z.address + made.cotangents
    return (
        compiled,
        made.compiled.program,
        _padded(made.compiled, rows, max(slope, made.value) + 1),
        (made.value, slope),
    )


def _bessel(count: int, sizes: Sizes) -> Iterator[dict[str, Any]]:
    """J₂ and its slope for many numbers."""
    compiled, program, rows, (value, slope) = _bessel_gradient(count)
    plain = rows[:, : compiled.argument_words]
    out = next(a.address for a in compiled.arguments if a.name == "out")
    z = np.linspace(0.5, 1.5, min(count, CHUNK))
    exact = np.array([bessel.reference(x, 2, 1e-8) for x in z[:CHECKED]])
    slopes = np.array(
        [complex_step.jacobian(lambda x: bessel.reference(x.item(), 2, 1e-8), np.array(x)) for x in z[:CHECKED]]
    )
    after, times = _run(compiled.program, plain, count, sizes.repeats)
    name = f"Bessel J₂, {count} numbers"
    yield _row(name, "retrograd", count, times, _checked(name, _fixed(after[:CHECKED, out]), exact, 1e-9))
    tasks = gpu_peers.bessel_value(count, exact)
    yield from _peers(name, count, tasks, sizes)
    after, times = _run(program, rows, count, sizes.repeats)
    name = f"Bessel J₂ and its slope, {count} numbers"
    found = np.stack([_fixed(after[:CHECKED, value]), _fixed(after[:CHECKED, slope]) / 2.0**BESSEL_SCALE], axis=1)
    both = np.stack([exact, slopes], axis=1)
    yield _row(name, "retrograd", count, times, _checked(name, found, both, 1e-8))
    yield from _peers(name, count, gpu_peers.bessel_gradient(count, both), sizes)


def _measurements(count: int) -> tuple[Reals, Reals, Reals, Reals]:
    """(cameras, points, weights, features): the one of ADBench's file, and others that differ from it by a percent."""
    data = adbench.read_bundle(bundle_adjustment.DATA / "ba1_n49_m7776_p31843.txt")
    inputs = np.tile(data.inputs, (count, 1))
    inputs[1:] *= 1 + 0.01 * np.random.default_rng(1).normal(size=(count - 1, len(data.inputs)))
    return inputs[:, :11].copy(), inputs[:, 11:14].copy(), inputs[:, 14].copy(), np.tile(data.feature, (count, 1))


def _bundle(sizes: Sizes) -> Iterator[dict[str, Any]]:
    """The errors of all measurements, and their Jacobian blocks of 2 × 15: a run of the gradient program for each of both rows."""
    total, count = sizes.measurements, min(sizes.measurements, CHUNK)
    parts = _measurements(count)
    inputs = np.concatenate([parts[0], parts[1], parts[2][:, None]], axis=1)
    exact = np.array([adbench.reprojection(z, f) for z, f in zip(inputs[:CHECKED], parts[3], strict=False)])
    of = functools.partial(_reprojection, features=parts[3])
    blocks = np.array([complex_step.jacobian(functools.partial(of, i), inputs[i]) for i in range(min(CHECKED, count))])
    compiled, rows = _words(bundle_adjustment.reprojection_error, (np.zeros((count, 2)), *parts))
    error = next(a.address for a in compiled.arguments if a.name == "error")
    after, times = _run(compiled.program, rows, total, sizes.repeats)
    name = f"BA errors, {total} measurements"
    found = _fixed(after[:CHECKED, error : error + 2])
    yield _row(name, "retrograd", total, times, _checked(name, found, exact, 5e-6))
    yield from _peers(name, total, gpu_peers.bundle_errors(parts, total, exact), sizes)

    made = gradient_program(compiled, False)
    places = [
        a.address + made.cotangents + i
        for a in compiled.arguments
        if a.name in ("camera", "point", "weight")
        for i in range(a.type.size)
    ]
    width = max(a.address + a.type.size + made.cotangents for a in compiled.arguments)
    rows = _padded(made.compiled, rows, width)
    whole, jacobians = {"kernel_ms": 0.0, "copies_ms": 0.0, "wall_ms": 0.0}, []
    for which in range(2):
        rows[:, error + made.cotangents : error + made.cotangents + 2] = 0
        rows[:, error + made.cotangents + which] = 1 << 32
        after, times = _run(made.compiled.program, rows, total, sizes.repeats)
        whole = {key: whole[key] + spent for key, spent in times.items()}
        jacobians.append(_fixed(after[:CHECKED, places]))
    name = f"BA Jacobian blocks, {total} measurements"
    yield _row(name, "retrograd", total, whole, _checked(name, np.stack(jacobians, axis=1), blocks, 1e-7))
    yield from _peers(name, total, gpu_peers.bundle_jacobian(parts, total, blocks), sizes)


def _reprojection(i: int, z: Any, features: Reals) -> Any:
    return adbench.reprojection(z, features[i])


def _mixture(sizes: Sizes) -> Iterator[dict[str, Any]]:
    """ADBench's mixture, one point on each thread: with n points L = Σᵢ L(xᵢ) − (n − 1) L(no point), and so are its gradients.

    Words are added on the host, and wrap: in any order the sum has the same bits.
    """
    data = adbench.read_mixture(gmm.DATA / "1k_d10_K25.txt", sizes.points)
    parameters, x, rest = data[:3], data[3], data[4:]
    if sizes.points < 10:  # on no device: the smallest mixture, and more points than it has
        data = adbench.read_mixture(gmm.DATA / "test.txt")
        data = data._replace(x=data.x[:1] + np.linspace(0, 1, sizes.points)[:, None])
        parameters, x, rest = data[:3], data[3], data[4:]
    n = len(x)
    shared = {p.name: None for p in gmm.gmm_objective.parameters} | {"out": 0, "x": 0}
    shared.pop("gamma"), shared.pop("m")
    compiled, rows = _words(gmm.gmm_objective, (np.zeros(n), *parameters, x[:, None, :], *rest), shared)
    arguments = {a.name: a for a in compiled.arguments}
    exact, by = adbench.likelihood_gradient(*parameters, x, *rest)
    empty = (*parameters, x[:0], *rest)
    _, none_by = adbench.likelihood_gradient(*empty)

    after, times = _run_all(compiled.program, rows, sizes.repeats)
    out = arguments["out"].address
    name = f"GMM objective, {n} points, k = {len(parameters[0])}"
    prior = float(rg.run(gmm.gmm_objective, 0.0, *empty).values.out)
    found = float(_fixed(after[:, out].sum(dtype=np.uint64)[None])[0]) - (n - 1) * prior
    yield _row(name, "retrograd", n, times, _checked(name, found / n, exact / n, 1e-6), "a thread for each point")
    yield from _peers(name, n, gpu_peers.mixture_value(data, exact), sizes)

    wanted = [arguments[name] for name in ("alphas", "means", "icf")]
    made = loss_gradient_program(compiled, False, wanted, arguments["out"], 0)
    ends = [a.address + a.type.size + made.cotangents for a in wanted]
    after, times = _run_all(
        made.compiled.program, _padded(made.compiled, rows, max(*ends, made.value + 1)), sizes.repeats
    )
    name = f"GMM gradient, {n} points, k = {len(parameters[0])}"
    slopes = []
    for a, of_none in zip(wanted, none_by[:3], strict=True):
        first = a.address + made.cotangents
        slopes.append(
            _fixed(after[:, first : first + a.type.size].sum(axis=0, dtype=np.uint64)) - (n - 1) * np.ravel(of_none)
        )
    both = np.concatenate([np.ravel(part) for part in by[:3]])
    yield _row(
        name, "retrograd", n, times, _checked(name, np.concatenate(slopes), both, 1e-6), "a thread for each point"
    )
    yield from _peers(name, n, gpu_peers.mixture_gradient(data, both), sizes)


def _run_all(program: Program, rows: Words, repeats: int) -> tuple[Words, dict[str, float]]:
    """(all rows afterwards, times)."""
    after = on_gpus.run_batch(program, rows).rows
    return after, _run(program, rows, len(rows), repeats)[1]


# ---------------------------------------------------------------------- 4: counts


def counts(absent: dict[str, str], *, quick: bool = False, arch: str = "sm_90") -> dict[str, Any]:
    """PTX instructions, and where the tools are machine instructions and registers: of each instruction, and of the examples.

    Of an instruction: c n + s is what a program with n copies of it has more than the same without. c is what each copy adds,
    s what they share: a long instruction is a function, called where it occurs. What one executes is about c + s.
    """
    tools = {name: _tool(name) for name in ("ptxas", "cuobjdump", "nvdisasm")}
    for name, path in tools.items():
        if path is None:
            absent[name] = "neither on PATH nor in a wheel (nvidia-cuda-nvcc, nvidia-cuda-cuobjdump, nvidia-nvdisasm)"
    names = [o.name for o in TABLE if o.name.endswith((".add", ".mul")) or "." not in o.name]
    if quick:
        names = ["mov.add", "fmul.add", "swap"]
    out: dict[str, Any] = {"arch": arch, "instructions": {}, "programs": {}}
    for name in names:
        if _alone(name, FEW, True) is not None:
            out["instructions"][name] = _of_one(name, arch, tools)
    for name, program in _programs(quick).items():
        found = _counted(program, arch, tools)
        out["programs"][name] = {"isa": len(program.code), **found}
    return out


#: copies of an instruction that is counted
FEW, MANY = 4, 8


def _of_one(name: str, arch: str, tools: dict[str, str | None]) -> dict[str, float]:
    """{ptx, ptx shared, sass, sass shared, registers} of one instruction."""
    more: dict[int, dict[str, int]] = {}
    registers = 0
    for copies in (FEW, MANY):
        with_it, without = (_counted(p, arch, tools) for there in (True, False) if (p := _alone(name, copies, there)))
        more[copies] = {key: with_it[key] - without[key] for key in with_it if key in ("ptx", "sass")}
        registers = registers or with_it.get("registers", 0)
    out: dict[str, float] = {}
    for key, few in more[FEW].items():
        each = (more[MANY][key] - few) / (MANY - FEW)
        out |= {key: round(each, 2), f"{key} shared": round(few - FEW * each, 2)}
    return out | ({"registers": registers} if registers else {})


def _alone(name: str, copies: int, there: bool) -> Program | None:
    """A program of some copies of one instruction on words of memory; without it too. None for branches and erasures."""
    o = next(o for o in TABLE if o.name == name)
    if "br" in o.writes or "br" in o.reads or o.halts or o.name in ("start", "finish", "erase", "unerase"):
        return None
    fields = [f for f in ("rd", "ra", "rb") if f in o.fields]
    words = {p.name: p.code << 56 for p in TABLE}
    shift = {"rd": 48, "ra": 40, "rb": 32}
    code = [words["start"]]
    for add in ("ld.add", "st.add"):
        for k in range(copies * 3):
            if add == "st.add" or "[ra+imm]" not in o.operands or k % 3 != 1:
                code.append(words[add] | 1 + k << shift["rd" if add == "ld.add" else "rb"] | k)
        if add == "ld.add" and there:
            for k in range(copies):
                operands = sum(1 + 3 * k + i << shift[f] for i, f in enumerate(shift) if f in fields)
                code.append(words[name] | operands | ("imm" in o.fields))
    return Program([*code, words["finish"]], memory=3 * copies)


def _programs(quick: bool) -> dict[str, Program]:
    """The examples whose whole kernels are counted."""
    n = 1
    out = {"bessel": _words(bessel.bessel, (np.zeros(n), np.ones(n)))[0].program, "empty": assemble("start\nfinish\n")}
    if not quick:
        out["bessel gradient"] = _bessel_gradient(1)[1]
        compiled = _words(bundle_adjustment.reprojection_error, (np.zeros((n, 2)), *_measurements(n)))[0]
        out["reprojection error"] = compiled.program
        out["reprojection gradient"] = gradient_program(compiled, False).compiled.program
    return out


def _tool(name: str) -> str | None:
    packages = Path(sysconfig.get_paths()["purelib"])
    folders = [str(found.parent) for found in sorted(packages.glob(f"nvidia/*/bin/{name}"))]
    return shutil.which(name, path=os.pathsep.join([os.environ.get("PATH", ""), *folders]))


def _counted(program: Program, arch: str, tools: dict[str, str | None]) -> dict[str, int]:
    """{ptx, registers, local_bytes, sass}, as far as there are tools for it."""
    text = ptx(program, arch)
    found = {"ptx": int(registers_and_instructions(text)["instructions"])}
    if tools["ptxas"] is None:
        return found
    with tempfile.TemporaryDirectory() as folder:
        source, binary = Path(folder, "kernel.ptx"), Path(folder, "kernel.cubin")
        write_file(source, text)
        command = [tools["ptxas"], "-v", "-arch", arch, str(source), "-o", str(binary)]
        said = subprocess.run(command, capture_output=True, text=True, check=True)
        registers = re.search(r"Used (\d+) registers", said.stdout + said.stderr)
        stack = re.search(r"(\d+) bytes stack frame", said.stdout + said.stderr)
        found |= {"registers": int(registers[1])} if registers else {}
        found |= {"local_bytes": int(stack[1])} if stack else {}
        shown = ""
        if tools["nvdisasm"] is not None:
            shown = subprocess.run([tools["nvdisasm"], str(binary)], capture_output=True, text=True, check=True).stdout
        elif tools["cuobjdump"] is not None:
            shown = subprocess.run(
                [tools["cuobjdump"], "-sass", str(binary)], capture_output=True, text=True, check=True
            ).stdout
        if shown:
            found["sass"] = len(
                [1 for m in re.finditer(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+ )?(\w+)", shown) if m[1] != "NOP"]
            )
    return found


# ---------------------------------------------------------------------- told


def _line(row: dict[str, Any]) -> str:
    ns = 1e6 * row["kernel_ms"] / row["instances"]
    copies = f", copies {row['copies_ms']:.3f} ms" if "copies_ms" in row else ""
    return f"{row['workload']}, {row['system']}: {row['kernel_ms']:.3f} ms, {ns:.2f} ns each{copies}, error {row['error']:.0e}"


def markdown(report: Report) -> str:
    """The tables for docs/benchmarks.md."""
    m, lines = report.machine, []
    if "device" in m:
        lines += [
            f"On one {m['device']} ({m['capability']}, {m['multiprocessors']} multiprocessors), CUDA {m['cuda']}:",
            "",
        ]
        if m["fake"]:
            lines += ["*The device is none: times mean nothing.*", ""]
        same = sum(row["same"] for row in report.identical)
        instances = sum(row["instances"] for row in report.identical)
        lines += [
            f"Bits: {same} of {len(report.identical)} batches ({instances} instances) are the same as on the CPU.",
            "",
        ]
        lines += [
            "| workload | system | kernel, ms | ns each | copies, ms | error | |",
            "|---|---|---|---|---|---|---|",
        ]
        for row in report.times:
            ns = 1e6 * row["kernel_ms"] / row["instances"]
            copies = f"{row['copies_ms']:.2f}" if "copies_ms" in row else "–"
            cells = (
                row["workload"],
                row["system"],
                f"{row['kernel_ms']:.3f}",
                f"{ns:.2f}",
                copies,
                f"{row['error']:.0e}",
                row["note"],
            )
            lines.append(f"| {' | '.join(cells)} |")
        lines.append("")
    keys = list(
        dict.fromkeys(
            k for part in ("programs", "instructions") for found in report.counts[part].values() for k in found
        )
    )
    lines += [f"| {report.counts['arch']} | {' | '.join(keys)} |", "|---" * (len(keys) + 1) + "|"]
    for part in ("programs", "instructions"):
        for name, found in report.counts[part].items():
            lines.append(f"| {name} | {' | '.join(str(found.get(key, '')) for key in keys)} |")
    differing = [f"Different bits: {row['name']}." for row in report.identical if not row["same"]]
    lines += ["", *differing, *(f"Failed: {row['what']}: {row['error']}" for row in report.failed)]
    lines += ["", *(f"Absent: {name} ({why})." for name, why in report.absent.items())]
    return "\n".join(lines).rstrip()


if __name__ == "__main__":
    main()
