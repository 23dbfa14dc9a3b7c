"""Hardware executed on symbols: the netlist that becomes Verilog, cycle by cycle, with words that are unknown.

What is known stays an int, so that control, which depends on no operand, is executed as in any simulator; what is not is a
term of the solver. A netlist here is Amaranth's own, the one its back ends print.

    simulation = Symbolic(core)
    simulation.step(run=1)
    solver.check(simulation.peek(core.pc) != 5)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import z3
from amaranth.hdl import Fragment, Signal, ValueCastable
from amaranth.hdl import _ir as ir
from amaranth.hdl import _nir as nir
from amaranth.lib import wiring
from retrograd.hdl import terms
from retrograd.hdl.terms import Word

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
        return whole >> net.bit & 1 if isinstance(whole, int) else terms.part(whole, net.bit, 1)

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
                word = whole >> low & ((1 << width) - 1) if isinstance(whole, int) else terms.part(whole, low, width)
            pieces.append((word, width))
            if isinstance(word, int):
                out |= word << at
            at += width
        if all(isinstance(word, int) for word, _ in pieces):
            return out
        return terms.concatenated(pieces)

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
                return terms.apply(cell.operator, width, [len(value) for value in cell.inputs], words)
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
                found = terms.disjunction(found, terms.bit(word & mask == want))
        return found

    def _priority(self, cell: Any) -> Word:
        free = self._net(cell.en)
        bits: list[tuple[Word, int]] = []
        for net in cell.inputs:
            bit = self._net(net)
            bits.append((terms.conjunction(free, bit), 1))
            free = terms.conjunction(free, terms.negation(bit))
        if all(isinstance(bit, int) for bit, _ in bits):
            return sum(bit << i for i, (bit, _) in enumerate(bits))
        return terms.concatenated(bits)

    def _assigned(self, cell: Any) -> Word:
        width = len(cell.default)
        word = self._gather(cell.default)
        for assignment in cell.assignments:
            condition = self._net(assignment.cond)
            if isinstance(condition, int) and not condition:
                continue
            start, size = assignment.start, len(assignment.value)
            parts = [(terms.piece_of(word, 0, start), start), (self._gather(assignment.value), size)]
            parts.append((terms.piece_of(word, start + size, width - start - size), width - start - size))
            put = terms.joined([part for part in parts if part[1]])
            word = terms.choice(condition, put, word, width)
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
