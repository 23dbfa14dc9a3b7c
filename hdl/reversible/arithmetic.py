"""Words out of place: one function for each operation that is more than gates bit by bit.

Each leaves its result on lines that the caller may read but not change, and may leave intermediate values on lines that it has
taken; the caller undoes the whole by `Builder.within`. Operands are read only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from retrograd.hdl.reversible.builder import FALSE, TRUE, Bit, Bits, Builder, constant_bits


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
    """entries[index]: one line for each entry that can be meant, of which one is 1; then an exclusive or of those lines."""
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
    """(quotient, remainder) of unsigned words, by restoring division. Where bottom is 0, neither means anything."""
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
