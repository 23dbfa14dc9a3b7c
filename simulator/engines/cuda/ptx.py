"""A program as a CUDA kernel: the translation that runs on the CPU, through LLVM's NVPTX back end. Needs no CUDA to be made.

    kernel(rows, count, width, blank, n, memory, stride, limit, report, status)

Thread t of the grid runs the instances t, t + T, t + 2T, … of `count`, T being all threads of the grid. Its memory, of n words
and one to spare, lies interleaved with that of the others: word a at memory[a·stride + t], stride ≥ T, so that neighbours read
neighbouring words. Row i of `rows` is the beginning of instance i's memory before, and after where status[i] = 0; `blank` is the
rest of every memory; report[2i], report[2i+1] are its steps and the words that it lost.
"""

from __future__ import annotations

import re
from hashlib import sha256
from typing import Any

from retrograd.isa.diagnostics import Diagnostic, InputError
from retrograd.isa.program import Program
from retrograd.isa.table import TABLE
from retrograd.isa.words import Format
from retrograd.simulator.engines.flow import Variant
from retrograd.simulator.engines.host import definition, host
from retrograd.simulator.engines.llvm_module import Module
from retrograd.simulator.engines.threaded import storage
from retrograd.simulator.engines.translate import translate

#: the kernel's name in its PTX
KERNEL = "retrograd_batch"
#: instructions of a program from which on less is done for its speed
LARGE = 1500

_CONSTANT = 4


def kernel_ir(program: Program, *, backward: bool = False, overflow: bool = True, checks: bool = True) -> str:
    """The kernel as LLVM IR for NVPTX."""
    return _ir(program, _variant(backward, overflow, checks))


def ptx(
    program: Program, arch: str = "sm_80", *, backward: bool = False, overflow: bool = True, checks: bool = True
) -> str:
    """The kernel as PTX for a compute capability. Raises InputError RG0502 for one that LLVM does not know."""
    if not re.fullmatch(r"sm_\d{2,3}[a-z]?", arch):
        message = f"`{arch:.40}` is no compute capability"
        raise InputError(Diagnostic("RG0502", message, hint="as in sm_80, sm_90"))
    variant = _variant(backward, overflow, checks)
    level = 2 if len(program.code) < LARGE else 1

    def make() -> bytes:
        return host().device_assembly(_ir(program, variant), arch, level).encode()

    digest = sha256(repr(tuple(program.code)).encode()).hexdigest()
    known = program.table is TABLE
    key = f"{definition()} {program.format} {variant} {digest}" if known else _ir(program, variant)
    return host().kept(f"ptx {arch} {level} {key}", make).decode()


def _variant(backward: bool, overflow: bool, checks: bool) -> Variant:
    # Registers are values, however large the program is: in a thread's memory they would be slow.
    return Variant(backward=backward, overflow=overflow, checks=checks, whole=False, promoted=True, device=True)


def _ir(program: Program, variant: Variant) -> str:
    module = Module(tables=_CONSTANT)
    translate(program, variant, module, "instance")
    module.functions.append(_kernel(program.format))
    return 'target triple = "nvptx64-nvidia-cuda"\n\n' + module.text()


def _kernel(w: Format) -> str:
    s, size = storage(w), max(8, w.width) // 8
    g = "ptr addrspace(1)"

    def copy(name: str, source: str, target: str, first: str, end: str, after: str) -> str:
        """A loop that copies words, and goes on at `after`."""
        return f"""
{name}:
  %{name}.k = phi i64 [ {first}, %{name}.in ], [ %{name}.next, %{name}.body ]
  %{name}.more = icmp slt i64 %{name}.k, {end}
  br i1 %{name}.more, label %{name}.body, label %{after}
{name}.body:
{source}
{target}
  %{name}.next = add i64 %{name}.k, 1
  br label %{name}"""

    def word(name: str, base: str, index: str, what: str) -> str:
        lines = f"  %{name}.{what} = getelementptr {s}, {g} {base}, i64 {index}\n"
        return lines

    def from_rows(name: str) -> str:
        return word(name, "%row", f"%{name}.k", "row")

    def at_memory(name: str) -> str:
        return f"  %{name}.place = mul i64 %{name}.k, %stride\n" + word(name, "%M", f"%{name}.place", "mem")

    load_row = from_rows("in") + f"  %in.v = load {s}, {g} %in.row, align {size}"
    store_in = at_memory("in") + f"  store {s} %in.v, {g} %in.mem, align {size}"
    load_blank = word("rest", "%blank", "%rest.k", "blank") + f"  %rest.v = load {s}, {g} %rest.blank, align {size}"
    store_rest = at_memory("rest") + f"  store {s} %rest.v, {g} %rest.mem, align {size}"
    load_out = at_memory("out") + f"  %out.v = load {s}, {g} %out.mem, align {size}"
    store_out = from_rows("out") + f"  store {s} %out.v, {g} %out.row, align {size}"
    specials = "\n".join(
        f"declare i32 @llvm.nvvm.read.ptx.sreg.{name}.x() nounwind readnone"
        for name in ("tid", "ntid", "ctaid", "nctaid")
    )
    return f"""{specials}

define ptx_kernel void @{KERNEL}({g} noalias %rows, i64 %count, i64 %width, {g} noalias %blank, i64 %n,
    {g} noalias %memory, i64 %stride, i64 %limit, {g} noalias %report, {g} noalias %status) {{
  %tid32 = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %ntid32 = call i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
  %ctaid32 = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %nctaid32 = call i32 @llvm.nvvm.read.ptx.sreg.nctaid.x()
  %tid = zext i32 %tid32 to i64
  %ntid = zext i32 %ntid32 to i64
  %ctaid = zext i32 %ctaid32 to i64
  %nctaid = zext i32 %nctaid32 to i64
  %block = mul i64 %ctaid, %ntid
  %t = add i64 %block, %tid
  %T = mul i64 %nctaid, %ntid
  %M = getelementptr {s}, {g} %memory, i64 %t
  br label %check
check:
  %i = phi i64 [ %t, %0 ], [ %i.next, %done ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %in.in, label %end
in.in:
  %at = mul i64 %i, %width
  %row = getelementptr {s}, {g} %rows, i64 %at
  %two = shl i64 %i, 1
  %told = getelementptr i64, {g} %report, i64 %two
  %status.at = getelementptr i8, {g} %status, i64 %i
  br label %in
{copy("in", load_row, store_in, "0", "%width", "rest.in")}
rest.in:
  br label %rest
{copy("rest", load_blank, store_rest, "%width", "%n", "run")}
run:
  %why = call i64 @instance({g} %M, i64 %n, i64 %stride, i64 %limit, {g} %told)
  %bad = icmp ne i64 %why, 0
  %code = zext i1 %bad to i8
  store i8 %code, {g} %status.at
  br i1 %bad, label %done, label %out.in
out.in:
  br label %out
{copy("out", load_out, store_out, "0", "%width", "done")}
done:
  %i.next = add i64 %i, %T
  br label %check
end:
  ret void
}}"""


def registers_and_instructions(text: str) -> dict[str, Any]:
    """What a kernel's PTX holds: `instructions`, and virtual `registers` by type. The device's own are what ptxas gives."""
    lines = [line.strip() for line in text.splitlines()]
    code = [line for line in lines if line.endswith(";") and not line.startswith((".", "//"))]
    registers = {m[1]: int(m[2]) - 1 for m in re.finditer(r"\.reg \.(\w+)\s+%\w+<(\d+)>", text)}
    return {"instructions": len(code), "registers": registers}
