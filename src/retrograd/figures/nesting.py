"""Mirrored code: instructions that later instructions undo, by the text of the program.

    code[first + k] = (code[partner_last − k])⁻¹  for all k:   compute [first, last], use, uncompute [partner_first, partner_last]

Each instruction is matched with the latest instruction that it undoes and that is not undone yet. Around a match mirrored code goes on as long as
instructions undo each other; assertions are passed over. Of two ranges that cross the longer is kept, so mirrors nest. A loop or a branch
is mirrored as a whole or not at all. Trap: the text alone decides. `add r1, r2` and `sub r1, r2` around a change of r2 are mirrored code that does not restore r1.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from retrograd.isa.encoding import inverse
from retrograd.isa.program import Program

#: call -> its inverse
_CALLS = {"call": "uncall", "uncall": "call"}


class Mirror(NamedTuple):
    """Two ranges of addresses, both inclusive; the second undoes the first. `depth`: the number of mirrors around it."""

    first: int
    last: int
    partner_first: int
    partner_last: int
    depth: int


class Jump(NamedTuple):
    """The two ends of a branch: where control leaves, and the join where it arrives."""

    source: int
    target: int
    #: a call, which comes back
    call: bool

    @property
    def span(self) -> tuple[int, int]:
        """Its addresses in order."""
        return min(self.source, self.target), max(self.source, self.target)


def jumps(program: Program) -> list[Jump]:
    """The jumps of a program that runs forward: those of `goto`, and calls."""
    found = []
    for pc, i in enumerate(program.instructions):
        if "target" in i.opcode.operands and not i.opcode.name.startswith("from"):
            target = pc + i.opcode.distance(i.imm)
            if 0 <= target < len(program.code):
                found.append(Jump(pc, target, i.opcode.name in _CALLS))
    return found


def mirrors(program: Program) -> list[Mirror]:
    """The mirrored ranges of a program in the order of `first`, outer before inner."""
    text = _Text(program)
    spans = [jump.span for jump in jumps(program) if not jump.call]
    found: list[list[tuple[int, int]]] = []
    covered: set[tuple[int, int]] = set()
    for a, b in sorted(text.matches().items()):
        if (a, b) not in covered:
            aligned = _whole(text.around(a, b), spans)
            covered.update(aligned)
            if aligned:
                found.append(aligned)
    found.sort(key=len, reverse=True)
    return _nested(_laminar([Mirror(run[0][0], run[-1][0], run[-1][1], run[0][1], 0) for run in found]))


def undone(program: Program) -> frozenset[int]:
    """The addresses of code that undoes code before it."""
    return frozenset(pc for m in mirrors(program) for pc in range(m.partner_first, m.partner_last + 1))


class _Text:
    """The instructions of a program that change something, and the instruction that each of them undoes."""

    def __init__(self, program: Program) -> None:
        self.addresses = [pc for pc, i in enumerate(program.instructions) if i.opcode.writes]
        self.own: list[tuple[object, ...]] = []
        self.undoes: list[tuple[object, ...]] = []
        self.partner: dict[int, int] = {}
        for pc in self.addresses:
            i = program.instructions[pc]
            if i.opcode.name in _CALLS:
                # Procedures are named by their address: the distances of a call and of its inverse differ.
                target = pc + i.opcode.distance(i.imm)
                self.own.append((i.opcode.name, target))
                self.undoes.append((_CALLS[i.opcode.name], target))
                continue
            undone = inverse(i, program.table)
            self.own.append((i.opcode.name, i.rd, i.ra, i.rb, i.imm))
            self.undoes.append((undone.opcode.name, undone.rd, undone.ra, undone.rb, undone.imm))
            if "target" in i.opcode.operands:
                self.partner[pc] = pc + i.imm

    def matches(self) -> dict[int, int]:
        """address -> the later address of the instruction that undoes it."""
        out: dict[int, int] = {}
        #: text -> the addresses of its instructions that are not undone yet
        waiting: dict[tuple[object, ...], list[int]] = {}
        for n, pc in enumerate(self.addresses):
            found = waiting.get(self.undoes[n], [])
            # The two ends of one jump have inverse texts, and do not undo each other.
            latest = len(found) - 1 - (bool(found) and found[-1] == self.partner.get(pc))
            if latest >= 0:
                out[found.pop(latest)] = pc
            else:
                waiting.setdefault(self.own[n], []).append(pc)
        return out

    def around(self, a: int, b: int) -> list[tuple[int, int]]:
        """The pairs of addresses around (a, b), from outside to inside, whose instructions undo each other."""
        low, high = bisect_left(self.addresses, a), bisect_left(self.addresses, b)
        while low and high + 1 < len(self.own) and self.own[low - 1] == self.undoes[high + 1]:
            low, high = low - 1, high + 1
        out = []
        while low < high and self.own[low] == self.undoes[high]:
            if self.partner.get(self.addresses[low]) == self.addresses[high]:
                break
            out.append((self.addresses[low], self.addresses[high]))
            low, high = low + 1, high - 1
        return out


def _laminar(found: Sequence[Mirror]) -> list[Mirror]:
    """The mirrors that cross no mirror before them: two mirrors are apart, or one lies within a part of the other, or between its parts."""
    # Imported here: programs are priced without it.
    import numpy as np

    bounds = np.array([m[:4] for m in found], dtype=np.int64).reshape(-1, 4)
    kept: list[int] = []
    for n, m in enumerate(bounds):
        others = bounds[kept]
        apart = (m[3] < others[:, 0]) | (others[:, 3] < m[0])
        if (apart | _within(m, others.T) | _within(others.T, m)).all():
            kept.append(n)
    return [found[n] for n in kept]


def _within(inner: Any, outer: Any) -> Any:
    """Whether mirrors lie within a part of others, or between their parts; of numbers or of arrays."""
    first, last = inner[0], inner[3]
    parts = [(outer[low] <= first) & (last <= outer[low + 1]) for low in range(3)]
    return parts[0] | parts[1] | parts[2]


def _whole(aligned: list[tuple[int, int]], spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The outer pairs, up to the first of which one end lies within a jump that is not mirrored and the other outside."""
    while True:
        ends = {pc for pair in aligned for pc in pair}
        crossed = [(low, high) for low, high in spans if not (low in ends and high in ends)]
        broken = next(
            (n for n, (a, b) in enumerate(aligned) if any((x < a < y) != (x < b < y) for x, y in crossed)), None
        )
        if broken is None:
            return aligned
        aligned = aligned[:broken]


def _nested(found: Iterable[Mirror]) -> list[Mirror]:
    """The mirrors with their depths."""
    out: list[Mirror] = []
    around: list[Mirror] = []
    for mirror in sorted(found, key=lambda m: (m.first, -m.partner_last)):
        around = [m for m in around if m.partner_last >= mirror.first]
        outer = [m for m in around if _within(mirror, m)]
        out.append(mirror._replace(depth=len(outer)))
        around.append(mirror)
    return out


def depth_of(found: Iterable[Mirror]) -> int:
    """The depth of the deepest mirror, from 1; 0 without mirrors."""
    return max((m.depth + 1 for m in found), default=0)
