"""Gates under construction: a pool of ancillas, blocks that are uncomputed, and the adders, products and quotients that they are made of.

adders       b += a in place, as published, and the adder that the lowering uses
Builder      a bit is a line, or FALSE or TRUE: a constant costs no line
arithmetic   shifts, selections, tables, products, quotients and roots, out of place
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from retrograd.hdl.reversible.circuit import Circuit, Gate

# -----------------------------------------------------------------------------
# Adders in place, b += a.


def _x(target: int) -> Gate:
    return Gate((), (target,))


def _cnot(control: int, target: int) -> Gate:
    return Gate((control,), (target,))


def _toffoli(first: int, second: int, target: int) -> Gate:
    return Gate((first, second), (target,))


def carries(a: Sequence[int], b: Sequence[int]) -> list[Gate]:
    """The first half of `takahashi`: a[i] := a[i] ⊕ (carry into place i), b[i] := a[i] ⊕ b[i], for i ≥ 1."""
    n = len(a)
    return [
        *(_cnot(a[i], b[i]) for i in range(1, n)),
        *(_cnot(a[i], a[i + 1]) for i in range(n - 2, 0, -1)),
        *(_toffoli(a[i], b[i], a[i + 1]) for i in range(n - 1)),
    ]


def takahashi(a: Sequence[int], b: Sequence[int], carry: int | None = None) -> list[Gate]:
    """b := a + b mod 2^n, and carry := carry ⊕ (its carry out), without ancillas; 2n − 1 Toffoli and 5n − 5 CNOT gates.

    The inverse subtracts. (Y. Takahashi, S. Tani, N. Kunihiro, Quantum addition circuits and unbounded fan-out, 2010.)
    Trap: the lines of a and b must be different lines.
    """
    n = len(a)
    top: list[Gate] = []
    if carry is not None:
        top = [_toffoli(a[n - 1], b[n - 1], carry)]
    out = [*([_cnot(a[n - 1], carry)] if carry is not None and n > 1 else []), *carries(a, b), *top]
    for i in range(n - 1, 0, -1):
        out += [_cnot(a[i], b[i]), _toffoli(a[i - 1], b[i - 1], a[i])]
    out += [_cnot(a[i], a[i + 1]) for i in range(1, n - 1)]
    return [*out, *(_cnot(x, y) for x, y in zip(a, b, strict=True))]


def takahashi_adder(n: int) -> Circuit:
    """The circuit of `takahashi` with its carry out, for n ≥ 2."""
    a, b, carry = _lines(0, n), _lines(n, n), 2 * n
    return Circuit(2 * n + 1, tuple(takahashi(a, b, carry)), {"a": a, "b": b}, {"a": a, "b": (*b, carry)})


def maj_uma_adder(n: int) -> Circuit:
    """Majority gates upward, unmajority gates downward: 2n Toffoli and 4n + 1 CNOT gates, one ancilla.

    (S. Cuccaro, T. Draper, S. Kutin, D. Moulton, A new quantum ripple-carry addition circuit, 2004, figures 1 to 4.)
    """
    a, b, first, carry = _lines(0, n), _lines(n, n), 2 * n, 2 * n + 1
    chain = [first, *a]
    up = [
        gate
        for i in range(n)
        for gate in (_cnot(a[i], b[i]), _cnot(a[i], chain[i]), _toffoli(chain[i], b[i], a[i]))
    ]  # fmt: skip
    down = [
        gate
        for i in reversed(range(n))
        for gate in (_toffoli(chain[i], b[i], a[i]), _cnot(a[i], chain[i]), _cnot(chain[i], b[i]))
    ]  # fmt: skip
    gates = (*up, _cnot(a[n - 1], carry), *down)
    return Circuit(2 * n + 2, gates, {"a": a, "b": b}, {"a": a, "b": (*b, carry)})


def cuccaro_adder(n: int) -> Circuit:
    """The same in less depth, 2n + 4: 2n − 1 Toffoli, 5n − 3 CNOT and 2n − 4 X gates, for n ≥ 4 (figure 6 of the same paper)."""
    if n < 4:
        raise ValueError("the adder of small depth has 4 bits or more")
    a, b, x, z = _lines(0, n), _lines(n, n), 2 * n, 2 * n + 1
    gates = [_cnot(a[i], b[i]) for i in range(1, n)]
    gates += [_cnot(a[1], x), _toffoli(a[0], b[0], x), _cnot(a[2], a[1]), _toffoli(x, b[1], a[1]), _cnot(a[3], a[2])]
    for i in range(2, n - 2):
        gates += [_toffoli(a[i - 1], b[i], a[i]), _cnot(a[i + 2], a[i + 1])]
    gates += [_toffoli(a[n - 3], b[n - 2], a[n - 2]), _cnot(a[n - 1], z), _toffoli(a[n - 2], b[n - 1], z)]
    gates += [_x(b[i]) for i in range(1, n - 1)]
    gates += [_cnot(x, b[1]), *(_cnot(a[i - 1], b[i]) for i in range(2, n))]
    gates += [_toffoli(a[n - 3], b[n - 2], a[n - 2])]
    for i in range(n - 3, 1, -1):
        gates += [_toffoli(a[i - 1], b[i], a[i]), _cnot(a[i + 2], a[i + 1]), _x(b[i + 1])]
    gates += [
        _toffoli(x, b[1], a[1]),
        _cnot(a[3], a[2]),
        _x(b[2]),
        _toffoli(a[0], b[0], x),
        _cnot(a[2], a[1]),
        _x(b[1]),
    ]
    gates += [_cnot(a[1], x), *(_cnot(a[i], b[i]) for i in range(n))]
    return Circuit(2 * n + 2, tuple(gates), {"a": a, "b": b}, {"a": a, "b": (*b, z)})


def vbe_adder(n: int) -> Circuit:
    """Carries on lines of their own: 4n − 2 Toffoli and 4n CNOT gates on 3n + 1 lines.

    (V. Vedral, A. Barenco, A. Ekert, Quantum networks for elementary arithmetic operations, 1996, figure 2.)
    """
    a, b, c = _lines(0, n), _lines(n, n), _lines(2 * n, n + 1)

    def carry(i: int) -> list[Gate]:
        return [_toffoli(a[i], b[i], c[i + 1]), _cnot(a[i], b[i]), _toffoli(c[i], b[i], c[i + 1])]

    def sum_of(i: int) -> list[Gate]:
        return [_cnot(a[i], b[i]), _cnot(c[i], b[i])]

    gates = [gate for i in range(n) for gate in carry(i)]
    gates += [_cnot(a[n - 1], b[n - 1]), *sum_of(n - 1)]
    for i in reversed(range(n - 1)):
        gates += [*reversed(carry(i)), *sum_of(i)]
    return Circuit(3 * n + 1, tuple(gates), {"a": a, "b": b}, {"a": a, "b": (*b, c[n])})


def gidney_adder(n: int) -> Circuit:
    """b := a + b mod 2^n with n − 1 carries on ancillas: an AND gate for each carry, and its undoing, so 4n − 4 T gates by measurement.

    (C. Gidney, Halving the cost of quantum addition, 2018, figures 1 and 2.)
    """
    a, b, c = _lines(0, n), _lines(n, n), (-1, *_lines(2 * n, n - 1))
    gates: list[Gate] = []
    back: list[list[Gate]] = []
    for i in range(n - 1):
        carry = [_cnot(c[i], a[i]), _cnot(c[i], b[i])] if i else []
        gates += [*carry, _toffoli(a[i], b[i], c[i + 1]), *([_cnot(c[i], c[i + 1])] if i else [])]
        undone = [_cnot(c[i], c[i + 1])] if i else []
        # a has its word back; b keeps a ⊕ b ⊕ carry.
        back.append([*undone, _toffoli(a[i], b[i], c[i + 1]), *([_cnot(c[i], a[i])] if i else []), _cnot(a[i], b[i])])
    if n > 1:
        gates.append(_cnot(c[n - 1], b[n - 1]))
    gates.append(_cnot(a[n - 1], b[n - 1]))
    for part in reversed(back):
        gates += part
    return Circuit(3 * n - 1, tuple(gates), {"a": a, "b": b}, {"a": a, "b": b})


def _lines(first: int, count: int) -> tuple[int, ...]:
    return tuple(range(first, first + count))


# -----------------------------------------------------------------------------
# The builder.
#
# A line that is returned to the pool must be 0. `within` returns exactly the lines that it took, after it has undone
# the gates that changed them.
# A line that outlives the body of a block is taken by `keep`.

T = TypeVar("T")

Bit = int
FALSE: Bit = -1
TRUE: Bit = -2
Bits = Sequence[Bit]


def constant_bits(value: int, width: int) -> list[Bit]:
    """The bits of a constant, lowest first."""
    return [TRUE if value >> i & 1 else FALSE for i in range(width)]


@dataclass
class _Block:
    """A block that is open: the lines that its computation, or then its body, has taken from the pool."""

    taken: set[int] = field(default_factory=set)
    #: of a body: the lines that the computation before it has touched, and its inverse will touch again
    touched: frozenset[int] | None = None


class Builder:
    """A list of gates that grows, and its lines."""

    def __init__(self) -> None:
        self.gates: list[Gate] = []
        self.lines = 0
        self._free: list[int] = []
        self._open = [_Block()]
        #: the most lines that were used at a time since this was last set
        self.most = 0

    # ------------------------------------------------------------------ lines

    def inputs(self, count: int) -> list[int]:
        """New lines that the surroundings set."""
        first = self.lines
        self.lines += count
        return list(range(first, self.lines))

    @property
    def used(self) -> int:
        """Lines outside of the pool."""
        return self.lines - len(self._free)

    def fresh(self, count: int = 1) -> list[int]:
        """Lines that are 0, from the pool."""
        out = [self._free.pop() for _ in range(min(count, len(self._free)))]
        out += self.inputs(count - len(out))
        self._open[-1].taken.update(out)
        self.most = max(self.most, self.used)
        return out

    def keep(self, count: int = 1) -> list[int]:
        """Lines that are 0, and may be held beyond the bodies that are open, to the end of the computation around them."""
        avoided: set[int] = set()
        block = self._open[0]
        for inner in reversed(self._open):
            if inner.touched is None:
                block = inner
                break
            avoided |= inner.touched
        out = [line for line in reversed(self._free) if line not in avoided][:count]
        chosen = set(out)
        self._free = [line for line in self._free if line not in chosen]
        out += self.inputs(count - len(out))
        block.taken.update(out)
        self.most = max(self.most, self.used)
        return out

    def give_back(self, lines: Sequence[int]) -> None:
        """Return lines to the pool. Trap: they must be 0; `verification.py` checks it.

        A line that was taken outside of an open computation stays out of the pool, since the inverse of the computation changes it.
        """
        for line in reversed(lines):
            for block in reversed(self._open):
                if line in block.taken:
                    block.taken.remove(line)
                    self._free.append(line)
                    break
                if block.touched is None:
                    break

    @property
    def taken(self) -> frozenset[int]:
        """The lines that the innermost open block holds."""
        return frozenset(self._open[-1].taken)

    # ----------------------------------------------------------------- blocks

    def within(self, compute: Callable[[], T], body: Callable[[T], None]) -> None:
        """compute; body; compute⁻¹. The lines that `compute` takes are 0 again, and go back to the pool.

        Traps: `body` must not change lines that `compute` reads or writes. It must not hold a line that it takes by `fresh`:
        `compute` may have used that line, and its inverse will. Raises ValueError where it holds one; take it by `keep`.
        """
        start = len(self.gates)
        self._open.append(_Block())
        value = compute()
        taken, end = self._open.pop().taken, len(self.gates)
        part = self.gates[start:end]
        self._open.append(_Block(touched=frozenset(line for gate in part for line in gate.controls + gate.targets)))
        body(value)
        if self._open.pop().taken:
            raise ValueError("a line that is taken within a block would be used by the inverse of its computation")
        self.gates += part[::-1]
        self._free += sorted(taken, reverse=True)

    def inverted(self, action: Callable[[], None]) -> None:
        """The gates of `action` in reverse order, which undo it. `action` must not keep lines."""
        start = len(self.gates)
        action()
        self.gates[start:] = self.gates[start:][::-1]

    # ------------------------------------------------------------------ gates

    def flip(self, target: int, *conditions: Bit) -> None:
        """target ⊕= AND of the conditions, which may be constants and may repeat."""
        if FALSE not in conditions:
            self.gates.append(Gate(tuple(dict.fromkeys(c for c in conditions if c != TRUE)), (target,)))

    def exchange(self, left: int, right: int, *conditions: Bit) -> None:
        """Exchange two lines where all conditions are 1."""
        if FALSE not in conditions:
            self.gates.append(Gate(tuple(dict.fromkeys(c for c in conditions if c != TRUE)), (left, right)))

    def flip_each(self, targets: Sequence[int], bits: Bits, *conditions: Bit) -> None:
        """targets[i] ⊕= bits[i] AND conditions."""
        for target, bit in zip(targets, bits, strict=True):
            self.flip(target, bit, *conditions)

    def copy(self, bits: Bits) -> list[int]:
        """The bits on fresh lines."""
        out = self.fresh(len(bits))
        self.flip_each(out, bits)
        return out

    def distinct(self, bits: Bits, apart: Sequence[int] = ()) -> list[int]:
        """The bits as lines that differ from each other and from `apart`; constants and repetitions are copied."""
        seen, out = set(apart), []
        for bit in bits:
            line = self.copy([bit])[0] if bit < 0 or bit in seen else bit
            seen.add(line)
            out.append(line)
        return out

    # ---------------------------------------------------------------- in place

    def add(self, target: Sequence[int], value: Bits) -> None:
        """target += value mod 2^n; a shorter value is extended by zeros. The inverse is `subtract`."""
        bits = [*value[: len(target)], *[FALSE] * (len(target) - len(value))]
        low = 0
        while low < len(bits) and bits[low] == FALSE:
            low += 1
        if low == len(bits):
            return
        rest = target[low:]
        self.within(lambda: self.distinct(bits[low:], rest), lambda a: self.gates.extend(takahashi(a, rest)))

    def subtract(self, target: Sequence[int], value: Bits) -> None:
        """target −= value mod 2^n. The inverse is `add`."""
        self.inverted(lambda: self.add(target, value))

    def add_where(self, target: Sequence[int], value: Bits, condition: Bit) -> None:
        """target += value where the condition is 1."""
        if condition == TRUE:
            self.add(target, value)
        elif len(target) == 1 and value:
            self.flip(target[0], value[0], condition)
        elif condition != FALSE:
            self.within(lambda: self.masked(value[: len(target)], condition), lambda v: self.add(target, v))

    def masked(self, value: Bits, condition: Bit) -> list[Bit]:
        """value where the condition is 1, else 0. The result is on fresh lines, unless the condition is constant."""
        out = []
        for bit in value:
            if FALSE in (bit, condition):
                out.append(FALSE)
            elif bit in (TRUE, condition):
                out.append(condition)
            else:
                (line,) = self.fresh()
                self.flip(line, bit, condition)
                out.append(line)
        return out

    # ------------------------------------------------------------- predicates

    def less(self, x: Bits, y: Bits) -> int:
        """A fresh line that is 1 where x < y, unsigned: the carry out of y + ¬x, computed without the sum."""
        (out,) = self.fresh()

        def operands() -> tuple[list[int], list[int]]:
            a = self.distinct(y)
            b = self.distinct(x, a)
            for line in b:
                self.flip(line)
            return a, b

        def compare(lines: tuple[list[int], list[int]]) -> None:
            a, b = lines
            if len(a) > 1:
                self.flip(out, a[-1])
            self.within(lambda: self.gates.extend(carries(a, b)), lambda _: self.flip(out, a[-1], b[-1]))

        self.within(operands, compare)
        return out

    def nonzero(self, bits: Bits) -> Bit:
        """1 where some bit is 1; on a fresh line unless it is one of the bits or constant."""
        some = list(dict.fromkeys(bit for bit in bits if bit != FALSE))
        if TRUE in some:
            return TRUE
        if len(some) < 2:
            return some[0] if some else FALSE
        (out,) = self.fresh()

        def negate() -> None:
            for line in some:
                self.flip(line)

        self.within(negate, lambda _: self.flip(out, *some))
        self.flip(out)
        return out

    def opposite(self, bit: Bit) -> Bit:
        """¬bit, on a fresh line unless it is constant."""
        if bit < 0:
            return FALSE if bit == TRUE else TRUE
        (out,) = self.copy([bit])
        self.flip(out)
        return out


# -----------------------------------------------------------------------------
# Words out of place: a function for each operation that is not bitwise.
#
# Each leaves its result on lines that the caller may read but not change, and may leave intermediate values on lines
# that it has
# taken; the caller undoes the whole by `Builder.within`. Operands are read only.


def shift_left(b: Builder, x: Bits, amount: Bits) -> list[Bit]:
    """x · 2^amount mod 2^W, for the log₂ W bits of the amount: constant places by relabelling, others by Fredkin gates."""
    return shift_right(b, x[::-1], amount)[::-1]


def shift_right(b: Builder, x: Bits, amount: Bits, fill: Bit = FALSE) -> list[Bit]:
    """x moved down by `amount` places; `fill` enters at the top."""
    width, word = len(x), list(x)
    places = [1 << k for k in range(width.bit_length() - 1)]
    fixed = sum(place for place, bit in zip(places, amount, strict=False) if bit == TRUE)
    word = [*word[fixed:], *[fill] * fixed]
    moving = [(place, bit) for place, bit in zip(places, amount, strict=False) if bit >= 0]
    if not moving:
        return word
    # With x ⊕ fill in place of x, zeros enter. The extra lines below take the bits that leave.
    extra = sum(place for place, _ in moving)
    lines = [*b.fresh(extra), *b.copy(word)]
    for line in lines[extra:]:
        b.flip(line, fill)
    for place, bit in moving:
        for i in range(len(lines) - place):
            b.exchange(lines[i], lines[i + place], bit)
    out = lines[extra:]
    for line in out:
        b.flip(line, fill)
    return list(out)


def choose(b: Builder, condition: Bit, then: Bits, otherwise: Bits) -> list[Bit]:
    """`then` where the condition is 1: one Toffoli gate for each bit in which they differ."""
    if condition < 0:
        return list(then if condition == TRUE else otherwise)
    out: list[Bit] = []
    for x, y in zip(then, otherwise, strict=True):
        if x == y:
            out.append(x)
            continue
        (line,) = b.copy([y])
        if x < 0 or y < 0 or condition in (x, y):
            b.flip(line, x, condition)
            b.flip(line, y, condition)
        else:
            b.flip(x, y)
            b.flip(line, x, condition)
            b.flip(x, y)
        out.append(line)
    return out


def look_up(b: Builder, index: Bits, entries: Sequence[int], width: int) -> list[Bit]:
    """entries[index]: a line for each possible entry, exactly one of which is 1; then an exclusive or of these lines."""
    chosen: list[tuple[Bit, Sequence[int]]] = [(TRUE, entries)]
    for place in reversed(range((len(entries) - 1).bit_length())):
        bit = index[place] if place < len(index) else FALSE
        split: list[tuple[Bit, Sequence[int]]] = []
        for line, part in chosen:
            half = len(part) // 2
            if bit < 0:
                split.append((line, part[half:] if bit == TRUE else part[:half]))
                continue
            (upper,) = b.masked([bit], line) if line >= 0 else (bit,)
            (lower,) = b.copy([line])
            b.flip(lower, upper)
            split += [(lower, part[:half]), (upper, part[half:])]
        chosen = split
    if len(chosen) == 1:
        return constant_bits(chosen[0][1][0], width)
    out = b.fresh(width)
    for line, (entry,) in chosen:
        for place in range(width):
            if entry >> place & 1:
                b.flip(out[place], line)
    return list(out)


@dataclass(frozen=True)
class ProductStep:
    """total[first : first + length] += value, or −= it, where the condition is 1."""

    first: int
    length: int
    value: Bits
    condition: Bit
    subtract: bool = False


def product_steps(x: Bits, y: Bits, size: int) -> list[ProductStep]:
    """The steps that add x · y mod 2^size, signed, to a total of `size` bits: an unsigned product, then its corrections.

    A negative factor takes 2^W times the other factor away.
    """
    width = len(x)
    # Partial sums stay below 2^(W + i + 1), so the carry ends there.
    steps = [ProductStep(i, min(width + 1, size - i), x, bit) for i, bit in enumerate(y[:size])]
    if size > width:
        high = size - width
        steps += [ProductStep(width, high, other[:high], sign, True) for sign, other in ((x[-1], y), (y[-1], x))]
    return steps


def add_step(b: Builder, total: Sequence[int], step: ProductStep, onto_zero: bool) -> None:
    """Execute a step. `onto_zero`: the total is 0."""
    part = total[step.first : step.first + step.length]
    if onto_zero:
        b.flip_each(part[: len(step.value)], step.value[: len(part)], step.condition)
    elif step.subtract:
        b.inverted(lambda: b.add_where(part, step.value, step.condition))
    else:
        b.add_where(part, step.value, step.condition)


def product(b: Builder, x: Bits, y: Bits, shift: int, half: int) -> list[Bit]:
    """⌊(x·y + half) / 2^shift⌋ mod 2^W, signed: shifted words added into an accumulator of 2W bits at most.

    Trap: half is below 2^W, or a carry would leave a partial sum.
    """
    width = len(x)
    if sum(bit != FALSE for bit in x) < sum(bit != FALSE for bit in y):
        x, y = y, x
    size = min(shift + width, 2 * width)
    total = b.fresh(size)
    b.flip_each(total, constant_bits(half, size))
    for k, step in enumerate(product_steps(x, y, size)):
        add_step(b, total, step, k == 0 and half == 0)
    window: list[Bit] = list(total[shift:])
    return [*window, *[total[-1]] * (width - len(window))]


def _magnitude(b: Builder, x: Bits) -> list[Bit]:
    """|x|, unsigned."""
    if x[-1] == FALSE:
        return list(x)
    out = b.copy(x)
    for line in out:
        b.flip(line, x[-1])
    b.add(out, [x[-1]])
    return list(out)


def _divide(b: Builder, top: Bits, bottom: Bits) -> tuple[list[Bit], list[Bit]]:
    """(quotient, remainder) of unsigned words, by restoring division. Where bottom is 0, both are meaningless."""
    rest = b.fresh(len(bottom) + 1)
    quotient: list[Bit] = []
    for bit in reversed(top):
        # The highest line of the remainder is 0 here: it becomes the lowest.
        rest = [rest[-1], *rest[:-1]]
        b.flip(rest[0], bit)
        b.subtract(rest, bottom)
        (digit,) = b.copy([rest[-1]])
        b.add_where(rest, bottom, digit)
        b.flip(digit)
        quotient.append(digit)
    return quotient[::-1], list(rest)


def floor_quotient(b: Builder, x: Bits, y: Bits, up: int, down: int, width: int) -> list[Bit]:
    """⌊x · 2^up / (y · 2^down)⌋ mod 2^width, signed, where y is not 0.

    With magnitudes |x| = q·|y| + r, and signs that differ, it is −q where r = 0 and −q − 1 = ¬q elsewhere.
    """
    top = [*[FALSE] * up, *_magnitude(b, x)]
    bottom = [*[FALSE] * down, *_magnitude(b, y)]
    quotient, rest = _divide(b, top, bottom)
    out = b.copy((quotient + [FALSE] * width)[:width])
    (negative,) = b.copy([x[-1]])
    b.flip(negative, y[-1])
    exact = b.opposite(b.nonzero(rest))
    for line in out:
        b.flip(line, negative)
    (carry,) = b.masked([exact], negative)
    b.add(out, [carry])
    return list(out)


def root(b: Builder, x: Bits, shift: int) -> list[Bit]:
    """⌊√(x · 2^shift)⌋ of an unsigned word, digit by digit; half as many bits as the radicand."""
    radicand: list[Bit] = [*[FALSE] * shift, *x]
    radicand += [FALSE] * (len(radicand) % 2)
    digits: list[Bit] = []
    rest = b.fresh(len(radicand) // 2 + 3)
    for i in reversed(range(len(radicand) // 2)):
        rest = [rest[-2], rest[-1], *rest[:-2]]
        b.flip_each(rest[:2], radicand[2 * i : 2 * i + 2])
        trial = [TRUE, FALSE, *digits]
        b.subtract(rest, trial)
        (digit,) = b.copy([rest[-1]])
        b.add_where(rest, trial, digit)
        b.flip(digit)
        digits.insert(0, digit)
    return digits
