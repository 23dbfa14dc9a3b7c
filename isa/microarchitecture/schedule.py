"""An instruction's trees, scheduled: which unit computes which node in which cycle, and which temporary holds it.

Nodes become tasks, one for each or, where nodes differ only in which word of a product or quotient they are, one for all.
Tasks are issued by list scheduling: of those whose operands are ready, the one on which the longest path hangs. Temporaries
are then given out as they fall free. The result is valid by the rules in `microcode`, not optimal.

Deterministic: it depends on the order in which trees are walked, never on that of sets or addresses.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import NamedTuple

from retrograd.isa.expr import ZERO, Expr, place
from retrograd.isa.folds.matching import match
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
    #: the sum whose overflow flag is the predicate of a guard
    flagged: tuple[Expr, ...] = ()

    @cached_property
    def unit(self) -> Unit:
        return unit_of(self.operation)

    @cached_property
    def computed(self) -> tuple[Expr, ...]:
        """The operands that are results of other tasks, each once."""
        return tuple(x for x in dict.fromkeys(self.operands) if not _is_leaf(x))

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
        if operation in ("mulshift", "mulround"):
            key = operation, rounding(node, w), frozenset(operands)  # x·y = y·x
        elif operation in ("divshift", "divround"):
            key = operation, rounding(node, w), operands
        tasks.setdefault(key, _Task(operation, operands, [])).nodes.append(node)
    for task in tasks.values():
        # ⌊⌊z⌋ / 2^k⌋ = ⌊z / 2^k⌋: each word of a quotient is a shift of the one with most digits. Of a rounded product or
        # quotient, only words that were rounded in the same place.
        shifts = [node.param for node in task.nodes if isinstance(node.param, int)]
        task.latency = units.latency(task.operation, w, max(shifts, default=0))
    return [*tasks.values()]


def _rank(tasks: Sequence[_Task], users: Mapping[Expr, Sequence[_Task]]) -> None:
    """Give each task its priority, and order its results by theirs."""
    for task in reversed(tasks):
        behind = {node: max((user.priority for user in users[node]), default=0) for node in task.nodes}
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
    checked: Collection[Expr],
    units: Units,
) -> dict[Expr, _Ready]:
    """Give each task its cycle and slot; node -> when it is ready, in that order.

    `kept`: the nodes wanted at the end. `checked`: the predicates of guards, of which one is ready in a cycle.
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
    arriving: dict[int, list[Expr]] = {}
    predicates: set[int] = set()
    slots = sorted(range(len(units.slots)), key=lambda slot: len(units.slots[slot]))
    free = {(slot, unit): 0 for slot in slots for unit in units.slots[slot]}

    def place_for(task: _Task, cycle: int, idle: Collection[int]) -> int | None:
        ready = range(cycle + task.latency, cycle + task.latency + len(task.nodes))
        if any(at in predicates for at, x in zip(ready, task.nodes, strict=True) if x in checked or x in task.flagged):
            return None
        for slot in slots:
            able_to = slot in idle and free.get((slot, task.unit), cycle + 1) <= cycle
            if able_to and not any(_Ready(at, slot) in written for at in ready):
                return slot
        return None

    cycle, left = 0, len(tasks)
    while left:
        for x in arriving.pop(cycle, ()):
            for user in users[x]:
                user.waiting -= 1
                if not user.waiting:
                    enable(user)
        idle = {*slots}
        for task in [*able] if held < many else sorted(able, key=holds):
            slot = place_for(task, cycle, idle)
            if slot is None:
                continue
            held += holds(task)
            for x in task.computed:
                reads[x] -= 1
            task.cycle, task.slot = cycle, slot
            free[slot, task.unit] = cycle + task.occupied
            for at, x in enumerate(task.nodes, cycle + task.latency):
                written[_Ready(at, slot)] = x
                arriving.setdefault(at, []).append(x)
                if x in checked or x in task.flagged:
                    predicates.add(at)
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
    sums = _sums(guards, after.values()) if units.flags else {}
    roots = [*(node for node in guards if node not in sums), *after.values()]
    tasks = _tasks(roots, w, units)
    users: dict[Expr, list[_Task]] = {node: [] for task in tasks for node in task.nodes}
    for task in tasks:
        task.flagged = tuple(x for x in task.nodes if x in sums.values())
        for x in task.computed:
            users[x].append(task)
    _rank(tasks, users)
    ready = _issue(tasks, users, set(after.values()), {*guards}, units)
    length = max((at.cycle for at in ready.values()), default=0)

    until = {node: max([at.cycle, *(user.cycle for user in users[node])]) for node, at in ready.items()}
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

    def check(node: Expr) -> GuardCheck:
        if node in sums:
            at = ready[sums[node]]
            return GuardCheck(Flag(at.slot), at.cycle)
        return GuardCheck(source(node), ready[node].cycle if node in ready else 0)

    operations = [
        MicroOperation(
            task.cycle,
            task.unit,
            task.operation,
            tuple(map(source, task.operands)),
            tuple(UnitResult(node, registers[node], ready[node].cycle, until[node]) for node in task.nodes),
            task.occupied,
            task.slot,
        )
        for task in sorted(tasks, key=lambda task: task.cycle)
    ]
    return Schedule(
        tuple(operations),
        MappingProxyType({name: source(node) for name, node in after.items()}),
        tuple(map(check, guards)),
        length,
        max((number % TEMPORARIES for number in registers.values()), default=-1) + 1,
    )


def _sums(guards: Iterable[Expr], after: Iterable[Expr]) -> dict[Expr, Expr]:
    """Predicate that a sum fits -> the sum, if both are computed and the predicate is no operand."""
    guards, after = [*guards], [*after]
    cover = _cover([*guards, *after])
    used = {*after, *(x for _, operands in cover.values() for x in operands)}
    known = {found: node for node, found in cover.items()}
    found: dict[Expr, Expr] = {}
    for node in guards:
        if node in cover and node not in used:
            operation, operands = cover[node]
            for name, fits in FLAGGED.items():
                if operation == fits and (name, operands) in known:
                    found[node] = known[name, operands]
    # A sum that only predicates need is none that is computed.
    needed = _cover([*(node for node in guards if node not in found), *after])
    return {node: total for node, total in found.items() if total in needed}


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
