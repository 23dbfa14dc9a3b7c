"""The driver with direct memory access: the same words as without it, over memories of any size; a memory that refuses is an error."""

from __future__ import annotations

from array import array
from typing import Any

import pytest
from retrograd.hdl.bus.device import CoprocessorDriver
from retrograd.hdl.bus.links import BusError, HostMemory, SimulatedBus, StreamedBus
from retrograd.hdl.bus.register_map import Area, HostRegister
from retrograd.hdl.parameters import Parameters
from retrograd.isa.words import Format

import retrograd as rg

Q32, Q64 = Format(32, 16), Format(64, 32)
#: the loss by twelve words: M[12] += Σ M[i]², with registers that stay
SUM = (
    ".format {w}, {f}\n.data\n"
    + "\n".join(f"x{i}: .word {i - 4}.25q" for i in range(12))
    + "\ny: .word 0\n.text\nstart\n"
    + "\n".join(
        f"ld.add r{i + 1}, [r0 + {i}]\nfmul.add r{20 + i}, r{i + 1}, r{i + 1}\nst.add [r0 + 12], r{20 + i}"
        for i in range(12)
    )
    + "\nfinish"
)


def parameters(w: Format, *, dma: bool) -> Parameters:
    return Parameters(w, code_words=64, data_words=32, dma=dma)


def summed(w: Format) -> rg.Program:
    return rg.assemble(SUM.format(w=w.width, f=w.frac))


class Counted(SimulatedBus):
    """It counts the copies, and the transfers to memories."""

    def __init__(self, p: Parameters, memory: HostMemory | None = None) -> None:
        self.copies = self.words = 0
        super().__init__(p, memory=memory)

    def write(self, address: int, word: int) -> None:
        commands = [HostRegister.CONTROL.field(name).mask for name in ("copy_in", "copy_out")]
        self.copies += address == HostRegister.CONTROL.address and word in commands
        self.words += address >= Area.REGISTERS.address(0)
        super().write(address, word)


@pytest.mark.long
@pytest.mark.parametrize("w", [Q32, pytest.param(Q64, marks=pytest.mark.long)], ids=str)
def test_a_gradient_is_the_same_in_every_bit(w: Format) -> None:
    """And takes fewer cycles. The memory is smaller than the program, so its words come in parts."""
    program = summed(w)
    inputs = [word + 3 & w.mask for word in program.data[:12]]
    with (
        Counted(parameters(w, dma=False)) as plain,
        Counted(parameters(w, dma=True), HostMemory(array("I", [7] * 50), 0xFFFF_FF00)) as copying,
    ):
        found = []
        for bus in (plain, copying):
            device = CoprocessorDriver(bus)
            device.load(program, inputs)
            found.append((device.gradient(12), device.memory(), device.registers()))
        assert found[0] == found[1]
        assert any(found[0][0].memory_cotangents)
        assert plain.copies == 0
        assert copying.copies > 6
        # The seed of the loss is a word alone.
        assert copying.words <= 2 < plain.words
        assert copying.clock < plain.clock


def test_blocks_of_any_place_and_size() -> None:
    """As without direct memory access; a word alone is no copy."""
    with Counted(parameters(Q32, dma=True), HostMemory([0] * 12)) as bus:
        device = CoprocessorDriver(StreamedBus(bus))
        device.load(summed(Q32))
        device.set_memory(3, [-1, 5])
        copies = bus.copies
        assert device.memory(3, 2) == [Q32.mask, 5]
        assert bus.copies == copies
        words = [(-1) ** i * i * 1001 for i in range(29)]
        device.set_memory(2, words)
        assert bus.copies == copies + 3
        assert device.memory(2, 29) == [word & Q32.mask for word in words]
        assert device.memory(0, 2) == list(summed(Q32).data[:2])


@pytest.mark.long
def test_a_memory_that_is_elsewhere_is_an_error() -> None:
    with Counted(parameters(Format(8, 4), dma=True)) as bus:
        device, shared = CoprocessorDriver(bus), bus.memory
        assert shared is not None
        shared.words[:] = shared.words[:30]
        device._memory = HostMemory([0] * 40)
        with pytest.raises(BusError, match="the host's memory refused the word at 0x00000078"):
            device.set_memory(0, range(32))
        device._memory = HostMemory([0])
        with pytest.raises(BusError, match="no room"):
            device._write_all(Area.CODE, 0, range(9))
        device._memory = shared
        device.set_memory(0, range(12))
        assert device._read_all(Area.DATA, 0, 12) == [*range(12)]


@pytest.mark.parametrize(("words", "address"), [(4, 2), (4, -4), (2, 0xFFFF_FFFC), (1, 1 << 32)])
def test_addresses_that_no_bus_has(words: int, address: int) -> None:
    with pytest.raises(ValueError, match="multiple of 4"):
        HostMemory([0] * words, address)


@pytest.mark.long
def test_a_batch() -> None:
    """Rows are copied to their threads; a thread without a row gets the last one."""

    def batch(dma: bool) -> Any:
        p = Parameters(Q32, code_words=64, data_words=32, core="barrel", lanes=8, dma=dma)
        with Counted(p) as bus:
            device, program = CoprocessorDriver(bus), summed(Q32)
            rows = [[(i + lane) << 14 for i in range(12)] for lane in range(7)]
            device.load_batch(program, rows)
            found = device.gradient_batch(12)
            assert (bus.copies > 8) == dma
            return found, device.memories()

    assert batch(False) == batch(True)
