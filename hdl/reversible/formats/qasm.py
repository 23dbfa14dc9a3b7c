"""Netlists in OpenQASM 3: its classical subset, registers of qubits and x under any number of controls."""

from __future__ import annotations

import re
from itertools import groupby

from retrograd.hdl.reversible.circuit import Gate
from retrograd.hdl.reversible.formats.netlists import MOST_LINES, Netlist, malformed
from retrograd.isa.diagnostics import InputError

#: gate of stdgates.inc -> (controls, targets)
_GATES = {"x": (0, 1), "cx": (1, 1), "ccx": (2, 1), "swap": (0, 2), "cswap": (1, 2)}
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
        if self.token not in ("3", "3.0", "3.1"):
            raise self.fault("the version is 3.0")
        self.at += 1
        self.take(";", "`;`")
        while self.token:
            match self.token:
                case "include":
                    self.at += 1
                    self.take(r'"stdgates\.inc"', '`"stdgates.inc"`, the only file that is read,')
                case "qubit":
                    self.declaration()
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
        name = self.take(r"[A-Za-z_]\w*", "the name of a register")
        if name in self.registers:
            self.at -= 1
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
        if not self.accept("["):
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
            if many > len(self.names):
                raise self.fault(f"{many} controls are more than the netlist has lines")
            polarity += [positive] * many
            self.take("@", "`@`")
        if self.token not in _GATES:
            raise self.fault(
                f"`{self.token[:40]}` is no gate of the classical subset: {', '.join(_GATES)}, ctrl @, negctrl @"
            )
        controls, targets = _GATES[self.token]
        self.at += 1
        polarity += [True] * controls
        found: list[int] = []
        while True:
            here = self.at
            operand = self.lines()
            if len(operand) != 1 or operand[0] in found:
                self.at = here
                raise self.fault("a gate has single bits, and each of them once")
            found += operand
            if not self.accept(","):
                break
        if len(found) != len(polarity) + targets:
            self.at = start
            raise self.fault(f"the gate has {len(found)} lines in place of {len(polarity) + targets}")
        self.used.update(found)
        flips = [Gate((), (line,)) for line, positive in zip(found, polarity, strict=False) if not positive]
        self.gates += [*flips, Gate(tuple(found[: len(polarity)]), tuple(found[len(polarity) :])), *flips]


def read_qasm(text: str, file: str = "<netlist>") -> Netlist:
    """Read OpenQASM 3: x, cx, ccx, swap, cswap and their forms under ctrl and negctrl; `reset` before the first gate of a line.

    Raises InputError RG1401 with the place.
    """
    return _Reader(text, file).read()
