"""Gradients and tangents as procedures: the body of a gradient calls its function, and then the lifted inverse of the function.

    G(x …, g …):   within (P(x …); L̄ += 1; lift(P⁻¹)(x …, x̄ …)) do (g += x̄)
                   within (C; L += …; L̄ += 1; lift(L −= …; C⁻¹)) do (g += x̄)         for P = within (C) do (L += …)
    T(x …, v …, t …):   within (ẋ += v; lift(C; y += …); y −= …) do (t += ẏ)                for P = within (C) do (y += …)

G adds ∂L/∂x to g and changes nothing else, T adds ∂y/∂x·v to t. So they are updates: they can be inverted, called in loops, and differentiated. Bodies are
made after all procedures and the memory are known, inner gradients first. Each level of gradients has one more stretch of shadow
memory.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from retrograd.compiler.derivatives.activity import Storage, active_storage
from retrograd.compiler.derivatives.derivatives_in_place import Unrestored, expand_in_place
from retrograd.compiler.derivatives.gradients import with_region, with_shadow_memory
from retrograd.compiler.derivatives.lifting import Kept, Lifting, Mode
from retrograd.compiler.ir.alpha_equivalence import Renaming
from retrograd.compiler.ir.call_graph import calls, needed
from retrograd.compiler.ir.instruction_selection import Location, MemoryWord, updates
from retrograd.compiler.ir.statements import (
    ZERO,
    Block,
    Call,
    Const,
    For,
    Kind,
    Local,
    Module,
    Node,
    Op,
    Procedure,
    Region,
    Var,
    Within,
    invert,
)
from retrograd.compiler.ir.traversal import bodies
from retrograd.isa import functions
from retrograd.isa.expr import Expr, div_round, place
from retrograd.isa.table import TABLE
from retrograd.isa.words import Format


class ArgumentStorage(NamedTuple):
    """The words of one argument: a variable, or an array from the address in `var` on.

    `kinds`: the kind of each word of an element; `shape` is None for a variable. A length of the run is a variable.
    """

    var: Var
    region: Region | None
    kinds: tuple[Kind, ...]
    shape: tuple[int | Var, ...] | None = None
    strides: tuple[int, ...] = ()


class ArgumentCells(NamedTuple):
    """Cells of arguments in the heap: those from the address in `begin` on, of this number of words.

    Their gradients are added to as many words behind them.
    """

    begin: Var
    words: Var
    region: Region


@dataclass(frozen=True)
class GradientCall:
    """A procedure that computes the gradient of `callee`. Its first parameters are those of the callee, among them `loss`, or the array that has it.

    `wanted`: (parameter of the callee, target of its gradient). `keep`: words for cotangents of variables that are freed.
    """

    name: str
    callee: str
    backward: bool
    loss: Var | MemoryWord
    wanted: tuple[tuple[ArgumentStorage, ArgumentStorage], ...]
    keep: int
    cells: ArgumentCells | None = None


@dataclass(frozen=True)
class TangentCall:
    """A procedure that computes the tangents of the results of `callee`, whose body is one `Within`. Its first parameters are those of the callee.

    `given`: (parameter of the callee, its tangent), `wanted`: (result of the callee, target of its tangent). `keep`: see GradientCall.
    """

    name: str
    callee: str
    given: tuple[tuple[Var, Var], ...]
    wanted: tuple[tuple[Var, Var], ...]
    keep: int


DerivativeCall = GradientCall | TangentCall


def expand_gradients(module: Module, wanted: Mapping[str, DerivativeCall]) -> Module:
    """The module with a body for each of these procedures."""
    wanted = {name: g for name, g in wanted.items() if name in module.procedures}
    levels: dict[str, int] = {}

    def level(name: str) -> int:
        if name not in levels:
            below = _reachable(module, wanted[name].callee, wanted)
            levels[name] = 1 + max((level(other) for other in below if other in wanted), default=0)
        return levels[name]

    for n in sorted({level(name) for name in wanted}):
        group = [g for name, g in wanted.items() if levels[name] == n]
        before = set(module.procedures)
        module = _expand(group, module)
        own = {g.name for g in group}
        lifted = module.procedures.keys() - before
        derivatives = {g.name: _unrestored(module, g) for g in group}
        module = expand_in_place(module, derivatives, own | lifted, lambda name: _reachable(module, name, wanted))  # noqa: B023
        # Functions that are called once only are inlined.
        called = {call.procedure for body in bodies(module) for call in calls(body)} | {
            g.callee for g in wanted.values()
        }
        module = replace(module, procedures={n: p for n, p in module.procedures.items() if n in called or n not in own})
    return module


def _reachable(module: Module, name: str, wanted: Mapping[str, DerivativeCall] | None = None) -> set[str]:
    """The procedures that a call of this procedure may run; a gradient without a body runs its callee."""
    reached, todo = {name}, [name]
    while todo:
        current = todo.pop()
        found = set(needed(module.procedures[current]))
        if wanted is not None and current in wanted:
            found.add(wanted[current].callee)
        todo += found - reached
        reached |= found
    return reached


def _expand(group: Sequence[DerivativeCall], module: Module) -> Module:
    parts: list[tuple[DerivativeCall, Module]] = []
    cells: set[Storage] = set()
    for g in group:
        below = {name: module.procedures[name] for name in _reachable(module, g.callee)}
        part = replace(module, entry=(), procedures=below)
        parts.append((g, part))
        cells |= active_storage(part, *_inner(module, g))
    offset, wide = with_shadow_memory(module, frozenset(cells))
    wide, region = with_region(wide, "kept", max(g.keep for g in group))
    regions, procedures = dict.fromkeys((region,)), dict(wide.procedures)
    for g, part in parts:
        inputs, results = _inner(module, g)
        active = active_storage(part, inputs, results)
        if active.isdisjoint(results):
            procedures[g.name] = replace(procedures[g.name], body=())
            continue
        assert region.address is not None
        kept = Kept(region, Var("kept", Kind.ADDRESS), region.address + region.size, region.size)
        mode = Mode.COTANGENT if isinstance(g, GradientCall) else Mode.TANGENT
        lifting = Lifting(part, mode, active, offset, kept, taken=procedures, anonymous=True, exact=True)
        body = _body(g, module, lifting) if isinstance(g, GradientCall) else _tangents(g, module, lifting)
        procedures[g.name] = replace(procedures[g.name], body=body)
        procedures |= lifting.procedures
        regions |= dict.fromkeys(lifting.static_regions())
    # These regions outlive the procedures that write them, so passes treat them as arguments.
    given = None if wide.arguments is None else (*wide.arguments, *regions)
    known = set(wide.regions)
    return replace(
        wide,
        procedures=procedures,
        regions=(*wide.regions, *(r for r in regions if r not in known)),
        arguments=given,
    )


def _inner(module: Module, g: DerivativeCall) -> tuple[list[Var | Region], list[Var | Region]]:
    """The inputs and the results as variables and regions of the callee."""
    names = _names(module, g)
    inputs: list[Var | Region] = []
    if isinstance(g, TangentCall):
        return [names[x] for x, _ in g.given], [names[y] for y, _ in g.wanted]
    for source, _ in g.wanted:
        x = source.var if source.region is None else source.region
        inputs.append(names[x])
    if g.cells is not None:
        inputs.append(g.cells.region)
    return inputs, [names[_lost(g)]]


def _lost(g: GradientCall) -> Var | Region:
    """The parameter that holds the loss."""
    if isinstance(g.loss, Var):
        return g.loss
    assert g.loss.region is not None
    return g.loss.region


def _unrestored(module: Module, g: DerivativeCall) -> Unrestored | None:
    """The words that the compute block of a derivative does not restore: that of a gradient restores all, that of a tangent its results."""
    if isinstance(g, GradientCall):
        return None
    params = module.procedures[g.name].params
    return Unrestored(g.callee, frozenset(params.index(y) for y, _ in g.wanted))


def _names(module: Module, g: DerivativeCall) -> dict[Var | Region, Var | Region]:
    """Parameters and regions of the procedure → those of the callee."""
    outer, inner = module.procedures[g.name], module.procedures[g.callee]
    names: dict[Var | Region, Var | Region] = dict(zip(outer.params, inner.params, strict=False))
    return names | dict(zip(outer.regions, inner.regions, strict=False))


def _body(g: GradientCall, module: Module, lifting: Lifting) -> Block:
    """The statements of a gradient: run the callee, run it back with derivatives, add the shadows to the targets."""
    outer, inner = module.procedures[g.name], module.procedures[g.callee]
    w, kept, names = module.format, lifting.kept, _names(module, g)
    assert kept is not None
    assert kept.region.address is not None
    own, regions = outer.params[: len(inner.params)], outer.regions[: len(inner.regions)]
    shadows: dict[Var, Var] = {}
    for x, param in zip(own, inner.params, strict=True):
        if lifting.shadow(param) is not None:
            shadows[x] = Var(f"{x.name}.bar", Kind.FIXED)
    pointer = Var("kept", Kind.ADDRESS)
    before: list[Node] = [*(Local(c) for c in shadows.values())]
    before += [Local(pointer), Op(TABLE["mov.add"], pointer, Const(kept.region.address))]
    one, lost = Const(1 << w.frac), _lost(g)
    loss = names[lost]
    if isinstance(g.loss, Var):
        seed = Op(TABLE["mov.add"], shadows[g.loss], one, None, 0, outer.span)
    else:
        seed = Op(TABLE["st.add"], None, g.loss.a, one, g.loss.imm + lifting.offset, outer.span)
    compute: list[Node]
    computed = inner.body[0] if len(inner.body) == 1 else None
    if (
        isinstance(computed, Within)
        and isinstance(g.loss, Var)
        and inner.adjoint is None
        and not g.backward
        and not lifting.uses(computed.compute, loss)
    ):
        # P = made; added; made⁻¹: made⁻¹ of the run, and lift(made) with shadows that are zero, are left out.
        made, added = computed.compute, computed.body
        zero = _zeros(lifting, inner, {loss})
        begin = lifting.block(made, zero)
        zero.discard(_bar(lifting, loss))
        way_back = lifting.undone(made, added, zero)
        renamed = dict(zip(inner.params, own, strict=True)) | {kept.pointer: pointer}
        renamed |= {_bar(lifting, names[x]): c for x, c in shadows.items()}
        whole = (*begin, *added, seed._replace(d=_bar(lifting, loss)), *way_back)
        places = dict(zip(inner.regions, regions, strict=True))
        compute = [*before, *Renaming(renamed, places, fresh=True).block(whole)]
    else:
        back = lifting.version(inner, not g.backward, zero=_zeros(lifting, inner, {loss}))
        run = Call(g.callee, own, regions, g.backward, outer.span)
        compute = [run, *before, seed, Call(back, (*own, *shadows.values(), pointer), regions, False, outer.span)]
    body: list[Node] = []
    for source, target in g.wanted:
        if source.region is None:
            shadow = shadows.get(source.var)
            if shadow is not None:
                body += _add_word(target.var, shadow, source.var, source.kinds[0], w)
        elif lifting.is_active(names[source.region]):
            body += _add_array(source, target, lifting.offset, w)
    if g.cells is not None and lifting.is_active(g.cells.region):
        body += _add_cells(g.cells, lifting, w)
    return (Within(tuple(compute), tuple(body), None, outer.span),)


def _tangents(g: TangentCall, module: Module, lifting: Lifting) -> Block:
    """The statements of tangents: run the callee with shadows, add those of its results to the targets."""
    outer, inner = module.procedures[g.name], module.procedures[g.callee]
    kept, names = lifting.kept, _names(module, g)
    assert kept is not None
    assert kept.region.address is not None
    (computed,) = inner.body
    assert isinstance(computed, Within)
    own, regions = outer.params[: len(inner.params)], outer.regions[: len(inner.regions)]
    shadows = {
        x: (lifting.shadow(param), Var(f"{x.name}.dot", Kind.FIXED))
        for x, param in zip(own, inner.params, strict=True)
        if lifting.shadow(param) is not None
    }
    pointer = Var("kept", Kind.ADDRESS)
    add = TABLE["mov.add"]
    before: list[Node] = [*(Local(dot) for _, dot in shadows.values()), Local(pointer)]
    before += [Op(add, pointer, Const(kept.region.address))]
    before += [Op(add, shadows[x][1], v) for x, v in g.given if x in shadows]
    zero = _zeros(lifting, inner, {names[x] for x, _ in g.given})
    run = [*lifting.block((*computed.compute, *computed.body), zero), *invert(computed.body)]
    renamed = dict(zip(inner.params, own, strict=True)) | {kept.pointer: pointer}
    renamed |= {shadow: dot for shadow, dot in shadows.values() if shadow is not None}
    places = dict(zip(inner.regions, regions, strict=True))
    compute = [*before, *Renaming(renamed, places, fresh=True).block(tuple(run))]
    added = [Op(add, target, shadows[y][1]) for y, target in g.wanted if y in shadows]
    return (Within(tuple(compute), tuple(added), None, outer.span),)


def _bar(lifting: Lifting, x: Var | Region) -> Var:
    """The shadow of an active variable."""
    assert isinstance(x, Var)
    shadow = lifting.shadow(x)
    assert shadow is not None
    return shadow


def _zeros(lifting: Lifting, inner: Procedure, given: Collection[Var | Region]) -> set[Storage]:
    """The shadows that are zero at the beginning: of all parameters but those given, and of regions that have one name everywhere."""
    if inner.recursive:
        return set()
    shadows = {lifting.shadow(x) for x in inner.params if x not in given}
    procedures, regions = lifting.module.procedures.values(), lifting.module.regions
    passed: set[Region | None] = {r for p in procedures for r in p.regions}
    passed |= {r for p in procedures for call in calls(p.body) for r in call.regions}
    return {x for x in shadows if x is not None} | {r for r in regions if r.address is not None and r not in passed}


def _add_word(target: Location, shadow: Location, x: Location, kind: Kind, w: Format) -> Block:
    """target += ∂L/∂x; of a lognum the shadow is ∂L/∂ln|x|."""
    value: Expr = place("c")
    if kind is Kind.LOGNUM:
        value = div_round(value, functions.lognum_to_fixed(place("x"), w)[0], w.frac)
    return updates([(target, "add", value)], {"c": shadow, "x": x}, w)


def _add_cells(cells: ArgumentCells, lifting: Lifting, w: Format) -> Block:
    """The words behind the cells += their shadows."""
    i, at, behind = Var("i"), Var("at", Kind.ADDRESS), Var("behind", Kind.ADDRESS)
    add = TABLE["mov.add"]
    made = (
        Local(at),
        Op(add, at, cells.begin),
        Op(add, at, i),
        Local(behind),
        Op(add, behind, at),
        Op(add, behind, cells.words),
    )
    shadow = MemoryWord(at, lifting.offset, lifting.region(cells.region))
    gain = _add_word(MemoryWord(behind, 0, cells.region), shadow, ZERO, Kind.FIXED, w)
    return (For(i, ZERO, cells.words, 1, (Within(made, gain),), False, False),)


def _add_array(source: ArgumentStorage, target: ArgumentStorage, offset: int, w: Format) -> Block:
    """target += ∂L/∂x for each element of an array; the shadow of a word lies `offset` words above it."""
    assert source.shape is not None
    indices = [Var("i") for _ in source.shape]
    made: list[Node] = []
    where: list[Var] = []
    for cells in (source, target):
        at = Var("at", Kind.ADDRESS)
        made += [Local(at), Op(TABLE["mov.add"], at, cells.var)]
        made += [
            Op(TABLE["mul.add"], at, i, Const(w.wrap(stride))) for i, stride in zip(indices, cells.strides, strict=True)
        ]
        where.append(at)
    body: list[Node] = []
    for k, kind in enumerate(source.kinds):
        if kind in (Kind.FIXED, Kind.LOGNUM):
            x, shadow = MemoryWord(where[0], k, source.region), MemoryWord(where[0], k + offset, None)
            body += _add_word(MemoryWord(where[1], k, target.region), shadow, x, kind, w)
    block: Block = (Within(tuple(made), tuple(body)),)
    for i, length in zip(reversed(indices), reversed(source.shape), strict=True):
        end = Const(length) if isinstance(length, int) else length
        block = (For(i, ZERO, end, 1, block, False, isinstance(length, int) and length > 0),)
    return block
