"""Bits toggled, live and erased over time: by hand, and the same forward and back."""

from __future__ import annotations

import pytest
from retrograd.simulator.energy.counts import Ledger, Sample, by_line, counts_of
from retrograd.simulator.engines.tiered_machine import TieredMachine
from support import generator

import retrograd as rg
from retrograd import library
from retrograd.runtime._binding import bind, types_of
from retrograd.runtime._execution import load

TEXT = ".format 32, 16\n.memory 2\nstart\nadd r1, 7\nst.add [r0 + 1], r1\nsub r1, 4\nerase r1\nfinish\n"


def test_by_hand() -> None:
    machine = rg.Machine(rg.assemble(TEXT))
    ledger = Ledger(machine)
    machine.run(observe=ledger)
    # r1: 0 → 7 → 3 → 0, M[1]: 0 → 7
    assert dict(ledger.toggled) == {1: 3, 2: 3, 3: 1, 4: 2}
    assert ledger.toggled_bits == 9
    assert ledger.samples == [
        Sample(0, 0, 0), Sample(1, 0, 0), Sample(2, 32, 0), Sample(3, 64, 0), Sample(4, 64, 0), Sample(5, 32, 32),
    ]  # fmt: skip
    assert ledger.peak_bits == 64
    assert ledger.counted(counts_of(machine)).toggled_bits == 9


def test_words_of_ones_own_are_not_live() -> None:
    machine = rg.Machine(rg.assemble(TEXT))
    ledger = Ledger(machine, own=[1])
    machine.run(observe=ledger)
    assert [s.live_bits for s in ledger.samples] == [0, 0, 32, 32, 32, 0]
    assert ledger.toggled_bits == 9


@pytest.mark.parametrize("make", [rg.Machine, TieredMachine])
def test_there_and_back(make: type[rg.Machine]) -> None:
    values = bind(library.norm, (0.0, [3.0, 4.0]), {})
    compiled = library.norm.compiled_for(types_of(library.norm, values))
    arguments = range(compiled.argument_words)
    machine = make(compiled.program)
    machine.load(0, load(compiled, values).memory)
    forward = Ledger(machine, arguments)
    machine.run(observe=forward)
    back = Ledger(machine, arguments)
    machine.run_back(observe=back)
    assert back.toggled_bits == forward.toggled_bits > 0
    assert back.toggled == forward.toggled
    assert back.peak_bits == forward.peak_bits > 0
    assert [s.live_bits for s in back.samples] == [s.live_bits for s in reversed(forward.samples)]
    assert forward.samples[-1].live_bits == 0


def test_cotangents_toggle_and_are_dropped_where_they_are() -> None:
    program = rg.assemble(".format 32, 16\nstart\nassertz r2\nfmov.add r1, r2\nfinish\n")
    machine = rg.Machine(program, backward=True)
    machine.differentiating = True
    machine.cotangents[1] = 0b101
    ledger = Ledger(machine)
    machine.run(observe=ledger)
    assert dict(ledger.toggled) == {2: 2, 1: 2}  # r̄2 becomes r̄1, and is dropped
    assert dict(ledger.dropped) == {1: 32}
    assert ledger.samples[-1].erased_bits == machine.erased_bits == 32
    counts = ledger.counted(counts_of(machine))
    assert {line.line: (c.dropped_bits, c.toggled_bits) for line, c in by_line(counts).items()} == {
        3: (32, 2), 4: (0, 2), 5: (0, 0),
    }  # fmt: skip
    assert sum(c.dropped_bits for c in by_line(counts).values()) == counts.dropped_bits
    assert all(c.toggled_bits is None for c in by_line(counts_of(machine)).values())


def test_counts_with_and_without_a_ledger_add_up_to_what_is_known() -> None:
    machine = rg.Machine(rg.assemble(TEXT))
    first = Ledger(machine)
    machine.run(3, observe=first)
    one = first.counted(counts_of(machine))
    second = first.again(machine)
    machine.run(observe=second)
    rest = second.counted(counts_of(machine) - one)
    assert (one + rest).toggled_bits == 9
    assert (one + counts_of(machine)).toggled_bits is None


def test_samples_stay_few_and_even() -> None:
    machine = rg.Machine(
        rg.assemble("start\nadd r1, 500\nt: from.ne r2, r0, b\nadd r2, 1\nb: goto.ne r2, r1, t\nfinish")
    )
    ledger = Ledger(machine, samples=16)
    machine.run(observe=ledger)
    assert 8 <= len(ledger.samples) <= 16
    gaps = {b.step - a.step for a, b in zip(ledger.samples, ledger.samples[1:], strict=False)}
    assert len(gaps) == 1
    assert ledger.steps == machine.retired


def hamming(before: list[list[int]], after: list[list[int]]) -> int:
    return sum((x ^ y).bit_count() for a, b in zip(before, after, strict=True) for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize("seed", range(12))
def test_against_looking_at_all_words(seed: int) -> None:
    """Random programs: what a step toggles is the distance of the whole states around it, forward and back with D = 1."""
    case = generator.generate(seed)
    machine = rg.Machine(case.program)
    case.load(machine.registers, machine.memory)

    def words() -> list[list[int]]:
        cotangents = [list(machine.cotangents), list(machine.memory_cotangents)]
        return [
            list(machine.registers),
            list(machine.memory),
            *(c or [0] * n for c, n in zip(cotangents, (256, len(machine.memory)), strict=True)),
        ]

    for differentiating in (False, True):
        machine.differentiating = differentiating
        ledger, distance = Ledger(machine), 0
        erased = machine.erased_bits
        before = words()
        try:
            for _ in range(400):
                at = machine.pc
                if not machine.step():
                    break
                ledger(machine, at)
                after = words()
                distance += hamming(before, after)
                before = after
                live = sum(map(bool, after[0])) + sum(map(bool, after[1]))
                if ledger.samples[-1].step == ledger.steps:
                    assert ledger.samples[-1].live_bits == live * machine.format.width
        except rg.Trap:
            pass
        assert ledger.toggled_bits == distance
        if ledger.samples[-1].step == ledger.steps:
            assert ledger.samples[-1].erased_bits == machine.erased_bits - erased
        machine.turn()
