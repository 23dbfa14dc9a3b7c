"""Meters of a simulated run: bits of state that the core overwrites in each cycle, and how often its gates and flip-flops switch.

state s, next state f(s);   J[i, j] = 1 where next bit i differs if bit j alone is flipped
overwritten = |{j : J[j, j] = 0}|,   lost = n − rank J over GF(2)

toggles of a line = cycles after which its settled value differs;   activity = toggles / (cells · cycles)
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import log2
from typing import Any

import numpy as np
from amaranth.hdl import Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In
from numpy.typing import NDArray
from retrograd.hdl.core.cores import SingleCore
from retrograd.hdl.core.ports import Space
from retrograd.hdl.simulation.amaranth_simulator import Simulation
from retrograd.hdl.simulation.bit_netlist import TRUE, BitNetlist, ReadPort
from retrograd.hdl.simulation.transactions import Order, OrderReport
from retrograd.isa.program import Program

# -----------------------------------------------------------------------------
# Overwritten bits.
#
# An overwritten bit takes a value that does not depend on its old value. A device that erases each register
# separately pays for all overwritten bits. A copy or an exchange
# overwrites bits that the next state still holds elsewhere; such bits are not lost. `lost` is exact for maps that
# are linear near s, such as moves and sums: it is then H(s | f(s)) of independent uniform bits. J is computed for the
# states of the run.
#
# The state is the flip-flops, the words that read ports hold, and the memories: registers, data, temporaries.


@dataclass
class Overwrites:
    """Bits over a number of cycles. `by_part`: path of a submodule, or "memory NAME" -> [bits that it has, overwritten, toggled]."""

    cycles: int = 0
    #: flip-flops and held words; memories are counted where they are written
    bits: int = 0
    overwritten: int = 0
    lost: int = 0
    toggled: int = 0
    by_part: dict[str, list[int]] = field(default_factory=dict)
    #: of each cycle: overwritten, lost, toggled
    each: list[tuple[int, int, int]] = field(default_factory=list)


class BitMachine:
    """A component with a clock, from reset, on the gates of its netlist."""

    def __init__(self, component: wiring.Component) -> None:
        self.netlist = BitNetlist(component)
        self._names = {name: index for index, (name, _, _) in self.netlist.memories.items()}
        ports = [(member, Value.cast(value)) for _, member, value in component.signature.flatten(component)]
        self._inputs = [signal for member, signal in ports if member.flow == In and isinstance(signal, Signal)]
        self.reset()

    def reset(self) -> None:
        """The state and the inputs after reset; memories have their first words."""
        self.inputs = [0] * len(self.netlist.inputs)
        self.state = list(self.netlist.initial)
        self.memories = {index: list(words) for index, (_, _, words) in self.netlist.memories.items()}
        self._values: list[int] | None = None
        for signal in self._inputs:
            self.set(signal, signal.init)

    def memory(self, name: str) -> list[int]:
        """The words of a memory, such as "registers.words"; they may be changed."""
        return self.memories[self._names[name]]

    def set(self, signal: Any, word: int) -> None:
        """Set an input."""
        for k, line in enumerate(self.netlist.signal(signal)):
            self.inputs[line - self.netlist.inputs.start] = word >> k & 1
        self._values = None

    def get(self, signal: Any) -> int:
        """The word of a signal in this cycle."""
        values = self.values()
        word = sum(values[line] << k for k, line in enumerate(self.netlist.signal(signal)))
        signed = Value.cast(signal).shape().signed
        return word - (word >> (len(signal) - 1) << len(signal)) if signed else word

    def values(self) -> list[int]:
        """The value of each line in this cycle."""
        if self._values is None:
            self._values = self.netlist.evaluate(self.inputs, self.state, 1)
        return self._values

    def tick(self, overwrites: Overwrites | None = None) -> Counter[str]:
        """On to the next cycle. `overwrites` gets the bits of this cycle. Memory -> bits of its words that change."""
        flips = len(self.state) if overwrites is not None else 0
        ones = (1 << (flips + 1)) - 1
        old = [(ones if bit else 0) ^ (1 << (j + 1) if flips else 0) for j, bit in enumerate(self.state)]
        v = self.netlist.evaluate([ones * bit for bit in self.inputs], old, ones) if flips else self.values()
        after = [0] * len(self.state)
        for j, line in self.netlist.next.items():
            after[j] = v[line]
        for port in self.netlist.reads:
            self._read(port, v, old, after, ones)
        written = self._write(v, ones)
        if overwrites is not None:
            self._count(overwrites, after, written, v, ones)
        self.state = [column & 1 for column in after]
        changed = Counter[str]()
        for (memory, at), columns in written.items():
            if at < len(self.memories[memory]):
                word = sum((column & 1) << k for k, column in enumerate(columns))
                changed[self.netlist.memories[memory][0]] += (word ^ self.memories[memory][at]).bit_count()
                self.memories[memory][at] = word
        self._values = None
        return changed

    def _word(self, memory: int, at: int) -> int:
        words = self.memories[memory]
        return words[at] if at < len(words) else 0

    def _read(self, port: ReadPort, v: Sequence[int], old: Sequence[int], after: list[int], ones: int) -> None:
        at, others = _addresses([v[line] for line in port.address], ones)
        word, enable = self._word(port.memory, at), v[port.enable]
        columns = [ones if word >> k & 1 else 0 for k in range(port.width)]
        for lane, address in others:
            differ = word ^ self._word(port.memory, address)
            for k in _ones_of(differ):
                columns[k] ^= 1 << lane
        for k, column in enumerate(columns):
            j = port.first + k
            after[j] = (enable & column) | (enable ^ ones) & old[j]

    def _write(self, v: Sequence[int], ones: int) -> dict[tuple[int, int], list[int]]:
        """(memory, address) that is written in some state -> the columns of its next word."""
        out: dict[tuple[int, int], list[int]] = {}
        for port in self.netlist.writes:
            enable = v[port.enable]
            if not enable:
                continue
            at, others = _addresses([v[line] for line in port.address], ones)
            where = {at: ones}
            for lane, address in others:
                where[at] ^= 1 << lane
                where[address] = where.get(address, 0) | 1 << lane
            for address, lanes in where.items():
                if lanes & enable:
                    word = self._word(port.memory, address)
                    columns = out.setdefault(
                        (port.memory, address), [ones if word >> k & 1 else 0 for k in range(len(port.data))]
                    )
                    here = lanes & enable
                    for k, line in enumerate(port.data):
                        columns[k] = columns[k] & ~here | v[line] & here
        return out

    def _count(
        self,
        overwrites: Overwrites,
        after: Sequence[int],
        written: dict[tuple[int, int], list[int]],
        v: Sequence[int],
        ones: int,
    ) -> None:
        n = len(self.state)
        # Column j of J is bit j of a row; the bits of memory words that may be written follow.
        rows = [_differences(column, ones) for column in after]
        parts = Counter[str]()
        toggles = Counter[str]()
        for j, owner in enumerate(self.netlist.owners):
            parts[owner] += not rows[j] >> j & 1
            toggles[owner] += (after[j] & 1) != self.state[j]
        width = n
        for (memory, at), columns in written.items():
            name = f"memory {self.netlist.memories[memory][0]}"
            word = self._word(memory, at)
            replaced = self._writes_now(memory, at, v)
            for k, column in enumerate(columns):
                row = _differences(column, ones)
                rows.append(row if replaced else row | 1 << width)
                parts[name] += replaced
                toggles[name] += (column & 1) != word >> k & 1
                for port in self.netlist.reads:
                    if port.memory == memory and v[port.enable] & 1 and _address(port.address, v) == at:
                        rows[port.first + k] |= 1 << width
                width += 1
        found = sum(parts.values()), width - _rank(rows), sum(toggles.values())
        sizes = Counter(self.netlist.owners)
        for part in parts.keys() | toggles.keys() | sizes.keys():
            has = overwrites.by_part.setdefault(part, [sizes.get(part, 0), 0, 0])
            has[1] += parts[part]
            has[2] += toggles[part]
        overwrites.cycles += 1
        overwrites.bits = n
        overwrites.overwritten += found[0]
        overwrites.lost += found[1]
        overwrites.toggled += found[2]
        overwrites.each.append(found)

    def _writes_now(self, memory: int, at: int, v: Sequence[int]) -> bool:
        """Whether the state of the run itself writes the word."""
        return any(
            port.memory == memory and v[port.enable] & 1 and _address(port.address, v) == at
            for port in self.netlist.writes
        )

    def digest(self) -> bytes:
        """A digest of the whole state: equal for equal states."""
        # Tables that are never written are the same in all states.
        written = sorted({port.memory for port in self.netlist.writes})
        whole = repr((self.state, *(self.memories[index] for index in written))).encode()
        return hashlib.blake2b(whole, digest_size=16).digest()


def _address(lines: Sequence[int], v: Sequence[int]) -> int:
    return sum((v[line] & 1) << k for k, line in enumerate(lines))


def _addresses(columns: Sequence[int], ones: int) -> tuple[int, list[tuple[int, int]]]:
    """The address in state 0, and (state, address) of each state with another address."""
    differ = 0
    for column in columns:
        differ |= column ^ (ones if column & 1 else 0)
    others = [(lane, sum((column >> lane & 1) << k for k, column in enumerate(columns))) for lane in _ones_of(differ)]
    return sum((column & 1) << k for k, column in enumerate(columns)), others


def _differences(column: int, ones: int) -> int:
    """Bit j: the line differs from that of state 0 in state j + 1."""
    return (column ^ (ones if column & 1 else 0)) >> 1


def _ones_of(word: int) -> list[int]:
    out = []
    while word:
        low = word & -word
        out.append(low.bit_length() - 1)
        word ^= low
    return out


def _rank(rows: Iterable[int]) -> int:
    """The rank of a matrix over GF(2), a row being an integer."""
    basis: dict[int, int] = {}
    for row in rows:
        rest = row
        while rest:
            top = rest.bit_length()
            if top not in basis:
                basis[top] = rest
                break
            rest ^= basis[top]
    return len(basis)


class _Tick:
    """The object that `ctx.tick()` of Amaranth's simulator returns: it is awaited, and may be repeated."""

    def __init__(self, tick: Any, count: int = 1) -> None:
        self._tick, self._count = tick, count

    def repeat(self, count: int) -> _Tick:
        return _Tick(self._tick, count)

    def __await__(self) -> Generator[None]:
        for _ in range(self._count):
            self._tick()
        yield from ()


class ErasureMeter(Simulation):
    """Carries out orders as `Simulation` does, on gates, and counts the bits that each cycle of an instruction overwrites.

    `found`: one count for each order. `states`: digests of the state before each of its cycles, and after the last.
    """

    def __init__(self, core: SingleCore) -> None:
        super().__init__(core)
        self._counts = True
        self.machine = BitMachine(core)
        owners, first = self.machine.netlist.owners, self.machine.netlist.first_state
        owners[:] = [owner or "core" for owner in owners]
        for _, _, value in core.retirement.signature.flatten(core.retirement):
            for line in self.machine.netlist.signal(Value.cast(value)):
                if 0 <= line - first < len(owners) and owners[line - first] == "core":
                    owners[line - first] = "retirement port"
        self.found: list[Overwrites] = []
        self.states: list[list[bytes]] = []

    def run(self, orders: Sequence[Order], vcd: str | None = None) -> list[OrderReport]:
        """Carry out the orders. Raises TimeoutError if the core does not become idle."""
        reports = []
        for order in orders:
            self.found.append(Overwrites())
            self.states.append([])
            coroutine = self._carry_out(self, [order])
            try:
                coroutine.send(None)
            except StopIteration as ended:
                reports.append(ended.value.lanes[0])
            self.states[-1].append(self.machine.digest())
        return reports

    def state_entropies(self, runs: Sequence[Sequence[Order]]) -> list[float]:
        """The entropy of the whole state, in bits, before each cycle of an instruction and at the end, where all runs are equally likely.

        Each run is from reset. A run that has ended stays in its last state. The entropy never rises, and a fall is a loss of the core
        as a whole, for these runs. Raises as `run`.
        """
        self._counts, traces = False, []
        for orders in runs:
            self.machine.reset()
            self.states.clear()
            self.run(orders)
            traces.append([state for states in self.states for state in states])
        longest = max(map(len, traces), default=0)
        entropies = []
        for cycle in range(longest):
            states = Counter(trace[min(cycle, len(trace) - 1)] for trace in traces)
            entropies.append(sum(n * log2(len(traces) / n) for n in states.values()) / len(traces))
        return entropies

    def _cell(self, lane: Any, space: Space, address: int) -> Any:
        return _Words(self.machine.memory(_NAMES[space]))[address]

    def get(self, signal: Any) -> int:
        """The word of a signal, or of a place in memory."""
        return signal.words[signal.at] if isinstance(signal, _Word) else self.machine.get(signal)

    def set(self, signal: Any, word: int) -> None:
        """Set an input, or a place in memory."""
        if isinstance(signal, _Word):
            signal.words[signal.at] = word
        else:
            self.machine.set(signal, word)

    def tick(self) -> _Tick:
        """The next cycle, when it is awaited."""
        return _Tick(self._cycle)

    def _cycle(self) -> None:
        busy = not self.machine.get(self.core.idle)
        if busy:
            self.states[-1].append(self.machine.digest())
        self.machine.tick(self.found[-1] if busy and self._counts else None)


_NAMES = {
    Space.REGISTERS: "registers.words", Space.REGISTER_COTANGENTS: "registers.cotangents",
    Space.DATA: "memory.words", Space.DATA_COTANGENTS: "memory.cotangents", Space.CODE: "code",
}  # fmt: skip


@dataclass(frozen=True)
class _Word:
    """A place in a memory."""

    words: list[int]
    at: int


@dataclass(frozen=True)
class _Words:
    """A memory whose places can be set, as `MemoryData` of Amaranth."""

    words: list[int]

    def __getitem__(self, at: int) -> _Word:
        return _Word(self.words, at)


# -----------------------------------------------------------------------------
# Switching activity.
#
# The lines are those of `BitNetlist`, by the submodule of the core that they belong to: AND and XOR gates, inverters, flip-flops, bits of
# words that read ports hold, and bits of memories. A gate of several submodules belongs to the first. Gates have no delay: a value that
# changes several times within a cycle counts once at most, so glitches are not counted. A cycle in which no instruction executes counts for nothing.

SCHEMA = "retrograd.activity/1"
#: submodule -> function unit of the gate counts; other submodules are the rest of the core, under their own names
UNITS = {
    "logic": "logic unit", "multiplier": "multiplier", "divider": "divider", "rom": "ROM", "branch": "branch unit",
    "decoder": "decoder",
}  # fmt: skip


@dataclass
class Switching:
    """The toggles of a run. A part is a unit and a kind of cell."""

    #: -> cells of the part
    cells: Mapping[tuple[str, str], int]
    cycles: int = 0
    toggles: Counter[tuple[str, str]] = field(default_factory=Counter)

    def as_dict(self, direction: int, lifted: bool, retired: int) -> dict[str, Any]:
        """For JSON: a run of the document. `direction`: ±1 at its begin; `lifted`: D."""
        units: dict[str, dict[str, dict[str, int]]] = {}
        for (unit, kind), n in sorted(self.cells.items()):
            units.setdefault(unit, {})[kind] = {"cells": n, "toggles": self.toggles[unit, kind]}
        return {
            "direction": direction, "D": int(lifted), "cycles": self.cycles, "instructions": retired, "units": units,
        }  # fmt: skip


def document(program: Program, name: str, core: str, runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """For JSON: schema retrograd.activity/1. The digest is that of the program's code."""
    w = program.format
    return {
        "schema": SCHEMA,
        "format": {"width": w.width, "frac": w.frac},
        "core": core,
        "program": {"name": name, "digest": program.digest},
        "runs": list(runs),
    }


class ActivityMeter(ErasureMeter):
    """Carries out orders as `Simulation` does, on gates, and counts toggles. `switching`: those of each order."""

    def __init__(self, core: SingleCore) -> None:
        super().__init__(core)
        netlist = self.machine.netlist
        self._parts = [("", "")] * netlist.first_state + [*_parts(netlist)]
        found = Counter(part for part in self._parts if part[0])
        for name, width, words in netlist.memories.values():
            found[f"memory {name}", "memory bits"] += width * len(words)
        self._cells = dict(found)
        self.switching: list[Switching] = []

    def run(self, orders: Sequence[Order], vcd: str | None = None) -> list[OrderReport]:
        """Carry out the orders. Raises TimeoutError if the core does not become idle."""
        reports = []
        for order in orders:
            self._toggles: NDArray[np.int64] = np.zeros(len(self._parts), np.int64)
            self._before: NDArray[np.uint8] | None = None
            self.switching.append(Switching(self._cells))
            reports += super().run([order])
            assert self._before is None, "the core is idle at the end of an order"
            counts = self.switching[-1].toggles
            for line in np.flatnonzero(self._toggles).tolist():
                counts[self._parts[line]] += int(self._toggles[line])
        return reports

    def _cycle(self) -> None:
        machine, busy = self.machine, not self.machine.get(self.core.idle)
        settled = np.array(machine.values(), np.uint8)
        if self._before is not None:
            self._toggles += settled ^ self._before
        self._before = settled if busy else None
        written = machine.tick()
        if busy:
            here = self.switching[-1]
            here.cycles += 1
            for name, bits in written.items():
                here.toggles[f"memory {name}", "memory bits"] += bits


def _parts(netlist: BitNetlist) -> Sequence[tuple[str, str]]:
    """The unit and the kind of each line, from the first bit of the state on."""
    held = {port.first + k for port in netlist.reads for k in range(port.width)}
    kinds = ["memory port" if k in held else "DFF" for k in range(len(netlist.owners))]
    kinds += ["AND" if both else "NOT" if TRUE in (x, y) else "XOR" for both, x, y in netlist.gates]
    owners = [*netlist.owners, *(owner or "core" for owner in netlist.gate_owners)]
    return [(UNITS.get(owner, owner), kind) for owner, kind in zip(owners, kinds, strict=True)]
