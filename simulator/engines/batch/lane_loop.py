"""The loop around a program's translation for lanes (lanes.py): as many instances at once as there are lanes."""

from __future__ import annotations

from retrograd.isa.words import Format
from retrograd.simulator.engines.batch.instance_loop import PENDING, REPORT, Loop
from retrograd.simulator.engines.llvm.builder import Module

#: words of memory that lanes have for registers, for each of them
REGISTERS = 256


def emit_lane_loop(module: Module, w: Format, instances: str, name: str, lanes: int) -> None:
    """Define the function that runs `instances`, a translation for so many lanes, for many.

    It is called like that of `emit_loop` on a CPU; M is room for lanes · (n + 1 + REGISTERS) words, and begins at a multiple of
    64 bytes. Instances that a lane gives up have status 1 like those that fail: only alone they show which of the two they are.
    """
    LaneLoop(module, w, instances, lanes).define(name)


class LaneLoop(Loop):
    """One function in the making."""

    def __init__(self, module: Module, w: Format, instances: str, lanes: int) -> None:
        super().__init__(module, w, instances, device=False)
        self.lanes = lanes
        #: the lane whose memory is meant
        self.lane = ""

    def _memory(self, address: str) -> str:
        place = self.code.let(f"mul i64 {address}, {self.lanes}")
        return self._at(self.s, "%M", self._sum(place, self.lane))

    def define(self, name: str) -> None:
        code, let, do, lanes = self.code, self.code.let, self.code.do, self.lanes
        widths = self._read_columns()
        report = f"[{REPORT * lanes} x i64]"
        self.slots.append(f"  %told = alloca {report}, align 64")
        i_slot, alive_slot = self._slot("i", "%first"), self._slot("alive")
        do("br label %next")

        code.label("next")
        i = self._get(i_slot)
        asked = let("load volatile i64, ptr %stop")
        more = let(f"and i1 {let(f'icmp slt i64 {i}, %last')}, {let(f'icmp eq i64 {asked}, 0')}")
        do(f"br i1 {more}, label %gather, label %leave")

        code.label("gather")
        do(f"store i64 0, ptr {alive_slot}")
        self._each("begin", str(lanes), lambda k: self._begin(self._sum(i, k), k, alive_slot, widths[0]))
        alive = self._get(alive_slot)
        do(f"br i1 {let(f'icmp eq i64 {alive}, 0')}, label %round, label %run")

        code.label("run")
        self._words("shared", lambda a, c: self._share(a))
        registers = let(f"mul i64 {self._sum('%n', '1')}, {lanes}")
        mask = let(f"trunc i64 {alive} to i{lanes}")
        room = self._at(self.s, "%M", registers)
        good = code.name()
        do(
            f"{good} = call i64 @{self.instance}(ptr %M, i64 %n, i64 %limit, ptr %told, ptr %stop, {room}, i{lanes} {mask})"
        )
        self._each("end", str(lanes), lambda k: self._finish(self._sum(i, k), k, alive, good, widths[1]))
        do("br label %round")

        code.label("round")
        do(f"store i64 {let(f'add i64 {i}, {lanes}')}, ptr {i_slot}")
        do("br label %next")
        code.label("leave")
        do("ret void")
        body = "\n".join([*self.slots, *code.lines])
        self.module.functions.append(f"{self._head(name)} {{\n{body}\n}}")

    def _share(self, address: str) -> None:
        """Give all lanes a word that they share."""
        let, vector = self.code.let, f"<{self.lanes} x {self.s}>"
        word = let(f"load {self.s}, {self._at(self.s, '%shared', address)}")
        one = let(f"insertelement {vector} poison, {self.s} {word}, i64 0")
        all_ = let(f"shufflevector {vector} {one}, {vector} poison, <{self.lanes} x i32> zeroinitializer")
        self.code.do(f"store {vector} {all_}, {self._at(vector, '%M', address)}, align 8")

    def _begin(self, i: str, lane: str, alive: str, width_: str) -> None:
        """Give the lane instance i, if that has not ended yet."""
        code, let, do = self.code, self.code.let, self.code.do
        do(f"br i1 {let(f'icmp slt i64 {i}, %last')}, label %begin.look, label %begin.done")
        code.label("begin.look")
        status = let(f"load i8, {self._at('i8', '%status', i)}")
        do(f"br i1 {let(f'icmp eq i8 {status}, {PENDING}')}, label %begin.fill, label %begin.done")
        code.label("begin.fill")
        own = let(f"shl i64 1, {lane}")
        do(f"store i64 {let(f'or i64 {self._get(alive)}, {own}')}, ptr {alive}")
        self.lane = lane
        self._fill(i, width_)
        do("br label %begin.done")
        code.label("begin.done")

    def _finish(self, i: str, lane: str, alive: str, good: str, width_: str) -> None:
        """Tell what became of the lane's instance."""
        code, let, do = self.code, self.code.let, self.code.do

        def bit(of: str) -> str:
            word = let(f"lshr i64 {of}, {lane}")
            return let(f"trunc i64 {word} to i1")

        do(f"br i1 {bit(alive)}, label %end.tell, label %end.done")
        code.label("end.tell")
        ended = bit(good)
        failed = let(f"zext i1 {let(f'xor i1 {ended}, true')} to i8")
        do(f"store i8 {failed}, {self._at('i8', '%status', i)}")
        row = let(f"mul i64 {i}, {REPORT}")
        for k in range(REPORT):
            at = let(f"add i64 {lane}, {k * self.lanes}")
            told = let(f"getelementptr i64, ptr %told, i64 {at}")
            number = let(f"load i64, ptr {told}")
            do(f"store i64 {number}, {self._at('i64', '%report', self._sum(row, str(k)))}")
        do(f"br i1 {ended}, label %end.keep, label %end.done")
        code.label("end.keep")
        self.lane = lane
        self._keep(i, width_)
        self._words("summed", lambda a, c: self._add_word(a, c, "", ""))
        do("br label %end.done")
        code.label("end.done")
