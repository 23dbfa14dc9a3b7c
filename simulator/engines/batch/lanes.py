"""Tier 2 for batches: a program's function for several instances at once, side by side in the lanes of the vector unit.

Every word is a vector with one word for each instance, and an instruction is executed for all. Where a branch is taken by some
lanes only, lanes diverge: each lane keeps its own place in the program, the lanes at the lowest address go on, the others wait,
and lanes that meet go on together. As long as all lanes are together, which most programs are most of the time, that costs
one test at each branch.

A lane in which a guard fails, or a value is unsound (`Trees.unsound`), is given up: its results are discarded, and the instance is
run again alone.
"""

from __future__ import annotations

from retrograd.isa.program import Program
from retrograd.simulator.engines.batch.lane_memory import BYTES, VectorTranslator, check_lanes
from retrograd.simulator.engines.llvm.builder import Block, ModuleBuilder, Operand, Pointer, Value
from retrograd.simulator.engines.llvm.types import I64
from retrograd.simulator.engines.state.control_block import Exit
from retrograd.simulator.engines.translator.flow import Flow, Node, Variant, flow_of

#: blocks up to which registers are values of the function; beyond, they lie in memory between blocks
FEW_BLOCKS = 4


def translate_lanes(program: Program, variant: Variant, module: ModuleBuilder, lanes: int, name: str = "lanes") -> None:
    """Define the program's function for that many instances of a batch, whose registers begin as zeros:

        name(M, n, limit, report, stop, R, alive) -> lanes that completed, a bit for each

    Word a of lane l lies at M[a·lanes + l]; there are n words and a spare one. `alive`: the lanes that take part. `report` has three
    rows, each with a number for every lane: steps taken, words lost, cycles. R is room for 256 words of every lane.
    Raises NotImplementedError for words that are not of 64 bits, where a vector unit does not help.
    """
    check_lanes(program)
    LaneTranslator(flow_of(program, variant), variant, module, lanes, name).emit()


class LaneTranslator(VectorTranslator):
    """Emits the function of a program for lanes."""

    def __init__(self, flow: Flow, variant: Variant, module: ModuleBuilder, lanes: int, name: str) -> None:
        super().__init__(flow, variant, module, lanes, name)
        self.order = {node: k for k, node in enumerate(sorted(flow.blocks))}
        self.schedule = self.code.block("schedule")
        before: dict[Node, int] = {}
        for nodes in flow.successors.values():
            for node in nodes:
                before[node] = before.get(node, 0) + 1
        #: where lanes may wait for others that come there by falling through
        self.joins = {node for node, count in before.items() if count > 1}

    # ------------------------------------------------------------------ the function

    def _begin(self) -> None:
        code = self.code
        self._begin_memory()
        self.stop = self.given["stop"].of(I64)
        alive, limit = self._set_of(self.given["lanes"]), self.given["limit"].splat(self.lanes)
        #: sets of lanes: not done yet, going on now, with a failed check, and completed
        self.alive, self.active = code.variable(self.truth, "alive", alive), code.variable(self.truth, "active", alive)
        self.bad, self.ended = code.variable(self.truth, "bad", 0), code.variable(self.truth, "ended", 0)
        self.left = code.variable(self.word, "left", limit)
        #: the place of each lane that waits
        self.where = code.variable(self.word, "where", 0)
        self.br, self.erased = code.variable(self.word, "br", 0), code.variable(self.word, "erased", 0)
        self.cycles = code.variable(self.word, "cycles", 0)
        file, few = self.given["R"].of(self.word), len(self.flow.blocks) <= FEW_BLOCKS
        self.slots = {f"r{r}": code.variable(self.word, f"r{r}") if few else file[r] for r in self.used}
        for slot in self.slots.values():
            slot.store(0)

    def _mask(self) -> Value:
        return self.active.load()

    def _set_where(self, lanes: Value, variable: Pointer, value: Operand) -> None:
        """In some lanes, a variable becomes another word."""
        variable.store(lanes.select(value, variable.load()))

    def _remove(self, lanes: Value, variable: Pointer) -> Value:
        """Lanes taken out of a set of them; the set that is left."""
        left = variable.load() & ~lanes
        variable.store(left)
        return left

    def _end(self) -> None:
        self._finish()
        self._schedule()

    def _finish(self) -> None:
        """At the exit: reports, and the lanes that completed."""
        report, limit = self.given["report"].of(self.word), self.given["limit"].splat(self.lanes)
        for row, words in enumerate((limit - self.left.load(), self.erased.load(), self.cycles.load())):
            report[row].store(words, BYTES)
        self.code.ret(self._bits(self.ended.load() & ~self.bad.load()).to(I64))

    # ------------------------------------------------------------------ divergence

    def _schedule(self) -> None:
        """Let the living lanes at the lowest address go on."""
        code = self.code
        code.start(self.schedule)
        where = self.alive.load().select(self.where.load(), len(self.order))
        node = code.intrinsic("vector.reduce.umin", where, result=I64)
        self.active.store(where.eq(node.splat(self.lanes)))
        code.switch(node, self.exit, [(k, self.blocks[to]) for to, k in self.order.items()])

    def _wait(self, lanes: Value, node: Node) -> None:
        """These lanes go on at the node when it is their turn."""
        self._set_where(lanes, self.where, self.order[node])

    def _together(self) -> Value:
        """Whether all living lanes are at the same place."""
        return self._bits(self.active.load()).eq(self._bits(self.alive.load()))

    def _go(self, node: Node | None, at: int) -> None:
        code = self.code
        if node is None:
            self._leave(Exit.REFUSED, at + 1)
        elif node not in self.joins:
            code.jump(self.blocks[node])
        else:
            wait = code.block("wait")
            code.branch(self._together(), self.blocks[node], wait)
            code.start(wait)
            self._wait(self.active.load(), node)
            code.jump(self.schedule)

    def _leave(self, why: Exit, at: int) -> None:
        """The lanes that are active are done."""
        active = self.active.load()
        if why == Exit.HALTED:
            self.ended.store(self.ended.load() | active)
        self._remove(active, self.alive)
        self.code.jump(self.schedule)

    def _give_up(self, lanes: Value, on: Block) -> None:
        """These lanes are done, without a result. The other active ones go on at the block, or else the lanes that wait."""
        self._remove(lanes, self.alive)
        left = self._bits(self._remove(lanes, self.active))
        self.code.branch(left.eq(0), self.schedule, on)

    # ------------------------------------------------------------------ blocks

    def _safepoint(self, node: Node) -> None:
        code = self.code
        out = (self.left.load().lt(self.longest) | self.bad.load()) & self.active.load()
        asked = self.stop.load(volatile=True).ne(0)
        stop, some, on = code.block("stop"), code.block("out"), code.block("on")
        code.branch(self._bits(out).ne(0) | asked, stop, on, likely=False)
        code.start(stop)
        code.branch(asked, self.exit, some)
        code.start(some)
        self._give_up(out, on)
        code.start(on)

    def _add(self, variable: Pointer, amount: Operand) -> None:
        words = amount if isinstance(amount, Value) else self.code.constant(self.word, amount)
        variable.add(self.active.load().select(words, 0))

    def _flush(self) -> None:
        active = self.active.load()
        for slot in sorted(self.dirty):
            self._set_where(active, self.slots[slot], self.cached[slot])
        self.dirty.clear()
        self._test_gathered()
        if self.failed:
            self.bad.store(self.bad.load() | self.code.any(self.failed) & active)
            self.failed.clear()

    def _require(self, holds: Value, at: int) -> None:
        code, refused = self.code, ~holds & self.active.load()
        refuse, on = code.block("refuse"), code.block("on")
        code.branch(self._bits(refused).ne(0), refuse, on, likely=False)
        code.start(refuse)
        self._give_up(refused, on)
        code.start(on)

    def _follow(self, jump: Value, at: int) -> None:
        code, flow, active, leaves = self.code, self.flow, self.active.load(), self.flow.leaves(at)
        self._set_where(active, self.br, jump)
        following = flow.after(leaves)
        targets = [(jump.eq(to - leaves), (to, True)) for to in dict.fromkeys(flow.jumps(at))]
        if following is not None:
            targets.insert(0, (jump.eq(0), following))
        # As long as all lanes go the same way, they need no schedule.
        bits, together = self._bits(active), self._together()
        ways = [(active & there, to) for there, to in targets]
        for there, to in ways:
            parting = code.block("part")
            code.branch(together & self._bits(there).eq(bits), self.blocks[to], parting)
            code.start(parting, keep=True)
        astray = active
        for there, to in ways:
            self._wait(there, to)
            astray = astray & ~there
        self._remove(astray, self.alive)
        code.jump(self.schedule)
