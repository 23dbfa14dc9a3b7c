"""Comparison bit for bit: batches on the GPU, on the CPU's cores and on the reference machine."""

from __future__ import annotations

import random
import subprocess
import sys
from typing import Any

import numpy as np
from retrograd.benchmarks.gpu.programs import ROOT, Sizes, Words, bessel_gradient, measurements, module_at, words_of
from retrograd.examples import bessel, bundle_adjustment, graph_embedding
from retrograd.isa.program import Program
from retrograd.isa.words import Format
from retrograd.simulator.engines.batch import cpu as on_cores
from retrograd.simulator.engines.batch.layout import BatchLayout
from retrograd.simulator.engines.cuda import batch as on_gpus
from retrograd.simulator.engines.cuda.batch import Setting
from retrograd.simulator.engines.cuda.interpreter import all_opcodes, is_compiled
from retrograd.simulator.engines.cuda.runtime import Device, device
from retrograd.simulator.engines.cuda.stepped_machine import DeviceMachine

import retrograd as rg
from retrograd.runtime._reversible import Reversible

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
    case = module_at(TESTS / "programs" / "generator.py").generate(seed, **more)
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
    lockstep = module_at(TESTS / "simulator" / "engines" / "conftest.py").Lockstep
    where, out = device(), []
    for seed in range(sizes.loops):
        try:
            both = nests.run(
                lockstep, lambda p, **modes: DeviceMachine(p, where, **modes), *nests.generate(random.Random(seed))
            )
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
