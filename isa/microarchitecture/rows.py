"""Rows: the execution of an instruction on a core whose threads take turns.

    a turn of a thread = one row:  read x, y, z;  one micro-operation, or z ± x·y;  write one word

A thread has its next turn after the result of its last one is written, so each row may read the result of the row
before it. There is no bypass. A result is written into a temporary, or straight into the register, memory word or BR
that it belongs to. The second is allowed from the row `decides` on: all guards have been tested in this row or
before, and a trap prevents its writes and those of later rows.

`arrange` makes rows of a schedule. It keeps the micro-operations and orders them anew:

1. First come the micro-operations that guards depend on; a trap must be known before the first write.
2. A word is written over when no later row reads its old value. Where two words wait for each other, one is first
saved in a temporary.
3. Port z reads the old value of a register or memory word that is written; so a selection, which has three operands,
writes a temporary or z's own place.

With two slots, a turn executes two micro-operations, neither of which reads the other's result:

    turn: both slots read the old words;  each writes one word;  the two words stand in different banks

The file of a thread has two banks with a write port each, `banks`: words of registers in the first, their cotangents
in the second, temporaries in both. The second slot has a logic unit and two operands. It writes temporaries and
registers; port x then reads the register's old word, so the row is `place op y`, or copies y.

Trap: a row that writes BR or turns the direction is not the last, since the last row already fetches the next
instruction.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import permutations
from typing import NamedTuple

from retrograd.isa.entries import BAR, REGISTER_FIELDS
from retrograd.isa.expr import Expr
from retrograd.isa.microarchitecture.micro_operations import (
    FLAGGED,
    Flag,
    Input,
    Literal,
    MicroOperation,
    Passing,
    Schedule,
    Source,
    Temporary,
    Unit,
    Units,
    unit_of,
)
from retrograd.isa.words import Format

#: Temporaries of a thread. With two banks, the second half of them stands in the second bank.
THREAD_TEMPORARIES = 128
#: temporaries of a bank, where there are two
BANK_TEMPORARIES = THREAD_TEMPORARIES // 2
#: x op y = y op x
_COMMUTATIVE = frozenset({"add", "and", "or", "xor", "eq", "ne", "mulshift", "mulround", "addfits"})
#: operands that stand in registers beside the files, and the ports that can read them
_PORTS: dict[Source, str] = {Input("br"): "x", Input("imm"): "xy", Input("imm", True): "y"}


@dataclass(frozen=True)
class RowCheck:
    """A predicate of a guard that is known at the end of a row.

    kind: "result": bit 0 of the result; "zero": its complement; "sum", "unit": whether the sum, or the product or
    quotient, fits; "chain": whether the sum of z and the product does.
    """

    kind: str
    guard: int


@dataclass(frozen=True)
class Row:
    """One turn of a thread. `old`, `operands`: what the ports z and x, y, z read."""

    #: the micro-operation that begins, "" for none, and the node that it computes
    operation: str = ""
    operands: tuple[Source, ...] = ()
    node: Expr | None = field(default=None, repr=False)
    #: "add" or "sub": z + product or z − product is written
    chain: str = ""
    #: the unit whose result is written; a quotient is written some rows after it begins
    writer: Unit | None = None
    #: the node that is written
    written: Expr | None = field(default=None, repr=False)
    #: the temporary or the place that is written
    temporary: int | None = None
    place: str | None = None
    checks: tuple[RowCheck, ...] = ()
    #: of the first row: the word at ra + imm is addressed, which is known before the row
    addresses: bool = False
    #: a trap is known here at the latest, and prevents the writes of this row
    decides: bool = False
    #: from the row that decides: a cotangent, which port z reads, is discarded; BR := 0; the direction is reversed
    drops: bool = False
    lands: bool = False
    turns: bool = False
    #: what the second slot does in this turn: no mark of the rows above, and only results of the logic unit
    second: Row | None = None

    @property
    def slots(self) -> tuple[Row, ...]:
        """The row of each slot that does something, that of the first slot always."""
        return (self, self.second) if self.second else (self,)

    @property
    def bank(self) -> int | None:
        """The bank of the file that the slot writes into; None for no word of the file."""
        if self.temporary is not None:
            return self.temporary // BANK_TEMPORARIES
        return _bank(self.place)

    def __str__(self) -> str:
        target = self.place or (f"t{self.temporary}" if self.temporary is not None else "")
        marks = [f"{check.kind} {check.guard}" for check in self.checks]
        marks += [name for name in ("addresses", "decides", "drops", "lands", "turns") if getattr(self, name)]
        name = f"{self.chain} {self.operation}".strip()
        issued = f"{name}({', '.join(map(str, self.operands))})" if self.operation else "–"
        text = f"{target} = {issued}" * bool(target) + issued * (not target) + "".join(f" [{mark}]" for mark in marks)
        return f"{text} ‖ {self.second}" if self.second else text


def _bank(place: str | None) -> int | None:
    """The bank of a place: words of registers, their cotangents; None for places beside the file."""
    name = (place or "").removesuffix(BAR)
    return int(place != name) if name in REGISTER_FIELDS else None


@dataclass(eq=False)
class _Node:
    """A micro-operation with one result. Operands are sources, or nodes whose values they are."""

    operation: str
    operands: list[Source | _Node]
    node: Expr | None = None
    #: rows from its begin to its write, counted from 1
    latency: int = 1
    checks: list[RowCheck] = field(default_factory=list)
    chain: str = ""
    #: the place whose new value it is
    place: str | None = None
    drops: bool = False
    #: the row that writes it, and where the value then stands
    written: int | None = None
    direct: bool = False
    temporary: int | None = None

    @property
    def unit(self) -> Unit:
        return unit_of(self.operation)

    def reads(self, places: Collection[str]) -> bool:
        return any(isinstance(x, Input) and x.place in places for x in self.operands)


def arrange(
    schedule: Schedule, w: Format, units: Units, *, distinct: Collection[tuple[str, str]], memory: bool,
    drops: Collection[str], turns: bool,
) -> tuple[Row, ...]:  # fmt: skip
    """The rows of a schedule. `distinct`: pairs of places, such as ("d", "a"), that are never one register; `memory`:
    a word is addressed; `drops`: cotangents that are discarded; `turns`: the direction is reversed.

    Raises ValueError for a schedule that rows cannot express.
    """
    return _Arrangement(schedule, w, units, distinct, memory, drops, turns).rows()


class _Issued(NamedTuple):
    """A slot in a turn: its row, the operands, whose temporaries are not chosen yet, and the node that it writes."""

    row: Row
    operands: Sequence[Source | _Node] = ()
    node: _Node | None = None


#: temporary -> (cycle from which it can be read, node)
_Values = dict[int, list[tuple[int, _Node]]]


class _Arrangement:
    def __init__(
        self, schedule: Schedule, w: Format, units: Units, distinct: Collection[tuple[str, str]], memory: bool,
        drops: Collection[str], turns: bool,
    ) -> None:  # fmt: skip
        self._distinct = {frozenset(pair) for pair in distinct}
        self._turns, self._memory = turns, memory
        self._nodes, values = _nodes(schedule, w, units)
        after = dict(schedule.after)
        self._lands = after.get("br") == Literal(0)
        if self._lands:
            del after["br"]
        for name, source in after.items():
            if len([x for x in self._aliases(name) if x in after]) > 1:
                raise ValueError(f"two words for the register of {name}")
            made = _at(values, source.number, schedule.length) if isinstance(source, Temporary) else source
            self._take(name, made, name in drops)
        self._pending = [n for node in self._nodes for n in self._fitted(node)]
        self._cone = _cone(n for n in self._nodes if n.checks)
        self._units = units
        #: of each turn, what the slots do
        self._made: list[list[_Issued]] = []
        #: a quotient on its way, and the turn in which it is written
        self._dividing: tuple[_Node, int] | None = None

    def _take(self, name: str, source: Source | _Node, drops: bool) -> None:
        """Let the place have its new value: of a node, or by a row that copies it."""
        tested = [n for n in self._nodes if n.checks]
        if (
            isinstance(source, _Node)
            and source.place is None
            and not drops
            and not (name == "br" and source.unit is not Unit.LOGIC)
        ):
            source.place = name
        elif source == Literal(0) and len(tested) == 1 and _tests_zero(tested[0]) and not self._used(tested[0]):
            # A guard x = 0 holds if x ≠ 0 is 0, and this 0 is the new value.
            tested[0].operation, tested[0].checks = "ne", [replace(c, kind="zero") for c in tested[0].checks]
            tested[0].node, tested[0].place, tested[0].drops = None, name, drops
        else:
            copy = _copy(source)
            copy.place, copy.drops = name, drops
            self._nodes.append(copy)

    def _used(self, node: _Node) -> bool:
        return node.place is not None or any(node in other.operands for other in self._nodes)

    def _fitted(self, node: _Node) -> list[_Node]:
        """The node with operands that its ports can read, and rows before it that copy the others."""
        out: list[_Node] = []
        if node.operation in _COMMUTATIVE and not _fits(node.operands):
            x, y, *others = node.operands
            node.operands = [y, x, *others] if _fits([y, x]) else node.operands
        for k, x in enumerate(node.operands):
            if not isinstance(x, _Node) and "xyz"[k] not in _PORTS.get(x, "xyz"):
                out.append(_copy(x))
                node.operands[k] = out[-1]
        return [*out, node]

    # ---------------------------------------------------------------- rows

    def rows(self) -> tuple[Row, ...]:
        """The rows, in order."""
        while self._pending or self._dividing:
            quotient = None
            if self._dividing and self._dividing[1] == len(self._made):
                quotient, self._dividing = self._dividing[0], None
            self._turn(quotient, self._begun(quotient))
        return self._marked()

    def _begun(self, quotient: _Node | None) -> list[_Node | None]:
        """The node that each slot begins in this turn, in which the quotient is written."""
        two = len(self._units.slots) > 1
        self._heights: dict[_Node, int] = {}
        if quotient:
            # With two slots, the first may begin the next division.
            ready = [n for n in self._pending if two and n.unit is Unit.DIVIDER and self._able(n)]
            beside = [quotient, *ready[:1]]
            return [ready[0] if ready else None, self._best(beside, quotient) if two else None]
        one = self._best([])
        if one is None:
            if self._dividing:
                return [None]
            able = [n for n in self._pending if self._able(n)]
            if not able:
                raise ValueError("rows wait for each other")
            for pair in permutations(able, 2) if two else ():
                if self._fit(pair, pair) and all(self._urgency(n, pair) is not None for n in pair):
                    return [*pair]
            one = self._saved(able[0])
        other = self._best([one]) if two else None
        if other and not self._fit((one, other), (one, other)):
            return [other, one]
        return [one, other]

    def _best(self, beside: Sequence[_Node], first: _Node | None = None) -> _Node | None:
        """The node to begin next that fits beside the others of the turn; `first`: what the first slot writes."""
        found = []
        for k, node in enumerate(self._pending):
            turn = (*beside, node)
            pairs = [(first, node)] if first else [turn, turn[::-1]]
            if node in beside or (beside and not any(self._fit(pair, turn) for pair in pairs)):
                continue
            urgency = self._urgency(node, beside)
            if urgency is not None:
                # With one slot, the order of the schedule is that of the longest paths.
                height = self._height(node) if len(self._units.slots) > 1 else 0
                found.append((urgency, -height, k, node))
        return min(found)[-1] if found else None

    def _urgency(self, node: _Node, beside: Sequence[_Node]) -> int | None:
        """The lower, the earlier it begins; None: not in this turn. `beside`: nodes of the turn."""
        if not self._able(node):
            return None
        free, writes = node.place is None or not self._may_be_direct(node), self._writes(node, beside)
        if node in self._cone:
            return 0 if free else 1
        if node.place == "br" and writes:
            return 2
        if node.place is None:
            return 3
        return 4 if writes else 5 if free else None

    def _height(self, node: _Node) -> int:
        """Turns from its begin to the end, along the longest path."""
        if node not in self._heights:
            behind = max((self._height(n) for n in self._pending if node in n.operands), default=0)
            self._heights[node] = node.latency + behind
        return self._heights[node]

    def _fit(self, pair: Sequence[_Node], turn: Sequence[_Node]) -> bool:
        """Whether two nodes can be in the two slots. `turn`: all nodes of the turn."""
        second = pair[1]
        into = [_bank(n.place) if self._writes(n, turn) else None for n in pair]
        if into[0] == into[1] is not None or second.latency > 1 or second.chain or second.drops:
            return False
        constants = {x for n in pair for x in n.operands if x in (Input("imm"), Input("imm", True))}
        if not self._units.able(1, second.operation) or len(constants) > 1:
            return False
        onto = into[1] is not None and _onto(second, second.operands) is not None
        return onto or not self._writes(second, turn)

    def _able(self, node: _Node) -> bool:
        """All operands are written, and the divider is free."""
        if node.unit is Unit.DIVIDER and self._dividing:
            return False
        return all(x.written is not None for x in node.operands if isinstance(x, _Node))

    def _may_be_direct(self, node: _Node) -> bool:
        """Whether the place can be written by the node's row at all; port z reads the place's old value."""
        return len(node.operands) < 3 or node.place == "br" or node.operands[2] == Input(str(node.place))

    def _writes(self, node: _Node, beside: Sequence[_Node] = ()) -> bool:
        """Whether the node's row may write its place: no guard and no reader of the old value is left. `beside`: nodes
        of the same turn, which read old values."""
        if node.place is None:
            return False
        place, others = node.place, [n for n in self._pending if n is not node and n not in beside]
        if not self._may_be_direct(node) or self._untested() - {node, *beside} or any(n.drops for n in others):
            return False
        return not any(n.reads(self._aliases(place)) for n in others)

    def _untested(self) -> set[_Node]:
        left = {n for n in self._pending if n.checks}
        return left | ({self._dividing[0]} if self._dividing and self._dividing[0].checks else set())

    def _aliases(self, place: str) -> list[str]:
        """The places that may be this one."""
        own, kind = place.removesuffix(BAR), BAR * place.endswith(BAR)
        if own not in REGISTER_FIELDS:
            return [place]
        return [x + kind for x in REGISTER_FIELDS if x == own or frozenset((x, own)) not in self._distinct]

    def _saved(self, node: _Node) -> _Node:
        """A row that saves an old value that the node would write over, for all that still read it."""
        others = [n for n in self._pending if n is not node]
        name = next(name for name in self._aliases(str(node.place)) if any(n.reads([name]) for n in others))
        save = _copy(Input(name))
        for n in others:
            n.operands = [save if x == Input(name) else x for x in n.operands]
        self._pending.insert(0, save)
        return save

    def _turn(self, quotient: _Node | None, begun: Sequence[_Node | None]) -> None:
        """A turn: each slot begins a node; it writes that node, or the first slot the quotient."""
        for node in begun:
            if node:
                self._pending.remove(node)
        first, *others = begun
        written = [quotient or (first if first and first.latency == 1 else None), *others]
        for node in written:
            if node:
                node.direct = self._writes(node)
        turn: list[_Issued] = []
        for node, ends in zip(begun, written, strict=True):
            row, read = Row(), list[Source | _Node]()
            if node:
                row = Row(node.operation, (), node.node, node.chain)
                # A value that stands in its place is read there.
                read = [Input(str(x.place)) if isinstance(x, _Node) and x.direct else x for x in node.operands]
                if node.latency > 1:
                    self._dividing = node, len(self._made) + node.latency - 1
                if turn and node.direct:
                    read = _onto(node, read) or read
            turn.append(_Issued(self._write(ends, row) if ends else row, read, ends))
        self._made.append(turn if begun[-1] else turn[:1])

    def _write(self, node: _Node, row: Row) -> Row:
        """The row with the write of the node's result."""
        if node.drops and not node.direct:
            raise ValueError("a cotangent is discarded before all guards are tested")
        if node.place is not None and not node.direct:
            copy = _copy(node)
            copy.place, node.place = node.place, None
            self._pending.append(copy)
        node.written = len(self._made)
        row = replace(row, writer=node.unit, written=node.node, checks=tuple(node.checks))
        return replace(row, place=node.place, drops=node.drops) if node.direct else row

    def _marked(self) -> tuple[Row, ...]:
        """The rows with temporaries, and with the marks of the row that decides and of changes of BR and of the
        direction.
        """
        self._number()
        rows = []
        for turn in self._made or [[_Issued(Row())]]:
            each = [
                replace(
                    one.row,
                    operands=tuple(map(_source, one.operands)),
                    temporary=one.node.temporary if one.node and not one.node.direct else None,
                )
                for one in turn
            ]
            rows.append(replace(each[0], second=each[1] if len(each) > 1 else None))
        tested = max((k for k, r in enumerate(rows) if any(one.checks for one in r.slots)), default=0)
        decides = next((k for k, r in enumerate(rows) if any(one.place for one in r.slots)), tested)
        if tested > decides:
            raise ValueError("a guard is tested after a write")
        rows[decides] = replace(rows[decides], decides=True, lands=self._lands, turns=self._turns)
        if rows[-1].place == "br" or rows[-1].turns:
            rows.append(Row())
        rows[0] = replace(rows[0], addresses=self._memory)
        return tuple(rows)

    def _number(self) -> None:
        """Give each value the lowest temporary of its bank that is free from its turn to its last reader's."""
        until = {
            x: k for k, turn in enumerate(self._made) for one in turn for x in one.operands if isinstance(x, _Node)
        }
        room = BANK_TEMPORARIES if len(self._units.slots) > 1 else THREAD_TEMPORARIES
        last: list[list[int]] = [[] for _ in self._units.slots]
        for k, turn in enumerate(self._made):
            taken = {_bank(one.node.place) for one in turn if one.node and one.node.direct}
            for slot, one in enumerate(turn):
                if not one.node or one.node.direct:
                    continue
                bank = slot if slot not in taken else 1 - slot
                number = next((number for number, row in enumerate(last[bank]) if row <= k), len(last[bank]))
                last[bank][number : number + 1] = [until.get(one.node, k)]
                one.node.temporary = bank * room + number
        if any(len(each) > room for each in last):
            raise ValueError(f"{max(map(len, last))} temporaries")


def _source(x: Source | _Node) -> Source:
    if isinstance(x, _Node):
        assert x.temporary is not None
        return Temporary(x.temporary)
    return x


def _copy(source: Source | _Node) -> _Node:
    zero: Source | _Node = Literal(0)
    return _Node("or", [zero, source] if source == Input("imm", True) else [source, zero])


def _onto(node: _Node, operands: Sequence[Source | _Node]) -> list[Source | _Node] | None:
    """The operands of a node in the second slot that writes its place: the first is the old word, or 0 for a copy of
    the second; None for another node.
    """
    copies, old = node.operation == "or" and Literal(0) in operands, Input(str(node.place))
    found = [operands, operands[::-1]] if node.operation in _COMMUTATIVE else [operands]
    return next(([*x] for x in found if x[0] == (Literal(0) if copies else old) and _fits(x)), None)


def _fits(operands: Iterable[Source | _Node]) -> bool:
    return all(isinstance(x, _Node) or p in _PORTS.get(x, "xyz") for p, x in zip("xyz", operands, strict=False))


def _tests_zero(node: _Node) -> bool:
    """Whether the node is x = 0, and a guard on nothing else."""
    return node.operation == "eq" and Literal(0) in node.operands and [c.kind for c in node.checks] == ["result"]


def _cone(roots: Iterable[_Node]) -> set[_Node]:
    """The nodes and all that they depend on."""
    waiting, found = [*roots], set[_Node]()
    while waiting:
        node = waiting.pop()
        if node not in found:
            found.add(node)
            waiting += [x for x in node.operands if isinstance(x, _Node)]
    return found


def _nodes(schedule: Schedule, w: Format, units: Units) -> tuple[list[_Node], _Values]:
    """A node for each result of the schedule, with the guards on it; and the values of temporaries."""
    out: list[_Node] = []
    arrivals: _Values = {}
    flagged: dict[tuple[Flag, int], _Node] = {}
    #: a product -> the row that computes it, with the sum to which it is passed
    chains: dict[tuple[int, int], _Node] = {}
    for m in schedule.operations:
        read = [_at(arrivals, x.number, m.cycle) if isinstance(x, Temporary) else x for x in m.operands]
        for result in m.results:
            if read[-1] == Passing():
                node = chains[m.slot, m.cycle]
                node.operands.append(read[0])
                node.chain = m.operation
            else:
                node = _Node(m.operation, [*read], result.node, _latency(m, result.node, w, units))
                out.append(node)
            if result.register is None:
                chains[m.slot, result.ready - 1] = node
            else:
                arrivals.setdefault(result.register, []).append((result.ready, node))
            if m.unit is not Unit.LOGIC:
                flagged[Flag(m.slot, True), result.ready] = node
        if m.operation in FLAGGED:
            flagged[Flag(m.slot), m.cycle + 1] = node
    for check in schedule.checks:
        match check.predicate:
            case Temporary(number):
                _at(arrivals, number, check.cycle).checks.append(RowCheck("result", check.guard))
            case Flag(_, unit):
                found = flagged[check.predicate, check.cycle]
                found.checks.append(RowCheck("unit" if unit else "chain" if found.chain else "sum", check.guard))
            case Literal():
                pass
            case Input() | Passing():
                raise ValueError("a guard on a word as it is")
    return out, arrivals


def _latency(m: MicroOperation, node: Expr, w: Format, units: Units) -> int:
    shift = node.param if isinstance(node.param, int) else 0
    return units.latency(m.operation, w, shift)


def _at(arrivals: _Values, number: int, cycle: int) -> _Node:
    """The value of a temporary in a cycle."""
    return max((a for a in arrivals[number] if a[0] <= cycle), key=lambda a: a[0])[1]
