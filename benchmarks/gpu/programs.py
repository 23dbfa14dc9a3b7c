"""The programs and data of the GPU benchmark: sizes, rows of words, gradient programs."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from retrograd.benchmarks.data import Measurements
from retrograd.benchmarks.gpu.peers import CHUNK
from retrograd.benchmarks.workloads.bundle_adjustment import measurements as around
from retrograd.compiler.compiled import Compiled
from retrograd.examples import bessel, bundle_adjustment
from retrograd.isa.program import Program
from retrograd.isa.words import Format

from retrograd.derivatives._arguments import automatic
from retrograd.derivatives._programs import loss_gradient_program
from retrograd.runtime._batch_arguments import Batch
from retrograd.runtime._execution import Request
from retrograd.runtime._reversible import Reversible

Reals = NDArray[np.float64]
Words = NDArray[np.uint64]

#: measurements of ADBench's largest file
MEASUREMENTS = 9_125_125
#: the scale of cotangents
SCALE = automatic(Format())[0]


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
ROOT = Path(__file__).resolve().parents[2]


def module_at(path: Path) -> ModuleType:
    """The module in a file of the tests, which the wheel has not."""
    if str(ROOT) not in sys.path:
        sys.path.append(str(ROOT))  # tests import each other from there
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


def reals_of(words: Words) -> Reals:
    return words.astype(np.int64) / 2.0**32


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


def measurements(count: int) -> Measurements:
    """The measurement of ADBench's file, and others that differ from it by a percent."""
    return around(bundle_adjustment.DATA / "ba1_n49_m7776_p31843.txt", count)[0]
