"""Common-subexpression elimination in lifted code: a value that a variable holds already is copied, not computed again.

    s += sin a;  …;  t ± sin a     →     s += sin a;  …;  t ± s        where s was zero, and nothing between writes s or a

The derivative of cos a needs sin a, and the derivative of √a needs √a. Facts "s holds f(a, b)" are gathered in
the order of execution. Facts at the end of one side of a branch hold at the start of that side of a later branch on the same test.
Correct for traps because f(a, b) had a value before, and the check of the sum sees the same numbers.
Cost: s is needed longer, so only functions that take longer than a sum are reused.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from typing import NamedTuple

from retrograd.compiler.ir import statements as ir
from retrograd.compiler.ir.effects import AccessAnalysis, clobbered_between
from retrograd.compiler.ir.instruction_selection import can_trap, facts, operand
from retrograd.compiler.ir.traversal import bodies, calls, operands_of, walk
from retrograd.isa.table import TABLE

#: functions whose values are reused
_SLOW = frozenset({"fdiv", "fsqrt", "fexp", "flog", "fsin", "fcos", "fatan2"})


class _Value(NamedTuple):
    """f(a, b)"""

    function: str
    a: ir.Operand | None
    b: ir.Operand | None

    def reads(self, x: ir.Var) -> bool:
        return self.a is x or self.b is x


class _Facts:
    """The variables that are zero, the holders of values, and the holders at the ends of both sides of earlier branches."""

    def __init__(self) -> None:
        self.zero: set[ir.Var] = set()
        self.holders: dict[_Value, ir.Var] = {}
        self.sides: dict[ir.Test, tuple[dict[_Value, ir.Var], dict[_Value, ir.Var]]] = {}

    def copy(self) -> _Facts:
        other = _Facts()
        other.zero, other.holders, other.sides = set(self.zero), dict(self.holders), dict(self.sides)
        return other

    def write(self, written: Iterable[ir.Var]) -> None:
        """Forget all facts on these variables."""
        for x in written:
            self.zero.discard(x)
            self.holders = _without(self.holders, x)
            self.sides = {
                test: (_without(then, x), _without(orelse, x))
                for test, (then, orelse) in self.sides.items()
                if test.a is not x and test.b is not x
            }


def _without(holders: dict[_Value, ir.Var], x: ir.Var) -> dict[_Value, ir.Var]:
    if not any(y is x or value.reads(x) for value, y in holders.items()):
        return holders
    return {value: y for value, y in holders.items() if y is not x and not value.reads(x)}


def reuse_values(block: ir.Block, same: Callable[[ir.Node, ir.Node], ir.Node]) -> ir.Block:
    """The block, which has no `Within`, with copies in place of values that are held already.

    `same(old, new)`: called for each statement that takes the place of another; gives the statement to use.
    """
    if not any(isinstance(node, ir.Op) and node.opcode.entry.name in _SLOW for node in walk(block)):
        return block
    return tuple(_Reuse(same).block(block, _Facts()))


class _Reuse:
    def __init__(self, same: Callable[[ir.Node, ir.Node], ir.Node]) -> None:
        self._same = same

    def block(self, block: Iterable[ir.Node], known: _Facts) -> list[ir.Node]:
        """`known`: the facts before the block and, changed, after it."""
        return [self._node(node, known) for node in block]

    def _node(self, node: ir.Node, known: _Facts) -> ir.Node:
        match node:
            case ir.Op():
                return self._op(node, known)
            case ir.Local(var):
                known.write((var,))
                known.zero.add(var)
                return node
            case ir.If():
                return self._if(node, known)
            case ir.While() | ir.For():
                written = _written_or_scoped((node,))
                known.write(written)
                return self._same(node, node._replace(body=tuple(self.block(node.body, known.copy()))))
            case ir.Check() | ir.External():
                return node
            case ir.Delocal() | ir.Within() | ir.Call():
                known.write(_written_or_scoped((node,)))
                return node

    def _if(self, node: ir.If, known: _Facts) -> ir.Node:
        then, orelse = known.copy(), known.copy()
        held = known.sides.get(node.test)
        if held is not None:
            then.holders = held[0] | then.holders
            orelse.holders = held[1] | orelse.holders
        blocks = tuple(self.block(node.then, then)), tuple(self.block(node.orelse, orelse))
        known.write(_written_or_scoped((node,)))
        if then.holders or orelse.holders:
            known.sides[node.post] = then.holders, orelse.holders
        return self._same(node, node._replace(then=blocks[0], orelse=blocks[1]))

    def _op(self, op: ir.Op, known: _Facts) -> ir.Node:
        f, d, update = facts(op.opcode), op.d, op.opcode.update
        written = [x for p in f.written if isinstance(x := operand(op, p), ir.Var)]
        if op.opcode.entry.name == "erase" and isinstance(d, ir.Var):
            known.write(written)
            known.zero.add(d)
            return op
        if op.opcode.entry.name not in _SLOW or update not in ("add", "sub") or not isinstance(d, ir.Var):
            if written:
                known.write(written)
            return op
        value = _Value(op.opcode.entry.name, op.a, op.b)
        holder, fresh = known.holders.get(value), d in known.zero
        known.write((d,))
        if holder is d and update == "sub":
            known.zero.add(d)
        elif holder is not None and holder is not d:
            return self._same(op, ir.Op(TABLE[f"fmov.{update}"], d, holder, None, 0, op.span))
        elif fresh and update == "add":
            known.holders[value] = d
        return op


def _written_or_scoped(nodes: Iterable[ir.Node]) -> set[ir.Var]:
    """The variables that statements at any depth write, or pass to procedures; variables that are born or die count as written."""
    out: set[ir.Var] = set()
    for node in walk(nodes):
        match node:
            case ir.Op(opcode):
                out.update(x for p in facts(opcode).written if isinstance(x := operand(node, p), ir.Var))
            case ir.Local(var) | ir.Delocal(var) | ir.For(var):
                out.add(var)
            case ir.Call(args=args):
                out.update(x for x in args if isinstance(x, ir.Var))
                out.add(ir.SP)
            case ir.Within() | ir.If() | ir.While() | ir.Check() | ir.External():
                pass
    return out


# -----------------------------------------------------------------------------
# Dead-code elimination of uncomputation: by liveness, for programs that need no way back.
#
#     compute; body; compute⁻¹     →     compute; body; erase of the temporaries        where nothing reads the words that compute⁻¹ restores
#
# An operation is dead if no later statement reads a word that it writes. Dead operations of compute⁻¹ are left out, and variables that they
# would have cleared are erased where they are freed.
# Correct for traps because compute⁻¹ undoes statements that have ended: its operations cannot trap, nor can their conditions fail, as long as the body
# does not interfere with compute. Elsewhere only operations that never trap are left out. A statement that
# stays finds all its operands as before, the words that it changes among them.
# Arrays are live while a later statement accesses them, so an array that a loop or a procedure uses again is restored; at the end of the
# program only the arguments and `results` are live.
# Procedures that also run backward stay as they are. In between, values that variables hold are reused, see value reuse.
# Trap: the result has no inverse that restores the erased words, so this is the last step before emission.

_ERASE = TABLE["erase"]

#: variables and regions; None is any memory
_Live = set[ir.Var | ir.Region | None]


class Restoring:
    """Statements that undo a part of a compute block whose words nothing has changed since, by identity.

    Each is one object at one place of a program.
    """

    def __init__(self) -> None:
        self._nodes: dict[int, ir.Node] = {}

    def __contains__(self, node: ir.Node) -> bool:
        return id(node) in self._nodes

    def add(self, node: ir.Node) -> ir.Node:
        """A copy of the statement, which is one of these."""
        copy = node._replace()
        self._nodes[id(copy)] = copy
        return copy

    def copy(self) -> Restoring:
        other = Restoring()
        other._nodes = dict(self._nodes)
        return other


def eliminate_uncomputation(module: ir.Module, restoring: Restoring, results: Collection[ir.Region]) -> ir.Module:
    """The module without dead uncomputation. `restoring`: see there; more such statements are found."""
    accesses = AccessAnalysis(module)
    if module.arguments is None:
        return module
    procedures = dict(module.procedures)
    for name in procedures.keys() - _called_backward(module):
        p = procedures[name]
        everything: _Live = {ir.SP, None, *p.params}
        procedures[name] = replace(p, body=_Elimination(module, accesses, restoring).run(p.body, everything))
    last: _Live = {ir.SP, *module.arguments, *results}
    entry = _Elimination(module, accesses, restoring).run(module.entry, last)
    return replace(module, entry=entry, procedures=procedures)


def _called_backward(module: ir.Module) -> set[str]:
    """The procedures that run backward, too: called so, called in a compute block, or called by such a procedure."""
    found: set[str] = set()
    todo: list[ir.Block] = []

    def reach(name: str) -> None:
        if name not in found:
            found.add(name)
            todo.append(module.procedures[name].body)

    for body in bodies(module):
        for node in walk(body):
            if isinstance(node, ir.Call) and node.backward:
                reach(node.procedure)
            elif isinstance(node, ir.Within):
                for call in calls(node.compute):
                    reach(call.procedure)
    while todo:
        for call in calls(todo.pop()):
            reach(call.procedure)
    return found


class _Elimination:
    def __init__(self, module: ir.Module, accesses: AccessAnalysis, restoring: Restoring) -> None:
        self._w = module.format
        self._accesses = accesses
        self._restoring = restoring.copy()
        #: operation, by identity → the copy in its place
        self._replaced: dict[int, ir.Node] = {}

    def run(self, block: ir.Block, live: _Live) -> ir.Block:
        flat = tuple(self._flat(block, False))
        kept = tuple(self._block(flat, live)[0])
        # A variable that is not cleared any more holds its value longer.
        reused = reuse_values(kept, self._in_place_of)
        if self._replaced:
            kept = tuple(self._block(reused, live)[0])
        # A variable is cleared by hand if an operation on it is left out and another one stays.
        left = {id(node) for node in walk(kept)}
        left |= {old for old, new in self._replaced.items() if id(new) in left}
        dropped = [node for node in walk(flat) if isinstance(node, ir.Op) and id(node) not in left]
        return tuple(self._cleared(kept, _written(dropped) & _written(kept)))

    # ------------------------------------------------------------------ structure

    def _flat(self, block: Iterable[ir.Node], marked: bool) -> list[ir.Node]:
        """The block without `Within`, its restoring statements marked; each statement of it is one object."""
        out: list[ir.Node] = []
        for given in block:
            node = given
            exact = marked or node in self._restoring
            match node:
                case ir.Within(compute, body):
                    out += self._flat(compute, exact)
                    out += self._flat(body, exact)
                    clobbered = clobbered_between(node, self._accesses)
                    for part in reversed(compute):
                        undone = exact or not clobbered.clobbers(self._accesses.of(part))
                        out += self._flat(ir.invert((part,)), undone)
                    continue
                case ir.If() | ir.While() | ir.For():
                    node = ir.with_children(node, [tuple(self._flat(b, exact)) for b in ir.children(node)])
                case ir.Op() | ir.Local() | ir.Delocal() | ir.Call() | ir.Check() | ir.External():
                    pass
            out.append(self._restoring.add(node) if exact else node._replace())
        return out

    def _cleared(self, block: Iterable[ir.Node], dirty: Collection[ir.Var]) -> list[ir.Node]:
        """The block with an `erase` of these variables where they are freed."""
        out: list[ir.Node] = []
        for node in block:
            if isinstance(node, ir.Delocal) and node.var in dirty:
                if not (out and isinstance(last := out[-1], ir.Op) and last.d is node.var and last.opcode is _ERASE):
                    out.append(ir.Op(_ERASE, node.var, span=node.span))
                out.append(node._replace(checked=False))
            elif ir.children(node):
                out.append(ir.with_children(node, [tuple(self._cleared(b, dirty)) for b in ir.children(node)]))
            else:
                out.append(node)
        return out

    def _in_place_of(self, old: ir.Node, new: ir.Node) -> ir.Node:
        """The statement `new`, which takes the place of another."""
        if old in self._restoring:
            new = self._restoring.add(new)
        if isinstance(old, ir.Op):
            self._replaced[id(old)] = new
        return new

    # ------------------------------------------------------------------ liveness

    def _block(self, block: ir.Block, live: _Live) -> tuple[list[ir.Node], _Live]:
        """(the statements that stay, the live storage before them), from the live storage after them."""
        out: list[ir.Node] = []
        live = set(live)
        for node in reversed(block):
            kept = self._node(node, live)
            if kept is not None:
                out.append(kept)
        out.reverse()
        return out, live

    def _node(self, node: ir.Node, live: _Live) -> ir.Node | None:
        """The statement, or None where it is left out. `live`: after it, and changed to before it."""
        match node:
            case ir.Op():
                return self._op(node, live)
            case ir.Local(var):
                live.discard(var)
                return node
            case ir.Delocal(var, checked):
                live.discard(var)
                if checked and node not in self._restoring:
                    live.add(var)
                return node
            case ir.If():
                return self._if(node, live)
            case ir.While() | ir.For():
                return self._loop(node, live)
            case ir.Check() if node in self._restoring:
                return None
            case ir.Call():
                access = self._accesses.of(node)
                live |= {*access.reads, *access.writes, *access.loads, *access.stores}
                return node
            case ir.Within() | ir.Check() | ir.External():
                live |= _variables(node)
                return node

    def _op(self, op: ir.Op, live: _Live) -> ir.Op | None:
        f, name = facts(op.opcode), op.opcode.name
        written = {x for p in f.written if isinstance(x := operand(op, p), ir.Var)}
        if name == "erase":
            live -= written
            return op
        useful = not written.isdisjoint(live) or (f.stores and _is_live(op.region, live))
        exact = op in self._restoring
        never_traps = not (f.memory or f.checked or name == "assertz" or can_trap(op.opcode, self._w))
        if not useful and (exact or never_traps) and ir.SP not in written:
            return None
        live |= _variables(op)
        if f.memory:
            live.add(op.region)
        return op

    def _if(self, node: ir.If, live: _Live) -> ir.If | None:
        after = live | _tested(node.post)
        then, before = self._block(node.then, after)
        orelse, other = self._block(node.orelse, after)
        if node in self._restoring and _does_nothing(then) and _does_nothing(orelse):
            return None
        live.clear()
        live |= before | other | _tested(node.test)
        return node._replace(then=tuple(then), orelse=tuple(orelse))

    def _loop(self, node: ir.While | ir.For, live: _Live) -> ir.Node | None:
        ends: set[ir.Var] = _variables(node)
        if isinstance(node, ir.For):
            ends.discard(node.var)
        around = live | ends
        while True:
            body, before = self._block(node.body, around)
            if before <= around:
                break
            around |= before
        # A counted loop always ends; other loops do so where they undo a loop that has ended.
        if _does_nothing(body) and (isinstance(node, ir.For) or node in self._restoring):
            return None
        if isinstance(node, ir.For):
            around.discard(node.var)
        live |= around
        return node._replace(body=tuple(body))


def _is_live(region: ir.Region | None, live: _Live) -> bool:
    return region is None or region in live or None in live


def _variables(node: ir.Node) -> set[ir.Var]:
    return {x for x in operands_of(node) if isinstance(x, ir.Var)}


def _tested(test: ir.Test) -> set[ir.Var]:
    return {x for x in (test.a, test.b) if isinstance(x, ir.Var)}


def _does_nothing(block: Iterable[ir.Node]) -> bool:
    return all(isinstance(node, ir.Local | ir.Delocal) and not node.checked for node in block)


def _written(nodes: Iterable[ir.Node]) -> set[ir.Var]:
    """The variables that instructions and calls at any depth write."""
    out: set[ir.Var] = set()
    for node in walk(nodes):
        if isinstance(node, ir.Op):
            out.update(x for p in facts(node.opcode).written if isinstance(x := operand(node, p), ir.Var))
        elif isinstance(node, ir.Call):
            out.update(x for x in node.args if isinstance(x, ir.Var))
    return out
