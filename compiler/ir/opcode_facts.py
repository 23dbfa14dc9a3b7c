"""Facts about opcodes that passes need, each computed from the instruction table, and evaluation of constants.

d ⊕= f(a, b, imm)      written = (d),  read = (a, b),  function = f
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, lru_cache
from typing import NamedTuple

from retrograd.compiler.ir.statements import Op, Operand, Var
from retrograd.isa.effects import UPDATE_OPERATORS
from retrograd.isa.entries import NOT_JUMPING, Function, Guard, Opcode
from retrograd.isa.expr import evaluate, inputs, nodes
from retrograd.isa.folds import match
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
    """Whether the function of an instruction gives a rounded real number: a product, quotient, root, or a function by a table."""
    entry = opcode.entry
    return (
        isinstance(entry, Function)
        and entry.differentiable
        and any(n.op.startswith(("mul", "div", "sqrt", "table")) for n in nodes(entry.value(Format())))
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
