"""Lifting: the procedures of a module with a shadow (cotangent or tangent) beside every active word.

    cotangents:  (x, x̄) := (T(x), J⁻ᵀ x̄)          tangents:  (x, ẋ) := (T(x), J ẋ)

The shadow of a variable is a variable; the shadow of a memory word is the word `offset` places on. A statement is lifted in the
order of execution, so lifted code is inverted like any other IR. Only freeing is no bijection: a variable that is freed is
zero, but its shadow need not be. The shadow is erased, or kept by pushing it on a stack of its own.
Updates by known zeros are left out: shadows of locals begin with zero, and so do those of the program's own arrays in the entry.
Trap: shadows of parameters are assumed to be anything, and no array's shadow is assumed to be zero in a procedure or after its first use.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import product

from retrograd.compiler.derivatives.accumulators import (
    Accumulator,
    LinearUpdate,
    Role,
    Roles,
    SelfUpdate,
    Shadows,
    Storage,
    Sums,
    cotangents,
    kinks_of,
    passed_roles,
    tangents,
    with_carriers,
    with_shadows,
)
from retrograd.compiler.derivatives.uncompute_elimination import Restoring
from retrograd.compiler.ir import statements as ir
from retrograd.compiler.ir.effects import (
    AccessAnalysis,
    RestoredArrays,
    clobbered_between,
    frame_arrays,
)
from retrograd.compiler.ir.instruction_selection import Location, MemoryWord, facts, operand, updates
from retrograd.compiler.ir.traversal import bodies, walk
from retrograd.isa.diagnostics import CompileError, Diagnostic, Span
from retrograd.isa.entries import Opcode, bar
from retrograd.isa.expr import ZERO as ZERO_WORD
from retrograd.isa.expr import Expr
from retrograd.isa.table import TABLE

#: function of the instruction table -> its name in the language
_NAMES = {"fsqrt": "rg.sqrt", "fabs": "abs"}


class Mode(Enum):
    """The kind of shadows; the value is the suffix of their names."""

    COTANGENT = "bar"
    TANGENT = "dot"


@dataclass(frozen=True)
class Kept:
    """The stack of kept shadows: M[pointer] is the next free word of the region, which ends at `end` and has room for `words`."""

    region: ir.Region
    pointer: ir.Var
    end: int
    words: int


class Lifting:
    """Lifts blocks of one module; `procedures` gathers the lifted versions of the procedures that they call.

    `offset`: from a memory word to its shadow. `kept`: None erases the shadows of freed variables. `taken`: names in
    use. `anonymous`: shadows of array parameters are accessed as memory of any region, because the caller of the outermost
    procedure passes no regions for them. `copies`: shadows of each active word, which share the words; shadow k of a memory word
    lies (k + 1)·offset places on. All copies undergo the same steps, so the same of them are known to be zero: the first stands for all.
    `exact`: no variable of the module is zero by chance where it is freed, so inverses of compute blocks make tangents zero to the bit.
    `clears`: shadows of arrays that a compute block makes and restores are made zero behind it, as those of freed
    variables are. Else they stay, and the next array there begins with them: its updates cancel all but their rounding
    errors, and the shadows grow from pass to pass of a loop.
    """

    def __init__(
        self,
        module: ir.Module,
        mode: Mode,
        active: frozenset[Storage],
        offset: int,
        kept: Kept | None = None,
        *,
        taken: Collection[str] = (),
        anonymous: bool = False,
        roles: Roles | None = None,
        undone: Restoring | None = None,
        copies: int = 1,
        exact: bool = False,
        clears: bool = False,
    ) -> None:
        self.module = module
        self.w = module.format
        self.mode = mode
        self.active = active
        self.offset = offset
        self.kept = kept
        self._exact = exact
        self._copies = range(copies)
        self.procedures: dict[str, ir.Procedure] = {}
        #: regions whose shadows are accessed as any memory: parameters that may be one array, given twice
        self.nameless = _given(module) if anonymous else _given_twice(module)
        self._anonymous = anonymous
        self._taken = {*module.procedures, *taken}
        self._vars: dict[ir.Var, tuple[ir.Var, ...]] = {}
        self._regions: dict[tuple[ir.Region, int], ir.Region] = {}
        self._labels: dict[tuple[str, bool, frozenset[tuple[Accumulator, Role]]], str] = {}
        self._accesses = AccessAnalysis(module)
        #: arrays whose shadows are made zero, and those of them in whose compute block this statement lies
        self._restored = RestoredArrays(module, self._accesses) if clears else None
        self._alive: set[ir.Region] = set()
        #: the loops around this statement, and the procedure
        self._loops = 0
        #: the variables in place of accumulators, and the accumulators of the block that is being lifted
        self.sums = Sums(ir.Var("magnitude", ir.Kind.FIXED), ir.Var("total", ir.Kind.FIXED))
        self._roles: Roles = roles or {}
        #: restoring statements of the lifted blocks, those of the module, and how many blocks around this one are restoring
        self.restoring = Restoring()
        self._undone = undone or Restoring()
        self._undoing = 0

    # ------------------------------------------------------------------ shadows

    def is_active(self, cell: Storage) -> bool:
        return cell in self.active or (isinstance(cell, ir.Region) and None in self.active)

    def shadow(self, x: ir.Operand | None) -> ir.Var | None:
        """The variable's shadow, the first of its copies; None where it is not active."""
        found = self._shadows(x)
        return found[0] if found else None

    def _shadows(self, x: ir.Operand | None) -> tuple[ir.Var, ...]:
        """All copies of the variable's shadow."""
        if not isinstance(x, ir.Var) or x not in self.active:
            return ()
        if x not in self._vars:
            names = (f"{x.name}.{self._suffix(k)}" for k in self._copies)
            self._vars[x] = tuple(ir.Var(name, ir.Kind.FIXED, x.span) for name in names)
        return self._vars[x]

    def _suffix(self, copy: int) -> str:
        return f"{self.mode.value}{copy + 1 if copy else ''}"

    def region(self, region: ir.Region, copy: int = 0) -> ir.Region:
        """The place of the shadows of the region's words."""
        if (region, copy) not in self._regions:
            address = None if region.address is None else region.address + self._away(copy)
            name = f"{region.name}.{self._suffix(copy)}"
            self._regions[region, copy] = ir.Region(name, region.size, address, None, region.span)
        return self._regions[region, copy]

    def _away(self, copy: int) -> int:
        """The distance from a memory word to its shadow."""
        return (copy + 1) * self.offset

    def regions(self, regions: Iterable[ir.Region]) -> tuple[ir.Region, ...]:
        """The shadows of those of the regions that are active."""
        active = [r for r in regions if self.is_active(r)]
        return tuple(self.region(r, k) for k in self._copies for r in active)

    def static_regions(self) -> tuple[ir.Region, ...]:
        """The shadows of the module's own regions."""
        return self.regions(r for r in self.module.regions if r.address is not None)

    # ------------------------------------------------------------------ blocks

    def lifted(self, block: ir.Block, zero: Collection[Storage] = ()) -> ir.Block:
        """The block with shadows, in the order of its execution. `zero`: regions whose shadows are zero before it."""
        outer = self._roles
        self._roles = with_carriers(block, outer)
        lifted = tuple(self.block(block, set(zero)))
        self._roles = outer
        return lifted

    def block(self, block: Sequence[ir.Node], zero: set[Storage]) -> list[ir.Node]:
        """`zero`: shadows that are zero, and regions whose shadows are, before and, changed, after."""
        out: list[ir.Node] = []
        for node in block:
            out += self.node(node, zero)
        return out

    def node(self, node: ir.Node, zero: set[Storage]) -> list[ir.Node]:
        match node:
            case ir.Op():
                return self._op(node, zero)
            case ir.Local(var, _, span):
                shadows = self._shadows(var)
                zero.update(shadows[:1])
                return [self._primal(node), *(ir.Local(shadow, False, span) for shadow in shadows)]
            case ir.Delocal(var, _, span):
                shadows = self._shadows(var)
                freed = self._freed(shadows, zero, span)
                return [*freed, *(ir.Delocal(shadow, False, span) for shadow in shadows), self._primal(node)]
            case ir.Within():
                return self._within(node, zero)
            case ir.If(test, then, orelse, post, span):
                other = set(zero)
                blocks = tuple(self.block(then, zero)), tuple(self.block(orelse, other))
                zero &= other
                return [self._primal(ir.If(test, *blocks, post, span))]
            case ir.For() if self._frees and (region := _zero_tested(node)) and self.is_active(region):
                # An array that is made or freed: its shadows begin as zeros.
                found = [] if region in zero else [self._cleared(region, node.span)]
                zero.add(region)
                return [*found, self._primal(node)]
            case ir.While(body=body) | ir.For(body=body):
                self._loops += 1
                lifted = self._repeated(body, zero)
                self._loops -= 1
                return [self._primal(node._replace(body=lifted))]
            case ir.Call():
                return self._call(node, zero)
            case ir.Check(of=of) if any(self.shadow(x) is not None for x in of):
                return [node._replace(of=())]
            case ir.Check() if self._frees and (shadows := self._shadows(node.freed)):
                out = [self._primal(node), *self._freed(shadows, zero, node.span)]
                zero.add(shadows[0])
                return out
            case ir.Check() | ir.External():
                return [self._primal(node)]

    @property
    def _frees(self) -> bool:
        """Whether shadows of an array that is made or freed here are made zero; not where it happens once."""
        return self._restored is not None and self._loops > 0

    def uses(self, block: ir.Block, x: Storage) -> bool:
        """Whether statements read or write a variable."""
        access = self._accesses.block(block)
        return x in access.reads or x in access.writes

    def undone(self, compute: ir.Block, body: ir.Block, zero: set[Storage]) -> list[ir.Node]:
        """body⁻¹; compute⁻¹ with shadows."""
        return self._after_compute(ir.Within(compute, ir.invert(body)), zero)

    def _within(self, node: ir.Within, zero: set[Storage]) -> list[ir.Node]:
        found = [] if self._restored is None else self._restored.of(node)
        own = [r for r in found if self.is_active(r) and r not in self._alive]
        zero.update(own)
        self._alive.update(own)
        out = [*self.block(node.compute, zero), *self._after_compute(node, zero)]
        self._alive.difference_update(own)
        out += [self._cleared(region, node.span) for region in own if region not in zero]
        zero.update(own)
        return out

    def _cleared(self, region: ir.Region, span: Span | None) -> ir.Node:
        """Make the shadows of an array's words zero, in all copies."""
        assert region.address is not None
        index = ir.Var("i", ir.Kind.INT, span)
        body = self._cleared_word(index, region.address, region, span)
        return ir.For(index, ir.ZERO, ir.Const(region.size), 1, body, some=True, span=span)

    def _cleared_word(self, at: ir.Var, imm: int, region: ir.Region, span: Span | None) -> ir.Block:
        """Make the shadows of the word at this address zero."""
        word, out = ir.Var("t", ir.Kind.FIXED, span), list[ir.Node]()
        for copy in self._copies:
            take = ir.Op(TABLE["exch"], word, at, None, imm + self._away(copy), span, self._in_region(region, copy))
            erase = ir.Op(TABLE["erase"], word, span=span)
            out += [ir.Local(word, False, span), take, erase, ir.Delocal(word, False, span)]
        return tuple(out)

    def _after_compute(self, node: ir.Within, zero: set[Storage]) -> list[ir.Node]:
        out = self.block(node.body, zero)
        clobbered = clobbered_between(node, self._accesses)
        frames = frame_arrays(node.compute, clobbered.stores) if self._frees else {}
        for k, part in reversed([*enumerate(node.compute)]):
            exact = not clobbered.clobbers(self._accesses.of(part))
            if k in frames and self.is_active(frames[k].region):
                # Before its room is given back.
                at = ir.Var("at", ir.Kind.ADDRESS, node.span)
                body = self._cleared_word(at, 0, frames[k].region, node.span)
                out.append(frames[k].visited(body, at, node.span))
            self._undoing += exact
            out += self.block(ir.invert((part,)), zero)
            self._undoing -= exact
        return out

    def _primal(self, node: ir.Node) -> ir.Node:
        """The statement of the module itself: of the part of a compute block that is undone, a copy known as restoring."""
        return self.restoring.add(node) if self._undoing or node in self._undone else node

    def _repeated(self, body: ir.Block, zero: set[Storage]) -> ir.Block:
        while True:
            after = set(zero)
            lifted = self.block(body, after)
            if zero <= after:
                return tuple(lifted)
            # A shadow that one pass changes is not zero at the start of the next pass.
            zero &= after

    def _freed(self, shadows: Sequence[ir.Var], zero: set[Storage], span: Span | None) -> list[ir.Node]:
        """Make the copies of a shadow zero."""
        restored = self._exact and self._undoing and self.mode is Mode.TANGENT
        if not shadows or shadows[0] in zero or restored:
            zero.difference_update(shadows)
            return []
        if self.kept is None:
            return [ir.Op(TABLE["erase"], shadow, span=span) for shadow in shadows]
        (shadow,) = shadows
        region, pointer = self.kept.region, self.kept.pointer
        room = f"the memory of {self.kept.words} words for kept cotangents is full"
        return [
            ir.Check(ir.Test("ltu", pointer, ir.Const(self.kept.end)), "RG0809", room, span),
            ir.Op(TABLE["exch"], shadow, pointer, None, 0, span, region),
            ir.Op(TABLE["mov.add"], pointer, ir.Const(1), None, 0, span),
        ]

    # ------------------------------------------------------------------ instructions

    def _op(self, op: ir.Op, zero: set[Storage]) -> list[ir.Node]:
        table = cotangents if self.mode is Mode.COTANGENT else tangents
        found: Shadows = table(op.opcode, self.w)
        before = zero.copy()
        moved = self._moved(op, found, zero, 0)
        for copy in self._copies[1:]:
            moved += self._moved(op, found, before.copy(), copy)
        if moved:
            moved = [*self._smooth(op), *moved]
        moved += self._promised(op, zero)
        if self._roles:
            role = self._roles.get(op.region if facts(op.opcode).stores else op.d)  # type: ignore[arg-type]
            if role is not None:
                return [*moved, *self.sums.in_place_of(op, role, self.w)]
        own = self._primal(op)
        if own in self.restoring and self.mode is Mode.TANGENT and facts(op.opcode).updates:
            # The inverse of d ⊕= f(a) with its tangent restores both words, to the bit.
            moved = [self.restoring.add(node) for node in moved]
        return [own, *moved] if found.after else [*moved, own]

    def _moved(self, op: ir.Op, found: Shadows, zero: set[Storage], copy: int) -> list[ir.Node]:
        """The steps of the shadows in a copy."""
        moved: list[ir.Node] = []
        together: list[tuple[LinearUpdate, Expr]] = []
        for step in found.steps:
            if isinstance(step, SelfUpdate):
                moved += self._gains(op, together, zero, copy)
                moved += self._same(op, step.opcode, zero, copy)
                together = []
                continue
            value = self._value(op, step, zero)
            if value is None:
                continue
            if together and not self._apart(op, step, together):
                moved += self._gains(op, together, zero, copy)
                together = []
            together.append((step, value))
        return [*moved, *self._gains(op, together, zero, copy)]

    def _smooth(self, op: ir.Op) -> list[ir.Node]:
        """The conditions under which the steps of the shadows have derivatives of their own.

        They are on the derivatives of the operands, and of the shadows that the steps read.
        """
        out: list[ir.Node] = []
        if not (found := kinks_of(op.opcode, self.w)):
            return out
        words = [x for x in (op.a, op.b) if isinstance(x, ir.Var)]
        sources = [op.d] if self.mode is Mode.COTANGENT else words
        of = (*words, *(c for x in sources for c in self._shadows(x)))
        for tree in found:
            name = _NAMES.get(op.opcode.entry.name, op.opcode.entry.name)
            message = f"{name} has no second derivative at {{a}}"
            places: dict[str, Location] = {p: x for p in ("d", "a", "b") if (x := operand(op, p)) is not None}
            places["imm"] = ir.Const(self.w.wrap(op.imm))
            made: ir.Block = ()
            word = places.get(str(tree.param)) if tree.op == "input" else None
            if word is None:
                word = ir.Var("t", ir.Kind.FIXED, op.span)
                made = (ir.Local(word, False, op.span), *updates([(word, "add", tree)], places, self.w, op.span))
            assert not isinstance(word, MemoryWord)
            check = ir.Check(ir.Test("ne", word, ir.ZERO), "RG0815", message, op.span, of)
            out.append(ir.Within(made, (check,), None, op.span) if made else check)
        return out

    def _is_zero(self, op: ir.Op, p: str, zero: set[Storage]) -> bool:
        """Whether the shadow of the operand in the place is known to be zero."""
        if p == "m":
            return op.region in zero or not self.is_active(op.region)
        shadow = self.shadow(operand(op, p))
        return shadow is None or shadow in zero

    def _value(self, op: ir.Op, step: LinearUpdate, zero: set[Storage]) -> Expr | None:
        """The value by which the shadow is updated; None for no update."""
        if step.place == "m" and not self.is_active(op.region):
            return None
        if step.place != "m" and self.shadow(operand(op, step.place)) is None:
            return None
        zeros = {bar(s): ZERO_WORD for s in step.sources if self._is_zero(op, s, zero)}
        if len(zeros) == len(step.sources):
            return None
        return with_shadows(step.value, zeros) if zeros else step.value

    def _apart(self, op: ir.Op, step: LinearUpdate, others: Sequence[tuple[LinearUpdate, Expr]]) -> bool:
        """Whether none of these updates reads a shadow that another changes."""
        steps = [*(other for other, _ in others), step]
        changed = {operand(op, s.place) for s in steps if s.place != "m"}
        return not any(operand(op, p) in changed for s in steps for p in s.sources if p != "m")

    def _gains(
        self, op: ir.Op, gains: Sequence[tuple[LinearUpdate, Expr]], zero: set[Storage], copy: int
    ) -> list[ir.Node]:
        if not gains:
            return []
        places: dict[str, Location] = {"imm": ir.Const(self.w.wrap(op.imm))}
        for p in ("d", "a", "b"):
            x = operand(op, p)
            if x is not None:
                places[p] = x
                shadows = self._shadows(x)
                if shadows:
                    places[bar(p)] = shadows[copy]
        if facts(op.opcode).memory:
            places["m"] = MemoryWord(op.a or ir.ZERO, op.imm, op.region)
            places[bar("m")] = MemoryWord(op.a or ir.ZERO, op.imm + self._away(copy), self._in_region(op.region, copy))
        wanted = [(places[bar(step.place)], step.operator, value) for step, value in gains]
        for step, _ in gains:
            if step.place == "m":
                _changed(op.region, zero)
            else:
                zero.difference_update(self._shadows(operand(op, step.place)))
        return list(updates(wanted, places, self.w, op.span))

    def _in_region(self, region: ir.Region | None, copy: int) -> ir.Region | None:
        return None if region is None or region in self.nameless else self.region(region, copy)

    def _same(self, op: ir.Op, opcode: Opcode, zero: set[Storage], copy: int) -> list[ir.Node]:
        """The opcode on shadows."""
        written = [p for p in opcode.writes if p != "br"]
        if all(self._is_zero(op, p, zero) for p in written):
            return []
        of = {p: self.shadow(operand(op, p)) for p in written if p != "m"}
        own = {p: self._shadows(operand(op, p))[copy] for p, c in of.items() if c is not None}
        d, a, b = (own.get(p, None if p in of else operand(op, p)) for p in ("d", "a", "b"))
        if opcode.name == "swap":
            x, y = of["d"], of["a"]
            assert x is not None
            assert y is not None
            if (x in zero) != (y in zero):
                zero ^= {x, y}
        elif "m" in written:
            word = of["d"]
            assert word is not None
            emptied = op.region in zero
            _changed(op.region, zero)
            zero.discard(word)
            if emptied:
                zero.add(word)
        elif opcode.name != "neg":
            zero -= {c for c in of.values() if c is not None}
        imm, region = (
            (op.imm + self._away(copy), self._in_region(op.region, copy)) if "m" in written else (op.imm, None)
        )
        if opcode is not op.opcode:
            a = b = None
            imm = 0
        return [ir.Op(opcode, d, a, b, imm, op.span, region)]

    def _promised(self, op: ir.Op, zero: set[Storage]) -> list[ir.Node]:
        """An instruction of the user's that frees a variable, or erases it."""
        if op.opcode.entry.name not in ("assertz", "erase"):
            return []
        shadows = self._shadows(op.d)
        if not shadows or shadows[0] in zero:
            return []
        made = self._freed(shadows, zero, op.span)
        zero.add(shadows[0])
        return made

    # ------------------------------------------------------------------ calls

    def _call(self, call: ir.Call, zero: set[Storage]) -> list[ir.Node]:
        callee = self.module.procedures[call.procedure]
        accesses = self._accesses.of(call)
        if self._is_all_zero(call, callee, accesses.loads | accesses.stores, zero):
            return [self._primal(call)]
        for region in accesses.loads | accesses.stores | frozenset(call.regions if callee.adjoint else ()):
            _changed(region, zero)
        before: list[ir.Node] = []
        after: list[ir.Node] = []
        given: list[ir.Operand] = []
        pairs = list(zip(call.args, callee.params, strict=True))
        for copy, (index, (arg, param)) in product(self._copies, enumerate(pairs)):
            if self.shadow(param) is None:
                continue
            shadow = self._shadows(arg)[copy] if self.shadow(arg) is not None else None
            changes = self.mode is Mode.COTANGENT or index in callee.written
            if shadow is None or (changes and shadow in given):
                # A constant, or a variable given twice: the updates of its shadow are gathered in a local.
                gathered = ir.Var(f"{param.name}.{self._suffix(copy)}", ir.Kind.FIXED, call.span)
                before.append(ir.Local(gathered, False, call.span))
                if shadow is not None:
                    after.append(ir.Op(TABLE["fmov.add"], shadow, gathered, None, 0, call.span))
                if changes:
                    after += self._freed((gathered,), set(), call.span)
                after.append(ir.Delocal(gathered, False, call.span))
                given.append(gathered)
                continue
            if changes:
                zero.discard(shadow)
            given.append(shadow)
        named = () if self._anonymous else zip(call.regions, callee.regions, strict=True)
        passed = [r for r, param in named if self.is_active(param)]
        regions = [r and self.region(r, k) for k in self._copies for r in passed]
        roles = passed_roles(call, callee, self._roles, self._accesses) if self._roles else {}
        own = [*([] if self.kept is None else [self.kept.pointer]), *self.sums.of(roles.values())]
        args = (*call.args, *given, *own)
        label = self.version(callee, call.backward, roles)
        return [*before, ir.Call(label, args, (*call.regions, *regions), False, call.span), *after]

    def _is_all_zero(
        self, call: ir.Call, callee: ir.Procedure, regions: Iterable[ir.Region | None], zero: Collection[Storage]
    ) -> bool:
        """Whether all shadows that the call may read are zero. Then they stay zero, because shadows change linearly.

        A callee that is made in another way where cotangents go with it is never taken as one without.
        """
        if self._roles or (callee.adjoint is not None and callee.adjoint.made_by is not None):
            return False
        given = [x for x, param in zip(call.args, callee.params, strict=True) if self.shadow(param) is not None]
        return all(self.shadow(x) is None or self.shadow(x) in zero for x in given) and not any(
            self.is_active(region) and region not in zero for region in regions
        )

    def version(
        self, p: ir.Procedure, backward: bool, roles: Roles | None = None, zero: Collection[Storage] = ()
    ) -> str:
        """The lifted procedure, or its inverse lifted, by name. `roles`: the accumulators among its parameters and regions.

        `zero`: as in `lifted`, for a procedure that is called nowhere else.
        """
        roles = roles or {}
        key = (p.name, backward, frozenset(roles.items()))
        if key in self._labels:
            return self._labels[key]
        label = f"{p.name}.{'inverse.' if backward else ''}{self.mode.value}"
        while label in self._taken:
            label += "_"
        self._taken.add(label)
        self._labels[key] = label
        active = [(i, x) for i, x in enumerate(p.params) if self.shadow(x) is not None]
        shadows = [(i, self._shadows(x)[k]) for k in self._copies for i, x in active]
        own = [*([] if self.kept is None else [self.kept.pointer]), *self.sums.of(roles.values())]
        params = (*p.params, *(c for _, c in shadows), *own)
        named = () if self._anonymous else p.regions
        regions = (*p.regions, *self.regions(named))
        written = set(p.written)
        for at, (i, _) in enumerate(shadows, len(p.params)):
            if self.mode is Mode.COTANGENT or i in p.written:
                written.add(at)
        written.update(range(len(params) - len(own), len(params)))
        outer = self._roles, self._undoing, self._loops
        self._roles, self._undoing, self._loops = roles, 0, 1
        if p.adjoint is not None and self.mode is Mode.COTANGENT:
            body = self._own_adjoint(p, p.adjoint, backward)
        else:
            body = self.lifted(ir.invert(p.body) if backward else p.body, zero)
        self._roles, self._undoing, self._loops = outer
        self.procedures[label] = replace(
            p, name=label, params=params, regions=regions, body=body, written=frozenset(written), adjoint=None
        )
        return label

    def _own_adjoint(self, p: ir.Procedure, adjoint: ir.Adjoint, backward: bool) -> ir.Block:
        """p⁻¹; A(x …, x̄ …) for the user's adjoint A, which takes the words before p; the inverse of this for p itself.

        With `made_by` A undoes p, too, and that procedure is p with cotangents: A, or the other, once for each copy.
        """
        if adjoint.made_by is not None and self.kept is not None:
            message = (
                "a gradient within a program can be undone, and the gradient of a loop with checkpoints erases states"
            )
            hint = "Differentiate the whole program, by `rg.grad` or `rg.hessian`; or keep the states of this loop in an array."
            raise CompileError(Diagnostic("RG0733", message, p.span, hint))
        name, undoing = adjoint.name, False
        if adjoint.made_by is not None and not backward:
            name, undoing = adjoint.made_by, True  # and inverted below
        found: list[ir.Node] = []
        for copy in self._copies:
            made: list[ir.Node] = []
            given: list[ir.Operand] = []
            regions: list[ir.Region | None] = []
            for param in (p.params[i] for i in adjoint.of):
                region = p.region_of(param)
                if not self.is_active(param if region is None else region):
                    break  # then none of the cotangents is needed: see `accumulators.py`
                if region is None:
                    given.append(self._shadows(param)[copy])
                    continue
                at = ir.Var("at", ir.Kind.ADDRESS, p.span)
                away = ir.Const(self.w.wrap(self._away(copy)))
                made += [ir.Local(at), *(ir.Op(TABLE["mov.add"], at, x, None, 0, p.span) for x in (param, away))]
                given.append(at)
                regions.append(self._in_region(region, copy))
            else:
                call = ir.Call(name, (*p.params, *given), (*p.regions, *regions), undoing, p.span)
                found.append(ir.Within(tuple(made), (call,), None, p.span) if made else call)
        again = ir.Call(p.name, p.params, p.regions, False, p.span)
        if found and adjoint.made_by is not None:
            out = [node for each in found for node in (again, each)][1:]
        else:
            out = [ir.invert_node(again), *found]
        return tuple(out) if backward else ir.invert(out)


def _zero_tested(node: ir.For) -> ir.Region | None:
    """The array all of whose words the loop finds to be zero; None for other loops."""
    inside = node.body[0] if len(node.body) == 1 else None
    if not isinstance(inside, ir.Within) or (len(inside.compute), len(inside.body)) != (2, 1):
        return None
    (local, take), (check,) = inside.compute, inside.body
    if not (isinstance(local, ir.Local) and isinstance(take, ir.Op) and isinstance(check, ir.Check)):
        return None
    region, range_ = take.region, (node.start, node.stop, node.step)
    if region is None or region.address != take.imm or range_ != (ir.ZERO, ir.Const(region.size), 1):
        return None
    whole = take.opcode.name == "exch" and take.a is node.var and take.d is local.var is check.freed
    return region if whole else None


def _changed(region: ir.Region | None, zero: set[Storage]) -> None:
    """A shadow of the region may no longer be zero; None stands for all memory."""
    if region is not None:
        zero.discard(region)
        return
    zero -= {x for x in zero if isinstance(x, ir.Region)}


def _given(module: ir.Module) -> frozenset[ir.Region]:
    """The regions that procedures are given."""
    return frozenset(r for p in module.procedures.values() for r in p.regions)


def _given_twice(module: ir.Module) -> frozenset[ir.Region]:
    """The regions of procedures that two names may share: one array given twice, here or further up."""
    found: set[ir.Region] = set()
    while True:
        before = len(found)
        for body in bodies(module):
            for node in walk(body):
                if isinstance(node, ir.Call):
                    params = module.procedures[node.procedure].regions
                    for i, (given, param) in enumerate(zip(node.regions, params, strict=True)):
                        if given in found or given in node.regions[:i] + node.regions[i + 1 :]:
                            found.add(param)
        if len(found) == before:
            return frozenset(found)
