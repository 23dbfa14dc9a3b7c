"""Accumulators: the outputs that a program only adds to, found by an analysis of net effects.

    P: (x, out) → (x, out + s(x))          so P⁻¹ passes through the same words from (x, out) as from (x, out + s(x)), out aside

`net` are the variables and regions that may hold other words after a statement than before it. P accumulates if it reads none of its net
changes, and every update of them is a sum. A reverse sweep, lift(P⁻¹), may then start from the words that P starts from.
Correct because all other words are restored by P⁻¹, and the inverse of P⁻¹ is P: where P⁻¹ ends without a trap, P passes through the same
words in the opposite order. The checks of the sums themselves are the exception, and are replaced: see `reverse_sweeps.py`.
Trap: sets of net changes may be larger than the truth, never smaller.
Remarks: the first use of a changed word that is no sum.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum

from retrograd.compiler.derivatives.shadows import LinearUpdate, cotangents
from retrograd.compiler.ir import statements as ir
from retrograd.compiler.ir.effects import AccessAnalysis, AccessSets
from retrograd.compiler.ir.opcode_facts import facts
from retrograd.compiler.ir.traversal import operands_of, walk
from retrograd.isa.diagnostics import Span
from retrograd.isa.expr import inputs


class Role(Enum):
    """The part of an accumulator in a program without a forward sweep."""

    #: no update of it can overflow, so none is needed
    UNCHECKED = "unchecked"
    #: the magnitudes of its terms are added up, in place of its updates
    CHECKED = "checked"
    #: likewise, and the sum of its terms is needed for the value of the loss
    LOSS = "loss"


Accumulator = ir.Var | ir.Region
Roles = Mapping[Accumulator, Role]


class _OtherUse(Exception):
    """A word that the program changes is used in another way than in sums."""

    def __init__(self, reason: str, span: Span | None = None) -> None:
        super().__init__(reason if span is None else f"{reason} (line {span.line})")


def accumulators(module: ir.Module, loss: int | None = None) -> dict[Accumulator, Role] | str:
    """The regions that the program changes, with their roles, if it only adds to them; else the reason. `loss`: the address of the loss."""
    if module.arguments is None:
        return "the regions that the host reads are not known"
    accesses = AccessAnalysis(module)
    try:
        variables, regions = _NetChanges(module, accesses).block(module.entry)
        if variables or not regions.issubset(module.arguments):
            return "words may change that belong to no argument"
        uses = _Uses(module, accesses)
        checked = uses.block(module.entry, {r: Role.CHECKED for r in regions if r is not None})
    except _OtherUse as other:
        return str(other)
    roles: dict[Accumulator, Role] = {}
    for r in module.regions:
        if r in regions:
            roles[r] = Role.LOSS if r.address == loss else Role.CHECKED if r in checked else Role.UNCHECKED
    return roles


def with_carriers(block: ir.Block, roles: Roles) -> dict[Accumulator, Role]:
    """The roles with those of the variables that an accumulator's word is exchanged into."""
    carried: dict[ir.Var, ir.Region] = {}
    for node in walk(block):
        if not isinstance(node, ir.Op) or node.opcode.name != "exch" or node.region not in roles:
            continue
        assert node.region is not None
        assert isinstance(node.d, ir.Var)
        if node.d in roles or carried.setdefault(node.d, node.region) is not node.region:
            raise _OtherUse(f"`{node.d.name}` is exchanged with words of two regions", node.span)
    return {**roles, **{x: roles[r] for x, r in carried.items()}}


def passed_roles(
    call: ir.Call, callee: ir.Procedure, roles: Roles, accesses: AccessAnalysis
) -> dict[Accumulator, Role]:
    """The roles of the parameters and of the module's own regions in a callee."""
    summary = accesses.summary(callee)
    passed: dict[Accumulator, Role] = {r: roles[r] for r in (*summary.loads, *summary.stores) if r and r in roles}
    passed |= {p: roles[r] for r, p in zip(call.regions, callee.regions, strict=True) if r and r in roles}
    for x, p in zip(call.args, callee.params, strict=True):
        if isinstance(x, ir.Var) and x in roles:
            passed[p] = roles[x]
    return passed


# ---------------------------------------------------------------- net changes


class _NetChanges:
    """The variables and regions that may hold other words after a statement than before it."""

    def __init__(self, module: ir.Module, accesses: AccessAnalysis) -> None:
        self._procedures = module.procedures
        self._accesses = accesses
        self._bodies: dict[str, tuple[set[ir.Var], set[ir.Region | None]]] = {}

    def block(self, block: Iterable[ir.Node]) -> tuple[set[ir.Var], set[ir.Region | None]]:
        """Those of statements in a row; variables that die in the block are left out."""
        variables: set[ir.Var] = set()
        regions: set[ir.Region | None] = set()
        dead: set[ir.Var] = set()
        for node in block:
            if isinstance(node, ir.Delocal):
                dead.add(node.var)
                continue
            changed, stored = self._node(node)
            variables |= changed
            regions |= stored
        return variables - dead, regions

    def _node(self, node: ir.Node) -> tuple[set[ir.Var], set[ir.Region | None]]:
        match node:
            case ir.Op():
                access = self._accesses.of(node)
                return set(access.writes), set(access.stores)
            case ir.Within(compute, body):
                return self._within(compute, body)
            case ir.If(_, then, orelse):
                variables, regions = self.block(then)
                others, stores = self.block(orelse)
                return variables | others, regions | stores
            case ir.While(_, body) | ir.For(body=body):
                return self.block(body)
            case ir.Call():
                return self._call(node)
            case ir.Local() | ir.Delocal() | ir.Check() | ir.External():
                return set(), set()

    def _within(self, compute: ir.Block, body: ir.Block) -> tuple[set[ir.Var], set[ir.Region | None]]:
        # The body's changes, and those of each part of compute that its inverse may then not undo.
        variables, regions = self.block(body)
        parts = [self._accesses.of(part) for part in compute]
        while True:
            changed = AccessSets(writes=frozenset(variables), stores=frozenset(regions))
            reached = [part for part in parts if changed.clobbers(part)]
            if not reached:
                break
            parts = [part for part in parts if not changed.clobbers(part)]
            for part in reached:
                variables |= part.writes
                regions |= part.stores
        return variables - {node.var for node in compute if isinstance(node, ir.Local)}, regions

    def _call(self, call: ir.Call) -> tuple[set[ir.Var], set[ir.Region | None]]:
        callee = self._procedures[call.procedure]
        if callee.adjoint is not None:
            raise _OtherUse(f"the adjoint of `{callee.name}` takes the words before the call", call.span)
        if callee.recursive:
            access = self._accesses.of(call)
            return set(access.writes), set(access.stores)
        if callee.name not in self._bodies:
            self._bodies[callee.name] = self.block(callee.body)
        variables, regions = self._bodies[callee.name]
        args = dict(zip(callee.params, call.args, strict=True))
        named: dict[ir.Region | None, ir.Region | None] = dict(zip(callee.regions, call.regions, strict=True))
        changed = {args.get(x, x) for x in variables}
        return {x for x in changed if isinstance(x, ir.Var)}, {named.get(r, r) for r in regions}


# ---------------------------------------------------------------- uses


class _Uses:
    """Whether accumulators are used in sums only, and which of them a checked sum changes."""

    def __init__(self, module: ir.Module, accesses: AccessAnalysis) -> None:
        self._module = module
        self._accesses = accesses
        self._known: dict[tuple[str, frozenset[Accumulator]], set[Accumulator]] = {}

    def block(self, block: ir.Block, roles: Roles) -> set[Accumulator]:
        """Those of the accumulators that a checked sum changes. Raises _OtherUse."""
        roles = with_carriers(block, roles)
        checked: set[Accumulator] = set()
        pairs: list[tuple[Accumulator, Accumulator]] = []
        for node in walk(block):
            match node:
                case ir.Op(_, d, _, _, _, _, region):
                    self._op(node, roles)
                    f = facts(node.opcode)
                    target = region if f.stores else d
                    if f.checked and target in roles:
                        checked.add(target)
                    if node.opcode.name == "exch" and region in roles:
                        pairs.append((d, region))  # type: ignore[arg-type]
                case ir.Call():
                    checked |= self._call(node, roles)
                case ir.Local(var, promised) | ir.Delocal(var, promised):
                    if promised and var in roles:
                        raise _OtherUse(f"`{var.name}` must be zero, and the program changes it", node.span)
                case ir.Within() | ir.If() | ir.While() | ir.For() | ir.Check() | ir.External():
                    for x in operands_of(node):
                        if isinstance(x, ir.Var) and x in roles:
                            raise _OtherUse(
                                f"a condition or a bound reads `{x.name}`, which the program changes", node.span
                            )
        return checked | {region for d, region in pairs if d in checked}

    def _op(self, op: ir.Op, roles: Roles) -> None:
        f = facts(op.opcode)
        d, a, b = (isinstance(x, ir.Var) and x in roles for x in (op.d, op.a, op.b))
        if f.memory and op.region is None:
            # Memory that has no region may be the accumulator's.
            raise _OtherUse("an access may reach any word of memory", op.span)
        m = f.memory and op.region in roles
        if not (d or a or b or m):
            if op.opcode.name in ("erase", "unerase"):
                # Without its forward sweep the program has no words to restore.
                raise _OtherUse("words are erased", op.span)
            return
        if op.opcode.name == "exch":
            fits = d and m and not a
        elif f.stores:
            fits = m and not (d or a or b) and op.opcode.update in ("add", "sub")
        else:
            fits = f.updates and d and not (a or b or m) and op.opcode.update in ("add", "sub")
        steps = cotangents(op.opcode, self._module.format).steps
        if not fits or any("d" in inputs(s.value) for s in steps if isinstance(s, LinearUpdate) and f.updates):
            # An operand that is read, before the target.
            names = [x.name for x in (op.a, op.b, op.region, op.d) if isinstance(x, ir.Var | ir.Region) and x in roles]
            message = f"`{names[0]}`, which the program changes, is used in `{op.opcode.name}`, which is no sum into it"
            raise _OtherUse(message, op.span)

    def _call(self, call: ir.Call, roles: Roles) -> set[Accumulator]:
        callee = self._module.procedures[call.procedure]
        inner = passed_roles(call, callee, roles, self._accesses)
        key = callee.name, frozenset(inner)
        if key not in self._known:
            if callee.recursive and inner:
                raise _OtherUse(f"`{callee.name}` is recursive", call.span)
            # A procedure without accumulators can still access memory without a region.
            self._known[key] = set()
            self._known[key] = self.block(callee.body, inner)
        checked = self._known[key]
        found: set[Accumulator] = {r for r in checked if r in roles}
        for x, p in (*zip(call.args, callee.params, strict=True), *zip(call.regions, callee.regions, strict=True)):
            if p in checked and not isinstance(x, ir.Const):
                if x is None:
                    raise _OtherUse(f"`{callee.name}` may change any word of memory", call.span)
                found.add(x)
        return found
