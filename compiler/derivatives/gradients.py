"""Gradient and tangent programs: module → module, on the same arguments and their shadows.

    gradient(P) = P; L̄ += 1; lift(P⁻¹)          dual(P) = lift(P)

A gradient program ends in the state in which it began, except for cotangents: it takes those of the arguments as P leaves
them, and returns those of the arguments as P found them. Results are ordinary modules: they can be inverted, differentiated again,
emitted. While cotangents of freed variables are erased, the result runs forward only; where they are kept it is
reversible, and its inverse takes them back. The shadow of the word at an address lies `offset` words further on.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import NamedTuple, NoReturn

from retrograd.compiler.derivatives.accumulators import Accumulator, Role, Storage, accumulators, active_storage
from retrograd.compiler.derivatives.lifting import Kept, Lifting, Mode
from retrograd.compiler.derivatives.uncompute_elimination import Restoring, eliminate_uncomputation
from retrograd.compiler.frontends.specialisation import GradientOf, Parameters, Specialisation
from retrograd.compiler.ir import statements as ir
from retrograd.compiler.ir.effects import AccessAnalysis, AccessSets, clobbered_between, private_regions
from retrograd.compiler.ir.expressions import Address, const
from retrograd.compiler.ir.instruction_selection import Location, MemoryWord, facts, updates
from retrograd.compiler.ir.statements import (
    SP,
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
from retrograd.compiler.ir.traversal import bodies, calls, map_blocks, needed, rebuilt, walk, without_conditions
from retrograd.compiler.ir.value_numbering import Renaming
from retrograd.compiler.language.arithmetic import first_axis
from retrograd.compiler.language.types import (
    ArrayShape,
    ArrayType,
    PassedLength,
    ScalarShape,
    ScalarType,
    Shape,
    StructType,
    Type,
    bound,
    field_of_index,
    is_known,
    leaf_shapes,
)
from retrograd.compiler.language.values import ArrayView, Scalar, StructValue, Value
from retrograd.isa import functions
from retrograd.isa.expr import Expr, div_round, place
from retrograd.isa.table import TABLE
from retrograd.isa.words import Format

#: transformations of derived programs that change no result
TRANSFORMATIONS = ("zero_regions",)


@dataclass(frozen=True)
class Differentiated:
    """A program with shadows. The word at `value` holds the loss, if `loss` was given.

    `conditional`: it has no forward sweep, and where it traps, or does not end, only the gradient program with one gives the result.
    """

    module: ir.Module
    offset: int
    value: int | None = None
    conditional: bool = False
    #: statements for `eliminate_uncomputation`, and regions that hold results
    restoring: Restoring = field(default_factory=Restoring, compare=False, repr=False)
    results: tuple[ir.Region, ...] = ()

    def without_uncomputation(self) -> Differentiated:
        """The same program for running forward only: see `eliminate_uncomputation`. It cannot be inverted or differentiated."""
        module = without_conditions(self.module)
        return replace(self, module=eliminate_uncomputation(module, self.restoring, self.results))


def gradient(
    module: ir.Module,
    inputs: Iterable[ir.Region],
    outputs: Iterable[ir.Region],
    *,
    loss: int | None = None,
    scale: int = 0,
    keep: int = 0,
    forward: bool = True,
    copies: int = 1,
    without: Collection[str] = (),
) -> Differentiated:
    """P; lift(P⁻¹): cotangents of the outputs become those of the inputs, which are among the arguments' regions.

    `loss`: the address of an output; its value after P is copied, and 2^scale added to its cotangent, so none need be given.
    `keep`: words for cotangents of freed variables, which are erased if there are none. `forward`: False leaves out P where it only
    accumulates and nothing is kept; the result is then conditional. `copies`: cotangents of each word, beside one run of the words;
    those of copy k lie (k + 1)·offset words on. `without`: names of TRANSFORMATIONS that are left out.
    Raises ValueError for copies where cotangents are kept, or the loss is given.
    """
    inputs, outputs = tuple(inputs), tuple(outputs)
    if copies > 1 and (keep or loss is not None):
        raise ValueError("cotangents in several copies are neither kept nor those of one loss")
    named = None if loss is None else next((r for r in module.regions if _holds(r, loss)), None)
    found = _roles(module, loss, named, forward, keep)
    roles = None if isinstance(found, str) else found
    active = active_storage(module, inputs, outputs)
    offset, wide = with_shadow_memory(module, active, copies)
    wide, kept, before, after = _room(wide, keep)
    if isinstance(found, str):
        wide = wide.with_remarks("eliminate_forward_sweep", [(None, found)])
    lifting = Lifting(module, Mode.COTANGENT, active, offset, kept, roles=roles, copies=copies, clears=not keep)
    value: int | None = None
    results: tuple[ir.Region, ...] = ()
    middle: list[ir.Node] = []
    if loss is not None:
        wide, result = with_region(wide, "value", 1)
        assert result.address is not None
        value, results = result.address, (result,)
        shadow = lifting.region(named) if named is not None and lifting.is_active(named) else None
        one = ir.Const(1 << (module.format.frac + scale))
        seed = ir.Op(TABLE["st.add"], None, ir.Const(0), one, loss + offset, None, shadow)
        copy = ir.Var("t", ir.Kind.FIXED)
        load = ir.Op(TABLE["ld.add"], copy, ir.Const(0), None, loss, None, named)
        store = ir.Op(TABLE["st.add"], None, ir.Const(0), copy, value, None, result)
        if roles is not None:
            middle, after = [seed, *lifting.sums.before()], lifting.sums.after(roles, load, store)
        else:
            middle = [ir.Local(copy), load, store, load._replace(opcode=TABLE["ld.sub"]), ir.Delocal(copy), seed]
    elif roles is not None:
        middle, after = [*lifting.sums.before()], lifting.sums.after(roles)
    back = lifting.lifted(ir.invert(module.entry), _zero_regions(module, without, (*inputs, *outputs)))
    forth = module.entry if roles is None else ()
    entry = (*forth, *middle, *before, *back, *after)
    assembled = _assembled(wide, lifting, entry)
    return Differentiated(assembled, offset, value, roles is not None, lifting.restoring, results)


def _roles(
    module: ir.Module, loss: int | None, named: ir.Region | None, forward: bool, keep: int
) -> dict[Accumulator, Role] | str:
    """The roles of the regions in a program without a forward sweep, or why it has one. `named`: the region of the loss."""
    if forward:
        return "it was asked for"
    if keep:
        return "cotangents of freed variables are kept"
    if named is not None and named.size > 1:
        # The sums of a reverse sweep are those of whole regions, and a loss is one word.
        return f"the loss is one word of `{named.name}`, and sums are those of whole arguments"
    return accumulators(module, loss)


def _holds(region: ir.Region, address: int) -> bool:
    """Whether the word at the address lies in the region."""
    return region.address is not None and 0 <= address - region.address < region.size


def dual(
    module: ir.Module,
    inputs: Iterable[ir.Region],
    outputs: Iterable[ir.Region],
    *,
    keep: int = 0,
    copies: int = 1,
    without: Collection[str] = (),
    restoring: Restoring | None = None,
) -> Differentiated:
    """lift(P): tangents of the inputs become those of the outputs, and the words change as by P. `without`: see `gradient`.

    `copies`: tangents of each word, as in `gradient`. `restoring`: those of the statements of P.
    """
    inputs, outputs = tuple(inputs), tuple(outputs)
    active = active_storage(module, inputs, outputs)
    offset, wide = with_shadow_memory(module, active, copies)
    wide, kept, before, after = _room(wide, keep)
    lifting = Lifting(module, Mode.TANGENT, active, offset, kept, undone=restoring, copies=copies)
    forth = lifting.lifted(module.entry, _zero_regions(module, without, (*inputs, *outputs)))
    return Differentiated(_assembled(wide, lifting, (*before, *forth, *after)), offset, restoring=lifting.restoring)


def _zero_regions(module: ir.Module, without: Collection[str], given: Collection[ir.Region]) -> frozenset[ir.Region]:
    """The regions whose shadows are zero at the start: the program's own, those that outlive procedures among them.

    `given`: the regions with cotangents or tangents.
    """
    if "zero_regions" in without or module.arguments is None:
        return frozenset()
    # An argument of the source has layouts; the heap of functional functions has none.
    own = {r for r in module.arguments if r.address is not None and r.data is None and not r.layouts}
    return private_regions(module) | own.difference(given)


def _assembled(wide: ir.Module, lifting: Lifting, entry: ir.Block) -> ir.Module:
    given = wide.arguments
    if given is not None:
        given = (*given, *lifting.regions(given))
    return replace(
        wide,
        entry=entry,
        procedures=wide.procedures | lifting.procedures,
        regions=(*wide.regions, *lifting.static_regions()),
        arguments=given,
    )


# ---------------------------------------------------------------- memory


def with_shadow_memory(module: ir.Module, active: frozenset[Storage], copies: int = 1) -> tuple[int, ir.Module]:
    """(the distance from a word to its shadow, and from there to the next copy; the module with room for shadows)."""
    total = module.memory + module.stack + module.above
    if not _on_the_stack(module, active):
        if not module.above:
            return module.memory, replace(module, memory=(1 + copies) * module.memory)
        return total, replace(module, above=module.above + copies * total)
    # Words of the stack have shadows behind its end, so an overflow of the stack must be found before it happens.
    return total, replace(_guarded(module, copies), above=module.above + copies * total)


def _on_the_stack(module: ir.Module, active: frozenset[Storage]) -> bool:
    """Whether an array on the stack may be active."""
    given = {r for p in module.procedures.values() for r in p.regions}
    accessed: set[ir.Region | None] = set()
    placed = False
    for body in bodies(module):
        for node in walk(body):
            if isinstance(node, ir.Op):
                placed |= node.a is ir.SP
                if facts(node.opcode).memory:
                    accessed.add(node.region)
            elif isinstance(node, ir.Call):
                accessed.update(node.regions)
    anywhere = None in active
    return placed and any(
        anywhere or r in active for r in accessed if r is None or (r.address is None and r not in given)
    )


def _guarded(module: ir.Module, copies: int) -> ir.Module:
    """The module with a test in each recursive procedure that the stack has room for its words."""

    def room(block: ir.Block) -> int:
        needed = 0
        for node in walk(block):
            if isinstance(node, ir.Op) and node.d is ir.SP and isinstance(node.a, ir.Const):
                needed += abs(module.format.signed(node.a.word))
        return needed

    procedures = dict(module.procedures)
    for name, p in procedures.items():
        if p.recursive:
            # Beside its arrays, a call saves each of its variables once, shadows included.
            variables = sum(isinstance(node, ir.Local) for node in walk(p.body)) + len(p.params)
            limit = max(module.memory + module.stack - room(p.body) - (1 + copies) * variables - 64, 0)
            test = ir.Test("ltu", ir.SP, ir.Const(limit))
            check = ir.Check(test, "RG0807", "the stack is full", p.span)
            procedures[name] = replace(p, body=(check, *p.body))
    return replace(module, procedures=procedures)


def with_region(module: ir.Module, name: str, size: int) -> tuple[ir.Module, ir.Region]:
    """The module with more memory."""
    if module.above:
        address = module.memory + module.stack + module.above
        region = ir.Region(name, size, address)
        return replace(module, above=module.above + size, regions=(*module.regions, region)), region
    region = ir.Region(name, size, module.memory)
    return replace(module, memory=module.memory + size, regions=(*module.regions, region)), region


def _room(module: ir.Module, keep: int) -> tuple[ir.Module, Kept | None, ir.Block, ir.Block]:
    """(the module with room for `keep` kept shadows, their stack, the code that loads its pointer, the code that stores it).

    The pointer stays in memory between the program and its inverse, because the number of kept words is part of the state.
    """
    if not keep:
        return module, None, (), ()
    keep = min(keep, module.format.share)
    module, region = with_region(module, "kept", keep + 1)
    assert region.address is not None
    pointer = ir.Var("kept", ir.Kind.ADDRESS)
    exchange = ir.Op(TABLE["exch"], pointer, ir.Const(0), None, region.address, None, region)
    start = ir.Op(TABLE["mov.add"], pointer, ir.Const(region.address + 1))
    before: ir.Block = (ir.Local(pointer), exchange, start)
    after: ir.Block = (start._replace(opcode=TABLE["mov.sub"]), exchange, ir.Delocal(pointer))
    return module, Kept(region, pointer, region.address + keep + 1, keep), before, after


# -----------------------------------------------------------------------------
# Inline expansion of derivatives in compute blocks, without their uncomputation.
#
#     D  =  within (C) do (B)          a derivative: C runs a function with shadows, B adds the shadows to results
#
#     within (p; D; r) do (b)     →     within (p; C; B; r) do (b)
#
# The inverse of the outer compute block undoes C, so C is executed twice in place of four times. Correct because C⁻¹ commutes with r and b:
# C restores all words but shadows and kept cotangents, which lie in memory of their own. r and b must call no derivative of the same
# level, which has its shadows there, and b must not change any word that C reads. A derivative whose C does not restore the words of its
# function is expanded only if r and b neither read nor write words that the function writes, its results excepted, which C restores.
# Traps: unchanged, except that a run which needs more than the memory for kept cotangents needs it as before.
# Cost: shadows stay until the end of the outer block.


class Unrestored(NamedTuple):
    """The words that a function changes, without those of some of its parameters, by their positions."""

    function: str
    results: frozenset[int]


def expand_in_place(
    module: Module,
    derivatives: Mapping[str, Unrestored | None],
    level: Collection[str],
    reachable: Callable[[str], set[str]],
) -> Module:
    """The module with calls of these derivatives expanded where a compute block undoes them.

    `derivatives`: name -> the words that C does not restore. `level`: the procedures whose calls use the shadows. `reachable`: the procedures that a call of a procedure may run.
    """
    accesses = AccessAnalysis(module)

    def is_apart(block: Block) -> bool:
        names = {call.procedure for call in calls(block)}
        return not any(name in level or not reachable(name).isdisjoint(level) for name in names)

    def uses_unrestored(node: Call, others: Block) -> bool:
        """Whether other statements use a word that the compute block of a derivative leaves changed."""
        unrestored = derivatives[node.procedure]
        if unrestored is None:
            return False
        callee = module.procedures[unrestored.function]
        args, regions = node.args[: len(callee.params)], node.regions[: len(callee.regions)]
        changed = accesses.of(Call(callee.name, args, regions, False, node.span))
        restored = {SP, *(args[i] for i in unrestored.results)}
        own = AccessSets(writes=changed.writes.difference(restored), stores=changed.stores)
        return any(own.clobbers(accesses.of(other)) for other in others)

    def expanded(within: Within) -> Within:
        for i in reversed(range(len(within.compute))):
            node = within.compute[i]
            if not (isinstance(node, Call) and node.procedure in derivatives and not node.backward):
                continue
            body = module.procedures[node.procedure].body
            rest = within.compute[i + 1 :]
            clobbered = clobbered_between(within, accesses)
            others = (*rest, *within.body)
            if (
                body
                and is_apart(others)
                and not uses_unrestored(node, others)
                and not clobbered.clobbers(accesses.of(node))
            ):
                (whole,) = _renamed(module, node)
                assert isinstance(whole, Within)
                return within._replace(compute=(*within.compute[:i], *whole.compute, *whole.body, *rest))
            break
        return within

    def rewritten(block: Block) -> Block:
        return rebuilt(block, [expanded(node) if isinstance(node, Within) else node for node in block])

    procedures = {
        name: p if name in level else replace(p, body=map_blocks(p.body, rewritten))
        for name, p in module.procedures.items()
    }
    return replace(module, entry=map_blocks(module.entry, rewritten), procedures=procedures)


def _renamed(module: Module, call: Call) -> Block:
    """The body of the procedure, with the operands and regions of the call, and locals of its own."""
    callee = module.procedures[call.procedure]
    operands = dict(zip(callee.params, call.args, strict=True))
    regions = dict(zip(callee.regions, call.regions, strict=True))
    return Renaming(operands, regions, fresh=True).block(callee.body)


# -----------------------------------------------------------------------------
# Gradients and tangents as procedures: the body of a gradient calls its function, and then the lifted inverse of the function.
#
#     G(x …, g …):   within (P(x …); L̄ += 1; lift(P⁻¹)(x …, x̄ …)) do (g += x̄)
#                    within (C; L += …; L̄ += 1; lift(L −= …; C⁻¹)) do (g += x̄)         for P = within (C) do (L += …)
#     T(x …, v …, t …):   within (ẋ += v; lift(C; y += …); y −= …) do (t += ẏ)                for P = within (C) do (y += …)
#
# G adds ∂L/∂x to g and changes nothing else, T adds ∂y/∂x·v to t. So they are updates: they can be inverted, called in loops, and differentiated. Bodies are
# made after all procedures and the memory are known, inner gradients first. Each level of gradients has one more stretch of shadow
# memory.


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
    `lost`: the kind of the loss.
    """

    name: str
    callee: str
    backward: bool
    loss: Var | MemoryWord
    wanted: tuple[tuple[ArgumentStorage, ArgumentStorage], ...]
    keep: int
    cells: ArgumentCells | None = None
    lost: Kind = Kind.FIXED

    def places(self, kind: Kind, w: Format) -> int:
        """F + q − p: the point of the cotangent of a number at p, where that of the loss at q begins with 1."""
        return w.frac + self.lost.point(w) - (kind.point(w) if kind.is_fixed else w.frac)

    def scale(self, w: Format) -> int:
        """The least k from 0 on such that no cotangent has fewer places than its target. The loss's begins with 2^k."""
        finer = [
            target.kinds[i].point(w) - self.places(kind, w)
            for source, target in self.wanted
            for i, kind in enumerate(source.kinds)
            if kind.is_real
        ]
        return min(max(0, *finer), w.width - 2 - w.frac) if finer else 0


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
    wide, region = with_region(wide, "kept", min(max(g.keep for g in group), module.format.share))
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
    scale = g.scale(w)
    one, lost = Const(1 << w.frac + scale), _lost(g)
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
                shift = target.kinds[0].point(w) - g.places(source.kinds[0], w) - scale
                body += _add_word(target.var, shadow, source.var, source.kinds[0], w, shift)
        elif lifting.is_active(names[source.region]):
            body += _add_array(g, source, target, lifting.offset, w)
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


def _add_word(target: Location, shadow: Location, x: Location, kind: Kind, w: Format, shift: int = 0) -> Block:
    """target += ∂L/∂x · 2^shift; of a lognum the shadow is ∂L/∂ln|x|."""
    value: Expr = place("c")
    if kind is Kind.LOGNUM:
        value = div_round(value, functions.lognum_to_fixed(place("x"), w)[0], w.frac)
    if not shift:
        return updates([(target, "add", value)], {"c": shadow, "x": x}, w)
    most = w.width - 1
    if shift < -most:
        return ()  # less than half of the last place of the target
    moved = Var("d", Kind.FIXED)
    made: list[Node] = [Local(moved), *updates([(moved, "add", value)], {"c": shadow, "x": x}, w)]
    while shift:
        by = min(shift, most)
        further = Var("d", Kind.FIXED)
        made += [Local(further), Op(TABLE["fmovp.add"], further, moved, None, by)]
        moved, shift = further, shift - by
    return (Within(tuple(made), updates([(target, "add", place("c"))], {"c": moved}, w)),)


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


def _add_array(g: GradientCall, source: ArgumentStorage, target: ArgumentStorage, offset: int, w: Format) -> Block:
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
        if kind.is_real:
            x, shadow = MemoryWord(where[0], k, source.region), MemoryWord(where[0], k + offset, None)
            shift = target.kinds[k].point(w) - g.places(kind, w) - g.scale(w)
            body += _add_word(MemoryWord(where[1], k, target.region), shadow, x, kind, w, shift)
    block: Block = (Within(tuple(made), tuple(body)),)
    for i, length in zip(reversed(indices), reversed(source.shape), strict=True):
        end = Const(length) if isinstance(length, int) else length
        block = (For(i, ZERO, end, 1, block, False, isinstance(length, int) and length > 0),)
    return block


# -----------------------------------------------------------------------------
# Gradients as functions of a program: their procedures are declared here, and get their bodies from `gradient_calls`.
#
# G(x …, g …):  g += ∂L/∂x       for P(x …), which computes the loss L among its parameters


class GradientProcedures:
    """The gradients of one program."""

    def __init__(self) -> None:
        self._calls: dict[str, DerivativeCall] = {}

    def declare(self, made: Specialisation, parameters: Parameters, inner: Specialisation, of: GradientOf) -> Procedure:
        """The procedure of a gradient, without its body. Its parameters are those of `inner`, then one for each gradient.

        Raises RG0715 where the loss is not one fixed number, or a gradient has not the shape of its parameter.
        """
        names = [p.name for p in made.function.parameters]
        places = iter(zip(parameters.variables, parameters.regions, strict=True))
        lengths: dict[int, Var] = {}
        cells = [_cells(given, places, lengths) for given in made.shapes]
        found = _number(parameters.names[names[of.loss]], of.steps)
        if found is None:
            lost = names[of.loss] + of.path
            made.refuse("RG0715", f"the loss `{lost}` of `{made.function.__name__}` is not one fixed number")
        loss, lost_kind = found
        wanted: list[tuple[ArgumentStorage, ArgumentStorage]] = []
        for source, target in zip(of.wanted, range(len(inner.shapes), len(cells)), strict=True):
            wanted += _gradient_pairs(cells[source], cells[target]) or _refuse_shape(made, names[source], names[target])
        changed = {target.var for _, target in wanted} | {parameters.variables[i] for i in inner.written}
        made.written = frozenset(i for i, var in enumerate(parameters.variables) if var in changed)
        call = GradientCall(made.name, inner.name, of.backward, loss, tuple(wanted), of.keep, lost=lost_kind)
        self.add(call)
        source_span = made.function.source.span(made.function.tree)
        return parameters.declaration(made.name, made.written, span=source_span)

    def add(self, call: DerivativeCall) -> None:
        """A derivative whose procedure is declared elsewhere."""
        self._calls[call.name] = call

    def expand(self, module: Module) -> Module:
        """The module with a body for each gradient."""
        return expand_gradients(module, self._calls) if self._calls else module


def _refuse_shape(made: Specialisation, x: str, g: str) -> NoReturn:
    message = f"`{g}` of `{made.function.__name__}` gains the gradient by `{x}`, and is not of its shape, or not fixed"
    made.refuse("RG0715", message, f"Make it like `{x}`, of fixed numbers.")


def _cells(given: Shape, places: Iterator[tuple[Var, Region | None]], lengths: dict[int, Var]) -> list[ArgumentStorage]:
    """The parts of an argument. `lengths`: by number the parameters of lengths of the run, which are no parts of their own."""
    leaves = [(shape, *next(places)) for shape in leaf_shapes(given)]
    found: list[ArgumentStorage] = []
    while leaves:
        shape, var, region = leaves.pop(0)
        if isinstance(shape, ArrayShape):
            # The lengths that are passed beside the array are the next leaves.
            lengths |= {n.number: leaves.pop(0)[1] for n in shape.passed}
        found.append(_storage(shape, var, region, lengths))
    return found


def _number(value: Value, steps: Sequence[str | tuple[int, ...]]) -> tuple[Var | MemoryWord, Kind] | None:
    """The fixed number that these fields and indices lead to, and its kind; None where they lead to none."""
    for step in steps:
        match value, step:
            case StructValue(StructType(is_tuple=True), fields), (int(i),) if -len(fields) <= i < len(fields):
                value = [*fields.values()][i]
            case StructValue(t, fields), tuple() if (name := field_of_index(t, step)) is not None:
                value = fields[name]
            case StructValue(_, fields), str() if step in fields:
                value = fields[step]
            case ArrayView(_, shape), tuple() if len(step) <= len(shape) and is_known(shape):
                for i in step:
                    assert isinstance(value, ArrayView)
                    n = bound(value.shape[0])
                    if not -n <= i < n:
                        return None
                    value = first_axis(value, const(i % n, Kind.INT))
            case _:
                return None
    match value:
        case Scalar(_, Var(kind=kind) as place) if kind.is_fixed:
            return place, kind
        case Scalar(e, Address(region, Var() as base, (), offset)) if e.kind.is_fixed:
            return MemoryWord(base, offset, region), e.kind
    return None


def _storage(shape: Shape, var: Var, region: Region | None, lengths: dict[int, Var]) -> ArgumentStorage:
    match shape:
        case ScalarShape(kind):
            return ArgumentStorage(var, region, (kind,))
        case ArrayShape(element, given, strides):
            measured = tuple(lengths[n.number] if isinstance(n, PassedLength) else n for n in given)
            return ArgumentStorage(var, region, tuple(_kinds(element)), measured, strides)
    return ArgumentStorage(var, region, ())


def _kinds(t: Type) -> list[Kind]:
    """The kind of each word of an element."""
    match t:
        case ScalarType(kind):
            return [kind]
        case StructType(_, fields):
            return [kind for _, inner in fields for kind in _kinds(inner)]
        case ArrayType(element, shape):
            return _kinds(element) * prod(shape)
    raise TypeError(t)


def _gradient_pairs(
    sources: Sequence[ArgumentStorage], targets: Sequence[ArgumentStorage]
) -> list[tuple[ArgumentStorage, ArgumentStorage]] | None:
    """(parameter, target of its gradient) for each part that has a derivative; None where there is no such part, or their shapes differ."""
    if len(sources) != len(targets):
        return None
    pairs: list[tuple[ArgumentStorage, ArgumentStorage]] = []
    for x, g in zip(sources, targets, strict=True):
        real = tuple(Kind.FIXED if k.is_real else k for k in x.kinds)
        if x.shape != g.shape or real != tuple(Kind.FIXED if k.is_fixed else k for k in g.kinds):
            return None
        if Kind.FIXED in real:
            pairs.append((x, g))
    return pairs or None
