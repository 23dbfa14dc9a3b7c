"""Netlists in files: a circuit with a name for each line, in the format `.real`, and as a drawing in SVG.

Source of `.real`: R. Wille, D. Große, L. Teuber, G. Dueck, R. Drechsler, RevLib: an online resource for reversible functions and circuits, 2008.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from retrograd.hdl.reversible.circuit import Circuit, Gate
from retrograd.isa.diagnostics import Diagnostic, InputError, Span, markup, nearest

# -----------------------------------------------------------------------------
# A netlist: a circuit with a name for each line.

#: lines of a file at most: a header costs no memory before its lines are used
MOST_LINES = 1 << 20


@dataclass(frozen=True)
class Netlist:
    """Gates on named lines. A line in `constants` begins with that bit; the others are inputs. All lines are outputs."""

    names: tuple[str, ...]
    gates: tuple[Gate, ...]
    #: line -> the bit with which it begins
    constants: dict[int, int]
    #: the lines that end as garbage, if the netlist was made from a circuit; for a file they are unknown
    garbage: frozenset[int] | None = field(default=None, compare=False)

    def circuit(self) -> Circuit:
        """The netlist as a circuit whose word `lines` has all lines. Constants are left to the caller."""
        word = tuple(range(len(self.names)))
        return Circuit(len(self.names), self.gates, {"lines": word}, {"lines": word})

    def with_constants(self) -> Circuit:
        """The netlist as a circuit whose inputs are the other lines, and whose ancillas are the constants; all lines are outputs."""
        word = tuple(range(len(self.names)))
        ones = tuple(Gate((), (line,)) for line, bit in self.constants.items() if bit)
        given = tuple(line for line in word if line not in self.constants)
        return Circuit(len(word), ones + self.gates, {"inputs": given}, {"lines": word})


def netlist(circuit: Circuit) -> Netlist:
    """The circuit with lines named by its words: `d0` is the lowest bit of d. If the result of a word is on other lines, it is exchanged back.

    Cotangents are named `d_bar`. Ancillas are `z0`, `z1`, … and begin as 0.
    """
    names = [""] * circuit.lines
    for word, lines in circuit.inputs.items():
        for place, line in enumerate(lines):
            names[line] = f"{word.replace(chr(0x304), '_bar')}_{place}"
    constants = {}
    for number, line in enumerate(circuit.ancillas):
        names[line], constants[line] = f"z_{number}", 0
    gates = list(circuit.gates)
    homes = {
        out: home
        for word, lines in circuit.inputs.items()
        for out, home in zip(circuit.outputs[word], lines, strict=True)
    }
    # Which line has the bit that the circuit leaves on a line, and which bit a line has.
    places, bits = list(range(circuit.lines)), list(range(circuit.lines))
    for out, home in sorted(homes.items()):
        here = places[out]
        if here != home:
            gates.append(Gate((), (here, home)))
            moved = bits[home]
            places[out], places[moved], bits[home], bits[here] = home, here, out, moved
    return Netlist(tuple(names), tuple(gates), constants, frozenset(places[line] for line in circuit.garbage))


def malformed(file: str, line: int, text: str, message: str, start: int = 0, end: int | None = None) -> InputError:
    """InputError RG1401 at columns start … end of a line, counted from 0."""
    last = len(text.rstrip()) if end is None else end
    span = Span(file, line, start + 1, max(last, start + 1) + 1 if end is None else end + 1)
    return InputError(Diagnostic("RG1401", message, span, line=text))


# -----------------------------------------------------------------------------
# The format `.real` of RevLib, versions 1.0 and 2.0.

_KEYS = (
    ".version", ".numvars", ".variables", ".inputs", ".outputs", ".constants", ".garbage", ".inputbus", ".outputbus",
    ".begin", ".end", ".define", ".enddefine",
)  # fmt: skip
#: a gate of the format: its letter, or letters, and the number of its lines
_GATE = re.compile(r"(pi|[tfp])([0-9]{0,7})")
#: letter -> the least and the greatest number of lines, and how many of them are targets
_KINDS = {"t": (1, MOST_LINES, 1), "f": (2, MOST_LINES, 2), "p": (3, 3, 2), "pi": (3, 3, 2)}
#: the largest number of gates that the uses of definitions in a text may expand to: nested definitions may double it
#: at each level
_MOST_EXPANDED = 1 << 20


def write_real(net: Netlist) -> str:
    """The netlist as text of `.real` 2.0. `read_real` reads the same netlist.

    >>> print(write_real(Netlist(("a", "b"), (Gate((0,), (1,)),), {})), end="")
    .version 2.0
    .numvars 2
    .variables a b
    .constants --
    .begin
    t2 a b
    .end
    """
    marks = "".join(str(net.constants[i]) if i in net.constants else "-" for i in range(len(net.names)))
    out = [".version 2.0", f".numvars {len(net.names)}", f".variables {' '.join(net.names)}", f".constants {marks}"]
    out.append(".begin")
    for controls, targets, negative in net.gates:
        names = [
            *(f"{'-' * (line in negative)}{net.names[line]}" for line in controls),
            *(net.names[line] for line in targets),
        ]
        out.append(f"{'tf'[len(targets) - 1]}{len(names)} {' '.join(names)}")
    return "\n".join([*out, ".end", ""])


def on_lines(gate: Gate, lines: Sequence[int]) -> Gate:
    """The gate with `lines[q]` in place of line q."""
    controls, targets, negative = (tuple(lines[q] for q in side) for side in gate)
    return Gate(controls, targets, negative)


class _Block(NamedTuple):
    """Gates on named lines: of the netlist, or of a definition."""

    names: dict[str, int]
    gates: list[Gate]


class _RealReader:
    def __init__(self, text: str, file: str) -> None:
        self.file, self.rows = file, text.splitlines()
        self.row, self.text = 0, ""
        self.names: dict[str, int] = {}
        self.marks: str | None = None
        self.main = _Block(self.names, [])
        self.size: int | None = None
        self.definitions: dict[str, _Block] = {}
        #: the name of the definition that is open
        self.open: str | None = None
        #: gates that the uses of definitions stand for
        self.expanded = 0

    def fault(self, message: str, word: re.Match[str] | None = None) -> InputError:
        if word is None:
            return malformed(self.file, self.row, self.text, message)
        return malformed(self.file, self.row, self.text, message, word.start(), word.end())

    def words(self) -> Iterator[list[re.Match[str]]]:
        """The words of each line that has some, without its comment."""
        for row, text in enumerate(self.rows, 1):
            self.row, self.text = row, text
            found = list(re.finditer(r"[^\s#]+", self.text.partition("#")[0]))
            if found:
                yield found

    def read(self) -> Netlist:
        state = "header"
        for words in self.words():
            key = words[0][0].lower()
            if state == "end":
                raise self.fault("the text goes on behind .end", words[0])
            if self.open is not None:
                self.inside(key, words)
            elif key == ".begin" and state == "header":
                if self.size is None or not self.names:
                    raise self.fault(".begin stands before .numvars and .variables", words[0])
                state = "gates"
            elif key == ".end" and state == "gates":
                state = "end"
            elif key.startswith("."):
                if key in (".begin", ".end") or state != "header":
                    raise self.fault(f"`{key[:40]}` is out of place", words[0])
                self.header(key, words)
            elif state == "gates":
                self.gate(words, self.main)
            else:
                raise self.fault("a gate stands before .begin", words[0])
        if state != "end":
            self.text = self.rows[-1] if self.rows else ""
            self.row = max(len(self.rows), 1)
            raise self.fault(f"the netlist ends without .{'end' if self.open is None else 'enddefine'}")
        constants = {i: int(mark) for i, mark in enumerate(self.marks or "") if mark != "-"}
        return Netlist(tuple(self.names), tuple(self.main.gates), constants)

    def define(self, words: list[re.Match[str]]) -> None:
        """Begin a definition, `.define NAME LINE …`."""
        if len(words) < 2:
            raise self.fault(".define has a name and lines: `.define NAME a b`", words[0])
        name = words[1]
        if name[0] in self.definitions or _GATE.fullmatch(name[0].lower()):
            raise self.fault(f"there is a gate `{name[0][:40]}` already", name)
        if not words[2:]:
            raise self.fault(f"the definition of `{name[0][:40]}` has no lines", name)
        block = _Block({}, [])
        self.name_lines(block.names, words[2:])
        self.definitions[name[0]], self.open = block, name[0]

    def inside(self, key: str, words: list[re.Match[str]]) -> None:
        """A line of a definition."""
        assert self.open is not None
        if key == ".enddefine":
            self.open = None
        elif key.startswith("."):
            raise self.fault(f"`{key[:40]}` stands in a definition, before its .enddefine", words[0])
        else:
            self.gate(words, self.definitions[self.open])

    def name_lines(self, names: dict[str, int], words: list[re.Match[str]]) -> None:
        for word in words:
            if word[0] in names:
                raise self.fault(f"the line `{word[0][:40]}` is named twice", word)
            if word[0].startswith("-"):
                raise self.fault("the name of a line does not begin with `-`", word)
            names[word[0]] = len(names)

    def check_sizes(self) -> None:
        """The lines of the header agree, in any order."""
        if self.size is None:
            return
        if self.names and len(self.names) != self.size:
            raise self.fault(f".numvars is {self.size}, and {len(self.names)} lines are named")
        if self.marks is not None and len(self.marks) != self.size:
            raise self.fault(f".numvars is {self.size}, and .constants has {len(self.marks)} marks")

    def header(self, key: str, words: list[re.Match[str]]) -> None:
        values = words[1:]
        match key:
            case ".version":
                if [v[0] for v in values] not in (["1.0"], ["2.0"]):
                    raise self.fault("the version is 1.0 or 2.0", values[0] if values else None)
            case ".numvars":
                if (
                    len(values) != 1
                    or not re.fullmatch(r"[0-9]{1,7}", values[0][0])
                    or not 0 < int(values[0][0]) <= MOST_LINES
                ):
                    raise self.fault(
                        f".numvars has a number of lines from 1 to {MOST_LINES}", values[0] if values else None
                    )
                self.size = int(values[0][0])
            case ".variables":
                self.name_lines(self.names, values)
                if not 0 < len(self.names) <= MOST_LINES:
                    raise self.fault(f"a netlist has from 1 to {MOST_LINES} lines", values[0] if values else None)
            case ".constants":
                self.marks = values[0][0] if len(values) == 1 else ""
                if not self.marks or set(self.marks) - set("-01"):
                    raise self.fault(".constants has one of - 0 1 for each line", values[0] if values else None)
            case ".define":
                self.define(words)
            case ".inputs" | ".outputs" | ".garbage" | ".inputbus" | ".outputbus":
                pass  # names and claims, of which nothing here depends
            case _:
                hint = nearest(key, _KEYS)
                raise self.fault(f"`{key[:40]}` is not read" + (f"; {hint}" if hint else ""), words[0])
        self.check_sizes()

    def gate(self, words: list[re.Match[str]], block: _Block) -> None:
        """Add a gate, or the gates of a definition, to a block."""
        operands = words[1:]
        definition = self.definitions.get(words[0][0]) if words[0][0] != self.open else None
        if definition is not None:
            if len(operands) != len(definition.names):
                raise self.fault(
                    f"`{words[0][0][:40]}` has {len(operands)} lines, and not {len(definition.names)}", words[0]
                )
            lines, _ = self.lines_of(operands, len(operands), block)
            self.expanded += len(definition.gates)
            if self.expanded > _MOST_EXPANDED:
                raise self.fault(f"the uses of definitions stand for more than {_MOST_EXPANDED} gates", words[0])
            block.gates.extend(on_lines(gate, lines) for gate in definition.gates)
            return
        kind = words[0][0].lower()
        found = _GATE.fullmatch(kind)
        if found is None:
            own = f", and {', '.join(self.definitions)}" if self.definitions else ""
            message = f"`{kind[:40]}` is no gate; the gates are t, f, p3 and pi3, with their number of lines{own[:200]}"
            raise self.fault(message, words[0])
        least, most, targets = _KINDS[found[1]]
        if (found[2] and int(found[2]) != len(operands)) or not least <= len(operands) <= most:
            raise self.fault(f"`{kind}` has {len(operands)} lines", words[0])
        lines, negative = self.lines_of(operands, targets, block)
        if found[1] in ("p", "pi"):
            peres = Gate((lines[0], lines[1]), (lines[2],), negative), Gate((lines[0],), (lines[1],), negative)
            block.gates.extend(peres if found[1] == "p" else peres[::-1])
        else:
            block.gates.append(Gate(tuple(lines[:-targets]), tuple(lines[-targets:]), negative))

    def lines_of(self, operands: list[re.Match[str]], targets: int, block: _Block) -> tuple[list[int], tuple[int, ...]]:
        """(the lines of a gate, those of its negative controls); the last `targets` of them are no controls."""
        lines: list[int] = []
        negative: list[int] = []
        seen: set[int] = set()
        for place, word in enumerate(operands):
            name = word[0]
            if (
                name not in block.names
                and name[1:] in block.names
                and name[0] == "-"
                and place < len(operands) - targets
            ):
                name = name[1:]
                negative.append(block.names[name])
            if name not in block.names:
                hint = nearest(name, block.names)
                raise self.fault(f"no line is named `{name[:40]}`" + (f"; {hint}" if hint else ""), word)
            if block.names[name] in seen:
                raise self.fault(f"the gate has the line `{name[:40]}` twice", word)
            lines.append(block.names[name])
            seen.add(lines[-1])
        return lines, tuple(negative)


def read_real(text: str, file: str = "<netlist>") -> Netlist:
    """Read `.real`: gates t, f, p3 (Peres) and pi3 (its inverse), negative controls `-a`, definitions. Claims of the header on
    outputs and garbage are not used.

    Raises InputError RG1401 with the place.
    """
    return _RealReader(text, file).read()


# -----------------------------------------------------------------------------
# Drawings in SVG: a line for each wire with its name and role, a column for each step of gates.
#
# Gates whose wires overlap stand in different columns. A control is a filled circle,
# an open one if it must be 0; a target a circle with a cross; the two targets of an
# exchange are crosses, ×. Drawings are made of short circuits only.

#: gates and wires of a drawing at most: more cannot be read
MOST_GATES, MOST_WIRES = 400, 100
_STEP, _ROW, _TOP, _RADIUS = 22, 22, 24, 7


def draw_svg(net: Netlist, title: str) -> str:
    """The netlist as an SVG image. Raises InputError RG1407 for a netlist that is too long or too wide.

    Trap: gates of one column may be drawn in either order, since their wires do not overlap.
    """
    if len(net.gates) > MOST_GATES or len(net.names) > MOST_WIRES:
        message = f"the netlist has {len(net.gates)} gates on {len(net.names)} lines"
        raise InputError(Diagnostic("RG1407", f"{message}; at most {MOST_GATES} on {MOST_WIRES} are drawn"))
    labels = [_label(net, line) for line in range(len(net.names))]
    left = 14 + 7 * max(map(len, labels), default=0)
    columns = _columns(net.gates)
    width = left + _STEP * (max(columns, default=0) + 2) + 74
    height = _TOP + _ROW * len(net.names) + 12
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img">',
        f"<title>{markup(title)}</title>",
        '<rect width="100%" height="100%" fill="white"/>',
        '<g font-family="monospace" font-size="11" fill="#222">',
        f'<text x="8" y="15" font-weight="bold">{markup(title)}</text>',
    ]
    right = width - 70
    for line, label in enumerate(labels):
        y = _height(line)
        colour = "#999" if line in net.constants else "#222"
        out.append(f'<text x="{left - 6}" y="{y + 4}" text-anchor="end">{markup(label)}</text>')
        out.append(f'<line x1="{left}" y1="{y}" x2="{right}" y2="{y}" stroke="{colour}"/>')
        out.append(f'<text x="{right + 5}" y="{y + 4}" fill="#666">{_end(net, line)}</text>')
    out.append("</g>")
    for gate, column in zip(net.gates, columns, strict=True):
        out += _drawn(gate, left + _STEP * (column + 1))
    return "\n".join([*out, "</svg>", ""])


def _label(net: Netlist, line: int) -> str:
    """The name of a wire, and its role: an ancilla with its first bit, or an input."""
    role = f"|{net.constants[line]}⟩" if line in net.constants else "in"
    return f"{net.names[line]} {role}"


def _end(net: Netlist, line: int) -> str:
    """The role of a wire at its end, if the netlist was made from a circuit; for a file it is unknown."""
    if net.garbage is None:
        return ""
    return "garbage" if line in net.garbage else f"|{net.constants[line]}⟩" if line in net.constants else "out"


def _height(line: int) -> int:
    return _TOP + _ROW * line + _ROW // 2


def _columns(gates: tuple[Gate, ...]) -> list[int]:
    """The column of each gate: the first column after all earlier gates that overlap it in the range from the highest to the lowest wire."""
    taken: dict[int, int] = {}
    out = []
    for controls, targets, _ in gates:
        lines = controls + targets
        span = range(min(lines), max(lines) + 1)
        column = max((taken.get(line, -1) for line in span), default=-1) + 1
        taken |= dict.fromkeys(span, column)
        out.append(column)
    return out


def _drawn(gate: Gate, x: int) -> list[str]:
    lines = gate.controls + gate.targets
    out = []
    if len(lines) > 1:
        top, bottom = _height(min(lines)), _height(max(lines))
        out.append(f'<line x1="{x}" y1="{top}" x2="{x}" y2="{bottom}" stroke="#1a4f8a"/>')
    for line in gate.controls:
        fill = 'fill="white" stroke="#1a4f8a"' if line in gate.negative else 'fill="#1a4f8a"'
        out.append(f'<circle cx="{x}" cy="{_height(line)}" r="4" {fill}/>')
    for line in gate.targets:
        y, r = _height(line), _RADIUS
        if len(gate.targets) == 1:
            out.append(f'<circle cx="{x}" cy="{y}" r="{r}" fill="white" stroke="#1a4f8a"/>')
            out.append(f'<path d="M{x - r} {y}H{x + r}M{x} {y - r}V{y + r}" stroke="#1a4f8a"/>')
        else:
            out.append(f'<path d="M{x - 5} {y - 5}l10 10m0 -10l-10 10" stroke="#1a4f8a" stroke-width="1.5"/>')
    return out
