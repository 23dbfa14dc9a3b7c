"""Shadow steps: the effect of an opcode on the cotangents or tangents of its words, as steps that instructions can execute.

    cotangents:  x̄ := J⁻ᵀ x̄          tangents:  ẋ := J ẋ          J the Jacobian of the opcode's effects

Both are linear in the shadows and bijections of them, one effect after the other; each is the inverse transpose of the
other, effect by effect. So only the lift to cotangents is derived, and tangents come from transposing it:

    x̄ −= s·ȳ   becomes   ẏ += s·ẋ         an exchange or a change of sign stays as it is
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache

from retrograd.compiler.ir import statements as ir
from retrograd.compiler.ir.effects import AccessAnalysis, AccessSets
from retrograd.compiler.ir.instruction_selection import can_trap, facts, operand, updates
from retrograd.compiler.ir.statements import SP, Call, For, Module, Op, Region, Var
from retrograd.compiler.ir.traversal import bodies, operands_of, walk
from retrograd.isa.derivatives import NoDerivative, kinks, lift, on_shadows, vector_jacobian
from retrograd.isa.diagnostics import Span
from retrograd.isa.effects import UPDATE_OPERATORS, Effects, Exchange, Permute, Update, inverse
from retrograd.isa.entries import BAR, Bijection, Function, Opcode, bar
from retrograd.isa.expr import ZERO, Expr, inputs, nodes, place, substitute
from retrograd.isa.folds import replaced
from retrograd.isa.table import TABLE
from retrograd.isa.words import Format


@dataclass(frozen=True)
class LinearUpdate:
    """The shadow of `place` ⊕= value; `sources`: the places whose shadows the value reads, and is linear in."""

    place: str
    operator: str
    value: Expr
    sources: tuple[str, ...]


@dataclass(frozen=True)
class SelfUpdate:
    """The opcode's own exchange, rotation or change of sign, of the shadows in place of the words that it writes."""

    opcode: Opcode


@dataclass(frozen=True)
class Shadows:
    """The steps, in order. `after`: their values read the words as the opcode leaves them, not as it finds them."""

    steps: tuple[LinearUpdate | SelfUpdate, ...] = ()
    after: bool = False


@cache
def cotangents(opcode: Opcode, w: Format) -> Shadows:
    """x̄ := J⁻ᵀ x̄. Without steps where the opcode carries no derivative."""
    try:
        before = lift(opcode, w)
        behind = inverse(lift(TABLE.inverse(opcode), w))
    except NoDerivative:
        return Shadows()
    # Two ways to write the same: over the words before, or over those after. The short one has instructions.
    after = _size(behind) < _size(before)
    return Shadows(tuple(_steps(opcode, behind if after else before, w)), after)


@cache
def kinks_of(opcode: Opcode, w: Format) -> tuple[Expr, ...]:
    """The trees over the operands at whose zeros the opcode's function has no second derivative.

    A function whose tree goes by tables has partial derivatives of its own, and is smooth wherever it has a value.
    """
    if not isinstance(opcode.entry, Function):
        return ()
    value = opcode.entry.value(w)
    try:
        vector_jacobian(value, place(bar("d")))
    except NoDerivative:
        return ()
    return kinks(value)


@cache
def tangents(opcode: Opcode, w: Format) -> Shadows:
    """ẋ := J ẋ. Without steps where the opcode carries no derivative."""
    of = cotangents(opcode, w)
    steps: list[LinearUpdate | SelfUpdate] = []
    for step in of.steps:
        if isinstance(step, SelfUpdate):
            steps.append(step)
            continue
        operator = UPDATE_OPERATORS[step.operator].undone_by
        for source in step.sources:
            # The sum's other terms belong to the other sources.
            moved = {bar(s): ZERO for s in step.sources} | {bar(source): place(bar(step.place))}
            steps.append(LinearUpdate(source, operator, with_shadows(step.value, moved), (step.place,)))
    return Shadows(tuple(steps), of.after)


def with_shadows(root: Expr, moved: Mapping[str, Expr]) -> Expr:
    """The tree with shadows replaced and then simplified; subtrees that read no shadow stay unchanged."""
    shadows = {name: place(name) for name in inputs(root) if name.endswith(BAR)}
    return replaced(root, {**shadows, **moved})


def _size(effects: Effects) -> int:
    trees: list[Expr] = []
    for effect in effects:
        match effect:
            case Update(value=tree) | Permute(forward=tree):
                trees.append(tree)
            case Exchange(when=when) if when is not None:
                trees.append(when)
    return sum(1 for _ in nodes(*trees))


def _steps(opcode: Opcode, effects: Effects, w: Format) -> list[LinearUpdate | SelfUpdate]:
    own = on_shadows(opcode.effects(w)) if isinstance(opcode.entry, Bijection) else ()
    out: list[LinearUpdate | SelfUpdate] = []
    at = 0
    while at < len(effects):
        effect = effects[at]
        if own and effects[at : at + len(own)] == own:
            out.append(SelfUpdate(opcode))
            at += len(own)
            continue
        at += 1
        match effect:
            case Update(where, operator, value):
                sources = tuple(sorted(p.removesuffix(BAR) for p in inputs(value) if p.endswith(BAR)))
                out.append(LinearUpdate(where.removesuffix(BAR), operator, with_shadows(value, {}), sources))
            case _:
                out.append(SelfUpdate(_alike(on_places(effect), w)))
    return out


def on_places(effect: object) -> Effects:
    """The effect on the words of which it names the shadows."""
    match effect:
        case Permute(where, forward, backward, slope):
            name = where.removesuffix(BAR)
            words = {where: place(name)}
            return (Permute(name, substitute(forward, words), substitute(backward, words), slope),)
        case Exchange(left, right, when):
            return (Exchange(left.removesuffix(BAR), right.removesuffix(BAR), when),)
    raise NoDerivative(f"no instruction does {effect}")


def _alike(effects: Effects, w: Format) -> Opcode:
    """The opcode that has these effects."""
    for opcode in TABLE.by_name.values():
        if isinstance(opcode.entry, Bijection) and opcode.effects(w) == effects:
            return opcode
    raise NoDerivative(f"no instruction does {effects}")


# -----------------------------------------------------------------------------
# Activity analysis: the variables and regions that derivatives pass through.
#
#     active = {x : an input influences x, and x an output}, differentiably
#
# Shadows of all others are zero or never read, and are left out.
# Correct because the set may be larger than needed, never smaller: the order of statements is ignored, and a variable is active
# everywhere or nowhere.
# Source: L. Hascoët, U. Naumann, V. Pascual, "To be recorded" analysis in reverse-mode automatic differentiation, Future
# Generation Computer Systems 21 (2005), §2.

#: a variable, a region, or None: memory accessed without a region, which may be any
Storage = Var | Region | None

_Flows = dict[Storage, set[Storage]]


def active_storage(module: Module, inputs: Iterable[Storage], outputs: Iterable[Storage]) -> frozenset[Storage]:
    """The variables and regions between these inputs and outputs. None among them stands for all memory.

    The variable of a loop is not active, because only the loop sets it.
    """
    back = _dependences(module)
    forth: _Flows = {}
    for target, sources in back.items():
        for source in sources:
            forth.setdefault(source, set()).add(target)
    given: set[Storage] = {SP}
    given.update(node.var for body in bodies(module) for node in walk(body) if isinstance(node, For))
    return frozenset((_reached(back, set(outputs)) & _reached(forth, set(inputs))) - given)


def useful_storage(module: Module, outputs: Iterable[Storage]) -> frozenset[Storage]:
    """The variables and regions that influence these outputs, so that their cotangents need not be zero."""
    return frozenset(_reached(_dependences(module), set(outputs)))


def _dependences(module: Module) -> _Flows:
    """variable or region -> the variables and regions that it depends on"""
    back: _Flows = {}
    for p in module.procedures.values():
        if p.adjoint is not None:
            # Each cotangent of the user's adjoint may depend on each other one.
            own: list[Storage] = [p.region_of(p.params[i]) or p.params[i] for i in p.adjoint.of]
            for x, y in zip(own, [*own[1:], *own[:1]], strict=True):
                back.setdefault(y, set()).add(x)
    for body in bodies(module):
        for node in walk(body):
            if isinstance(node, Op):
                for source, target in _flows(node, module.format):
                    back.setdefault(target, set()).add(source)
            elif isinstance(node, Call):
                _join_arguments(back, node, module)
    if None in back or any(None in sources for sources in back.values()):
        for region in {r for r in _storage(back) if isinstance(r, Region)}:
            back.setdefault(region, set()).add(None)
            back.setdefault(None, set()).add(region)
    return back


def _flows(op: Op, w: Format) -> list[tuple[Storage, Storage]]:
    """(x, y) where the op's y' depends on x."""
    out: list[tuple[Storage, Storage]] = []
    for source, target in _pairs(op.opcode, w):
        storage = [op.region if p == "m" else operand(op, p) for p in (source, target)]
        if all(p == "m" or isinstance(c, Var) for p, c in zip((source, target), storage, strict=True)):
            out.append((storage[0], storage[1]))  # type: ignore[arg-type]
    return out


def _pairs(opcode: Opcode, w: Format) -> list[tuple[str, str]]:
    # The cotangent of x gains from that of y where y' depends on x.
    out: list[tuple[str, str]] = []
    for step in cotangents(opcode, w).steps:
        if isinstance(step, LinearUpdate):
            out += [(step.place, source) for source in step.sources]
        else:
            written = [p for p in step.opcode.writes if p != "br"]
            out += [(x, y) for x in written for y in written if x != y]
    return out


def _join_arguments(back: _Flows, call: Call, module: Module) -> None:
    callee = module.procedures[call.procedure]
    pairs: list[tuple[Storage, Storage]] = []
    for arg, param in zip(call.args, callee.params, strict=True):
        if isinstance(arg, Var):
            pairs.append((arg, param))
    pairs += zip(call.regions, callee.regions, strict=True)
    for x, y in pairs:
        back.setdefault(x, set()).add(y)
        back.setdefault(y, set()).add(x)


def _storage(back: _Flows) -> set[Storage]:
    return set(back).union(*back.values())


def _reached(flows: _Flows, start: Collection[Storage]) -> set[Storage]:
    reached: set[Storage] = set(start)
    todo = list(reached)
    while todo:
        for storage in flows.get(todo.pop(), ()):
            if storage not in reached:
                reached.add(storage)
                todo.append(storage)
    return reached


# -----------------------------------------------------------------------------
# Accumulators: the outputs that a program only adds to, found by an analysis of net effects.
#
#     P: (x, out) → (x, out + s(x))          so P⁻¹ passes through the same words from (x, out) as from (x, out + s(x)), out aside
#
# `net` are the variables and regions that may hold other words after a statement than before it. P accumulates if it reads none of its net
# changes, and every update of them is a sum. A reverse sweep, lift(P⁻¹), may then start from the words that P starts from.
# Correct because all other words are restored by P⁻¹, and the inverse of P⁻¹ is P: where P⁻¹ ends without a trap, P passes through the same
# words in the opposite order. The checks of the sums themselves are the exception, and are replaced, see reverse sweeps below.
# Trap: sets of net changes may be larger than the truth, never smaller.
# Remarks: the first use of a changed word that is no sum.


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


def changed_arguments(module: ir.Module) -> frozenset[ir.Region]:
    """The arguments of the module that may hold other words after a run than before it: all of them where that is not known."""
    arguments = frozenset(module.arguments or ())
    try:
        _, regions = _NetChanges(module, AccessAnalysis(module)).block(module.entry)
    except _OtherUse:
        return arguments
    return arguments if None in regions else arguments.intersection(regions)


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


# -----------------------------------------------------------------------------
# Reverse sweeps without a forward sweep: lift(P⁻¹) from the words that P starts from, where P only accumulates.
#
#     out += f(a)     becomes, on the way back,     m += |f(a)|        and for the loss also  total −= f(a)
#     at the end      m += Σ |out|;  value := loss − total;  m and total are erased
#
# The outputs keep the words that they have before P. If m does not overflow, no sum of P does, in any order, since each is at most
# Σ |out| + Σ |f(a)|. If m overflows, P may or may not trap: a program with a forward sweep must then run in place of this one.
# Correct for all other traps: where this program ends, P ends too (`accumulators.py`). Where it does not end, P may end in a trap.

_ABSOLUTE, _ERASE = TABLE["fabs.add"], TABLE["erase"]


@dataclass(frozen=True)
class Sums:
    """The variables that take the place of the accumulators: the sum of magnitudes, and the negative sum of the loss's terms."""

    magnitude: ir.Var
    total: ir.Var

    def of(self, roles: Iterable[Role]) -> tuple[ir.Var, ...]:
        """The variables that accumulators of these roles need."""
        given = set(roles)
        if Role.LOSS in given:
            return self.magnitude, self.total
        return (self.magnitude,) if Role.CHECKED in given else ()

    def in_place_of(self, op: ir.Op, role: Role, w: Format) -> list[ir.Node]:
        """The statements for an instruction of P⁻¹ that changes an accumulator."""
        f, update = facts(op.opcode), op.opcode.update
        if op.opcode.name == "exch":
            return []
        term: ir.Operand | None = op.b if op.opcode.entry.name in ("st", "fst") else None
        if op.opcode.entry.name in ("mov", "fmov"):
            term = op.a
        if term is not None:
            return self._terms(term, update, role, op)
        if role is Role.UNCHECKED and not can_trap(op.opcode, w):
            return []
        # The term is computed also where only its traps matter.
        t = ir.Var("term", ir.Kind.FIXED, op.span)
        made: ir.Block = (op._replace(opcode=op.opcode if update == "add" else TABLE.inverse(op.opcode), d=t),)
        if f.stores:
            # A register takes the place of the word in memory.
            assert f.function is not None
            places = {p: x for p in ("d", "b") if (x := operand(op, p)) is not None}
            made = updates([(t, "add", f.function.value(w))], places, w, op.span)
        return [
            ir.Local(t, False, op.span),
            *made,
            *self._terms(t, update, role, op),
            ir.Op(_ERASE, t, span=op.span),
            ir.Delocal(t, False, op.span),
        ]

    def _terms(self, term: ir.Operand, update: str | None, role: Role, op: ir.Op) -> list[ir.Node]:
        out: list[ir.Node] = []
        if role is not Role.UNCHECKED:
            out.append(ir.Op(_ABSOLUTE, self.magnitude, term, span=op.span))
        if role is Role.LOSS:
            out.append(ir.Op(TABLE[f"fmov.{update}"], self.total, term, span=op.span))
        return out

    def before(self) -> ir.Block:
        return ir.Local(self.magnitude), ir.Local(self.total)

    def after(self, roles: Roles, load: ir.Op | None = None, store: ir.Op | None = None) -> ir.Block:
        """Add the magnitudes of the accumulators' words, and free the variables.

        `load`, `store`: from the loss into a variable, and from there to the value of the loss.
        """
        out: list[ir.Node] = []
        for region, role in roles.items():
            if role is not Role.UNCHECKED and isinstance(region, ir.Region):
                out += self._magnitudes(region)
        if load is not None and store is not None:
            assert isinstance(load.d, ir.Var)
            t = load.d
            out += [
                ir.Local(t),
                load,
                ir.Op(TABLE["fmov.sub"], t, self.total),
                store,
                ir.Op(_ERASE, t),
                ir.Delocal(t),
            ]
        for x in (self.total, self.magnitude):
            out += [ir.Op(_ERASE, x), ir.Delocal(x)]
        return tuple(out)

    def _magnitudes(self, region: ir.Region) -> ir.Block:
        assert region.address is not None
        t = ir.Var("t", ir.Kind.FIXED, region.span)

        def added(at: ir.Operand, offset: int) -> ir.Block:
            load = ir.Op(TABLE["ld.add"], t, at, None, offset, region.span, region)
            return (ir.Within((ir.Local(t), load), (ir.Op(_ABSOLUTE, self.magnitude, t),), None, region.span),)

        if region.size == 1:
            return added(ir.Const(0), region.address)
        i = ir.Var("i", ir.Kind.INT, region.span)
        return (ir.For(i, ir.ZERO, ir.Const(region.size), 1, added(i, region.address), False, True, region.span),)
