"""Netlists in OpenQASM: its classical subset, registers of qubits and x under any number of controls."""

from __future__ import annotations

import re
from itertools import groupby
from typing import NamedTuple

from retrograd.hdl.reversible.circuit import Gate
from retrograd.hdl.reversible.formats.netlists import MOST_LINES, Netlist, malformed
from retrograd.isa.diagnostics import InputError

#: gate of stdgates.inc -> (controls, targets)
_GATES = {"x": (0, 1), "cx": (1, 1), "ccx": (2, 1), "swap": (0, 2), "cswap": (1, 2)}
#: gates that the words of a text stand for at most: definitions that use others may double each time
_MOST_GATES = 1 << 22
_NAMES = {counts: name for name, counts in _GATES.items()}

_TOKEN = re.compile(r'//[^\n]*|/\*.*?\*/|\s+|"[^"\n]*"|[A-Za-z_]\w*|[0-9]+(?:\.[0-9]+)?|[\[\](),;@]|.', re.DOTALL)


def write_qasm(net: Netlist) -> str:
    """The netlist as OpenQASM 3. Lines `d_0`, `d_1`, … become the register d. Constants of 0 are set by `reset`.

    >>> print(write_qasm(Netlist(("a_0", "a_1"), (Gate((0,), (1,)),), {})), end="")
    OPENQASM 3.0;
    include "stdgates.inc";
    qubit[2] a;
    cx a[0], a[1];
    """
    out = ["OPENQASM 3.0;", 'include "stdgates.inc";']
    place: dict[int, str] = {}
    pieces = [(name.rpartition("_")[0] or name, i) for i, name in enumerate(net.names)]
    for word, group in groupby(sorted(pieces), key=lambda piece: piece[0]):
        lines = sorted((i for _, i in group), key=lambda i: _number(net.names[i]))
        register = f"q_{word}" if word in _RESERVED else word
        out.append(f"qubit[{len(lines)}] {register};")
        place |= {line: f"{register}[{k}]" for k, line in enumerate(lines)}
    for line, bit in sorted(net.constants.items()):
        out.append(f"reset {place[line]};")
        if bit:
            out.append(f"x {place[line]};")
    for controls, targets in net.gates:
        name = _NAMES.get((len(controls), len(targets)))
        if name is None:
            name = f"ctrl({len(controls)}) @ {'x' if len(targets) == 1 else 'swap'}"
        out.append(f"{name} {', '.join(place[line] for line in controls + targets)};")
    return "\n".join([*out, ""])


#: names that are no registers: gates and constants of the language
_RESERVED = frozenset(
    {*_GATES, "h", "s", "t", "y", "z", "p", "u", "pi", "tau", "im", "euler", "id", "reset", "gate", "qubit", "U"}
)


def _number(name: str) -> int:
    digits = name.rpartition("_")[2]
    return int(digits) if digits.isdecimal() else 0


class _Body(NamedTuple):
    """The gates of one word, on lines that are numbered from 0."""

    lines: int
    gates: tuple[Gate, ...]


class _Reader:
    def __init__(self, text: str, file: str) -> None:
        self.file, self.rows, self.text = file, text.split("\n"), text
        self.tokens = [
            m for m in _TOKEN.finditer(text) if not m[0].isspace() and not m[0].startswith(("//", "/*"))
        ]  # fmt: skip
        self.at = 0
        self.registers: dict[str, list[int]] = {}
        self.names: list[str] = []
        self.constants: dict[int, int] = {}
        self.gates: list[Gate] = []
        self.used: set[int] = set()
        self.definitions: dict[str, _Body] = {}
        #: whether the position is in a definition, whose operands are single bits
        self.inside = False
        #: gates that the words so far stand for
        self.expanded = 0

    def fault(self, message: str) -> InputError:
        position = self.tokens[self.at].start() if self.at < len(self.tokens) else len(self.text)
        end = self.tokens[self.at].end() if self.at < len(self.tokens) else position + 1
        row = self.text.count("\n", 0, position)
        start = position - (self.text.rfind("\n", 0, position) + 1)
        return malformed(self.file, row + 1, self.rows[row], message, start, start + end - position)

    @property
    def token(self) -> str:
        return self.tokens[self.at][0] if self.at < len(self.tokens) else ""

    def take(self, pattern: str, noun: str) -> str:
        found = self.token
        if not re.fullmatch(pattern, found):
            raise self.fault(f"{noun} is missing here")
        self.at += 1
        return found

    def accept(self, text: str) -> bool:
        if self.token == text:
            self.at += 1
            return True
        return False

    def number(self) -> int:
        if len(self.token) > 7:
            raise self.fault(f"a number is at most {MOST_LINES}")
        return int(self.take(r"[0-9]+", "a number"))

    def read(self) -> Netlist:
        self.take("OPENQASM", "`OPENQASM 3.0;`")
        if self.token not in ("2.0", "3", "3.0", "3.1"):
            raise self.fault("the version is 2.0 or 3.0")
        library = "qelib1" if self.token == "2.0" else "stdgates"
        self.at += 1
        self.take(";", "`;`")
        while self.token:
            match self.token:
                case "include":
                    self.at += 1
                    self.take(rf'"{library}\.inc"', f'`"{library}.inc"`, the only file that is read,')
                case "qubit":
                    self.declaration()
                case "qreg":
                    self.register()
                case "gate":
                    self.define()
                    continue
                case "reset":
                    self.reset()
                case _:
                    self.gate()
            self.take(";", "`;`")
        if not self.names:
            raise self.fault("the netlist declares no qubits")
        return Netlist(tuple(self.names), tuple(self.gates), self.constants)

    def declaration(self) -> None:
        self.at += 1
        size = 1
        if self.accept("["):
            size = self.number()
            if not 0 < size <= MOST_LINES - len(self.names):
                self.at -= 1
                raise self.fault(f"a netlist has from 1 to {MOST_LINES} lines")
            self.take(r"\]", "`]`")
        self.name_lines(self.take(r"[A-Za-z_]\w*", "the name of a register"), size, self.at - 1)

    def register(self) -> None:
        """`qreg q[3]`, as OpenQASM 2 writes it."""
        self.at += 1
        at, name = self.at, self.take(r"[A-Za-z_]\w*", "the name of a register")
        self.take(r"\[", "`[`")
        size = self.number()
        if not 0 < size <= MOST_LINES - len(self.names):
            self.at -= 1
            raise self.fault(f"a netlist has from 1 to {MOST_LINES} lines")
        self.take(r"\]", "`]`")
        self.name_lines(name, size, at)

    def name_lines(self, name: str, size: int, at: int) -> None:
        """Add the lines of a register whose name stands at a token."""
        if name in self.registers:
            self.at = at
            raise self.fault(f"the register `{name[:40]}` is declared twice")
        first = len(self.names)
        self.registers[name] = list(range(first, first + size))
        self.names += [f"{name.removeprefix('q_')}_{k}" for k in range(size)]

    def lines(self) -> list[int]:
        """The lines of an operand: of a bit, or of a register."""
        if self.token not in self.registers:
            raise self.fault(f"`{self.token[:40]}` is no register")
        found = self.registers[self.token]
        self.at += 1
        if self.inside or not self.accept("["):
            return found
        if not self.token.isdecimal() or len(self.token) > 7 or int(self.token) >= len(found):
            raise self.fault(f"the register has the bits 0 to {len(found) - 1}")
        index = self.number()
        self.take(r"\]", "`]`")
        return [found[index]]

    def reset(self) -> None:
        start = self.at
        self.at += 1
        found = self.lines()
        if self.used.intersection(found):
            self.at = start
            raise self.fault("a line is reset after its first gate, which would lose a bit")
        self.constants |= dict.fromkeys(found, 0)

    def gate(self) -> None:
        start = self.at
        polarity: list[bool] = []
        while self.token in ("ctrl", "negctrl"):
            positive, many = self.token == "ctrl", 1
            self.at += 1
            if self.accept("("):
                many = self.number()
                self.take(r"\)", "`)`")
            if many > (len(self.registers) if self.inside else len(self.names)):
                raise self.fault(f"{many} controls are more than there are lines")
            polarity += [positive] * many
            self.take("@", "`@`")
        body = self.body()
        found: list[list[int]] = []
        while not found or self.accept(","):
            found.append(self.lines())
        count = len(polarity) + body.lines
        if len(found) != count:
            self.at = start
            raise self.fault(f"the gate has {len(found)} lines in place of {count}")
        sizes = {len(operand) for operand in found} - {1}
        if len(sizes) > 1:
            self.at = start
            raise self.fault("the registers of a gate have one size")
        self.expanded += len(body.gates) * max(sizes, default=1)
        if self.expanded > _MOST_GATES:
            self.at = start
            raise self.fault(f"the gates stand for more than {_MOST_GATES} gates")
        for k in range(max(sizes, default=1)):
            lines = [operand[k] if len(operand) > 1 else operand[0] for operand in found]
            if len(set(lines)) < len(lines):
                self.at = start
                raise self.fault("a gate has each of its bits once")
            self.place(body, polarity, lines)

    def body(self) -> _Body:
        """The gates of the next word, on lines that are numbered from 0."""
        own, known = self.definitions.get(self.token), _GATES.get(self.token)
        if own is None and known is None:
            defined = f", {', '.join(self.definitions)}" if self.definitions else ""
            raise self.fault(
                f"`{self.token[:40]}` is no gate of the classical subset: {', '.join(_GATES)}{defined[:200]}, ctrl @, negctrl @"
            )
        self.at += 1
        if own is not None:
            return own
        assert known is not None
        lines = tuple(range(sum(known)))
        return _Body(len(lines), (Gate(lines[: known[0]], lines[known[0] :]),))

    def place(self, body: _Body, polarity: list[bool], lines: list[int]) -> None:
        """Add the gates of a body on these lines, of which the first are further controls."""
        controls, operands = tuple(lines[: len(polarity)]), lines[len(polarity) :]
        self.used.update(lines)
        flips = [Gate((), (line,)) for line, positive in zip(controls, polarity, strict=True) if not positive]
        self.gates += flips
        self.gates += [
            Gate(controls + tuple(operands[q] for q in inner), tuple(operands[q] for q in targets))
            for inner, targets in body.gates
        ]
        self.gates += flips

    def define(self) -> None:
        """`gate NAME a, b { … }`: gates on the lines of its operands."""
        self.at += 1
        name = self.take(r"[A-Za-z_]\w*", "the name of a gate")
        if name in self.definitions or name in _GATES or name in _RESERVED:
            self.at -= 1
            raise self.fault(f"there is a gate `{name[:40]}` already")
        if self.accept("(") and not self.accept(")"):
            raise self.fault("a gate of the classical subset has no parameters")
        operands: dict[str, list[int]] = {}
        while not operands or self.accept(","):
            operand = self.take(r"[A-Za-z_]\w*", "the name of an operand")
            if operand in operands:
                self.at -= 1
                raise self.fault(f"the operand `{operand[:40]}` is named twice")
            operands[operand] = [len(operands)]
        self.take(r"\{", "`{`")
        outside = self.registers, self.gates, self.used
        self.registers, self.gates, self.used, self.inside = operands, [], set(), True
        while not self.accept("}"):
            self.gate()
            self.take(";", "`;`")
        self.definitions[name] = _Body(len(operands), tuple(self.gates))
        self.registers, self.gates, self.used = outside
        self.inside = False


def read_qasm(text: str, file: str = "<netlist>") -> Netlist:
    """Read OpenQASM 2 and 3: x, cx, ccx, swap, cswap, gates defined by them, and their forms under ctrl and negctrl; `reset` before
    the first gate of a line. A register as an operand stands for each of its bits.

    Raises InputError RG1401 with the place.
    """
    return _Reader(text, file).read()
