"""Bits over time, by observing every step: toggled, live, erased.

    ledger = Ledger(machine);  machine.run(observe=ledger)

Toggled: the Hamming distance between the old and new words of registers, of memory, and of their cotangents. Live: the bits
of nonzero words of registers and memory, except the words named as `own`: the program's ancillas. Zero words need not be
erased.
Trap: a ledger observes a machine from its present state; changes by the host between runs count as toggled.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import replace
from typing import NamedTuple

from retrograd.simulator.energy.counting import Counts
from retrograd.simulator.machine import Machine

#: limit of samples; beyond it, every second sample is removed
SAMPLES = 4096


class Sample(NamedTuple):
    """The state of a ledger after a number of steps."""

    step: int
    live_bits: int
    #: steps since the ledger began
    erased_bits: int


class Ledger:
    """Count a step; the `observe` of a run."""

    def __init__(self, machine: Machine, own: Collection[int] = (), samples: int = SAMPLES) -> None:
        #: bits toggled and bits of cotangents dropped at an address
        self.toggled: Counter[int] = Counter()
        self.dropped: Counter[int] = Counter()
        self.steps = 0
        #: the most live bits after any step, sampled or not
        self.peak_bits = 0
        self._own = frozenset(own)
        self._every, self._most = 1, max(2, samples)
        self._words = list(machine.registers), list(machine.memory)
        self._cotangents = list(machine.cotangents), list(machine.memory_cotangents)
        self._live = sum(map(bool, self._words[0]))
        self._live += sum(bool(word) for at, word in enumerate(self._words[1]) if at not in self._own)
        self._erased = self._dropped = 0
        self._dropped_before = machine.dropped_bits
        self._counts = {way: list(hits) for way, hits in machine.executed.items()}
        self._width = machine.format.width
        self.samples: list[Sample] = []
        self._sample()

    def again(self, machine: Machine) -> Ledger:
        """A ledger of the same kind, from the present state of the machine."""
        return Ledger(machine, self._own, self._most)

    @property
    def toggled_bits(self) -> int:
        """All bits toggled."""
        return self.toggled.total()

    def counted(self, counts: Counts) -> Counts:
        """The counts of the observed run, with bits toggled and dropped at each address."""
        return replace(counts, toggled_at=dict(self.toggled), dropped_at=dict(self.dropped))

    def __call__(self, machine: Machine, pc: int) -> None:
        i = machine.program.instructions[pc]
        fields = {i.rd, i.ra, i.rb}
        for at in fields:
            self._look(self._words[0], at, machine.registers[at], pc, counts=True)
        uses_memory = "m" in i.opcode.reads or "m" in i.opcode.writes
        address = (machine.registers[i.ra] + i.imm) & machine.format.mask
        if uses_memory:
            self._look(self._words[1], address, machine.memory[address], pc, counts=address not in self._own)
        if machine.cotangents:
            registers, memory = self._cotangents
            if not registers:
                registers[:], memory[:] = [0] * len(self._words[0]), [0] * len(self._words[1])
            for at in fields:
                self._look(registers, at, machine.cotangents[at], pc)
            if uses_memory:
                self._look(memory, address, machine.memory_cotangents[address], pc)
        self._count(machine, pc)
        self.steps += 1
        self.peak_bits = max(self.peak_bits, self._live * self._width)
        if self.steps % self._every == 0:
            self._sample()

    def _look(self, known: list[int], at: int, now: int, pc: int, *, counts: bool = False) -> None:
        was = known[at]
        if was == now:
            return
        self.toggled[pc] += (was ^ now).bit_count()
        known[at] = now
        if counts:
            self._live += bool(now) - bool(was)

    def _count(self, machine: Machine, pc: int) -> None:
        """The bits that the instruction at pc lost, by its direction of execution."""
        for way, hits in self._counts.items():
            n = machine.executed[way][pc]
            if n != hits[pc]:
                i = machine.program.instructions[pc]
                opcode = i.opcode if way > 0 else machine.program.table.inverse(i.opcode)
                self._erased += (n - hits[pc]) * opcode.erased_words * self._width
                hits[pc] = n
        dropped = machine.dropped_bits - self._dropped_before
        if dropped != self._dropped:
            self.dropped[pc] += dropped - self._dropped
            self._dropped = dropped

    def _sample(self) -> None:
        self.samples.append(Sample(self.steps, self._live * self._width, self._erased + self._dropped))
        self.peak_bits = max(self.peak_bits, self._live * self._width)
        if len(self.samples) > self._most:
            # Samples stay evenly spaced for a run of any length.
            self.samples, self._every = self.samples[::2], self._every * 2
