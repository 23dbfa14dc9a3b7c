"""Terms: words that are known, or expressions over words that are not, and the operators of netlists on both.

A known word is an int. Operators fold constants and choose branches by known conditions. A truth value is a word of one bit. Equal
terms are one object (hash consing), so `is` compares them in constant time and facts about a term are found once.

    x = unknown("x", 8)
    add(x, 0) is x,  part(concatenated([(5, 4), (x, 8)]), 0, 4) == 5

This module does not depend on a solver (`retrograd.hdl.formal.solving` does).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import Any, Final
from weakref import WeakValueDictionary

#: a word: known, or a term
Word = Any


class Term:
    """An operator on terms. `parameter`: for example the name of an unknown word, or the first bit of a part."""

    __slots__ = ("__weakref__", "address", "begins", "operator", "parameter", "solved", "terms", "truth", "width")

    def __init__(self, operator: str, width: int, terms: tuple[Term, ...], parameter: Any, address: int) -> None:
        self.operator: Final = operator
        self.width: Final = width
        self.terms: Final = terms
        self.parameter: Final = parameter
        #: bits of an address, if the term is a memory
        self.address: Final = address
        #: of a concatenation: the first bit of each piece, from the lowest, once they have been looked up
        self.begins: list[int] | None = None
        #: the solver's expression for it, and for one bit the solver's Boolean, once they have been made
        self.solved: Any = None
        self.truth: Any = None

    def __repr__(self) -> str:
        return self._written(6)

    def _written(self, depth: int) -> str:
        """Terms share subterms: written out in full, some hundred terms would have exponential length."""
        if self.operator in ("unknown", "known", "memory"):
            return str(self.parameter)
        parameter = [] if self.parameter is None else [str(self.parameter)]
        inside = [term._written(depth - 1) if depth else "…" for term in self.terms]
        return f"{self.operator}({', '.join(parameter + inside)})"


_made: WeakValueDictionary[tuple[object, ...], Term] = WeakValueDictionary()


def _make(operator: str, width: int, terms: tuple[Term, ...] = (), parameter: Any = None, address: int = 0) -> Term:
    # A term keeps its subterms alive, so their ids stay valid.
    key = (operator, width, parameter, address, *map(id, terms))
    found = _made.get(key)
    if found is None:
        _made[key] = found = Term(operator, width, terms, parameter, address)
    return found


# ---------------------------------------------------------------- unknown words


def unknown(name: str, width: int) -> Term:
    """An arbitrary word; the same word for the same name."""
    return _make("unknown", width, (), name)


def function(name: str, width: int, terms: Sequence[Term]) -> Term:
    """An uninterpreted function of the terms."""
    return _make("function", width, tuple(terms), name)


def memory(name: str, address: int, width: int) -> Term:
    """Arbitrary words at addresses of `address` bits."""
    return _make("memory", width, (), name, address)


def selected(words: Term, at: Word) -> Term:
    """The word of a memory at an address."""
    return _make("select", words.width, (words, term(at, words.address)))


def stored(words: Term, at: Word, word: Word) -> Term:
    """The memory with another word at an address."""
    return _make("store", words.width, (words, term(at, words.address), term(word, words.width)), None, words.address)


def term(word: Word, width: int) -> Term:
    """The word as a term."""
    return _make("known", width, (), word & ((1 << width) - 1)) if isinstance(word, int) else word


def value(word: Word) -> Word:
    """A term with a known value becomes an int; other words are returned unchanged."""
    return word.parameter if isinstance(word, Term) and word.operator == "known" else word


# ---------------------------------------------------------------- pieces


def part(word: Term, low: int, width: int) -> Word:
    """Bits of a term; an int if they are known."""
    if low == 0 and width == word.width:
        return word
    match word.operator:
        case "known":
            return word.parameter >> low & ((1 << width) - 1)
        case "part":
            return part(word.terms[0], word.parameter + low, width)
        case "concatenation":
            if word.begins is None:
                word.begins = [*accumulate((piece.width for piece in reversed(word.terms)), initial=0)]
            pieces, at, ends = [], bisect_right(word.begins, low), low + width
            while low < ends:
                piece, begins = word.terms[-at], word.begins[at - 1]
                last = min(ends, begins + piece.width)
                pieces.append((part(piece, low - begins, last - low), last - low))
                low, at = last, at + 1
            return joined(pieces)
    return _make("part", width, (word,), low)


def joined(pieces: Sequence[tuple[Word, int]]) -> Word:
    """The concatenation of pieces, the lowest first."""
    out: list[list[Any]] = []
    if len(pieces) == 1:
        return value(pieces[0][0])
    for word, width in pieces:
        nested = isinstance(word, Term) and word.operator == "concatenation"
        inner = [(value(one), one.width) for one in reversed(word.terms)] if nested else [(value(word), width)]
        for piece, size in inner:
            last = out[-1] if out else None
            if last is not None and isinstance(piece, int) and isinstance(last[0], int):
                last[:] = last[0] | piece << last[1], last[1] + size
            elif last is not None and _follows(last[0], piece):
                begins = last[0].parameter
                last[:] = part(piece.terms[0], begins, last[1] + size), last[1] + size
            else:
                out.append([piece, size])
    if len(out) == 1:
        return out[0][0]
    terms = tuple(term(word, width) for word, width in reversed(out))
    return _make("concatenation", sum(one.width for one in terms), terms)


def _follows(low: Word, high: Word) -> bool:
    """Whether the terms are adjacent parts of one word."""
    return (
        isinstance(low, Term) and isinstance(high, Term) and low.operator == high.operator == "part"
        and low.terms[0] is high.terms[0] and low.parameter + low.width == high.parameter
    )  # fmt: skip


def piece_of(word: Word, low: int, width: int) -> Word:
    """Bits of a word."""
    if width == 0:
        return 0
    return word >> low & ((1 << width) - 1) if isinstance(word, int) else part(word, low, width)


def extended(word: Term, width: int, signed: bool = False) -> Word:
    """The word extended to a greater width, by its sign or zero."""
    more = width - word.width
    if more == 0:
        return word
    if word.operator == "known":
        return known_result("extended", width, [word.width], [word.parameter]) if signed else word.parameter
    return _make("extended", width, (word,)) if signed else joined([(word, word.width), (0, more)])


# ---------------------------------------------------------------- truth values and choices


def negation(bit: Word) -> Word:
    """¬x, bitwise."""
    if isinstance(bit, int):
        return 1 - bit
    return bit.terms[0] if bit.operator == "~" else _make("~", 1, (bit,))


def conjunction(x: Word, y: Word) -> Word:
    """x ∧ y, bitwise."""
    if isinstance(x, int):
        return y if x else 0
    if isinstance(y, int):
        return x if y else 0
    return x if x is y else _make("&", 1, (x, y))


def disjunction(x: Word, y: Word) -> Word:
    """x ∨ y, bitwise."""
    if isinstance(x, int):
        return 1 if x else y
    if isinstance(y, int):
        return 1 if y else x
    return x if x is y else _make("|", 1, (x, y))


def equal(x: Word, y: Word, width: int) -> Word:
    """Whether two words are equal; 0 if known bits differ."""
    if isinstance(x, int) and isinstance(y, int):
        return int(x == y)
    x, y = term(x, width), term(y, width)
    if x is y:
        return 1
    return _make("==", 1, (x, y)) if may_equal(x, y) else 0


def may_equal(x: Term, y: Term) -> bool:
    """Whether the known bits of both agree."""
    (mask, bits), (other_mask, other_bits) = _known_bits(x), _known_bits(y)
    return not (bits ^ other_bits) & mask & other_mask


def _known_bits(x: Term) -> tuple[int, int]:
    """A mask of the known bits, and their values."""
    if x.operator == "known":
        return (1 << x.width) - 1, x.parameter
    mask = bits = 0
    if x.operator == "concatenation":
        for piece in x.terms:
            mask, bits = mask << piece.width, bits << piece.width
            if piece.operator == "known":
                mask, bits = mask | (1 << piece.width) - 1, bits | piece.parameter
    return mask, bits


def choice(condition: Word, x: Word, y: Word, width: int) -> Word:
    """x if the condition holds, else y."""
    if isinstance(condition, int):
        return x if condition else y
    if x is y or (isinstance(x, int) and isinstance(y, int) and x == y):
        return x
    if width == 1 and not getattr(x, "address", 0):
        if isinstance(x, int):
            return disjunction(condition, y) if x else conjunction(negation(condition), y)
        if isinstance(y, int):
            return disjunction(negation(condition), x) if y else conjunction(condition, x)
    if condition.operator == "~":
        condition, x, y = condition.terms[0], y, x
    x, y = term(x, width), term(y, width)
    return _make("if", width, (condition, x, y), None, x.address)


# ---------------------------------------------------------------- operators


def signed(word: int, width: int) -> int:
    """A word of two's complement as a number."""
    return word - (word >> (width - 1) << width)


#: operator on words of one width -> its result on known words, modulo 2^width
ARITHMETIC: dict[str, Callable[[int, int], int]] = {
    "+": lambda x, y: x + y, "-": lambda x, y: x - y, "*": lambda x, y: x * y,
    "&": lambda x, y: x & y, "|": lambda x, y: x | y, "^": lambda x, y: x ^ y,
}  # fmt: skip
#: comparison -> its result on known words
COMPARISONS: dict[str, Callable[[int, int], int]] = {
    "==": lambda x, y: x == y, "<": lambda x, y: x < y, "<=": lambda x, y: x <= y,
}  # fmt: skip
SHIFTS: dict[str, Callable[[int, int], int]] = {"<<": lambda x, y: x << y, ">>": lambda x, y: x >> y}
_KNOWN = ARITHMETIC | COMPARISONS | SHIFTS
#: comparison -> (the comparison in terms of which it is defined, whether operands are exchanged, whether the result is negated)
_OTHERWISE = {">": ("<", True, False), ">=": ("<=", True, False), "!=": ("==", False, True)}


def known_result(operator: str, width: int, widths: Sequence[int], words: Sequence[int]) -> int:
    """An operator of terms, on known words."""
    match operator:
        case "~":
            found = ~words[0]
        case "if":
            found = words[1] if words[0] else words[2]
        case "extended":
            found = signed(words[0], widths[0])
        case "concatenation":
            found = 0
            for size, word in zip(widths, words, strict=True):
                found = found << size | word
        case _:
            x, y = words
            if operator[0] == "s":
                x, y = signed(x, widths[0]), y if operator == "s>>" else signed(y, widths[1])
            found = _KNOWN[operator.lstrip("su")](x, y)
    return found & ((1 << width) - 1)


def apply(operator: str, width: int, widths: Sequence[int], words: Sequence[Word]) -> Word:
    """An operator of a netlist, on words of these widths."""
    if operator == "m":
        return choice(words[0], words[1], words[2], width)
    if len(words) == 1:
        return _unary(operator, width, widths[0], words[0])
    sign, plain = (operator[0], operator[1:]) if operator[0] in "su" else ("", operator)
    if plain in _OTHERWISE:
        plain, exchanged, denied = _OTHERWISE[plain]
        if exchanged:
            words, widths = words[::-1], widths[::-1]
        found = apply(sign + plain, width, widths, words)
        return negation(found) if denied else found
    x, y = words
    if isinstance(x, int) and isinstance(y, int):
        return known_result(operator, width, widths, words)
    if plain == "==":
        return equal(x, y, widths[0])
    mask = (1 << width) - 1
    for given, other in ((x, y), (y, x)):
        if isinstance(given, int):
            if operator == "&" and given in (0, mask):
                return other if given else 0
            if (operator in "|^+" or (operator == "-" and given is y)) and given == 0:
                return other
            if operator == "^" and given == mask:
                return _unary("~", width, width, other)
    if width == 1 and operator in "&|":
        return conjunction(x, y) if operator == "&" else disjunction(x, y)
    if plain in SHIFTS:
        size = max(widths)
        wide = term(extended(term(x, widths[0]), size, sign == "s"), size)
        by = term(extended(term(y, widths[1]), size), size)
        return part(_make(operator, size, (wide, by)), 0, width)
    return _make(operator, width, (term(x, widths[0]), term(y, widths[1])))


def _unary(operator: str, width: int, size: int, x: Word) -> Word:
    match operator:
        case "~":
            if isinstance(x, int):
                return ~x & ((1 << width) - 1)
            return x.terms[0] if x.operator == "~" else _make("~", width, (x,))
        case "-":
            return apply("-", width, [width, width], [0, x])
        case "b" | "r|":
            return x if size == 1 else negation(equal(x, 0, size))
        case "r&":
            return equal(x, (1 << size) - 1, size)
        case "r^":
            out: Word = 0
            for i in range(size):
                out = apply("^", 1, [1, 1], [piece_of(x, i, 1), out])
            return out
    raise ValueError(operator)


def add(x: Word, y: Word, width: int) -> Word:
    """x + y."""
    return apply("+", width, [width, width], [x, y])


def subtract(x: Word, y: Word, width: int) -> Word:
    """x − y."""
    return apply("-", width, [width, width], [x, y])


def substitute(word: Word, others: Mapping[Term, Term]) -> Word:
    """The term with subterms replaced."""
    found: dict[Term, Word] = dict(others)
    todo = [word] if isinstance(word, Term) else []
    while todo:
        one = todo[-1]
        if one in found:
            todo.pop()
            continue
        missing = [inner for inner in one.terms if inner not in found]
        if missing:
            todo += missing
            continue
        inside = tuple(found[inner] for inner in one.terms)
        same = all(x is y for x, y in zip(inside, one.terms, strict=True))
        found[one] = one if same else _make(one.operator, one.width, inside, one.parameter, one.address)
        todo.pop()
    return found[word] if isinstance(word, Term) else word
