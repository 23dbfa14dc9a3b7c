"""If-conversion: a branch around a straight run of instructions, which only some lanes take, becomes a run under a mask.

            goto.c  join            lanes in which c holds do not change until the join
            …                       the others execute the run; a mask keeps the registers and words of the first
    join:   from.c  goto            each lane tests c as the way on which it came demands

Conditions: the run has no branch and does not halt; both ways go on at the same place behind the join. No uncompute block that is skipped
(ghost_uncompute.py) begins or ends at the run or at the join, and no compute block holds the branch, because its steps are counted once for
all lanes.
Source: J. R. Allen, K. Kennedy, C. Porterfield, J. Warren, Conversion of control dependence to data dependence, POPL 1983.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from enum import Enum
from typing import NamedTuple

from retrograd.isa.encoding import Instruction
from retrograd.isa.entries import REGISTER_FIELDS
from retrograd.isa.expr import inputs
from retrograd.isa.program import Program
from retrograd.simulator.engines.llvm.builder import (
    I1,
    I64,
    POINTER,
    VOID,
    Block,
    ModuleBuilder,
    Operand,
    Pointer,
    Type,
    Value,
    integer,
    storage,
)
from retrograd.simulator.engines.llvm.instructions import Step
from retrograd.simulator.engines.state import Exit
from retrograd.simulator.engines.translator.flow import Flow, Node, Variant, flow_of, written
from retrograd.simulator.engines.translator.translate import Translator

#: switched off by tests
enabled = True


class Hammock(NamedTuple):
    """The run between a branch and its join, and where both ways go on."""

    run: list[int]
    join: int
    after: Node


def find_hammocks(flow: Flow) -> dict[int, Hammock]:
    """The branches that can be converted, by their addresses."""
    return {node[0]: found for node in flow.blocks if enabled and (found := _hammock(flow, node)) is not None}


def _hammock(flow: Flow, node: Node) -> Hammock | None:
    at, landed = node
    if landed or not flow.branches(at) or flow.leaves(at) != at or len(flow.jumps(at)) != 1:
        return None
    (join,), inner = flow.jumps(at), (at + 1, False)
    run = flow.blocks.get(inner, [])
    if not run or run != list(range(at + 1, join)) or any(flow.branches(k) or flow.code[k].opcode.halts for k in run):
        return None
    ways = flow.successors.get((join, False), []), flow.successors.get((join, True), [])
    if ways[0] != ways[1] or len(ways[0]) != 1 or flow.code[join].opcode.writes != flow.code[at].opcode.writes:
        return None
    for ghost in flow.ghosts:
        borders = ghost.start, ghost.end, ghost.undo, ghost.after
        if any(at < border <= join for border in borders) or any(
            first <= at < last for first, last in ((ghost.start, ghost.end), (ghost.undo, ghost.after))
        ):
            return None
    return Hammock(run, join, ways[0][0])


# -----------------------------------------------------------------------------
# Memory of instances side by side: word a of lane l lies at M[a·lanes + l], so a word at one address is a vector.
#
# Where all lanes access one address, a vector is read or written; elsewhere words are gathered and scattered.

#: bytes of a number that is counted for each lane
BYTES = 8


def check_lanes(program: Program) -> None:
    """Raise NotImplementedError for words that do not fill their bytes."""
    if storage(program.format).bits != program.format.width:
        raise NotImplementedError(f"lanes of {program.format}")


class VectorTranslator(Translator):
    """Emits the function of a program for several instances. `_mask()`: the lanes whose memory is read and written."""

    def __init__(self, flow: Flow, variant: Variant, module: ModuleBuilder, lanes: int, name: str) -> None:
        self.lanes = lanes
        super().__init__(flow, variant, module, name)
        self.truth, self.mask = I1.vector(lanes), integer(lanes)
        #: of numbers that are counted for each lane, and of addresses
        self.numbers = I64.vector(lanes)
        self.bytes = self.w.width // 8
        written = {
            getattr(flow.code[at], REGISTER_FIELDS[place])
            for at, found in self.steps.items()
            for place in found.after
            if place in REGISTER_FIELDS
        }
        #: registers that stay zero
        self.zeros = set(self.used) - written

    def _parameters(self) -> dict[str, Type]:
        p = POINTER
        return {"M": p, "n": I64, "limit": I64, "report": p, "stop": p, "R": p, "lanes": integer(self.lanes)}

    def _begin_memory(self) -> None:
        self.memories = {"m": self.given["M"].of(self.word)}
        self.beyond = self.given["n"].splat(self.lanes)
        self.own = self.code.vector(range(self.lanes), I64)

    def _mask(self) -> Value:
        raise NotImplementedError

    def _set_of(self, bits: Value) -> Value:
        return bits.convert("bitcast", self.truth)

    def _bits(self, lanes: Value) -> Value:
        """A set of lanes as a number."""
        return lanes.convert("bitcast", self.mask)

    # ------------------------------------------------------------------ memory

    def _address(self, i: Instruction) -> None:
        """`self.address` := the address in each lane, or `self.first`, if that is the same in all; `self.uniform`: whether it is."""
        self.uniform: Value | None = None
        if i.ra in self.zeros:
            at = self.unchecked = self.code.constant(I64, self.w.wrap(i.imm))
            inside = at.ltu(self.given["n"])
            self.failed.append(self._set_of((~inside).to(self.mask, "sext")))
            self.first = self.address = inside.select(at, self.given["n"])
            return
        address = self.unchecked = (self._read(f"r{i.ra}") + i.imm).to(I64)
        inside = address.ltu(self.beyond)
        self.failed.append(~inside)
        self.address = inside.select(address, self.beyond)
        self.first = self.address.lane(0)
        same = self.address.eq(self.first.splat(self.lanes))
        self.uniform = self._bits(same | ~self._mask()).eq(-1)

    def _places(self) -> tuple[Pointer, Pointer]:
        """(where the words of all lanes lie if the address is the same for all, where the word of each lane lies)"""
        memory = self.memories["m"]
        if self.uniform is None:
            return memory[self.first], memory
        each = memory.of(self.word.element)[self.address << self.lanes.bit_length() - 1 | self.own]
        return memory[self.first], each

    def _either(self, one: Callable[[], Value], many: Callable[[], Value]) -> Value:
        """Emit `one` for the case that the address is the same for all lanes, `many` for the other; the value of either.

        Neither way computes a value that is used beyond it, so all values so far stay known.
        """
        if self.uniform is None:
            return one()
        code = self.code
        same, different, both = map(code.block, ("same", "different", "both"))
        code.branch(self.uniform, same, different, likely=True)
        code.start(same, keep=True)
        first = one()
        code.jump(both)
        code.start(different, keep=True)
        second = many()
        code.start(both, keep=True)
        return first if first.type is VOID else code.phi((first, same), (second, different), type_=first.type)

    def _load(self, place: str) -> Value:
        found = self.loaded.get((place, self.address))
        if found is None:
            (one, each), mask = self._places(), self._mask()
            found = self._either(lambda: one.load(self.bytes), lambda: each.gather(mask, self.bytes))
            self.loaded[place, self.address] = found
        return found

    def _write(self, place: str, value: Value) -> None:
        (one, each), mask = self._places(), self._mask()
        self._either(lambda: one.store_lanes(value, mask, self.bytes), lambda: each.scatter(value, mask, self.bytes))


# -----------------------------------------------------------------------------
# Converged lanes: the function of a program for several instances that all go the same way.
#
# Registers that are computed from constants alone hold the same word in every lane: counters, addresses, loop bounds. A data-flow
# analysis over the control-flow graph (uniformity analysis) finds them, and they are scalars. All other registers are vectors. No lane is ever
# masked, because the function gives up as soon as two lanes would take different ways, a guard fails in some lane, or steps are used up.
#
# Correct because the function only ever reports that all lanes completed, or that it gave up. In that case its results are discarded, and
# the instances are run again from their given words by the function for lanes that diverge (lanes.py).
# Trap: a register that is a scalar at one address may be a vector at another; at the start of a block it is a scalar only if it is
# one at the end of every block before.
# Source: B. Coutinho, D. Sampaio, F. Pereira, W. Meira, Divergence analysis and optimizations, PACT 2011.


def translate_converged(program: Program, variant: Variant, module: ModuleBuilder, lanes: int, name: str) -> None:
    """Define the function in the module, with the parameters of `translate_lanes`:

        name(M, n, limit, report, stop, R, alive) -> all lanes, a bit for each, or 0

    Raises NotImplementedError as `translate_lanes` does. It runs all lanes, alive or not, and does not use R. Memory is left in any state where it returns 0.
    """
    check_lanes(program)
    alone = replace(variant, vector_loops=False)
    ConvergedTranslator(flow_of(program, alone), alone, module, lanes, name).emit()


class ConvergedTranslator(VectorTranslator):
    """Emits the function of a program for lanes that go the same way."""

    def __init__(self, flow: Flow, variant: Variant, module: ModuleBuilder, lanes: int, name: str) -> None:
        super().__init__(flow, variant, module, lanes, name)
        self.scalar = self.word.element
        self.width = lanes
        self.hammocks = find_hammocks(flow)
        self.uniformity = Uniformity(flow, self.steps, self.zeros, variant.tables)

    def _begin(self) -> None:
        super()._begin()
        self._begin_memory()
        code = self.code
        self.every = self.active = code.constant(self.truth, -1)
        self.bad_lanes = code.variable(self.truth, "bad.lanes", 0)
        #: variable -> the part of it that counts runs which a lane did not execute
        self.skipped = {v: code.variable(self.numbers, "skipped", 0) for v in (self.left, self.erased, self.cycles)}

    def _register_slots(self) -> dict[str, Pointer]:
        """A scalar and a vector for each register; LLVM removes the unused ones."""
        code = self.code
        slots = {f"r{r}": code.variable(self.scalar, f"r{r}", 0) for r in self.used}
        self.wide_slots = {f"r{r}": code.variable(self.word, f"wide.r{r}", 0) for r in self.used}
        return slots

    def _mask(self) -> Value:
        return self.active

    # ------------------------------------------------------------------ blocks

    def _block(self, index: int, node: Node, run: list[int]) -> None:
        #: registers that are vectors now, as the analysis has them at the start of the block
        self.apart = self.uniformity.at[node]
        super()._block(index, node, run)

    def _safepoint(self, node: Node) -> None:
        stop = self.left.load().lt(self.longest) | self.bad.load() | self._bits(self.bad_lanes.load()).ne(0)
        with self.code.when(stop | self.stop.load(volatile=True).ne(0), "stop", likely=False):
            self._leave(Exit.LIMIT, node[0])

    def _branch(self, index: int, node: Node, at: int) -> None:
        self._as_kind(self.uniformity.kind(at, self._is_wide))
        super()._branch(index, node, at)

    def _jump(self, node: Node) -> Value:
        jump = self.br.load().to(self.scalar) if node[1] else self.code.constant(self.scalar, 0)
        return jump if self.lanes == 1 else jump.splat(self.lanes)

    def _require(self, holds: Value, at: int) -> None:
        super()._require(self._in_all(holds), at)

    def _follow(self, jump: Value, at: int) -> None:
        if jump.type.lanes > 1:
            first = jump.lane(0)
            same = jump.eq(first.splat(self.lanes))
            if at in self.hammocks:
                with self.code.unless(self._in_all(same), "both", likely=None):
                    self._follow_both(jump, self.hammocks[at])
            else:
                self._require(same, at)
            jump = first
        super()._follow(jump, at)

    def _follow_both(self, jump: Value, hammock: Hammock) -> None:
        """Execute the run for the lanes that do not jump, then the join for all lanes."""
        code, after = self.code, self.uniformity.at[hammock.after]
        outside = self.cached, self.apart, self.loaded
        self.cached, self.loaded, self.apart = {}, {}, self.uniformity.at[hammock.run[0], False]
        active = self.active = jump.eq(0)
        self._count(0, hammock.run)
        for place in hammock.run:
            self._execute(place)
        same: list[Value] = []
        for slot in sorted(self.dirty):
            value = self.cached[slot]
            if slot not in after and value.type.lanes == 1:
                # Behind the join it is a scalar, which has one word for all lanes.
                same.append(value.eq(self.slots[slot].load()))
                continue
            wide = self.wide_slots[slot]
            wide.store(active.select(value if value.type.lanes > 1 else value.splat(self.width), wide.load()))
        self.dirty.clear()
        self._test_gathered()
        self.failed = [truth if truth.type.lanes == 1 else truth & active for truth in self.failed]
        self._flush()
        self._require(code.all(same), hammock.join)
        self.active, self.cached, self.apart = self.every, {}, after
        self._join(jump, hammock)
        self.cached, self.apart, self.loaded = outside

    def _join(self, jump: Value, hammock: Hammock) -> None:
        """The branch at which lanes meet that come with BR = `jump`."""
        at = hammock.join
        found = self.steps[at]
        self._as_kind(Kind.VARYING)
        words = self._words(self.flow.code[at], found) | {"br": jump}
        trees = self._trees(self.code, words, found)
        holds = [trees.truth(tree) for tree in found.guards["always"]]
        self._require(self.code.all([*holds, trees.value(found.after["br"]).eq(0)]), at)
        self._count(0, [at])
        for unsound in trees.unsound():
            self._check(~unsound)
        self._flush()
        self.code.jump(self.blocks[hammock.after])

    def _add(self, variable: Pointer, amount: Operand) -> None:
        variable.add(amount)
        if self.active is not self.every:
            words = amount if isinstance(amount, Value) else self.code.constant(I64, amount)
            self.skipped[variable].add(self.active.select(0, words.splat(self.width)))

    def _in_all(self, truth: Value) -> Value:
        """Whether the truth holds in every lane."""
        return truth if truth.type.lanes == 1 else self._bits(truth).eq(-1)

    def _end(self) -> None:
        code, report = self.code, self.given["report"].of(self.numbers)
        limit, (left, erased, cycles) = self.given["limit"].splat(self.width), map(self._counted, self.skipped)
        for row, number in enumerate((limit - left, erased, cycles)):
            report[row].store(number, BYTES)
        failed = self.bad.load() | self._bits(self.bad_lanes.load()).ne(0) | self.why.load().ne(Exit.HALTED)
        code.ret(failed.select(0, code.constant(I64, (1 << self.width) - 1)))

    def _counted(self, variable: Pointer) -> Value:
        """The number in each lane."""
        return variable.load().splat(self.width) - self.skipped[variable].load()

    # ------------------------------------------------------------------ words

    def _is_wide(self, slot: str) -> bool:
        found = self.cached.get(slot)
        return slot in self.apart if found is None else found.type.lanes > 1

    def _read(self, slot: str) -> Value:
        found = self.cached.get(slot)
        if found is None:
            found = self.cached[slot] = (self.wide_slots if slot in self.apart else self.slots)[slot].load()
        return found

    def _variables(self, slot: str) -> list[Pointer]:
        return [self.slots[slot], self.wide_slots[slot]]

    def _compared(self, slot: str, nodes: list[Node]) -> int:
        # The vector is stored with each scalar, so it is always there.
        return int(any(slot in self.uniformity.at[node] for node in nodes))

    def _pending(self) -> Value:
        return self.bad.load() | self._bits(self.bad_lanes.load()).ne(0)

    def _flush(self) -> None:
        for slot in sorted(self.dirty):
            value = self.cached[slot]
            if value.type.lanes == 1:
                self.slots[slot].store(value)
                value = value.splat(self.width)
            self.wide_slots[slot].store(value)
        self.dirty.clear()
        self._test_gathered()
        for variable, lanes in ((self.bad, 1), (self.bad_lanes, self.width)):
            found = [truth for truth in self.failed if truth.type.lanes == lanes]
            if found:
                variable.store(self.code.any([variable.load(), *found]))
        self.failed.clear()
        if self.ghosts:
            self.ghosts.flush()

    def _words(self, i: Instruction, found: Step) -> dict[str, Value]:
        words = super()._words(i, found)
        if self.lanes == 1:
            return words
        return {place: x if x.type.lanes > 1 else x.splat(self.lanes) for place, x in words.items()}

    def _execute(self, at: int) -> None:
        kind = self.uniformity.kind(at, self._is_wide)
        i = self.flow.code[at]
        if kind is Kind.REJOINED:
            self._rejoin(f"r{i.rd}")
        self._as_kind(kind)
        super()._execute(at)
        if kind is Kind.LOADED:
            self._rejoin(f"r{i.rd}")
        elif kind is Kind.CLEARED:
            self.cached[f"r{i.rd}"] = self.cached[f"r{i.rd}"].lane(0)

    def _as_kind(self, kind: Kind) -> None:
        """Let the instruction that follows compute scalars or vectors."""
        self.lanes = 1 if kind in (Kind.UNIFORM, Kind.REJOINED) else self.width
        self.word = self.scalar.vector(self.lanes)

    def _rejoin(self, slot: str) -> None:
        """Make the register a scalar; the check that all lanes agree is deferred."""
        words = self._read(slot)
        first = words.lane(0)
        self.failed.append(words.ne(first.splat(self.width)))
        self.cached[slot] = first
        self.dirty.add(slot)

    # ------------------------------------------------------------------ memory

    def _address(self, i: Instruction) -> None:
        slot = f"r{i.ra}"
        if self._is_wide(slot):
            super()._address(i)
            return
        self.uniform = None
        address = self.unchecked = (self._read(slot) + i.imm).to(I64)
        inside = address.ltu(self.given["n"])
        self.failed.append(~inside)
        self.first = self.address = inside.select(address, self.given["n"])


class Kind(Enum):
    """The way in which an instruction is executed."""

    #: for all lanes at once, on scalars
    UNIFORM = 1
    #: on vectors
    VARYING = 2
    #: on vectors, except that rd is then taken for a scalar
    LOADED = 3
    #: on vectors, and rd is a constant then
    CLEARED = 4
    #: on scalars, after rd, a vector, was taken for a scalar
    REJOINED = 5


class Uniformity:
    """The registers that may differ between lanes, at the start of each block.

    Three registers are taken for scalars, with a check: a register that holds addresses, where a word is loaded into it from a fixed
    address (such as the length in an argument); a register from which addresses are computed, where a word is loaded into it from one
    of `tables` (such as the pairs of a graph); and a register that holds addresses or is compared by a branch, where something
    uniform is added to it (a counter in a register that held a temporary before).
    """

    def __init__(
        self, flow: Flow, steps: Mapping[int, Step], zeros: Collection[int], tables: Collection[tuple[int, int]] = ()
    ) -> None:
        self._flow, self._steps = flow, steps
        self._zeros, self._tables = zeros, tables
        #: registers that hold addresses; these, and registers that branches compare
        self._addresses: set[str] = set()
        self._steering: set[str] = set()
        checked: set[str] = set()
        for at, found in steps.items():
            i = flow.code[at]
            if found.guards["overflow"]:
                checked |= _registers(i, found.operands)
            if found.memory:
                self._addresses.add(f"r{i.ra}")
            elif flow.branches(at):
                self._steering |= _registers(i, found.operands)
        self._steering |= self._addresses
        self._read_from_tables = self._indices() if tables else frozenset[int]()
        # A register with numbers of the user's is not the same in all lanes.
        self._addresses -= checked
        #: the registers that are put back where an uncompute block is skipped
        self._put_back = {
            g: {f"r{r}" for at in range(g.start, g.end) for r in written(flow.code[at])} for g in flow.ghosts
        }
        self.at = self._solve()

    def _indices(self) -> frozenset[int]:
        """The loads from tables whose words become addresses: backward, joined by union.

        The word that a load adds to, and the word that a checked sum adds to, are no part of an address.
        """
        flow = self._flow
        before: dict[Node, list[Node]] = {}
        for node, following in flow.successors.items():
            for to in following:
                before.setdefault(to, []).append(node)
        found: set[int] = set()
        ends: dict[Node, frozenset[str]] = dict.fromkeys(flow.blocks, frozenset())
        todo = list(flow.blocks)
        while todo:
            node = todo.pop()
            wanted = set(ends[node])
            for at in reversed(flow.blocks[node]):
                i, step = flow.code[at], self._steps[at]
                if step.memory:
                    if "d" in step.after and f"r{i.rd}" in wanted:
                        wanted.discard(f"r{i.rd}")
                        if any(start <= i.imm < end for start, end in self._tables):
                            found.add(at)
                    wanted.add(f"r{i.ra}")
                    continue
                written = _registers(i, step.after)
                if not written & wanted:
                    continue
                if step.guards["overflow"] or not any(map(inputs, step.after.values())):
                    wanted -= written
                else:
                    wanted |= _registers(i, step.operands)
            for other in before.get(node, ()):
                if not wanted <= ends[other]:
                    ends[other] |= wanted
                    todo.append(other)
        return frozenset(found)

    def kind(self, at: int, is_wide: Callable[[str], bool]) -> Kind:
        """The way in which the instruction is executed, if these registers are vectors."""
        i, found = self._flow.code[at], self._steps[at]
        d = f"r{i.rd}"
        if found.memory:
            fixed = i.ra in self._zeros and "d" in found.after and d in self._addresses
            index = at in self._read_from_tables and not is_wide(f"r{i.ra}")
            return Kind.LOADED if fixed or index else Kind.VARYING
        wide = {p for p in found.operands if is_wide(f"r{getattr(i, REGISTER_FIELDS[p])}")}
        if not wide:
            return Kind.UNIFORM
        if set(found.after) == {"d"} and not inputs(found.after["d"]):
            return Kind.CLEARED
        if wide == {"d"} and set(found.after) == {"d"} and d in self._steering and not found.guards["overflow"]:
            return Kind.REJOINED
        return Kind.VARYING

    def _solve(self) -> dict[Node, frozenset[str]]:
        """The least solution: forward, joined by union."""
        flow = self._flow
        found: dict[Node, frozenset[str]] = {(flow.origin, False): frozenset()}
        todo = list(found)
        while todo:
            node = todo.pop()
            varying = set(found[node])
            for at in flow.blocks[node]:
                self._transfer(at, varying)
            ghost = flow.skipped(node)
            if ghost is not None:
                # The registers that the compute block writes are as before it.
                kept = found.get((ghost.start, False), frozenset())
                varying = (varying - self._put_back[ghost]) | (kept & self._put_back[ghost])
            for to in flow.successors[node]:
                before = found.get(to)
                joined = frozenset(varying) if before is None else before | varying
                if joined != before:
                    found[to] = joined
                    todo.append(to)
                    todo += [
                        (g.undo, False) for g in flow.ghosts if (g.start, False) == to and (g.undo, False) in found
                    ]
        return found

    def _transfer(self, at: int, varying: set[str]) -> None:
        i, found = self._flow.code[at], self._steps[at]
        kind = self.kind(at, varying.__contains__)
        after = _registers(i, found.after)
        if kind is Kind.VARYING:
            varying |= after
        else:
            varying -= after


def _registers(i: Instruction, places: Iterable[str]) -> set[str]:
    """The registers of the instruction at these places."""
    return {f"r{getattr(i, REGISTER_FIELDS[p])}" for p in places if p in REGISTER_FIELDS}


# -----------------------------------------------------------------------------
# Tier 2 for batches: a program's function for several instances at once, side by side in the lanes of the vector unit.
#
# Every word is a vector with one word for each instance, and an instruction is executed for all. Where a branch is taken by some
# lanes only, lanes diverge: each lane keeps its own place in the program, the lanes at the lowest address go on, the others wait,
# and lanes that meet go on together. As long as all lanes are together, which most programs are most of the time, that costs
# one test at each branch.
#
# A lane in which a guard fails, or a value is unsound (`Trees.unsound`), is given up: its results are discarded, and the instance is
# run again alone.

#: blocks up to which registers are values of the function; beyond, they lie in memory between blocks
FEW_BLOCKS = 4


def translate_lanes(program: Program, variant: Variant, module: ModuleBuilder, lanes: int, name: str = "lanes") -> None:
    """Define the program's function for that many instances of a batch, whose registers begin as zeros:

        name(M, n, limit, report, stop, R, alive) -> lanes that completed, a bit for each

    Word a of lane l lies at M[a·lanes + l]; there are n words and a spare one. `alive`: the lanes that take part. `report` has three
    rows, each with a number for every lane: steps taken, words lost, cycles. R is room for 256 words of every lane.
    Raises NotImplementedError for words that do not fill their bytes.
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
        self.left = code.variable(self.numbers, "left", limit)
        #: the place of each lane that waits
        self.where = code.variable(self.numbers, "where", 0)
        self.br, self.erased = code.variable(self.numbers, "br", 0), code.variable(self.numbers, "erased", 0)
        self.cycles = code.variable(self.numbers, "cycles", 0)
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
        report, limit = self.given["report"].of(self.numbers), self.given["limit"].splat(self.lanes)
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
        words = amount if isinstance(amount, Value) else self.code.constant(self.numbers, amount)
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
        jump = jump.to(I64, "sext")
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
