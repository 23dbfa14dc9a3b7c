"""Hardware executed on symbols: the netlist that becomes Verilog, cycle by cycle, with words that are unknown.

What is known stays an int, so that control, which depends on no operand, is executed as in any simulator; what is not is a
term of the solver. A netlist here is Amaranth's own, the one its back ends print.

    simulation = Symbolic(core)
    simulation.step(run=1)
    solver.check(simulation.peek(core.pc) != 5)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import z3
from amaranth.hdl import Fragment, Signal, ValueCastable
from amaranth.hdl import _ir as ir
from amaranth.hdl import _nir as nir
from amaranth.lib import wiring

#: a word: known, or a term of bits
Word = Any
#: what takes a place of a computed word: the word itself, or another
Hook = Callable[[Word], Word]

_COMBINATIONAL = (nir.Operator, nir.Part, nir.Matches, nir.PriorityMatch, nir.AssignmentList)


class Symbolic:
    """A component with a clock; its state begins as after a reset.

    `roots`: the signals that matter; what they never depend on is not executed.
    """

    def __init__(self, component: wiring.Component, roots: Sequence[Signal]) -> None:
        ports = []
        for path, member, value in component.signature.flatten(component):
            direction = ir.PortDirection.Input if member.flow == wiring.In else ir.PortDirection.Output
            found = value.as_value() if isinstance(value, ValueCastable) else value
            ports.append(("__".join(map(str, path)), found, direction))
        self.netlist = ir.build_netlist(Fragment.get(component, None), ports=ports)
        self.cells: list[Any] = self.netlist.cells
        #: cell -> its output in this cycle
        self.words: dict[int, Word] = {}
        self.inputs: dict[str, Word] = {}
        self._hooks: dict[int, Hook] = {}
        self.memories: dict[int, list[Word]] = {}
        self._needed, self._order = self._cone(roots)
        self._names: dict[str, int] = {}
        self._plans: dict[int, list[tuple[int | None, int, int]]] = {}
        for index in self._needed:
            match self.cells[index]:
                case nir.Memory() as cell:
                    self._names[".".join((*self.netlist.modules[cell.module_idx].name[1:], cell.name))] = index
        self.reset()

    def reset(self) -> None:
        """Everything as it was at first, hooks excepted."""
        self.inputs.clear()
        for index in self._needed:
            match self.cells[index]:
                case nir.FlipFlop() as cell:
                    self.words[index] = cell.init
                case nir.Memory() as cell:
                    self.memories[index] = list(cell.init)
                case nir.SyncReadPort():
                    self.words[index] = 0

    def _cone(self, roots: Sequence[Signal]) -> tuple[set[int], list[int]]:
        """The cells that roots and memories depend on, whenever; of them the combinational ones, operands first."""
        writers: dict[int, list[int]] = {}
        for index, cell in enumerate(self.cells):
            if isinstance(cell, nir.SyncWritePort):
                writers.setdefault(cell.memory, []).append(index)
        self._written = {*writers}
        needed: set[int] = set()
        order: list[int] = []
        todo = [net.cell for root in roots for net in self.netlist.signals[root] if net.is_cell]
        while todo:
            at = todo.pop()
            stack = [(at, False)]
            while stack:
                index, done = stack.pop()
                cell = self.cells[index]
                if done:
                    order.append(index)
                    continue
                if index in needed:
                    continue
                needed.add(index)
                below = {net.cell for net in cell.input_nets() if net.is_cell}
                if isinstance(cell, _COMBINATIONAL):
                    stack.append((index, True))
                    stack += [(i, False) for i in below]
                    continue
                # State: what it depends on was there a cycle ago.
                todo += below
                if isinstance(cell, nir.SyncReadPort):
                    todo += [cell.memory, *writers.get(cell.memory, ())]
        return needed, order

    # ---------------------------------------------------------------- places

    def hook(self, signal: Signal, replace: Hook) -> None:
        """Whenever the signal is computed, put what `replace` says in its place."""
        (index,) = {net.cell for net in self.netlist.signals[signal]}
        self._hooks[index] = replace

    def peek(self, signal: Signal) -> Word:
        """The signal's word in this cycle, after `settle`."""
        return self._gather(self.netlist.signals[signal])

    def poke(self, signal: Signal, word: Word) -> None:
        """Change a register that has the name of a signal."""
        (index,) = {net.cell for net in self.netlist.signals[signal]}
        assert isinstance(self.cells[index], nir.FlipFlop)
        self.words[index] = word

    def memory(self, name: str) -> list[Word]:
        """The words of a memory by its path, such as "registers.words"."""
        return self.memories[self._names[name]]

    # ---------------------------------------------------------------- cycles

    def settle(self, **inputs: Word) -> None:
        """Compute this cycle. Inputs keep their last value, at first zero."""
        self.inputs |= inputs
        for index in self._order:
            word = self._compute(self.cells[index])
            hook = self._hooks.get(index)
            self.words[index] = word if hook is None else hook(word)

    def tick(self) -> None:
        """On to the next cycle."""
        after: dict[int, Word] = {}
        writes: list[tuple[list[Word], int, Word]] = []
        for index in self._needed:
            match self.cells[index]:
                case nir.FlipFlop() as cell:
                    after[index] = self._gather(cell.data)
                case nir.SyncReadPort() as cell:
                    enabled = self._net(cell.en)
                    if not isinstance(enabled, int):
                        raise ValueError("a reading that is not known")
                    if enabled:
                        after[index] = self._read(cell)
                case nir.SyncWritePort() as cell:
                    enabled = self._gather(cell.en)
                    if isinstance(enabled, int) and not enabled:
                        continue
                    at = self._gather(cell.addr)
                    if not isinstance(at, int) or not isinstance(enabled, int):
                        raise ValueError("a write that is not known")
                    if at < len(self.memories[cell.memory]):
                        writes.append((self.memories[cell.memory], at, self._gather(cell.data)))
        self.words |= after
        for words, at, word in writes:
            words[at] = word

    def _read(self, cell: Any) -> Word:
        at, words = self._gather(cell.addr), self.memories[cell.memory]
        if isinstance(at, int):
            return words[at] if at < len(words) else 0
        if cell.memory in self._written:
            raise ValueError("an address that is not known")
        # Of a table nothing matters but that it says the same of the same.
        bits = z3.BitVecSort(at.size()), z3.BitVecSort(cell.width)
        return z3.Function(f"table{cell.memory}", *bits)(at)

    # ---------------------------------------------------------------- words

    def _net(self, net: Any) -> Word:
        if net.is_const:
            return net.const
        if net.cell == 0:
            return self._input(net.bit, 1)
        whole = self.words[net.cell]
        return whole >> net.bit & 1 if isinstance(whole, int) else _part(whole, net.bit, 1)

    def _gather(self, value: Any) -> Word:
        """The word that some nets make: pieces of the outputs of cells."""
        key = id(value)
        plan = self._plans.get(key)
        if plan is None:
            plan = []
            for net in value:
                cell, bit = (None, net.const) if net.is_const else (net.cell, net.bit)
                if plan and cell is not None and plan[-1][0] == cell and plan[-1][1] + plan[-1][2] == bit:
                    plan[-1] = (cell, plan[-1][1], plan[-1][2] + 1)
                elif plan and cell is None and plan[-1][0] is None:
                    plan[-1] = (None, plan[-1][1] | bit << plan[-1][2], plan[-1][2] + 1)
                else:
                    plan.append((cell, bit, 1))
            self._plans[key] = plan
        out, at = 0, 0
        pieces: list[tuple[Word, int]] = []
        for cell, low, width in plan:
            if cell is None:
                word: Word = low
            elif cell == 0:
                word = self._input(low, width)
            else:
                whole = self.words[cell]
                word = whole >> low & ((1 << width) - 1) if isinstance(whole, int) else _part(whole, low, width)
            pieces.append((word, width))
            if isinstance(word, int):
                out |= word << at
            at += width
        if all(isinstance(word, int) for word, _ in pieces):
            return out
        return _concatenated(pieces)

    def _input(self, bit: int, width: int) -> Word:
        for name, (start, size) in self.cells[0].ports_i.items():
            if start <= bit < start + size:
                word = self.inputs.get(name, 0)
                return word >> bit - start & ((1 << width) - 1)
        raise KeyError(bit)

    def _compute(self, cell: Any) -> Word:
        match cell:
            case nir.Operator():
                width = cell.width
                words = [self._gather(value) for value in cell.inputs]
                return _operator(cell.operator, width, [len(value) for value in cell.inputs], words)
            case nir.Matches():
                return self._matches(cell)
            case nir.PriorityMatch():
                return self._priority(cell)
            case nir.AssignmentList():
                return self._assigned(cell)
            case nir.Part():
                return self._picked(cell)
        raise TypeError(cell)

    def _matches(self, cell: Any) -> Word:
        word = self._gather(cell.value)
        found: Word = 0
        for pattern in cell.patterns:
            mask = int(pattern.replace("0", "1").replace("-", "0") or "0", 2)
            want = int(pattern.replace("-", "0") or "0", 2)
            if isinstance(word, int):
                if word & mask == want:
                    return 1
            else:
                found = _or(found, _bit(word & mask == want))
        return found

    def _priority(self, cell: Any) -> Word:
        free = self._net(cell.en)
        bits: list[tuple[Word, int]] = []
        for net in cell.inputs:
            bit = self._net(net)
            bits.append((_and(free, bit), 1))
            free = _and(free, _not(bit))
        if all(isinstance(bit, int) for bit, _ in bits):
            return sum(bit << i for i, (bit, _) in enumerate(bits))
        return _concatenated(bits)

    def _assigned(self, cell: Any) -> Word:
        width = len(cell.default)
        word = self._gather(cell.default)
        for assignment in cell.assignments:
            condition = self._net(assignment.cond)
            if isinstance(condition, int) and not condition:
                continue
            new, size, start = self._gather(assignment.value), len(assignment.value), assignment.start
            pieces = [(_slice(word, 0, start, width), start), (new, size), (_slice(word, start + size, width - start - size, width), width - start - size)]  # fmt: skip
            put = _joined([piece for piece in pieces if piece[1]])
            word = _choice(condition, put, word, width)
        return word

    def _picked(self, cell: Any) -> Word:
        word, offset = self._gather(cell.value), self._gather(cell.offset)
        if not isinstance(offset, int):
            raise ValueError("a part whose place is not known")
        width = len(cell.value)
        start = offset * cell.stride
        if isinstance(word, int):
            whole = word - (word >> (width - 1) << width) if cell.value_signed else word
            return whole >> start & ((1 << cell.width) - 1)
        extended = (z3.SignExt if cell.value_signed else z3.ZeroExt)(start + cell.width, word)
        return z3.Extract(start + cell.width - 1, start, extended)


# ---------------------------------------------------------------- operators


def _term(word: Word, width: int) -> Any:
    return z3.BitVecVal(word, width) if isinstance(word, int) else word


def _bit(truth: Any) -> Any:
    return z3.If(truth, z3.BitVecVal(1, 1), z3.BitVecVal(0, 1))


def _part(word: Any, low: int, width: int) -> Word:
    """Bits of a term; known, where they are."""
    if low == 0 and width == word.size():
        return word
    bits = z3.Extract(low + width - 1, low, word)
    if z3.is_app_of(word, z3.Z3_OP_CONCAT):
        bits = z3.simplify(bits)
        return bits.as_long() if z3.is_bv_value(bits) else bits
    return bits


def _concatenated(pieces: Sequence[tuple[Word, int]]) -> Any:
    terms = [_term(word, width) for word, width in reversed(pieces)]
    return terms[0] if len(terms) == 1 else z3.Concat(*terms)


def _joined(pieces: Sequence[tuple[Word, int]]) -> Word:
    if all(isinstance(word, int) for word, _ in pieces):
        out, at = 0, 0
        for word, width in pieces:
            out |= word << at
            at += width
        return out
    return _concatenated(pieces)


def _slice(word: Word, low: int, width: int, of: int) -> Word:
    if width == 0:
        return 0
    return word >> low & ((1 << width) - 1) if isinstance(word, int) else _part(word, low, width)


def _not(bit: Word) -> Word:
    return 1 - bit if isinstance(bit, int) else ~bit


def _and(x: Word, y: Word) -> Word:
    if isinstance(x, int):
        return y if x else 0
    if isinstance(y, int):
        return x if y else 0
    return x & y


def _or(x: Word, y: Word) -> Word:
    if isinstance(x, int):
        return 1 if x else y
    if isinstance(y, int):
        return 1 if y else x
    return x | y


def _choice(condition: Word, x: Word, y: Word, width: int) -> Word:
    if isinstance(condition, int):
        return x if condition else y
    if (isinstance(x, int) and isinstance(y, int) and x == y) or x is y:
        return x
    return z3.If(condition == 1, _term(x, width), _term(y, width))


def _signed(word: int, width: int) -> int:
    return word - (word >> (width - 1) << width)


#: operator -> its meaning on terms of one width
_TERMS: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": lambda x, y: x + y, "-": lambda x, y: x - y, "*": lambda x, y: x * y,
    "&": lambda x, y: x & y, "|": lambda x, y: x | y, "^": lambda x, y: x ^ y,
    "==": lambda x, y: _bit(x == y), "!=": lambda x, y: _bit(x != y),
    "u<": lambda x, y: _bit(z3.ULT(x, y)), "u<=": lambda x, y: _bit(z3.ULE(x, y)),
    "u>": lambda x, y: _bit(z3.UGT(x, y)), "u>=": lambda x, y: _bit(z3.UGE(x, y)),
    "s<": lambda x, y: _bit(x < y), "s<=": lambda x, y: _bit(x <= y),
    "s>": lambda x, y: _bit(x > y), "s>=": lambda x, y: _bit(x >= y),
}  # fmt: skip
_INTS: Mapping[str, Callable[[int, int], int]] = {
    "+": lambda x, y: x + y, "-": lambda x, y: x - y, "*": lambda x, y: x * y,
    "&": lambda x, y: x & y, "|": lambda x, y: x | y, "^": lambda x, y: x ^ y,
    "==": lambda x, y: int(x == y), "!=": lambda x, y: int(x != y),
    "<": lambda x, y: int(x < y), "<=": lambda x, y: int(x <= y),
    ">": lambda x, y: int(x > y), ">=": lambda x, y: int(x >= y),
    "<<": lambda x, y: x << y, ">>": lambda x, y: x >> y,
}  # fmt: skip


def _operator(operator: str, width: int, widths: Sequence[int], words: Sequence[Word]) -> Word:
    if operator == "m":
        return _choice(words[0], words[1], words[2], width)
    mask = (1 << width) - 1
    if len(words) == 1:
        return _unary(operator, mask, widths[0], words[0])
    x, y = words
    if isinstance(x, int) and isinstance(y, int):
        if operator[0] == "s":
            x, y = _signed(x, widths[0]), y if operator == "s>>" else _signed(y, widths[1])
        return _INTS[operator.lstrip("su")](x, y) & mask
    for known, other in ((x, y), (y, x)):
        if operator == "&" and isinstance(known, int) and known in (0, mask):
            return other if known else 0
        if operator in "|^" and isinstance(known, int) and known == 0:
            return other
    if operator in ("<<", "u>>", "s>>"):
        size = max(widths)
        wide = (z3.SignExt if operator[0] == "s" else z3.ZeroExt)(size - widths[0], _term(x, widths[0]))
        by = z3.ZeroExt(size - widths[1], _term(y, widths[1]))
        moved = wide << by if operator == "<<" else z3.LShR(wide, by) if operator == "u>>" else wide >> by
        return z3.Extract(width - 1, 0, moved)
    return _TERMS[operator](_term(x, widths[0]), _term(y, widths[1]))


def _unary(operator: str, mask: int, width: int, x: Word) -> Word:
    known = isinstance(x, int)
    match operator:
        case "~":
            return ~x & mask if known else ~x
        case "-":
            return -x & mask if known else -x
        case "b" | "r|":
            return int(x != 0) if known else _bit(x != 0)
        case "r&":
            return int(x == (1 << width) - 1) if known else _bit(x == (1 << width) - 1)
        case "r^":
            if known:
                return x.bit_count() & 1
            out: Word = 0
            for i in range(width):
                out = z3.Extract(i, i, x) ^ out
            return out
    raise ValueError(operator)
