"""Netlists in the format `.real` of RevLib, versions 1.0 and 2.0.

(R. Wille, D. Große, L. Teuber, G. Dueck, R. Drechsler, RevLib: an online resource for reversible functions and circuits, 2008.)
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from retrograd.hdl.reversible.circuit import Gate
from retrograd.hdl.reversible.formats.netlists import MOST_LINES, Netlist, malformed
from retrograd.isa.diagnostics import InputError, nearest

_KEYS = (
    ".version", ".numvars", ".variables", ".inputs", ".outputs", ".constants", ".garbage", ".inputbus", ".outputbus",
    ".state", ".begin", ".end", ".define", ".module",
)  # fmt: skip


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


class _Reader:
    def __init__(self, text: str, file: str) -> None:
        self.file, self.rows = file, text.splitlines()
        self.row, self.text = 0, ""
        self.names: dict[str, int] = {}
        self.constants: dict[int, int] = {}
        self.gates: list[Gate] = []
        self.size: int | None = None

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
            if key == ".begin" and state == "header":
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
                self.gate(words)
            else:
                raise self.fault("a gate stands before .begin", words[0])
        if state != "end":
            self.text = self.rows[-1] if self.rows else ""
            self.row = max(len(self.rows), 1)
            raise self.fault("the netlist ends without .end")
        return Netlist(tuple(self.names), tuple(self.gates), self.constants)

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
                for word in values:
                    if word[0] in self.names:
                        raise self.fault(f"the line `{word[0][:40]}` is named twice", word)
                    if word[0].startswith("-"):
                        raise self.fault("the name of a line does not begin with `-`", word)
                    self.names[word[0]] = len(self.names)
                if len(self.names) != self.size:
                    raise self.fault(f".numvars is {self.size}, and {len(self.names)} lines are named")
            case ".constants":
                marks = values[0][0] if len(values) == 1 else ""
                if len(marks) != self.size or set(marks) - set("-01"):
                    raise self.fault(".constants has one of - 0 1 for each line", values[0] if values else None)
                self.constants = {i: int(mark) for i, mark in enumerate(marks) if mark != "-"}
            case ".inputs" | ".outputs" | ".garbage" | ".inputbus" | ".outputbus":
                pass  # names and claims, of which nothing here depends
            case _:
                hint = nearest(key, _KEYS)
                raise self.fault(f"`{key[:40]}` is not read" + (f"; {hint}" if hint else ""), words[0])

    def gate(self, words: list[re.Match[str]]) -> None:
        kind, operands = words[0][0].lower(), words[1:]
        found = re.fullmatch(r"([tfp])([0-9]{0,7})", kind)
        if found is None:
            raise self.fault(
                f"`{kind[:40]}` is no gate; the gates are t, f and p3, with their number of lines", words[0]
            )
        letter = found[1]
        least = {"t": 1, "f": 2, "p": 3}[letter]
        if (
            (found[2] and int(found[2]) != len(operands))
            or len(operands) < least
            or (letter == "p" and len(operands) > 3)
        ):
            raise self.fault(f"`{kind}` has {len(operands)} lines", words[0])
        lines, negative = [], []
        targets = 1 if letter == "t" else 2
        for place, word in enumerate(operands):
            name = word[0]
            if name not in self.names and name[1:] in self.names and name[0] == "-" and place < len(operands) - targets:
                name = name[1:]
                negative.append(self.names[name])
            if name not in self.names:
                hint = nearest(name, self.names)
                raise self.fault(f"no line is named `{name[:40]}`" + (f"; {hint}" if hint else ""), word)
            if self.names[name] in lines:
                raise self.fault(f"the gate has the line `{name[:40]}` twice", word)
            lines.append(self.names[name])
        flips = [Gate((), (line,)) for line in negative]
        self.gates += flips
        if letter == "p":
            self.gates += [Gate((lines[0], lines[1]), (lines[2],)), Gate((lines[0],), (lines[1],))]
        else:
            self.gates.append(Gate(tuple(lines[:-targets]), tuple(lines[-targets:])))
        self.gates += flips


def read_real(text: str, file: str = "<netlist>") -> Netlist:
    """Read `.real`: gates t, f and p3 (Peres), negative controls `-a`. Claims of the header on outputs and garbage are not used.

    Raises InputError RG1401 with the place.
    """
    return _Reader(text, file).read()
