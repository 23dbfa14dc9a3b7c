"""The machines that tests of a machine run on."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from retrograd.simulator.engines import tiered_machine
from support.machines import MAKERS

import retrograd as rg

#: name -> a machine with the interface of the reference machine
MACHINES = {"reference": rg.Machine} | MAKERS


@pytest.fixture(params=list(MACHINES))
def make(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[..., rg.Machine]:
    """Makes the machine under test."""
    # What they are told to run they run in compiled code, however short it is.
    monkeypatch.setattr(tiered_machine, "FEW", 1)
    return MACHINES[request.param]


#: loops, an if with else, calls both ways, a recursive call: every kind of step
SAMPLE = """
        .memory 24
        .reg z, r0
        .reg i, r1
        .reg n, r2
        .reg x, r3
        .reg y, r4
        .reg sp, r5
        .reg deep, r6
        .reg link, r7

        .data
table:  .word 3, 1, 4, 1, 5

        .text
        proc twist, link, sp
        add x, 7
        mul.xor y, x, n
        rol x, n
outer:  goto.eq deep, z, deepest
        sub deep, 1
        uncall twist
        call twist
        add deep, 1
deepest: from.eq deep, z, outer
        exch y, [i + table]
        endproc

        start
        add sp, 8
        add n, 4
top:    from.ne i, z, bottom
        call twist
choose: goto.lt x, z, negative
        add y, x
over:   goto join
negative: from choose
        sub y, x
join:   from.ge x, z, over
        add i, 1
bottom: goto.ne i, n, top
        add deep, 2
        uncall twist
        finish
"""


@pytest.fixture(scope="module")
def sample() -> rg.Program:
    """A program with every kind of step."""
    return rg.assemble(SAMPLE)
