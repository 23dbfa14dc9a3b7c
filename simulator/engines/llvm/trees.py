"""Fold: the expression tree as LLVM IR, for the machines that compile: host code and PTX.

Words are `iW`; every node is one value of that type, as `isa.expr.OPERATIONS` defines it. What LLVM has no instruction for
(quotients of two-word numbers, integer roots) is a function of the module, written here once for all targets.

Overrides, each computing what the nodes say (held to it by tests against `evaluate`):
    a sum and whether it fits       sadd.with.overflow, ssub.with.overflow
    words of one product            one product of 2W bits, to which half a unit is added where it is rounded
    quotients of the same operands  one quotient of 2W bits: ⌊⌊z⌋ / 2^k⌋ = ⌊z / 2^k⌋
    whether a product fits          a comparison of its upper word alone
    a rounded quotient              ⌊z + ½⌋ = ⌊(⌊2z⌋ + 1) / 2⌋
    a root                          that of a double, put right by integers
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from retrograd.isa.expr import ZERO, Expr, const, half, nodes
from retrograd.isa.words import Format
from retrograd.simulator.engines.llvm.builder import Code
from retrograd.simulator.engines.llvm.functions import integer_quotient, integer_root, wide_quotient

Key = tuple[str, Expr, Expr]


class Trees:
    """Trees as code, over words that are at hand: `words[name]` is the value of the place `name`, or a constant.

    Values are kept, so that a second tree shares the nodes of the first; all roots must be given beforehand, since
    which sums need an overflow bit, and which quotients belong together, is seen from all of them. `noted`: those of the roots
    of which whoever runs the code takes note if they do not hold; nothing else then depends on them.
    """

    def __init__(self, code: Code, words: Mapping[str, str], roots: Sequence[Expr], noted: Sequence[Expr] = ()) -> None:
        self._code = code
        self._w = code.w
        self._t = code.word
        self._truth = code.truth
        self._words = words
        self._values: dict[Expr, str] = {}
        self._truths: dict[Expr, str] = {}
        self._pairs: dict[Key, str] = {}
        self._wrapped: dict[Expr, str] = {}
        #: truths of which one that holds says that values are not to be relied on
        self.doubts: list[str] = []
        self._checked: set[Expr] = set()
        #: sums of which it is noted where they do not fit
        self._noted = {sum_ for tree in noted for part in _conjuncts(tree) if (sum_ := _checked_sum(part)) is not None}
        self._shift: dict[tuple[Expr, Expr], int] = {}
        self._all_flat: dict[tuple[Expr, Expr], bool] = {}
        for node in nodes(*roots):
            sum_ = _checked_sum(node)
            if sum_ is not None:
                self._checked.add(sum_)
            if node.op == "divround":
                # From the floor of the quotient's double.
                operands = node.args[0], node.args[1]
                places = _parameter(node) % self._w.width
                if places + 1 < self._w.width:
                    self._shift[operands] = max(places + 1, self._shift.get(operands, 0))
                self._all_flat[operands] = False
            if node.op == "divshift":
                operands, shift = (node.args[0], node.args[1]), _parameter(node)
                if shift < self._w.width:
                    self._shift[operands] = max(shift, self._shift.get(operands, 0))
                self._all_flat[operands] = self._all_flat.get(operands, True) and shift == 0

    def value(self, root: Expr) -> str:
        """The word of the tree."""
        found = self._values.get(root)
        if found is None:
            for node in nodes(root):
                if node not in self._values and not _is_truth(node):
                    self._values[node] = self._emit(node)
            found = self._values.get(root)
        if found is None:
            found = self._values[root] = self._code.let(f"zext {self._truth} {self.truth(root)} to {self._t}")
        return found

    def truth(self, root: Expr) -> str:
        """The tree as i1: whether its word is not zero."""
        found = self._truths.get(root)
        if found is None:
            for node in nodes(root):
                if node not in self._truths and _is_truth(node):
                    self._truths[node] = self._emit_truth(node)
            found = self._truths.get(root)
            if found is None:
                zero = self.value(root)
                found = self._truths[root] = self._code.let(f"icmp ne {self._t} {zero}, {self._code.number(0)}")
        return found

    # ------------------------------------------------------------------ one node

    def _emit_truth(self, node: Expr) -> str:
        let, t, truth, true = self._code.let, self._t, self._truth, self._code.true
        sum_ = _checked_sum(node)
        if sum_ is not None:
            self.value(sum_)
            return let(f"xor {truth} {self._wrapped[sum_]}, {true}")
        x, y = node.args[0], node.args[1]
        match node.op:
            case "eq" if y is ZERO and _is_truth(x):
                return let(f"xor {truth} {self.truth(x)}, {true}")
            case "eq" if _fits_word(x, y, self._w):
                return self._product_fits(y.args[0])
            case "eq":
                return let(f"icmp eq {t} {self.value(x)}, {self.value(y)}")
            case "lt":
                return let(f"icmp slt {t} {self.value(x)}, {self.value(y)}")
            case "ltu":
                return let(f"icmp ult {t} {self.value(x)}, {self.value(y)}")
            case "and" | "or":
                return let(f"{node.op} {truth} {self.truth(x)}, {self.truth(y)}")
            case "select":
                return let(
                    f"select {truth} {self.truth(x)}, {truth} {self.truth(y)}, {truth} {self.truth(node.args[2])}"
                )
        raise ValueError(f"{node.op!r} is no truth")

    def _emit(self, node: Expr) -> str:
        let, t, w = self._code.let, self._t, self._w
        if node in self._checked:
            return self._sum_with_overflow(node)
        s = _parameter(node)
        match node.op:
            case "const":
                return self._code.number(s)
            case "input":
                return self._words[str(node.param)]
            case "select":
                x, y = self.value(node.args[1]), self.value(node.args[2])
                return let(f"select {self._truth} {self.truth(node.args[0])}, {t} {x}, {t} {y}")
            case "table" if isinstance(node.param, tuple):
                return self._look_up(self.value(node.args[0]), node.param)
        v = [self.value(arg) for arg in node.args]
        match node.op:
            case "add" | "sub":
                undone = self._code.undone(node.op, v[0], v[1])
                if undone is not None:
                    return undone[0]
                found = let(f"{node.op} {t} {v[0]}, {v[1]}")
                self._code.sum_is(found, node.op, v[0], v[1], noted=False)
                return found
            case "and" | "or" | "xor":
                return let(f"{node.op} {t} {v[0]}, {v[1]}")
            case "shl" | "shr" | "sar":
                amount = let(f"and {t} {v[1]}, {self._code.number(w.width - 1)}")
                return let(f"{_SHIFTS[node.op]} {t} {v[0]}, {amount}")
            case "mulshift" | "mulround" if s == 0:
                return let(f"mul {t} {v[0]}, {v[1]}")
            case "mulshift" | "mulround":
                return self._product(node.args[0], node.args[1], s, _added(node, w))
            case "divshift":
                return self._quotient(node.args[0], node.args[1], s)
            case "divround":
                return self._rounded_quotient(node.args[0], node.args[1], s)
            case "sqrtround":
                return self._root(v[0], s)
        raise ValueError(f"no LLVM for operation {node.op!r}")

    def _sum_with_overflow(self, node: Expr) -> str:
        let, t = self._code.let, self._t
        x, y = self.value(node.args[0]), self.value(node.args[1])
        undone = self._code.undone(node.op, x, y)
        if undone is not None and undone[1] and node in self._noted:
            # Where this does not fit, neither did the other: once noted is enough.
            self._wrapped[node] = self._code.false
            return undone[0]
        name = f"@llvm.s{node.op}.with.overflow.{self._code.suffix(f'i{self._w.width}')}"
        pair = f"{{ {t}, {self._truth} }}"
        self._code.module.define(name, f"declare {pair} {name}({t}, {t})")
        both = let(f"call {pair} {name}({t} {x}, {t} {y})")
        self._wrapped[node] = let(f"extractvalue {pair} {both}, 1")
        if undone is not None:
            return undone[0]
        found = let(f"extractvalue {pair} {both}, 0")
        self._code.sum_is(found, node.op, x, y, node in self._noted)
        return found

    def _product(self, x: Expr, y: Expr, s: int, added: int) -> str:
        """⌊(x·y + added) / 2^s⌋, s > 0, added < 2^(W−1)."""
        let, t, wide = self._code.let, self._t, f"i{2 * self._w.width}"
        high = let(f"ashr {wide} {self._wide_product(x, y, added)}, {min(s, 2 * self._w.width - 1)}")
        return let(f"trunc {wide} {high} to {t}")

    def _wide_product(self, x: Expr, y: Expr, added: int) -> str:
        """x·y + added, added < 2^(W−1), as a word of 2W bits."""
        let, t, wide = self._code.let, self._t, f"i{2 * self._w.width}"
        found = self._pairs.get(("product", x, y))
        if found is None:
            a = let(f"sext {t} {self.value(x)} to {wide}")
            b = let(f"sext {t} {self.value(y)} to {wide}")
            found = self._pairs["product", x, y] = let(f"mul nsw {wide} {a}, {b}")
        if added:
            key = f"product + {added}"
            plain, found = found, self._pairs.get((key, x, y))
            if found is None:
                found = self._pairs[key, x, y] = let(f"add nsw {wide} {plain}, {added}")
        return found

    def _product_fits(self, low: Expr) -> str:
        """Whether ⌊p / 2^s⌋ is a word: whether the upper word of p is in [−2^(s−1), 2^(s−1))."""
        let, t, number, s = self._code.let, self._t, self._code.number, _parameter(low)
        upper = let(f"add {t} {self._upper_word(low)}, {number(1 << s - 1)}")
        return let(f"icmp ult {t} {upper}, {number(1 << s)}")

    def _upper_word(self, product: Expr) -> str:
        return self._product(product.args[0], product.args[1], self._w.width, _added(product, self._w))

    def _root(self, x: str, s: int) -> str:
        t = self._t
        return self._code.let(f"call {t} {integer_root(self._code.module, self._w, s)}({t} {x})")

    def _quotient(self, x: Expr, y: Expr, s: int) -> str:
        let, t, w, module = self._code.let, self._t, self._w, self._code.module
        if self._all_flat[x, y]:
            return let(f"call {t} {integer_quotient(module, w)}({t} {self.value(x)}, {t} {self.value(y)})")
        wide = f"i{2 * w.width}"
        quotient, top = self._wide_quotient(x, y, s)
        if top != s:
            quotient = let(f"ashr {wide} {quotient}, {min(top - s, 2 * w.width - 1)}")
        return let(f"trunc {wide} {quotient} to {t}")

    def _wide_quotient(self, x: Expr, y: Expr, s: int) -> tuple[str, int]:
        """(⌊x·2^t / y⌋, t), t ≥ s."""
        t, w, module = self._t, self._w, self._code.module
        # −2^(W−1)·2^W / −1 is one too many for 2W bits: shifted by W, a quotient gives its own low word and no other's.
        top = s if s == w.width else self._shift[x, y]
        key = "whole" if s == w.width else "quotient"
        quotient = self._pairs.get((key, x, y))
        if quotient is None:
            name = wide_quotient(module, w, top)
            quotient = self._code.let(f"call i{2 * w.width} {name}({t} {self.value(x)}, {t} {self.value(y)})")
            self._pairs[key, x, y] = quotient
        return quotient, top

    def _rounded_quotient(self, x: Expr, y: Expr, s: int) -> str:
        """A word of ⌊x·2^p / y + ½⌋, p = s mod W: that below 2^(p − s)."""
        let, t, w = self._code.let, self._t, self._w
        wide, places = f"i{2 * w.width}", s % w.width
        key = f"rounded in {places}"
        rounded = self._pairs.get((key, x, y))
        if rounded is None:
            twice, top = self._wide_quotient(x, y, places + 1)
            if top != places + 1:
                twice = let(f"ashr {wide} {twice}, {top - places - 1}")
            up = let(f"add {wide} {twice}, 1")
            rounded = let(f"ashr {wide} {up}, 1")
            if places + 1 == w.width:
                # The one quotient of which twice as much is too many for 2W bits: −2^(W−1)·2^p / −1.
                least, minus = self._code.number(w.sign), self._code.number(w.mask)
                most = let(f"icmp eq {t} {self.value(x)}, {least}")
                one = let(f"icmp eq {t} {self.value(y)}, {minus}")
                both = let(f"and i1 {most}, {one}")
                rounded = let(f"select i1 {both}, {wide} {1 << 2 * w.width - 2}, {wide} {rounded}")
            # 0 stays 0: a divisor of 0 gives ⌊2z⌋ = 0.
            self._pairs[key, x, y] = rounded
        if s != places:
            rounded = let(f"ashr {wide} {rounded}, {min(places - s, 2 * w.width - 1)}")
        return let(f"trunc {wide} {rounded} to {t}")

    def _look_up(self, index: str, values: tuple[int, ...]) -> str:
        let, t, module = self._code.let, self._t, self._code.module
        name = module.table(values, self._w)
        pointer = f"ptr addrspace({module.tables})" if module.tables else "ptr"
        entry = let(f"and {t} {index}, {len(values) - 1}")
        if self._w.width < 64:
            entry = let(f"zext {t} {entry} to i64")
        address = let(f"getelementptr inbounds [{len(values)} x {t}], {pointer} {name}, i64 0, i64 {entry}")
        return let(f"load {t}, {pointer} {address}")


_SHIFTS = {"shl": "shl", "shr": "lshr", "sar": "ashr"}


def _parameter(node: Expr) -> int:
    return node.param if isinstance(node.param, int) else 0


def _added(product: Expr, w: Format) -> int:
    """What rounds a product before it is shifted."""
    return half(_parameter(product), w) if product.op == "mulround" else 0


def _fits_word(high: Expr, sign: Expr, w: Format) -> bool:
    """Whether high = sign says that a product fits: its word above the low word, and the sign of that."""
    if high.op not in ("mulshift", "mulround") or sign.op != "sar" or sign.args[1] is not const(w.width - 1):
        return False
    low, s = sign.args[0], _parameter(sign.args[0])
    return (low.op, low.args) == (high.op, high.args) and 0 < s < w.width and _parameter(high) == s + w.width


def _is_truth(node: Expr) -> bool:
    """Whether the node's word is 0 or 1, told from its operation."""
    match node.op:
        case "eq" | "lt" | "ltu":
            return True
        case "and" | "or":
            return _is_truth(node.args[0]) and _is_truth(node.args[1])
        case "select":
            return _is_truth(node.args[1]) and _is_truth(node.args[2])
    return False


def _conjuncts(node: Expr) -> Iterator[Expr]:
    """The truths that all hold where the truth holds."""
    if node.op == "and" and _is_truth(node):
        yield from _conjuncts(node.args[0])
        yield from _conjuncts(node.args[1])
    else:
        yield node


def _checked_sum(node: Expr) -> Expr | None:
    """The sum x ± v of which the node, [((x ⊕ t) ∧ (v ⊕ t)) ≥ 0] or its like, says that it fits."""
    if node.op != "eq" or node.args[1] is not ZERO or node.args[0].op != "lt" or node.args[0].args[1] is not ZERO:
        return None
    both = node.args[0].args[0]
    if both.op != "and" or both.args[0].op != "xor" or both.args[1].op != "xor":
        return None
    (x, one), (z, t) = both.args[0].args, both.args[1].args
    if t.op == "add" and one is t and t.args == (x, z):
        return t
    if t.op == "sub" and z is x and t.args == (x, one):
        return t
    return None
