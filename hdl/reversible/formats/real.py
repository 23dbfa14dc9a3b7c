"""Netlists in the format `.real` of RevLib, versions 1.0 and 2.0.

(R. Wille, D. Große, L. Teuber, G. Dueck, R. Drechsler, RevLib: an online resource for reversible functions and circuits, 2008.)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from retrograd.hdl.reversible.circuit import Gate
from retrograd.hdl.reversible.formats.netlists import MOST_LINES, Netlist, malformed
from retrograd.isa.diagnostics import InputError, nearest

_KEYS = (
    ".version", ".numvars", ".variables", ".inputs", ".outputs", ".constants", ".garbage", ".inputbus", ".outputbus",
    ".begin", ".end", ".define", ".enddefine",
)  # fmt: skip
#: a gate of the format: its letter, or letters, and the number of its lines
_GATE = re.compile(r"(pi|[tfp])([0-9]{0,7})")
#: letter -> the least and the greatest number of lines, and how many of them are targets
_KINDS = {"t": (1, MOST_LINES, 1), "f": (2, MOST_LINES, 2), "p": (3, 3, 2), "pi": (3, 3, 2)}
#: gates that the uses of definitions stand for at most, in the whole text: definitions that use others may double each time
_MOST_GATES = 1 << 20


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
    for controls, targets in net.gates:
        lines = controls + targets
        out.append(f"{'tf'[len(targets) - 1]}{len(lines)} {' '.join(net.names[line] for line in lines)}")
    return "\n".join([*out, ".end", ""])


class _Block(NamedTuple):
    """Gates on named lines: of the netlist, or of a definition."""

    names: dict[str, int]
    gates: list[Gate]


class _Reader:
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
            if self.expanded > _MOST_GATES:
                raise self.fault(f"the uses of definitions stand for more than {_MOST_GATES} gates", words[0])
            block.gates.extend(
                Gate(tuple(lines[q] for q in controls), tuple(lines[q] for q in targets))
                for controls, targets in definition.gates
            )
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
        flips = [Gate((), (line,)) for line in negative]
        block.gates.extend(flips)
        if found[1] in ("p", "pi"):
            peres = Gate((lines[0], lines[1]), (lines[2],)), Gate((lines[0],), (lines[1],))
            block.gates.extend(peres if found[1] == "p" else peres[::-1])
        else:
            block.gates.append(Gate(tuple(lines[:-targets]), tuple(lines[-targets:])))
        block.gates.extend(flips)

    def lines_of(self, operands: list[re.Match[str]], targets: int, block: _Block) -> tuple[list[int], list[int]]:
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
        return lines, negative


def read_real(text: str, file: str = "<netlist>") -> Netlist:
    """Read `.real`: gates t, f, p3 (Peres) and pi3 (its inverse), negative controls `-a`, definitions. Claims of the header on
    outputs and garbage are not used.

    Raises InputError RG1401 with the place.
    """
    return _Reader(text, file).read()
