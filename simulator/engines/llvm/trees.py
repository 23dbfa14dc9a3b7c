"""Fold: the expression tree as LLVM IR, for the machines that compile: host code, host code in lanes, and PTX.

Words are `iW`, or vectors of them with one word for each lane; every node is one value of that type, as `isa.expr.OPERATIONS`
defines it. Arithmetic for which LLVM has no instruction is in `functions.py`.

Overrides, each of which computes the value that the nodes define (tests compare with `evaluate`):
    a sum and whether it fits       sadd.with.overflow, ssub.with.overflow
    words of one product            one product of 2W bits, to which half a unit is added where it is rounded
    quotients of the same operands  one quotient of 2W bits: ⌊⌊z⌋ / 2^k⌋ = ⌊z / 2^k⌋
    whether a product fits          a comparison of its upper word alone
    a rounded quotient, a root      the integer next to that of doubles, if that is certain

In lanes, words have 64 bits. There are no products and quotients of 128 bits. Products are made of four products of 32 bits, and are
right only for operands below 2^63 − 2^31; quotients and long roots are right only below 2^50. `unsound` gives the lanes whose values must not be used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache, reduce
from operator import or_
from typing import Any, NamedTuple, TypeVar

from retrograd.isa.expr import ZERO, Expr, half, nodes
from retrograd.isa.folds import is_truth, product_tested_by, quotient_tested_by, sum_tested_by
from retrograd.isa.words import Format
from retrograd.simulator.engines.llvm.builder import FunctionBuilder, Value
from retrograd.simulator.engines.llvm.functions import (
    ROOT_SHIFT,
    WideQuotient,
    integer_quotient,
    integer_root,
    near_quotient,
    near_root,
    root_in_lanes,
    rounded_quotient,
    rounded_quotient_in_lanes,
    two_words,
    undivided,
    wide_quotient,
)
from retrograd.simulator.engines.llvm.types import POINTER, integer, pointer, structure

T = TypeVar("T")
#: the only width of words in lanes
LANE_WIDTH = 64


class _Sharing(NamedTuple):
    """Nodes of several trees that are computed together."""

    #: sums that need an overflow bit
    checked: set[Expr]
    #: operands -> the largest shift of their floored quotients; whether all are without a shift
    shifts: dict[tuple[Expr, Expr], int]
    flat: dict[tuple[Expr, Expr], bool]


@cache
def _sharing_of(roots: tuple[Expr, ...], w: Format) -> _Sharing:
    out = _Sharing(set(), {}, {})
    for node in nodes(*roots):
        sum_ = sum_tested_by(node)
        if sum_ is not None:
            out.checked.add(sum_)
        if node.op == "divshift":
            operands, shift = (node.args[0], node.args[1]), _parameter(node)
            if shift < w.width:
                out.shifts[operands] = max(shift, out.shifts.get(operands, 0))
            out.flat[operands] = out.flat.get(operands, True) and shift == 0
    return out


class Trees:
    """Trees as code, over words that have values: `words[name]` is the value of the place `name`.

    Values are kept, so that a second tree shares the nodes of the first. All roots must be given beforehand, because
    they determine which sums need an overflow bit, and which quotients belong together. `deferred`: roots that are checked
    later, so that no other value depends on them.
    """

    def __init__(
        self,
        code: FunctionBuilder,
        w: Format,
        words: Mapping[str, Value],
        roots: tuple[Expr, ...],
        deferred: tuple[Expr, ...] = (),
        lanes: int = 1,
    ) -> None:
        self._code, self._w, self._words, self._lanes = code, w, words, lanes
        self._word = integer(w.width).vector(lanes)
        self._values: dict[Expr, Value] = {}
        self._truths: dict[Expr, Value] = {}
        #: products and quotients of which several nodes take words
        self._wide: dict[tuple[object, ...], Any] = {}
        self._wrapped: dict[Expr, Value] = {}
        #: in lanes: words that are negative where a sum does not fit
        self._signs: dict[Expr, Value] = {}
        #: where a truth holds, or a word is negative, values must not be used
        self.unsound_truths: list[Value] = []
        self.unsound_words: list[Value] = []
        self._sharing = _sharing_of(roots, w)
        #: sums whose overflow is a deferred check
        self._deferred = _checked_sums(deferred)

    def value(self, root: Expr) -> Value:
        """The word of the tree."""
        found = self._values.get(root)
        if found is None:
            values = self._values
            for node in nodes(root):
                if node not in values and not is_truth(node):
                    values[node] = self._emit(node)
            found = values.get(root)
        if found is None:
            found = self._values[root] = self.truth(root).to(self._word)
        return found

    def truth(self, root: Expr) -> Value:
        """The tree as i1: whether its word is not zero."""
        found = self._truths.get(root)
        if found is None:
            for node in nodes(root):
                if node not in self._truths and is_truth(node):
                    self._truths[node] = self._emit_truth(node)
            found = self._truths.get(root)
            if found is None:
                found = self._truths[root] = self.value(root).ne(0)
        return found

    def unsound(self) -> list[Value]:
        """Truths: where one holds, values must not be used."""
        negative = [reduce(or_, self.unsound_words).lt(0)] if self.unsound_words else []
        return [*self.unsound_truths, *negative]

    def below(self, guard: Expr) -> tuple[Value, int] | None:
        """(word, k), where the guard holds if and only if the unsigned word is below 2^k: the words of several guards can be gathered by `or`.

        In lanes, for a sum or a product that must fit; else None.
        """
        if self._lanes == 1:
            return None
        sum_ = sum_tested_by(guard)
        if sum_ is not None:
            self.value(sum_)
            sign = self._signs.get(sum_)
            return None if sign is None else (sign, self._w.width - 1)
        product = product_tested_by(guard, self._w)
        return None if product is None else (self._above(product), _parameter(product))

    # ------------------------------------------------------------------ one node

    def _emit_truth(self, node: Expr) -> Value:
        sum_ = sum_tested_by(node)
        if sum_ is not None:
            self.value(sum_)
            return ~self._wrapped[sum_]
        x, y = node.args[0], node.args[1]
        match node.op:
            case "eq" if y is ZERO and is_truth(x):
                return ~self.truth(x)
            case "eq" if (product := product_tested_by(node, self._w)) is not None:
                return self._product_fits(product)
            case "eq" if self._lanes == 1 and (quotient := quotient_tested_by(node, self._w)) is not None:
                return self._both_words(quotient.args[0], quotient.args[1], _parameter(quotient)).fits
            case "eq":
                return self.value(x).eq(self.value(y))
            case "lt":
                return self.value(x).lt(self.value(y))
            case "ltu":
                return self.value(x).ltu(self.value(y))
            case "and" | "or":
                return self._code.binary(node.op, self.truth(x), self.truth(y))
            case "select":
                return self.truth(x).select(self.truth(y), self.truth(node.args[2]))
        raise ValueError(f"{node.op!r} is no truth")

    def _emit(self, node: Expr) -> Value:
        if node in self._sharing.checked:
            return self._sum_with_overflow(node)
        op, s = node.op, _parameter(node)
        match op:
            case "input":
                return self._words[str(node.param)]
            case "const":
                return self._code.constant(self._word, s)
            case "select":
                x, y = self.value(node.args[1]), self.value(node.args[2])
                return self.truth(node.args[0]).select(x, y)
            case "table" if isinstance(node.param, tuple):
                return self._look_up(self.value(node.args[0]), node.param)
        values = self._values
        v = [values[arg] if arg in values else self.value(arg) for arg in node.args]
        match op:
            case "add" | "sub":
                cancelled = _cancelled(op, v[0], v[1])
                if cancelled is not None:
                    return cancelled[0]
                return self._remember(self._code.binary(op, v[0], v[1]), op, v[0], v[1], False)
            case "and" | "or" | "xor":
                return self._code.binary(op, v[0], v[1])
            case "shl" | "shr" | "sar":
                return self._code.binary(_SHIFTS[op], v[0], v[1] & self._w.width - 1)
            case "mulshift" | "mulround" if s == 0:
                return v[0] * v[1]
            case "mulshift" | "mulround":
                return self._product(node.args[0], node.args[1], s, _added(node, self._w))
            case "divshift":
                return self._quotient(node.args[0], node.args[1], s)
            case "divround":
                return self._rounded_quotient(node.args[0], node.args[1], s)
            case "sqrtround":
                return self._root(v[0], s)
        raise ValueError(f"no LLVM for operation {op!r}")

    # ------------------------------------------------------------------ sums

    def _sum_with_overflow(self, node: Expr) -> Value:
        x, y = self.value(node.args[0]), self.value(node.args[1])
        cancelled = _cancelled(node.op, x, y)
        if cancelled is not None and cancelled[1] and node in self._deferred:
            # Where this sum does not fit, neither did the other, and that is checked already.
            self._wrapped[node] = self._code.constant(self._word.truth, 0)
            return cancelled[0]
        if self._lanes > 1:
            return self._sum_in_lanes(node, x, y, cancelled)
        result = structure(self._word, self._word.truth)
        both = self._code.intrinsic(f"s{node.op}.with.overflow", x, y, result=result)
        self._wrapped[node] = both.part(1)
        if cancelled is not None:
            return cancelled[0]
        return self._remember(both.part(0), node.op, x, y, node in self._deferred)

    def _sum_in_lanes(self, node: Expr, x: Value, y: Value, cancelled: tuple[Value, bool] | None) -> Value:
        """A sum overflows where its sign differs from those of its operands; a difference, where the operands' differ and its own from x's.

        Logic on words takes less than the comparisons that LLVM makes of `with.overflow`.
        """
        found = self._code.binary(node.op, x, y)
        other = y ^ found if node.op == "add" else x ^ y
        sign = self._signs[node] = (x ^ found) & other
        self._wrapped[node] = sign.lt(0)
        if cancelled is not None:
            return cancelled[0]
        return self._remember(found, node.op, x, y, node in self._deferred)

    def _remember(self, found: Value, op: str, x: Value, y: Value, deferred: bool) -> Value:
        self._code.facts[found] = op, x, y, deferred
        return found

    # ------------------------------------------------------------------ products

    def _once(self, key: tuple[object, ...], make: Callable[[], T]) -> T:
        if key not in self._wide:
            self._wide[key] = make()
        return self._wide[key]  # type: ignore[no-any-return]

    def _product(self, x: Expr, y: Expr, s: int, added: int) -> Value:
        """⌊(x·y + added) / 2^s⌋, s > 0, added ≤ 2^(W−1)."""
        if self._lanes > 1:
            low, high = self._once(("words", x, y, added), lambda: self._two_words(x, y, added))
            if s < LANE_WIDTH:
                return self._code.intrinsic("fshr", high, low, self._code.constant(self._word, s))
            return high.sar(min(s - LANE_WIDTH, LANE_WIDTH - 1))
        return self._wide_product(x, y, added).sar(min(s, 2 * self._w.width - 1)).to(self._word)

    def _two_words(self, x: Expr, y: Expr, added: int) -> tuple[Value, Value]:
        factors = self.value(x), self.value(y)
        self.unsound_words += map(undivided, dict.fromkeys(factors))
        return two_words(*factors, added)

    def _wide_product(self, x: Expr, y: Expr, added: int) -> Value:
        """x·y + added, added ≤ 2^(W−1), as a word of 2W bits."""
        if added:
            plain = self._wide_product(x, y, 0)
            return self._once(("product", x, y, added), lambda: self._code.binary("add nsw", plain, added))

        def make() -> Value:
            a, b = (self.value(v).to(self._word.twice, "sext") for v in (x, y))
            return self._code.binary("mul nsw", a, b)

        return self._once(("product", x, y, 0), make)

    def _product_fits(self, low: Expr) -> Value:
        """Whether ⌊p / 2^s⌋ is a word: whether the upper word of p is in [−2^(s−1), 2^(s−1))."""
        return self._above(low).ltu(1 << _parameter(low))

    def _above(self, low: Expr) -> Value:
        """A word that is below 2^s, unsigned, if and only if ⌊p / 2^s⌋ is a word."""
        s = _parameter(low)
        upper = self._product(low.args[0], low.args[1], self._w.width, _added(low, self._w))
        return upper + (1 << s - 1)

    # ------------------------------------------------------------------ quotients, roots, tables

    def _quotient(self, x: Expr, y: Expr, s: int) -> Value:
        if self._lanes == 1 and self._sharing.flat[x, y]:
            return self._code.call(integer_quotient(self._code.module, self._w), self.value(x), self.value(y))
        quotient, top = self._wide_quotient(x, y, s)
        return self._shifted(quotient, top - s)

    def _shifted(self, quotient: Value, by: int) -> Value:
        """A word of a quotient that may be longer."""
        return quotient.sar(min(by, quotient.type.bits - 1)).to(self._word)

    def _wide_quotient(self, x: Expr, y: Expr, s: int) -> tuple[Value, int]:
        """(⌊x·2^t / y⌋, t), t ≥ s; in lanes in one word, which it fits where it is sound."""
        # −2^(W−1)·2^W / −1 is one too many for 2W bits: shifted by W, a quotient gives its own low word and no other's.
        top = s if s == self._w.width else self._sharing.shifts[x, y]
        operands = self.value(x), self.value(y)

        def make() -> Value:
            if self._lanes == 1:
                return self._code.call(wide_quotient(self._code.module, self._w, top), *operands)
            quotient, sound = near_quotient(*operands, top)
            self.unsound_truths.append(~sound)
            return quotient

        return self._once(("quotient", x, y, top), make), top

    def _rounded_quotient(self, x: Expr, y: Expr, s: int) -> Value:
        """A word of ⌊x·2^p / y + ½⌋, p = s mod W: the one below 2^(p − s)."""
        places = s % self._w.width
        if self._lanes == 1:
            words = self._both_words(x, y, places)
            word = words.high if s < 0 else words.low
            return word.sar(self._w.width - 1 if s < -self._w.width else 0)

        def make() -> Value:
            quotient, sound = rounded_quotient_in_lanes(self.value(x), self.value(y), places)
            self.unsound_truths.append(~sound)
            return quotient

        return self._shifted(self._once(("rounded", x, y, places), make), places - s)

    def _both_words(self, x: Expr, y: Expr, places: int) -> WideQuotient:
        """Of ⌊x·2^places / y + ½⌋."""
        return self._once(
            ("rounded", x, y, places), lambda: rounded_quotient(self.value(x), self.value(y), self._w, places)
        )

    def _root(self, x: Value, s: int) -> Value:
        module = self._code.module
        # In line a root takes registers, of which a thread of a device has few.
        if self._lanes > 1:
            root, sound = root_in_lanes(x, s)
            if s > ROOT_SHIFT:
                self.unsound_truths.append(~sound)
            return root
        if s <= ROOT_SHIFT and self._w.width == LANE_WIDTH and not module.tables:
            return near_root(x, s)
        return self._code.call(integer_root(module, self._w, s), x)

    def _look_up(self, index: Value, values: tuple[int, ...]) -> Value:
        code, module, t = self._code, self._code.module, self._word.element
        space = pointer(module.tables) if module.tables else POINTER
        table = Value(code, space, module.table(values, t)).of(t)
        entry = table[(index & len(values) - 1).to(integer(64))]
        if self._lanes == 1:
            return entry.load()
        return entry.gather(code.constant(self._word.truth, 1), t.bits // 8)


_SHIFTS = {"shl": "shl", "shr": "lshr", "sar": "ashr"}


def _cancelled(op: str, x: Value, y: Value) -> tuple[Value, bool] | None:
    """(the value of a sum that cancels another, whether the check of the other is deferred): (x + y) − y = x, and its like.

    Programs that run backward are full of them: a value is computed, used, and computed again to be cleared. LLVM does not
    find them where sums are checked.
    """
    facts = x.code.facts
    before, a, b, deferred = facts.get(x, ("", None, None, False))
    if op == "sub" and before == "add" and y in (a, b):
        return (a if y is b else b), deferred
    if op == "add" and before == "sub" and y is b:
        return a, deferred
    before, a, b, deferred = facts.get(y, ("", None, None, False))
    if before == "sub" and x is (a if op == "sub" else b):
        return (b if op == "sub" else a), deferred
    return None


def _parameter(node: Expr) -> int:
    return node.param if isinstance(node.param, int) else 0


def _added(product: Expr, w: Format) -> int:
    """The half unit that is added to a product before it is shifted."""
    return half(_parameter(product), w) if product.op == "mulround" else 0


def _conjuncts(node: Expr) -> Iterator[Expr]:
    """The truths that all hold where the truth holds."""
    if node.op == "and" and is_truth(node):
        yield from _conjuncts(node.args[0])
        yield from _conjuncts(node.args[1])
    else:
        yield node


@cache
def _checked_sums(truths: tuple[Expr, ...]) -> set[Expr | None]:
    return {sum_tested_by(part) for truth in truths for part in _conjuncts(truth)}
