"""The workloads on a GPU: bits compared with the CPU, and times beside jax and Warp: `retrograd bench --gpu`.

1. Bit for bit: random programs of both tiers, examples and single runs on the GPU, on the CPU's cores and on the reference machine.
2. The same gradient with blocks of 32 to 1024 threads, in several pieces and on several devices, and its sum over 10⁷ elements, twice each.
3. Times by the device's own clock, kernel and copies apart, after the results have been compared with float64; our CPU time stands beside them.
   Times of whole calls, with arrays on the device and of the host.
4. PTX of each ISA instruction; registers with ptxas, and machine code (SASS) with cuobjdump. This part needs no device.

The file holds programs and data first, then the counts of code, the times, the comparison of bits, and `measured`, which runs all.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import platform
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from retrograd.assembler.assemble import assemble
from retrograd.benchmarks import references
from retrograd.benchmarks.gpu_calls import (
    DIMENSIONS,
    DYNAMICS_ROWS,
    SCALE,
    call_rows,
    measurements,
    mixture_data,
    timed,
)
from retrograd.benchmarks.ours import only
from retrograd.benchmarks.page import Report, line
from retrograd.benchmarks.peers import on_gpu as gpu_peers
from retrograd.benchmarks.peers.on_gpu import CHUNK
from retrograd.benchmarks.workloads import functions as graph
from retrograd.benchmarks.workloads import simulations
from retrograd.compiler.compiled import Compiled
from retrograd.examples import bessel, bundle_adjustment, gmm, graph_embedding, leapfrog
from retrograd.examples.wave import misfit, propagate
from retrograd.isa.diagnostics import DeviceError
from retrograd.isa.program import Program
from retrograd.isa.table import TABLE
from retrograd.isa.words import Format
from retrograd.simulator.engines.batch import cpu as on_cores
from retrograd.simulator.engines.batch.layout import BatchLayout
from retrograd.simulator.engines.cuda import batch as on_gpus
from retrograd.simulator.engines.cuda.batch import Setting, Timed
from retrograd.simulator.engines.cuda.interpreter import all_opcodes, is_compiled
from retrograd.simulator.engines.cuda.kernel_report import assembled, toolkit_program
from retrograd.simulator.engines.cuda.kernels import KERNEL, ptx, registers_and_instructions
from retrograd.simulator.engines.cuda.runtime import (
    Device,
    device,
    devices,
    driver_version,
    memory_of_device,
    size_text,
    version_text,
)
from retrograd.simulator.engines.cuda.stepped_machine import DeviceMachine
from retrograd.simulator.engines.tiering import Decision, Reason, optimised_at_once, policy

import retrograd as rg
from retrograd.derivatives._arguments import kinds
from retrograd.derivatives._requests import gradient_program, loss_gradient_program
from retrograd.runtime._batch_arguments import Batch
from retrograd.runtime._execution import Request
from retrograd.runtime._reversible import Reversible

Reals = NDArray[np.float64]
Words = NDArray[np.uint64]

#: measurements of ADBench's largest file
MEASUREMENTS = 9_125_125


@dataclass(frozen=True)
class Sizes:
    """The sizes of a run."""

    #: random programs of each tier, random parallel loops of single runs, examples, and the instances of each batch
    programs: int
    loops: int
    examples: int
    instances: int
    #: instances of the batch that is cut up
    cut: int
    bessel: tuple[int, ...]
    measurements: int
    embeddings: int
    points: int
    #: planetary systems, and the steps of each; cells on a side of the wave, and its steps
    systems: tuple[int, int]
    wave: tuple[int, int]
    repeats: int


SIZES = {
    "full": Sizes(
        200, 100, 4, 256, 10**7, (10**4, 10**5, 10**6, 10**7), MEASUREMENTS, 10**6, 1000, (10**5, 30), (2048, 100), 5
    ),
    "quick": Sizes(20, 20, 4, 64, 10**7, (10**4, 10**6), 10**6, 10**5, 200, (10**4, 30), (512, 20), 2),
    "fake": Sizes(2, 1, 1, 12, 70, (50,), 9, 3, 2, (2, 2), (12, 3), 1),
}


#: the root of the sources
ROOT = Path(__file__).resolve().parents[1]


def module_at(path: Path) -> ModuleType:
    """The module in a file of the tests, which the wheel has not."""
    # Tests import each other from the root, and what they share from their own folder.
    sys.path += [str(folder) for folder in (ROOT, ROOT / "tests") if str(folder) not in sys.path]
    name = f"retrograd_{path.stem}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return sys.modules[name]


def words_of(function: Reversible, args: tuple[Any, ...], in_axes: Any = 0) -> tuple[Compiled, Words]:
    batch = Batch(Request(function), args, {}, in_axes)
    compiled = function.compiled_for(batch.types())
    return compiled, batch.words(compiled).matrix


def padded(compiled: Compiled, rows: Words, width: int) -> Words:
    """The rows with room for the words that a derived program writes behind the arguments."""
    out = np.zeros((len(rows), width), dtype=np.uint64)
    data = np.array(compiled.program.data[:width], dtype=np.uint64)
    out[:, : len(data)] = data
    out[:, : rows.shape[1]] = rows
    return out


def reals_of(words: Words, point: int = 32) -> Reals:
    return words.astype(np.int64) / 2.0**point


def bessel_gradient(count: int) -> tuple[Compiled, Program, Words, tuple[int, int]]:
    """(function, gradient program, rows, places of value and slope)."""
    count = min(count, CHUNK)
    compiled, rows = words_of(bessel.bessel, (np.zeros(count), np.linspace(0.5, 1.5, count)))
    out, z = (next(a for a in compiled.arguments if a.name == name) for name in ("out", "z"))
    made = loss_gradient_program(compiled, False, [z], out, SCALE)
    slope = z.address + made.cotangents
    return (
        compiled,
        made.compiled.program,
        padded(made.compiled, rows, max(slope, made.value) + 1),
        (made.value, slope),
    )


# -----------------------------------------------------------------------------
# Counts of code: PTX and machine instructions (SASS) for each ISA instruction and for whole programs. Needs no device.

#: copies of the counted instruction in the two programs that are compared
FEW, MANY = 4, 8


def code_counts(absent: dict[str, str], *, quick: bool = False, arch: str = "sm_90") -> dict[str, Any]:
    """PTX instructions, and with the tools machine instructions and registers, of each instruction and of the examples.

    A program with n copies of an instruction has c n + s more than the same program without. c is the part of each copy, s the
    shared part: a long instruction is a function, called where it occurs. One execution takes about c + s.
    """
    tools = {name: toolkit_program(name) for name in ("ptxas", "cuobjdump", "nvdisasm")}
    for name, path in tools.items():
        if path is None:
            absent[name] = "neither in a wheel nor on PATH (nvidia-cuda-nvcc, nvidia-cuda-cuobjdump, nvidia-nvdisasm)"
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
    """A program on words of memory, with or without copies of one instruction. None for branches and erasures."""
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
    out = {
        "bessel": words_of(bessel.bessel, (np.zeros(n), np.ones(n)))[0].program,
        "empty": assemble("start\nfinish\n"),
    }
    if not quick:
        out["bessel gradient"] = bessel_gradient(1)[1]
        compiled = words_of(bundle_adjustment.reprojection_error, (np.zeros((n, 2)), *measurements(n).arguments))[0]
        out["reprojection error"] = compiled.program
        out["reprojection gradient"] = gradient_program(compiled, False).compiled.program
    return out


def _counted(program: Program, arch: str, tools: dict[str, str | None]) -> dict[str, int]:
    """{ptx, registers, local_bytes, sass}, as far as the tools are installed."""
    text = ptx(program, arch)
    found = {"ptx": int(registers_and_instructions(text)["instructions"])}
    if tools["ptxas"] is None:
        return found
    with tempfile.TemporaryDirectory() as folder:
        binary = Path(folder, "kernel.cubin")
        taken = assembled(text, arch, tools["ptxas"], binary)[KERNEL]
        found |= {"registers": taken.registers, "local_bytes": taken.local_bytes}
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


# -----------------------------------------------------------------------------
# Times by the device's own clock, kernel and copies apart, after the results have been compared with float64 references.

#: elements of each batch that are compared with float64
CHECKED = 5
#: elements that the cores of this machine run beside the device
ON_CORES = 1 << 14
#: bytes of the rows that the host gives to one batch; more instances take several
ROOM = 1 << 31
TRANSLATED = Setting(tier="translated")


def timed_run(program: Program, rows: Words, total: int, repeats: int) -> tuple[Words, dict[str, float]]:
    """(the first rows afterwards, times): the best of some runs of `total` instances, which repeat the rows.

    The kernels are translated before the first timed run. `wall_ms`: the whole run on the host's clock. `cores_ms`: a part of the batch on the
    cores of this machine, as if it were the whole.
    """
    after = on_gpus.run_batch(program, rows[: max(CHECKED, 1)], setting=TRANSLATED).rows
    batch = np.resize(rows, (min(total, max(len(rows), ROOM // rows[0].nbytes)), rows.shape[1]))
    best: dict[str, float] = {}
    for _ in range(repeats):
        timed, begun = Timed(), time.perf_counter()
        for first in range(0, total, len(batch)):
            ran = on_gpus.run_batch(program, batch[: total - first], setting=TRANSLATED, timed=timed)
            if len(ran.failed):
                raise AssertionError(f"{len(ran.failed)} instances failed")
        wall = 1e3 * (time.perf_counter() - begun)
        if not best or timed.kernel < best["kernel_ms"]:
            best = {"kernel_ms": timed.kernel, "copies_ms": timed.copies, "wall_ms": wall}
    part = batch[: min(total, ON_CORES)]
    with optimised_at_once():
        on_cores.run_batch(program, part)
        begun = time.perf_counter()
        on_cores.run_batch(program, part)
    return after, best | {"cores_ms": 1e3 * (time.perf_counter() - begun) * total / len(part)}


def checked(name: str, found: Any, exact: Any, tolerance: float) -> float:
    """The largest error, relative to the largest number or 1. Raises AssertionError if it is too large."""
    found, exact = np.ravel(found), np.ravel(exact)
    error = float(np.abs(found - exact).max() / max(1.0, float(np.abs(exact).max())))
    if not error <= tolerance:
        raise AssertionError(f"{name}: the error is {error:.1e}, and may be {tolerance:.1e}")
    return error


def row_of(
    workload: str, system: str, instances: int, times: dict[str, float], error: float, note: str = ""
) -> dict[str, Any]:
    return {"workload": workload, "system": system, "instances": instances, **times, "error": error, "note": note}


def peer_rows(workload: str, instances: int, tasks: Sequence[gpu_peers.Task], sizes: Sizes) -> Iterator[dict[str, Any]]:
    for task in tasks:
        try:
            run = task.prepare()
            error = checked(f"{workload}, {task.system}", run.sample(), task.exact, task.tolerance)
            times = {"kernel_ms": run.best(sizes.repeats)}
        except Exception as failure:  # out of memory, for one
            yield {"workload": workload, "system": task.system, "failed": f"{type(failure).__name__}: {failure}"}
            continue
        yield row_of(workload, task.system, instances, times, error, task.note)


def bessel_rows(count: int, sizes: Sizes) -> Iterator[dict[str, Any]]:
    """J₂ and its slope for many numbers."""
    compiled, program, rows, (value, slope) = bessel_gradient(count)
    plain = rows[:, : compiled.argument_words]
    out = next(a.address for a in compiled.arguments if a.name == "out")
    z = np.linspace(0.5, 1.5, min(count, CHUNK))
    exact = np.array([bessel.reference(x, 2, 1e-8) for x in z[:CHECKED]])
    slopes = np.array(
        [references.jacobian(lambda x: bessel.reference(x.item(), 2, 1e-8), np.array(x)) for x in z[:CHECKED]]
    )
    after, times = timed_run(compiled.program, plain, count, sizes.repeats)
    name = f"Bessel J₂, {count} numbers"
    yield row_of(name, "retrograd", count, times, checked(name, reals_of(after[:CHECKED, out]), exact, 1e-9))
    tasks = gpu_peers.bessel_value(count, exact)
    yield from peer_rows(name, count, tasks, sizes)
    after, times = timed_run(program, rows, count, sizes.repeats)
    name = f"Bessel J₂ and its slope, {count} numbers"
    found = np.stack([reals_of(after[:CHECKED, value]), reals_of(after[:CHECKED, slope]) / 2.0**SCALE], axis=1)
    both = np.stack([exact, slopes], axis=1)
    yield row_of(name, "retrograd", count, times, checked(name, found, both, 1e-8))
    yield from peer_rows(name, count, gpu_peers.bessel_gradient(count, both), sizes)


def bundle_rows(sizes: Sizes) -> Iterator[dict[str, Any]]:
    """The errors of all measurements, and their Jacobian blocks of 2 × 15: one run of the gradient program for each row."""
    total, count = sizes.measurements, min(sizes.measurements, CHUNK)
    data = measurements(count)
    inputs = data.inputs
    exact = np.array([references.reprojection(z, f) for z, f in zip(inputs[:CHECKED], data.features, strict=False)])
    # All measurements have the feature of the file.
    blocks = np.array(
        [references.jacobian(lambda z: references.reprojection(z, data.features[0]), z) for z in inputs[:CHECKED]]
    )
    compiled, rows = words_of(bundle_adjustment.reprojection_error, (np.zeros((count, 2)), *data.arguments))
    error = next(a.address for a in compiled.arguments if a.name == "error")
    after, times = timed_run(compiled.program, rows, total, sizes.repeats)
    name = f"BA errors, {total} measurements"
    found = reals_of(after[:CHECKED, error : error + 2])
    yield row_of(name, "retrograd", total, times, checked(name, found, exact, 5e-6))
    yield from peer_rows(name, total, gpu_peers.bundle_errors(data, total, exact), sizes)

    made = gradient_program(compiled, False)
    places = [
        a.address + made.cotangents + i
        for a in compiled.arguments
        if a.name in ("camera", "point", "weight")
        for i in range(a.type.size)
    ]
    width = max(a.address + a.type.size + made.cotangents for a in compiled.arguments)
    rows = padded(made.compiled, rows, width)
    whole: dict[str, float] = {}
    jacobians = []
    for which in range(2):
        rows[:, error + made.cotangents : error + made.cotangents + 2] = 0
        rows[:, error + made.cotangents + which] = 1 << 32
        after, times = timed_run(made.compiled.program, rows, total, sizes.repeats)
        whole = {key: whole.get(key, 0.0) + spent for key, spent in times.items()}
        jacobians.append(reals_of(after[:CHECKED, places]))
    name = f"BA Jacobian blocks, {total} measurements"
    yield row_of(name, "retrograd", total, whole, checked(name, np.stack(jacobians, axis=1), blocks, 1e-7))
    yield from peer_rows(name, total, gpu_peers.bundle_jacobian(data, total, blocks), sizes)


def mixture_rows(sizes: Sizes) -> Iterator[dict[str, Any]]:
    """ADBench's mixture, one point on each thread: with n points L = Σᵢ L(xᵢ) − (n − 1) L(no point), and the same for gradients.

    The host adds the words mod 2^W, so the sum has the same bits in any order.
    """
    data = mixture_data(sizes.points)
    parameters, x, rest = data[:3], data[3], data[4:]
    n = len(x)
    shared = {p.name: None for p in gmm.gmm_objective.parameters} | {"out": 0, "x": 0}
    shared.pop("gamma"), shared.pop("m")
    compiled, rows = words_of(gmm.gmm_objective, (np.zeros(n), *parameters, x[:, None, :], *rest), shared)
    arguments = {a.name: a for a in compiled.arguments}
    exact, by = references.likelihood_gradient(*parameters, x, *rest)
    empty = (*parameters, x[:0], *rest)
    _, none_by = references.likelihood_gradient(*empty)

    after, times = _run_all(compiled.program, rows, sizes.repeats)
    out = arguments["out"].address
    name = f"GMM objective, {n} points, k = {len(parameters[0])}"
    prior = float(rg.run(gmm.gmm_objective, 0.0, *empty).values.out)
    found = float(reals_of(after[:, out].sum(dtype=np.uint64)[None])[0]) - (n - 1) * prior
    yield row_of(name, "retrograd", n, times, checked(name, found / n, exact / n, 1e-6), "a thread for each point")
    yield from peer_rows(name, n, gpu_peers.mixture_value(data, exact), sizes)

    wanted = [arguments[name] for name in ("alphas", "means", "icf")]
    made = loss_gradient_program(compiled, False, wanted, arguments["out"], 0)
    ends = [a.address + a.type.size + made.cotangents for a in wanted]
    after, times = _run_all(
        made.compiled.program, padded(made.compiled, rows, max(*ends, made.value + 1)), sizes.repeats
    )
    name = f"GMM gradient, {n} points, k = {len(parameters[0])}"
    slopes = []
    for a, of_none in zip(wanted, none_by[:3], strict=True):
        first = a.address + made.cotangents
        slopes.append(
            reals_of(after[:, first : first + a.type.size].sum(axis=0, dtype=np.uint64)) - (n - 1) * np.ravel(of_none)
        )
    both = np.concatenate([np.ravel(part) for part in by[:3]])
    yield row_of(
        name, "retrograd", n, times, checked(name, np.concatenate(slopes), both, 1e-6), "a thread for each point"
    )
    yield from peer_rows(name, n, gpu_peers.mixture_gradient(data, both), sizes)


def _run_all(program: Program, rows: Words, repeats: int) -> tuple[Words, dict[str, float]]:
    """(all rows afterwards, times)."""
    after = on_gpus.run_batch(program, rows, setting=TRANSLATED).rows
    return after, timed_run(program, rows, len(rows), repeats)[1]


# -----------------------------------------------------------------------------
# Comparison bit for bit: batches on the GPU, on the CPU's cores and on the reference machine.

#: ways to cut a batch up
SETTINGS = (
    Setting(),
    *(Setting(block=block) for block in (32, 64, 256, 512, 1024)),
    Setting(block=32, piece=1000),
    Setting(block=1024, piece=777),
    Setting(block=64, devices=[0]),
)
#: instances of the batch whose rows are compared, beside its sums
ROWS = 100_000
#: formats of interpreted programs: each has a kernel, which takes half a minute to compile
INTERPRETED = (Format(64, 32), Format(32, 16))
#: modes of the random programs, in turn
MODES: tuple[dict[str, bool], ...] = (
    {},
    {"overflow": False},
    {"backward": True},
    {"cycles": True},
    {"checks": False},
)
TESTS = ROOT / "tests"


def _same(
    name: str, program: Program, rows: Words, reference: int, setting: Setting = SETTINGS[0], **modes: Any
) -> dict[str, Any]:
    """One batch on the GPU and on the cores, its first instances on the reference machine too."""
    there, here = on_gpus.run_batch(program, rows, setting=setting, **modes), on_cores.run_batch(program, rows, **modes)
    done = np.setdiff1d(np.arange(len(rows)), here.failed)
    same = np.array_equal(there.rows, here.rows) and np.array_equal(there.failed, here.failed)
    counts = ("steps", "lost_words", *(("cycles",) if modes.get("cycles") else ()))
    same = same and all(np.array_equal(getattr(there, p)[done], getattr(here, p)[done]) for p in counts)
    for i in done[:reference].tolist() if modes.get("checks", True) else ():
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
    """Random programs on random memory, translated: most instances of some trap."""
    return [_random(seed, sizes, "translated") for seed in range(sizes.programs)]


def identical_interpreted(sizes: Sizes) -> list[dict[str, Any]]:
    """Random programs on random memory, interpreted."""
    return [
        _random(seed, sizes, "interpreted", formats=[(INTERPRETED[seed % len(INTERPRETED)], 1)])
        for seed in range(sizes.programs)
    ]


def _random(seed: int, sizes: Sizes, tier: str, **more: Any) -> dict[str, Any]:
    case = module_at(TESTS / "support" / "generator.py").generate(seed, **more)
    rng, w = np.random.default_rng(seed), case.program.format
    rows = np.tile(np.array(case.memory, dtype=np.uint64), (sizes.instances, 1))
    fresh = rng.integers(0, 1 << min(63, w.width), size=rows.shape, dtype=np.uint64)
    rows = np.where(rng.random(rows.shape) < 0.5, rows, fresh)
    modes, limit = MODES[seed % len(MODES)], 2 * case.bound + 2 * len(case.program.code)
    name = ", ".join([f"random program {seed}", str(w), tier, *(f"{mode}={on}" for mode, on in modes.items())])
    return _same(name, case.program, rows, 2, Setting(tier=tier), limit=limit, **modes)


def identical_single_runs(sizes: Sizes) -> list[dict[str, Any]]:
    """Random nests of parallel loops: single runs on the GPU, in lockstep with the reference machine."""
    nests = module_at(TESTS / "simulator" / "engines" / "test_parallel_loops.py")
    where, out = device(), []
    for seed in range(sizes.loops):
        try:
            both = nests.run(lambda p, **modes: DeviceMachine(p, where, **modes), *nests.generate(random.Random(seed)))
            same, failed = True, len(both.traps)
        except AssertionError:
            same, failed = False, 0
        out.append({"name": f"parallel loops {seed}", "instances": 1, "failed": failed, "same": same})
    return out


def identical_examples(sizes: Sizes) -> list[dict[str, Any]]:
    """Examples, forward and back, and their gradient programs."""
    n = sizes.instances
    rng = np.random.default_rng(1)
    batches: list[tuple[str, Reversible, tuple[Any, ...]]] = [
        ("bessel", bessel.bessel, (np.zeros(n), rng.uniform(-4, 4, n))),
        ("bessel_log", bessel.bessel_log, (np.zeros(n), rng.uniform(0, 4, n))),
        ("projection", bundle_adjustment.reprojection_error, (np.zeros((n, 2)), *measurements(n).arguments)),
        (
            "graph embedding",
            graph_embedding.embedding_loss,
            (np.zeros(n), rng.normal(size=(n, graph_embedding.VERTICES, 3))),
        ),
    ]
    out = []
    for name, function, args in batches[: sizes.examples]:
        compiled, rows = words_of(function, args)
        out.append(_same(name, compiled.program, rows, 3))
        after = on_cores.run_batch(compiled.program, rows).rows
        out.append(_same(f"{name}, backward", compiled.program, after, 3, backward=True))
    return out


def identical_cuts(sizes: Sizes) -> list[dict[str, Any]]:
    """The gradient of a batch, one by one and added up, cut up in several ways; the sums of a large batch, twice each."""
    _, program, rows, _ = bessel_gradient(min(sizes.cut, ROWS))
    many = np.resize(rows, (sizes.cut, rows.shape[1]))
    first = on_gpus.run_batch(program, rows, setting=SETTINGS[0])
    every = BatchLayout(given=((0, rows.shape[1]),), kept=(), summed=((0, rows.shape[1]),))
    sums = on_cores.run_batch(program, many, columns=every).sums
    out = []
    for setting in SETTINGS:
        again = on_gpus.run_batch(program, rows, setting=setting)
        same = all(np.array_equal(getattr(again, p), getattr(first, p)) for p in ("rows", "steps", "failed"))
        name = f"Bessel gradient, {setting}"
        out.append({"name": name, "instances": len(rows), "failed": len(again.failed), "same": same})
        for run in ("first", "second"):
            added = on_gpus.run_batch(program, many, columns=every, setting=setting)
            out.append(
                {
                    "name": f"{name}, sums, {run} run", "instances": len(many), "failed": len(added.failed),
                    "same": added.sums == sums,
                }
            )  # fmt: skip
    return out


def compile_interpreters(where: Device) -> list[subprocess.Popen[bytes]]:
    """Processes that compile the interpreter's kernels of INTERPRETED, side by side, and keep them on disk."""
    program = (
        "import sys; sys.path[:] = {!r}\n"
        "from retrograd.isa.words import Format\n"
        "from retrograd.simulator.engines.cuda.interpreter import all_opcodes\n"
        "from retrograd.simulator.engines.cuda.interpreter import interpreter_ptx\n"
        "interpreter_ptx(Format({}, {}), {!r}, all_opcodes())\n"
    )
    missing = [w for w in INTERPRETED if not is_compiled(w, where.target, all_opcodes())]
    return [
        subprocess.Popen([sys.executable, "-c", program.format(sys.path, w.width, w.frac, where.target)])
        for w in missing
    ]


# -----------------------------------------------------------------------------
# Graph embeddings and planets as batches, and the wave as a single run, on the device.


def embedding_rows(sizes: Sizes) -> Iterator[dict[str, Any]]:
    """The losses of embeddings of the Petersen graph, and their gradients."""
    total, count = sizes.embeddings, min(sizes.embeddings, DYNAMICS_ROWS)
    x = np.random.default_rng(10).normal(size=(count, graph_embedding.VERTICES, DIMENSIONS))
    exact = np.array([graph_embedding.reference(one) for one in x[:CHECKED]])
    slopes = np.array([graph.slope(one) for one in x[:CHECKED]])
    compiled, rows = words_of(graph_embedding.embedding_loss, (np.zeros(count), x))
    out, of_x = (next(a for a in compiled.arguments if a.name == name) for name in ("out", "x"))
    edges = len(graph_embedding.EDGES)
    of_peers = gpu_peers.embedding(x, graph.PAIRS, edges, total, exact, slopes)
    after, times = timed_run(compiled.program, rows, total, sizes.repeats)
    name = f"graph embedding, k = {DIMENSIONS}, {total} embeddings"
    yield row_of(name, "retrograd", total, times, checked(name, reals_of(after[:CHECKED, out.address]), exact, 1e-7))
    yield from peer_rows(name, total, of_peers[0], sizes)

    made = loss_gradient_program(compiled, False, [of_x], out, 0)
    first = of_x.address + made.cotangents
    rows = padded(made.compiled, rows, max(first + of_x.type.size, made.value + 1))
    after, times = timed_run(made.compiled.program, rows, total, sizes.repeats)
    found = reals_of(after[:CHECKED, first : first + of_x.type.size])
    name = f"graph embedding, k = {DIMENSIONS}, gradient, {total} embeddings"
    yield row_of(name, "retrograd", total, times, checked(name, found, slopes, 1e-6))
    yield from peer_rows(name, total, of_peers[1], sizes)


def planets_rows(sizes: Sizes) -> Iterator[dict[str, Any]]:
    """Many planetary systems, whose places differ by a part in a thousand; gradients of the Earth's first coordinate by all velocities."""
    (total, steps), h = sizes.systems, 1 / leapfrog.RATE
    count = min(total, DYNAMICS_ROWS)
    q, v, gm = leapfrog.solar_system()
    near = 1 + 1e-3 * np.linspace(0, 1, count)[:, None, None]
    places = rg.fixed.to_reals(rg.fixed.to_words(q * near))
    some = np.asarray(places[:CHECKED])
    exact = np.array([references.drift_kick_drift(one, v, gm, steps, h)[0] for one in some])
    by_v = np.array([references.gradients(one, v, gm, steps, h, simulations.EARTH, 0)[1][1] for one in some])
    axes = only("q", leapfrog.leapfrog) | {"rate": None}
    compiled, rows = words_of(leapfrog.leapfrog, (places, v, gm, steps), axes)
    of_q, of_v = (next(a for a in compiled.arguments if a.name == name) for name in ("q", "v"))
    whole = np.resize(np.asarray(places), (total, *q.shape)), np.resize(v, (total, *v.shape))
    of_peers = gpu_peers.planets(*whole, gm, steps, h, exact, by_v)
    after, times = timed_run(compiled.program, rows, total, sizes.repeats)
    finer = kinds(of_q.type)[0].point(compiled.format)
    found = reals_of(after[:CHECKED, of_q.address : of_q.address + of_q.type.size], finer)
    name = f"leapfrog, nine bodies, {steps} steps, {total} systems"
    yield row_of(name, "retrograd", total, times, checked(name, found, exact, 1e-8 * steps))
    yield from peer_rows(name, total, of_peers[0], sizes)

    made = gradient_program(compiled, False)
    width = max(a.address + a.type.size + made.cotangents for a in compiled.arguments)
    rows = padded(made.compiled, rows, width)
    rows[:, of_q.address + made.cotangents + 3 * simulations.EARTH] = 1 << (32 + SCALE)
    after, times = timed_run(made.compiled.program, rows, total, sizes.repeats)
    first = of_v.address + made.cotangents
    # A cotangent at the point p has F + q − p places where that of q begins as 2^F.
    behind = 32 + SCALE + finer - kinds(of_v.type)[0].point(compiled.format)
    found = reals_of(after[:CHECKED, first : first + of_v.type.size], behind)
    name = f"leapfrog, nine bodies, {steps} steps, gradient, {total} systems"
    yield row_of(name, "retrograd", total, times, checked(name, found, by_v, 1e-6))
    yield from peer_rows(name, total, of_peers[1], sizes)


def wave_rows(sizes: Sizes) -> Iterator[dict[str, Any]]:
    """A wave forward, back to its beginning, and the gradient by the medium: single runs, whose bits are those of the CPU."""
    n, steps = sizes.wave
    d = simulations.wave_data(n, steps)
    cells = n * n * steps

    def there(engine: str) -> Any:
        return rg.run(propagate, d.q, d.p, d.c, steps, engine=engine).values.q

    def back(engine: str) -> Any:
        return rg.run(~propagate, *end, engine=engine).values.q

    def slope(engine: str) -> Any:
        return gradient[engine](0.0, d.q, d.p, d.c, d.seen, d.line, steps)

    gradient = {engine: rg.grad(misfit, "c", engine=engine) for engine in ("cuda", "native")}
    end = rg.run(propagate, d.q, d.p, d.c, steps, engine="native").values
    by_jax = gpu_peers.wave(d.q, d.p, d.c, d.seen, d.line, steps, there("native"), slope("native"))
    tasks: dict[str, tuple[Callable[[str], Any], Any]] = {
        "forward": (there, by_jax[0]),
        "back": (back, []),
        "gradient": (slope, by_jax[1]),
    }
    for kind, (run, of_peers) in tasks.items():
        name = f"wave, {n} × {n} cells, {steps} steps, {kind}"
        expected, cores = timed(run, "native", 1)
        found, took = timed(run, "cuda", sizes.repeats)
        error = checked(name, found, expected, 0.0)
        yield row_of(
            name,
            "retrograd",
            cells,
            {"kernel_ms": took, "cores_ms": cores},
            error,
            "a call by a user; each is a cell and step",
        )
        yield from peer_rows(name, cells, of_peers, sizes)


# -----------------------------------------------------------------------------
# The whole benchmark.

SCHEMA = "retrograd.gpu/1"
#: comparisons of programs that the tests generate
WITH_TESTS = (identical_programs, identical_single_runs, identical_interpreted)


def measured(
    *, quick: bool = False, fake: bool = False, minutes: float | None = None, say: Callable[[str], None] = print
) -> dict[str, Any]:
    """The results, of schema retrograd.gpu/1: the parts that this machine allows, and that begin within `minutes`. `say` shows progress."""
    report = Report(until=None if minutes is None else time.monotonic() + 60 * minutes)
    sizes = SIZES["fake" if fake else "quick" if quick else "full"]
    with _fake() if fake else nullcontext():
        try:
            found = devices()
        except DeviceError as error:
            report.absent["device"] = error.diagnostics[0].message
            say(f"There is no GPU here ({report.absent['device']}): only code is counted.")
        else:
            _with_device(report, found, sizes, fake, say)
    if _begins(report, "counts"):
        with _guarded(report, "counts"):
            report.counts = code_counts(report.absent, quick=quick or fake)
    report.machine |= {"python": platform.python_version(), "numpy": np.__version__, "processor": platform.machine()}
    found_wrong = bool(report.failed) or not all(row["same"] for row in (*report.identical, *report.calls))
    document = asdict(report)
    del document["until"]
    return {"schema": SCHEMA, "wrong": found_wrong, **document}


def _with_device(report: Report, found: Sequence[Device], sizes: Sizes, fake: bool, say: Callable[[str], None]) -> None:
    device, served = found[0], driver_version()
    _, memory = memory_of_device(device)
    version = "simulated" if served is None else version_text(served)
    report.machine = {
        "device": device.name, "capability": device.target, "memory": None if fake else int(memory), "devices": len(found),
        "multiprocessors": device.multiprocessors, "clock_khz": device.clock, "cuda": version, "fake": fake,
    }  # fmt: skip
    say(f"{device.name}, {device.target}, {size_text(memory)}, CUDA {version}")
    compiling = [] if fake else compile_interpreters(device)
    for check in (identical_programs, identical_examples, identical_cuts, identical_single_runs):
        _compare(report, check, sizes, say)
    workloads = {f"Bessel, {n}": functools.partial(bessel_rows, n) for n in sizes.bessel} | {
        "BA": bundle_rows,
        "graph": embedding_rows,
        "GMM": mixture_rows,
        "leapfrog": planets_rows,
        "wave": wave_rows,
    }
    for name, workload in workloads.items():
        if not _begins(report, name):
            continue
        with _guarded(report, name):
            for row in workload(sizes):
                if "failed" in row:
                    report.failed.append({"what": f"{row['workload']}, {row['system']}", "error": row["failed"]})
                    continue
                report.times.append(row)
                say(line(row))
    if _begins(report, "calls"):
        with _guarded(report, "calls"):
            for row in call_rows(sizes):
                report.calls.append(row)
                say(
                    f"{row['workload']}: {row['device_ms']:.3f} ms with arrays there, {row['host_ms']:.3f} ms from the host"
                )
    for process in compiling:
        process.wait()
    _compare(report, identical_interpreted, sizes, say)
    for peer, why in gpu_peers.absent().items():
        report.absent[peer] = why


def _compare(
    report: Report, check: Callable[[Sizes], list[dict[str, Any]]], sizes: Sizes, say: Callable[[str], None]
) -> None:
    """Add the rows of a comparison bit for bit."""
    if check in WITH_TESTS and not (TESTS.is_dir() and importlib.util.find_spec("pytest")):
        report.absent[check.__name__] = "it takes programs of the tests: run it from a checkout, with pytest"
        return
    if not _begins(report, check.__name__):
        return
    with _guarded(report, check.__name__):
        rows = check(sizes)
        report.identical += rows
        say(f"{check.__name__}: {sum(row['same'] for row in rows)} of {len(rows)} the same")


def _begins(report: Report, what: str) -> bool:
    """Whether a part may begin; otherwise it is named as left out."""
    if report.until is None or time.monotonic() < report.until:
        return True
    report.absent[what] = "left out, since the time had run out"
    return False


@contextmanager
def _guarded(report: Report, what: str) -> Iterator[None]:
    """Record an error in place of raising it, so that one row does not lose hours on a device."""
    try:
        yield
    except Exception as error:
        report.failed.append({"what": what, "error": f"{type(error).__name__}: {error}"})


@contextmanager
def _fake() -> Iterator[None]:
    """Numba's simulator, and the translated kernels run by the host."""
    os.environ["NUMBA_ENABLE_CUDASIM"] = "1"  # before Numba is imported
    from retrograd.simulator.engines.cuda import batch, stepped_machine

    on_host = module_at(TESTS / "support" / "kernel_on_host.py")
    gpu_peers.anywhere = True
    on_host.HostKernel.level = 0
    vars(batch)["TranslatedKernel"] = on_host.HostKernel
    stepped = stepped_machine.SteppedKernels
    vars(stepped_machine)["SteppedKernels"] = on_host.HostSteppedKernels
    before, policy.decide_device = policy.decide_device, lambda *_: Decision("translated", Reason.LOADED)  # type: ignore[method-assign]
    try:
        yield
    finally:
        policy.decide_device = before  # type: ignore[method-assign]
        stepped_machine.SteppedKernels = stepped  # type: ignore[misc]
