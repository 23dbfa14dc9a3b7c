"""Gradient and tangent programs: module → module, on the same arguments and their shadows.

    gradient(P) = P; L̄ += 1; lift(P⁻¹)          dual(P) = lift(P)

A gradient program ends in the state in which it began, except for cotangents: it takes those of the arguments as P leaves
them, and returns those of the arguments as P found them. Results are ordinary modules: they can be inverted, differentiated again,
emitted. While cotangents of freed variables are erased, the result runs forward only; where they are kept it is
reversible, and its inverse takes them back. The shadow of the word at an address lies `offset` words further on.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace

from retrograd.compiler.derivatives.accumulators import Accumulator, Role, accumulators
from retrograd.compiler.derivatives.activity import Storage, active_storage
from retrograd.compiler.derivatives.lifting import Kept, Lifting, Mode
from retrograd.compiler.derivatives.uncompute_elimination import Restoring, eliminate_uncomputation
from retrograd.compiler.ir import statements as ir
from retrograd.compiler.ir.effects import private_regions
from retrograd.compiler.ir.opcode_facts import facts
from retrograd.compiler.ir.traversal import bodies, walk, without_conditions
from retrograd.isa.table import TABLE

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
    lifting = Lifting(module, Mode.COTANGENT, active, offset, kept, roles=roles, copies=copies)
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
    back = lifting.lifted(ir.invert(module.entry), _zero_regions(module, without))
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
    active = active_storage(module, inputs, outputs)
    offset, wide = with_shadow_memory(module, active, copies)
    wide, kept, before, after = _room(wide, keep)
    lifting = Lifting(module, Mode.TANGENT, active, offset, kept, undone=restoring, copies=copies)
    forth = lifting.lifted(module.entry, _zero_regions(module, without))
    return Differentiated(_assembled(wide, lifting, (*before, *forth, *after)), offset, restoring=lifting.restoring)


def _zero_regions(module: ir.Module, without: Collection[str]) -> frozenset[ir.Region]:
    """The regions whose shadows are zero at the start."""
    return frozenset() if "zero_regions" in without else private_regions(module)


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
    module, region = with_region(module, "kept", keep + 1)
    assert region.address is not None
    pointer = ir.Var("kept", ir.Kind.ADDRESS)
    exchange = ir.Op(TABLE["exch"], pointer, ir.Const(0), None, region.address, None, region)
    start = ir.Op(TABLE["mov.add"], pointer, ir.Const(region.address + 1))
    before: ir.Block = (ir.Local(pointer), exchange, start)
    after: ir.Block = (start._replace(opcode=TABLE["mov.sub"]), exchange, ir.Delocal(pointer))
    return module, Kept(region, pointer, region.address + keep + 1, keep), before, after
