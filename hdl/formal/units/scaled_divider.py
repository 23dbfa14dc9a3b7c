"""Claims on the scaled divider, stage by stage, for all words and states.

The stages are those of the argument in `scaled_divider`. The bounds of the table are checked entry by entry. A product of a factor and a limb is
the operator × of the netlist, and it has no property but one: q·limb ≤ (2^(k + 1) − 1)·limb, because q has k + 1 bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from retrograd.hdl.core.units.reciprocal import Reciprocals
from retrograd.hdl.core.units.scaled_divider import LIMB, ScaledDivider
from retrograd.hdl.formal import terms
from retrograd.hdl.formal.symbolic import Symbolic
from retrograd.hdl.formal.terms import Term, Word
from retrograd.hdl.formal.units.comparisons import (
    Refuted,
    fits_word,
    magnitude,
    placed,
    unit_outputs,
    with_equal_sums,
    without_products,
)
from retrograd.hdl.netlist import nir


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
            (at, terms.piece_of(word, at, min(LIMB, size - at)), min(LIMB, size - at)) for at in range(0, size, LIMB)
        ]

    def _show_products(self, facts: Sequence[tuple[str, Word, Word, int]]) -> None:
        """Pairs of words are equal, for all values of their products."""
        names: dict[Term, Term] = {}
        pairs = [(name, *(without_products(word, names) for word in (x, y)), n) for name, x, y, n in facts]
        self.show([(name, terms.equal(*with_equal_sums(x, y), n)) for name, x, y, n in pairs], [])
