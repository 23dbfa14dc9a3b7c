"""What a run leaves for the next one to show: after a run of any end, a run of any end shows its own end only.

The state that could survive is in STATUS, in the masks of lanes and in the pending events.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from retrograd.hdl.bus.device import CoprocessorDriver
from retrograd.hdl.bus.links import SimulatedBus
from retrograd.hdl.bus.register_map import UNLIMITED, HostRegister
from retrograd.hdl.parameters import Parameters
from retrograd.isa.words import Format

import retrograd as rg

#: long enough that the host stops it in the middle
PROGRAM = rg.assemble("\n".join((".format 8, 4", "start", "assertz r1", *["add r2, 1"] * 20, "finish")))
#: how a run is begun and ends -> (r1, STEPS, commands, the event at its end)
ENDS = {
    "trap": (1, UNLIMITED, ("run",), "trapped"),
    "halt": (0, UNLIMITED, ("run",), "halted"),
    "limit": (0, 2, ("run",), "stopped"),
    "step": (0, UNLIMITED, ("step",), "stopped"),
    "stop": (0, UNLIMITED, ("run", "stop"), "stopped"),
    "nothing": (1, 0, ("run",), "stopped"),
}


def ran(d: CoprocessorDriver, end: str) -> tuple[dict[str, int], tuple[int, ...], set[str]]:
    """The fields of STATUS, the masks of lanes that run, halted and trapped, and the events, after a run from the start."""
    word, steps, commands, _ = ENDS[end]
    d._set(HostRegister.PC, PROGRAM.start)
    d.set_registers({1: word})
    d._set(HostRegister.STEPS, steps)
    for command in commands:
        d._command(command)
    status = d._finished()
    fields = {name: HostRegister.STATUS.field(name).of(status) for name in ("busy", "halted", "trapped", "trap")}
    slots = (HostRegister.RUNNING_LANES, HostRegister.HALTED_LANES, HostRegister.TRAPPED_LANES)
    pending = d._read(HostRegister.INTERRUPT_PENDING)
    events = {event.name for event in HostRegister.INTERRUPT_PENDING.fields if event.of(pending)}
    return fields, tuple(d._read(slot) for slot in slots), events


def check(core: str, lanes: int) -> None:
    """Each pair of ends, on the lanes together."""
    d = CoprocessorDriver(SimulatedBus(Parameters(Format(8, 4), 64, 16, core=core, lanes=lanes)))
    d.load(PROGRAM)
    every = (1 << lanes) - 1
    # Each ordered pair of ends is once a run and the next one.
    names = [*ENDS]
    order = [end for i, a in enumerate(names) for end in (a, *(e for b in names[i + 1 :] for e in (a, b)))]
    for end in (*order, order[0]):
        event = ENDS[end][3]
        halted, trapped = event == "halted", event == "trapped"
        fields, masks, events = ran(d, end)
        # The cause is RG0407 alone.
        assert fields == {"busy": 0, "halted": halted, "trapped": trapped, "trap": 7 * trapped}, end
        assert masks == (0, every * halted, every * trapped), end
        assert events == {event}, end


@pytest.mark.parametrize("core", ["small", pytest.param("fast", marks=pytest.mark.long)])
def test_cores_with_one_lane(core: str) -> None:
    check(core, 1)


@pytest.mark.long
def test_threads() -> None:
    check("barrel", 8)


#: the text in the host interface, the planted text
FAULTS = [
    ("trapped.eq(trapped & ~commanded)", "trapped.eq(trapped)"),
    ("halted.eq(halted & ~commanded)", "halted.eq(halted)"),
    ("m.d.sync += pending.eq(0)", "m.d.sync += pending.eq(pending)"),
    ("Mux(commanded[i], TrapCause.NONE, cause)", "cause"),
]


@pytest.mark.long
@pytest.mark.parametrize(("old", "new"), FAULTS)
def test_planted_faults_are_found(planted: Callable[[str, str, str], type], old: str, new: str) -> None:
    planted("bus.host_interface", old, new)
    with pytest.raises(AssertionError):
        check("small", 1)
