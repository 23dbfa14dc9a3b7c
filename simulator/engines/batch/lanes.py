"""Tier 2 for batches: a program's function for several instances at once, side by side in the vector unit's lanes.

Every word is a vector, one word for each instance; an instruction is done for all. Lanes part where a branch takes some of them
and not others. Then each lane has a place of its own in the program; those at the lowest address go on, the others wait, and
where they meet they go on together. As long as all lanes are together, which most programs are most of the time, that costs
one look at each branch.

A lane in which a guard fails, or a step is not exact (`LaneTrees.doubts`), is given up: nothing of it is kept, and the instance is
run again alone. So what is right is right, and what is wrong has nobody seen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from retrograd.isa.encoding import Instruction
from retrograd.isa.entries import REGISTER_FIELDS
from retrograd.isa.expr import Expr
from retrograd.isa.program import Program
from retrograd.simulator.engines.llvm.builder import Callee, Code, ModuleBuilder
from retrograd.simulator.engines.llvm.lane_trees import WIDTH, LaneTrees, gather
from retrograd.simulator.engines.llvm.trees import Trees
from retrograd.simulator.engines.llvm.types import I64, POINTER, integer
from retrograd.simulator.engines.state.control_block import Exit
from retrograd.simulator.engines.translator.flow import Flow, Node, Variant, flow_of
from retrograd.simulator.engines.translator.translate import Translation

#: blocks up to which registers are values of the function; beyond, they lie in memory between blocks
FEW_BLOCKS = 4


def translate_lanes(program: Program, variant: Variant, module: ModuleBuilder, lanes: int, name: str = "lanes") -> None:
    """Define the program's function for so many instances of a batch, whose registers begin as zeros:

        name(M, n, limit, report, stop, R, alive) -> lanes that came to their end, a bit for each

    Word a of lane l lies at M[a·lanes + l]; there are n words and one to spare. `alive`: the lanes that take part. `report` has three
    rows, each of a number for every lane: steps taken, words lost, cycles. R is room for 256 words of every lane.
    Raises NotImplementedError where a vector unit is no help: words that are not of 64 bits, formats with too long roots.
    """
    if program.format.width != WIDTH:
        raise NotImplementedError(f"lanes of {program.format}")
    flow = flow_of(program, variant)
    LaneTranslation(flow, variant, module, lanes).define(name)


class LaneTranslation(Translation):
    """One function in the making."""

    def __init__(self, flow: Flow, variant: Variant, module: ModuleBuilder, lanes: int) -> None:
        self.lanes = lanes
        super().__init__(flow, variant, module)
        self.s = self.t
        self.order = {node: k for k, node in enumerate(sorted(flow.blocks))}
        self.mask = f"i{lanes}"
        written = {
            getattr(i, REGISTER_FIELDS[place])
            for run in flow.blocks.values()
            for i in (flow.code[at] for at in run)
            for place in self._step(i).after
            if place in REGISTER_FIELDS
        }
        #: registers that stay zero
        self.zeros = set(self.used) - written
        before: dict[Node, int] = {}
        for nodes in flow.successors.values():
            for node in nodes:
                before[node] = before.get(node, 0) + 1
        #: where lanes may wait for others that come there by falling through
        self.joins = {node for node, count in before.items() if count > 1}

    # ------------------------------------------------------------------ the function

    def define(self, name: str) -> None:
        code, do, m = self.code, self.code.do, self.module
        lanes, truth, word = self.lanes, code.truth, self.t
        m.define("!0", '!0 = !{!"branch_weights", i32 1000000, i32 1}')
        m.define("!1", '!1 = !{!"branch_weights", i32 1, i32 1000000}')
        for slot in ("active", "alive", "bad", "ended"):
            do(f"%{slot} = alloca {truth}")
        for slot in ("left", "br", "where", "erased", "DROPPED", "cycles"):
            do(f"%{slot} = alloca {word}")
            if slot != "left":
                do(f"store {word} {code.number(0)}, ptr %{slot}")
        do(f"store {truth} {code.false}, ptr %bad")
        do(f"store {truth} {code.false}, ptr %ended")
        do(f"%alive.first = bitcast {self.mask} %alive.bits to {truth}")
        do(f"store {truth} %alive.first, ptr %alive")
        do(f"store {truth} %alive.first, ptr %active")
        limit = self._splat("%limit")
        do(f"store {word} {limit}, ptr %left")
        few = len(self.flow.blocks) <= FEW_BLOCKS
        for r in self.used:
            if few:
                do(f"%r{r} = alloca {word}")
            else:
                do(f"%r{r} = getelementptr {word}, ptr %R, i64 {r}")
            do(f"store {word} {code.number(0)}, ptr %r{r}")
        self.beyond = self._splat("%n")
        self.own = f"<{', '.join(f'i64 {k}' for k in range(lanes))}>"
        do(f"br label %{self.names[next(iter(self.flow.blocks))]}")
        for index, (node, run) in enumerate(self.flow.blocks.items()):
            self._block(index, node, run)
        self._schedule()
        self._end()
        body = "\n".join(code.lines)
        m.callees[name] = Callee(f"@{name}", I64, (POINTER, I64, I64, POINTER, POINTER, POINTER, integer(lanes)))
        m.functions.append(
            f"define internal i64 @{name}(ptr noalias %M, i64 %n, i64 %limit, ptr noalias %report, ptr %stop,"
            f" ptr noalias %R, {self.mask} %alive.bits) nounwind noinline {{\n{body}\n}}"
        )

    def _splat(self, word: str) -> str:
        """A word in every lane."""
        one = self.code.let(f"insertelement {self.t} poison, i64 {word}, i64 0")
        return self.code.let(f"shufflevector {self.t} {one}, {self.t} poison, <{self.lanes} x i32> zeroinitializer")

    def _bits(self, truth: str) -> str:
        return self.code.let(f"bitcast {self.code.truth} {truth} to {self.mask}")

    def _truth(self, name: str) -> str:
        return self.code.let(f"load {self.code.truth}, ptr %{name}")

    def _word(self, name: str) -> str:
        return self.code.let(f"load {self.t}, ptr %{name}")

    def _set_where(self, lanes: str, name: str, value: str) -> None:
        """In some lanes, a variable is another word."""
        word = self.code.let(f"select {self.code.truth} {lanes}, {self.t} {value}, {self.t} {self._word(name)}")
        self.code.do(f"store {self.t} {word}, ptr %{name}")

    def _without(self, name: str, lanes: str) -> str:
        """Lanes taken out of a set of them; the set that is left."""
        let, truth = self.code.let, self.code.truth
        left = let(f"and {truth} {self._truth(name)}, {let(f'xor {truth} {lanes}, {self.code.true}')}")
        self.code.do(f"store {truth} {left}, ptr %{name}")
        return left

    # ------------------------------------------------------------------ who goes on

    def _schedule(self) -> None:
        """Those of the living lanes that are at the lowest address."""
        code, let, do, t, truth = self.code, self.code.let, self.code.do, self.t, self.code.truth
        code.label("schedule")
        far = len(self.order)
        where = let(f"select {truth} {self._truth('alive')}, {t} {self._word('where')}, {t} {code.number(far)}")
        least = f"@llvm.vector.reduce.umin.{code.suffix('i64')}"
        self.module.define(least, f"declare i64 {least}({t})")
        node = let(f"call i64 {least}({t} {where})")
        do(f"store {truth} {let(f'icmp eq {t} {where}, {self._splat(node)}')}, ptr %active")
        targets = " ".join(f"i64 {k}, label %{self.names[node_]}" for node_, k in self.order.items())
        do(f"switch i64 {node}, label %exit [ {targets} ]")

    def _part(self, lanes: str, node: Node) -> None:
        """These lanes go on at the node when it is their turn."""
        self._set_where(lanes, "where", self.code.number(self.order[node]))

    def _together(self) -> str:
        """Whether all living lanes are at the same place."""
        return self.code.let(
            f"icmp eq {self.mask} {self._bits(self._truth('active'))}, {self._bits(self._truth('alive'))}"
        )

    def _go(self, node: Node | None, at: int) -> None:
        code = self.code
        if node is None:
            self._leave(Exit.REFUSED, at + 1)
        elif node not in self.joins:
            code.do(f"br label %{self.names[node]}")
        else:
            code.do(f"br i1 {self._together()}, label %{self.names[node]}, label %{self.label}.wait")
            code.label(f"{self.label}.wait")
            self._part(self._truth("active"), node)
            code.do("br label %schedule")

    def _leave(self, why: Exit, at: int) -> None:
        """The lanes have ended, one way or another."""
        code, truth = self.code, self.code.truth
        active = self._truth("active")
        if why == Exit.HALTED:
            ended = code.let(f"or {truth} {self._truth('ended')}, {active}")
            code.do(f"store {truth} {ended}, ptr %ended")
        self._without("alive", active)
        code.do("br label %schedule")

    def _end(self) -> None:
        code, let, do, t, truth = self.code, self.code.let, self.code.do, self.t, self.code.truth
        code.label("exit")
        taken = let(f"sub {t} {self._splat('%limit')}, {self._word('left')}")
        lost = let(f"add {t} {self._word('erased')}, {self._word('DROPPED')}")
        for row, word in enumerate((taken, lost, self._word("cycles"))):
            do(f"store {t} {word}, ptr {let(f'getelementptr {t}, ptr %report, i64 {row}')}, align 8")
        sound = let(f"xor {truth} {self._truth('bad')}, {code.true}")
        good = self._bits(let(f"and {truth} {self._truth('ended')}, {sound}"))
        do(f"ret i64 {let(f'zext {self.mask} {good} to i64')}")

    # ------------------------------------------------------------------ blocks

    def _look(self, node: Node) -> None:
        code, let, do, t, truth = self.code, self.code.let, self.code.do, self.t, self.code.truth
        active = self._truth("active")
        out = let(f"icmp slt {t} {self._word('left')}, {code.number(self.longest)}")
        out = let(f"and {truth} {let(f'or {truth} {out}, ' + self._truth('bad'))}, {active}")
        some = let(f"icmp ne {self.mask} {self._bits(out)}, 0")
        asked = let("load volatile i64, ptr %stop")
        some = let(f"or i1 {some}, {let(f'icmp ne i64 {asked}, 0')}")
        do(f"br i1 {some}, label %{self.label}.stop, label %{self.label}.on, !prof !1")
        code.label(f"{self.label}.stop")
        do(f"br i1 {let(f'icmp ne i64 {asked}, 0')}, label %exit, label %{self.label}.out")
        code.label(f"{self.label}.out")
        self._give_up(out, f"{self.label}.on")

    def _give_up(self, lanes: str, on: str) -> None:
        """These lanes end here, and not well. The others go on at the label; without any, those that wait have their turn."""
        let, do = self.code.let, self.code.do
        self._without("alive", lanes)
        left = self._bits(self._without("active", lanes))
        do(f"br i1 {let(f'icmp eq {self.mask} {left}, 0')}, label %schedule, label %{on}")
        self.code.label(on)

    def _add(self, name: str, amount: str) -> None:
        let, t = self.code.let, self.t
        own = let(f"select {self.code.truth} {self._truth('active')}, {t} {amount}, {t} {self.code.number(0)}")
        self.code.do(f"store {t} {let(f'add {t} {self._word(name)}, {own}')}, ptr %{name}")

    def _count(self, index: int, executed: list[int]) -> None:
        self._add("left", self.code.number(-len(executed)))
        if self.variant.cycles:
            self._add("cycles", self.code.number(self._cycles(executed)))

    def _flush(self) -> None:
        code, let, t, truth = self.code, self.code.let, self.t, self.code.truth
        active = self._truth("active")
        for slot in sorted(self.dirty):
            word = let(f"select {truth} {active}, {t} {self.cached[slot]}, {t} {self._word(slot)}")
            code.do(f"store {t} {word}, ptr %{slot}")
        self.dirty.clear()
        if self.failed:
            failed = self.failed[0]
            for more in self.failed[1:]:
                failed = let(f"or {truth} {failed}, {more}")
            bad = let(f"or {truth} {self._truth('bad')}, {let(f'and {truth} {failed}, {active}')}")
            code.do(f"store {truth} {bad}, ptr %bad")
            self.failed.clear()

    def _branch(self, index: int, node: Node, at: int) -> None:
        code, let, do, flow, t, truth = self.code, self.code.let, self.code.do, self.flow, self.t, self.code.truth
        i = flow.code[at]
        found = self._step(i)
        words = self._words(i, found)
        words["br"] = self._word("br") if node[1] else code.number(0)
        trees = self._trees(code, words, found.roots)
        if found.guards["always"]:
            hold = code.true
            for tree in found.guards["always"]:
                hold = let(f"and {truth} {hold}, {trees.truth(tree)}")
            refused = let(f"and {truth} {let(f'xor {truth} {hold}, {code.true}')}, {self._truth('active')}")
            some = let(f"icmp ne {self.mask} {self._bits(refused)}, 0")
            do(f"br i1 {some}, label %{self.label}.refuse, label %{self.label}.go, !prof !1")
            code.label(f"{self.label}.refuse")
            self._give_up(refused, f"{self.label}.go")
        self._count(index, [at])
        after = {place: trees.value(tree) for place, tree in found.after.items()}
        for place, value in after.items():
            if place != "br":
                self._set(i, place, value)
        self.failed += trees.doubts
        self._flush()
        active = self._truth("active")
        jump = after["br"]
        self._set_where(active, "br", jump)
        stays = let(f"icmp eq {t} {jump}, {code.number(0)}")
        on = let(f"and {truth} {active}, {stays}")
        leaves = flow.leaves(at)
        after_ = flow.after(leaves)
        targets = [(to - leaves, (to, True)) for to in dict.fromkeys(flow.jumps(at))]
        bits, on_bits = self._bits(active), self._bits(on)
        whole = self._together()
        if after_ is not None:
            all_on = let(f"and i1 {whole}, {let(f'icmp eq {self.mask} {on_bits}, {bits}')}")
            do(f"br i1 {all_on}, label %{self.names[after_]}, label %{self.label}.jump")
            code.label(f"{self.label}.jump")
        for k, (by, to) in enumerate(targets):
            there = let(f"and {truth} {active}, {let(f'icmp eq {t} {jump}, {code.number(by)}')}")
            all_there = let(f"and i1 {whole}, {let(f'icmp eq {self.mask} {self._bits(there)}, {bits}')}")
            do(f"br i1 {all_there}, label %{self.names[to]}, label %{self.label}.part{k}")
            code.label(f"{self.label}.part{k}")
        astray = active
        for by, to in targets:
            there = let(f"and {truth} {active}, {let(f'icmp eq {t} {jump}, {code.number(by)}')}")
            self._part(there, to)
            astray = let(f"and {truth} {astray}, {let(f'xor {truth} {there}, {code.true}')}")
        if after_ is not None:
            self._part(on, after_)
            astray = let(f"and {truth} {astray}, {let(f'xor {truth} {on}, {code.true}')}")
        self._without("alive", astray)
        do("br label %schedule")

    # ------------------------------------------------------------------ an instruction

    def _trees(self, code: Code, words: Mapping[str, str], roots: Sequence[Expr], noted: Sequence[Expr] = ()) -> Trees:
        return LaneTrees(code, words, roots, noted)

    def _address(self, i: Instruction) -> None:
        code, let, _do, t, truth = self.code, self.code.let, self.code.do, self.t, self.code.truth
        if i.ra in self.zeros:
            # The same word for all.
            inside = let(f"icmp ult i64 {i.imm}, %n")
            outside = let(f"xor i1 {inside}, true")
            self.failed.append(let(f"select i1 {outside}, {truth} {code.true}, {truth} {code.false}"))
            self.address, self.uniform = let(f"select i1 {inside}, i64 {i.imm}, i64 %n"), ""
            return
        address = let(f"add {t} {self._read(f'r{i.ra}')}, {code.number(i.imm)}")
        within = let(f"icmp ult {t} {address}, {self.beyond}")
        self.failed.append(let(f"xor {truth} {within}, {code.true}"))
        self.address = let(f"select {truth} {within}, {t} {address}, {t} {self.beyond}")
        first = let(f"extractelement {t} {self.address}, i64 0")
        same = let(f"icmp eq {t} {self.address}, {self._splat(first)}")
        idle = let(f"xor {truth} {self._truth('active')}, {code.true}")
        self.uniform = let(f"icmp eq {self.mask} {self._bits(let(f'or {truth} {same}, {idle}'))}, -1")
        self.first = first

    def _at(self, address: str) -> str:
        """Where the words of all lanes lie, for an address that is the same for all."""
        return self.code.let(f"getelementptr {self.t}, ptr %M, i64 {address}")

    def _each(self) -> str:
        """Where the word of each lane lies."""
        let, t = self.code.let, self.t
        shift = self.code.number(self.lanes.bit_length() - 1)
        place = let(f"or {t} {let(f'shl {t} {self.address}, {shift}')}, {self.own}")
        return let(f"getelementptr i64, ptr %M, {t} {place}")

    def _load(self, place: str) -> str:
        code, let, t = self.code, self.code.let, self.t
        found = self.loaded.get((place, self.address))
        if found is None:
            if not self.uniform:
                found = let(f"load {t}, ptr {self._at(self.address)}, align 8")
            else:
                found, one, many = code.name(), code.name(), code.name()
                at, each = self._at(self.first), self._each()
                k = self._fork()
                code.do(f"{one} = load {t}, ptr {at}, align 8")
                code.do(f"br label %{k}.both")
                code.lines.append(f"{k}.many:")
                code.do(
                    f"{many} = call {t} {gather(code)}({code.side_by_side('ptr')} {each}, i32 8, {code.truth} {self._truth('active')}, {t} {code.number(0)})"
                )
                code.do(f"br label %{k}.both")
                code.lines.append(f"{k}.both:")
                code.do(f"{found} = phi {t} [ {one}, %{k}.one ], [ {many}, %{k}.many ]")
            self.loaded[place, self.address] = found
        return found

    def _fork(self) -> str:
        """Two ways, `.one` where the address is the same for all, `.many` where it is not; the first begins here.

        What is computed on neither of them stays at hand, so these are no labels to `Code`.
        """
        k = self.code.name()[1:]
        self.code.do(f"br i1 {self.uniform}, label %{k}.one, label %{k}.many, !prof !0")
        self.code.lines.append(f"{k}.one:")
        return k

    def _set(self, i: Instruction, place: str, value: str) -> None:
        if self._slot_name(i, place):
            super()._set(i, place, value)
            return
        code, t = self.code, self.t
        active = self._truth("active")
        store, scatter = (
            f"@llvm.masked.store.{code.suffix('i64')}.p0",
            f"@llvm.masked.scatter.{code.suffix('i64')}.v{self.lanes}p0",
        )
        self.module.define(store, f"declare void {store}({t}, ptr, i32 immarg, {code.truth})")
        if not self.uniform:
            code.do(f"call void {store}({t} {value}, ptr {self._at(self.address)}, i32 8, {code.truth} {active})")
        else:
            places = code.side_by_side("ptr")
            self.module.define(scatter, f"declare void {scatter}({t}, {places}, i32 immarg, {code.truth})")
            at, each = self._at(self.first), self._each()
            k = self._fork()
            code.do(f"call void {store}({t} {value}, ptr {at}, i32 8, {code.truth} {active})")
            code.do(f"br label %{k}.both")
            code.lines.append(f"{k}.many:")
            code.do(f"call void {scatter}({t} {value}, {places} {each}, i32 8, {code.truth} {active})")
            code.do(f"br label %{k}.both")
            code.lines.append(f"{k}.both:")
        self.loaded = {at_: word for at_, word in self.loaded.items() if at_[0] != place}
        self.loaded[place, self.address] = value
