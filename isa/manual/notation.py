"""How the manual writes trees and effects: in the names of operands and in W and F, not in the numbers of one format.

Trees are built for a symbolic format (`symbolic.py`). A tree that is too long to read is named by its caller instead.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable
from functools import cache
from itertools import groupby

from retrograd.isa.effects import (
    UPDATE_OPERATORS,
    Effect,
    Effects,
    Erase,
    Exchange,
    Permute,
    Unerase,
    Update,
    transition,
    written,
)
from retrograd.isa.entries import bar
from retrograd.isa.expr import ZERO, Expr, fold, formula, inputs, place
from retrograd.isa.folds.matching import is_truth
from retrograd.isa.folds.simplification import negated, simplified
from retrograd.isa.functions import is_opaque
from retrograd.isa.manual.symbolic import SYMBOLIC, FormatDependent
from retrograd.isa.words import Format

_PLACES = {"d": "rd", "a": "ra", "b": "rb", "m": "M[ra + imm]", "br": "BR", "imm": "imm", "v": "v"}


def after(name: str) -> str:
    """The name of the word in a place after the instruction."""
    return name + "′"


#: place -> how the manual writes it, in the order in which it lists them; each with its cotangent
NAMES = {
    name: text
    for p, word in _PLACES.items()
    for name, text in ((p, word), (bar(p), bar(p)), (after(p), after(word)))
}  # fmt: skip

#: A tree with more operations and operands than this, each counted as often as it would be written, is not printed.
LONGEST = 40

RELATIONS = ("eq", "lt", "ltu")


def is_short(tree: Expr) -> bool:
    """Whether the tree can be read when written out. A tree with a table cannot: its entries are not shown."""
    return fold(tree, lambda n, sizes: sum(sizes, LONGEST + 1 if n.op == "table" else 1)) <= LONGEST


def generalise(make: Callable[[Format], Expr]) -> Expr | None:
    """The tree for all formats, its parameters symbols of W and F; None where it is long, or its shape depends on the format."""
    if not is_short(make(Format())):
        return None
    try:
        tree = make(SYMBOLIC)
        return None if any(map(is_opaque, inputs(tree))) else tree
    except (
        FormatDependent,
        TypeError,
        AttributeError,
    ):  # the two last: an operation on W or F that has no symbolic form
        return None


def call(name: str, reads: Iterable[str]) -> str:
    """`name(ra, rb)`: a function without its formula, by its name and the places that it reads."""
    return f"{name}({', '.join(text for p, text in NAMES.items() if p in reads)})"


# ------------------------------------------------------------------------------------------- trees, tidied


def tidy(root: Expr) -> Expr:
    """An equal tree that reads better: simplified, and `if x` is `if x ≠ 0`."""

    def combine(node: Expr, args: list[Expr]) -> Expr:
        if node.op == "select" and not is_truth(args[0]):
            args[0] = args[0].ne(0)
        return simplified(node.op, tuple(args), node.param)

    return fold(root, combine)


def write(tree: Expr) -> str:
    """The tree in the manual's notation."""
    return unicodedata.normalize("NFC", formula(tree, NAMES))


def write_value(tree: Expr) -> str:
    """The tree as a number: a relation as [x < y], a choice in brackets."""
    tidied = tidy(tree)
    text = write(tidied)
    return f"[{text}]" if tidied.op in RELATIONS else f"({text})" if tidied.op == "select" else text


def write_condition(tree: Expr) -> str:
    """The tree as a statement that is true where it is not 0."""
    if tree is ZERO:
        return "never"
    return write(tidy(tree if is_truth(tree) else tree.ne(0)))


# ------------------------------------------------------------------------------------------------- effects


def _tree(effect: Effect) -> Expr:
    """The tree in the effect's formula; 0 where it has none."""
    match effect:
        case Update(_, _, value):
            return value
        case Permute(_, forward, _):
            return forward
        case Exchange(_, _, when) if when is not None:
            return when
        case Exchange() | Erase() | Unerase():
            return ZERO


def _write_update(operator: str, value: Expr) -> str:
    """`⊕= value`, or `⊕= x if c` where the value is zero unless c; a sign goes into the operator."""
    if operator in ("add", "sub"):
        value = tidy(value)
        minus = negated(value)
        if minus is not None and value is not ZERO:
            operator, value = UPDATE_OPERATORS[operator].undone_by, minus
        if value.op == "select" and value.args[2] is ZERO:
            condition, then, _ = value.args
            return f"{UPDATE_OPERATORS[operator].symbol} {write_value(then)} if {write_condition(condition)}"
    return f"{UPDATE_OPERATORS[operator].symbol} {write_value(value)}"


def _write_effect(effect: Effect, tree: Expr) -> str:
    match effect:
        case Update(where, operator, _):
            return f"{_place(where)} {_write_update(operator, tree)}"
        case Permute(where, _, _):
            return f"{_place(where)} := {write_value(tree)}"
        case Exchange(left, right, when):
            condition = "" if when is None else f" if {write_condition(tree)}"
            return f"{_place(left)} ↔ {_place(right)}{condition}"
        case Erase(where):
            return f"{_place(where)} := 0"
        case Unerase(where):
            return f"{_place(where)} := ?"


def name_of_run(name: str) -> Callable[[Effects], str]:
    """For `write_effects`: a run of effects is called `name(what it reads)`."""

    def unwritten(run: Effects) -> str:
        trees = map(_tree, run) if len(run) == 1 else transition(run, Format()).values()
        return call(name, inputs(*trees))

    return unwritten


def write_effects(make: Callable[[Format], Effects], unwritten: Callable[[Effects], str]) -> tuple[str, ...]:
    """One formula per effect. Where its tree cannot be written out, `unwritten` gives the text in its place.

    Neighbours without a formula that read places which they change are one formula: `(rd, ra) := name(rd, ra, rb)`.
    """
    at = cache(make)
    effects = at(Format())

    def tree_of(index: int) -> Expr | None:
        return generalise(lambda w: _tree(at(w)[index]))

    trees = list(map(tree_of, range(len(effects))))
    out: list[str] = []
    for known, pairs in groupby(zip(effects, trees, strict=True), key=lambda pair: pair[1] is not None):
        same = list(pairs)
        run = tuple(effect for effect, _ in same)
        changed = [p for p in NAMES if p in written(run)]
        if not known and len(run) > 1 and inputs(*map(_tree, run)) & {*changed}:
            out.append(f"({', '.join(map(_place, changed))}) := {unwritten(run)}")
        else:
            out += [_write_effect(e, place(unwritten((e,))) if tree is None else tree) for e, tree in same]
    return tuple(out)


def _place(name: str) -> str:
    return write(place(name))
