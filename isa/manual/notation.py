"""A symbolic format: W and F as unknowns, so that a tree is built once for all formats.

    s = SYMBOLIC.frac + SYMBOLIC.width        str(s) == "(F + W)",  s.at(Format(32, 16)) == 48

A number is a linear combination of 1, W, F and powers 2^(pW + qF) with rational coefficients. A comparison is evaluated at every
format with 8 ≤ F ≤ W − 2, in which transcendental functions use the whole of their tables. If the answer depends on the format,
so does the shape of the tree, and `FormatDependent` is raised.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
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
from retrograd.isa.folds import is_truth, negated, simplified
from retrograd.isa.functions import is_opaque
from retrograd.isa.words import WIDTHS, Format

FORMATS = tuple(Format(width, frac) for width in WIDTHS for frac in range(8, width - 1))

#: (p, q): 2^(pW + qF), so that (0, 0) is 1; or the symbol F or W
Basis = tuple[Fraction, Fraction] | str
_ONE = Fraction(0), Fraction(0)


class FormatDependent(Exception):
    """The answer differs from format to format, or has no symbolic form."""


@dataclass(frozen=True, eq=False)
class SymbolicNumber:
    """A number that depends on W and F: the sum of coefficient · basis over `terms`."""

    terms: frozenset[tuple[Basis, Fraction]]

    def at(self, w: Format) -> int:
        """The number of a format."""
        known: dict[object, int] = {"W": w.width, "F": w.frac}
        value = Fraction(0)
        for basis, k in self.terms:
            value += k * (known[basis] if isinstance(basis, str) else _power(basis, w))
        return int(value)

    # ------------------------------------------------------------ arithmetic

    def __add__(self, other: SymbolicNumber | int) -> SymbolicNumber | int:
        out = dict(self.terms)
        for basis, k in (
            dict(other.terms).items() if isinstance(other, SymbolicNumber) else {_ONE: Fraction(other)}.items()
        ):
            out[basis] = out.get(basis, Fraction(0)) + k
        out = {basis: k for basis, k in out.items() if k}
        return int(out.get(_ONE, 0)) if out.keys() <= {_ONE} else SymbolicNumber(frozenset(out.items()))

    def __mul__(self, k: int | Fraction) -> SymbolicNumber:
        return SymbolicNumber(frozenset((basis, k * c) for basis, c in self.terms))

    def __neg__(self) -> SymbolicNumber:
        return self * -1

    def __sub__(self, other: SymbolicNumber | int) -> SymbolicNumber | int:
        return self + -other

    def __rsub__(self, other: int) -> SymbolicNumber | int:
        return -self + other

    def __floordiv__(self, k: int) -> SymbolicNumber:
        if self._everywhere(lambda n: n % k != 0):
            raise FormatDependent
        return self * Fraction(1, k)

    def __rshift__(self, by: int) -> SymbolicNumber:
        return self // (1 << by)

    def __lshift__(self, by: int) -> SymbolicNumber:
        return self * (1 << by)

    def __rlshift__(self, k: int) -> SymbolicNumber:
        """k · 2^self, for a self that is linear."""
        terms = dict(self.terms)
        p, q, c = terms.pop("W", Fraction(0)), terms.pop("F", Fraction(0)), terms.pop(_ONE, Fraction(0))
        if terms:
            raise FormatDependent
        return SymbolicNumber(frozenset({((p, q), k * Fraction(2) ** int(c))}))

    def __xor__(self, other: SymbolicNumber) -> SymbolicNumber | int:
        """2^m − 1 with the bit 2^n taken away, n < m."""
        ones = self + 1
        if not isinstance(ones, SymbolicNumber) or None in (ones._power(), other._power()) or not other < self:
            raise FormatDependent
        return self - other

    __radd__, __rmul__ = __add__, __mul__

    # ------------------------------------------------------------ comparison

    def _everywhere(self, holds: Callable[[int], bool]) -> bool:
        """Whether the predicate holds in every format, or in none. Raises FormatDependent."""
        answers = {holds(self.at(w)) for w in FORMATS}
        if len(answers) > 1:
            raise FormatDependent
        return answers.pop()

    def _compare(self, other: SymbolicNumber | int, holds: Callable[[int], bool]) -> bool:
        difference = self - other
        return difference._everywhere(holds) if isinstance(difference, SymbolicNumber) else holds(difference)

    def __bool__(self) -> bool:
        return self._everywhere(bool)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, int):
            return self._compare(other, lambda n: n == 0)
        return isinstance(other, SymbolicNumber) and self.terms == other.terms

    def __hash__(self) -> int:
        return hash(self.terms)

    def __lt__(self, other: SymbolicNumber | int) -> bool:
        return self._compare(other, lambda n: n < 0)

    def __le__(self, other: SymbolicNumber | int) -> bool:
        return self._compare(other, lambda n: n <= 0)

    def __gt__(self, other: SymbolicNumber | int) -> bool:
        return self._compare(other, lambda n: n > 0)

    def __ge__(self, other: SymbolicNumber | int) -> bool:
        return self._compare(other, lambda n: n >= 0)

    # ------------------------------------------------------------ text

    def _power(self) -> SymbolicNumber | int | None:
        """e where the number is 2^e."""
        if len(self.terms) == 1:
            ((basis, k),) = self.terms
            e = k.numerator.bit_length() - k.denominator.bit_length()
            if not isinstance(basis, str) and k == Fraction(2) ** e:
                return _W * basis[0] + _F * basis[1] + e
        return None

    def __str__(self) -> str:
        if self < 0:
            return f"−{-self}"
        power = self._power()
        if power is not None:
            return f"2^{power}"
        terms = sorted(self.terms, key=lambda term: (term[1] < 0, term[0] == _ONE, str(term[0])))
        parts = [f"{'−' if k < 0 else '+'} {_times(abs(k), basis)}" for basis, k in terms]
        text = " ".join(parts).removeprefix("+ ")
        return f"({text})" if " " in text or "/" in text else text


def _power(basis: tuple[Fraction, Fraction], w: Format) -> Fraction:
    return Fraction(2) ** int(basis[0] * w.width + basis[1] * w.frac)


def _times(k: Fraction, basis: Basis) -> str:
    if basis == _ONE:
        return str(k)
    if not isinstance(basis, str):
        twos = Fraction(k.numerator & -k.numerator, k.denominator & -k.denominator)
        odd, power = k / twos, SymbolicNumber(frozenset({(basis, twos)}))
        return str(power) if odd == 1 else f"{odd}·{power}"
    return basis if k == 1 else f"{basis}/{1 / k}" if k.numerator == 1 else f"{k}{basis}"


_W, _F = (SymbolicNumber(frozenset({(symbol, Fraction(1))})) for symbol in "WF")


class _SymbolicFormat(Format):
    """A format whose numbers are symbolic. It has the attributes of a `Format`, so an entry of the table builds its trees from either."""

    def __init__(self) -> None:
        numbers = {"width": _W, "frac": _F, "mask": (1 << _W) - 1, "sign": 1 << _W - 1}
        for name, number in numbers.items():
            object.__setattr__(self, name, number)


SYMBOLIC: Format = _SymbolicFormat()


# -----------------------------------------------------------------------------
# How the manual writes trees and effects: in the names of operands and in W and F, not in the numbers of one format.
#
# Trees are built for a symbolic format (above). A tree that is too long to read is named by its caller instead.

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
    ):  # the last two are raised by an operation on W or F that has no symbolic form
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
