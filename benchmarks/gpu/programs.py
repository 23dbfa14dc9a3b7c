"""The programs and data of the GPU benchmark: sizes, rows of words, gradient programs."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from retrograd.assembler.assemble import assemble
from retrograd.benchmarks.data import Measurements
from retrograd.benchmarks.gpu.peers import CHUNK
from retrograd.benchmarks.workloads.bundle_adjustment import measurements as around
from retrograd.compiler.compiled import Compiled
from retrograd.examples import bessel, bundle_adjustment
from retrograd.isa.program import Program
from retrograd.isa.table import TABLE
from retrograd.isa.words import Format
from retrograd.simulator.engines.cuda.kernel_report import assembled, toolkit_program
from retrograd.simulator.engines.cuda.kernels import KERNEL, ptx, registers_and_instructions

from retrograd.derivatives._arguments import automatic
from retrograd.derivatives._programs import gradient_program, loss_gradient_program
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
