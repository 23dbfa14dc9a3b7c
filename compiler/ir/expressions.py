"""Pure expressions over variables and memory: the right side of `+=`.

An expression is a tree of typed nodes. Trees that are built alike are equal, so that a common subexpression of a statement is
computed once. `flatten` chooses instructions and temporaries.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction
from functools import lru_cache
from math import gcd, isfinite
from typing import Any, NamedTuple

from retrograd.compiler.ir.statements import Kind, Region, Var, fixed_at
from retrograd.isa.diagnostics import Span
from retrograd.isa.words import Format, brief, nearest_point


class E:
    """One node: an operation, the kind of its value, operands, and a parameter.

    | op | operands | param |
    |---|---|---|
    | const | | the word |
    | read | | the variable |
    | load | those of the address | the address |
    | add, sub | x, y | |
    | neg, not | x | |
    | apply | one or two | the name of a function in the instruction table |
    | product, quotient | x, y | (of lognums) |
    | power | x, n | (n an int or a uint; x an int, a uint or a fixed) |
    | below_half | x | the message and the code of the trap where the top bit of x is one |
    | call | arguments | (invocation, the number of the result) |
    | view | those of the address | the address and the number of words: an array passed to a call |
    | choose | condition, x, y | |
    | total | body, those of the lengths | the index variables and the lengths of their axes: Σ body over all of them |
    | running | body | min, max or sum (of lognums), the index variables, their ranges, memory for the result of the first k values |
    """

    __slots__ = ("_hash", "args", "kind", "op", "param")

    def __init__(self, op: str, kind: Kind, args: tuple[E, ...] = (), param: Any = None) -> None:
        self.op, self.kind, self.args, self.param = op, kind, args, param
        self._hash = hash((op, kind, args, param))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return (
            isinstance(other, E)
            and self._hash == other._hash
            and self.op == other.op
            and self.kind == other.kind
            and self.param == other.param
            and self.args == other.args
        )

    def __repr__(self) -> str:
        inner = ", ".join([*map(repr, self.args), *([] if self.param is None else [repr(self.param)])])
        return f"{self.op}({inner})"


class Vanishing(ValueError):
    """A number of the source other than 0 whose word would be 0. `value`: the number by itself; `hint`: the ways out."""

    def __init__(self, message: str, value: Fraction, hint: str) -> None:
        super().__init__(message)
        self.value, self.hint = value, hint


#: a number that is smaller than another by this factor may be a rounding error of float64 in place of 0, as cos(π/2)
#: is beside sin(π/2)
NOISE = 2.0**-50


class Role(Enum):
    """The use of a number of the source, as far as it decides which bits of it matter."""

    VALUE = "value"
    #: it is compared with words, of which none lies between it and its own word
    COMPARED = "compared"
    #: a factor, a divisor, or a term beside numbers with points of their own: it keeps all of its bits
    FACTOR = "factor"
    #: in x·c, x/c, c/x: it keeps all of its bits where its word at the point F loses half of them (`scales`)
    MULTIPLIER = "multiplier"
    DIVISOR = "divisor"
    DIVIDEND = "dividend"
    #: a part of a complex number that is smaller than the other part by 2^50, as the sine in e^iπ
    NEGLIGIBLE = "negligible"


class InRange(NamedTuple):
    """A condition on an index, 0 ≤ index < length as unsigned words, that is tested when the program runs."""

    value: E
    #: a number, or the variable that holds it
    length: int | Var
    message: str
    span: Span | None
    code: str = "RG0801"


@dataclass(frozen=True)
class RunLength:
    """A length of an axis that is known when the program runs: the value of `e`.

    `most`: it is not greater. `checks`: conditions under which 0 ≤ e ≤ most, to be tested in front of a loop over the axis.
    `text`: the expression of the source. Two lengths are equal if their meanings are: their first expressions, and the versions of
    the places that these read.
    """

    e: E = field(compare=False)
    most: int = field(compare=False)
    checks: tuple[InRange, ...] = field(compare=False)
    text: str = field(compare=False)
    meaning: tuple[E, frozenset[tuple[Any, int]]]

    def __repr__(self) -> str:
        return self.text


Length = int | RunLength


class Address(NamedTuple):
    """base + Σ coefficient · term + offset, within a region; `base` is None where the region's own address is in the offset."""

    region: Region
    base: Var | None
    terms: tuple[tuple[E, int], ...] = ()
    offset: int = 0
    checks: tuple[InRange, ...] = ()

    def shifted(self, index: E, coefficient: int, *checks: InRange) -> Address:
        """The address moved by coefficient · index."""
        total, constant = dict(self.terms), self.offset
        atoms, rest = linear(index)
        for part, factor in atoms.items():
            total[part] = total.get(part, 0) + factor * coefficient
        constant += rest * coefficient
        terms = tuple((atom, factor) for atom, factor in total.items() if factor)
        return Address(self.region, self.base, terms, constant, (*self.checks, *checks))

    def moved(self, words: int) -> Address:
        return self._replace(offset=self.offset + words)

    def minus(self, other: Address) -> int | None:
        """The difference in words where it is constant, else None."""
        if self.base is not other.base or dict(self.terms) != dict(other.terms):
            return None
        return self.offset - other.offset


class Invocation(NamedTuple):
    """A call of a procedure that changes its results only, each of which is zero before the call.

    `parameters`: for each parameter the number of an argument, or ~r for the result number r. `accumulates`: the only result is
    a sum, to which the procedure adds, so that it need not be zero.
    """

    procedure: str
    parameters: tuple[int, ...]
    results: tuple[Kind, ...]
    accumulates: bool

    def values(self, arguments: tuple[E, ...]) -> tuple[E, ...]:
        """The result, or each of the results."""
        return tuple(E("call", kind, arguments, (self, r)) for r, kind in enumerate(self.results))


def const(word: int, kind: Kind) -> E:
    """A constant by its word, which for an int is the signed number itself."""
    return E("const", kind, (), word)


def constant(value: int | float | Fraction, kind: Kind, w: Format) -> E:
    """A constant by its value. Raises OverflowError, ValueError."""
    word = word_of(value, kind, w)
    return const(w.signed(word) if kind is Kind.INT else word, kind)


def number_of(e: E, w: Format) -> Fraction:
    """The value of a constant that is a fixed number."""
    return e.kind.numbers(w).to_real(e.param)


def precise(value: int | float | Fraction, w: Format) -> E:
    """A fixed number as a constant that keeps all of its bits, or as many as a word has: at the point F if it does so there.

    Raises OverflowError where no point of a word of this width reaches so far.
    """
    exact = Fraction(value)
    places = exact.denominator.bit_length() - 1
    if exact.denominator == 1 << places and places <= w.frac:
        word = w.times(exact, w.frac)
        if -w.sign <= word < w.sign:
            return const(w.wrap(int(word)), Kind.FIXED)
    # The greatest point at which the rounded word fits; a dyadic number needs no more places than it has.
    most = w.width - (abs(exact.numerator).bit_length() - exact.denominator.bit_length())
    while not -w.sign <= round(w.times(exact, most)) < w.sign:
        most -= 1
    point = min(most, places) if exact.denominator == 1 << places else most
    if point < nearest_point(point, w.width):
        raise OverflowError(f"{brief(value)} is outside the range of every binary point of {w.width} bits")
    kind = fixed_at(nearest_point(point, w.width))
    return const(word_of(exact, kind, w), kind)


@lru_cache(1 << 12)
def scales(value: int | float | Fraction, role: Role, w: Format) -> bool:
    """Whether a number in a product or quotient x·c, x/c, c/x of fixed numbers has a point of its own.

    Its word at the point F loses half of its bits or does not fit, and some result is neither 0 nor too large.
    """
    factor = role in (Role.MULTIPLIER, Role.DIVISOR, Role.DIVIDEND)
    if not factor or not value or (isinstance(value, float) and not isfinite(value)):
        return False
    number, least, greatest = abs(Fraction(value)), w.times(1, -w.frac), w.times(w.sign, -w.frac)
    if round(number / least) < w.sign and w.keeps(number):
        return False
    if role is Role.DIVIDEND:
        # `fdivp` has W − 2 places at most: a dividend must fit at the point that they leave.
        return least**2 / 2 < number and round(w.times(number, 2 * w.frac - w.width + 2)) < w.sign
    return least / 2 / greatest < (number if role is Role.MULTIPLIER else 1 / number) < greatest / least


def number_as(value: int | float | Fraction, kind: Kind, role: Role, w: Format) -> E:
    """A number of the source in its role. Raises OverflowError, ValueError."""
    own = kind is Kind.FIXED and (role is Role.FACTOR or scales(value, role, w))
    return precise(value, w) if own else constant(value, kind, w)


#: kinds whose words wrap mod 2^W
_INTEGERS = (Kind.INT, Kind.UINT)


def integer(value: int, kind: Kind, w: Format) -> E:
    """The constant int or uint that is congruent to a value mod 2^W."""
    return const(w.signed(value) if kind is Kind.INT else value & w.mask, kind)


def below_half(e: E, message: str, code: str = "RG0404") -> E:
    """e, a uint whose top bit is zero, so that it is also the word of an int: tested when the program runs."""
    return E("below_half", Kind.INT, (e,), (message, code))


def is_constant(e: E) -> bool:
    """Whether an expression is made of numbers of the source alone, of which some may lie in memory."""
    if e.op == "load":
        return e.param.region.data is not None
    return e.op == "const" or (bool(e.args) and all(map(is_constant, e.args)))


def read(var: Var) -> E:
    return E("read", var.kind, (), var)


def load(address: Address, kind: Kind) -> E:
    return E("load", kind, tuple(e for e, _ in address.terms), address)


def view(address: Address, words: int) -> E:
    """The words from an address on, as an argument of a call."""
    return E("view", Kind.ADDRESS, tuple(e for e, _ in address.terms), (address, words))


def apply(name: str, kind: Kind, *args: E) -> E:
    return E("apply", kind, args, name)


def is_const(e: E) -> bool:
    return e.op == "const"


def add(x: E, y: E, w: Format) -> E:
    """x + y; constants meet, zeros vanish."""
    if x.op == "const" and y.op == "const" and x.kind in _INTEGERS:
        return integer(x.param + y.param, x.kind, w)
    if x.op == "const" and x.param == 0:
        return y
    if y.op == "const" and y.param == 0:
        return x
    return E("add", x.kind, (x, y))


def sub(x: E, y: E, w: Format) -> E:
    if x.op == "const" and y.op == "const" and x.kind in _INTEGERS:
        return integer(x.param - y.param, x.kind, w)
    if y.op == "const" and y.param == 0:
        return x
    return E("sub", x.kind, (x, y))


def neg(x: E) -> E:
    """−x, of which two meet."""
    return x.args[0] if x.op == "neg" else E("neg", x.kind, (x,))


def negated(x: E) -> E:
    """not x."""
    if x.op == "const":
        return const(1 - x.param, Kind.BOOL)
    return x.args[0] if x.op == "not" else E("not", Kind.BOOL, (x,))


def less(x: E, y: E, w: Format) -> E:
    """x < y, of two numbers of one kind.

    A lognum's word is a sign above l = log2|x|. With l's highest bit complemented it is l + 2^(W−2), so a positive number is greater the
    greater its word is, and a negative number the smaller: where y ≥ 0 as signed words x < y, where y < 0 as unsigned ones y < x.
    """
    if x.kind is not Kind.LOGNUM:
        return apply("sltu" if x.kind is Kind.UINT else "slt", Kind.BOOL, x, y)
    u, v = (_from_least(e, w) for e in (x, y))
    known = next((e for e in (y, x) if e.op == "const"), None)
    negative = (
        apply("slt", Kind.BOOL, y, const(0, Kind.INT))
        if known is None
        else const(known.param >> (w.width - 1), Kind.BOOL)
    )
    return choose(negative, apply("sltu", Kind.BOOL, v, u), apply("slt", Kind.BOOL, u, v))


def _from_least(x: E, w: Format) -> E:
    """The word of a lognum with the highest bit of its logarithm complemented: x ⊕ q = (x ∨ q) − (x ∧ q)."""
    q = w.sign >> 1
    if x.op == "const":
        return const(w.signed(w.wrap(x.param) ^ q), Kind.INT)
    bit = const(q, Kind.INT)
    return E("sub", Kind.INT, (apply("or", Kind.INT, x, bit), apply("and", Kind.INT, x, bit)))


def choose(c: E, x: E, y: E) -> E:
    """x if c else y, only one of them computed."""
    if c.op == "const":
        return x if c.param else y
    return E("choose", x.kind, (c, x, y))


def linear(e: E) -> tuple[dict[E, int], int]:
    """An integer expression as Σ coefficient · atom + constant, as signed Python integers.

    Trap: sums of words wrap, these do not; for addresses both agree, since an address is taken mod 2^W.
    """
    match e.op:
        case "const":
            return {}, e.param
        case "add" | "sub":
            sign = 1 if e.op == "add" else -1
            atoms, constant = linear(e.args[0])
            more, rest = linear(e.args[1])
            out = dict(atoms)
            for atom, factor in more.items():
                out[atom] = out.get(atom, 0) + sign * factor
            return {a: f for a, f in out.items() if f}, constant + sign * rest
        case "neg":
            atoms, constant = linear(e.args[0])
            return {a: -f for a, f in atoms.items()}, -constant
        case "apply" if e.param == "mul" and any(a.op == "const" for a in e.args):
            number, other = e.args if e.args[0].op == "const" else e.args[::-1]
            atoms, constant = linear(other)
            k = number.param
            return {a: f * k for a, f in atoms.items()} if k else {}, constant * k
    return {e: 1}, 0


def walk(e: E) -> Iterator[E]:
    """All nodes, each once."""
    seen: set[int] = set()
    stack = [e]
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        yield node
        stack.extend(node.args)
        at = _address(node)
        if at is not None:
            for check in at.checks:
                stack.append(check.value)
                if isinstance(check.length, Var):
                    stack.append(read(check.length))


def _address(e: E) -> Address | None:
    """The address of the words that the node itself reads."""
    found: Address | None = e.param if e.op == "load" else e.param[0] if e.op == "view" else None
    return found


def variables(e: E) -> set[Var]:
    """The variables that the expression reads, the bases of addresses among them."""
    out: set[Var] = set()
    for node in walk(e):
        if node.op == "read":
            out.add(node.param)
        elif (at := _address(node)) is not None and at.base is not None:
            out.add(at.base)
    return out


def loads(e: E) -> list[tuple[Address, int]]:
    """The memory that the expression reads: addresses, and the number of words at each."""
    return [(node.param, 1) if node.op == "load" else node.param for node in walk(e) if node.op in ("load", "view")]


def indices_of(e: E) -> tuple[Var, ...]:
    """The index variables of a node that goes through an array; none for any other node."""
    found: tuple[Var, ...] = e.param[0] if e.op == "total" else e.param[1] if e.op == "running" else ()
    return found


def lazy(e: E) -> bool:
    """Whether computing it may trap or is expensive, so that it must not be computed where its value is not used."""
    return any(
        (node.op == "load" and node.param.checks)
        or node.op in ("total", "running", "choose", "power", "call", "below_half")
        or (node.op == "apply" and node.param not in ("slt", "sltu", "seq", "and", "or", "min", "max", "abs", "mul"))
        for node in walk(e)
    )


class Ranges(dict[Var, tuple[int, int]]):
    """variable -> (lowest, highest) value, where known; for indices of loops also as expressions."""

    def __init__(self) -> None:
        super().__init__()
        #: variable -> its lowest and highest value, in terms of variables that do not change meanwhile
        self.between: dict[Var, tuple[E, E]] = {}


def interval(e: E, ranges: Ranges) -> tuple[int, int] | None:
    """Bounds of an integer expression from those of its variables, by interval arithmetic on its linear form.

    Where an index is known in terms of an outer one, j ≥ i + 1 say, j − i ≥ 1 follows.
    """
    atoms, constant = linear(e)
    low, high = _bound(atoms, constant, ranges, -1), _bound(atoms, constant, ranges, 1)
    return None if low is None or high is None else (low, high)


def _bound(atoms: dict[E, int], constant: int, ranges: Ranges, side: int) -> int | None:
    """The least (side −1) or greatest (+1) value of Σ factor · atom + constant; None where it has no bound that is known."""
    inner = _innermost([a for a in atoms if a.op == "read" and a.param in ranges.between], ranges)
    if inner is not None:
        # The index is replaced by its own bound, which reads outer variables only: so this ends.
        rest = dict(atoms)
        factor = rest.pop(inner)
        more, shift = linear(ranges.between[inner.param][1 if (factor > 0) == (side > 0) else 0])
        for atom, k in more.items():
            rest[atom] = rest.get(atom, 0) + k * factor
        found = _bound({a: k for a, k in rest.items() if k}, constant + shift * factor, ranges, side)
        numeric = _numeric(atoms, constant, ranges, side)
        known = [x for x in (found, numeric) if x is not None]
        return (min(known) if side > 0 else max(known)) if known else None
    return _numeric(atoms, constant, ranges, side)


def _innermost(indices: list[E], ranges: Ranges) -> E | None:
    """An index whose bounds may read the others, and which is read by the bounds of none."""
    for a in reversed(indices[1:]):
        if not any(a.param in variables(e) for other in indices if other is not a for e in ranges.between[other.param]):
            return a
    return indices[0] if indices else None


def _numeric(atoms: dict[E, int], constant: int, ranges: Ranges, side: int) -> int | None:
    total = constant
    for atom, factor in atoms.items():
        found = ranges.get(atom.param) if atom.op == "read" else None
        if found is None and atom.op == "apply" and atom.param == "mod" and atom.args[1].op == "const":
            modulus = atom.args[1].param
            found = (0, modulus - 1) if modulus > 0 else None
        if found is None:
            return None
        total += max(found[0] * factor, found[1] * factor) if side > 0 else min(found[0] * factor, found[1] * factor)
    return total


def difference_of(x: Address, y: Address, w: Format) -> E:
    """x − y in words."""
    e = const(w.signed(x.offset - y.offset), Kind.INT)
    total: dict[E, int] = dict(x.terms)
    for term, k in y.terms:
        total[term] = total.get(term, 0) - k
    for base, sign in ((x.base, 1), (y.base, -1)):
        if base is not None and x.base is not y.base:
            key = read(base)
            total[key] = total.get(key, 0) + sign
    for term, k in total.items():
        if k == 1:
            e = add(e, term, w)
        elif k == -1:
            e = sub(e, term, w)
        elif k:
            e = add(e, apply("mul", Kind.INT, term, const(w.signed(k), Kind.INT)), w)
    return e


def are_apart(x: Address, size_x: int, y: Address, size_y: int, ranges: Ranges, w: Format) -> bool:
    """Whether the words [x, x + size_x) and [y, y + size_y) of one region certainly do not overlap."""
    atoms, distance = linear(difference_of(x, y, w))
    low, high = _bound(atoms, distance, ranges, -1), _bound(atoms, distance, ranges, 1)
    if (low is not None and low >= size_y) or (high is not None and high <= -size_x):
        return True
    common = gcd(*atoms.values())
    # The distance is a multiple of `common` and a rest: that of two fields of elements of an array, say.
    return common > 1 and size_y <= distance % common <= common - size_x


def word_of(value: int | float | Fraction, kind: Kind, w: Format) -> int:
    """The word of a constant. Raises OverflowError where it does not fit, ValueError where it has none."""
    match kind:
        case Kind.LOGNUM:
            from math import log2

            if value == 0:
                raise ValueError("zero has no lognum")
            exponent = round(Fraction(log2(float(abs(Fraction(value))))) * (1 << w.frac))
            if not -(w.sign >> 1) <= exponent < w.sign >> 1:
                raise OverflowError(f"{brief(value)} is outside the range of a lognum of {w}")
            return (exponent & (w.sign - 1)) | (w.sign if value < 0 else 0)
        case Kind.BOOL:
            return int(bool(value))
        case Kind.UINT:
            number = int(value)
            if number != value or not 0 <= number <= w.mask:
                of = (
                    "is no integer of"
                    if number != value
                    else "is negative, and a uint has"
                    if value < 0
                    else "does not fit in"
                )
                raise OverflowError(f"{brief(value)} {of} {w.width} bits")
            return number
        case Kind.INT | Kind.ADDRESS:
            number = int(value)
            if number != value or not -w.sign <= number <= w.mask:
                raise OverflowError(
                    f"{brief(value)} {'is no integer of' if number != value else 'does not fit in'} {w.width} bits"
                )
            return number & w.mask
    return kind.numbers(w).from_real(value)
