"""The batch kernel of teams run by the host: each thread of a warp is a thread of the host.

They wait for each other where they exchange words.

kernel = HostTeamKernel(program, device, modes)             in the place of batch.TranslatedKernel
"""

from __future__ import annotations

import ctypes
import re
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, ClassVar

from retrograd.isa.program import Program
from retrograd.simulator.engines.batch.loops import WARP
from retrograd.simulator.engines.cuda.kernels import KERNEL, kernel_ir
from retrograd.simulator.engines.cuda.runtime import address_of_array
from retrograd.simulator.engines.cuda.teams import words_of_team
from retrograd.simulator.engines.llvm.jit import jit_compiler

from support.kernel_on_host import PARAMETERS, SPECIALS, HostKernel

_C = {"i32": ctypes.c_uint32, "void": None}
_PARAMETERS = {"shuffle": 4, "barrier": 1, "block_barrier": 1}


class _Warps:
    """The warps that run now: one, or those of a block that is a team."""

    def __init__(self) -> None:
        self.here = threading.local()
        self.numbers: dict[str, int] = {}
        self.exchanges = self.block_meetings = 0
        self.begin(WARP)

    def begin(self, threads: int) -> None:
        self.words = [0] * threads
        self.meetings: dict[tuple[int, int], threading.Barrier] = {}
        self.making, self.together = threading.Lock(), threading.Barrier(threads)

    def special(self, name: str) -> int:
        return self.numbers[name] if name != "tid" else self.numbers["first"] + int(self.here.lane)

    def wait(self, members: int) -> None:
        """Wait for the threads of a mask, of which this one is one."""
        assert members >> self.here.lane % WARP & 1
        key = self.here.lane // WARP, members
        with self.making:
            meeting = self.meetings.setdefault(key, threading.Barrier(members.bit_count()))
        meeting.wait(60)

    def wait_for_block(self, number: int) -> None:
        assert number == 0
        if self.together.wait(60) == 0:
            self.block_meetings += 1

    def shuffle(self, members: int, word: int, other: int, clamp: int) -> int:
        assert clamp == WARP - 1
        assert members >> (self.here.lane ^ other) % WARP & 1
        self.words[self.here.lane] = word
        self.wait(members)
        found = self.words[self.here.lane ^ other]
        self.wait(members)
        self.exchanges += 1
        return found


warps = _Warps()
_running = threading.Lock()


def _calls() -> dict[str, Any]:
    functions: dict[str, Callable[..., Any]] = {name: (lambda name=name: warps.special(name)) for name in SPECIALS}
    functions |= {"shuffle": warps.shuffle, "barrier": warps.wait, "block_barrier": warps.wait_for_block}
    return {
        name: ctypes.CFUNCTYPE(
            _C["void" if name.endswith("barrier") else "i32"], *[ctypes.c_uint32] * _PARAMETERS.get(name, 0)
        )(f)
        for name, f in functions.items()
    }


_held = _calls()


def on_host(text: str) -> str:
    """The IR of a kernel for this machine, whose threads call back where they exchange words."""
    text = re.sub(r" addrspace\(\d\)", "", text)
    text = re.sub(r"^target triple.*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"^declare .*@llvm\.nvvm.*$", "", text, flags=re.MULTILINE).replace("ptx_kernel", "")
    for name in SPECIALS:
        text = text.replace(f"@llvm.nvvm.read.ptx.sreg.{name}.x", f"@{name}")
    text = text.replace("@llvm.nvvm.shfl.sync.bfly.i32", "@shuffle").replace("@llvm.nvvm.bar.warp.sync", "@barrier")
    text = text.replace("@llvm.nvvm.barrier.sync", "@block_barrier")
    for name, call in _held.items():
        count = _PARAMETERS.get(name, 0)
        result = "void" if name.endswith("barrier") else "i32"
        parameters = ", ".join(f"i32 %a{k}" for k in range(count))
        called = f"call {result} inttoptr (i64 {ctypes.cast(call, ctypes.c_void_p).value} to ptr)({parameters})"
        end = f"  {called}\n  ret void" if result == "void" else f"  %v = {called}\n  ret {result} %v"
        text += f"\ndefine internal {result} @{name}({parameters}) noinline optnone {{\n{end}\n}}\n"
    return text


@cache
def _address(text: str, level: int) -> int:
    return jit_compiler().load(text, (KERNEL,), lambda: text, level)[KERNEL]


class HostTeamKernel(HostKernel):
    """The translated kernel of a program, which may divide its loops among the threads of a team."""

    #: of every launch with teams: threads of a team, instances
    divided: ClassVar[list[tuple[int, int]]] = []
    level: ClassVar[int] = 0

    def __init__(self, program: Program, device: Any, modes: dict[str, Any]) -> None:
        super().__init__(program, device, modes)
        self._in_teams = None
        if modes.get("teams"):
            self.teams, self.behind = True, words_of_team(program, modes["backward"])
            types = [ctypes.c_void_p if pointer else ctypes.c_int64 for pointer in (*PARAMETERS, False)]
            address = _address(on_host(kernel_ir(program, **modes)), self.level)
            self._in_teams = ctypes.CFUNCTYPE(None, *types)(address)

    #: the most threads of a block
    most: ClassVar[int] = 1024

    def block(self, threads: int, *, adds: bool) -> int:
        return super().block(min(threads, self.most), adds=adds or self._in_teams is not None)

    def launch(self, grid: int, block: int, arguments: Any, stream: Any) -> None:
        kernel = self._in_teams
        if kernel is None:
            super().launch(grid, block, arguments, stream)
            return
        given = [a if isinstance(a, int) else address_of_array(a) for a in arguments]
        self.launches.append((grid, block, arguments[1]))
        self.divided.append((arguments[-1], arguments[1]))

        def work(lane: int) -> None:
            warps.here.lane = lane
            kernel(*given)

        together = max(WARP, arguments[-1])
        assert block % together == 0
        assert together in (block, WARP)
        with _running, ThreadPoolExecutor(together) as pool:
            for number in range(grid):
                for first in range(0, block, together):
                    warps.begin(together)
                    warps.numbers = {"ntid": block, "ctaid": number, "nctaid": grid, "first": first}
                    list(pool.map(work, range(together)))
