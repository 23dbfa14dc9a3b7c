"""The batch kernel run by the host: its own LLVM IR, thread after thread.

    fake.kernels[KERNEL] = kernel_on_host(program, …)       one program
    with batches_on(fake): …                                whatever program a batch is made of

What differs from the device: the back end, and that threads follow each other. Address spaces are one, and the registers that
tell a thread who it is are variables.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from retrograd.assembler.assemble import assemble
from retrograd.isa.program import Program
from retrograd.isa.table import Table
from retrograd.isa.words import Format
from retrograd.simulator.engines.cuda import batch
from retrograd.simulator.engines.cuda.ptx import KERNEL, kernel_ir, ptx
from retrograd.simulator.engines.host import host

#: of the kernel's parameters, whether they are pointers
PARAMETERS = (True, False, False, True, False, True, False, False, True, True)
SPECIALS = ("tid", "ntid", "ctaid", "nctaid")


def on_host(text: str) -> str:
    """The kernel's IR for this machine, with `all_threads(grid, block, …)` that runs it once for each thread."""
    text = re.sub(r"^target triple.*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"^declare i32 @llvm\.nvvm.*$", "", text, flags=re.MULTILINE)
    text = re.sub(r" addrspace\(\d\)", "", text)
    text = re.sub(r"@llvm\.nvvm\.read\.ptx\.sreg\.(\w+)\.x", r"@read_\1", text)
    text = text.replace("define ptx_kernel void", "define void")
    for name in SPECIALS:
        text += f"@{name} = internal global i32 0\n"
        text += f"define internal i32 @read_{name}() {{\n  %v = load i32, ptr @{name}\n  ret i32 %v\n}}\n"
    types = ["ptr" if pointer else "i64" for pointer in PARAMETERS]
    arguments = ", ".join(f"{t} %a{k}" for k, t in enumerate(types))
    return (
        text
        + f"""
define void @all_threads(i32 %grid, i32 %block, {arguments}) {{
  store i32 %block, ptr @ntid
  store i32 %grid, ptr @nctaid
  br label %blocks
blocks:
  %b = phi i32 [ 0, %0 ], [ %b.next, %ended ]
  %b.more = icmp ult i32 %b, %grid
  br i1 %b.more, label %enter, label %out
enter:
  store i32 %b, ptr @ctaid
  br label %threads
threads:
  %t = phi i32 [ 0, %enter ], [ %t.next, %run ]
  %t.more = icmp ult i32 %t, %block
  br i1 %t.more, label %run, label %ended
run:
  store i32 %t, ptr @tid
  call void @{KERNEL}({arguments})
  %t.next = add i32 %t, 1
  br label %threads
ended:
  %b.next = add i32 %b, 1
  br label %blocks
out:
  ret void
}}
"""
    )


@cache
def _address(code: tuple[int, ...], w: Format, table: Table, level: int, modes: tuple[tuple[str, bool], ...]) -> int:
    text = on_host(kernel_ir(Program(code, format=w, table=table), **dict(modes)))
    return host().load(text, ("all_threads",), lambda: text, level)["all_threads"]


def kernel_on_host(program: Program, *, level: int = 2, **modes: bool) -> Callable[..., None]:
    """The kernel as the fake driver calls it: (grid, block, arguments). `level`: of LLVM's optimiser."""
    address = _address(tuple(program.code), program.format, program.table, level, tuple(sorted(modes.items())))
    types: list[Any] = [ctypes.c_void_p if pointer else ctypes.c_int64 for pointer in PARAMETERS]
    run = ctypes.CFUNCTYPE(None, ctypes.c_int32, ctypes.c_int32, *types)(address)

    def kernel(grid: Any, block: Any, arguments: Any) -> None:
        run(grid[0], block[0], *(int(getattr(a, "value", a)) for a in arguments))

    return kernel


@cache
def _idle() -> str:
    """The PTX of a program that does nothing: its kernel takes what every other does."""
    return ptx(assemble("start\nfinish\n"))


@contextmanager
def batches_on(fake: Any, *, level: int = 2, translated: bool = True) -> Iterator[None]:
    """Batches on the fake driver run the program that they are made of.

    `translated` False: the driver is given the PTX of another program, of which it reads the parameters only; that of long ones
    takes LLVM longer than all the rest.
    """
    original = batch.ptx

    def made(program: Program, arch: str, **modes: bool) -> str:
        fake.kernels[KERNEL] = kernel_on_host(program, level=level, **modes)
        return original(program, arch, **modes) if translated else _idle()

    vars(batch)["ptx"] = made
    try:
        yield
    finally:
        vars(batch)["ptx"] = original
