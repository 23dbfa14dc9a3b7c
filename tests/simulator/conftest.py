"""The machines that tests of a machine run on."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from retrograd.simulator.engines.machines import tiered_machine
from retrograd.simulator.engines.machines.tiered_machine import TieredMachine

import retrograd as rg

#: name -> a machine with the interface of the reference machine
MACHINES: dict[str, Callable[..., rg.Machine]] = {
    "reference": rg.Machine,
    "threaded": partial(TieredMachine, engine="threaded"),
    "translated": partial(TieredMachine, engine="translated", level=0),
}


@pytest.fixture(params=list(MACHINES))
def make(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[..., rg.Machine]:
    """Makes the machine under test."""
    # What they are told to run they run in compiled code, however short it is.
    monkeypatch.setattr(tiered_machine, "FEW", 1)
    return MACHINES[request.param]
