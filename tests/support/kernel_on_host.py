"""The batch kernel run by the host: its own LLVM IR, thread after thread.

    kernel = HostKernel(program, device, modes)             in the place of batch_code.TranslatedKernel

What differs from the device: the back end, and that threads follow each other. Address spaces are one, and the registers that
tell a thread who it is are variables.
"""

from __future__ import annotations

import ctypes
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import Any, ClassVar

import numpy as np
from retrograd.isa.program import Program
from retrograd.isa.table import Table
from retrograd.isa.words import Format
from retrograd.simulator.engines.array_words import DTYPES
from retrograd.simulator.engines.batch.layout import BatchLayout, exact_sums, split_columns, width
from retrograd.simulator.engines.batch.loops import WARP
from retrograd.simulator.engines.cuda.batch import GivenRows, KeptRows, device_table
from retrograd.simulator.engines.cuda.kernels import KERNEL, Mark, kernel_ir
from retrograd.simulator.engines.cuda.runtime import address_of_array
from retrograd.simulator.engines.cuda.stepped_machine import ADD, MEASURE, STEPS, TEST, PlanSlot, stepped_ir
from retrograd.simulator.engines.llvm.jit import jit_compiler
from retrograd.simulator.engines.state import Exit

#: of the kernel's parameters, whether they are pointers
PARAMETERS = (True, False, True, False, True, False, False, True, True, True)
#: who a thread is, is told in variables: one launch at a time
_running = threading.Lock()
SPECIALS = ("tid", "ntid", "ctaid", "nctaid")


def on_host(text: str, kernels: Mapping[str, Sequence[bool]] | None = None) -> str:
    """The IR of kernels for this machine, with `all_NAME(grid, block, …)` that runs a kernel once for each thread.

    `kernels`: name -> of its parameters, whether they are pointers.
    """
    text = re.sub(r"^target triple.*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"^declare i32 @llvm\.nvvm.*$", "", text, flags=re.MULTILINE)
    text = re.sub(r" addrspace\(\d\)", "", text)
    text = re.sub(r"@llvm\.nvvm\.read\.ptx\.sreg\.(\w+)\.x", r"@read_\1", text)
    text = text.replace("define ptx_kernel void", "define void")
    for name in SPECIALS:
        text += f"@{name} = internal global i32 0\n"
        text += f"define internal i32 @read_{name}() {{\n  %v = load i32, ptr @{name}\n  ret i32 %v\n}}\n"
    # A warp of one thread after the other: each adds up alone, and tells memory.
    for function, result in (("i64 @warp_sum", "i64 %v"), ("i1 @adds_to_memory", "i1 true")):
        text, found = re.subn(
            rf"^(define internal {function}\(.*?\{{)$.*?^\}}$", rf"\1\n  ret {result}\n}}", text, flags=re.M | re.S
        )
        assert found <= 1
    text = re.sub(r"^declare (void|i32) @llvm\.nvvm.*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"call void @llvm.nvvm.bar.warp.sync\(i32 -1\)", "fence seq_cst", text)
    drivers = (_driver(*found) for found in (kernels or {KERNEL: PARAMETERS}).items())
    return "".join([text, *drivers])


def _driver(kernel: str, parameters: Sequence[bool]) -> str:
    types = ["ptr" if pointer else "i64" for pointer in parameters]
    arguments = ", ".join(f"{t} %a{k}" for k, t in enumerate(types))
    return f"""
define void @all_{kernel}(i32 %grid, i32 %block, {arguments}) {{
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
  call void @{kernel}({arguments})
  %t.next = add i32 %t, 1
  br label %threads
ended:
  %b.next = add i32 %b, 1
  br label %blocks
out:
  ret void
}}
"""


@cache
def _address(code: tuple[int, ...], w: Format, table: Table, level: int, modes: tuple[tuple[str, bool], ...]) -> int:
    text = on_host(kernel_ir(Program(code, format=w, table=table), **dict(modes)))
    name = f"all_{KERNEL}"
    return jit_compiler().load(text, (name,), lambda: text, level)[name]


class HostKernel:
    """The translated kernel of a program, for device arrays of the simulator. `level`: of LLVM's optimiser."""

    #: of every launch: blocks, threads in a block, and instances
    launches: ClassVar[list[tuple[int, int, int]]] = []
    level: ClassVar[int] = 2
    teams, behind = False, 0

    def __init__(self, program: Program, device: Any, modes: dict[str, Any]) -> None:
        self.word = np.dtype(DTYPES[program.format.width])
        # Threads that follow each other cannot exchange words: see teams_on_host.
        code, key = tuple(program.code), tuple(sorted((name, on) for name, on in modes.items() if name != "teams"))
        address = _address(code, program.format, program.table, self.level, key)
        types: list[Any] = [ctypes.c_void_p if pointer else ctypes.c_int64 for pointer in PARAMETERS]
        self._run = ctypes.CFUNCTYPE(None, ctypes.c_int32, ctypes.c_int32, *types)(address)

    def block(self, threads: int, *, adds: bool) -> int:
        return max(WARP, threads // WARP * WARP) if adds else threads

    def places(self, block: int) -> int:
        return 4

    def launch(self, grid: int, block: int, arguments: Any, stream: Any) -> None:
        self.launches.append((grid, block, arguments[1]))
        given = [a if isinstance(a, int) else address_of_array(a) for a in arguments]
        with _running:
            self._run(grid, block, *given)


# ---------------------------------------------------------------------- stepped launches

#: parameters of the kernels of stepped_code.py
STEPPED = {
    STEPS: (True, True, True, False, True, True),
    TEST: (True, True),
    ADD: (True, True),
    MEASURE: (True, False, True),
}


class HostSteppedKernels:
    """The kernels of a single run. `rounds`: (loop, rows, passes) of each round in which cells were executed or refused."""

    rounds: ClassVar[list[tuple[int, int, int]]] = []
    refused: ClassVar[int] = 0
    #: rounds in which cells were tested, and measurements
    tested: ClassVar[int] = 0
    measured: ClassVar[int] = 0
    #: launches of many rounds at once
    graphs: ClassVar[int] = 0

    def __init__(self, program: Program, variant: Any, device: Any) -> None:
        text = on_host(stepped_ir(program, variant), STEPPED)
        found = jit_compiler().load(text, tuple(f"all_{name}" for name in STEPPED), lambda: text, 0)
        self._runs = {
            name: ctypes.CFUNCTYPE(
                None, *[ctypes.c_int32] * 2, *[ctypes.c_void_p if p else ctypes.c_int64 for p in parameters]
            )(found[f"all_{name}"])
            for name, parameters in STEPPED.items()
        }

    def launch(self, run: list[Any], cells: list[Any], stream: Any, tests: bool) -> None:
        plan = cells[1]
        with _running:
            self._launch(STEPS, 1, 1, run)
            words = run[2].copy_to_host().view(np.int64)[:-1]
            assert int((words ^ words >> 63).max(initial=0)) <= int(plan[PlanSlot.BOUND]) % (1 << 64), (
                "a word is above its bound"
            )
            planned = int(plan[PlanSlot.WHY]) == Exit.ROWS and (tests or not plan[PlanSlot.TESTED])
            if tests:
                self._launch(TEST, 3, 2, cells)
            self._launch(ADD, 2, 5, cells)
        if planned:
            self.rounds.append(tuple(int(plan[slot]) for slot in (PlanSlot.LOOP, PlanSlot.ROWS, PlanSlot.PASSES)))
            type(self).refused += int(plan[PlanSlot.FAILED])
            type(self).tested += int(plan[PlanSlot.TESTED])

    def repeated(self, times: int, run: list[Any], cells: list[Any], stream: Any) -> Callable[[], None]:
        def launch() -> None:
            type(self).graphs += 1
            for _ in range(times):
                self.launch(run, cells, stream, tests=False)

        return launch

    def measure(self, words: list[Any], stream: Any) -> None:
        type(self).measured += 1
        with _running:
            self._launch(MEASURE, 2, 3, words)

    def _launch(self, name: str, grid: int, block: int, arguments: list[Any]) -> None:
        self._runs[name](grid, block, *(a if isinstance(a, int) else address_of_array(a) for a in arguments))


# ---------------------------------------------------------------------- whole warps

_CALLS = {
    **dict.fromkeys(SPECIALS, ctypes.CFUNCTYPE(ctypes.c_int32)),
    "shuffle": ctypes.CFUNCTYPE(ctypes.c_uint32, *[ctypes.c_uint32] * 4),
    "barrier": ctypes.CFUNCTYPE(None, ctypes.c_int32),
}


class _Warp:
    """32 threads of the host, which wait for each other where those of a warp exchange words."""

    def __init__(self, number: int, blocks: int) -> None:
        self.meeting = threading.Barrier(WARP)
        self.words = [0] * WARP
        self.here = threading.local()
        self.numbers = {"ntid": WARP, "ctaid": number, "nctaid": blocks}
        self.exchanges = 0

    def special(self, name: str) -> int:
        return self.numbers[name] if name in self.numbers else int(self.here.lane)

    def wait(self, mask: int) -> None:
        self.meeting.wait(60)

    def shuffle(self, mask: int, word: int, other: int, clamp: int) -> int:
        assert (mask, clamp) == (0xFFFFFFFF, WARP - 1)
        self.words[self.here.lane] = word
        self.meeting.wait(60)
        found = self.words[self.here.lane ^ other]
        self.meeting.wait(60)
        self.exchanges += 1
        return found


def in_warps(program: Program, rows: Any, columns: BatchLayout, warps: int, **modes: bool) -> tuple[list[int], int]:
    """(the sums, words exchanged): of a launch of so many blocks of one warp, whose threads run at once."""
    text = re.sub(r" addrspace\(\d\)", "", kernel_ir(program, **modes))
    text = re.sub(r"^target triple.*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"^declare .*@llvm\.nvvm.*$", "", text, flags=re.MULTILINE).replace("ptx_kernel", "")
    for name in SPECIALS:
        text = text.replace(f"@llvm.nvvm.read.ptx.sreg.{name}.x", f"@{name}")
    text = text.replace("@llvm.nvvm.shfl.sync.bfly.i32", "@shuffle").replace("@llvm.nvvm.bar.warp.sync", "@barrier")
    exchanges = 0
    dtype, n = DTYPES[program.format.width], max(program.memory, columns.end)
    sums = np.zeros(2 * width(columns.summed), np.int64)
    for number in range(warps):
        warp = _Warp(number, warps)
        calls: dict[str, Any] = {name: partial(warp.special, name) for name in SPECIALS}
        calls |= {"shuffle": warp.shuffle, "barrier": warp.wait}
        held = {name: _CALLS[name](call) for name, call in calls.items()}
        linked = text
        for name, call in held.items():
            address = ctypes.cast(call, ctypes.c_void_p).value
            t, types = {"shuffle": ("i32", ["i32"] * 4), "barrier": ("void", ["i32"])}.get(name, ("i32", []))
            parameters = ", ".join(f"{p} %a{k}" for k, p in enumerate(types))
            target = f"inttoptr (i64 {address} to ptr)"
            call_ = f"call {t} {target}({parameters})"
            end = f"  {call_}\n  ret void" if t == "void" else f"  %v = {call_}\n  ret {t} %v"
            linked += f"\ndefine internal {t} @{name}({parameters}) noinline optnone {{\n{end}\n}}\n"
        kernel = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p if p else ctypes.c_int64 for p in PARAMETERS])(
            jit_compiler().load(linked, (KERNEL,), lambda linked=linked: linked, 0)[KERNEL]
        )
        given_rows = np.ascontiguousarray(rows, np.uint64)
        step = given_rows.strides[0]
        given = [GivenRows(part.ctypes.data, step, 8, 8) for part in split_columns(given_rows, columns.given)]
        kept = [KeptRows(0, 0, 8) for _ in columns.kept]
        table, shared = device_table(columns, n, given, kept, [0, 0, 0]), np.zeros(n, dtype)
        memory = np.zeros(warps * WARP * (n + 1), dtype)
        status, marks = np.ones(len(rows), np.uint8), np.zeros(Mark.LARGE + len(kept), np.int64)
        at = [a.ctypes.data for a in (table, shared, memory, status, sums, marks)]

        def work(lane: int, warp: _Warp = warp, kernel: Any = kernel, at: list[int] = at) -> None:
            warp.here.lane = lane
            kernel(at[0], len(rows), at[1], n, at[2], warps * WARP, 1 << 40, *at[3:])

        with ThreadPoolExecutor(WARP) as pool:
            list(pool.map(work, range(WARP)))
        exchanges += warp.exchanges
    return exact_sums(sums), exchanges
