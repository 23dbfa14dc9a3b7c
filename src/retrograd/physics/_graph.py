"""Control flow and mirrored code of a program, found by its text and drawn as an SVG picture.

    code[first + k] = (code[partner_last − k])⁻¹  for all k:   compute [first, last], use, uncompute [partner_first, partner_last]

Each instruction is matched with the latest instruction that it undoes and that is not undone yet. Around a match mirrored code goes on as long as
instructions undo each other; assertions are passed over. Of two ranges that cross the longer is kept, so mirrors nest. A loop or a branch
is mirrored as a whole or not at all. Trap: the text alone decides. `add r1, r2` and `sub r1, r2` around a change of r2 are mirrored code that does not restore r1.

In the picture each instruction is a row. Jumps are arcs on the left, from `goto` to its `from`; calls are dashed. Mirrored code is bracketed on
the right: the colour of the compute part and of the part that undoes it is that of their depth. Long runs of rows without an end of an arc or
bracket are shortened.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from retrograd.isa.diagnostics import markup
from retrograd.isa.encoding import inverse, write
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


# ---------------------------------------------------------------------- the picture

#: pixels
_ROW, _LANE, _TEXT, _SOURCE = 16, 12, 330, 420
#: rows at the ends of a run that are kept, where the run is longer than both together
_KEPT = 3
_STYLE = """\
svg{background:#fff;color:#1b1f24;font:12px ui-monospace,monospace}
text{fill:currentColor;white-space:pre}.faint{fill:#596170}path{fill:none;stroke-width:1.5}
.down{stroke:#0072b2}.up{stroke:#7a3e9d}.call{stroke:#596170;stroke-dasharray:3 2}
.d0{stroke:#0b7a55;fill:#0b7a55}.d1{stroke:#b25c00;fill:#b25c00}.d2{stroke:#9b2d5e;fill:#9b2d5e}.d3{stroke:#0b5cad;fill:#0b5cad}
rect{fill-opacity:.13;stroke:none}
@media(prefers-color-scheme:dark){svg{background:#14171b;color:#e6e9ee}.faint{fill:#a3acb9}
.down{stroke:#56b4e9}.up{stroke:#c79be6}.call{stroke:#a3acb9}
.d0{stroke:#4fc79b;fill:#4fc79b}.d1{stroke:#f0a95a;fill:#f0a95a}.d2{stroke:#f093bd;fill:#f093bd}.d3{stroke:#7db8f5;fill:#7db8f5}}"""


def graph(program: Program, title: str) -> str:
    """The picture of a program. Its height is 16 pixels for each row."""
    return _Picture(program).svg(title)


def lanes(spans: Sequence[tuple[int, int]]) -> list[int]:
    """A lane for each span, from 0, so that spans that share an address have different lanes; short spans are inside."""
    taken: list[list[tuple[int, int]]] = []
    out = [0] * len(spans)
    for n in sorted(range(len(spans)), key=lambda n: spans[n][1] - spans[n][0]):
        low, high = spans[n]
        lane = next((k for k, used in enumerate(taken) if all(high < a or b < low for a, b in used)), len(taken))
        if lane == len(taken):
            taken.append([])
        taken[lane].append((low, high))
        out[n] = lane
    return out


class _Picture:
    """A picture of one program: the places of rows and lanes."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.jumps, self.mirrors = jumps(program), mirrors(program)
        self.labels: dict[int, list[str]] = {}
        for name, pc in program.labels.items():
            self.labels.setdefault(pc, []).append(name)
        self.rows = _rows(len(program.code), self._ends())
        #: address -> row; hidden addresses have the row that stands for them
        self.row: dict[int, int] = {pc: n for n, found in enumerate(self.rows) for pc in found}
        spans = [(self.row[a], self.row[b]) for a, b in (jump.span for jump in self.jumps)]
        self.lanes = lanes(spans)
        self.left = 8 + _LANE * (max(self.lanes, default=-1) + 2)
        self.right = self.left + _TEXT
        self.brackets = _LANE * (depth_of(self.mirrors) + 1)

    def _ends(self) -> set[int]:
        ends = {0, len(self.program.code) - 1, *self.labels}
        ends.update(pc for jump in self.jumps for pc in (jump.source, jump.target))
        ends.update(pc for m in self.mirrors for pc in m[:4])
        return ends

    def y(self, pc: int) -> float:
        """The middle of the row of an address."""
        return 40 + _ROW * self.row[pc] + _ROW / 2

    def svg(self, title: str) -> str:
        """The whole picture."""
        height = 40 + _ROW * len(self.rows) + 12
        width = self.right + self.brackets + _SOURCE
        body = [*self._bands(), *self._arcs(), *self._text()]
        undone = sum(m.partner_last - m.partner_first + 1 for m in self.mirrors if m.depth == 0)
        summary = f"{len(self.program.code)} instructions, {len(self.mirrors)} mirrored ranges; {undone} instructions lie in code that undoes code before it"
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img">',
                f"<title>{markup(title)}</title><desc>{markup(summary)}</desc><style>{_STYLE}</style>",
                f'<text x="{self.left}" y="18">{markup(title)}</text><text class="faint" x="{self.left}" y="32" font-size="10">{markup(summary)}</text>',
                *body,
                "</svg>",
                "",
            ]
        )

    def _text(self) -> Iterable[str]:
        shown = None
        for n, found in enumerate(self.rows):
            pc, y = found[0], 40 + _ROW * n + 12
            if len(found) > 1:
                yield f'<text class="faint" x="{self.left + 48}" y="{y}">… {len(found)} more</text>'
                continue
            i = self.program.instructions[pc]
            yield f'<text class="faint" x="{self.left + 36}" y="{y}" text-anchor="end">{pc}</text>'
            yield f'<text x="{self.left + 48}" y="{y}">{markup(write(i))}</text>'
            if pc in self.labels:
                names = _cut(", ".join(self.labels[pc]), 20)
                yield f'<text class="faint" x="{self.right - 8}" y="{y}" text-anchor="end">{markup(names)}</text>'
            span = self.program.source.span(pc)
            place = None if span is None else (span.file, span.line)
            if span is not None and place != shown:
                text = (self.program.source.line(span) or "").strip()
                x = self.right + self.brackets + 8
                yield f'<text class="faint" x="{x}" y="{y}">{markup(_cut(f"{span.line}  {text}", 56))}</text>'
            shown = place

    def _arcs(self) -> Iterable[str]:
        for jump, lane in zip(self.jumps, self.lanes, strict=True):
            yield self._arc(jump, self.left - _LANE * (lane + 1))

    def _arc(self, jump: Jump, x: float) -> str:
        y, to, edge = self.y(jump.source), self.y(jump.target), self.left
        way = "down" if jump.target > jump.source else "up"
        name = self.program.instructions[jump.source].opcode.name
        kind = "call" if jump.call else way
        path = f"M{edge} {y}H{x + 4}Q{x} {y} {x} {y + (4 if to > y else -4)}V{to + (-4 if to > y else 4)}Q{x} {to} {x + 4} {to}H{edge}m-5 -3l5 3l-5 3"
        return (
            f'<path class="{kind}" d="{path}"><title>{markup(f"{name}: {jump.source} → {jump.target}")}</title></path>'
        )

    def _bands(self) -> Iterable[str]:
        for m in self.mirrors:
            x, style = self.right + _LANE * (depth_of(self.mirrors) - m.depth), f"d{m.depth % 4}"
            note = f"{m.first} to {m.last}, undone by {m.partner_first} to {m.partner_last}"
            for first, last in ((m.first, m.last), (m.partner_first, m.partner_last)):
                top, bottom = self.y(first) - _ROW / 2 + 1, self.y(last) + _ROW / 2 - 1
                yield f'<rect class="{style}" x="{self.left + 40}" y="{top}" width="{x - self.left - 40}" height="{bottom - top}"/>'
            middle = (self.y(m.first) + self.y(m.last)) / 2, (self.y(m.partner_first) + self.y(m.partner_last)) / 2
            path = f"M{x} {middle[0]}h{_LANE - 4}V{middle[1]}h-{_LANE - 4}"
            yield f'<path class="{style}" style="fill:none" d="{path}"><title>{markup(note)}</title></path>'


def _rows(size: int, ends: set[int]) -> list[range]:
    """The addresses of each row: most rows have one; of long runs without an end the middle is one row."""
    out: list[range] = []
    begin = 0
    for pc in [*sorted(end for end in ends if 0 <= end < size), size]:
        if pc - begin > 2 * _KEPT + 1:
            out += [range(k, k + 1) for k in range(begin, begin + _KEPT)]
            out.append(range(begin + _KEPT, pc - _KEPT))
            begin = pc - _KEPT
        out += [range(k, k + 1) for k in range(begin, min(pc + 1, size))]
        begin = pc + 1
    return out


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
