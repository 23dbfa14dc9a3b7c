"""Tier 2: a program as one LLVM function.

Registers are values, and branches are branches. Guards are deferred checks: the function only records that some guard
failed, and reads the record at safepoints, which are at the back edges of loops and at the end. A program of bijections loses
nothing by running on with a wrapped sum, or past the end of memory, where the address stands for one spare word. Where a check
has failed, the host runs backward to the last safepoint, and goes forward again instruction by instruction until the trap. So
checks cost no branches, but for addresses that are known where a block begins; and no register must lie where a trap could
find it. Words that are lost all the same (erased words,
discarded cotangents) are written to a log between two safepoints.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from hashlib import sha256
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from retrograd.isa.encoding import Instruction
from retrograd.isa.entries import REGISTER_FIELDS, Mode, bar, d, imm
from retrograd.isa.expr import Expr, evaluate, inputs
from retrograd.isa.program import Program
from retrograd.isa.table import TABLE, Table
from retrograd.isa.words import Format
from retrograd.simulator.engines import tiering
from retrograd.simulator.engines.llvm.builder import (
    GLOBAL,
    I1,
    I64,
    POINTER,
    PURE,
    FunctionBuilder,
    ModuleBuilder,
    Operand,
    Pointer,
    Type,
    Value,
    VectorUnit,
    integer,
    pointer,
    storage,
    structure,
)
from retrograd.simulator.engines.llvm.functions import Trees
from retrograd.simulator.engines.llvm.instructions import MODES, VALUE, Step, divides, shifts, step_of
from retrograd.simulator.engines.llvm.jit import jit_compiler, source_digest
from retrograd.simulator.engines.llvm.tiered_code import TieredCode
from retrograd.simulator.engines.state import ACCOUNT, Exit, Slot, TranslatedSlot
from retrograd.simulator.engines.tiering import level_for
from retrograd.simulator.engines.translator.flow import Flow, Node, Variant, flow_of, written
from retrograd.simulator.engines.translator.ghost_uncompute import GhostUncompute
from retrograd.simulator.engines.translator.loops import find_vector_loops
from retrograd.simulator.engines.translator.row_sharing import ParallelLoopEmitter
from retrograd.simulator.engines.translator.vector_loops import VectorLoopEmitter, find_parallel_loops

#: instructions of a block of LLVM's: its code generator takes time that grows faster than a block does
LONGEST_BLOCK = 128
#: nodes of an instruction's trees from which on it is a function, called where it occurs
OUT_OF_LINE = 40
#: place -> the letter of its register file, and the field that names the register
_SLOTS = {place: ("r", field) for place, field in REGISTER_FIELDS.items()}
_SLOTS |= {bar(place): ("c", field) for place, field in REGISTER_FIELDS.items()}


#: of instructions that move a register by their own constant
_MOVES = (d + imm, d - imm)


@cache
def _guards(found: Step, modes: tuple[Mode, ...]) -> tuple[Expr, ...]:
    """The guards of an instruction that count in these modes."""
    return tuple(tree for mode in modes for tree in found.guards[mode])


def translate(program: Program, variant: Variant, module: ModuleBuilder, name: str = "translated") -> Flow:
    """Define the program's function in the module: for a whole machine,

        name(ctl, R, M, n, C, N, counts) -> Exit                    counts: times each block ran, in the order of the flow's

    and for one instance of a batch, whose registers begin as zeros,

        name(M, n, stride, limit, report, stop) -> 0 where it halted      report: steps taken, words lost, cycles

    without `stop` on a device.
    """
    flow = flow_of(program, variant)
    Translator(flow, variant, module, name).emit()
    return flow


def constant_registers(flow: Flow, steps: Mapping[int, Step], used: Sequence[int]) -> dict[Node, dict[int, int]]:
    """Node -> {register: its word at the beginning of the node}, for words that no way to the node changes.

    All registers are zero where the run begins. Constants of a program are made there by instructions that add their
    own number to a register (`imm.add`), and are undone at the end.
    """
    origin: Node = (flow.origin, False)
    at = {origin: dict.fromkeys(used, 0)}
    left = [origin]
    while left:
        node = left.pop()
        known = dict(at[node])
        ghost = flow.skipped(node)
        for place in flow.blocks[node] if ghost is None else range(ghost.start, ghost.end):
            i, found = flow.code[place], None if ghost else steps[place]
            if found and i.rd in known and found.after.keys() == {"d"} and found.reads <= {"d", "imm"}:
                known[i.rd] = evaluate(found.after["d"], flow.program.format, {"d": known[i.rd], "imm": i.imm})
                continue
            for r in written(i):
                known.pop(r, None)
        for to in _ways(flow, node, steps):
            before = at.get(to)
            both = known if before is None else {r: x for r, x in before.items() if known.get(r) == x}
            if both != before:
                at[to] = dict(both)
                left.append(to)
    return at


def _ways(flow: Flow, node: Node, steps: Mapping[int, Step]) -> list[Node]:
    """The successors of a node, without that behind a jump which is always taken."""
    found = flow.successors[node]
    if node[1] or not flow.blocks[node] or not flow.branches(node[0]):
        return found
    jump = steps[node[0]].after["br"]
    if not inputs(jump) <= {"br", "imm"}:
        return found
    jumps = evaluate(jump, flow.program.format, {"br": 0, "imm": flow.code[node[0]].imm}) != 0
    return [to for to in found if to[1] == jumps]


class LoopEmitter(Protocol):
    """Emits code at the beginning of a loop's body, which executes passes in another way."""

    def emit(self) -> None: ...


class Translator:
    """Emits the function of a program. LaneTranslator (batch/lanes.py) emits a function for several instances side by side."""

    lanes = 1

    def __init__(self, flow: Flow, variant: Variant, module: ModuleBuilder, name: str) -> None:
        self.flow, self.variant, self.module = flow, variant, module
        w = self.w = flow.program.format
        self.word = integer(w.width).vector(self.lanes)
        #: the type of words in memory
        self.stored = storage(w).vector(self.lanes)
        self.modes = tuple(m for m in MODES if variant.checks and (m == "always" or getattr(variant, m)))
        self.longest = sum(map(len, flow.blocks.values())) + 1
        #: address -> the instruction there as trees
        self.steps = {
            at: step_of(flow.code[at], self.w, variant.differentiating) for run in flow.blocks.values() for at in run
        }
        code = [flow.code[at] for at in self.steps]
        #: the registers that the code names
        self.used = sorted({getattr(i, f) for i in code for f in ("rd", "ra", "rb") if f in i.opcode.fields})
        #: node -> registers whose words are known there
        self.constants: dict[Node, dict[int, int]] = {}
        if (variant.zeros or not variant.whole) and not variant.device and self.lanes == 1:
            self.constants = constant_registers(flow, self.steps, self.used)
        self.drops = any(s.drops for s in self.steps.values())
        #: some instruction may fail: without checks, each that has an address
        self.fails = bool(self.modes) or any(s.memory or s.unerases for s in self.steps.values())
        self.ghosts = GhostUncompute(self) if flow.ghosts else None
        parameters = self._parameters()
        linkage, restrict = "" if variant.whole else "internal", parameters.keys() - {"stop"}
        # Without a call, the report of an instance needs no memory.
        attributes = "alwaysinline nounwind" if variant.device and not variant.whole else "nounwind"
        self.code = module.function(name, I64, parameters, attributes, linkage=linkage, restrict=restrict)
        self.given = dict(zip(parameters, self.code.arguments, strict=True))
        self.blocks = {node: self.code.block(f"b{k}") for k, node in enumerate(flow.blocks)}
        self.exit = self.code.block("exit")
        #: stop -> the code behind it
        self.behind = {at: self.code.block(f"behind{at}") for at in variant.stops if (at, False) in self.blocks}
        #: loops by the node at which their body begins
        self.vector_loops: dict[Node, LoopEmitter] = {}
        self.parallel_loops: dict[Node, LoopEmitter] = {}

    def _parameters(self) -> dict[str, Type]:
        p = POINTER
        if self.variant.whole:
            return {"ctl": p, "R": p, "M": p, "n": I64, "C": p, "N": p, "counts": p}
        memory = pointer(GLOBAL) if self.variant.device else p
        report = {"M": memory, "n": I64, "stride": I64, "limit": I64, "report": p}
        return report if self.variant.device else report | {"stop": POINTER}

    # ------------------------------------------------------------------ the function

    def emit(self) -> None:
        self._begin()
        for index, (node, run) in enumerate(self.flow.blocks.items()):
            self._block(index, node, run)
        self.code.start(self.exit)
        self._end()

    def _begin(self) -> None:
        code, variant, whole = self.code, self.variant, self.variant.whole
        names = {"m": "M", bar("m"): "N"} if whole else {"m": "M"}
        self.memories = {place: self.given[name].of(self.stored) for place, name in names.items()}
        if whole:
            self.control = self.given["ctl"].of(I64)
            self.stop = self.control[TranslatedSlot.STOP]
            self.log = self.control[Slot.LOG].load().of(self.stored)
        elif not self.variant.device:
            self.stop = self.given["stop"].of(I64)
        limit = self.control[Slot.LEFT].load() if whole else self.given["limit"]
        #: steps left, now and at the last safepoint
        self.left, self.left_before = code.variable(I64, "left", limit), code.variable(I64, "left.before", limit)
        self.br, self.bad = code.variable(I64, "br", 0), code.variable(I1, "bad", 0)
        self.node, self.why = code.variable(I64, "node"), code.variable(I64, "why")
        self.logged, self.erased = code.variable(I64, "logged", 0), code.variable(I64, "erased", 0)
        self.cycles = code.variable(I64, "cycles", 0)
        self.slots = self._register_slots()
        if variant.vector_loops and self.module.vector_unit is not None:
            self._find_loops(self.module.vector_unit)
        if whole:
            #: of dropped cotangents; a batch has none
            slots = (Slot.WAY, *ACCOUNT)
            self.account = {slot: code.variable(I64, slot.name, self.control[slot].load()) for slot in slots}
            self._save_account()
        if self.ghosts:
            self.ghosts.begin()
        if self.behind:
            origin = self.blocks[next(iter(self.flow.blocks))]
            code.switch(self.control[TranslatedSlot.NODE].load(), origin, self.behind.items())

    def _find_loops(self, unit: VectorUnit) -> None:
        findings = find_vector_loops(self.flow, self.variant, unit.lanes)
        found = [finding.loop for finding in findings if finding.loop is not None]
        self.vector_loops = {loop.start: VectorLoopEmitter(self, loop) for loop in found}
        if self.variant.whole and unit.masks and unit.threads:
            for k, rows in enumerate(find_parallel_loops(self.flow, found)):
                self.parallel_loops[rows.start] = ParallelLoopEmitter(self, rows, k)

    def _register_slots(self) -> dict[str, Pointer]:
        """The memory of each register, and of its cotangent, while the function runs."""
        code, variant, t = self.code, self.variant, self.stored
        if variant.whole:
            files = {"r": "R", "c": "C"} if variant.differentiating else {"r": "R"}
            #: slot -> its place in the machine's arrays
            self.places = {f"{kind}{r}": self.given[name].of(t)[r] for kind, name in files.items() for r in self.used}
            return {name: code.variable(t, name, place.load()) for name, place in self.places.items()}
        slots = {f"r{r}": code.variable(t, f"r{r}") for r in self.used}
        for slot in slots.values():
            slot.store(0)
        return slots

    def _end(self) -> None:
        code, left, why = self.code, self.left.load(), self.why.load()
        if not self.variant.whole:
            report = self.given["report"].of(I64)
            for k, number in enumerate((self.given["limit"] - left, self.erased.load(), self.cycles.load())):
                report[k].store(number)
            code.ret(why | self.bad.load().to(I64))
            return
        for name, place in self.places.items():
            place.store(self.slots[name].load())
        control = self.control
        for slot in ACCOUNT:
            control[slot].store(self.account[slot].load())
        results: dict[int, Value] = {
            Slot.LEFT: left,
            Slot.BR: self.br.load(),
            TranslatedSlot.WINDOW: self.bad.load().select(self.left_before.load() - left, 0),
            TranslatedSlot.NODE: self.node.load(),
            Slot.LOGGED: self.logged.load(),
        }
        for word, value in results.items():
            control[word].store(value)
        code.ret(why)

    def _variables(self, slot: str) -> list[Pointer]:
        """The variables that hold a register: one, unless it is the same in all lanes at some places only."""
        return [self.slots[slot]]

    def _compared(self, slot: str, nodes: list[Node]) -> int:
        """Which of the variables holds the register at the beginning of all these nodes."""
        return 0

    def _in_all(self, truth: Value) -> Value:
        """Whether the truth holds in every lane."""
        return truth

    def _pending(self) -> Value:
        """Whether a check has failed."""
        return self.bad.load()

    def _leave(self, why: Exit, at: int) -> None:
        """Stop before the instruction at the address, with BR as its slot holds it."""
        self.node.store(at)
        self.why.store(why)
        self.code.jump(self.exit)

    # ------------------------------------------------------------------ blocks

    def _block(self, index: int, node: Node, run: list[int]) -> None:
        #: slot -> word of a register that the block has read or computed; slots to be written back
        self.cached: dict[str, Value] = {}
        self.dirty: set[str] = set()
        #: deferred checks that hold where a guard failed
        self.failed: list[Value] = []
        #: (k, type) -> a word that is 2^k or more, unsigned, where a guard failed
        self.gathered: dict[tuple[int, Type], Value] = {}
        #: words of memory that have values: (array, address) -> value
        self.loaded: dict[tuple[str, Value], Value] = {}
        self.inside: set[int] = set()
        #: slot -> the word that its register is known to have at the beginning of the block
        self.constant = {f"r{r}": word for r, word in self.constants.get(node, {}).items()}
        self.code.start(self.blocks[node])
        self.code.places.append((len(self.code.lines), node[0]))
        if node in self.flow.headers:
            self._safepoint(node)
        if node[0] in self.behind and not node[1]:
            self._leave(Exit.STOP, node[0])
            self.code.start(self.behind[node[0]])
        if self.ghosts and self.ghosts.skips(node):
            return
        self._loops_begin(node)
        at = run[0]
        if self.flow.branches(at):
            self._branch(index, node, at)
            return
        if node[1]:
            self._leave(Exit.REFUSED, at)
            return
        halts = self.flow.code[run[-1]].opcode.halts
        executed = run[:-1] if halts else run
        if executed:
            self._require_inside(executed)
            self._count(index, executed)
        for k, place in enumerate(executed):
            if k and k % LONGEST_BLOCK == 0:
                self.code.start(self.code.block("part"), keep=True)
            self._execute(place)
        self._flush()
        if halts:
            self._leave(Exit.HALTED, run[-1])
        else:
            self._go(self.flow.after(run[-1]), run[-1])

    def _loops_begin(self, node: Node) -> None:
        """Emit what stands in front of the body of a loop that begins at the node."""
        for loops in (self.parallel_loops, self.vector_loops):
            if node in loops:
                loops[node].emit()

    def _safepoint(self, node: Node) -> None:
        """On a back edge: stop where a check has failed, steps are used up, or the host sets `stop`."""
        left = self.left.load()
        stop = left.lt(self.longest)
        if self.fails:
            stop = stop | self.bad.load()
        if not self.variant.device:
            # Volatile: the host changes it.
            stop = stop | self.stop.load(volatile=True).ne(0)
        with self.code.when(stop, "stop", likely=False):
            self._leave(Exit.LIMIT, node[0])
        if self.variant.whole:
            self.left_before.store(left)
            self.logged.store(0)
            if self.drops:
                self._save_account()

    def _save_account(self) -> None:
        """Keep the account of dropped cotangents as it is at the safepoint, for undoing the steps that follow."""
        for k, slot in enumerate(ACCOUNT):
            self.control[TranslatedSlot.SAVED + k].store(self.account[slot].load())

    def _add(self, variable: Pointer, amount: Operand) -> None:
        variable.add(amount)

    def _count(self, index: int, executed: list[int]) -> None:
        self._add(self.left, -len(executed))
        if self.variant.cycles:
            self._add(self.cycles, self._cycles(executed))
        if self.variant.whole:
            self.given["counts"].of(I64)[index].add(1)

    def _cycles(self, executed: list[int]) -> int:
        # Imported here: the schedule is computed only where cycles are counted.
        from retrograd.isa.microarchitecture.micro_operations import core_units
        from retrograd.isa.microarchitecture.schedule import addressing, cycles

        code, units = self.flow.code, core_units(self.variant.core)
        # No instruction is next of the last in either direction, which lie in the middle and at the end of the code.
        size = len(code) // 2
        next_of = {at: at + 1 if at + 1 != size else -1 for at in executed}
        return sum(
            cycles(code[at].opcode, self.w, False, code[at].ra == code[at].rb, units, addressing(code, at, after))
            for at, after in next_of.items()
        )

    def _go(self, node: Node | None, at: int) -> None:
        if node is None:
            self._leave(Exit.REFUSED, at + 1)
        else:
            self.code.jump(self.blocks[node])

    def _branch(self, index: int, node: Node, at: int) -> None:
        code, i, found = self.code, self.flow.code[at], self.steps[at]
        words = self._words(i, found)
        words["br"] = self._jump(node)
        trees = self._trees(code, words, found)
        if found.guards["always"]:
            # Not deferred: to go back over a branch, its own condition must determine the way back.
            self._require(code.all(map(trees.truth, found.guards["always"])), at)
        self._count(index, [at])
        after = {place: trees.value(tree) for place, tree in found.after.items()}
        jump = after.pop("br")
        for place, value in after.items():
            self._set(i, place, value)
        for unsound in trees.unsound():
            self._check(~unsound)
        self._flush()
        self._follow(jump, at)

    def _jump(self, node: Node) -> Value:
        """BR at the node."""
        return self.br.load().to(self.word) if node[1] else self.code.constant(self.word, 0)

    def _require(self, holds: Value, at: int) -> None:
        """Stop before the branch where its guard fails."""
        with self.code.unless(holds, "refuse"):
            self._leave(Exit.REFUSED, at)

    def _follow(self, jump: Value, at: int) -> None:
        """Go where the branch leads that leaves BR = `jump`."""
        code, flow, leaves = self.code, self.flow, self.flow.leaves(at)
        jump = jump.to(I64, "sext")
        self.br.store(jump)
        with code.unless(jump.eq(0), "jump", likely=None):
            bailout = code.block("bailout")
            targets = dict.fromkeys(flow.jumps(at))
            code.switch(jump, bailout, [(to - leaves, self.blocks[to, True]) for to in targets])
            code.start(bailout)
            self._leave(Exit.BAILOUT, leaves)
        self._go(flow.after(leaves), leaves)

    # ------------------------------------------------------------------ words

    def _slot_name(self, i: Instruction, place: str) -> str | None:
        """The slot of a register's word or cotangent; None for memory."""
        found = _SLOTS.get(place)
        return None if found is None else f"{found[0]}{getattr(i, found[1])}"

    def _read(self, slot: str) -> Value:
        found = self.cached.get(slot)
        if found is None:
            known = self.constant.get(slot)
            found = self.slots[slot].load().to(self.word) if known is None else self.code.constant(self.word, known)
            self.cached[slot] = found
        return found

    def _flush(self) -> None:
        """Write the registers that the block has changed, and its checks, to their slots."""
        for slot in sorted(self.dirty):
            self.slots[slot].store(self.cached[slot].to(self.stored))
        self.dirty.clear()
        self._test_gathered()
        if self.failed:
            self.bad.store(self.code.any([self.bad.load(), *self.failed]))
            self.failed.clear()
        if self.ghosts:
            self.ghosts.flush()

    def _words(self, i: Instruction, found: Step) -> dict[str, Value]:
        words = {"imm": self.code.constant(self.word, i.imm)} if "imm" in found.reads else {}
        if found.memory:
            self._address(i)
        for place in found.operands:
            slot = self._slot_name(i, place)
            words[place] = self._read(slot) if slot else self._load(place)
        return words

    def _check(self, holds: Value) -> None:
        """A deferred check that the truth holds."""
        self.failed.append(~holds)

    def _gather(self, word: Value, k: int) -> None:
        """A deferred check that the unsigned word is below 2^k."""
        before = self.gathered.get((k, word.type))
        self.gathered[k, word.type] = word if before is None else before | word

    def _test_gathered(self) -> None:
        """Let `failed` have the checks that are gathered."""
        for (k, type_), word in self.gathered.items():
            self.failed.append(word.lt(0) if k == type_.bits - 1 else word.geu(1 << k))
        self.gathered.clear()

    def _stray(self, at: int) -> None:
        """The check that an access lies in its region."""
        if self.ghosts:
            self.ghosts.check(at, self.unchecked)

    def _require_inside(self, run: list[int]) -> None:
        """Stop before a block with an access beyond the memory: two comparisons for all accesses from one register.

        `self.inside` := the accesses that need no check of their own, from registers that are only moved by constants.
        """
        moved: dict[int, int] = {}
        lost: set[int] = set()
        offsets: dict[int, list[int]] = {}
        for at in run if self.variant.whole else ():
            i, found = self.flow.code[at], self.steps[at]
            if found.memory and i.ra not in lost:
                offsets.setdefault(i.ra, []).append(moved.get(i.ra, 0) + i.imm)
                self.inside.add(at)
            if found.after.keys() == {"d"} and found.after["d"] in _MOVES:
                moved[i.rd] = moved.get(i.rd, 0) + (i.imm if found.after["d"].op == "add" else -i.imm)
            else:
                lost.update(written(i))
        holds = []
        for register, found_at in offsets.items():
            first = (self._read(f"r{register}") + min(found_at)).to(I64)
            holds.append((first + (max(found_at) - min(found_at))).ltu(self.given["n"]))
            if len(set(found_at)) > 1:
                holds.append(first.ltu(self.given["n"]))
        if holds:
            self._require(self.code.all(holds), run[0])

    def _address(self, i: Instruction) -> None:
        """`self.address` := where the instruction's word of memory lies, or the spare word; `self.unchecked`: its address."""
        address = self.unchecked = (self._read(f"r{i.ra}") + i.imm).to(I64)
        self.address = address
        if self.at in self.inside:
            return
        inside = address.ltu(self.given["n"])
        # Deferred without checks, too: the spare word holds a word of an instance before this one.
        self._check(inside)
        self.address = inside.select(address, self.given["n"])
        if self.variant.device:
            self.address = self.address * self.given["stride"]

    def _load(self, place: str) -> Value:
        found = self.loaded.get((place, self.address))
        if found is None:
            found = self.memories[place][self.address].load().to(self.word)
            self.loaded[place, self.address] = found
        return found

    def _set(self, i: Instruction, place: str, value: Value) -> None:
        slot = self._slot_name(i, place)
        if slot:
            self.cached[slot] = value
            self.dirty.add(slot)
        else:
            self._write(place, value)
            # Another address may be the same.
            self.loaded = {at: word for at, word in self.loaded.items() if at[0] != place}
            self.loaded[place, self.address] = value

    def _write(self, place: str, value: Value) -> None:
        self.memories[place][self.address].store(value.to(self.stored))

    # ------------------------------------------------------------------ an instruction

    def _execute(self, at: int) -> None:
        i, found = self.flow.code[at], self.steps[at]
        #: the address of the instruction that is translated
        self.at = at
        self.code.places.append((len(self.code.lines), at))
        if found.unerases:
            # The word cannot come back: the failed check leads to the trap.
            self._check(self.code.constant(self.word.truth, 0))
            return
        words = self._words(i, found)
        if found.memory:
            self._stray(at)
            if self.ghosts and "m" in words:
                self.ghosts.track(at, self.unchecked, words["m"])
        guards = _guards(found, self.modes)
        if found.size > OUT_OF_LINE:
            after, failed = self._call(i, found, words)
            if guards or self.lanes > 1:
                self._check(~failed)
        else:
            trees = self._trees(self.code, words, found, guards)
            for tree in guards:
                below = trees.below(tree)
                if below is None:
                    self._check(trees.truth(tree))
                else:
                    self._gather(*below)
            after = {place: trees.value(tree) for place, tree in found.after.items()}
            for unsound in trees.unsound_truths:
                self._check(~unsound)
            for word in trees.unsound_words:
                self._gather(word, self.w.width - 1)
        for place in found.erases:
            self._log(words[place])
            self._add(self.erased, 1)
        for place in found.drops:
            self._drop(words[place])
            after[place] = self.code.constant(self.word, 0)
        for place, value in after.items():
            self._set(i, place, value)
        if self.ghosts:
            self.ghosts.forget(at)

    def _trees(
        self, code: FunctionBuilder, words: dict[str, Value], found: Step, deferred: tuple[Expr, ...] = ()
    ) -> Trees:
        # Points are chosen so that words are full.
        return Trees(code, self.w, words, found.roots, deferred, self.lanes, divides(found.opcode))

    def _call(self, i: Instruction, found: Step, words: dict[str, Value]) -> tuple[dict[str, Value], Value]:
        """(words after it, whether a guard failed) of a long instruction, as a call of its own function.

        The function of d ⊕= f(a, b) gives f(a, b) alone: d += f(a, b) and a later d −= f(a, b) share one call.
        """
        guards, update = _guards(found, self.modes), found.update
        # On a device the words that stay beside a call take registers.
        if update is None or self.variant.device:
            values, failed = self._called(i, found, words, list(found.after.values()), guards)
            return dict(zip(found.after, values, strict=True)), failed
        target = update.place
        own = tuple(tree for tree in guards if target not in tree.inputs)
        given = {k: v for k, v in words.items() if k != target}
        [value], failed = self._called(i, found, given, [update.value], own)
        after = found.around(found.after[target])
        more = [found.around(tree) for tree in guards if target in tree.inputs]
        trees = Trees(self.code, self.w, words | {VALUE: value}, (after, *more), tuple(more), self.lanes)
        failed = self.code.any([failed, *(~trees.truth(tree) for tree in more)], self.word.truth)
        return {target: trees.value(after)}, self.code.any([failed, *trees.unsound()], self.word.truth)

    def _called(
        self, i: Instruction, found: Step, words: dict[str, Value], roots: list[Expr], guards: tuple[Expr, ...]
    ) -> tuple[list[Value], Value]:
        """(the trees, whether a guard of theirs fails), by a call of a function of these words."""
        result = structure(*[self.word] * len(roots), self.word.truth)

        def build(inner: FunctionBuilder, *arguments: Value) -> Value:
            trees = Trees(inner, self.w, dict(zip(words, arguments, strict=True)), (*roots, *guards), (), self.lanes)
            failed = [~trees.truth(tree) for tree in guards]
            values = [trees.value(tree) for tree in roots]
            return inner.pack(*values, inner.any([*failed, *trees.unsound()], self.word.truth))

        opcode, update = found.opcode, found.update
        value_alone = update is not None and roots == [update.value]
        name = (opcode.entry.name if value_alone else opcode.name).replace(".", "_")
        if shifts(found.opcode):
            name += f"_by{i.imm}"
        parameters = {f"word{k}": self.word for k in range(len(words))}
        of = (*words, *roots, *guards, len(roots), self.lanes)
        callee = self.module.shared(name, result, parameters, f"{PURE} noinline", build, of)
        both = self.code.call(callee, *words.values())
        return [both.part(k) for k in range(len(roots))], both.part(len(roots))

    # ------------------------------------------------------------------ lost words

    def _log(self, word: Value) -> None:
        """Keep a word that is about to be lost, until the next safepoint."""
        if self.variant.whole:
            count = self.logged.load()
            self.log[count].store(word.to(self.stored))
            self.logged.store(count + 1)

    def _drop(self, word: Value) -> None:
        """`Cotangents.drop`, where no lost word is read again: the machine runs the translation only then."""
        self._log(word)
        some, account = word.ne(0), self.account
        account[Slot.DROPPED].add(some.to(I64))
        way, crossed = account[Slot.WAY].load(), account[Slot.CROSSED].load()
        point = way.gt(0).select(crossed, crossed - 1)
        account[Slot.CROSSED].store(crossed + way)
        for slot, value in ((Slot.LOST_POINT, point), (Slot.LOST_WAY, way)):
            account[slot].store(some.select(value, account[slot].load()))


# -----------------------------------------------------------------------------
# Translated programs, compiled and loaded; each is compiled once, then kept in the process and on disk.

Translated = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_void_p] * 3, ctypes.c_int64, *[ctypes.c_void_p] * 3)


@dataclass(frozen=True)
class LoadedTranslation:
    """A program's code for a variant."""

    flow: Flow
    variant: Variant
    code: TieredCode

    @property
    def address(self) -> int:
        """The address of the fastest code that is loaded."""
        return self.code.address

    @cached_property
    def shares_rows(self) -> bool:
        """A second thread can execute a part of its loops."""
        unit = jit_compiler().vector_unit
        if not (unit.threads and unit.masks and self.variant.vector_loops):
            return False
        loops = [
            found.loop for found in find_vector_loops(self.flow, self.variant, unit.lanes) if found.loop is not None
        ]
        return any(True for _ in find_parallel_loops(self.flow, loops))

    @cached_property
    def executed(self) -> Executed:
        """See `executed_by`."""
        return executed_by(self.flow)

    @property
    def losses(self) -> int:
        """See `most_lost_words`."""
        return most_lost_words(self.flow)


#: addresses of instructions, and the counter of each
Executed = tuple[NDArray[np.intp], NDArray[np.intp]]


def executed_by(flow: Flow) -> Executed:
    """(addresses of the instructions that counters count, the counter of each)"""
    found = [(at, k) for k, run in enumerate(flow.counters) for at in run if not flow.code[at].opcode.halts]
    places, counters = np.array(found, dtype=np.intp).reshape(-1, 2).T
    return places, counters


def most_lost_words(flow: Flow) -> int:
    """The most words that are lost between two safepoints: of each instruction one, and its cotangent."""
    return 2 * sum(map(len, flow.blocks.values()))


def is_translated(program: Program, variant: Variant, level: int | None) -> bool:
    """Whether code for the program is kept, in this process or on disk: optimised code, or first code."""
    key = _key(program.code, program.format, program.table, variant)
    return any(jit_compiler().has(key, at) for at in {0, _level(program, level)})


def translation_is_loaded(program: Program, variant: Variant, level: int | None) -> bool:
    """Whether the program's code is ready to run."""
    return (program.code, program.format, program.table, variant, level) in _loaded


def _level(program: Program, level: int | None) -> int:
    return level_for(len(program.code)) if level is None else level


#: translations that this process has made or read
_loaded: set[tuple[Any, ...]] = set()


def _key(code: Sequence[int], w: Format, table: Table, variant: Variant) -> str:
    if table is not TABLE:
        # The meaning of an entry that was added is only in the code.
        return _text(code, w, table, variant)[1]
    return f"{source_digest()} {w} {variant} {sha256(repr(code).encode()).hexdigest()}"


def _text(code: Sequence[int], w: Format, table: Table, variant: Variant) -> tuple[Flow, str]:
    module = jit_compiler().module()
    flow = translate(Program(code, format=w, table=table), variant, module)
    return flow, module.text()


def translation(program: Program, variant: Variant, level: int | None) -> LoadedTranslation:
    """The program translated, compiled and loaded. `level` None: by the program's length, in the background where that takes long."""
    return _translation_of(program.code, program.format, program.table, variant, level)


@cache
def _translation_of(
    code: tuple[int, ...], w: Format, table: Table, variant: Variant, level: int | None
) -> LoadedTranslation:
    program = Program(code, format=w, table=table)
    price = 0.0 if level is not None else tiering.policy.costs.optimised_translation(len(code), variant.differentiating)
    found = TieredCode(
        _key(code, w, table, variant),
        "translated",
        lambda: _text(code, w, table, variant)[1],
        _level(program, level),
        price,
    )
    _loaded.add((code, w, table, variant, level))
    return LoadedTranslation(flow_of(program, variant), variant, found)
