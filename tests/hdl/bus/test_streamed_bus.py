"""A driver whose bus has room for the slots only reaches all memories through POINTER and STREAM."""

from __future__ import annotations

import pytest
from retrograd.hdl.bus.device import CoprocessorDriver
from retrograd.hdl.bus.links import Bus, BusError, SimulatedBus, StreamedBus
from retrograd.hdl.bus.register_map import HostRegister
from retrograd.hdl.parameters import Parameters
from retrograd.isa.words import Format
from support.bench import square_program


class Slots(Bus):
    """The first 256 bytes of a bus."""

    def __init__(self, bus: Bus) -> None:
        self.bus, self.pointed = bus, 0

    def read(self, address: int) -> int:
        assert address < 8 * len(HostRegister), hex(address)
        return self.bus.read(address)

    def write(self, address: int, word: int) -> None:
        assert address < 8 * len(HostRegister), hex(address)
        self.pointed += address == HostRegister.POINTER.address
        self.bus.write(address, word)

    def idle(self) -> None:
        self.bus.idle()


@pytest.mark.parametrize("w", [Format(8, 4), Format(64, 32)], ids=str)
def test_a_gradient_through_the_slots(w: Format) -> None:
    program = square_program(w)
    parameters = Parameters(w, code_words=16, data_words=16)
    with SimulatedBus(parameters) as whole, SimulatedBus(parameters) as narrow:
        slots = Slots(narrow)
        found = []
        for bus in (whole, StreamedBus(slots)):
            device = CoprocessorDriver(bus)
            device.load(program)
            found.append(device.gradient(program.data_labels["y"]))
        assert found[0] == found[1]
        assert slots.pointed > 0
        assert [word / 2**w.frac for word in found[1].memory_cotangents] == [3.0, 1.0]


def test_a_refused_word_is_an_error_and_the_next_is_reached() -> None:
    with SimulatedBus(Parameters(Format(8, 4), code_words=16, data_words=16)) as bus:
        streamed = StreamedBus(Slots(bus))
        data = 0x3000_0000
        streamed.write(data + 8, 5)
        with pytest.raises(BusError):
            streamed.read(data + 8 * 16)
        assert streamed.read(data + 8) == 5
        assert streamed.read(data) == 0
