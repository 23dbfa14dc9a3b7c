"""Machines by name, and the reference machine in lockstep with another."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from retrograd.simulator.engines.tiered_machine import TieredMachine

import retrograd as rg

Make = Callable[..., rg.Machine]

#: the tiers, translated without LLVM's optimiser: it costs more than all that short runs could gain
MAKERS: dict[str, Make] = {
    "threaded": partial(TieredMachine, engine="threaded"),
    "translated": partial(TieredMachine, engine="translated", level=0),
}


def account(machine: rg.Machine) -> Any:
    """What a machine remembers of the cotangents that it dropped."""
    found = machine._cotangents
    return None if found is None else (found.way, found.dropped, found._crossed, found._lost, found.kept)


#: what must be equal at any moment, in the order in which a difference tells most
PARTS: dict[str, Callable[[rg.Machine], Any]] = {
    "place": lambda m: (m.pc, m.br, m.direction, m.differentiating),
    "registers": lambda m: m.registers,
    "memory": lambda m: m.memory,
    "cotangents": lambda m: m.cotangents,
    "cotangents of memory": lambda m: m.memory_cotangents,
    "account": account,
}
#: what follows from these, or is looked at less often
TOLD: dict[str, Callable[[rg.Machine], Any]] = {
    "executed forward": lambda m: m.executed[+1],
    "executed backward": lambda m: m.executed[-1],
    "state": lambda m: m.state(),
    "counts": lambda m: (m.counts(), m.counts(+1), m.counts(-1), m.retired),
    "bits": lambda m: (m.erased_bits, m.dropped_bits),
    "ends": lambda m: (m.at_end, m.at_origin),
}
WORDS = {"registers", "memory", "cotangents", "cotangents of memory", "executed forward", "executed backward"}


def attempt(machine: rg.Machine, act: Callable[[rg.Machine], Any], fully: bool) -> Any:
    """What the act returns; of a trap, what it tells: to the letter, if fully."""
    try:
        return act(machine)
    except rg.Trap as trap:
        return trap.code, trap.pc, trap.direction, trap.value, str(trap) if fully else trap.diagnostics[0].message


class Lockstep:
    """The reference machine and one under test, which do the same and must then be equal, bit for bit.

    `spoiled`: what the machine under test runs instead, to see that it is found out.
    """

    def __init__(self, make: Make, program: rg.Program, *, spoiled: rg.Program | None = None, **modes: Any) -> None:
        self.reference = rg.Machine(program, **modes)
        self.tested = make(spoiled or program, **modes)
        self.machines = self.reference, self.tested
        #: traps met, by their code
        self.traps: dict[str, int] = {}

    def do(self, act: Callable[[rg.Machine], Any], fully: bool = True) -> Any:
        """What both machines say to the act, or the trap that both raise. `fully`: compare what they tell as well."""
        expected, found = (attempt(machine, act, fully) for machine in self.machines)
        assert found == expected
        if isinstance(expected, tuple):
            self.traps[expected[0]] = self.traps.get(expected[0], 0) + 1
        self.check(fully)
        return expected

    def check(self, fully: bool = True) -> None:
        for name, part in (PARTS | TOLD if fully else PARTS).items():
            expected, found = part(self.reference), part(self.tested)
            if found != expected:
                # Lists, of which pytest tells the first difference.
                assert (list(found) if name in WORDS else found) == expected, name

    def run(self, steps: int | None = None) -> Any:
        return self.do(lambda m: m.run(steps))

    def run_back(self, steps: int | None = None) -> Any:
        return self.do(lambda m: m.run_back(steps))

    def turn(self) -> None:
        self.do(lambda m: m.turn())

    def differentiate(self, on: bool = True) -> None:
        for machine in self.machines:
            machine.differentiating = on

    def set(self, act: Callable[[rg.Machine], None]) -> None:
        """Change both machines alike."""
        for machine in self.machines:
            act(machine)
