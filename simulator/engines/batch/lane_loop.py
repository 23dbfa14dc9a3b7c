"""Batch loop for lanes: runs a program's translation for lanes (lanes.py) for as many instances at once as there are lanes."""

from __future__ import annotations

from retrograd.isa.words import Format
from retrograd.simulator.engines.batch.array_loop import ArrayLoop
from retrograd.simulator.engines.batch.instance_loop import PENDING, REPORT
from retrograd.simulator.engines.llvm.builder import ModuleBuilder, Pointer, Value
from retrograd.simulator.engines.llvm.types import I1, I8, I64, integer

#: words of memory that each lane has for registers
REGISTERS = 256


def emit_lane_loop(module: ModuleBuilder, w: Format, instances: str, name: str, lanes: int) -> None:
    """Define the function that runs `instances`, a translation for that many lanes, for a batch.

    It is called like that of `emit_array_loop`; M is room for lanes · (n + 1 + REGISTERS) words, and begins at a multiple of
    64 bytes. An instance whose lane is given up has status 1, like an instance that fails: only a run alone decides which of the two it is.
    """
    LaneLoop(module, w, instances, name, lanes).define()


class LaneLoop(ArrayLoop):
    """The batch loop under construction."""

    #: the lane whose memory is meant
    lane: Value

    def __init__(self, module: ModuleBuilder, w: Format, instances: str, name: str, lanes: int) -> None:
        super().__init__(module, w, instances, name)
        self.lanes, self.memory = lanes, self._pointer("M", self.word)

    def _place(self, address: Value) -> Pointer:
        return self.memory[address * self.lanes + self.lane]

    def define(self) -> None:
        code, lanes, last = self.code, self.lanes, self.given["last"]
        self._read_columns()
        report = code.variable(I64, "reports", count=REPORT * lanes, align=64)
        alive, fits = code.variable(I64, "alive"), code.variable(I1, "fits")
        with code.counting(self.given["first"], lanes, lambda i: i.lt(last) & self._goes_on(), "instances") as i:
            alive.store(0)
            with code.loop(lanes, "begin") as self.lane:
                number = i + self.lane
                with code.when(number.lt(last), "look"), code.when(self.status[number].load().eq(PENDING), "fill"):
                    self._fill(number, fits)
                    alive.store(alive.load() | fits.load().to(I64) << self.lane)
            taking_part = alive.load()
            with code.when(taking_part.ne(0), "run"):
                with self._words("shared") as (address, _):
                    word = self.shared[address].load()
                    self.memory.of(self.word.vector(lanes))[address].store(word.splat(lanes), 8)
                registers, mask = self.memory[(self.n + 1) * lanes], taking_part.to(integer(lanes))
                around = self.n, self.limit, report, self.given["stop"], registers, mask
                good = code.call(self.instance, self.memory, *around)
                with code.loop(lanes, "end") as self.lane, code.when(taking_part.shr(self.lane).to(I1), "alive"):
                    self._finish(i + self.lane, report, good.shr(self.lane).to(I1))
        code.ret()

    def _finish(self, i: Value, report: Pointer, ended: Value) -> None:
        """Write status, report and kept words of the instance of the lane."""
        self.status[i].store((~ended).to(I8))
        self._report(i, report[self.lane], self.lanes)
        with self.code.when(ended, "keep"):
            self._keep(i)
            self._add_all()
