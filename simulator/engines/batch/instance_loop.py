"""The loop around a program's translation that runs it for many instances: on a CPU, or as a kernel.

    memory of instance i  :=  shared words, those of row i over them;  after the run, some are kept, some added up

An instance is the program's memory and registers. Words are added up as integers, which is associative: sums do not depend on
how instances are shared out among threads, nor on who comes first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from retrograd.isa.words import Format
from retrograd.simulator.engines.interpreter.threaded import storage
from retrograd.simulator.engines.llvm.builder import Code, Module

#: consecutive words of a memory: (address of the first, how many)
Range = tuple[int, int]

#: status of an instance that has not ended; 0 and 1 are those of one that came to its end, or did not
PENDING = 2
#: words of a table of columns before its ranges
HEAD = 6
#: numbers that an instance reports
REPORT = 3
#: threads of a warp
WARP = 32


@dataclass(frozen=True)
class Columns:
    """Which words of its memory an instance has for itself; all others begin as the shared memory's.

    Rows have the ranges of a kind as columns, in this order. Raises ValueError where ranges that are given overlap.
    """

    #: what an instance begins with
    given: tuple[Range, ...]
    #: what is handed back of it
    kept: tuple[Range, ...]
    #: what is added up over all that come to the end
    summed: tuple[Range, ...] = ()

    def __post_init__(self) -> None:
        at = 0
        for address, count in sorted(self.given):
            if address < at:
                raise ValueError(f"two of the ranges {self.given} overlap")
            at = address + count

    @staticmethod
    def first(width: int) -> Columns:
        """Instances are given the first words of memory, and the same are kept."""
        return Columns(((0, width),), ((0, width),))

    @property
    def end(self) -> int:
        """The first address beyond all ranges."""
        return max((address + n for kind in (self.given, self.kept, self.summed) for address, n in kind), default=0)

    def table(self, n: int) -> NDArray[np.int64]:
        """What `emit_loop`'s code reads, for memories of n words.

        How many ranges are given, shared, kept, summed; the words that are given, and kept; then the ranges in this order.
        """
        shared, at = [], 0
        for address, count in sorted(self.given):
            shared.append((at, address - at))
            at = address + count
        shared.append((at, n - at))
        kinds = [[r for r in kind if r[1]] for kind in (self.given, shared, self.kept, self.summed)]
        words = [word for kind in kinds for found in kind for word in found]
        return np.array([*map(len, kinds), width(self.given), width(self.kept), *words], dtype=np.int64)


def width(ranges: Iterable[Range]) -> int:
    """How many words they are together."""
    return sum(count for _, count in ranges)


def exact_sums(halves: NDArray[np.int64]) -> list[int]:
    """The sums of signed words, of which the code adds the lower 32 bits and the others to numbers of their own."""
    return [low + (high << 32) for low, high in halves.reshape(-1, 2).tolist()]


def emit_loop(module: Module, w: Format, instance: str, name: str, device: bool = False) -> None:
    """Define the function that runs `instance`, a translation, for many:

        name(rows, out, first, last, columns, shared, n, M, limit, report, status, sums, stop)               on a CPU
        name(rows, out, count, columns, shared, n, memory, stride, limit, report, status, sums)              a kernel

    Row i of `rows` holds the words that instance i is given, as `Columns.table` says; `shared` is a memory of n words. Where instance
    i came to its end, status[i] = 0 and row i of `out` holds what is kept of it; else status[i] = 1. report[3i], and the two behind
    it, are its steps, the words that it lost, and its cycles if they are counted. For each word that is summed, `sums` has two numbers, see `exact_sums`.
    CPU: instances from `first` up to `last` whose status is PENDING, until the word at `stop` is not 0. M is room for a memory
    and a word. Kernel: thread t runs instances t, t + T, t + 2T, … of `count`, T being all threads of the grid. Its memory, n words
    and one to spare, lies interleaved with that of the others: word a at memory[a·stride + t], stride ≥ T, so that neighbours
    read neighbouring words. Where words are summed, blocks are of whole warps.
    """
    Loop(module, w, instance, device).define(name)


class Loop:
    """The function in the making. LaneLoop (lane_loop.py) makes one that runs several instances side by side."""

    def __init__(self, module: Module, w: Format, instance: str, device: bool) -> None:
        self.module, self.w, self.instance, self.device = module, w, instance, device
        self.s, self.size = storage(w), max(8, w.width) // 8
        self.pointer = "ptr addrspace(1)" if device else "ptr"
        self.code = Code(module, w)
        self.slots: list[str] = []

    # ------------------------------------------------------------------ control

    def _slot(self, name: str, value: str = "0", type_: str = "i64") -> str:
        """A variable, which LLVM makes a value of."""
        self.slots.append(f"  %{name} = alloca {type_}")
        self.code.do(f"store {type_} {value}, ptr %{name}")
        return f"%{name}"

    def _get(self, slot: str, type_: str = "i64") -> str:
        return self.code.let(f"load {type_}, ptr {slot}")

    def _each(self, name: str, count: str, body: Callable[[str], None]) -> None:
        """Emit `body` for 0 up to `count`."""
        code, let, do = self.code, self.code.let, self.code.do
        slot = self._slot(f"{name}.k")
        do(f"br label %{name}")
        code.label(name)
        k = self._get(slot)
        do(f"br i1 {let(f'icmp slt i64 {k}, {count}')}, label %{name}.do, label %{name}.end")
        code.label(f"{name}.do")
        body(k)
        do(f"store i64 {let(f'add i64 {k}, 1')}, ptr {slot}")
        do(f"br label %{name}")
        code.label(f"{name}.end")

    def _words(self, kind: str, body: Callable[[str, str], None]) -> None:
        """Emit `body` for each word of the ranges of a kind: its address, and its column."""
        let = self.code.let
        column = self._slot(f"{kind}.column")

        def one(k: str) -> None:
            at = let(f"add i64 {self.firsts[kind]}, {let(f'shl i64 {k}, 1')}")
            address, count = self._column(at), self._column(let(f"add i64 {at}, 1"))
            before = self._get(column)
            self._each(
                f"{kind}.word",
                count,
                lambda j: body(let(f"add i64 {address}, {j}"), let(f"add i64 {before}, {j}")),
            )
            self.code.do(f"store i64 {let(f'add i64 {before}, {count}')}, ptr {column}")

        self._each(f"{kind}.ranges", self.counts[kind], one)

    def _column(self, index: str) -> str:
        """A word of the table of columns."""
        return self.code.let(f"load i64, {self._at('i64', '%columns', index)}")

    # ------------------------------------------------------------------ words

    def _at(self, type_: str, base: str, index: str) -> str:
        return f"{self.pointer} {self.code.let(f'getelementptr {type_}, {self.pointer} {base}, i64 {index}')}"

    def _memory(self, address: str) -> str:
        """Where the instance has the word of an address."""
        place = self.code.let(f"mul i64 {address}, %stride") if self.device else address
        return self._at(self.s, "%M", place)

    def _copy(self, source: str, target: str) -> None:
        word = self.code.let(f"load {self.s}, {source}, align {self.size}")
        self.code.do(f"store {self.s} {word}, {target}, align {self.size}")

    # ------------------------------------------------------------------ the function

    def define(self, name: str) -> None:
        code, let, do = self.code, self.code.let, self.code.do
        widths = self._read_columns()
        good = self._slot("good", "false", "i1")
        first, step, lane = self._threads() if self.device else ("%first", "1", "0")
        i_slot = self._slot("i", first)
        do("br label %next")

        code.label("next")
        i = self._get(i_slot)
        end = "%count" if self.device else "%last"
        # All threads of a warp go round as long as one of them has an instance: they add up together.
        more = let(f"icmp slt i64 {let(f'sub i64 {i}, {lane}')}, {end}")
        if not self.device:
            asked = let("load volatile i64, ptr %stop")
            more = let(f"and i1 {more}, {let(f'icmp eq i64 {asked}, 0')}")
        do(f"br i1 {more}, label %look, label %leave")

        code.label("look")
        do(f"store i1 false, ptr {good}")
        status = self._at("i8", "%status", i)
        if self.device:
            wanted = let(f"icmp slt i64 {i}, {end}")
        else:
            wanted = let(f"icmp eq i8 {let(f'load i8, {status}')}, {PENDING}")
        do(f"br i1 {wanted}, label %enter, label %add")

        code.label("enter")
        self._fill(i, widths[0])
        self._words("shared", lambda a, c: self._copy(self._at(self.s, "%shared", a), self._memory(a)))
        told = self._at("i64", "%report", let(f"mul i64 {i}, {REPORT}"))
        stride, stop = ("%stride", "") if self.device else ("1", ", ptr %stop")
        arguments = f"{self.pointer} %M, i64 %n, i64 {stride}, i64 %limit, {told}{stop}"
        why = code.name()
        do(f"{why} = call i64 @{self.instance}({arguments})")
        ended = let(f"icmp eq i64 {why}, 0")
        do(f"store i1 {ended}, ptr {good}")
        failed = let(f"zext i1 {let(f'xor i1 {ended}, true')} to i8")
        do(f"store i8 {failed}, {self._at('i8', '%status', i)}")
        do(f"br i1 {ended}, label %keep, label %add")

        code.label("keep")
        self._keep(i, widths[1])
        do("br label %add")

        code.label("add")
        self._add(good, lane)
        do(f"store i64 {let(f'add i64 {i}, {step}')}, ptr {i_slot}")
        do("br label %next")
        code.label("leave")
        do("ret void")
        body = "\n".join([*self.slots, *code.lines])
        self.module.functions.append(f"{self._head(name)} {{\n{body}\n}}")

    def _fill(self, i: str, width_: str) -> None:
        """Give the memory of instance i what it has for itself."""
        row = self.code.let(f"mul i64 {i}, {width_}")
        self._words("given", lambda a, c: self._copy(self._at(self.s, "%rows", self._sum(row, c)), self._memory(a)))

    def _keep(self, i: str, width_: str) -> None:
        """Hand back what is kept of instance i."""
        row = self.code.let(f"mul i64 {i}, {width_}")
        self._words("kept", lambda a, c: self._copy(self._memory(a), self._at(self.s, "%out", self._sum(row, c))))

    def _read_columns(self) -> tuple[str, str]:
        """Find the table's parts; how many words are given, and kept."""
        let, kinds = self.code.let, ("given", "shared", "kept", "summed")
        self.counts = {kind: self._column(str(k)) for k, kind in enumerate(kinds)}
        self.firsts: dict[str, str] = {}
        at = str(HEAD)
        for kind in kinds:
            self.firsts[kind] = at
            at = let(f"add i64 {at}, {let(f'shl i64 {self.counts[kind]}, 1')}")
        return self._column("4"), self._column("5")

    def _head(self, name: str) -> str:
        g = f"{self.pointer} noalias"
        around = f"{g} %columns, {g} %shared, i64 %n"
        after = f"i64 %limit, {g} %report, {g} %status, {g} %sums"
        if self.device:
            own = f"{g} %rows, {g} %out, i64 %count, {around},\n    {g} %memory, i64 %stride, {after}"
            return f"define ptx_kernel void @{name}({own})"
        own = f"{g} %rows, {g} %out, i64 %first, i64 %last, {around},\n    {g} %M, {after}, ptr %stop"
        return f"define void @{name}({own}) nounwind"

    def _sum(self, x: str, y: str) -> str:
        return self.code.let(f"add i64 {x}, {y}")

    def _threads(self) -> tuple[str, str, str]:
        """(the thread's number, all threads, the thread's lane)"""
        let = self.code.let

        def special(name: str) -> str:
            intrinsic = f"@llvm.nvvm.read.ptx.sreg.{name}.x"
            self.module.define(intrinsic, f"declare i32 {intrinsic}() nounwind readnone")
            return let(f"zext i32 {let(f'call i32 {intrinsic}()')} to i64")

        tid, ntid, ctaid, nctaid = (special(name) for name in ("tid", "ntid", "ctaid", "nctaid"))
        t = let(f"add i64 {let(f'mul i64 {ctaid}, {ntid}')}, {tid}")
        self.code.do(f"%M = getelementptr {self.s}, {self.pointer} %memory, i64 {t}")
        return t, let(f"mul i64 {nctaid}, {ntid}"), let(f"and i64 {tid}, {WARP - 1}")

    def _add(self, good: str, lane: str) -> None:
        """Add the words that are summed, of an instance that came to its end."""
        code, let, do = self.code, self.code.let, self.code.do
        if self.device:
            some = let(f"icmp ne i64 {self.counts['summed']}, 0")
        else:
            some = self._get(good, "i1")
        do(f"br i1 {some}, label %add.do, label %add.end")
        code.label("add.do")
        if self.device:
            do(f"call void {_BARRIER}(i32 -1)")
            self.module.define(_BARRIER, f"declare void {_BARRIER}(i32) convergent nounwind")
        self._words("summed", lambda a, c: self._add_word(a, c, good, lane))
        do("br label %add.end")
        code.label("add.end")

    def _add_word(self, address: str, column: str, good: str, lane: str) -> None:
        code, let, do = self.code, self.code.let, self.code.do
        word = let(f"load {self.s}, {self._memory(address)}")
        if self.s != f"i{self.w.width}":
            word = let(f"trunc {self.s} {word} to i{self.w.width}")
        if self.w.width < 64:
            word = let(f"sext i{self.w.width} {word} to i64")
        if self.device:
            word = let(f"select i1 {self._get(good, 'i1')}, i64 {word}, i64 0")
        halves = let(f"and i64 {word}, 4294967295"), let(f"ashr i64 {word}, 32")
        two = let(f"shl i64 {column}, 1")
        places = two, let(f"or i64 {two}, 1")
        if not self.device:
            for half, place in zip(halves, places, strict=True):
                at = self._at("i64", "%sums", place)
                before = let(f"load i64, {at}")
                do(f"store i64 {let(f'add i64 {before}, {half}')}, {at}")
            return
        # One address for the whole warp: its threads add up among themselves, and one of them tells memory.
        self.module.define(_SHUFFLE, f"declare i32 {_SHUFFLE}(i32, i32, i32, i32) convergent nounwind")
        self.module.define("@warp_sum", _WARP_SUM)
        self.module.define("@tells_memory", _TELLS_MEMORY)
        totals = []
        for half in halves:
            totals.append(code.name())
            do(f"{totals[-1]} = call i64 @warp_sum(i64 {half})")
        tells = let(f"call i1 @tells_memory(i64 {lane})")
        do(f"br i1 {tells}, label %tell, label %told")
        code.label("tell")
        for total, place in zip(totals, places, strict=True):
            at = self._at("i64", "%sums", place)
            do(f"{code.name()} = atomicrmw add {at}, i64 {total} monotonic")
        do("br label %told")
        code.label("told")


_BARRIER = "@llvm.nvvm.bar.warp.sync"
_SHUFFLE = "@llvm.nvvm.shfl.sync.bfly.i32"


def _warp_sum() -> str:
    """Every thread of a warp gets the sum over all its threads, in log₂ 32 exchanges."""
    lines, v = [], "%v"
    for k in range(WARP.bit_length() - 1):
        lines.append(
            f"""  %low{k} = trunc i64 {v} to i32
  %top{k} = lshr i64 {v}, 32
  %high{k} = trunc i64 %top{k} to i32
  %low.other{k} = call i32 {_SHUFFLE}(i32 -1, i32 %low{k}, i32 {1 << k}, i32 {WARP - 1})
  %high.other{k} = call i32 {_SHUFFLE}(i32 -1, i32 %high{k}, i32 {1 << k}, i32 {WARP - 1})
  %low.wide{k} = zext i32 %low.other{k} to i64
  %high.wide{k} = zext i32 %high.other{k} to i64
  %high.up{k} = shl i64 %high.wide{k}, 32
  %other{k} = or i64 %high.up{k}, %low.wide{k}
  %sum{k} = add i64 {v}, %other{k}"""
        )
        v = f"%sum{k}"
    body = "\n".join(lines)
    return f"define internal i64 @warp_sum(i64 %v) convergent alwaysinline nounwind {{\n{body}\n  ret i64 {v}\n}}"


_WARP_SUM = _warp_sum()
_TELLS_MEMORY = """define internal i1 @tells_memory(i64 %lane) alwaysinline nounwind {
  %first = icmp eq i64 %lane, 0
  ret i1 %first
}"""
