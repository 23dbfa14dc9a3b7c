"""Netlists in OpenQASM 2 and 3: the classical subset, registers of qubits and x under any number of controls.

Sources: A. W. Cross, L. S. Bishop, J. A. Smolin, J. M. Gambetta, Open quantum assembly language, arXiv:1707.03429,
2017; A. W. Cross et al., OpenQASM 3: a broader and deeper quantum assembly language, ACM Trans. Quantum Comput. 3, 12, 2022.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

from retrograd.hdl.reversible.circuit import Gate
from retrograd.hdl.reversible.formats import MOST_LINES, Netlist, malformed, on_lines
from retrograd.isa.diagnostics import Diagnostic, InputError

#: gate of the libraries -> (controls, targets)
_GATES = {"x": (0, 1), "cx": (1, 1), "ccx": (2, 1), "swap": (0, 2), "cswap": (1, 2)}
#: gates of qelib1.inc besides them
_GATES_2 = {"c3x": (3, 1), "c4x": (4, 1)}
#: the largest number of gates that the words of a text may expand to: nested definitions may double it at each level
_MOST_GATES = 1 << 22
#: passes of loops in a text at most, with the statements that they execute
_MOST_PASSES = 1 << 17
_NAMES = {counts: name for name, counts in (_GATES | _GATES_2).items()}

_TOKEN = re.compile(r'//[^\n]*|/\*.*?\*/|\s+|"[^"\n]*"|[A-Za-z_]\w*|[0-9]+(?:\.[0-9]+)?|\*\*|<<|>>|.', re.DOTALL)


def write_qasm(net: Netlist, *, version: int = 3, reset: bool = False) -> str:
    """The netlist as OpenQASM 3 or 2. Lines `d_0`, `d_1`, … become the register d, another line a qubit of its name.

    A qubit begins as 0, so that constants of 0 need no statement; with `reset`, each has one, and `read_qasm` finds
    the constants again. A constant of 1 is made by `reset` and x. The names are those that `read_qasm` gives.
    OpenQASM 2 has no modifiers: a gate with negative controls is defined, and used by its name.

    Raises InputError RG1408 for a gate with more controls than OpenQASM 2 has.

    >>> print(write_qasm(Netlist(("a_0", "a_1"), (Gate((0,), (1,)),), {})), end="")
    OPENQASM 3.0;
    include "stdgates.inc";
    qubit[2] a;
    cx a[0], a[1];
    """
    old = version == 2
    declared: list[str] = []
    place: dict[int, str] = {}
    known = {name: i for i, name in enumerate(net.names)}
    words: dict[str, list[int]] = {}
    for name, i in known.items():
        words.setdefault(name.rpartition("_")[0] or name, []).append(i)
    for word, found in words.items():
        lines = sorted(found, key=lambda i: _number(net.names[i]))
        whole = all(net.names[i] == f"{word}_{k}" for k, i in enumerate(lines)) and not (old and len(lines) == 1)
        register = _escaped(word, version)
        if whole:
            declared.append(f"qreg {register}[{len(lines)}];" if old else f"qubit[{len(lines)}] {register};")
            place |= {line: f"{register}[{k}]" for k, line in enumerate(lines)}
            continue
        for i in lines:
            register = _escaped(net.names[i], version)
            declared.append(f"qreg {register}[1];" if old else f"qubit {register};")
            place[i] = f"{register}[0]" if old else register
    body = []
    for line, bit in sorted(net.constants.items()):
        body += [f"reset {place[line]};"] * (reset or bit) + [f"x {place[line]};"] * bit
    defined: dict[str, str] = {}
    taken = {register.partition("[")[0] for register in place.values()}
    for gate in net.gates:
        word = _defined(gate, defined, taken) if old else _modified(gate)
        body.append(f"{word} {', '.join(place[line] for line in gate.controls + gate.targets)};")
    head = ["OPENQASM 2.0;", 'include "qelib1.inc";'] if old else ["OPENQASM 3.0;", 'include "stdgates.inc";']
    return "\n".join([*head, *defined.values(), *declared, *body, ""])


def _modified(gate: Gate) -> str:
    """The gate with its modifiers, of which the first has the first controls."""
    controls, targets, negative = gate
    name = _NAMES.get((len(controls), len(targets)))
    if name in _GATES and not negative:
        return name
    runs = [(low, len([*run])) for low, run in groupby(line in negative for line in controls)]
    modifiers = [f"{'neg' * low}ctrl{f'({n})' * (n > 1)} @ " for low, n in runs]
    return "".join(modifiers) + ("x" if len(targets) == 1 else "swap")


def _defined(gate: Gate, defined: dict[str, str], taken: set[str]) -> str:
    """The gate's name in OpenQASM 2, which is not `taken`. `defined`: name -> definition, which is added to."""
    controls, targets, negative = gate
    n, signs = len(controls), "".join("pn"[line in negative] for line in controls)
    name = _NAMES.get((n, len(targets)))
    if name is not None and not negative:
        return name
    c = [f"c{k}" for k in range(n)]
    if name is not None:
        inner = [f"{name} {', '.join([*c, 'a', 'b'][: n + len(targets)])};"]
    elif (n + 1, 1) in _NAMES and len(targets) == 2:
        # Exchange of a and b: CNOT, the exchange's controls added to a CNOT the other way, CNOT.
        inner = ["cx b, a;", f"{_NAMES[n + 1, 1]} {', '.join(c)}, a, b;", "cx b, a;"]
    else:
        most = max(controls for controls, _ in _NAMES)
        message = f"a gate has {n} controls, and OpenQASM 2 has gates of {most} at most"
        raise InputError(Diagnostic("RG1408", message))
    flips = [f"x {line};" for line, sign in zip(c, signs, strict=True) if sign == "n"]
    word = f"{'x' if len(targets) == 1 else 'swap'}_{signs}"
    while word in taken:
        word += "_"
    operands = ", ".join([*c, "a", "b"][: n + len(targets)])
    defined[word] = f"gate {word} {operands} {{ {' '.join([*flips, *inner, *flips])} }}"
    return word


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_KEYWORDS = _words(
    "OPENQASM include defcalgrammar def cal defcal gate opaque extern box let break continue if else end "
    "return for while in switch case default pragma input output const readonly mutable qreg qubit creg "
    "bool bit int uint float angle complex array void duration stretch gphase inv pow ctrl negctrl "
    "durationof delay reset measure barrier true false im pi tau euler sin cos tan arcsin arccos arctan "
    "exp ln sqrt log ceiling floor mod popcount rotl rotr real imag sizeof U CX"
)
#: version -> the gates of its library that are not classical
_OTHER_GATES = {
    3: _words("p y z h s sdg t tdg sx rx ry rz cy cz cp crx cry crz ch cu phase cphase id u1 u2 u3"),
    2: _words(
        "u0 u u1 u2 u3 id y z h s sdg t tdg rx ry rz sx sxdg cz cy ch crx cry crz cu1 cp cu3 csx cu p rxx rzz "
        "rccx rc3x c3sqrtx"
    ),
}
#: words that name no register: those of the language, and gates of its libraries
_RESERVED = _KEYWORDS | _OTHER_GATES[2] | _OTHER_GATES[3] | _GATES.keys() | _GATES_2.keys()
#: version -> the names that registers may have
_IDENTIFIER = {3: re.compile(r"[A-Za-z_][A-Za-z0-9_]*"), 2: re.compile(r"[a-z][A-Za-z0-9_]*")}
_LETTERS = re.compile(r"[A-Za-z0-9_]+")


def _core(word: str) -> str:
    """The word without all `q_` at its beginning."""
    return re.sub(r"^(?:q_)+", "", word)


def _prefixed(word: str, version: int) -> bool:
    """Whether `q_` is written before the word, which has letters, digits and `_` only."""
    core = _core(word)
    return core in _RESERVED or not _IDENTIFIER[version].fullmatch(core)


def _escaped(word: str, version: int) -> str:
    """The word as an identifier. `_unescaped` is the inverse.

    A word that is reserved, or begins with a digit, has `q_` before it. Other signs are written `_5b_`, by their numbers,
    and `_` as `__`, behind `q__`.
    """
    core = _core(word)
    if not _LETTERS.fullmatch(word) or not core or core[0] == "_":
        letters = (
            "__" if sign == "_" else sign if _LETTERS.fullmatch(sign) else f"_{ord(sign):x}_" for sign in word
        )  # fmt: skip
        return "q__" + "".join(letters)
    return f"q_{word}" if _prefixed(word, version) else word


def _unescaped(name: str, version: int) -> str:
    """The word that is written as this identifier."""
    if name.startswith("q__"):
        word = re.sub(r"__|_([0-9a-f]{1,6})_", lambda m: chr(int(m[1], 16) % 0x110000) if m[1] else "_", name[3:])
        return word if _escaped(word, version) == name else name
    return name[2:] if name.startswith("q_") and _prefixed(name, version) else name


def _number(name: str) -> int:
    digits = name.rpartition("_")[2]
    return int(digits) if digits.isdecimal() else 0


class _Body(NamedTuple):
    """The gates of one word, on lines that are numbered from 0."""

    lines: int
    gates: tuple[Gate, ...]


def _merged(gates: Sequence[Gate]) -> tuple[Gate, ...]:
    """A gate between X gates on its controls as one gate, with negative controls; other gates as they are."""
    count = len(gates) // 2
    flips, middle = gates[:count], gates[count : count + 1]
    low = {gate.targets[0] for gate in flips if not gate.controls and len(gate.targets) == 1}
    if len(gates) % 2 == 0 or len(low) != count or sorted(flips) != sorted(gates[count + 1 :]):
        return tuple(gates)
    (gate,) = middle
    if not low <= {*gate.controls}:
        return tuple(gates)
    return (gate._replace(negative=tuple(c for c in gate.controls if (c in low) != (c in gate.negative))),)


#: operators of expressions of constants -> how strongly they bind; a sign binds less than a power
_OPERATORS = {"|": 0, "^": 1, "&": 2, "<<": 3, ">>": 3, "+": 4, "-": 4, "*": 5, "/": 5, "%": 5, "**": 7}
_UNARY = 6
_MOST_NESTED = 60


def _combined(operator: str, x: int, y: int) -> int | None:
    """The value of x operator y; None where it has none. Quotients are rounded to 0, as in C."""
    match operator:
        case "|" | "^" | "&":
            return x | y if operator == "|" else x ^ y if operator == "^" else x & y
        case "<<" | ">>":
            return None if not 0 <= y < 64 else x << y if operator == "<<" else x >> y
        case "+" | "-" | "*":
            return x + y if operator == "+" else x - y if operator == "-" else x * y
        case "/" | "%":
            if not y:
                return None
            quotient = abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
            return quotient if operator == "/" else x - quotient * y
        case _:
            return x**y if 0 <= y < 64 else None


class _QasmReader:
    def __init__(self, text: str, file: str) -> None:
        self.file, self.rows, self.text = file, text.split("\n"), text
        self.tokens = [
            m for m in _TOKEN.finditer(text) if not m[0].isspace() and not m[0].startswith(("//", "/*"))
        ]  # fmt: skip
        self.at = 0
        self.registers: dict[str, list[int]] = {}
        self.names: list[str] = []
        self.known: set[str] = set()
        self.constants: dict[int, int] = {}
        self.gates: list[Gate] = []
        self.used: set[int] = set()
        self.definitions: dict[str, _Body] = {}
        self.version, self.known_gates = 3, _GATES
        #: constants, and variables of the loops around the position
        self.values: dict[str, int] = {}
        #: passes of loops so far, and how many loops and parentheses are open
        self.passes = self.depth = 0
        #: whether the position is in an exponent, whose quotients are exact: `pow(1/2) @ x` is a root of x
        self.exact = False
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

    def nested(self) -> None:
        self.depth += 1
        if self.depth > _MOST_NESTED:
            raise self.fault(f"loops and parentheses are nested deeper than {_MOST_NESTED}")

    def integer(self, least: int = 0) -> int:
        """The value of an expression of constants, whose operators bind at least so strongly."""
        self.nested()
        if self.accept("("):
            value = self.integer()
            self.take(r"\)", "`)`")
        elif self.token in ("-", "+"):
            sign = -1 if self.token == "-" else 1
            self.at += 1
            value = sign * self.integer(_UNARY)
        elif self.token in self.values:
            value = self.values[self.token]
            self.at += 1
        elif re.fullmatch("[0-9]{1,18}", self.token):
            value = int(self.token)
            self.at += 1
        else:
            raise self.fault("an integer is missing here: a number, a constant or a variable of a loop")
        while (strength := _OPERATORS.get(self.token, -1)) >= least:
            at, operator = self.at, self.token
            self.at += 1
            # Powers are grouped from the right.
            right = self.integer(strength + (operator != "**"))
            found = _combined(operator, value, right)
            if found is None or not -(1 << 63) <= found < 1 << 63:
                self.at = at
                raise self.fault(f"`{operator}` has no value of 64 bits here")
            if self.exact and operator == "/" and found * right != value:
                self.at = at
                raise self.fault(f"the power {value}/{right} is no integer: a root of a gate is not classical")
            value = found
        self.depth -= 1
        return value

    def type(self) -> tuple[int, int]:
        """The least and the largest value of a type: `int`, `uint`, with a width of their own or with 32 bits."""
        signed = self.take("u?int", "the type int or uint") == "int"
        width = 32
        if self.accept("["):
            width = self.integer()
            if not 0 < width <= 64:
                self.at -= 1
                raise self.fault("integers have 1 to 64 bits")
            self.take(r"\]", "`]`")
        return (-(1 << width - 1), (1 << width - 1) - 1) if signed else (0, (1 << width) - 1)

    def new_name(self, noun: str) -> str:
        name = self.take(r"[A-Za-z_]\w*", noun)
        if name in self.registers or name in self.definitions or name in _RESERVED:
            self.at -= 1
            raise self.fault(f"`{name[:40]}` has a meaning already")
        return name

    def constant(self, scope: set[str]) -> None:
        """`const int n = 4`"""
        self.at += 1
        low, high = self.type()
        name = self.new_name("the name of the constant")
        if name in scope:
            self.at -= 1
            raise self.fault(f"`{name[:40]}` has a meaning already")
        self.take("=", "`=`")
        at, value = self.at, self.integer()
        if not low <= value <= high:
            self.at = at
            raise self.fault(f"the value is {value}, and the type has {low} to {high}")
        self.values[name] = value
        scope.add(name)

    def loop(self) -> None:
        """`for int i in [0:3] { … }`, or over `{0, 2, 5}`; with a statement in place of the block, too."""
        start = self.at
        self.at += 1
        low, high = self.type()
        name = self.new_name("the variable of the loop")
        self.take("in", "`in`")
        passes: Sequence[int]
        if self.accept("{"):
            several = [self.integer()]
            while self.accept(","):
                several.append(self.integer())
            self.take(r"\}", "`}`")
            passes = several
        else:
            self.take(r"\[", "`[` or `{`")
            passes = self.range(None)
        self.count_passes(len(passes) + 1, start)
        if passes and not low <= min(passes) <= max(passes) <= high:
            self.at = start
            raise self.fault(f"the values are {min(passes)} to {max(passes)}, and the type has {low} to {high}")
        self.nested()
        begin, outer = self.at, self.values
        for value in passes:
            self.at, self.values = begin, {**outer, name: value}
            self.block()
        self.values = outer
        self.depth -= 1
        if not passes:
            self.skip()

    def count_passes(self, number: int, start: int) -> None:
        self.passes += number
        if self.passes > _MOST_PASSES:
            self.at = start
            raise self.fault(f"the loops have more than {_MOST_PASSES} passes and statements")

    def block(self) -> None:
        """The statements of a loop."""
        if not self.accept("{"):
            self.statement(set())
            return
        scope: set[str] = set()
        while not self.accept("}"):
            self.count_passes(1, self.at)
            self.statement(scope)

    def statement(self, scope: set[str]) -> None:
        """A statement that is allowed in a loop. `scope`: the constants of the block so far."""
        match self.token:
            case "for":
                self.loop()
                return
            case "const":
                self.constant(scope)
            case "reset" if not self.inside:
                self.reset()
            case "barrier":
                self.barrier()
            case _:
                self.gate()
        self.take(";", "`;`")

    def skip(self) -> None:
        """Go behind a statement or a block, of which nothing is executed."""
        while self.token == "for":
            while self.token and self.token != "in":
                self.at += 1
            self.at += 1
            self.brackets()
        if self.token == "{":
            self.brackets()
            return
        while self.token and self.token != ";":
            self.at += 1
        self.take(";", "`;`")

    def brackets(self) -> None:
        """Go behind the bracket that closes the next one."""
        depth = 0
        while self.token:
            depth += (self.token in "{[") - (self.token in "}]")
            self.at += 1
            if not depth:
                return
        raise self.fault("a bracket is not closed")

    def range(self, size: int | None) -> Sequence[int]:
        """The numbers of `a:b]` or `a:step:b]`, both ends included, or of `a]`. Places of a register have a size, and
        −1 is the last."""
        at = self.at
        ends = [self.integer()]
        while len(ends) < 3 and self.accept(":"):
            ends.append(self.integer())
        self.take(r"\]", "`]`")
        first, step, last = ends[0], ends[1] if len(ends) == 3 else 1, ends[-1]
        if size is not None:
            if not -size <= min(first, last) <= max(first, last) < size:
                self.at = at
                raise self.fault(f"the register has the bits 0 to {size - 1}")
            first, last = first % size, last % size
        elif len(ends) == 1:
            self.at = at
            raise self.fault("a loop is over `[first:last]`")
        if not step:
            self.at = at
            raise self.fault("the step is 0")
        if size is None and (last - first) // step > _MOST_PASSES:
            self.at = at
            raise self.fault(f"the loop has more than {_MOST_PASSES} passes")
        found = range(first, last + (1 if step > 0 else -1), step)
        if size is not None and not found:
            self.at = at
            raise self.fault("no bit is in this range")
        return found

    def read(self) -> Netlist:
        self.take("OPENQASM", "`OPENQASM 3.0;`")
        if self.token not in ("2.0", "3", "3.0", "3.1"):
            raise self.fault("the version is 2.0 or 3.0")
        self.version = int(self.token[0])
        library = "qelib1" if self.version == 2 else "stdgates"
        self.known_gates = _GATES | (_GATES_2 if self.version == 2 else {})
        self.at += 1
        self.take(";", "`;`")
        scope: set[str] = set()
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
                case "for" | "const" if self.version == 2:
                    raise self.fault("OpenQASM 2 has no loops and no constants")
                case _:
                    self.statement(scope)
                    continue
            self.take(";", "`;`")
        if not self.names:
            raise self.fault("the netlist declares no qubits")
        return Netlist(tuple(self.names), tuple(self.gates), self.constants)

    def size(self) -> int:
        """The size of a register, behind `[`."""
        at, size = self.at, self.integer()
        if not 0 < size <= MOST_LINES - len(self.names):
            self.at = at
            raise self.fault(f"a netlist has from 1 to {MOST_LINES} lines")
        self.take(r"\]", "`]`")
        return size

    def declaration(self) -> None:
        self.at += 1
        single = not self.accept("[")
        size = 1 if single else self.size()
        self.name_lines(self.take(r"[A-Za-z_]\w*", "the name of a register"), size, self.at - 1, single=single)

    def register(self) -> None:
        """`qreg q[3]`, as OpenQASM 2 writes it. There, a register of one bit stands for a single qubit."""
        self.at += 1
        at, name = self.at, self.take(r"[A-Za-z_]\w*", "the name of a register")
        self.take(r"\[", "`[`")
        size = self.size()
        self.name_lines(name, size, at, single=size == 1 and self.version == 2)

    def name_lines(self, name: str, size: int, at: int, *, single: bool = False) -> None:
        """Add the lines of a register whose name stands at a token; a single qubit has the name itself."""
        if name in self.registers or name in self.values:
            self.at = at
            raise self.fault(f"`{name[:40]}` is declared twice")
        first = len(self.names)
        self.registers[name] = list(range(first, first + size))
        word = _unescaped(name, self.version)
        found = [word] if single else [f"{word}_{k}" for k in range(size)]
        if not self.known.isdisjoint(found):
            self.at = at
            raise self.fault(f"two lines are called `{next(line for line in found if line in self.known)[:40]}`")
        self.known.update(found)
        self.names += found

    def lines(self) -> list[int]:
        """The lines of an operand: of a bit, of a register, or of a part of it."""
        if self.token not in self.registers:
            raise self.fault(f"`{self.token[:40]}` is no register")
        found = self.registers[self.token]
        self.at += 1
        if self.inside or not self.accept("["):
            return found
        return [found[k] for k in self.range(len(found))]

    def reset(self) -> None:
        start = self.at
        self.at += 1
        found = self.lines()
        if self.used.intersection(found):
            self.at = start
            raise self.fault("a line is reset after its first gate, which would lose a bit")
        self.constants |= dict.fromkeys(found, 0)

    def barrier(self) -> None:
        """`barrier q, r;`, which no gate crosses in a compiler. It changes no bit."""
        self.at += 1
        while self.token != ";":
            self.lines()
            if not self.accept(","):
                return

    def gate(self) -> None:
        start = self.at
        polarity: list[bool] = []
        times = 1
        while self.token in ("ctrl", "negctrl", "inv", "pow"):
            if self.token in ("inv", "pow"):
                times *= self.power()
                continue
            positive, many = self.token == "ctrl", 1
            self.at += 1
            if self.accept("("):
                many = self.integer()
                self.take(r"\)", "`)`")
            if many < 1:
                raise self.fault(f"{many} controls are fewer than one")
            if many > (len(self.registers) if self.inside else len(self.names)):
                raise self.fault(f"{many} controls are more than there are lines")
            polarity += [positive] * many
            self.take("@", "`@`")
        body = self.body()
        if abs(times) * max(len(body.gates), 1) > _MOST_GATES:
            self.at = start
            raise self.fault(f"the gates stand for more than {_MOST_GATES} gates")
        # Each gate undoes itself, so the inverse has them in the opposite order.
        body = body._replace(gates=(body.gates if times > 0 else body.gates[::-1]) * abs(times))
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

    def power(self) -> int:
        """`inv @` is −1, and `pow(k) @` the integer k."""
        sign = self.token == "inv"
        self.at += 1
        if sign:
            self.take("@", "`@`")
            return -1
        self.take(r"\(", "`(`")
        self.exact = True
        exponent = self.integer()
        self.exact = False
        self.take(r"\)", "`)`")
        self.take("@", "`@`")
        return exponent

    def body(self) -> _Body:
        """The gates of the next word, on lines that are numbered from 0."""
        own, known = self.definitions.get(self.token), self.known_gates.get(self.token)
        if own is None and known is None:
            defined = f", {', '.join(self.definitions)}" if self.definitions else ""
            raise self.fault(
                f"`{self.token[:40]}` is no gate of the classical subset: "
                f"{', '.join(self.known_gates)}{defined[:200]}, ctrl @, negctrl @, inv @, pow(k) @"
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
        negative = tuple(line for line, positive in zip(controls, polarity, strict=True) if not positive)
        for gate in body.gates:
            inner, targets, low = on_lines(gate, operands)
            self.gates.append(Gate(controls + inner, targets, negative + low))

    def define(self) -> None:
        """`gate NAME a, b { … }`: gates on the lines of its operands."""
        self.at += 1
        name = self.take(r"[A-Za-z_]\w*", "the name of a gate")
        library = self.known_gates.keys() | _OTHER_GATES[self.version] | _KEYWORDS
        if name in self.definitions or name in library or name in self.values or name in self.registers:
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
        scope: set[str] = set()
        values, self.values = self.values, {k: v for k, v in self.values.items() if k not in operands}
        while not self.accept("}"):
            self.statement(scope)
        self.values = values
        self.definitions[name] = _Body(len(operands), _merged(self.gates))
        self.registers, self.gates, self.used = outside
        self.inside = False


def read_qasm(text: str, file: str = "<netlist>") -> Netlist:
    """Read OpenQASM 2 and 3: x, cx, ccx, swap, cswap, gates defined by them, and their forms under ctrl, negctrl,
    inv and pow; `const` and `for` over integers; `reset` before the first gate of a line; `barrier`, which changes
    nothing. A register, or a part `q[0:2]` of it, as an operand stands for each of its bits.

    Raises InputError RG1401 with the place.
    """
    return _QasmReader(text, file).read()
