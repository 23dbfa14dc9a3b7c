"""Dead-code elimination: computations that nothing depends on are removed.

    Local t; t += u; t −= v; … Delocal t   →  nothing           if only updates of dead locals read t
    Within((), b)  →  b;   Within(c, ())   →  nothing           if c promises nothing
    If t: (), else: (), post t; For: ()    →  nothing
    x += 0                                 →  nothing

A local is alive if a promise, a test, a bound, a call or memory depends on it, directly or through updates of other
locals. Correct because the value of any other local reaches nothing, and it is zero again where it is freed.
Traps: those of the removed statements disappear. A `Check`, a checked `Local` or `Delocal` is never removed, and its
operands are alive. Cost: none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import replace
from enum import Enum

from retrograd.compiler.ir import statements as ir
from retrograd.compiler.ir.effects import AccessAnalysis, clobbered_between, locals_left, private_regions
from retrograd.compiler.ir.instruction_selection import (
    ASSUMED_TRIPS,
    code_size,
    constant_value,
    expected_trips,
    facts,
    is_rounded,
    operand,
)
from retrograd.compiler.ir.traversal import bodies, map_blocks, map_bodies, map_children, operands_of, rebuilt, walk
from retrograd.compiler.ir.value_numbering import ValueNumbering
from retrograd.isa.table import TABLE


def eliminate_dead_code(module: ir.Module) -> ir.Module:
    """Drop dead locals, and the structures that are left empty."""
    accesses = AccessAnalysis(module)

    def rewrite(body: ir.Block) -> ir.Block:
        dead = _dead_locals(body)
        return map_blocks(body, lambda block: _drop(block, dead, module, accesses))

    return map_bodies(module, rewrite)


def _dead_locals(body: ir.Block) -> frozenset[ir.Var]:
    """The locals that no promise, test, bound, call or memory depends on, directly or through other locals."""
    born: set[ir.Var] = set()
    needed: list[ir.Operand | None] = []
    sources: dict[ir.Var, list[ir.Operand | None]] = {}
    for node in walk(body):
        match node:
            case ir.Op(opcode, d, a, b) if (
                facts(opcode).written == ("d",) and isinstance(d, ir.Var) and not facts(opcode).stores
            ):
                sources.setdefault(d, []).extend((a, b))
            case ir.Local(var, checked) | ir.Delocal(var, checked):
                born.add(var)
                if checked:
                    needed.append(var)
            case ir.Op() | ir.Within() | ir.If() | ir.While() | ir.For() | ir.Call() | ir.Check() | ir.External():
                needed.extend(operands_of(node))
    for var, operands in sources.items():
        if var not in born:
            needed.extend(operands)
    alive: set[ir.Var] = set()
    while needed:
        x = needed.pop()
        if isinstance(x, ir.Var) and x not in alive:
            alive.add(x)
            if x in born:
                needed.extend(sources.get(x, ()))
    return frozenset(born - alive)


def _drop(block: ir.Block, dead: frozenset[ir.Var], module: ir.Module, accesses: AccessAnalysis) -> ir.Block:
    out: list[ir.Node] = []
    for node in block:
        match node:
            case ir.Op(opcode, d):
                written = facts(opcode).written
                kept = (module.recorded and is_rounded(opcode)) or constant_value(node, module.format) != 0
                if not (written == ("d",) and d in dead) and kept:
                    out.append(node)
            case ir.Local(var) | ir.Delocal(var):
                if var not in dead:
                    out.append(node)
            case ir.Within(compute, body):
                if not compute:
                    out.extend(body)
                elif body or _promises(compute, accesses):
                    out.append(node)
            case ir.If(test, then, orelse, post):
                if then or orelse or test != post:
                    out.append(node)
            case ir.For(body=body):
                if body:
                    out.append(node)
            case ir.While() | ir.Call() | ir.Check() | ir.External():
                out.append(node)
    return rebuilt(block, out)


def _promises(block: Iterable[ir.Node], accesses: AccessAnalysis) -> bool:
    return any(f.promises or f.barrier for f in map(accesses.of, block))


# -----------------------------------------------------------------------------
# Erasure of routines: temporaries are erased in place of being uncomputed. This gives the irreversible baseline.
#
#     Within(c, b)  →  c; b; erase v; Delocal v; erase w; Delocal w …        v, w …: the locals that c leaves to b
#
# Conditions: c writes only its own locals, and arrays that are accessed in this `Within` alone and that b leaves unchanged. Words of such
# arrays are exchanged into a register and erased there, if that takes fewer steps than c⁻¹. Where c writes more, the
# values of c (`ir/value_numbering.py`) that meet the condition are erased around a `Within` of the others.
# Inner Withins come first. A block that may run backward is left as it is: a procedure that is called backward is erased in a
# copy of its inverse, and code inside a remaining compute block is not changed.
# Correct forward: no value that is read later is erased. The result cannot run backward, and cannot be inverted.
# Traps: with `strict` on, the first `erase` traps. Cost: erased bits in place of steps.

#: words of an array that are erased one after the other; more are in a loop
_IN_A_ROW = 16


class _Version(Enum):
    """The version of a procedure that a call needs; the value is added to its name."""

    ERASED = ""
    ERASED_INVERSE = "_inverse"
    REVERSIBLE = "_reversible"


def erase_routines(module: ir.Module, names: Collection[str] | None = None, *, temporaries: bool = True) -> ir.Module:
    """The module with its Withins erased: those with these names, all by default; temporaries have none."""
    return _Eraser(module, names, temporaries).module()


class _Eraser:
    def __init__(self, module: ir.Module, names: Collection[str] | None, temporaries: bool) -> None:
        self.source = module
        self.names = names
        self.temporaries = temporaries
        self.accesses = AccessAnalysis(module)
        self.numbering = ValueNumbering(module, self.accesses)
        self.labels: dict[tuple[str, _Version], str] = {}
        self.todo: list[tuple[str, _Version]] = []
        #: how often each region is named, in all
        self.named = _names(bodies(module))
        self.own = private_regions(module)

    def module(self) -> ir.Module:
        entry = self.erase(self.source.entry)
        procedures = {}
        while self.todo:
            name, version = key = self.todo.pop()
            procedure = self.source.procedures[name]
            match version:
                case _Version.ERASED:
                    body = self.erase(procedure.body)
                case _Version.ERASED_INVERSE:
                    body = self.erase(ir.invert(procedure.body))
                case _Version.REVERSIBLE:
                    body = self.keep(procedure.body)
            label = self.labels[key]
            procedures[label] = replace(procedure, name=label, body=body)
        return replace(self.source, entry=entry, procedures=procedures)

    def label(self, name: str, version: _Version) -> str:
        """The name of a procedure's version, which is made if need be."""
        key = (name, version)
        if key not in self.labels:
            label = name + version.value
            while version is not _Version.ERASED and (label in self.source.procedures or label in self.labels.values()):
                label += "_"
            self.labels[key] = label
            self.todo.append(key)
        return self.labels[key]

    def erase(self, block: ir.Block) -> ir.Block:
        """The block with its Withins erased. It runs forward only."""
        out: list[ir.Node] = []
        for node in block:
            match node:
                case ir.Call(name, backward=backward):
                    version = _Version.ERASED_INVERSE if backward else _Version.ERASED
                    out.append(node._replace(procedure=self.label(name, version), backward=False))
                case ir.Within(compute, body) if self.wanted(node):
                    regions = self.erasable(node)
                    if regions is None:
                        out += self.erase_in_part(node)
                    else:
                        out += [
                            *self.erase(compute),
                            *self.erase(body),
                            *_erasures(locals_left(compute), compute, node),
                        ]
                        out += _clearings(regions, node)
                case ir.Within(compute, body):
                    out.append(node._replace(compute=self.keep(compute), body=self.erase(body)))
                case ir.Op() | ir.Local() | ir.Delocal() | ir.If() | ir.While() | ir.For() | ir.Check() | ir.External():
                    out.append(map_children(node, self.erase))
        return tuple(out)

    def wanted(self, node: ir.Within) -> bool:
        """Whether the caller chose this Within."""
        if node.name is None:
            return self.temporaries
        return self.names is None or node.name in self.names

    def erasable(self, node: ir.Within) -> list[ir.Region] | None:
        """The arrays to be erased beside the locals; None if c writes anything else."""
        access = self.accesses.block(node.compute)
        if not access.writes <= frozenset(locals_left(node.compute)):
            return None
        if not access.stores:
            return []
        found = self.owned_by(node, access.stores)
        if found is None:
            return None
        steps = sum(2 * r.size if r.size <= _IN_A_ROW else 4 * r.size + 5 for r in found)
        return found if steps < _steps(node.compute, self.source) else None

    def owned_by(self, node: ir.Within, stored: Iterable[ir.Region | None]) -> list[ir.Region] | None:
        """The arrays that are named here; None if one of them is accessed outside this Within and its procedures."""
        here, changed = _names(((node,),)), clobbered_between(node, self.accesses).stores
        out: list[ir.Region] = []
        for region in stored:
            if not self.is_own(region) or region in changed or None in changed:
                return None
            if region is None or here[region] not in (0, self.named[region]):
                return None
            # An array that is named in no statement here belongs to a procedure that is called, and is zero when that ends.
            if here[region]:
                out.append(region)
        return sorted(out, key=lambda r: r.address or 0)

    def is_own(self, region: ir.Region | None) -> bool:
        """Whether it is an array of the program's own that is reached by its name alone."""
        return region in self.own and not self.named[None]

    def erase_in_part(self, node: ir.Within) -> ir.Block:
        """Values that write only their locals are erased, around the part that must be undone, such as a swap with an element."""
        values = self.numbering.of(node.compute)
        if not values:
            # It holds an External.
            return (node._replace(compute=self.keep(node.compute), body=self.erase(node.body)),)
        erased = [value for value in values if not value.opaque]
        rest = tuple(statement for value in values if value.opaque for statement in value.statements)
        left = node._replace(compute=self.keep(rest), body=self.erase(node.body))
        before = self.erase(tuple(statement for value in erased for statement in value.statements))
        variables = [var for value in erased for var in value.locals]
        return (*before, left, *_erasures(variables, node.compute, node))

    def keep(self, block: ir.Block) -> ir.Block:
        """The block as it is, for use in either direction."""

        def kept(node: ir.Node) -> ir.Node:
            if isinstance(node, ir.Call):
                return node._replace(procedure=self.label(node.procedure, _Version.REVERSIBLE))
            return map_children(node, self.keep)

        return rebuilt(block, [kept(node) for node in block])


def _erasures(variables: Iterable[ir.Var], compute: ir.Block, node: ir.Within) -> ir.Block:
    """The variables erased and freed, last first. A variable that compute does not write is zero already."""
    changed = {x for inner in walk(compute) for x in _written(inner)}
    out: list[ir.Node] = []
    for var in reversed([*variables]):
        if var in changed:
            out.append(ir.Op(TABLE["erase"], var, span=node.span))
        out.append(ir.Delocal(var, span=node.span))
    return tuple(out)


def _written(node: ir.Node) -> tuple[object, ...]:
    """The operands that a statement without blocks may write."""
    if isinstance(node, ir.Op):
        return tuple(operand(node, place) for place in facts(node.opcode).written)
    return node.args if isinstance(node, ir.Call) else ()


def _clearings(regions: Iterable[ir.Region], node: ir.Within) -> ir.Block:
    """Every word of the arrays exchanged into a register, and erased there."""
    out: list[ir.Node] = []
    for region in regions:
        t, first = ir.Var("t", ir.Kind.INT, node.span), region.address or 0
        erase = ir.Op(TABLE["erase"], t, span=node.span)
        out.append(ir.Local(t, span=node.span))
        if region.size <= _IN_A_ROW:
            for at in range(region.size):
                out += [ir.Op(TABLE["exch"], t, ir.Const(0), None, first + at, node.span, region), erase]
        else:
            i = ir.Var("i", ir.Kind.INT, node.span)
            exchange = ir.Op(TABLE["exch"], t, i, None, first, node.span, region)
            out.append(ir.For(i, ir.Const(0), ir.Const(region.size), 1, (exchange, erase), False, True, node.span))
        out.append(ir.Delocal(t, span=node.span))
    return tuple(out)


def _names(blocks: Iterable[ir.Block]) -> Counter[ir.Region | None]:
    """How often each region is named; None for memory without a region."""
    found: Counter[ir.Region | None] = Counter()
    for block in blocks:
        for node in walk(block):
            if isinstance(node, ir.Op) and facts(node.opcode).memory:
                found[node.region] += 1
            elif isinstance(node, ir.Call):
                found.update(node.regions)
            elif isinstance(node, ir.External):
                found[None] += 1
    return found


def _steps(block: ir.Block, module: ir.Module) -> int:
    """About how many instructions the block takes when it is run; a call as many as its procedure."""
    total = 0
    for node in block:
        match node:
            case ir.For(body=body):
                total += expected_trips(node, module.format) * (2 + _steps(body, module))
            case ir.While(body=body):
                total += ASSUMED_TRIPS * (2 + _steps(body, module))
            case ir.Within(compute, body):
                total += 2 * _steps(compute, module) + _steps(body, module)
            case ir.If(_, then, orelse):
                total += 2 + (_steps(then, module) + _steps(orelse, module)) // 2
            case ir.Call(procedure):
                total += code_size(module.procedures[procedure].body)
            case ir.Op() | ir.Local() | ir.Delocal() | ir.Check() | ir.External():
                total += code_size((node,))
    return total
