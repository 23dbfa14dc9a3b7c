# amaranth: UnusedElaboratable=no
"""Proofs that multiplier, divider and ROM compute the functions that stand for them in the proofs of the core, for all words and states.

    multiplier   ⌊(x·y + h) / 2^s⌋ from the last cycle on, with x·y = Σ xᵢ·yⱼ·2^(16(i + j)) over limbs of 16 bits
    divider      a quotient of magnitudes by induction over its cycles:  prefix of |x|·2^s = digits·|y| + remains,  0 ≤ remains < |y|
                 a root likewise:                                        prefix of x·2^s   = digits² + remains,     0 ≤ remains ≤ 2·digits
    scaled       each stage of the argument that stands beside `ScaledDivider` in hdl/core/divider.py
    ROM          the entry of the table that is asked for

A cycle of the divider is linear in its digits, so that no question to the solver has a product: with digits' = 2ⁿ·digits + d the invariant of the
next cycle follows from 2ⁿ·remains + bits = d·|y| + remains', and for a root from 4ⁿ·remains + bits = 2ⁿ⁺¹·digits·d + d² + remains'. The number
of cycles, and the place of the first bit, are those of the plan. A product of two limbs is the operator × of the netlist.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import isqrt
from typing import Any

import z3
from amaranth.hdl import Signal
from retrograd.hdl.core.cores import core_of
from retrograd.hdl.core.divider import CARRY_LIMB, Divider, Reciprocals, ScaledDivider
from retrograd.hdl.core.units import LIMB
from retrograd.hdl.formal import terms
from retrograd.hdl.formal.solving import ProofResult, solved, truth
from retrograd.hdl.formal.symbolic import Symbolic
from retrograd.hdl.formal.terms import Term, Word
from retrograd.hdl.netlist import nir
from retrograd.hdl.parameters import Parameters
from retrograd.isa.words import Format

# -----------------------------------------------------------------------------
# Words of a unit, and the words that are expected of it: how they are made and compared.


class Refuted(Exception):
    """A fact that does not hold; the message names it, with words."""


def unit_outputs(unit: Any) -> list[Signal]:
    """The result, and whether it fits, for a unit that has such a flag."""
    return [unit.result, unit.fits] if unit.flags else [unit.result]


def fits_word(number: Word, size: int, width: int) -> Word:
    """Whether a signed number of `size` bits, at least `width`, is that of its low word."""
    return terms.equal(number, placed(terms.piece_of(number, 0, width), 0, size), size)


def magnitude(x: Term, width: int) -> Word:
    return terms.choice(terms.piece_of(x, width - 1, 1), terms.subtract(0, x, width), x, width)


def placed(word: Word, by: int, size: int, signed: bool = True) -> Word:
    """word · 2^by in a word of `size` bits."""
    if isinstance(word, int):
        return word << by & ((1 << size) - 1)
    if by >= size:
        return 0
    if word.width + by > size:
        word = terms.part(word, 0, size - by)
    wide = word if isinstance(word, int) else terms.extended(word, size - by, signed)
    return terms.joined([(0, by), (wide, size - by)]) if by else wide


def without_products(word: Word, names: dict[Term, Term]) -> Word:
    """The term with each product replaced by a name. Products whose factors are equal for all words have one name."""
    todo, seen = [word] if isinstance(word, Term) else [], set()
    while todo:
        one = todo.pop()
        if one in seen:
            continue
        seen.add(one)
        if one.operator == "*" and one not in names:
            known = (name for other, name in names.items() if _equal_factors(one, other))
            names[one] = next(known, terms.unknown(f"product{len(names)}", one.width))
        elif one.operator != "*":
            todo += one.terms
    return terms.substitute(word, names)


def with_equal_sums(x: Word, y: Word) -> tuple[Word, Word]:
    """Both terms with sums that are proved equal replaced by one name, from the innermost on: each question has one addition on each side."""
    found: dict[Term, Term] = {}
    others: dict[Term, Term] = {}
    for k, (a, b) in enumerate(zip(_sums(x), _sums(y), strict=False)):
        if a.width == b.width and _equal_words(terms.substitute(a, found), terms.substitute(b, others)):
            found[a] = others[b] = terms.unknown(f"sum{k}", a.width)
    return terms.substitute(x, found), terms.substitute(y, others)


def _sums(word: Word) -> list[Term]:
    """The additions in a term, each behind those in its operands."""
    out: list[Term] = []
    todo, seen = [(word, False)] if isinstance(word, Term) else [], set()
    while todo:
        one, done = todo.pop()
        if done:
            if one.operator == "+":
                out.append(one)
        elif one not in seen:
            seen.add(one)
            todo.append((one, True))
            todo += [(inner, False) for inner in one.terms]
    return out


def _equal_factors(x: Term, y: Term) -> bool:
    return x.width == y.width and all(_equal_words(a, b) for a, b in zip(x.terms, y.terms, strict=True))


def _equal_words(x: Term, y: Term) -> bool:
    """Whether the solver soon proves that two words are equal."""
    solver = z3.Solver()
    solver.set("timeout", 2000)
    solver.add(solved(x) != solved(y))
    return x is y or bool(solver.check() == z3.unsat)


def same(x: Word, at: int, y: Word, low: int, width: int) -> Word:
    """Whether x[at : at + width] = y[low : low + width]."""
    return terms.equal(terms.piece_of(x, at, width), terms.piece_of(y, low, width), width)


# -----------------------------------------------------------------------------
# The scaled divider, stage by stage.
#
# The bounds of the table are checked entry by entry. A product of a factor and a limb is the operator × of the netlist. The proofs use only one
# property of it: q·limb ≤ (2^(k + 1) − 1)·limb, because q has k + 1 bits.


def _at_most(x: Word, y: Word, size: int) -> Word:
    """x ≤ y, unsigned."""
    return terms.apply("u<=", 1, [size, size], [x, y])


def _wide(word: Word, size: int, by: int = 0) -> Word:
    """An unsigned word · 2^by in `size` bits."""
    return placed(word, by, size, signed=False)


#: shows that facts follow from given ones, or raises Refuted
Show = Callable[[Sequence[tuple[str, Word]], Sequence[Word]], None]


class ScaledDividerProver:
    """The claims on one scaled divider."""

    def __init__(self, unit: ScaledDivider, show: Show) -> None:
        self.unit, self.show = unit, show
        self.width, self.k, self.point, self.table = unit.width, unit.k, unit.point, unit.reciprocals

    def claims(self) -> dict[str, Callable[[], None]]:
        """Name -> proof."""
        found: dict[str, Callable[[], None]] = {
            "the table": self._table,
            "y is normalised": self._normalised,
            "the reciprocal is read, and the dividend": self._read,
            "the reciprocal": self._reciprocal,
            "the products": self._products,
            "a digit": self._digit,
        }
        quotients = [i for i, plan in enumerate(self.unit.plans) if not plan.root]
        found |= {f"{i}, quotient: its start": partial(self._start, i) for i in quotients}
        found |= {f"quotient: its result >> {s}": partial(self._result, j) for j, s in enumerate(self.unit.shifts)}
        return found | {f"{i}, root: its start and result": partial(self._root, i) for i in self.unit.rooted}

    # ---------------------------------------------------------------- states

    def _state(self, **known: Word) -> tuple[Symbolic, dict[str, Any], dict[str, Word]]:
        """The divider in any state, but for the `known` registers, in a cycle without a start; its own registers, and their words."""
        hw = Symbolic(self.unit, unit_outputs(self.unit))
        cells, modules = hw.netlist.cells, hw.netlist.modules
        own = {}
        for signal, nets in hw.netlist.signals.items():
            holder = min((int(net.cell) for net in nets if net.is_cell), default=0)
            cell = cells[holder]
            whole = isinstance(cell, nir.FlipFlop) and [int(net.bit) for net in nets] == [*range(len(cell.data))]
            if whole and holder in hw.words and len(modules[cell.module_idx].name) == 1:
                own[signal.name] = signal
        hw.forget([])
        words: dict[str, Word] = {name: known.get(name, terms.unknown(name, len(s))) for name, s in own.items()}
        for name, word in words.items():
            hw.poke(own[name], word)
        self._settle(hw)
        return hw, own, words

    def _settle(self, hw: Symbolic, shift: int = 0) -> None:
        """A cycle without a start."""
        x, y, division = (
            terms.unknown(f"{name}1", size) for name, size in (("x", self.width), ("y", self.width), ("d", 1))
        )
        hw.settle(start=0, x=x, y=y, division=division, shift=shift)

    # ---------------------------------------------------------------- the table

    def _table(self) -> None:
        """The entries of the memory keep the bounds."""
        bits, words = self.table.sizes[0], [int(word) for word in list(self.unit.entries.init)]
        stored = Reciprocals(self.k, tuple((word % (1 << bits), word >> bits) for word in words))
        for i in range(1 << stored.index):
            for delta in range(1 << stored.delta):
                if not (stored.within_bound(i, delta) and stored.fraction(i, delta) >> stored.places == 0):
                    raise Refuted(f"the bound of the reciprocal: entry {i}, place {delta}")

    # ---------------------------------------------------------------- stages before digits

    def _start(self, which: int) -> None:
        """The operands, the magnitude of y, and the facts of the division; products come four cycles later."""
        hw, own, words = self._state()
        x, y, plan = terms.unknown("x1", self.width), terms.unknown("y1", self.width), self.unit.plans[which]
        hw.settle(start=1, division=which)
        hw.tick()
        expected: dict[str, Word] = {
            "x": x, "divisor": magnitude(y, self.width), "negative": terms.piece_of(y, self.width - 1, 1),
            "void": terms.equal(y, 0, self.width), "rounded": int(plan.rounded), "s": plan.s,
            "ready": terms.joined([(1, 1), (terms.piece_of(words["ready"], 0, 3), 3)]),
        }  # fmt: skip
        if self.unit.roots is not None:
            expected["held"] = 0
        facts = [(name, terms.equal(hw.peek(own[name]), word, len(own[name]))) for name, word in expected.items()]
        if plan.s > self.width or self.unit.quotient_bits < self.width + plan.s + 2:
            raise Refuted("the digits have no room")
        # From here on only time passes: the operands are held.
        held = {name: hw.peek(own[name]) for name in expected if name != "ready"}
        self._settle(hw)
        hw.tick()
        facts += [
            (f"{name} is held", terms.equal(hw.peek(own[name]), word, len(own[name]))) for name, word in held.items()
        ]
        self.show(facts, [])

    def _normalised(self) -> None:
        """scale = divisor·2^z has its highest bit set, and places = s + z; the address is that of the reciprocal."""
        hw, own, words = self._state()
        hw.tick()
        scale, places, size = hw.peek(own["scale"]), hw.peek(own["places"]), len(own["places"])
        z = terms.subtract(places, _wide(words["s"], size), size)
        back = terms.apply("u>>", self.width, [self.width, size], [scale, z])
        wide = terms.apply("u<=", 1, [size, size], [z, self.width - 1])
        entry = hw.entry("entries", self._leading(scale, 1, self.table.index))
        facts = [
            (
                "a cycle on",
                terms.equal(hw.peek(own["ready"]), placed(words["ready"], 1, len(own["ready"])), len(own["ready"])),
            ),
            ("the highest bit", terms.piece_of(scale, self.width - 1, 1)),
            ("the magnitude", terms.equal(back, words["divisor"], self.width)),
            ("zeros", wide),
            ("the entry", terms.equal(self._port(hw), entry, sum(self.table.sizes))),
        ]
        given = [terms.negation(terms.equal(words["divisor"], 0, self.width))]
        self.show(facts, given)

    def _port(self, hw: Symbolic) -> Word:
        """The word that the read port holds."""
        (index,) = (i for i in hw.words if isinstance(hw.cells[i], nir.SyncReadPort))
        return hw.words[index]

    def _leading(self, word: Word, first: int, count: int) -> Word:
        """Bits of a word from the place `first` on, from the highest down; zeros behind the last."""
        end = max(0, self.width - first)
        have = min(count, end)
        return terms.joined(
            [piece for piece in ((0, count - have), (terms.piece_of(word, end - have, have), have)) if piece[1]]
        )

    def _read(self) -> None:
        """A and B; x·2^h with the sign of y, and y·2^(k − 1) to make it positive; h is places mod k."""
        hw, own, words = self._state()
        read = self._port(hw)
        hw.tick()
        a, b = self.table.sizes
        size, bits = self.width + self.k + 2, self.k.bit_length() - 1
        h = terms.joined([(terms.piece_of(words["places"], 0, bits), bits), (0, size - bits)])
        moved = terms.apply("<<", size, [size, size], [placed(words["x"], 0, size), h])
        signed = terms.choice(words["negative"], terms.subtract(0, moved, size), moved, size)
        total = terms.add(signed, _wide(words["scale"], size, self.k - 1), size)
        dividend = _wide(hw.peek(own["dividend"]), size)
        facts = [
            ("A", terms.equal(hw.peek(own["base"]), terms.piece_of(read, 0, a), a)),
            ("B", terms.equal(hw.peek(own["slope"]), terms.piece_of(read, a, b), b)),
            ("the dividend", terms.equal(dividend, total, size)),
            ("the bound of the dividend", _at_most(dividend, _wide(words["scale"], size, self.k), size)),
        ]
        # |x| ≤ 2^(W − 1) ≤ scale
        self.show(facts, [terms.piece_of(words["scale"], self.width - 1, 1)])

    def _reciprocal(self) -> None:
        """(r − 1)·2^places = (A − ⌊B·δ / 2^(fine − guard)⌋) / 2^guard, for the bits δ of y."""
        hw, own, words = self._state()
        hw.tick()
        table = self.table
        size = table.sizes[1] + table.delta
        delta = self._leading(words["scale"], 1 + table.index, table.delta)
        product = self._times(words["slope"], table.sizes[1], delta, table.delta)
        cut = table.fine - table.guard
        line = _wide(terms.piece_of(product, cut, size - cut), table.sizes[0])
        r = terms.piece_of(terms.subtract(words["base"], line, table.sizes[0]), table.guard, table.places)
        self._show_products([("r", hw.peek(own["r"]), r, table.places)])

    def _products(self) -> None:
        """e = 1 − r·scale;  the first R is 2·r·dividend;  Q = −1;  k·(left − 1) + h = places; they are there in the fourth cycle."""
        hw, own, words = self._state(ready=8)
        hw.tick()
        places, size = self.table.places, len(own["remains"])
        bits, left = self.k.bit_length() - 1, len(own["left"])
        products = []
        for word, bits_of in ((words["scale"], self.width), (words["dividend"], self.width + self.k)):
            total = _wide(word, size, places)
            for at, limb, length in self._limbs(word, bits_of):
                one = self._times(words["r"], places, limb, length)
                total = terms.add(total, _wide(one, size, at), size)
            products.append(total)
        whole = terms.piece_of(words["places"], bits, len(own["places"]) - bits)
        count = terms.add(_wide(whole, left), 1, left)
        error = terms.piece_of(terms.subtract(0, products[0], size), 0, self.unit.error_bits)
        first = _wide(products[1], size, 1)
        self._show_products(
            [
                ("e", hw.peek(own["error"]), error, self.unit.error_bits),
                ("the first remainder", hw.peek(own["remains"]), first, size),
                ("no digits", hw.peek(own["digits"]), (1 << len(own["digits"])) - 1, len(own["digits"])),
                ("the digits that are left", hw.peek(own["left"]), count, left),
            ]
        )

    # ---------------------------------------------------------------- digits

    def _digit(self) -> None:
        """q, R → 2^k·(frac R + q·e), and the remainder is less than 2·y'; without digits left, all is held."""
        hw, own, words = self._state(ready=0)
        k, size = self.k, self.point + self.k + 4
        remains, error, digits = words["remains"], words["error"], words["digits"]
        q = terms.piece_of(remains, self.point, k + 1)
        total = _wide(terms.piece_of(remains, 0, self.point), size)
        names: dict[Term, Term] = {}
        given = [_at_most(_wide(error, size), (1 << self.point) // ((2 << k) + 1), size)]
        for at, limb, length in self._limbs(error, self.unit.error_bits):
            one = self._times(q, k + 1, limb, length)
            total = terms.add(total, _wide(one, size, at), size)
            most = terms.subtract(_wide(limb, size, k + 1), _wide(limb, size), size)
            given.append(_at_most(_wide(without_products(one, names), size), most, size))
        below = terms.apply("u<", 1, [size, size], [terms.add(total, _wide(error, size, 1), size), 2 << self.point])
        left, bits = len(own["left"]), len(own["digits"])
        more = terms.negation(terms.equal(words["left"], 0, left))
        following = terms.add(_wide(digits, bits, k), _wide(q, bits), bits)
        less = terms.subtract(words["left"], 1, left)
        hw.tick()
        pairs = [
            ("the remainder", "remains", terms.choice(more, _wide(total, size, k), _wide(remains, size), size), size),
            ("the digits", "digits", terms.choice(more, following, digits, bits), bits),
            ("a digit less", "left", terms.choice(more, less, 0, left), left),
        ]
        facts = [("the bound of the remainder", without_products(below, names))]
        for name, register, word, n in pairs:
            found = _wide(hw.peek(own[register]), n)
            facts.append((name, terms.equal(without_products(found, names), without_products(word, names), n)))
        self.show(facts, given)

    def _result(self, shift: int) -> None:
        """Q + 1 if y' can be subtracted, else Q; rounded by its last digit, shifted, and whether it fits; it is held."""
        hw, own, words = self._state(left=0, ready=0, held=0)
        self._settle(hw, shift)
        found = [hw.peek(output) for output in unit_outputs(self.unit)]
        remains, point = words["remains"], self.point
        size, bits = point + 2, len(own["digits"]) + 2
        rest = _wide(terms.piece_of(remains, self.k, point + 1), size)
        error = _wide(words["error"], size)
        divisor = terms.subtract(1 << point, error, size)
        over = terms.apply("u<=", 1, [size, size], [divisor, rest])
        below = terms.apply(
            "u<",
            1,
            [size + 1, size + 1],
            [_wide(rest, size + 1), _wide(divisor, size + 1, 1)],
        )
        quotient = placed(words["digits"], 0, bits)
        for one in (over, words["rounded"]):
            quotient = terms.add(quotient, terms.joined([(one, 1), (0, bits - 1)]), bits)
        chosen = terms.apply("s>>", bits, [bits, 8], [quotient, 1 + min(self.unit.shifts[shift], bits - 2)])
        result = terms.choice(
            words["void"], 0, terms.piece_of(placed(chosen, 0, max(bits, self.width)), 0, self.width), self.width
        )
        facts = [("the result", terms.equal(found[0], result, self.width))]
        fits = terms.disjunction(words["void"], fits_word(chosen, bits, self.width))
        facts += [("whether it fits", terms.equal(flag, fits, 1)) for flag in found[1:]]
        # |Q| is less than the room that it has.
        top = len(own["digits"]) - 1
        room = terms.equal(terms.piece_of(words["digits"], top, 1), terms.piece_of(words["digits"], top - 1, 1), 1)
        self.show(facts, [below, room])

    def _root(self, which: int) -> None:
        """A root is that of the divider for roots, which is started by no quotient."""
        hw, _, _ = self._state()
        roots = self.unit.roots
        assert roots is not None
        x = terms.unknown("x1", self.width)
        facts: list[tuple[str, Word]] = []
        for index, plan in enumerate(self.unit.plans):
            hw.settle(start=1, division=index)
            facts.append(("the start of roots", terms.equal(hw.peek(roots.start), int(plan.root), 1)))
        hw.settle(start=1, division=which)
        facts.append(("the operand", terms.equal(hw.peek(roots.x), x, self.width)))
        facts.append(
            ("the division", terms.equal(hw.peek(roots.division), self.unit.rooted[which], len(roots.division)))
        )
        hw.tick()
        for _ in range(2):
            self._settle(hw)
            for ours, theirs in zip(unit_outputs(self.unit), unit_outputs(roots), strict=True):
                facts.append(("the root", terms.equal(hw.peek(ours), hw.peek(theirs), len(ours))))
            hw.tick()
        self.show(facts, [])

    # ---------------------------------------------------------------- products

    @staticmethod
    def _times(x: Word, bits: int, y: Word, more: int) -> Word:
        """The product of two unsigned words."""
        size = bits + more
        return terms.apply("*", size, [size, size], [_wide(word, size) for word in (x, y)])

    @staticmethod
    def _limbs(word: Word, size: int) -> list[tuple[int, Word, int]]:
        """(place, limb, its bits) of a word."""
        return [
            (at, terms.piece_of(word, at, min(CARRY_LIMB, size - at)), min(CARRY_LIMB, size - at))
            for at in range(0, size, CARRY_LIMB)
        ]

    def _show_products(self, facts: Sequence[tuple[str, Word, Word, int]]) -> None:
        """Pairs of words are equal, for all values of their products."""
        names: dict[Term, Term] = {}
        pairs = [(name, *(without_products(word, names) for word in (x, y)), n) for name, x, y, n in facts]
        self.show([(name, terms.equal(*with_equal_sums(x, y), n)) for name, x, y, n in pairs], [])


# -----------------------------------------------------------------------------
# Multiplier, divider and ROM, and the list of all claims.


#: registers of the divider's recurrence; all others are flags
_RECURRENCE = ("down", "divisor", "remains", "digits", "left")
#: names of the units, as the command line takes them
UNITS = ("multiplier", "divider", "ROM")


@dataclass(frozen=True)
class UnitClaim:
    """A claim on a unit, such as "divider 0: a cycle"."""

    unit: str
    name: str
    prove: Callable[[], None]


class UnitProver:
    """The claims on the units of the core of this name; units of one kind are equal in all slots.

    `microcode`: another one than the table's, to test that it is refuted.
    """

    def __init__(self, w: Format, microcode: Any = None, seconds: float = 60, core: str = "small") -> None:
        self.w, self.seconds = w, seconds
        self.core: Any = self._made(w, core, microcode)
        divider: Any = self.core.divider
        scales = self.core.parameters.microarchitecture.scaled is not None
        #: the scaled divider, if there is one, and the divider by digit recurrence
        self.scaled = ScaledDividerProver(divider, self._show) if scales else None
        self.divider: Divider | None = divider.roots if scales else divider

    def _made(self, w: Format, core: str, microcode: Any) -> Any:
        return core_of(Parameters(w, code_words=8, data_words=4, core=core), microcode)

    def claims(self) -> list[UnitClaim]:
        """All claims, unit by unit."""
        core = self.core
        found = [
            UnitClaim("multiplier", f"multiplier: (x·y + {half}) >> {shift}", partial(self._multiplier, i, j))
            for i, half in enumerate(core.multiplier.halves)
            for j, shift in enumerate(core.multiplier.shifts)
        ]
        if self.scaled is not None:
            found += [
                UnitClaim("divider", f"scaled divider {name}", prove) for name, prove in self.scaled.claims().items()
            ]
        if self.divider is not None:
            found += self._recurrence(self.divider)
        tables = enumerate(core.rom.tables)
        found += [UnitClaim("ROM", f"ROM: table {i} of {len(t)}", partial(self._table, i)) for i, t in tables]
        return found

    def _recurrence(self, unit: Divider) -> list[UnitClaim]:
        found = []
        for i, plan in enumerate(unit.plans):
            what = "root" if plan.root else "quotient"
            found += [
                UnitClaim("divider", f"divider {i}, {what}: its start", partial(self._start, unit, i)),
                UnitClaim("divider", f"divider {i}, {what}: a cycle", partial(self._cycle, unit, i)),
                *(
                    UnitClaim("divider", f"divider {i}, {what}: its result >> {s}", partial(self._result, unit, i, j))
                    for j, s in enumerate(unit.shifts)
                ),
            ]
        return found

    def prove(self, claim: UnitClaim) -> ProofResult:
        """The result of one claim; each fact is proved from assumptions that some state satisfies."""
        begun = time.monotonic()
        try:
            claim.prove()
        except Refuted as refuted:
            return ProofResult(claim.name, False, time.monotonic() - begun, 0, str(refuted))
        return ProofResult(claim.name, True, time.monotonic() - begun, 0, witnessed=True)

    def _show(self, facts: Sequence[tuple[str, Word]], given: Sequence[Word] = ()) -> None:
        """Each fact follows from the given ones, which are possible. Raises Refuted."""
        solver = z3.Solver()
        solver.set("timeout", int(1000 * self.seconds))
        solver.add(*map(truth, given))
        if solver.check() != z3.sat:
            raise Refuted("no state satisfies the assumptions")
        for name, holds in facts:
            solver.push()
            solver.add(z3.Not(truth(holds)))
            match solver.check():
                case z3.sat:
                    raise Refuted(f"{name}: {solver.model()}")
                case z3.unknown:
                    raise Refuted(f"undecided: {name}")
            solver.pop()

    # ---------------------------------------------------------------- multiplier

    def _multiplier(self, half: int, shift: int) -> None:
        """The result in the last cycle, for any operands in the cycles before, and one cycle later."""
        unit, width = self.core.multiplier, self.w.width
        hw = Symbolic(unit, unit_outputs(unit))
        hw.forget([])
        x, y = terms.unknown("x", width), terms.unknown("y", width)
        hw.settle(start=1, x=x, y=y, half=half, shift=shift)
        hw.tick()
        hw.settle(
            start=0,
            x=terms.unknown("x1", width),
            y=terms.unknown("y1", width),
            half=terms.unknown("h1", len(unit.half)),
        )
        for _ in range(unit.cycles - 2):
            hw.tick()
            hw.settle()
        found = [hw.peek(output) for output in unit_outputs(unit)]
        hw.tick()
        hw.settle()
        later = hw.peek(unit.result)
        limb, whole = min(LIMB, width), 2 * width
        names: dict[Term, Term] = {}
        # Each sum has one bit more than its operands, so it is exact; the product is its low half.
        total: Word = unit.halves[half]
        size = width + 1
        for i in range(0, width, limb):
            for j in range(0, width, limb):
                # A shift is as wide as the greatest amount of as many bits needs.
                limbs, bits = _limbs(x, i, limb, y, j), 2 * limb + 1 + (1 << (i + j).bit_length())
                # A product of two limbs of 16 bits has 32 bits.
                name, top = terms.unknown(f"product{i}_{j}", 2 * limb), width - limb in (i, j)
                names[terms.term(limbs, 2 * limb + 2)] = terms.term(
                    terms.extended(name, 2 * limb + 2, top), 2 * limb + 2
                )
                size = max(size, bits) + 1
                total = terms.add(placed(total, 0, size), placed(placed(limbs, i + j, bits), 0, size), size)
        total = placed(total, 0, max(size, whole))
        shifted = terms.apply("s>>", whole, [whole, 8], [terms.piece_of(total, 0, whole), unit.shifts[shift]])
        expected = terms.piece_of(shifted, 0, width)
        facts = [("the product", found[0], expected, width), ("it is held", later, expected, width)]
        if unit.shifts[shift] in unit.tested:
            facts += [("whether it fits", flag, fits_word(shifted, whole, width), 1) for flag in found[1:]]
        words = [(name, *(without_products(word, names) for word in pair), size) for name, *pair, size in facts]
        self._show([(name, terms.equal(*with_equal_sums(x, y), size)) for name, x, y, size in words])

    # ---------------------------------------------------------------- divider

    def _started(self, unit: Divider, which: int) -> tuple[Symbolic, dict[str, Any], dict[str, Word], Term, Term]:
        """The divider after the start of x / y from any state; its registers, and its flags, which a cycle must hold."""
        width = self.w.width
        hw = Symbolic(unit, unit_outputs(unit))
        registers = {signal.name: signal for signal in hw.netlist.signals if signal.name in _RECURRENCE}
        if len(registers) != len(_RECURRENCE):
            raise Refuted(f"the divider has no register {', '.join(sorted({*_RECURRENCE} - {*registers}))}")
        hw.forget([])
        x, y = terms.unknown("x", width), terms.unknown("y", width)
        hw.settle(start=1, division=which, x=x, y=y)
        hw.tick()
        hw.settle(start=0, x=terms.unknown("x1", width), y=terms.unknown("y1", width), division=terms.unknown("d1", 1))
        return hw, registers, {name: hw.peek(signal) for name, signal in registers.items()}, x, y

    def _digits(self, unit: Divider, which: int) -> tuple[int, int]:
        """Digits that a cycle finds, and bits that it consumes."""
        plan, division = unit.plans[which], unit.divisions[which]
        consumed = self.w.width + division.s + plan.rounded * (2 if plan.root else 1) + plan.zeros
        bits, rest = divmod(consumed, plan.cycles)
        if rest or bits % (2 if plan.root else 1):
            raise Refuted("the cycles of the plan do not consume all bits")
        return bits // (2 if plan.root else 1), bits

    def _most(self, unit: Divider, which: int) -> int:
        """The greatest quotient or root: of the magnitude 2^(W − 1), by 1."""
        plan, division = unit.plans[which], unit.divisions[which]
        dividend = 1 << self.w.width - 1 + division.s + plan.rounded * (2 if plan.root else 1)
        return isqrt(dividend) if plan.root else dividend

    def _start(self, unit: Divider, which: int) -> None:
        """After the start: magnitudes, no digits, all cycles left, and the bits of |x| behind the zeros of the plan."""
        plan, width = unit.plans[which], self.w.width
        _, r, after, x, y = self._started(unit, which)
        place = len(r["down"]) - width - plan.zeros
        pieces = [(0, place), (magnitude(x, width), width), (0, plan.zeros)]
        moved = terms.joined([piece for piece in pieces if piece[1]])
        expected: dict[str, Word] = {
            "divisor": magnitude(y, width), "remains": 0, "digits": 0, "left": plan.cycles, "down": moved,
        }  # fmt: skip
        if self._most(unit, which) >= 1 << len(r["digits"]) - 1:
            raise Refuted("the digits have no room")
        # A root of a negative number is void, so its digits do not matter.
        given = [terms.negation(terms.piece_of(x, width - 1, 1))] if plan.root else []
        self._show([(name, terms.equal(after[name], word, len(r[name]))) for name, word in expected.items()], given)

    def _cycle(self, unit: Divider, which: int) -> None:
        """One cycle of the induction, from any state of the recurrence with cycles left.

        A cycle is a chain of steps, of one digit each or of one pair. Each step keeps the invariant, from any remainder and digits
        within the bounds that the step before has proved: the words between two steps are cut, and become unknown.
        """
        digits, bits = self._digits(unit, which)
        each, chain = (2, digits // 2) if unit.digits > 2 else (1, digits)
        before, after, held, _ = self._ticked(unit, which)
        sizes = {name: word.width for name, word in before.items()}
        total, left = sizes["down"], sizes["left"]
        going = terms.negation(terms.equal(before["left"], 0, left))
        # With any number of cycles left the same happens as with one, of which words no longer depend on it.
        _, last, _, _ = self._ticked(unit, which, left=1)
        facts = [
            ("the digits", same(after["digits"], digits, before["digits"], 0, sizes["digits"] - digits)),
            ("the rest of the dividend", same(after["down"], bits, before["down"], 0, total - bits)),
            ("a cycle less", terms.equal(after["left"], terms.subtract(before["left"], 1, left), left)),
            ("the divisor is held", terms.equal(after["divisor"], before["divisor"], self.w.width)),
            ("the flags are held", int(held)),
            *((f"{name} of the last cycle", terms.equal(after[name], last[name], sizes[name])) for name in ("digits", "remains")),
        ]  # fmt: skip
        self._show(facts, [going])
        _, last, _, computed = self._ticked(unit, which, left=1, cuts=chain - 1)
        step = RecurrenceStep(
            unit.plans[which].root, each, max(sizes["digits"], self.w.width) + 2 * bits + 6, before["divisor"]
        )
        remains, found = before["remains"], step.wide(before["digits"])
        unknown: dict[Term, Term] = {}
        for k in range(chain):
            low, taken = digits - each * (k + 1), bits // chain
            new = [terms.piece_of(last["digits"], low + i, 1) for i in range(each)]
            behind = terms.piece_of(computed[k] if k < chain - 1 else last["remains"], 0, sizes["remains"])
            ours = [terms.substitute(word, unknown) for word in (behind, *new)]
            # Digits are left, so those so far are at most the first digits of the greatest quotient or root.
            most = terms.apply("u<=", 1, [step.size] * 2, [found, self._most(unit, which) >> low + each])
            dividend = terms.piece_of(before["down"], total - (k + 1) * taken, taken)
            self._show(step.facts(remains, dividend, found, ours[1:], ours[0]), [step.in_bounds(remains, found), most])
            unknown |= {bit: terms.unknown(f"digit_{low + i}", 1) for i, bit in enumerate(new) if isinstance(bit, Term)}
            remains = terms.unknown(f"remains_{k}", sizes["remains"])
            found = step.with_digits(found, [terms.substitute(bit, unknown) for bit in new])

    def _ticked(
        self, unit: Divider, which: int, left: int | None = None, cuts: int = 0
    ) -> tuple[dict[str, Term], dict[str, Word], bool, list[Word]]:
        """(the registers of the recurrence before a cycle, and after it, whether the flags are held, the remainders that were cut).

        The registers are unknown before, and so is the number of cycles that are left, unless it is given. Behind each of the first
        `cuts` steps an unknown word, remains_0, remains_1, …, takes the place of the remainder.
        """
        hw, r, _, _, _ = self._started(unit, which)
        before = {name: terms.unknown(name, len(signal)) for name, signal in r.items()}
        for name, word in before.items():
            hw.poke(r[name], word)
        flags = {index: word for index, word in hw.words.items() if word not in before.values()}
        if left is not None:
            hw.poke(r["left"], left)
        computed: list[Word] = [0] * cuts

        def cut(k: int, size: int, word: Word) -> Word:
            computed[k] = word
            width = word.width if isinstance(word, Term) else size
            return terms.extended(terms.unknown(f"remains_{k}", size), width)

        for k in range(cuts):
            (signal,) = (signal for signal in hw.netlist.signals if signal.name == f"rest_{k}")
            hw.replace(signal, partial(cut, k, len(signal)))
        hw.settle()
        hw.tick()
        hw.settle(start=0)
        held = all(hw.words[index] is word or hw.words[index] == word for index, word in flags.items())
        return before, {name: hw.peek(signal) for name, signal in r.items()}, held, computed

    def _result(self, unit: Divider, which: int, shift: int) -> None:
        """The result of magnitudes, signs and rounding, once no cycle is left; and it is held."""
        width = self.w.width
        hw, r, _, x, y = self._started(unit, which)
        state: dict[str, Word] = {name: terms.unknown(name, len(signal)) for name, signal in r.items()} | {"left": 0}
        for name, word in state.items():
            hw.poke(r[name], word)
        hw.settle(shift=shift)
        found, words = [hw.peek(output) for output in unit_outputs(unit)], dict(hw.words)
        hw.tick()
        held = int(all(hw.words[index] is word or hw.words[index] == word for index, word in words.items()))
        sign_x, sign_y = terms.piece_of(x, width - 1, 1), terms.piece_of(y, width - 1, 1)
        root = unit.plans[which].root
        void = sign_x if root else terms.equal(y, 0, width)
        negative = 0 if root else terms.apply("^", 1, [1, 1], [sign_x, sign_y])
        exact = terms.equal(state["remains"], 0, len(r["remains"]))
        result, fits = self._by_digits(unit, which, shift, state["digits"], negative, exact, void)
        top = terms.piece_of(state["digits"], len(r["digits"]) - 1, 1)
        facts = [("the result", terms.equal(found[0], result, width)), ("it is held", held)]
        facts += [("whether it fits", terms.equal(flag, fits, 1)) for flag in found[1:]]
        self._show(facts, [terms.negation(top)])

    def _by_digits(
        self, unit: Divider, which: int, shift: int, digits: Word, negative: Word, exact: Word, void: Word
    ) -> tuple[Word, Word]:
        """(the result, whether it fits) of the digits of magnitudes, the sign, and whether nothing remains."""
        width, size = self.w.width, unit.quotient_bits + 2
        q = placed(digits, 0, size, signed=False)
        # −q where the division is exact, else −q − 1
        below = terms.subtract(terms.subtract(0, q, size), terms.choice(exact, 0, 1, size), size)
        q = terms.choice(negative, below, q, size)
        if unit.plans[which].rounded:
            q = terms.apply("s>>", size, [size, 8], [terms.add(q, 1, size), 1])
        chosen = terms.apply("s>>", size, [size, 8], [q, min(unit.shifts[shift], size - 1)])
        result = terms.choice(void, 0, terms.piece_of(placed(chosen, 0, max(size, width)), 0, width), width)
        return result, terms.disjunction(void, fits_word(chosen, size, width))

    # ---------------------------------------------------------------- ROM

    def _table(self, index: int) -> None:
        """The entry x mod n, one cycle later; and the entries are the table's."""
        unit, width = self.core.rom, self.w.width
        hw = Symbolic(unit, [unit.result])
        x, table = terms.unknown("x", width), self.core.microcode.tables[index]
        hw.settle(table=index, x=x)
        hw.tick()
        hw.settle(table=terms.unknown("t1", 1), x=terms.unknown("x1", width))
        bits, size = (len(table) - 1).bit_length(), (unit.entries.depth - 1).bit_length()
        base = unit.bases[index]
        pieces = [(terms.piece_of(x, 0, bits), bits), (base >> bits, size - bits)]
        at = terms.joined([piece for piece in pieces if piece[1]])
        expected = terms.joined([(hw.entry(name, at), n) for name, _, n in unit.columns])
        mask = self.w.mask
        stored = [int(word) & mask for word in list(unit.entries.init)[base : base + len(table)]]
        if stored != [entry & mask for entry in table] or base % len(table):
            raise Refuted("the entries are not those of the table")
        self._show([("the entry", terms.equal(hw.peek(unit.result), expected, width))])


@dataclass(frozen=True)
class RecurrenceStep:
    """A step of the recurrence by n digits, in words of `size` bits."""

    root: bool
    n: int
    size: int
    divisor: Word

    def wide(self, word: Word, by: int = 0) -> Word:
        return placed(word, by, self.size, signed=False)

    def with_digits(self, found: Word, bits: Sequence[Word]) -> Word:
        """2ⁿ·found + d, from the bits of d."""
        out = placed(found, self.n, self.size, signed=False)
        for k, bit in enumerate(bits):
            out = terms.add(out, self.wide(bit, k), self.size)
        return out

    def in_bounds(self, remains: Word, found: Word) -> Word:
        """0 ≤ remains < |y|, or of a root 0 ≤ remains ≤ 2·digits."""
        if self.root:
            return terms.apply("u<=", 1, [self.size] * 2, [self.wide(remains), self.wide(found, 1)])
        return terms.apply("u<", 1, [self.size] * 2, [self.wide(remains), self.wide(self.divisor)])

    def facts(
        self, remains: Word, dividend: Word, found: Word, bits: Sequence[Word], behind: Word
    ) -> list[tuple[str, Word]]:
        """The invariant and the bound, for the next bits of the dividend, the bits of the new digits and the remainder behind the step."""
        n, size = self.n, self.size
        value: Word = 0
        for k, bit in enumerate(bits):
            if self.root:
                # 2ⁿ⁺¹·digits·d + d², with d² as the sum over the pairs of its bits
                value = terms.add(value, terms.choice(bit, self.wide(found, n + 1 + k), 0, size), size)
                for j, other in enumerate(bits):
                    value = terms.add(value, terms.choice(terms.conjunction(bit, other), 1 << k + j, 0, size), size)
            else:
                value = terms.add(value, terms.choice(bit, self.wide(self.divisor, k), 0, size), size)
        top = terms.add(self.wide(remains, n * (2 if self.root else 1)), self.wide(dividend), size)
        return [
            ("the invariant", terms.equal(top, terms.add(value, self.wide(behind), size), size)),
            ("the bound of the remainder", self.in_bounds(behind, self.with_digits(found, bits))),
        ]


def _limbs(x: Term, i: int, limb: int, y: Term, j: int) -> Word:
    """The product of the limbs at bits i and j, of one bit more and a sign: the top limbs have the sign of their words."""

    def part(word: Term, at: int) -> Word:
        top = at + limb == word.width
        return terms.extended(terms.term(terms.part(word, at, limb), limb), limb + 1, top)

    size = 2 * limb + 2
    operands = [placed(part(word, at), 0, size) for word, at in ((x, i), (y, j))]
    return terms.apply("*", size, [size, size], operands)
