"""Symbolic execution of hardware: Amaranth's netlist, cycle by cycle, with words that may be unknown.

    hardware = Symbolic(core, [core.pc])
    hardware.settle(run=1)
    hardware.tick()
    hardware.peek(core.pc)

A known word is an int, so control, which depends on no operand, executes as in a simulator. An unknown word is a term. The
netlist is the one that Amaranth's back ends print, from which Verilog is made. Evaluation is lazy: a branch that a known bit does not
select is not computed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from amaranth.hdl import Signal
from amaranth.lib import wiring
from retrograd.hdl.formal import terms
from retrograd.hdl.formal.terms import Term, Word
from retrograd.hdl.netlist import netlist_of, nir

# -----------------------------------------------------------------------------
# Wires: which bits of which cells a list of nets is, and which cells read a cell, without the cells that only copy.
#
#     x assigned unconditionally = x,  x ⊕ 0 = x,  ¬¬x = x,  ¬(x ⊕ 1) = x
#
# In netlists of wide selections most cells are copies, so their evaluation would take most of the time.

#: bits of a cell's output: the cell, the lowest bit, the width; of a constant: None, its word, the width
Part = tuple[int | None, int, int]


class Wires:
    """The connections of these cells. `replaced`: cells whose words are not computed from their inputs alone, which are no copies."""

    def __init__(self, cells: Sequence[Any], replaced: Collection[int]) -> None:
        self._cells = cells
        self._replaced = replaced
        #: offsets of the inputs among all input bits
        self._begins = {start for start, _ in cells[0].ports_i.values()}
        self._parts: dict[Any, list[Part]] = {}
        #: cell -> the cells that read it; all cells, as a signal that no root depends on may be looked at
        self.readers: dict[int, list[int]] = {}
        for index, cell in enumerate(cells):
            for source in {net.cell for net in map(self._driver, cell.input_nets()) if net.is_cell}:
                self.readers.setdefault(source, []).append(index)

    def parts(self, value: Any) -> list[Part]:
        """The parts of a list of nets, the lowest first."""
        # A longer list is kept by the netlist, so its id stays valid.
        key = value if len(value) == 1 else id(value)
        found = self._parts.get(key)
        if found is None:
            self._parts[key] = found = self._of(value)
        return found

    def _of(self, value: Any) -> list[Part]:
        found: list[Part] = []
        for net in map(self._driver, value):
            cell, bit = (None, net.const) if net.is_const else (net.cell, net.bit)
            # All inputs are one cell; a part ends where the next input begins.
            apart = cell == 0 and bit in self._begins
            last = found[-1] if found else None
            if last and cell is not None and not apart and last[0] == cell and last[1] + last[2] == bit:
                found[-1] = (cell, last[1], last[2] + 1)
            elif last and cell is None and last[0] is None:
                found[-1] = (None, last[1] | bit << last[2], last[2] + 1)
            else:
                found.append((cell, bit, 1))
        return found or [(None, 0, 0)]

    def _driver(self, net: Any) -> Any:
        """The net that this one is a mere copy of."""
        source = net
        while source is not None:
            net, source = source, self._copied(source)
        return net

    def _copied(self, net: Any) -> Any:
        """The net that this one copies: by an unconditional assignment, x ⊕ 0, or ¬¬x; else None."""
        if not net.is_cell or net.cell in self._replaced:
            return None
        match self._cells[net.cell]:
            case nir.AssignmentList() as cell:
                source = cell.default[net.bit]
                for one in cell.assignments:
                    if 0 <= net.bit - one.start < len(one.value):
                        source = one.value[net.bit - one.start] if one.cond == nir.Net.from_const(1) else None
                return source
            case nir.Operator(operator="^") as cell:
                return self._other(cell, net.bit, 0)
            case nir.Operator(operator="~") as cell:
                return self._denied(self._driver(cell.inputs[0][net.bit]))
        return None

    def _denied(self, net: Any) -> Any:
        """The net x if this one is ¬x or x ⊕ 1; else None."""
        if not net.is_cell or net.cell in self._replaced:
            return None
        match self._cells[net.cell]:
            case nir.Operator(operator="^") as cell:
                return self._other(cell, net.bit, 1)
            case nir.Operator(operator="~") as cell:
                return cell.inputs[0][net.bit]
        return None

    @staticmethod
    def _other(cell: Any, bit: int, constant: int) -> Any:
        """The other input bit of an operator with this constant; else None."""
        x, y = (value[bit] for value in cell.inputs)
        return x if y == nir.Net.from_const(constant) else y if x == nir.Net.from_const(constant) else None


# -----------------------------------------------------------------------------
# Execution.

#: computed word -> the word that replaces it
Hook = Callable[[Word], Word]


class Symbolic:
    """A component with a clock. Its initial state is that after reset.

    `roots`: signals to observe; cells that they never depend on are not executed. `hooks`: functions that replace the computed word
    of a signal. `given`: functions for signals that are not computed from the hardware, registers or not; cells that only they depend on
    are not executed. `decide(truth)`: True or False if that is known, else None; it decides whether two addresses are equal.
    """

    def __init__(
        self,
        component: wiring.Component,
        roots: Sequence[Signal],
        hooks: Sequence[tuple[Signal, Hook]] = (),
        given: Sequence[tuple[Signal, Callable[[], Word]]] = (),
        decide: Callable[[Term], bool | None] = lambda truth: None,
    ) -> None:
        self.netlist = netlist_of(component)
        self.cells: list[Any] = self.netlist.cells
        self._decide = decide
        #: register or read port -> its word in this cycle
        self.words: dict[int, Word] = {}
        #: combinational cell -> its word in this cycle, once it has been computed; all words that it was computed from are here as well
        self._found: dict[int, Word] = {}
        self.inputs: dict[str, Word] = {}
        self._hooks: dict[int, Hook] = {}
        for signal, hook in hooks:
            self._hooks[self._cell(signal)] = hook
        self._given = {self._cell(signal): word for signal, word in given}
        #: memory -> list of its words; an array term, if an unknown address was written
        self.memories: dict[int, Any] = {}
        self._needed = self._cone(roots)
        #: ports whose word is that of this cycle, by memory
        self._at_once: dict[int, list[int]] = {}
        for index in self._needed:
            match self.cells[index]:
                case nir.AsyncReadPort() as cell:
                    self._at_once.setdefault(cell.memory, []).append(index)
        self._wires = Wires(self.cells, {*self._hooks, *self._given})
        self._answers: dict[int, Hook] = {}
        self._names: dict[str, int] = {}
        for index in self._needed:
            match self.cells[index]:
                case nir.Memory() as cell:
                    path = ".".join((*self.netlist.modules[cell.module_idx].name[1:], cell.name))
                    self._names[path] = index
        self.reset()

    def reset(self) -> None:
        """The state after reset."""
        self.inputs.clear()
        self._found.clear()
        for index in self._needed - self._given.keys():
            match self.cells[index]:
                case nir.FlipFlop() as cell:
                    self.words[index] = cell.init
                case nir.Memory() as cell:
                    self.memories[index] = list(cell.init)
                case nir.SyncReadPort():
                    self.words[index] = 0

    def forget(self, known: Collection[Signal]) -> None:
        """All registers and read ports become unknown, except the ones of the `known` signals."""
        kept = {self._cell(signal) for signal in known}
        for index in self.words.keys() - kept:
            self.words[index] = terms.unknown(f"state{index}", self.width(index))
        self._found.clear()

    def unknown(self, name: str) -> Term:
        """Make the words of a memory unknown, and return them as a term."""
        index = self._names[name]
        cell = self.cells[index]
        self._forget_now(index)
        self.memories[index] = words = terms.memory(name, max(1, (cell.depth - 1).bit_length()), cell.width)
        return words

    def answer(self, name: str, word: Hook) -> None:
        """From now on a read of the memory returns this function of the address."""
        self._answers[self._names[name]] = word

    def _cone(self, roots: Sequence[Signal]) -> set[int]:
        """The cells that the roots depend on, in this cycle or through any number of cycles."""
        writers: dict[int, list[int]] = {}
        for index, cell in enumerate(self.cells):
            if isinstance(cell, nir.SyncWritePort):
                writers.setdefault(cell.memory, []).append(index)
        self._written = {*writers}
        needed: set[int] = set()
        todo = [net.cell for root in roots for net in self.netlist.signals[root] if net.is_cell]
        while todo:
            index = todo.pop()
            if index in needed:
                continue
            needed.add(index)
            if index in self._given:
                continue
            cell = self.cells[index]
            todo += {net.cell for net in cell.input_nets() if net.is_cell}
            if isinstance(cell, nir.SyncReadPort | nir.AsyncReadPort):
                todo += [cell.memory, *writers.get(cell.memory, ())]
        return needed

    def _cell(self, signal: Signal) -> int:
        """The one cell that computes a signal."""
        (index,) = {int(net.cell) for net in self.netlist.signals[signal]}
        return index

    # ---------------------------------------------------------------- locations

    def peek(self, signal: Signal) -> Word:
        """The signal's word in this cycle, after `settle`."""
        return self._gather(self.netlist.signals[signal])

    def poke(self, signal: Signal, word: Word) -> None:
        """Set the register of a signal."""
        index = self._cell(signal)
        assert isinstance(self.cells[index], nir.FlipFlop)
        self.words[index] = word
        self._found.clear()

    def is_register(self, signal: Signal) -> bool:
        """Whether all bits of a signal are one register that is executed."""
        held = {int(net.cell) if net.is_cell else -1 for net in self.netlist.signals[signal]}
        return len(held) == 1 and isinstance(self.cells[min(held)], nir.FlipFlop) and min(held) in self.words

    def memory(self, name: str) -> Any:
        """A memory by its path, such as "registers.words": a list of words, or an array term if it is unknown."""
        return self.memories[self._names[name]]

    def read(self, name: str, at: Word) -> Word:
        """The word of an unknown memory at an address; writes to other addresses are skipped."""
        words = self.memory(name)
        return self._selected(words, self._index(words, at))

    @property
    def stores(self) -> tuple[str, ...]:
        """The paths of all memories."""
        return (*self._names,)

    def put(self, name: str, words: Any) -> None:
        """Set all words of a memory."""
        self._forget_now(self._names[name])
        self.memories[self._names[name]] = words

    def width(self, index: int) -> int:
        """The bits of a register or read port, by its number in `words`."""
        cell = self.cells[index]
        return cell.width if isinstance(cell, nir.SyncReadPort) else len(cell.data)

    def restore(self, words: Mapping[int, Word]) -> None:
        """Set all registers and read ports to words that they had."""
        self.words = dict(words)
        self._found.clear()

    def replace(self, signal: Signal, hook: Hook) -> None:
        """From now on the function replaces the computed word of the cell that drives the signal."""
        self._hooks[self._cell(signal)] = hook
        self._found.clear()
        self._wires = Wires(self.cells, {*self._hooks, *self._given})

    # ---------------------------------------------------------------- cycles

    def settle(self, **inputs: Word) -> None:
        """Begin to evaluate this cycle. Inputs keep their last value, initially zero."""
        changed = any(not _same(word, self.inputs.get(name, 0)) for name, word in inputs.items())
        self.inputs |= inputs
        self._forget_readers([0] if changed else [])

    def tick(self) -> None:
        """On to the next cycle."""
        after: dict[int, Word] = {}
        writes: list[tuple[int, Word, Word, Word]] = []
        for index in self._needed - self._given.keys():
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
                    (enable,) = {*cell.en}
                    enabled = self._net(enable)
                    if not isinstance(enabled, int) or enabled:
                        writes.append((cell.memory, enabled, self._gather(cell.addr), self._gather(cell.data)))
        changed = [index for index, word in after.items() if not _same(word, self.words[index])]
        self.words |= after
        self._forget_readers(changed)
        for memory, enabled, at, word in writes:
            self._write(memory, enabled, at, word)

    def _forget_readers(self, changed: Collection[int]) -> None:
        """Forget the words that were computed from the words of these cells, and from all words that do not come from the hardware."""
        todo = [*changed]
        for index in (*self._hooks, *self._given):
            if self._found.pop(index, None) is not None:
                todo.append(index)
        while todo:
            for index in self._wires.readers.get(todo.pop(), ()):
                if self._found.pop(index, None) is not None:
                    todo.append(index)

    def _forget_now(self, memory: int) -> None:
        """Forget what ports without a clock have read from the memory, and what was computed from it."""
        read = [index for index in self._at_once.get(memory, ()) if self._found.pop(index, None) is not None]
        self._forget_readers(read)

    def _read(self, cell: Any) -> Word:
        at, words = self._gather(cell.addr), self.memories[cell.memory]
        if cell.memory in self._answers:
            return self._answers[cell.memory](at)
        if not isinstance(words, list):
            return self._selected(words, self._index(words, at))
        if isinstance(at, int):
            return words[at] if at < len(words) else 0
        if cell.memory in self._written:
            found: Word = 0
            for number in self._reachable(at, len(words)):
                found = terms.choice(terms.equal(at, number, at.width), words[number], found, cell.width)
            return found
        return self._entry(cell.memory, cell.width, at)

    def entry(self, name: str, at: Word) -> Word:
        """The word of a constant table at an address, as a read gives it."""
        index = self._names[name]
        words = self.memories[index]
        return words[at] if isinstance(at, int) else self._entry(index, self.cells[index].width, at)

    def _entry(self, memory: int, width: int, at: Term) -> Term:
        """A constant table is an uninterpreted function: equal addresses give equal words."""
        return terms.function(f"table{memory}", width, [at])

    def _selected(self, words: Term, at: Term) -> Term:
        """The word at an address: skip the writes to other addresses."""
        while words.operator == "store":
            before, other, word = words.terms
            here = terms.equal(other, at, words.address)
            known = bool(here) if isinstance(here, int) else self._decide(here)
            if known:
                return word
            if known is None:
                break
            words = before
        return terms.selected(words, at)

    def _write(self, memory: int, enabled: Word, at: Word, word: Word) -> None:
        self._forget_now(memory)
        words, width = self.memories[memory], self.cells[memory].width
        if not isinstance(words, list):
            stored = terms.stored(words, self._index(words, at), word)
            self.memories[memory] = terms.choice(enabled, stored, words, width)
        elif isinstance(at, int) and isinstance(enabled, int):
            if at < len(words):
                words[at] = word
        else:
            for number in [at] if isinstance(at, int) else self._reachable(at, len(words)):
                here = terms.conjunction(enabled, 1 if isinstance(at, int) else terms.equal(at, number, at.width))
                words[number] = terms.choice(here, word, words[number], width)

    def _reachable(self, at: Term, depth: int) -> list[int]:
        """The numbers that the known bits of an address allow."""
        return [n for n in range(min(depth, 1 << at.width)) if terms.may_equal(at, terms.term(n, at.width))]

    def _index(self, words: Term, at: Word) -> Term:
        """The address with as many bits as the memory takes."""
        found = terms.term(at, words.address)
        return terms.term(terms.part(found, 0, words.address), words.address)

    # ---------------------------------------------------------------- words

    def _word(self, index: int) -> Word:
        """The output of a cell in this cycle."""
        word = self.words.get(index)
        if word is None:
            word = self._found.get(index)
        if word is None:
            given = self._given.get(index)
            word = self._compute(self.cells[index]) if given is None else given()
            hook = self._hooks.get(index)
            self._found[index] = word = word if hook is None else hook(word)
        return word

    def _net(self, net: Any) -> Word:
        return self._gather((net,))

    def _gather(self, value: Any) -> Word:
        """The word of a list of nets: parts of the outputs of cells."""
        parts = self._wires.parts(value)
        if len(parts) == 1:
            return terms.value(self._piece(*parts[0]))
        return terms.joined([(self._piece(*part), part[2]) for part in parts])

    def _piece(self, cell: int | None, low: int, width: int) -> Word:
        if cell is None:
            return low
        if cell == 0:
            return self._input(low, width)
        whole = self._word(cell)
        return whole >> low & ((1 << width) - 1) if isinstance(whole, int) else terms.part(whole, low, width)

    def _input(self, bit: int, width: int) -> Word:
        for name, (start, size) in self.cells[0].ports_i.items():
            if start <= bit < start + size:
                assert width <= start + size - bit
                return terms.piece_of(self.inputs.get(name, 0), bit - start, width)
        raise KeyError(bit)

    def _compute(self, cell: Any) -> Word:
        match cell:
            case nir.Operator():
                return self._operated(cell)
            case nir.Matches():
                return self._matches(cell)
            case nir.PriorityMatch():
                return self._priority(cell)
            case nir.AssignmentList():
                return self._assigned(cell)
            case nir.Part():
                return self._picked(cell)
            case nir.AsyncReadPort():
                return self._read(cell)
        raise TypeError(cell)

    def _operated(self, cell: Any) -> Word:
        first = self._gather(cell.inputs[0])
        if isinstance(first, int):
            if cell.operator == "m":
                return self._gather(cell.inputs[1 if first else 2])
            if cell.operator == "&" and first == 0:
                return 0
        words = [first, *(self._gather(value) for value in cell.inputs[1:])]
        return terms.apply(cell.operator, cell.width, [len(value) for value in cell.inputs], words)

    def _matches(self, cell: Any) -> Word:
        word = self._gather(cell.value)
        found: Word = 0
        for pattern in cell.patterns:
            # The highest bit comes first.
            cared = [(bit, int(want)) for bit, want in enumerate(reversed(pattern)) if want != "-"]
            wanted = sum(want << at for at, (_, want) in enumerate(cared))
            bits = terms.joined([(terms.piece_of(word, bit, 1), 1) for bit, _ in cared]) if cared else 0
            found = terms.disjunction(found, terms.equal(bits, wanted, max(1, len(cared))))
        return found

    def _priority(self, cell: Any) -> Word:
        free = self._net(cell.en)
        bits: list[tuple[Word, int]] = []
        for net in cell.inputs:
            bit = self._net(net)
            bits.append((terms.conjunction(free, bit), 1))
            free = terms.conjunction(free, terms.negation(bit))
        return terms.joined(bits)

    def _assigned(self, cell: Any) -> Word:
        width = len(cell.default)
        # Of unconditional assignments to the whole word only the last has an effect.
        assignments, value = cell.assignments, cell.default
        for at in range(len(assignments) - 1, -1, -1):
            if len(assignments[at].value) == width and _is_one(self._net(assignments[at].cond)):
                assignments, value = assignments[at + 1 :], assignments[at].value
                break
        word = self._gather(value)
        for assignment in assignments:
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
        width = len(cell.value)
        if not isinstance(offset, int):
            if cell.stride != 1:
                raise ValueError("a part whose place is not known")
            size = max(width, cell.width)
            whole = terms.extended(terms.term(word, width), size, cell.value_signed)
            shift = "s>>" if cell.value_signed else "u>>"
            return terms.piece_of(terms.apply(shift, size, [size, len(cell.offset)], [whole, offset]), 0, cell.width)
        start = offset * cell.stride
        if isinstance(word, int):
            whole = terms.signed(word, width) if cell.value_signed else word
            return whole >> start & ((1 << cell.width) - 1)
        return terms.part(terms.extended(word, start + cell.width + width, cell.value_signed), start, cell.width)


def _same(x: Word, y: Word) -> bool:
    return x is y or (isinstance(x, int) and isinstance(y, int) and x == y)


def _is_one(bit: Word) -> bool:
    return isinstance(bit, int) and bit == 1
