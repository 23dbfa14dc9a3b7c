"""The logic of a component as AND and XOR gates on single lines, evaluated for many states at once.

    lines:  0, 1, the inputs, the bits of the state, then a line for each gate
    column: the bits of one line in all states, as an integer

The state is the flip-flops and the words that synchronous read ports hold. Memories are not lines: the caller reads and writes them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from graphlib import TopologicalSorter
from typing import Any

from amaranth.hdl import Signal
from amaranth.lib import wiring
from retrograd.hdl.netlist import netlist_of, nir

Line = int
FALSE: Line = 0
TRUE: Line = 1
Lines = list[Line]


@dataclass(frozen=True)
class ReadPort:
    """A read port of a memory; its word is at `first` among the bits of the state."""

    memory: int
    first: int
    width: int
    address: Lines
    enable: Line


@dataclass(frozen=True)
class WritePort:
    """A write port of a memory."""

    memory: int
    address: Lines
    data: Lines
    enable: Line


class BitNetlist:
    """The gates of a component. Raises ValueError for cells that cannot be expressed by gates."""

    def __init__(self, component: wiring.Component) -> None:
        self._netlist = netlist_of(component)
        cells = self._netlist.cells
        #: cell -> the lines of its output
        self._lines: dict[int, Lines] = {}
        #: (whether it is an AND gate, its lines); the output of gate i is line `first_gate` + i
        self.gates: list[tuple[bool, Line, Line]] = []
        #: path of the submodule that each gate belongs to; of several, the first
        self.gate_owners: list[str] = []
        self._owner = ""
        self._made: dict[tuple[bool, Line, Line], Line] = {}
        size = sum(width for _, width in cells[0].ports_i.values())
        offset = min((start for start, _ in cells[0].ports_i.values()), default=0)
        #: the line of input bit 0, and of bit 0 of the state
        self.inputs, self.first_state = range(2, 2 + size), 2 + size
        self._lines[0] = [FALSE] * offset + list(self.inputs)
        #: path of the submodule that each bit of the state belongs to, and its value after reset
        self.owners: list[str] = []
        self.initial: list[int] = []
        self._places: dict[int, int] = {}
        for index, cell in enumerate(cells):
            if isinstance(cell, nir.FlipFlop | nir.SyncReadPort):
                self._add_state(index, cell)
        self.first_gate = self.first_state + len(self.owners)
        self._add_gates()
        #: next value of each bit of the state that is a flip-flop -> its line
        self.next: dict[int, Line] = {}
        self.reads: list[ReadPort] = []
        self.writes: list[WritePort] = []
        #: memory -> its name, width and first words
        self.memories: dict[int, tuple[str, int, Sequence[int]]] = {}
        for index, cell in enumerate(cells):
            match cell:
                case nir.FlipFlop():
                    first = self._places[index]
                    self.next |= {first + k: line for k, line in enumerate(self._of(cell.data))}
                case nir.SyncReadPort():
                    if cell.transparent_for:
                        raise ValueError("a transparent read port")
                    place, address = self._places[index], self._of(cell.addr)
                    self.reads.append(ReadPort(cell.memory, place, cell.width, address, self._line(cell.en)))
                case nir.SyncWritePort():
                    (enable,) = {*cell.en}
                    address, data = self._of(cell.addr), self._of(cell.data)
                    self.writes.append(WritePort(cell.memory, address, data, self._line(enable)))
                case nir.Memory():
                    path = ".".join((*self._netlist.modules[cell.module_idx].name[1:], cell.name))
                    self.memories[index] = path, cell.width, cell.init

    def _add_state(self, index: int, cell: Any) -> None:
        width = cell.width if isinstance(cell, nir.SyncReadPort) else len(cell.data)
        first = self._places[index] = len(self.owners)
        self.owners += [".".join(self._netlist.modules[cell.module_idx].name[1:])] * width
        init = 0 if isinstance(cell, nir.SyncReadPort) else cell.init
        self.initial += [init >> k & 1 for k in range(width)]
        self._lines[index] = [self.first_state + first + k for k in range(width)]

    def _add_gates(self) -> None:
        cells = self._netlist.cells
        kept = nir.Top | nir.FlipFlop | nir.SyncReadPort | nir.SyncWritePort | nir.Memory
        behind = {
            index: set() if isinstance(cell, kept) else {net.cell for net in cell.input_nets() if net.is_cell}
            for index, cell in enumerate(cells)
        }
        for index in TopologicalSorter(behind).static_order():
            if not isinstance(cells[index], kept):
                self._owner = ".".join(self._netlist.modules[cells[index].module_idx].name[1:])
                self._lines[index] = self._gates_of(cells[index])

    # ---------------------------------------------------------------- lines of signals

    def signal(self, signal: Signal) -> Lines:
        """The lines of a signal, the lowest bit first."""
        return self._of(self._netlist.signals[signal])

    def _line(self, net: Any) -> Line:
        if net.is_const:
            return TRUE if net.const else FALSE
        return self._lines[int(net.cell)][int(net.bit)]

    def _of(self, value: Any) -> Lines:
        return [self._line(net) for net in value]

    # ---------------------------------------------------------------- gates

    def _gate(self, both: bool, x: Line, y: Line) -> Line:
        key = (both, min(x, y), max(x, y))
        if key not in self._made:
            self._made[key] = self.first_gate + len(self.gates)
            self.gates.append(key)
            self.gate_owners.append(self._owner)
        return self._made[key]

    def _and(self, x: Line, y: Line) -> Line:
        if FALSE in (x, y):
            return FALSE
        if x in (TRUE, y):
            return y
        return x if y == TRUE else self._gate(True, x, y)

    def _xor(self, x: Line, y: Line) -> Line:
        if x == y:
            return FALSE
        if x == FALSE:
            return y
        return x if y == FALSE else self._gate(False, x, y)

    def _not(self, x: Line) -> Line:
        return TRUE - x if x <= TRUE else self._xor(x, TRUE)

    def _or(self, x: Line, y: Line) -> Line:
        return self._not(self._and(self._not(x), self._not(y)))

    def _mux(self, condition: Line, x: Line, y: Line) -> Line:
        return self._xor(y, self._and(condition, self._xor(x, y)))

    def _muxes(self, condition: Line, x: Lines, y: Lines) -> Lines:
        return [self._mux(condition, a, b) for a, b in zip(x, y, strict=True)]

    def _folded(self, operator: Callable[[Line, Line], Line], first: Line, lines: Lines) -> Line:
        for line in lines:
            first = operator(first, line)
        return first

    def _sum(self, x: Lines, y: Lines, carry: Line) -> tuple[Lines, Line]:
        """x + y + carry, and the carry out."""
        out = []
        for a, b in zip(x, y, strict=True):
            differ = self._xor(a, carry)
            out.append(self._xor(differ, b))
            carry = self._xor(carry, self._and(differ, self._xor(b, carry)))
        return out, carry

    def _difference(self, x: Lines, y: Lines) -> tuple[Lines, Line]:
        """x − y, and 1 where x ≥ y, unsigned."""
        return self._sum(x, [self._not(line) for line in y], TRUE)

    def _product(self, x: Lines, y: Lines) -> Lines:
        out = [FALSE] * len(x)
        for k, bit in enumerate(y):
            row = [self._and(bit, line) for line in x[: len(x) - k]]
            out[k:], _ = self._sum(out[k:], row, FALSE)
        return out

    def _equal(self, x: Lines, y: Lines) -> Line:
        return self._not(self._folded(self._or, FALSE, [self._xor(a, b) for a, b in zip(x, y, strict=True)]))

    def _shifted(self, x: Lines, amount: Lines, left: bool, fill: Line) -> Lines:
        out = x[::-1] if left else list(x)
        for k, bit in enumerate(amount):
            distance = min(1 << k, len(out))
            out = self._muxes(bit, [*out[distance:], *[fill] * distance], out)
        return out[::-1] if left else out

    def _gates_of(self, cell: Any) -> Lines:
        match cell:
            case nir.Operator():
                return self._operated(cell.operator, [self._of(value) for value in cell.inputs])
            case nir.Matches():
                word = self._of(cell.value)
                found = [self._matching(word, pattern[::-1]) for pattern in cell.patterns]
                return [self._folded(self._or, FALSE, found)]
            case nir.PriorityMatch():
                free, out = self._line(cell.en), []
                for bit in self._of(cell.inputs):
                    out.append(self._and(free, bit))
                    free = self._and(free, self._not(bit))
                return out
            case nir.AssignmentList():
                out = self._of(cell.default)
                for assigned in cell.assignments:
                    value, start = self._of(assigned.value), assigned.start
                    piece = slice(start, start + len(value))
                    out[piece] = self._muxes(self._line(assigned.cond), value, out[piece])
                return out
            case nir.Part():
                word, amount = self._of(cell.value), self._of(cell.offset)
                fill = word[-1] if cell.value_signed else FALSE
                for k, bit in enumerate(amount):
                    distance = min(cell.stride << k, len(word))
                    word = self._muxes(bit, [*word[distance:], *[fill] * distance], word)
                return (word + [fill] * cell.width)[: cell.width]
        raise ValueError(f"a cell {type(cell).__name__}")

    def _matching(self, word: Lines, pattern: str) -> Line:
        wanted = [
            line if want == "1" else self._not(line) for line, want in zip(word, pattern, strict=True) if want != "-"
        ]
        return self._folded(self._and, TRUE, wanted)

    def _operated(self, operator: str, words: list[Lines]) -> Lines:
        x, y = words[0], words[1] if len(words) > 1 else []
        sign = operator[0] in "su" and len(operator) > 1
        plain = operator[1:] if sign else operator
        if operator[0] == "s" and plain in ("<", "<=", ">", ">="):
            x, y = ([*word[:-1], self._not(word[-1])] for word in (x, y))
        match plain:
            case "~":
                return [self._not(line) for line in x]
            case "-" if not y:
                return self._difference([FALSE] * len(x), x)[0]
            case "-":
                return self._difference(x, y)[0]
            case "+":
                return self._sum(x, y, FALSE)[0]
            case "*":
                return self._product(x, y)
            case "&" | "|" | "^":
                bitwise = {"&": self._and, "|": self._or, "^": self._xor}[plain]
                return [bitwise(a, b) for a, b in zip(x, y, strict=True)]
            case "m":
                return self._muxes(x[0], y, words[2])
            case "b" | "r|":
                return [self._folded(self._or, FALSE, x)]
            case "r&":
                return [self._folded(self._and, TRUE, x)]
            case "r^":
                return [self._folded(self._xor, FALSE, x)]
            case "==":
                return [self._equal(x, y)]
            case "!=":
                return [self._not(self._equal(x, y))]
            case ">=":
                return [self._difference(x, y)[1]]
            case "<":
                return [self._not(self._difference(x, y)[1])]
            case "<=":
                return [self._difference(y, x)[1]]
            case ">":
                return [self._not(self._difference(y, x)[1])]
            case "<<" | ">>":
                return self._shifted(x, y, plain == "<<", x[-1] if operator[0] == "s" else FALSE)
        raise ValueError(f"an operator {operator}")

    # ---------------------------------------------------------------- values

    def evaluate(self, inputs: Sequence[int], state: Sequence[int], ones: int) -> list[int]:
        """The column of each line. `ones`: a 1 in each state."""
        v = [0, ones, *inputs, *state]
        put = v.append
        for both, x, y in self.gates:
            put(v[x] & v[y] if both else v[x] ^ v[y])
        return v
