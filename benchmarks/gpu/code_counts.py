"""Counts of code: PTX and machine instructions (SASS) for each ISA instruction and for whole programs. Needs no device."""

from __future__ import annotations

import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from retrograd.assembler.assemble import assemble
from retrograd.benchmarks.gpu.programs import bessel_gradient, measurements, words_of
from retrograd.examples import bessel, bundle_adjustment
from retrograd.isa.program import Program
from retrograd.isa.table import TABLE
from retrograd.simulator.engines.cuda.kernel_report import assembled, toolkit_program
from retrograd.simulator.engines.cuda.kernels import KERNEL, ptx, registers_and_instructions

from retrograd.derivatives._programs import gradient_program

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
