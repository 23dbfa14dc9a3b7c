"""Batch loop for lanes: runs a program's translations for lanes for as many instances at once as there are lanes."""

from __future__ import annotations

from retrograd.isa.words import Format
from retrograd.simulator.engines.batch.array_loop import ArrayLoop
from retrograd.simulator.engines.batch.instance_loop import PENDING, REPORT
from retrograd.simulator.engines.llvm.builder import Callee, ModuleBuilder, Pointer, Value
from retrograd.simulator.engines.llvm.types import I1, I8, I64, integer

#: words of memory that each lane has for registers
REGISTERS = 256
#: the surplus of groups that part over groups that do not, from which on groups are no longer run converged
PARTED = 4


def emit_lane_loop(module: ModuleBuilder, w: Format, converged: str, diverging: str, name: str, lanes: int) -> None:
    """Define the function that runs a batch by `converged` and `diverging`, two translations for that many lanes.

    `converged` (converged_lanes.py) runs all lanes or none. The instances that it gives up are run by `diverging` (lanes.py), if the
    module has that function, from their given words.
    The function is called like that of `emit_array_loop`; M is room for lanes · (n + 1 + REGISTERS) words, and begins at a multiple of
    64 bytes. An instance that is given up has status 1, like an instance that fails: only a run alone decides which of the two it is.
    """
    LaneLoop(module, w, converged, diverging, name, lanes).define()


class LaneLoop(ArrayLoop):
    """The batch loop under construction."""

    #: the lane whose memory is meant
    lane: Value

    def __init__(self, module: ModuleBuilder, w: Format, converged: str, diverging: str, name: str, lanes: int) -> None:
        super().__init__(module, w, converged, name)
        self.diverging = module.callees.get(diverging)
        self.lanes, self.memory = lanes, self._pointer("M", self.word)

    def _place(self, address: Value) -> Pointer:
        return self.memory[address * self.lanes + self.lane]

    def define(self) -> None:
        code, lanes, last = self.code, self.lanes, self.given["last"]
        self._read_columns()
        report = code.variable(I64, "reports", count=REPORT * lanes, align=64)
        alive, good = code.variable(I64, "alive"), code.variable(I64, "good")
        self.fits, self.other = code.variable(I1, "fits"), code.variable(I64, "other")
        #: how often converged lanes parted, less how often they did not
        parted = code.variable(I64, "parted", 0)
        every = (1 << lanes) - 1
        with code.counting(self.given["first"], lanes, lambda i: i.lt(last) & self._goes_on(), "instances") as i:
            self._begin(i, alive)
            good.store(0)
            with code.when(alive.load().ne(0) & parted.load().lt(PARTED), "together"):
                good.store(self._run_lanes(self.instance, report, alive))
                agreed = good.load().eq(every)
                parted.add(agreed.select(-1, code.constant(I64, 1)))
                with code.unless(agreed, "apart"):
                    self._begin(i, alive)
            if self.diverging is not None:
                with code.when(alive.load().ne(0) & good.load().eq(0), "run"):
                    good.store(self._run_lanes(self.diverging, report, alive))
            with code.loop(lanes, "end") as self.lane, code.when(alive.load().shr(self.lane).to(I1), "alive"):
                self._finish(i + self.lane, report, good.load().shr(self.lane).to(I1))
        code.ret()

    def _begin(self, i: Value, alive: Pointer) -> None:
        """Fill the memory of the pending instances from number i on; `alive` := their lanes. Other lanes are filled as one of these."""
        code, lanes = self.code, self.lanes
        alive.store(0)
        with code.loop(lanes, "begin") as self.lane:
            number = i + self.lane
            with (
                code.when(number.lt(self.given["last"]), "look"),
                code.when(self.status[number].load().eq(PENDING), "fill"),
            ):
                self._fill(number, self.fits)
                with code.when(self.fits.load(), "fits"):
                    alive.store(alive.load() | code.constant(I64, 1) << self.lane)
                    self.other.store(number)
        with code.when(alive.load().ne(0), "shared"):
            with code.loop(lanes, "idle") as self.lane, code.unless(alive.load().shr(self.lane).to(I1), "copy"):
                self._fill(self.other.load(), self.fits)
            with self._words("shared") as (address, _):
                word = self.shared[address].load()
                self.memory.of(self.word.vector(lanes))[address].store(word.splat(lanes), 8)

    def _run_lanes(self, instances: Callee, report: Pointer, alive: Pointer) -> Value:
        """Run the living lanes. Returns the set of lanes that completed, a bit for each."""
        registers, mask = self.memory[(self.n + 1) * self.lanes], alive.load().to(integer(self.lanes))
        return self.code.call(instances, self.memory, self.n, self.limit, report, self.given["stop"], registers, mask)

    def _finish(self, i: Value, report: Pointer, ended: Value) -> None:
        """Write status, report and kept words of the instance of the lane."""
        self.status[i].store((~ended).to(I8))
        self._report(i, report[self.lane], self.lanes)
        with self.code.when(ended, "keep"):
            self._keep(i)
            self._add_all()
