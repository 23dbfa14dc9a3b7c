"""Comparison bit for bit: batches on the GPU, on the CPU's cores and on the reference machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from retrograd.benchmarks.gpu.programs import Sizes, Words, bessel_gradient, measurements, module_at, words_of
from retrograd.examples import bessel, bundle_adjustment, graph_embedding
from retrograd.isa.program import Program
from retrograd.simulator.engines.batch import cpu as on_cores
from retrograd.simulator.engines.batch.layout import BatchLayout
from retrograd.simulator.engines.cuda import batch as on_gpus
from retrograd.simulator.engines.cuda.batch import Setting

import retrograd as rg
from retrograd.functions.reversible import Reversible

#: ways to cut a batch up
SETTINGS = (
    Setting(),
    Setting(block=32, piece=1000),
    Setting(block=256),
    Setting(block=1024, piece=777),
    Setting(block=64, devices=[0]),
)


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
    generator = module_at(Path(__file__).resolve().parents[2] / "tests" / "programs" / "generator.py")
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
    """The gradient of a batch, one by one and added up, cut up in several ways."""
    _, program, rows, _ = bessel_gradient(min(sizes.bessel[-1], 100_000))
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
