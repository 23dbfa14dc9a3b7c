"""The fast core on its bus: runs of any number of steps end exactly there, turned or not, also by a stop in the middle."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest
from retrograd.hdl.bus.device import CoprocessorDriver
from retrograd.hdl.bus.links import SimulatedBus
from retrograd.hdl.bus.register_map import UNLIMITED, HostRegister
from retrograd.hdl.parameters import Parameters
from retrograd.isa.words import Format

import retrograd as rg

pytestmark = pytest.mark.long
Q16 = Format(16, 8)
PROGRAM = rg.assemble("""
        .format 16, 8
        .memory 4
        start
        imm.add r1, 3
        mov.add r2, r1
        exch    r2, [r3 + 2]
top:    from.ne r4, r0, bottom
        imm.add r4, 1
        ld.add  r5, [r3 + 2]
        swap    r5, r6
bottom: goto.lt r4, r1, top
        mov.sub r6, r4
        finish
""")


@cache
def device() -> CoprocessorDriver:
    return CoprocessorDriver(SimulatedBus(Parameters(Q16, 32, 16, core="fast")))


def state(d: CoprocessorDriver) -> tuple[list[int], list[int], int]:
    outcome = d.run(0)
    return d.registers()[:8], d.memory(), outcome.pc


def expected(m: rg.Machine) -> tuple[list[int], list[int], int]:
    return list(m.registers[:8]), list(m.memory), m.pc


@pytest.mark.parametrize("n", [1, 2, 3, 5, 9])
def test_a_run_ends_after_its_steps_and_turns_there(n: int) -> None:
    d, m = device(), rg.Machine(PROGRAM, core="fast")
    d.load(PROGRAM)
    for _ in range(4):
        before = m.cycles
        found, outcome = d.run(n), m.run(n)
        assert found.retired == outcome.steps
        assert found.cycles == m.cycles - before
        assert state(d) == expected(m)
    d.turn()
    m.turn()
    for _ in range(2):
        assert d.run(n).retired == m.run(n).steps == n
        assert state(d) == expected(m)
    d.run()
    m.run()
    assert state(d) == expected(m)
    assert m.at_end


@pytest.mark.parametrize("wait", [1, 2, 3])
def test_a_stop_falls_between_two_instructions(wait: int) -> None:
    """Wherever it falls, the state is that of the machine after as many steps, and the run back takes as many."""
    d = device()
    d.load(PROGRAM)
    retired = 0
    for _ in range(3):
        d._set(HostRegister.STEPS, UNLIMITED)
        d._command("run")
        for _ in range(wait):
            d._counters()
        d._command("stop")
        # The run of `state` has set the counters to zero.
        retired += d._counters()[1]
        m = rg.Machine(PROGRAM)
        m.run(retired)
        assert state(d) == expected(m)
    d.turn()
    assert d.run().retired == retired - 1
    assert state(d)[2] == PROGRAM.start


def test_the_modes_hold_for_the_next_run() -> None:
    """Overflow traps, and does not with the mode off, for the instruction that stands at PC."""
    program = rg.assemble(".format 16, 8\nstart\nfmov.add r1, r2\nfmov.add r1, r2\nfinish")
    d = device()
    d.load(program)
    d.set_registers({1: 0x7FFE, 2: 1})
    found = d.run()
    assert (found.code, found.retired, d.registers()[1]) == ("RG0404", 2, 0x7FFF)
    d.modes(overflow=False)
    found = d.run()
    assert (found.code, found.retired, d.registers()[1]) == (None, 1, 0x8000)


def test_a_run_that_ends_one_cycle_late_is_found(planted: Callable[[str, str, str], type]) -> None:
    """Without the test of the last step, the next instruction begins in the cycle in which the run ends."""
    planted("bus.host_interface", "run = running & ~(self.begins & last)", "run = running")
    d = CoprocessorDriver(SimulatedBus(Parameters(Q16, 32, 16, core="fast")))
    d.load(PROGRAM)
    assert d.run(2).retired != 2
