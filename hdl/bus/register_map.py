"""The register map: the one definition of the slots of the bus, of their fields and of the areas of memory.

    HostRegister.STATUS.value                    the number of the slot; its byte address is 8 times the number
    HostRegister.STATUS.field("trap").mask       of the bits, in the word of 64 bits
    Area.DATA.address(3)                         the byte address of memory word 3

The decoder of the hardware, the driver, the C header, the SVD file and the documentation are made from it.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from amaranth.lib import data
from retrograd.hdl.microword import TrapCause
from retrograd.hdl.parameters import REGISTERS

#: part of the identification: the letters RG
MAGIC = 0x5247
#: the STEPS of a run without limit: no run takes as many
UNLIMITED = (1 << 64) - 1
#: the bits of an address in which the area stands, from this one on
AREA_BITS = 28


class Access(Enum):
    """The transfers of a host that a slot accepts."""

    READ = "read-only"
    WRITE = "write-only"
    BOTH = "read-write"


class BitField(NamedTuple):
    """Bits of a slot."""

    name: str
    low: int
    width: int
    description: str
    #: names of values, if they have names
    values: type[Enum] | None = None
    #: only with direct memory access
    dma: bool = False

    @property
    def mask(self) -> int:
        """The bits, in the word of the slot."""
        return ((1 << self.width) - 1) << self.low

    def of(self, word: int) -> int:
        """The field of a word."""
        return (word & self.mask) >> self.low


def _with_dma(low: int, **descriptions: str) -> tuple[BitField, ...]:
    """Fields of one bit each, from bit `low` on, of hardware with direct memory access."""
    return tuple(BitField(name, low + i, 1, text, dma=True) for i, (name, text) in enumerate(descriptions.items()))


def _bits(*more: BitField, **descriptions: str) -> tuple[BitField, ...]:
    """Fields of one bit each, from bit 0 on, and then more fields."""
    return *(BitField(name, i, 1, text) for i, (name, text) in enumerate(descriptions.items())), *more


_EVENTS = _bits(
    *_with_dma(
        4, copied="a copy is done, or was stopped", copy_failed="a copy ended since the host's memory refused a word"
    ),
    halted="a run came to the end of the program",
    trapped="a run trapped",
    stopped="a run ended by the command stop, or after STEPS instructions",
    zeroed="a command that sets words to zero is done",
)


class HostRegister(Enum):
    """The slots of area 0, in the order of their numbers."""

    _value_: int
    access: Access
    #: the value after reset; None: it depends on the parameters of the hardware
    reset: int | None
    description: str
    fields: tuple[BitField, ...]
    #: writes are accepted while the core is busy
    while_busy: bool
    #: only with direct memory access
    dma: bool

    def __new__(
        cls,
        access: Access,
        reset: int | None,
        description: str,
        bits: tuple[BitField, ...] = (),
        while_busy: bool = False,
        dma: bool = False,
    ) -> HostRegister:
        made = object.__new__(cls)
        made._value_ = len(cls.__members__)
        made.access, made.reset, made.description = access, reset, description
        made.fields, made.while_busy, made.dma = bits, while_busy, dma
        return made

    IDENTITY = (
        Access.READ, None, "format and room of the hardware",
        (
            BitField("fraction", 0, 8, "F, bits after the point of a word"),
            BitField("width", 8, 8, "W, bits of a word"),
            BitField("magic", 16, 16, f"{MAGIC:#06x}"),
            BitField("code_room", 32, 8, "n: there is room for up to 2^n instructions"),
            BitField("data_room", 40, 8, "n: there is room for up to 2^n words of data"),
            BitField("more_lanes", 48, 8, "lanes, less 1"),
            BitField("dma", 56, 1, "direct memory access: copy_in, copy_out, DMA_ADDRESS and DMA_LENGTH exist"),
        ),
    )  # fmt: skip
    CONTROL = (
        Access.WRITE, 0, "commands; several at once are allowed, and turn, forget and clear come before run and step",
        _bits(
            *_with_dma(
                8,
                copy_in="copy DMA_LENGTH words from the host's memory, from DMA_ADDRESS on, to the words from POINTER on",
                copy_out="copy DMA_LENGTH words from POINTER on to the host's memory, from DMA_ADDRESS on",
            ),
            run="execute STEPS instructions",
            step="execute one instruction",
            stop="stop after the current instruction, or a copy after two more words at most; also accepted while the core is busy",
            turn="reverse DIR: the next step undoes the last",
            forget="forget discarded cotangents",
            clear="set the counters to zero",
            zero_words="set the first REGISTER_SIZE registers and the first DATA_SIZE words of memory to zero",
            zero_cotangents="set the cotangents of the same registers and words to zero, and forget discarded cotangents",
        ),
    )  # fmt: skip
    STATUS = (
        Access.READ, 0, "the state of the core, and the reason why the last run ended",
        _bits(
            *_with_dma(6, copying="a copy goes on", copy_failed="the host's memory refused a word of the last copy"),
            BitField("trap", 8, 4, "the cause of the trap: n for RG04n, 12 for RG0306", TrapCause),
            busy="a run or a copy goes on, or words are being set to zero",
            halted="the last run came to the end of the program",
            trapped="the last run trapped",
            backward="DIR = −1",
            zeroing="words are being set to zero",
            interrupt="the level of the interrupt line",
        ),
    )  # fmt: skip
    MODES = (
        Access.BOTH, 0, "modes of the instructions that follow",
        _bits(
            differentiate="D: execute the cotangent steps as well",
            overflow="trap where a fixed-point result does not fit",
            strict="trap on every erasure",
        ),
    )  # fmt: skip
    PC = Access.BOTH, 0, "the address of the next instruction, signed"
    BR = Access.BOTH, 0, "the distance of the jump that is under way, signed"
    DIRECTION = Access.BOTH, 0, "the direction", _bits(backward="DIR = −1")
    CODE_SIZE = Access.BOTH, None, "instructions of the program: beyond them PC traps; too large a number means all"
    DATA_SIZE = (
        Access.BOTH,
        None,
        "words of the program's memory: addresses beyond them trap; too large a number means all",
    )
    STEPS = Access.BOTH, UNLIMITED, "the instructions that run executes; 2^64 − 1 means no limit"
    CYCLES = Access.READ, 0, "clock cycles of the instructions that have retired"
    RETIRED = Access.READ, 0, "instructions that have retired"
    TOGGLED = Access.READ, 0, "bits of registers and memory that have changed"
    ERASED = Access.READ, 0, "bits that were erased"
    REGISTER_SIZE = (
        Access.BOTH,
        REGISTERS,
        "registers that zero_words and zero_cotangents set; too large a number means all",
    )
    INTERRUPT_ENABLE = Access.BOTH, 0, "the events that raise the interrupt line", _EVENTS, True
    INTERRUPT_PENDING = (
        Access.READ, 0, "events that have happened; commands that start something clear all", _EVENTS
    )  # fmt: skip
    INTERRUPT_CLEAR = Access.WRITE, 0, "each 1 clears a pending event", _EVENTS, True
    POINTER = (
        Access.BOTH, 0, "the byte address of the word that STREAM reads or writes",
        (
            BitField("index", 3, 25, "the number of the word in its area"),
            BitField("area", AREA_BITS, 4, "the number of the area"),
        ),
    )  # fmt: skip
    STREAM = Access.BOTH, None, "the word at POINTER, which then goes on to the next word"

    LANE = (
        Access.BOTH, 0, "the lane whose registers, memory, PC, BR, DIR, counters and status are read: a thread of the core barrel; a core with one lane keeps 0",
        (
            BitField("index", 0, 8, "the number of the lane; too large a number means the last"),
            BitField("all", 31, 1, "writes and commands go to all lanes, and not to this lane alone"),
        ),
    )  # fmt: skip
    RUNNING_LANES = Access.READ, 0, "the lanes that run, a bit each"
    HALTED_LANES = Access.READ, 0, "the lanes whose last run came to the end of the program"
    TRAPPED_LANES = Access.READ, 0, "the lanes whose last run trapped"
    ISSUED_CYCLES = (
        Access.READ,
        0,
        "clock cycles of the instructions that have retired; "
        "of the core barrel, cycles in which a thread had an instruction on its way",
    )
    ISSUED = (
        Access.READ,
        0,
        "instructions that have retired; of the core barrel, the sum over its threads",
    )
    DMA_ADDRESS = (
        Access.BOTH, 0, "the byte address in the host's memory of the next word of a copy; a multiple of 4, others are refused",
        (BitField("address", 2, 30, "the address in words of four bytes"),), False, True,
    )  # fmt: skip
    DMA_LENGTH = (
        Access.BOTH, 0, "the words that are still to be copied; too large a number means more than an area has", (), False, True,
    )  # fmt: skip

    def field(self, name: str) -> BitField:
        """The field of this name. Raises KeyError."""
        return {field.name: field for field in self.fields}[name]

    @property
    def address(self) -> int:
        """The byte address of the low word."""
        return int(self.value) << 3

    def layout(self, dma: bool) -> data.Layout:
        """The fields as a layout of the signals of hardware with or without direct memory access."""
        present = [f for f in self.fields if dma or not f.dma]
        members = {f.name: data.Field(f.values or f.width, f.low) for f in present}
        return data.FlexibleLayout(max(f.low + f.width for f in present), members)


class Area(Enum):
    """The areas: the upper four bits of a byte address. From 1 on they are the spaces of the core's window."""

    _value_: int
    letter: str
    description: str

    def __new__(cls, letter: str, description: str) -> Area:
        made = object.__new__(cls)
        made._value_ = len(cls.__members__)
        made.letter, made.description = letter, description
        return made

    CONTROL = "slot", "the slots below"
    REGISTERS = "r", "register r"
    REGISTER_COTANGENTS = "r", "its cotangent"
    DATA = "n", "memory word n"
    DATA_COTANGENTS = "n", "its cotangent"
    CODE = "n", "instruction n, 64 bits"

    def address(self, index: int) -> int:
        """The byte address of a word of the area."""
        return int(self.value) << AREA_BITS | index << 3
