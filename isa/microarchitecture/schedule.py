"""An instruction's trees, scheduled: which unit computes which node in which cycle, and which temporary holds it.

Nodes become tasks, one for each or, where nodes differ only in which word of a product or quotient they are, one for all.
Tasks are issued by list scheduling: of those whose operands are ready, the one on which the longest path hangs. Temporaries
are then given out as they fall free. The result is valid by the rules in `microcode`, not optimal.

Deterministic: it depends on the order in which trees are walked, never on that of sets or addresses.
"""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from types import MappingProxyType
from typing import NamedTuple

from retrograd.isa.expr import ONE, ZERO, Expr, place
from retrograd.isa.folds.matching import is_truth, match, product_tested_by, quotient_tested_by
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
from retrograd.isa.words import Format

#: Inverses of branches and rotations want the constant with the opposite sign, and the decoder gives it.
_NEGATED = ZERO - place("imm")


# ---------------------------------------------------------------- tasks


class _Chain(NamedTuple):
    """A product that a sum of its slot takes from the multiplier."""

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
        # Words leave a unit one a cycle. The multiplier's next product must not meet them; the divider has no other place.
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
        # ⌊⌊z⌋ / 2^k⌋ = ⌊z / 2^k⌋: each word of a quotient is a shift of the one with most digits. Of a rounded product or
        # quotient, only words that were rounded in the same place.
        shifts = [node.param for node in task.nodes if isinstance(node.param, int)]
        task.latency = units.latency(task.operation, w, max(shifts, default=0))
    return [*tasks.values()]


def _chained(tasks: Sequence[_Task], kept: Collection[Expr]) -> list[_Task]:
    """The tasks, where an operation is joined with the product that only it reads. `kept`: nodes that are wanted for other reasons."""
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


#: Words held, for each slot, from which on it matters more to free some than to be quick. With fewer, some instructions take longer;
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

    In each cycle, the ready tasks at the head of the longest paths are issued, each to the free slot with the fewest units. While many
    words are held, it is the task that adds the fewest held words. Among equal tasks, the task whose operands were ready first is issued.
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
    #: slots whose third operand is that of a chained sum, by cycle
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
    #: when the words are there whose flags are checked, also of products that are passed on
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
    return node in (ZERO, ONE) or is_truth(node) or (node.op == "and" and all(map(is_truth_word, node.args)))


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
    # A word that only predicates need is none that is computed.
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
