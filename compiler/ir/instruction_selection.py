"""Facts about opcodes that passes need, each computed from the instruction table, and evaluation of constants.

d ⊕= f(a, b, imm)      written = (d),  read = (a, b),  function = f
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache
from typing import NamedTuple

from retrograd.compiler.ir import statements as ir
from retrograd.compiler.ir.statements import Op, Operand, Var
from retrograd.isa import points
from retrograd.isa.diagnostics import Span
from retrograd.isa.effects import UPDATE_OPERATORS
from retrograd.isa.entries import NOT_JUMPING, Function, Guard, Opcode
from retrograd.isa.expr import ZERO, Expr, evaluate, inputs, match, nodes, place
from retrograd.isa.points import shifts_of_quotients
from retrograd.isa.table import ENTRIES, TABLE
from retrograd.isa.words import Format

#: update -> the update that undoes it
OPPOSITE = {name: operator.undone_by for name, operator in UPDATE_OPERATORS.items()}


class OpcodeFacts(NamedTuple):
    """How an opcode uses its operands."""

    #: operands among d, a, b that it changes, and operands that it only reads (an address included)
    written: tuple[str, ...]
    read: tuple[str, ...]
    #: it names the memory word M[a + imm], and changes that
    memory: bool
    stores: bool
    #: `target ⊕= f` where f reads neither the target nor, beside `a` and `b`, anything but `imm` and `m`
    function: Function | None
    #: the update of a register: `d ⊕= f(a, b, imm)`, d nothing else
    updates: bool
    #: it traps where the sum does not fit
    checked: bool


@cache
def facts(opcode: Opcode) -> OpcodeFacts:
    """The facts of one opcode."""
    memory = "[ra+imm]" in opcode.operands
    written = tuple(p for p in ("d", "a", "b") if p in opcode.writes)
    seen = {p for p in ("d", "a", "b") if p in opcode.reads} | ({"a"} if memory else set())
    read = tuple(p for p in ("d", "a", "b") if p in seen and p not in written)
    function = opcode.entry if isinstance(opcode.entry, Function) else None
    updates = function is not None and written == ("d",)
    checked = function is not None and function.checked
    return OpcodeFacts(written, read, memory, "m" in opcode.writes, function, updates, checked)


def operand(op: Op, place: str) -> Operand | None:
    """The operand in the place d, a or b."""
    return op.d if place == "d" else op.a if place == "a" else op.b


@cache
def guards(opcode: Opcode, w: Format) -> tuple[Guard, ...]:
    """The conditions under which the opcode does not trap, without the one on the branch register that all share."""
    return tuple(g for g in opcode.guards(w) if g.predicate is not NOT_JUMPING.predicate)


@cache
def can_trap(opcode: Opcode, w: Format) -> bool:
    """Whether some words make it trap, addresses and the sum of a checked update aside."""
    return len(guards(opcode, w)) > (facts(opcode).checked and opcode.update != "xor")


def with_update(opcode: Opcode, update: str) -> Opcode | None:
    """The same function with another update, if there is one."""
    return TABLE.by_name.get(f"{opcode.entry.name}.{update}")


def move_for(opcode: Opcode) -> Opcode:
    """The opcode that updates by a word as this opcode updates by its value: checked where this opcode is."""
    if opcode.update in ("mul", "div"):
        return TABLE[f"lmov.{opcode.update}"]
    return TABLE[f"fmov.{opcode.update}" if facts(opcode).checked else f"mov.{opcode.update}"]


# --- operands in memory


@cache
def register_form(opcode: Opcode) -> tuple[Opcode, Mapping[str, str]] | None:
    """The same update of a register by registers, for an update with a word of memory: `mov.add` for `ld.add`, `fmul.sub` for `fmulst.sub`.

    With it, the place of the given opcode (d, b, or m for the word) that each place of the register form stands for.
    """
    f, w = facts(opcode).function, Format()
    if f is None or not facts(opcode).memory:
        return None
    for g in ENTRIES:
        if not isinstance(g, Function) or g.target != "d" or g.checked != f.checked or opcode.update not in g.updates:
            continue
        tree = g.value(w)
        given = match(tree, f.value(w)) if inputs(tree) <= {"a", "b"} else None
        if given is not None and all(x.op == "input" for x in given.values()):
            return TABLE[f"{g.name}.{opcode.update}"], {p: str(x.param) for p, x in given.items()}
    return None


def by_registers(op: Op, word: Operand) -> Op:
    """The update with an operand in place of the word of memory."""
    form = register_form(op.opcode)
    assert form is not None
    opcode, meaning = form
    given = {"m": word, "d": op.d, "b": op.b}
    a, b = (given[meaning[p]] if p in meaning else None for p in ("a", "b"))
    return Op(opcode, word if facts(op.opcode).stores else op.d, a, b, 0, op.span)


@cache
def memory_forms(opcode: Opcode) -> tuple[tuple[Opcode, Mapping[str, str]], ...]:
    """The opcodes of which this opcode is the register form, each with the places as in `register_form`."""
    found = ((other, register_form(other)) for other in TABLE)
    return tuple((other, form[1]) for other, form in found if form is not None and form[0] is opcode)


@cache
def commutes(opcode: Opcode) -> bool:
    """f(a, b) = f(b, a) for all words of 4 bits, and so, being one formula, for all widths."""
    w = Format(4, 0)
    if not isinstance(opcode.entry, Function) or not {"a", "b"} <= inputs(opcode.entry.value(w)):
        return False
    value = opcode.entry.value(w)
    return all(
        evaluate(value, w, {"a": x, "b": y}) == evaluate(value, w, {"a": y, "b": x})
        for x in range(w.mask + 1)
        for y in range(x)
    )


# --- evaluation


def _known(a: int | None, b: int | None, imm: int, w: Format) -> dict[str, int]:
    return {"imm": imm & w.mask} | ({} if a is None else {"a": a}) | ({} if b is None else {"b": b})


@cache
def is_rounded(opcode: Opcode) -> bool:
    """Whether the function of an instruction gives a rounded real number: a product, quotient, root, move, or a function by a table."""
    entry = opcode.entry
    if not isinstance(entry, Function) or not entry.differentiable:
        return False
    value = entry.value(Format())
    return points.whole(value) is not None or any(
        n.op.startswith(("mul", "div", "sqrt", "table")) for n in nodes(value)
    )


@lru_cache(maxsize=1 << 14)
def function_value(opcode: Opcode, a: int | None, b: int | None, imm: int, w: Format) -> int | None:
    """f(a, b, imm) of an update of a register where its operands are known and no guard on them fails, else None.

    The guard that a checked sum fits reads the target, and is left to the instruction that makes the sum.
    """
    entry = opcode.entry
    if not isinstance(entry, Function) or entry.target != "d":
        return None
    env = _known(a, b, imm, w)
    value = entry.value(w)
    if not inputs(value) <= env.keys():
        return None
    for guard in guards(opcode, w):
        needs = inputs(guard.predicate)
        if "d" not in needs and not (needs <= env.keys() and evaluate(guard.predicate, w, env)):
            return None
    return evaluate(value, w, env)


def constant_value(op: Op, w: Format) -> int | None:
    """f of an update whose operands are all constants, where it has a value, else None."""
    if isinstance(op.a, Var) or isinstance(op.b, Var) or not facts(op.opcode).updates or facts(op.opcode).memory:
        return None
    a, b = (None if x is None else x.word for x in (op.a, op.b))
    return function_value(op.opcode, a, b, op.imm, w)


@lru_cache(maxsize=1 << 14)
def word_after(opcode: Opcode, d: int, a: int | None, b: int | None, imm: int, w: Format) -> int | None:
    """The word in d after the instruction, or None if a guard fails."""
    env = {"d": d} | _known(a, b, imm, w)
    if not all(evaluate(opcode.guard_predicate(guard, w), w, env) for guard in guards(opcode, w)):
        return None
    return evaluate(opcode.transition(w)["d"], w, env)


# -----------------------------------------------------------------------------
# The cost model of the optimiser: trip counts of loops, code size, executed instructions.
#
# A loop of unknown bounds is taken to make ASSUMED_TRIPS passes.

ASSUMED_TRIPS = 8


def trip_values(loop: ir.For, w: Format) -> range | None:
    """The values of the loop's variable in the order of the passes; None where the bounds are unknown.

    The stop may lie beyond the largest word, and is then less than the start: at 8 bits, range(100, 127, 5) stops at 130, which is −126.
    """
    if isinstance(loop.start, ir.Const) and isinstance(loop.stop, ir.Const):
        start, size = w.signed(loop.start.word), abs(loop.step)
        distance = (
            loop.stop.word - loop.start.word & w.mask if loop.step > 0 else loop.start.word - loop.stop.word & w.mask
        )
        passes, rest = divmod(distance if distance % size == 0 else distance + w.mask + 1, size)
        values = range(start, start + passes * loop.step, loop.step)
        if rest or (values and not -w.sign <= values[-1] < w.sign):
            return None
        return values[::-1] if loop.backward else values
    return range(0) if loop.start is loop.stop else None


def expected_trips(loop: ir.For, w: Format) -> int:
    """How many passes the loop makes, or is taken to make."""
    values = trip_values(loop, w)
    return ASSUMED_TRIPS if values is None else length(values)


def length(values: range) -> int:
    """The length of a range; `len` takes no range of 2^63 items."""
    return max(0, -((values.start - values.stop) // values.step))


def code_size(block: ir.Block) -> int:
    """About how many instructions the block becomes. Code is emitted for `compute` and for its inverse."""
    total = 0
    for node in block:
        match node:
            case ir.Op() | ir.Check() | ir.Call():
                total += 1
            case ir.Local(_, checked) | ir.Delocal(_, checked):
                total += checked
            case ir.Within(compute, body):
                total += 2 * code_size(compute) + code_size(body)
            case ir.If(_, then, orelse):
                total += 4 + code_size(then) + code_size(orelse)
            case ir.While(_, body):
                total += 2 + code_size(body)
            case ir.For(_, _, _, _, body):
                total += 6 + code_size(body)
            case ir.External():
                pass
    return total


def executed(block: Iterable[ir.Node], w: Format) -> int:
    """About how many instructions a run of the block executes."""
    total = 0
    for node in block:
        match node:
            case ir.Op() | ir.Call():
                total += 1
            case ir.Check():
                total += 2
            case ir.Local(_, checked) | ir.Delocal(_, checked):
                total += checked
            case ir.Within(compute, body):
                total += 2 * executed(compute, w) + executed(body, w)
            case ir.If(_, then, orelse):
                total += 2 + max(executed(then, w), executed(orelse, w))
            case ir.While(_, body):
                total += 2 + ASSUMED_TRIPS * (2 + executed(body, w))
            case ir.For(body=body):
                total += 2 + expected_trips(node, w) * (3 + executed(body, w))
            case ir.External():
                pass
    return total


# -----------------------------------------------------------------------------
# Instruction selection: a tree over words becomes the instructions of the table that compute it.
#
#     x ⊕= tree   →   within (operands computed) do (x ⊕= f(a, b))        f(a, b) the tree, by the table's own trees
#
# A tree is covered from its root down by the trees of the functions. Nodes are interned, so a match is one walk. A
# choice that no
# function computes becomes a branch; a quotient whose binary places are not those of the format is `fdivp` by a
# constant.
# Traps: of a choice only one side is computed, so a side without a value for the other side's operands cannot trap.
# Source: tree pattern matching, A. V. Aho, M. Ganapathi, S. W. K. Tjiang, ACM TOPLAS 11 (1989), here without costs.


class MemoryWord(NamedTuple):
    """A word of memory: M[a + imm]."""

    a: ir.Operand
    imm: int
    region: ir.Region | None


Location = ir.Operand | MemoryWord


class NoInstruction(Exception):
    """No instruction computes a part of the tree."""


def updates(
    wanted: Sequence[tuple[Location, str, Expr]], places: Mapping[str, Location], w: Format, span: Span | None = None
) -> ir.Block:
    """The statements for `target ⊕= tree`, for each (target, ⊕, tree). No tree may read a target; `places` are the trees' inputs.

    Common subtrees are computed once. A sum that overflows traps, in memory too. Raises NoInstruction.
    """
    scope = _SelectionScope(places, w, span)
    body: list[ir.Node] = []
    for target, operator, tree in wanted:
        if isinstance(target, MemoryWord):
            t = ir.Var("t", ir.Kind.FIXED, span)
            exchange = ir.Op(TABLE["exch"], t, target.a, None, target.imm, span, target.region)
            body += [ir.Local(t, False, span), exchange]
            scope.update(body, t, operator, tree)
            body += [exchange, ir.Delocal(t, False, span)]
        else:
            assert isinstance(target, ir.Var)
            scope.update(body, target, operator, tree)
    return scope.wrap(body)


class _SelectionScope:
    """The operands computed for one block, or for one side of a choice in it."""

    def __init__(
        self, places: Mapping[str, Location], w: Format, span: Span | None, outer: _SelectionScope | None = None
    ) -> None:
        self.places = places
        self.w = w
        self.span = span
        self.outer = outer
        self.compute: list[ir.Node] = []
        self.known: dict[Expr, ir.Operand] = {}

    def wrap(self, body: list[ir.Node]) -> ir.Block:
        return (ir.Within(tuple(self.compute), tuple(body), None, self.span),) if self.compute else tuple(body)

    def update(self, out: list[ir.Node], d: ir.Var, operator: str, tree: Expr) -> None:
        """Append the statements for `d ⊕= tree`."""
        found = _cover(tree, operator, self.w)
        if found is not None:
            f, given = found
            a, b = (self.operand(given[p]) if p in given else None for p in ("a", "b"))
            imm = self.constant(given["imm"]) if "imm" in given else 0
            out.append(ir.Op(TABLE[f"{f.name}.{operator}"], d, a, b, imm, self.span))
            return
        additive = operator in ("add", "sub")
        tree = self.chosen(tree)
        match tree.op, tree.param:
            case "sub", _ if additive and tree.args[0] is ZERO:
                self.update(out, d, OPPOSITE[operator], tree.args[1])
            case (("add" | "sub"), _) if additive:
                self.update(out, d, operator, tree.args[0])
                self.update(out, d, operator if tree.op == "add" else OPPOSITE[operator], tree.args[1])
            case "select", _:
                test = self.test(tree.args[0])
                blocks: list[ir.Block] = []
                for side in tree.args[1:]:
                    inner, body = _SelectionScope(self.places, self.w, self.span, self), list[ir.Node]()
                    if side is not ZERO:
                        inner.update(body, d, operator, side)
                    blocks.append(inner.wrap(body))
                out.append(ir.If(test, blocks[0], blocks[1], test, self.span))
            case (("input" | "const" | "xor"), _):
                moves = {"mul": "lmov", "div": "lmov", "xor": "mov"}
                name = f"{moves.get(operator, 'fmov')}.{operator}"
                out.append(ir.Op(TABLE[name], d, self.operand(tree), None, 0, self.span))
            case "divround", int(places) if additive and places in shifts_of_quotients(self.w):
                # Twice a divisor, or half a quotient, would leave the word or be rounded twice.
                x, y = (self.operand(arg) for arg in tree.args)
                out.append(ir.Op(TABLE[f"fdivp.{operator}"], d, x, y, places, self.span))
            case _ if operator in ("mul", "div") and (parts := _combination(tree, self.w)) is not None:
                first, second, value = parts
                self.update(out, d, operator, first)
                self.update(out, d, second if operator == "mul" else OPPOSITE[second], value)
            case _:
                raise NoInstruction(f"no instruction computes {tree.op}")

    def constant(self, tree: Expr) -> int:
        """The value of a tree that reads nothing but the instruction's constant."""
        given = self.places.get("imm")
        env = {"imm": given.word} if isinstance(given, ir.Const) else {}
        return self.w.signed(evaluate(tree, self.w, env))

    def chosen(self, tree: Expr) -> Expr:
        """The side of a choice that the instruction's constant makes."""
        while tree.op == "select" and "imm" in self.places and tree.args[0].inputs == {"imm"}:
            tree = tree.args[1 if self.constant(tree.args[0]) else 2]
        return tree

    def operand(self, tree: Expr) -> ir.Operand:
        """A variable or constant that holds the tree's word."""
        tree = self.chosen(tree)
        if tree.op == "const":
            return ir.Const(self.w.wrap(_constant(tree)))
        if tree.op == "input":
            where = self.places[str(tree.param)]
            if not isinstance(where, MemoryWord):
                return where
        scope: _SelectionScope | None = self
        while scope is not None:
            if tree in scope.known:
                return scope.known[tree]
            scope = scope.outer
        logarithmic = _is_logarithmic(tree, self.w)
        t = ir.Var("t", ir.Kind.LOGNUM if logarithmic else ir.Kind.FIXED, self.span)
        made: list[ir.Node] = [ir.Local(t, False, self.span)]
        if tree.op == "input":
            where = self.places[str(tree.param)]
            assert isinstance(where, MemoryWord)
            made.append(ir.Op(TABLE["ld.add"], t, where.a, None, where.imm, self.span, where.region))
        elif tree.op == "xor":
            self.update(made, t, "add", tree.args[0])
            self.update(made, t, "xor", tree.args[1])
        else:
            # Zero is 1 to a lognum: t ×= tree makes t the tree.
            self.update(made, t, "mul" if logarithmic else "add", tree)
        self.compute += made
        self.known[tree] = t
        return t

    def test(self, condition: Expr) -> ir.Test:
        """The test of a branch for: the condition's word is not zero."""
        match condition.op:
            case "lt" | "ltu" | "eq":
                x, y = condition.args
                if condition.op == "eq" and y is ZERO and x.op in ("lt", "ltu", "eq"):
                    return self.test(x).negated()
                return ir.Test(condition.op, self.operand(x), self.operand(y))
        return ir.Test("ne", self.operand(condition), ir.Const(0))


@cache
def _functions(w: Format) -> tuple[tuple[Function, Expr], ...]:
    """The functions of registers and constants with their trees; functions that check their sums first."""
    found = [
        (f, f.value(w))
        for f in ENTRIES
        if isinstance(f, Function) and f.target == "d" and inputs(f.value(w)) <= {"a", "b", "imm"}
    ]
    # A move would match everything; its operand is computed already.
    found = [(f, tree) for f, tree in found if tree.op not in ("input", "shl") or "imm" not in inputs(tree)]
    found = [(f, tree) for f, tree in found if tree.op != "input"]
    return tuple(sorted(found, key=lambda pair: (not pair[0].checked, "imm" not in inputs(pair[1]))))


@cache
def _cover(tree: Expr, operator: str, w: Format) -> tuple[Function, Mapping[str, Expr]] | None:
    """The function that computes the tree's root, and the trees of its operands."""
    for f, pattern in _functions(w):
        given = match(pattern, tree) if operator in f.updates else None
        if given is not None:
            imm = given.get("imm")
            if imm is None or imm.inputs == {"imm"} or (imm.op == "const" and ir.fits_immediate(_constant(imm))):
                return f, given
    return None


@cache
def _combination(tree: Expr, w: Format) -> tuple[Expr, str, Expr] | None:
    """(x, ⊕, v) where the tree is x ⊕ v, of lognums."""
    for operator in ("mul", "div"):
        given = match(UPDATE_OPERATORS[operator].combine(w, place("x"), place("v")), tree)
        if given is not None:
            return given["x"], operator, given["v"]
    return None


def _is_logarithmic(tree: Expr, w: Format) -> bool:
    return _combination(tree, w) is not None or (_cover(tree, "add", w) is None and _cover(tree, "mul", w) is not None)


def _constant(node: Expr) -> int:
    assert isinstance(node.param, int)
    return node.param
