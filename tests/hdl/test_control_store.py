"""The control store against the microcode: each entry and each row is read back, by its definition and by the hardware, and faults in it are found."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from retrograd.hdl import control_store as module
from retrograd.hdl.control_store import BLOCKS, Columns, ControlStore, columns, control_store, last_bit, programs
from retrograd.hdl.core import sequencer
from retrograd.hdl.core.core import Core
from retrograd.hdl.core.sequencer import ControlMemory
from retrograd.hdl.microcode import Microcode, microcode_for
from retrograd.hdl.parameters import Parameters
from retrograd.hdl.simulation.amaranth_simulator import Simulation
from retrograd.isa.microarchitecture.micro_operations import Unit
from retrograd.isa.words import Format
from support import lockstep

Q8, Q16, Q32, Q64 = Format(8, 4), Format(16, 8), Format(32, 16), Format(64, 32)
NO_DIVIDER = frozenset(Unit) - {Unit.DIVIDER}
SHORT = [(Q8, "small", frozenset(Unit)), (Q8, "fast", frozenset(Unit)), (Q16, "small", NO_DIVIDER)]
SHORT += [(Q32, "small", frozenset({Unit.LOGIC}))]
SHORT += [(Format(8, frac), "fast", frozenset(Unit)) for frac in (0, 7)]  # formats without lognums
LONG = [
    (w, core, units)
    for w in (Q8, Q16, Q32, Q64)
    for core in ("small", "fast")
    for units in (frozenset(Unit), NO_DIVIDER, frozenset({Unit.LOGIC}))
]
CASES = [*SHORT, *(pytest.param(*case, marks=pytest.mark.long) for case in LONG if case not in SHORT)]


def faults(code: Microcode, store: ControlStore) -> Iterator[str]:
    """The places at which the control store differs from the microcode."""
    start, head = code.entry["start"], (1 << code.head.size) - 1
    found, seen = programs(code), set[tuple[int, int]]()
    for address, entry in enumerate(code.dispatch):
        stored = store.dispatched(address)
        if (stored ^ entry) & head:
            yield f"the head at {address:#x}"
        begin = entry >> start.offset & (1 << start.width) - 1
        if (stored & ~head, begin) not in seen:
            seen.add((stored & ~head, begin))
            rows = store.program(stored)
            try:
                if any(next(rows) != row for row in found[begin]):
                    yield f"a row of the program at {address:#x}"
            except IndexError:
                yield f"no row of the program at {address:#x}"


@pytest.mark.parametrize(("w", "core", "units"), CASES)
def test_each_row_is_read_back(w: Format, core: str, units: frozenset[Unit]) -> None:
    code = microcode_for(Parameters(w, core=core, units=units))
    assert len(code.rows) > 1
    assert not [*faults(code, control_store(code))]


@pytest.mark.parametrize(("w", "core", "units"), CASES)
def test_it_has_at_most_half_of_the_bits(w: Format, core: str, units: frozenset[Unit]) -> None:
    code = microcode_for(Parameters(w, core=core, units=units))
    plain = len(code.dispatch) * code.entry.size + len(code.rows) * code.microword.size
    store = control_store(code)
    assert 2 * store.bits <= plain
    assert store.bits == sum(words * width for words, width in store.memories.values())


def changed(stored: Columns, at: int, word: int) -> Columns:
    return replace(stored, words=(*stored.words[:at], word, *stored.words[at + 1 :]))


def swapped(stored: Columns, x: int, y: int) -> Columns:
    assert stored.words[x] != stored.words[y]
    return changed(changed(stored, x, stored.words[y]), y, stored.words[x])


def planted(store: ControlStore) -> Iterator[tuple[str, ControlStore]]:
    """One fault in each memory."""
    for k, part in enumerate(store.dispatch):
        at = next(n for n, word in enumerate(part.columns.words) if word)
        wrong = replace(part, columns=changed(part.columns, at, part.columns.words[at] ^ 1))
        yield f"dispatch{k}", replace(store, dispatch=(*store.dispatch[:k], wrong, *store.dispatch[k + 1 :]))
    for k, cluster in enumerate(store.clusters):
        wrong_cluster = replace(cluster, columns=swapped(cluster.columns, 1, 2))
        yield f"words{k}", replace(store, clusters=(*store.clusters[:k], wrong_cluster, *store.clusters[k + 1 :]))
    yield "rows", replace(store, rows=changed(store.rows, 0, store.rows.words[0] ^ 1))
    other = next(n for n, word in enumerate(store.rows.words) if word != store.rows.words[0])
    yield "rows swapped", replace(store, rows=swapped(store.rows, 0, other))
    yield "blocks", replace(store, blocks=changed(store.blocks, 0, store.blocks.words[0] ^ 1))
    other = next(n for n, word in enumerate(store.blocks.words) if word != store.blocks.words[0])
    yield "blocks swapped", replace(store, blocks=swapped(store.blocks, 0, other))


@pytest.mark.parametrize("core", ["small", "fast"])
def test_a_fault_in_each_memory_is_found(core: str) -> None:
    code = microcode_for(Parameters(Q8, core=core))
    store = control_store(code)
    found = {name for name, wrong in planted(store) if [*faults(code, wrong)]}
    assert found == {name for name, _ in planted(store)} >= {"rows swapped", "blocks swapped"}


def test_columns_are_stored_once() -> None:
    # from the lowest bit on: 0, any, its copy, 1, another one
    words = [0b01000, 0b11110, 0b11000, 0b01110]
    stored = columns(words, 5)
    assert (stored.places, stored.width) == ((~0, 0, 0, ~1, 1), 2)
    assert [*stored.whole] == words
    assert columns([3, 3], 2).width == 0


class Reader:
    """A simulation of the memories: the rows of the program at an address, a row in each cycle."""

    def __init__(self, code: Microcode) -> None:
        self.memory = ControlMemory(code)
        self.code = code

    def faults(self, every: int) -> list[int]:
        """The addresses of entries at which the memories do not deliver the head and all rows; `every`: a share of the entries."""
        from amaranth.sim import Simulator

        code, memory, found = self.code, self.memory, programs(self.code)
        start, head = code.entry["start"], (1 << code.head.size) - 1
        entries = {entry: address for address, entry in enumerate(code.dispatch)}
        wrong = []

        async def bench(ctx: Any) -> None:
            for entry, address in [*entries.items()][::every]:
                ctx.set(memory.opcode, address)
                ctx.set(memory.read, 1)
                ctx.set(memory.first, 1)
                await ctx.tick()
                ctx.set(memory.read, 0)
                # Another address, which is not read
                ctx.set(memory.opcode, address ^ 1)
                right = ctx.get(memory.head.as_value()) == entry & head
                for row in found[entry >> start.offset & (1 << start.width) - 1]:
                    await ctx.tick()
                    ctx.set(memory.first, 0)
                    right &= ctx.get(memory.row.as_value()) == row
                if not right:
                    wrong.append(address)

        simulator = Simulator(memory)
        simulator.add_clock(1e-6)
        simulator.add_testbench(bench)
        simulator.run()
        return wrong


@pytest.mark.parametrize(("block", "every"), [(2, 15), *(pytest.param(n, 1, marks=pytest.mark.long) for n in BLOCKS)])
def test_the_hardware_delivers_a_row_in_each_cycle(monkeypatch: pytest.MonkeyPatch, block: int, every: int) -> None:
    monkeypatch.setattr(module, "BLOCKS", (block,))
    monkeypatch.setattr(module, "_made", {})
    code = microcode_for(Parameters(Q8))
    assert control_store(code).block == block
    assert max(len(rows) for rows in programs(code).values()) > 3 * block
    assert not Reader(code).faults(every)


def test_a_row_too_late_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    code = microcode_for(Parameters(Q8))
    store = control_store(code)
    rows = (store.rows.words[0], *store.rows.words[:-1])
    monkeypatch.setattr(sequencer, "control_store", lambda code: replace(store, rows=replace(store.rows, words=rows)))
    assert Reader(code).faults(30)


def test_a_reference_off_by_one_is_found_in_lockstep(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reference of each row to the first cluster is one less."""
    p = Parameters(Q8, code_words=64, data_words=16)
    store = control_store(microcode_for(p))
    rows = Columns(store.rows.places, tuple(max(0, word - 1) for word in store.rows.words))
    monkeypatch.setattr(sequencer, "control_store", lambda code: replace(store, rows=rows))
    with pytest.raises(AssertionError):
        lockstep.sequences(Simulation(Core(p)).run, Q8, False, 5, states=3, programs=1, entries=("fmul",))


def test_the_last_row_is_marked() -> None:
    code = microcode_for(Parameters(Q8))
    assert all(rows[-1] >> last_bit(code.microword) & 1 for start, rows in programs(code).items() if start or rows)
