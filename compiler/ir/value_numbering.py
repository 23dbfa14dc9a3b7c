"""Cells: what a Within computes, cut into the parts that stand for one value each.

    (Local t, ld t x, Local u, fmul u t z)  =  cell t: (Local t, ld t x);  cell u: (Local u, fmul u t z), after t

Each cell gives values to locals of its own, from other cells and from outside, and changes nothing else. So cells may
stand in any order in which each comes after those that it reads. Statements that change more, and what must not change
places with them, are one cell, the tail. Equal cells have equal numbers, whatever their locals are called: the
values that they stand for are equal while nothing that they read is changed.
Source: value numbering (J. Cocke and J. T. Schwartz, Programming Languages and Their Compilers, 1970).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field

from retrograd.compiler.ir.effects import (
    NOTHING,
    Footprint,
    Footprints,
    can_trap,
    facts,
    locals_left,
    operand,
    union,
)
from retrograd.compiler.ir.rewriting import Numbering
from retrograd.compiler.ir.statements import (
    Block,
    Call,
    Check,
    Const,
    Delocal,
    External,
    For,
    If,
    Local,
    Module,
    Node,
    Op,
    Var,
    While,
    Within,
)
from retrograd.isa.entries import Function


@dataclass(eq=False, slots=True)
class Cell:
    """A part of a compute block: its locals, its statements in order, what it needs."""

    locals: list[Var] = field(default_factory=list)
    nodes: list[tuple[int, Node]] = field(default_factory=list)
    #: what its statements read and write, and what of that lies outside the compute block
    parts: list[Footprint] = field(default_factory=list)
    footprint: Footprint = NOTHING
    #: the numbers of all cells that come before it
    needs: set[int] = field(default_factory=set)
    number: int = -1

    @property
    def statements(self) -> Block:
        return tuple([node for _, node in self.nodes])

    @property
    def weight(self) -> int:
        """How many statements it saves to compute it once less; 0 for bare locals."""
        return len(self.nodes) - len(self.locals)

    @property
    def opaque(self) -> bool:
        """It changes more than its own locals, and so stands for no value: only a copy right behind undoes it."""
        return bool(self.footprint.writes or self.footprint.stores)


class Cells:
    """Compute blocks cut into cells, with one numbering for a whole module."""

    def __init__(self, module: Module, footprints: Footprints) -> None:
        self._module = module
        self._footprints = footprints
        self._numbers: dict[Hashable, int] = {}
        self._known: dict[int, tuple[Block, list[Cell]]] = {}

    def of(self, compute: Block) -> list[Cell]:
        """The cells in an order that computes them; one opaque cell if it cannot be cut; none if the host looks on."""
        found = self._known.get(id(compute))
        if found is None:
            cut = _Cut(self._footprints)
            if cut.cut(compute):
                self._number(cut)
                cells = cut.order
            else:
                cells = self._whole(compute)
            found = self._known[id(compute)] = (compute, cells)
        return found[1]

    def safe(self, cell: Cell) -> bool:
        """Whether no words make the cell trap."""
        return is_safe(cell.statements, self._module, self._footprints)

    def _number(self, cut: _Cut) -> None:
        numbering = Numbering()
        feeds: dict[Cell, set[Var]] = {}
        for cell in cut.order:
            cell.footprint = union(cell.parts, cut.cells)
            feeds[cell] = feed = set(cut.reads[cell])
            for var in cut.reads[cell]:
                source = cut.cells.get(var)
                if source is not None and source is not cell:
                    cell.needs |= source.needs | {source.number}
                    feed |= feeds[source]
            if cell.footprint.loads:
                # An index is checked before it is used.
                for check in cut.checks:
                    if check.nodes[0][0] < cell.nodes[-1][0] and not feed.isdisjoint(cut.reads[check]):
                        cell.needs |= check.needs | {check.number}
            numbering.restart()
            # Bare locals are zero, all of them, and stay apart: each is there to be changed.
            cell.number = self._intern(numbering.block(cell.statements) if cell.weight else cell)
            numbering.known.update({var: (cell.number, i) for i, var in enumerate(cell.locals)})

    def _whole(self, compute: Block) -> list[Cell]:
        footprint = self._footprints.block(compute)
        own = frozenset(locals_left(compute))
        footprint = footprint._replace(reads=footprint.reads - own, writes=footprint.writes - own)
        if footprint.barrier:
            return []
        cell = Cell(list(locals_left(compute)), list(enumerate(compute)), footprint=footprint)
        cell.number = self._intern(("whole", Numbering().block(compute)))
        return [cell]

    def _intern(self, key: Hashable) -> int:
        return self._numbers.setdefault(key, len(self._numbers))


class _Cut:
    """One compute block on its way into cells."""

    def __init__(self, footprints: Footprints) -> None:
        self.footprints = footprints
        #: local -> the cell that gives it its value
        self.cells: dict[Var, Cell] = {}
        self.order: list[Cell] = []
        self.reads: dict[Cell, set[Var]] = {}
        self.checks: list[Cell] = []
        #: what another cell has read, and so must not change any more
        self.closed: set[Cell] = set()
        #: what changes more than locals of its own, and what must not change places with that
        self.tail: Cell | None = None
        self.tail_footprint = NOTHING

    def cut(self, compute: Block) -> bool:
        """Fill `order`; False if a cell would change after another has read it, or the host looks on."""
        for position, node in enumerate(compute):
            if isinstance(node, Local):
                self.cells[node.var] = self.new(position, node, node.var)
                continue
            footprint = self.footprints.of(node)
            if footprint.barrier or isinstance(node, Delocal):
                return False
            if self.belongs_to_tail(node, footprint):
                self.tail_footprint |= footprint
                if self.tail is None:
                    self.tail = self.new(position, node)
                else:
                    self.tail.nodes.append((position, node))
                cell = self.tail
            elif isinstance(node, Check):
                cell = self.new(position, node)
                self.checks.append(cell)
            else:
                cell = min((self.cells[var] for var in footprint.writes), key=lambda found: found.nodes[0][0])
                if cell in self.closed:
                    return False
                cell.nodes.append((position, node))
            for var in footprint.writes:
                other = self.cells.get(var, cell)
                if other is not cell:
                    if other in self.closed:
                        return False
                    self.merge(cell, other)
            self.reads[cell] |= footprint.reads
            for var in footprint.reads:
                source = self.cells.get(var, cell)
                if source is not cell:
                    self.closed.add(source)
            cell.parts.append(footprint)
        self.order.sort(key=lambda cell: cell.nodes[-1][0])
        return True

    def belongs_to_tail(self, node: Node, footprint: Footprint) -> bool:
        """Whether it changes more than cells, or what does must stay before it."""
        if footprint.stores or not footprint.writes <= self.cells.keys():
            return True
        if not footprint.writes and not isinstance(node, Check):
            return True
        return self.tail is not None and not self.tail_footprint.commutes(footprint)

    def new(self, position: int, node: Node, *born: Var) -> Cell:
        cell = Cell([*born], [(position, node)])
        self.order.append(cell)
        self.reads[cell] = set()
        return cell

    def merge(self, cell: Cell, other: Cell) -> None:
        """A statement writes locals of both: they are one cell."""
        cell.nodes = sorted([*cell.nodes, *other.nodes], key=lambda item: item[0])
        # In the order of the block, whatever was merged with what: equal cells then have their locals in the same order.
        cell.locals = [node.var for _, node in cell.nodes if isinstance(node, Local)]
        cell.parts += other.parts
        self.reads[cell] |= self.reads.pop(other)
        self.cells.update(dict.fromkeys(other.locals, cell))
        self.order.remove(other)


def is_safe(block: Iterable[Node], module: Module, footprints: Footprints, zero: Iterable[Var] = ()) -> bool:
    """Whether no words make the block trap or run on for ever. `zero`: variables that are zero where it begins."""
    w = module.format
    fresh = set(zero)
    for node in block:
        match node:
            case Op(opcode, d, a, _, imm):
                if can_trap(opcode, w):
                    return False
                f = facts(opcode)
                if f.memory:
                    base = a.word if isinstance(a, Const) else None
                    if base is None or not 0 <= w.signed(base) + imm < module.memory:
                        return False
                entry = opcode.entry
                sums = isinstance(entry, Function) and entry.checked and opcode.update != "xor"
                # Zero plus anything fits.
                if sums and not (d in fresh and opcode.update == "add"):
                    return False
                fresh.difference_update(x for x in (operand(node, p) for p in f.written) if isinstance(x, Var))
            case Local(var, checked):
                if checked:
                    return False
                fresh.add(var)
            case Delocal(var, checked):
                if checked:
                    return False
                fresh.discard(var)
            case Within(compute, body):
                # The sums of compute⁻¹ lead back to where compute began, and fit there.
                if not is_safe(compute, module, footprints, fresh) or not is_safe(body, module, footprints):
                    return False
                fresh.clear()
            case If(test, then, orelse, post):
                if test != post or not {test.a, test.b}.isdisjoint(footprints.of(node).writes):
                    return False
                if not all(is_safe(branch, module, footprints, fresh) for branch in (then, orelse)):
                    return False
                fresh.clear()
            case For(body=body):
                if not is_safe(body, module, footprints):
                    return False
                fresh.clear()
            case While() | Call() | Check() | External():
                return False
    return True
