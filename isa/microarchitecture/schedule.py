"""An instruction's trees, scheduled: which unit computes which node in which cycle, and which temporary holds it.

Nodes become tasks. Nodes that are different words of the same product or quotient share a task.
Tasks are issued by list scheduling: among the tasks whose operands are ready, the task at the head of the longest path is issued.
Temporaries are then reused as they become free. The result is valid by the rules in `microcode`, but not optimal.

The schedule is deterministic: it depends on the order in which trees are walked, never on the order of sets or addresses.
"""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import combinations, zip_longest
from types import MappingProxyType
from typing import NamedTuple

from retrograd.isa.derivatives import cotangent_step
from retrograd.isa.encoding import Instruction
from retrograd.isa.entries import BAR, NOT_JUMPING, REGISTER_FIELDS, Entry, Guards, Opcode, bar, opcodes_of
from retrograd.isa.expr import ONE, ZERO, Expr, match, place, select, substitute
from retrograd.isa.folds import is_truth, product_tested_by, quotient_tested_by
from retrograd.isa.microarchitecture.micro_operations import (
    DEFAULT_UNITS,
    FLAGGED,
    FUSED,
    TEMPORARIES,
    Flag,
    GuardCheck,
    Input,
    Literal,
    MicroOperation,
    Passing,
    Schedule,
    Source,
    Temporary,
    Unit,
    UnitResult,
    Units,
    rounding,
    unit_of,
)
from retrograd.isa.microarchitecture.rows import Row, arrange
from retrograd.isa.program import Program
from retrograd.isa.words import Format

#: Inverses of branches and rotations need the constant with the opposite sign, and the decoder delivers it.
_NEGATED = ZERO - place("imm")


# ---------------------------------------------------------------- tasks


class _Chain(NamedTuple):
    """A product that a sum in the same slot takes from the multiplier."""

    product: Expr
    operation: str
    other: Expr


#: operations that take a product from the multiplier as their second operand
_CHAINED = ("add", "sub")


@dataclass(eq=False)
class _Task:
    """A micro-operation before it is issued. Its nodes: the results, the most urgent first."""

    operation: str
    operands: tuple[Expr, ...]
    nodes: list[Expr]
    #: cycles to the first result
    latency: int = 0
    #: cycles from its issue to the end, along the longest path
    priority: int = 0
    #: how many of its operands are not ready yet
    waiting: int = 0
    cycle: int = 0
    slot: int = 0
    #: of a product that is passed to an operation: the product, that operation, and its other operand
    chain: _Chain | None = None

    @cached_property
    def unit(self) -> Unit:
        return unit_of(self.operation)

    @cached_property
    def computed(self) -> tuple[Expr, ...]:
        """The operands that are results of other tasks, each once."""
        late = (self.chain.other,) if self.chain else ()
        return tuple(x for x in dict.fromkeys((*self.operands, *late)) if not _is_leaf(x))

    def lead(self, x: Expr) -> int:
        """Cycles from the issue to the cycle in which the operand is read last."""
        return self.latency - 1 if self.chain and x is self.chain.other else 0

    def waits(self, x: Expr) -> int:
        """Cycles from the issue to the cycle in which the operand is read first."""
        return 0 if x in self.operands else self.lead(x)

    @property
    def occupied(self) -> int:
        # A unit delivers one word a cycle. The next product of the multiplier must not be ready in the same
        # cycle as a word of this product. The divider computes one quotient at a time.
        return self.latency + len(self.nodes) - 1 if self.unit is Unit.DIVIDER else len(self.nodes)


def _is_leaf(node: Expr) -> bool:
    """Whether its word stands ready."""
    return node.op in ("const", "input") or node is _NEGATED


def _operation(node: Expr) -> tuple[str, tuple[Expr, ...]]:
    """The operation that computes the node, and its operands."""
    for name, pattern in FUSED.items():
        found = match(pattern, node)
        if found is not None:
            return name, (found["x"], found["y"])
    return node.op, node.args


def _cover(roots: Iterable[Expr]) -> dict[Expr, tuple[str, tuple[Expr, ...]]]:
    """node -> (operation, operands), for every node that must be computed, operands before users."""
    chosen: dict[Expr, tuple[str, tuple[Expr, ...]]] = {}
    out: dict[Expr, tuple[str, tuple[Expr, ...]]] = {}
    stack = [(root, False) for root in reversed([*roots])]
    while stack:
        node, done = stack.pop()
        if done:
            out[node] = chosen[node]
        elif node not in chosen and not _is_leaf(node):
            chosen[node] = _operation(node)
            stack.append((node, True))
            stack.extend((x, False) for x in reversed(chosen[node][1]))
    return out


def _tasks(roots: Iterable[Expr], w: Format, units: Units) -> list[_Task]:
    """The tasks that compute the roots, operands before users."""
    tasks: dict[tuple[object, ...], _Task] = {}
    for node, (operation, operands) in _cover(roots).items():
        key: tuple[object, ...] = (node,)
        name, place = operation, rounding(node, w)
        if operation in ("mulshift", "mulround"):
            name = "mulround" if place else "mulshift"
            key = name, place, frozenset(operands)  # x·y = y·x
        elif operation in ("divshift", "divround"):
            key = operation, place, operands
        tasks.setdefault(key, _Task(name, operands, [])).nodes.append(node)
    for task in tasks.values():
        # ⌊⌊z⌋ / 2^k⌋ = ⌊z / 2^k⌋: each word of a quotient is a shift of the word with most digits. In a rounded
        # product or quotient, this holds for only words that were rounded in the same place.
        shifts = [node.param for node in task.nodes if isinstance(node.param, int)]
        task.latency = units.latency(task.operation, w, max(shifts, default=0))
    return [*tasks.values()]


def _chained(tasks: Sequence[_Task], kept: Collection[Expr]) -> list[_Task]:
    """The tasks, where an operation that is the only reader of a product is joined with it. `kept`: nodes that are read elsewhere, too."""
    uses = Counter(x for task in tasks for x in task.computed)
    products = {task.nodes[0]: task for task in tasks if task.unit is Unit.MULTIPLIER and len(task.nodes) == 1}
    out = dict.fromkeys(tasks)
    for task in tasks:
        if task.operation not in _CHAINED:
            continue
        pairs = [task.operands, task.operands[::-1]] if task.operation == "add" else [task.operands]
        for other, x in pairs:
            product = products.get(x)
            if product and not product.chain and uses[x] == 1 and x not in kept and other is not x:
                joined = _Task(product.operation, product.operands, task.nodes, product.latency)
                joined.chain = _Chain(x, task.operation, other)
                del out[product], out[task]
                out[joined] = None
                break
    return _sorted(out)


def _sorted(tasks: Iterable[_Task]) -> list[_Task]:
    """The tasks, operands before users, otherwise in their order."""
    tasks = [*tasks]
    maker = {node: task for task in tasks for node in task.nodes}
    out: dict[_Task, None] = {}

    def put(task: _Task) -> None:
        stack = [task]
        while stack:
            missing = [maker[x] for x in stack[-1].computed if maker[x] not in out]
            if missing:
                stack += reversed(missing)
            else:
                out[stack.pop()] = None

    for task in tasks:
        put(task)
    return [*out]


def _rank(tasks: Sequence[_Task], users: Mapping[Expr, Sequence[_Task]]) -> None:
    """Give each task its priority, and order its results by theirs."""
    for task in reversed(tasks):
        behind = {node: max((u.priority - u.waits(node) for u in users[node]), default=0) for node in task.nodes}
        task.nodes.sort(key=behind.__getitem__, reverse=True)
        task.priority = max(task.latency + k + behind[node] for k, node in enumerate(task.nodes))


#: If a slot holds this number of words or more, freeing words matters more than being quick. With a smaller number,
#: some instructions take longer;
#: with more none takes less, but temporaries double.
_MANY = 13


class _Ready(NamedTuple):
    """When a result can be read first, and the slot that writes it."""

    cycle: int
    slot: int


def _issue(
    tasks: Sequence[_Task],
    users: Mapping[Expr, Sequence[_Task]],
    kept: Collection[Expr],
    units: Units,
) -> dict[Expr, _Ready]:
    """Give each task its cycle and slot; node -> when it is ready, in that order. `kept`: the nodes wanted at the end.

    In each cycle, the ready tasks at the head of the longest paths are issued, each to the free slot with the fewest units. While many words
    are held, the task that adds the fewest held words is issued instead. Among equal tasks, the task whose operands were ready first is issued.
    """
    able: list[_Task] = []
    reads = {node: len(users[node]) + (node in kept) for node in users}
    held, many = 0, _MANY * len(units.slots)

    def enable(task: _Task) -> None:
        insort(able, task, key=lambda other: -other.priority)

    def holds(task: _Task) -> int:
        return sum(reads[x] > 0 for x in task.nodes) - sum(reads[x] == 1 for x in task.computed)

    for task in tasks:
        task.waiting = len(task.computed)
        if not task.waiting:
            enable(task)
    written: dict[_Ready, Expr] = {}
    #: cycle -> tasks, each once for each operand that no longer holds it back
    arriving: dict[int, list[_Task]] = {}
    #: slots whose third operand belongs to a chained sum, by cycle
    taken: dict[int, set[int]] = {}
    slots = sorted(range(len(units.slots)), key=lambda slot: len(units.slots[slot]))
    free = {(slot, unit): 0 for slot in slots for unit in units.slots[slot]}

    def place_for(task: _Task, cycle: int, idle: Collection[int], chaining: Collection[int]) -> int | None:
        ready = range(cycle + task.latency, cycle + task.latency + len(task.nodes))
        for slot in slots:
            if slot in chaining and len(task.operands) > 2:
                continue
            able_to = slot in idle and units.able(slot, task.operation) and free[slot, task.unit] <= cycle
            if able_to and not any(_Ready(at, slot) in written for at in ready):
                return slot
        return None

    cycle, left = 0, len(tasks)
    while left:
        for user in arriving.pop(cycle, ()):
            user.waiting -= 1
            if not user.waiting:
                enable(user)
        idle, chaining = {*slots}, taken.pop(cycle, set())
        for task in [*able] if held < many else sorted(able, key=holds):
            slot = place_for(task, cycle, idle, chaining)
            if slot is None:
                continue
            held += holds(task)
            for x in task.computed:
                reads[x] -= 1
            task.cycle, task.slot = cycle, slot
            free[slot, task.unit] = cycle + task.occupied
            for at, x in enumerate(task.nodes, cycle + task.latency):
                written[_Ready(at, slot)] = x
                for user in users[x]:
                    arriving.setdefault(max(cycle + 1, at - user.waits(x)), []).append(user)
            if task.chain:
                taken.setdefault(cycle + task.latency - 1, set()).add(slot)
            able.remove(task)
            left -= 1
            idle.remove(slot)
            if not idle:
                break
        cycle += 1
    return {written[at]: at for at in sorted(written)}


# ---------------------------------------------------------------- scheduling


def schedule(after: Mapping[str, Expr], guards: Sequence[Expr], w: Format, units: Units = DEFAULT_UNITS) -> Schedule:
    """The micro-operations that compute the new words of places and the predicates of guards."""
    parts = [_conjuncts(guard) if units.flags else [guard] for guard in guards]
    predicates = [node for part in parts for node in part]
    flags = _flags(predicates, after.values(), w) if units.flags else {}
    computed = [node for node in predicates if node not in flags]
    tasks = _tasks([*computed, *after.values()], w, units)
    if units.chained:
        tasks = _chained(tasks, {*computed, *after.values()})
    users: dict[Expr, list[_Task]] = {node: [] for task in tasks for node in task.nodes}
    for task in tasks:
        for x in task.computed:
            users[x].append(task)
    _rank(tasks, users)
    ready = _issue(tasks, users, set(after.values()), units)
    length = max((at.cycle for at in ready.values()), default=0)
    #: word whose flag is checked -> the cycle from which it is ready, products that are passed on included
    flagged = ready | {task.chain.product: ready[task.nodes[0]] for task in tasks if task.chain}

    until = {
        node: max([at.cycle, *(user.cycle + user.lead(node) for user in users[node])]) for node, at in ready.items()
    }
    until |= {node: length for node in after.values() if node in ready}
    registers: dict[Expr, int] = {}
    for slot in range(len(units.slots)):
        own = {node: at.cycle for node, at in ready.items() if at.slot == slot}
        registers |= {node: slot * TEMPORARIES + number for node, number in _registers(own, until).items()}

    def source(node: Expr) -> Source:
        if node.op == "const" and isinstance(node.param, int):
            return Literal(node.param & w.mask)
        if node is _NEGATED:
            return Input("imm", negated=True)
        return Input(str(node.param)) if node.op == "input" else Temporary(registers[node])

    def check(node: Expr, guard: int) -> GuardCheck:
        if node in flags:
            at = flagged[flags[node]]
            return GuardCheck(Flag(at.slot, flags[node].op not in FLAGGED), at.cycle, guard)
        return GuardCheck(source(node), ready[node].cycle if node in ready else 0, guard)

    def operations(task: _Task) -> Iterator[MicroOperation]:
        results = tuple(UnitResult(node, registers[node], ready[node].cycle, until[node]) for node in task.nodes)
        operands = tuple(map(source, task.operands))
        if task.chain:
            passed = (UnitResult(task.chain.product, None, results[0].ready, results[0].ready),)
            yield MicroOperation(task.cycle, task.unit, task.operation, operands, passed, task.occupied, task.slot)
            last = results[0].ready - 1
            taken = source(task.chain.other), Passing()
            yield MicroOperation(
                last, unit_of(task.chain.operation), task.chain.operation, taken, results, 1, task.slot
            )
        else:
            yield MicroOperation(task.cycle, task.unit, task.operation, operands, results, task.occupied, task.slot)

    return Schedule(
        tuple(sorted((m for task in tasks for m in operations(task)), key=lambda m: m.cycle)),
        MappingProxyType({name: source(node) for name, node in after.items()}),
        tuple(check(node, guard) for guard, part in enumerate(parts) for node in part),
        length,
        max((number % TEMPORARIES for number in registers.values()), default=-1) + 1,
    )


def _conjuncts(predicate: Expr) -> list[Expr]:
    """Predicates that hold together exactly if the predicate does; at least one."""
    waiting, found = [predicate], dict[Expr, None]()
    while waiting:
        node = waiting.pop()
        while node.op == "select" and node.args[1] is node.args[2]:
            node = node.args[1]
        if node.op == "and" and all(map(is_truth_word, node.args)):
            waiting += reversed(node.args)
        else:
            found[node] = None
    # A part that always holds is checked only if there is no other.
    return [node for node in found if node is not ONE] or [ONE]


@cache
def is_truth_word(node: Expr) -> bool:
    """Whether the word is 0 or 1."""
    if node.op == "select":
        return all(map(is_truth_word, node.args[1:]))
    return node in (ZERO, ONE) or is_truth(node) or (node.op in ("and", "or") and all(map(is_truth_word, node.args)))


def _flags(predicates: Sequence[Expr], after: Iterable[Expr], w: Format) -> dict[Expr, Expr]:
    """Predicate that a sum, product or quotient fits -> that word, if it is computed and the predicate is no operand."""
    after = [*after]
    cover = _cover([*predicates, *after])
    used = {*after, *(x for _, operands in cover.values() for x in operands)}
    known = {found: node for node, found in cover.items()}
    found: dict[Expr, Expr] = {}
    for node in predicates:
        if node in cover and node not in used:
            operation, operands = cover[node]
            for name, fits in FLAGGED.items():
                if operation == fits and (name, operands) in known:
                    found[node] = known[name, operands]
            for low in (product_tested_by(node, w), quotient_tested_by(node, w)):
                if low is not None:
                    found[node] = low
    # A word that only predicates read is not computed.
    needed = _cover([*(node for node in predicates if node not in found), *after])
    return {node: low for node, low in found.items() if low in needed}


def _registers(ready: Mapping[Expr, int], until: Mapping[Expr, int]) -> dict[Expr, int]:
    """node -> the lowest temporary that was last read before the node is ready; `ready` in order of cycles."""
    last: list[int] = []
    out: dict[Expr, int] = {}
    for node, at in ready.items():
        number = next((number for number, read in enumerate(last) if read < at), len(last))
        if number == len(last):
            last.append(0)
        last[number] = until[node]
        out[node] = number
    return out


# -----------------------------------------------------------------------------
# Pipeline stages: the execution of an instruction on the co-processor, and its cycles.
#
#     fetch · decode · read [· address · access] · execute … · write …
#
# One instruction is in flight, so the cycles of a run are the sum over its instructions. Of an instruction and its
# inverse, the
# one with the shorter microprogram is padded, so a run backward takes as many cycles as the run forward.

#: The word of code, read at PC.
FETCH = 1
#: The fields address the register file; BR must be 0, except for branches.
DECODE = 1
#: Three registers, each word with its cotangent, go into the operand latches; the constant too, with either sign.
READ = 1
#: ra + imm. An overlapped core computes it while the previous instruction executes.
ADDRESS = 1
#: A memory word with its cotangent goes into its latch.
ACCESS = 1
#: Of an overlapped core: fetch, decode and read after an instruction that sets BR, PC or DIR.
REFETCH = FETCH + DECODE + READ


#: a format, where it does not matter which
_ANY = Format(32, 16)


class InstructionTrees(NamedTuple):
    """The trees of an instruction: the new words of places, and predicates that must hold before any word is written."""

    after: Mapping[str, Expr]
    guards: tuple[Expr, ...]


def computed(opcode: Opcode, w: Format) -> Guards:
    """The guards whose predicates are computed.

    Overflow is checked whether or not a machine traps on it, so the mode does not change the timing. Strict mode refuses whole
        opcodes, and BR = 0 is checked by the decoder.
    """
    return tuple(g for g in opcode.guards(w) if g.mode != "strict" and g != NOT_JUMPING)


def plain(opcode: Opcode, w: Format) -> InstructionTrees:
    """The trees of the opcode with D = 0."""
    return InstructionTrees(opcode.transition(w), tuple(opcode.guard_predicate(g, w) for g in computed(opcode, w)))


@dataclass(frozen=True)
class Microprogram:
    """The execution of an instruction: its schedule, its cycles, and the stages before and after."""

    schedule: Schedule
    #: at least one, at least those of the schedule
    execute: int
    #: reads a memory word, and perhaps writes one
    memory: bool
    #: the fields of the registers to write, in their order: rd, then ra, then rb
    writes: tuple[str, ...]
    #: the next instruction begins to execute while this instruction writes its last register
    overlapped: bool = False
    #: the next instruction is known only after this instruction
    redirects: bool = False

    @property
    def lands(self) -> bool:
        """Whether a guard demands that BR be 0 after this instruction."""
        return self.schedule.after.get("br") == Literal(0)

    @property
    def leaps(self) -> int | None:
        """The slot that chooses between the constant and 0 as the new BR in the last cycle of execution; −1: BR is the constant; None: neither.

        If it is not None, both possible addresses of the next instruction are known earlier, and the instruction is fetched in this cycle.
        """
        new = self.schedule.after.get("br")
        if self.redirects and new == Input("imm"):
            return -1
        for o in self.schedule.operations if self.redirects else ():
            register = o.results[0].register
            chooses = o.operation == "select" and o.operands[1:] == (Input("imm"), Literal(0))
            if chooses and register is not None and new == Temporary(register) and o.cycle == self.execute - 1:
                return o.slot
        return None

    @property
    def write_cycles(self) -> tuple[tuple[str | None, str | None], ...]:
        """For each cycle of writing (at least one), the fields of the registers whose word and whose cotangent are written.

        An overlapped core writes words and cotangents separately. It can write a word and the cotangent of another register in one cycle.
        """
        if not self.overlapped:
            return tuple((field, field) for field in self.writes) or ((None, None),)
        words = [field for name, field in REGISTER_FIELDS.items() if name in self.schedule.after]
        cotangents = [field for name, field in REGISTER_FIELDS.items() if bar(name) in self.schedule.after]
        return tuple(zip_longest(words, cotangents)) or ((None, None),)

    @property
    def stages(self) -> dict[str, int]:
        """Stage -> cycles, in their order. A memory word is written along with the first register.

        On an overlapped core: the cycles in which no other instruction executes.
        """
        writes = len(self.write_cycles)
        access = {"access": ACCESS} if self.memory else {}
        if not self.overlapped:
            address = {"address": ADDRESS} if self.memory else {}
            return {
                "fetch": FETCH,
                "decode": DECODE,
                "read": READ,
                **address,
                **access,
                "execute": self.execute,
                "write": writes,
            }
        refetch = {"refetch": REFETCH - FETCH * (self.leaps is not None)} if self.redirects else {}
        return {**access, "execute": self.execute, "write": writes - 1, **refetch}

    def stages_before(self, addressing: str | None) -> dict[str, int]:
        """Stage -> cycles where an instruction on memory follows, if `addressing` is not None; see `Execution.addressing`.

        An overlapped core reads the memory word in the last cycle of this instruction. It does so later if the address or the word is
        not known then: a cycle after the address register is read, which is in the cycle of its last write at the earliest.
        """
        stages = self.stages
        if not self.overlapped or self.redirects or addressing is None:
            return stages
        written = [word for word, _ in self.write_cycles]
        if addressing and written[-1] == addressing:
            return {**stages, "address": ADDRESS}
        stores = len(written) == 1 and bool({"m", bar("m")} & self.schedule.after.keys())
        if self.execute + len(written) == 2 or stores or (addressing and written[-2:-1] == [addressing]):
            return stages
        last = "write" if stages["write"] else "execute"
        return {**stages, last: stages[last] - ACCESS}

    @property
    def cycles(self) -> int:
        """From the fetch to the last write; on an overlapped core, from the first cycle of execution to that of the next instruction."""
        return sum(self.stages.values())

    @property
    def waiting(self) -> int:
        """All cycles of the instruction except its execution and its writes; they do not depend on the next instruction."""
        return self.cycles - self.stages["execute"] - self.stages["write"]


def microprogram(opcode: Opcode, own: Schedule, inverse: Schedule, overlapped: bool) -> Microprogram:
    """The microprogram of an opcode, from its schedule and the schedule of its inverse."""
    changed = {name.removesuffix(BAR) for name in own.after}
    lands = any(schedule.after.get("br") == Literal(0) for schedule in (own, inverse))
    return Microprogram(
        own,
        # A `goto` and a `from` differ on an overlapped core in any case, and a `goto` chooses in its last cycle.
        max(1, own.length, 0 if overlapped and lands else inverse.length),
        "m" in opcode.reads or "m" in opcode.writes,
        tuple(field for name, field in REGISTER_FIELDS.items() if name in changed),
        overlapped,
        overlapped and redirects(opcode) and own.after.get("br") != Literal(0),
    )


def redirects(opcode: Opcode) -> bool:
    """Whether the next instruction depends on more than PC and DIR: the opcode sets BR, may meet a jump, or turns."""
    return "br" in opcode.writes or opcode.turns or NOT_JUMPING not in opcode.guards(_ANY)


# -----------------------------------------------------------------------------
# Trees of branches for a core whose front end is ahead. The new BR is known early; for a `from`, it is known before
# execution.
#
#     guard br = 0:   br′ := br + x = x
#     guard br′ = 0:  br′ := 0,  br − (p ? x : 0) = 0  ⇔  p ? br = x : br = 0
#
# If a guard demands that BR be 0 after an instruction, the next instruction in the code follows it, as after
# instructions that do not set BR.


def shortened(trees: InstructionTrees, settled: bool, early: bool = True) -> InstructionTrees:
    """Trees with the same meaning wherever all guards hold, and with the same guards. `settled`: a guard demands that BR be 0 before.

    `early`: comparisons of BR do not wait for the condition.
    """
    new = trees.after.get("br")
    if new is None:
        return trees
    demanded = new.eq(ZERO)
    if demanded not in trees.guards:
        known = settled and new.op == "add" and new.args[0] is place("br")
        return InstructionTrees({**trees.after, "br": new.args[1] if known else new}, trees.guards)
    guards = tuple(_vanishes(new, early) if guard is demanded else guard for guard in trees.guards)
    return InstructionTrees({**trees.after, "br": ZERO}, guards)


def _vanishes(new: Expr, early: bool) -> Expr:
    if new.op != "sub":
        return new.eq(ZERO)
    br, step = new.args
    if step.op != "select" or not early:
        return br.eq(step)
    condition, then, otherwise = step.args
    return select(condition, br.eq(then), br.eq(otherwise))


# -----------------------------------------------------------------------------
# The microprograms of the table: the schedule that the co-processor executes for each opcode, with D = 0 and with D = 1.


def trees(opcode: Opcode, w: Format, lifted: bool, same: bool, units: Units = DEFAULT_UNITS) -> InstructionTrees:
    """The trees of an opcode; with `lifted`, those of cotangents too. `same`: ra and rb are one register; `units`: those of the core."""
    values = plain(opcode, w)
    if units.overlapped or units.threads > 1:
        values = shortened(values, NOT_JUMPING in opcode.guards(w), early=units.overlapped)
    if not lifted:
        return values
    same = same and distinguishes(opcode, w)
    moved = cotangent_step(opcode, w, same)
    # The hardware keeps no cotangent of a freed ancilla.
    after = {**values.after, **moved.after, **dict.fromkeys(moved.drops, ZERO)}
    predicates = (*values.guards, *(guard.predicate for guard in moved.guards))
    if same:
        one = {"b": place("a"), bar("b"): place(bar("a"))}
        after = {name: substitute(tree, one) for name, tree in after.items()}
        predicates = tuple(substitute(predicate, one) for predicate in predicates)
    return InstructionTrees(after, predicates)


def guards(opcode: Opcode, w: Format, lifted: bool, same: bool) -> Guards:
    """The guards whose predicates are among its trees, in their order."""
    values = computed(opcode, w)
    return (*values, *cotangent_step(opcode, w, same and distinguishes(opcode, w)).guards) if lifted else values


def distinguishes(opcode: Opcode, w: Format) -> bool:
    """Whether the case ra = rb matters with D = 1: both operands then contribute to the same cotangent."""
    may_be_one = not {("ra", "rb"), ("rb", "ra")} & {*opcode.distinct}
    return may_be_one and {bar("a"), bar("b")} <= cotangent_step(opcode, w, False).after.keys()


@cache
def microprograms(
    entry: Entry, w: Format, lifted: bool, same: bool, units: Units = DEFAULT_UNITS
) -> dict[str, Microprogram]:
    """name -> microprogram with D = `lifted`, for all opcodes of an entry: inverses are made together."""
    opcodes = opcodes_of(entry)
    schedules = {o.name: schedule(*trees(o, w, lifted, same, units), w, units) for o in opcodes}
    return {o.name: microprogram(o, schedules[o.name], schedules[o.inverse_name], units.overlapped) for o in opcodes}


@cache
def row_program(opcode: Opcode, w: Format, lifted: bool, same: bool, units: Units) -> tuple[Row, ...]:
    """The rows of an opcode with D = `lifted` on a core whose threads take turns; `same`: ra and rb are one register."""
    drops = cotangent_step(opcode, w, False).drops if lifted else ()
    pairs = [(x, y) for x, y in combinations(REGISTER_FIELDS, 2) if _apart(opcode, x, y)]
    # Where the case ra = rb matters, it has rows of its own.
    pairs += [("a", "b")] if lifted and not same and distinguishes(opcode, w) else []
    return arrange(
        schedule(*trees(opcode, w, lifted, same, units), w, units), w, units, distinct=pairs,
        memory="m" in opcode.reads or "m" in opcode.writes, drops=drops, turns=opcode.turns,
    )  # fmt: skip


def _apart(opcode: Opcode, x: str, y: str) -> bool:
    """Whether the registers of two places differ in all legal instructions."""
    pair = REGISTER_FIELDS[x], REGISTER_FIELDS[y]
    return bool({pair, pair[::-1]} & {*opcode.distinct})


# -----------------------------------------------------------------------------
# Cycles: how long an instruction takes on the co-processor, counted on the schedule that its hardware executes.


@cache
def cycles(
    opcode: Opcode, w: Format, lifted: bool, same: bool, units: Units = DEFAULT_UNITS, addressing: str | None = None
) -> int:
    """Cycles of the opcode with D = `lifted`; `same`: its fields ra and rb name one register; `addressing`: see `Execution`.

    The inverse takes the same number, with equal facts. Operands and checks of overflow do not change the number. `units`: the units of the
    core, see `CORES`.
    """
    return sum(stages(opcode, w, lifted, same, units, addressing).values())


@cache
def stages(
    opcode: Opcode, w: Format, lifted: bool, same: bool, units: Units = DEFAULT_UNITS, addressing: str | None = None
) -> dict[str, int]:
    """Stage -> cycles of the opcode, in the order of the stages; see `cycles`."""
    if units.threads > 1:
        return {"turns": units.threads * len(row_program(opcode, w, lifted, same and lifted, units))}
    return microprograms(opcode.entry, w, lifted, same and lifted, units)[opcode.name].stages_before(addressing)


def addressing(code: Sequence[Instruction], at: int, following: int) -> str | None:
    """The fact `Execution.addressing` of the instruction at the address `at`, if the instruction at `following` is next in the code.

    It does not depend on the direction in which the two instructions are executed.
    """
    if not 0 <= following < len(code):
        return None
    i, after = code[at], code[following]
    if "m" not in after.opcode.reads and "m" not in after.opcode.writes:
        return None
    changed = (field for place, field in REGISTER_FIELDS.items() if place in i.opcode.writes)
    return next((field for field in changed if getattr(i, field) == after.ra), "")


class Execution(NamedTuple):
    """An executed instruction: the facts on which its cycles depend, and the direction."""

    opcode: Opcode
    #: with D = 1
    lifted: bool
    #: its fields ra and rb name one register
    same: bool
    #: +1 forward, −1 backward; backward, the opcode is the inverse of the one in the code
    direction: int
    #: None if the next instruction in this direction addresses no memory. If it does, the field of this instruction
    #: that
    #: names a register that it writes, and that is the other's ra; "" if there is none.
    addressing: str | None = None

    @classmethod
    def at(cls, program: Program, pc: int, lifted: bool, direction: int) -> Execution:
        """The execution of the instruction at an address."""
        i = program.instructions[pc]
        opcode = i.opcode if direction > 0 else program.table.inverse(i.opcode)
        return cls(opcode, lifted, i.ra == i.rb, direction, addressing(program.instructions, pc, pc + direction))

    def cycles(self, w: Format, units: Units = DEFAULT_UNITS) -> int:
        """Cycles of the instruction."""
        return cycles(self.opcode, w, self.lifted, self.same, units, self.addressing)

    def stages(self, w: Format, units: Units = DEFAULT_UNITS) -> dict[str, int]:
        """Stage -> cycles of the instruction."""
        return stages(self.opcode, w, self.lifted, self.same, units, self.addressing)


def total_cycles(counts: Mapping[Execution, int], w: Format, units: Units = DEFAULT_UNITS) -> int:
    """Cycles of a run; `counts` has the number of times that each instruction was executed."""
    return sum(n * execution.cycles(w, units) for execution, n in counts.items())
