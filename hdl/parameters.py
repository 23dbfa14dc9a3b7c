"""Parameters of a co-processor: word format, memory sizes, function units."""

from __future__ import annotations

from dataclasses import dataclass, field

from retrograd.isa.microarchitecture.micro_operations import (
    BARREL,
    CORES,
    MAX_SLOTS,
    MAX_THREADS,
    MIN_THREADS,
    Unit,
    Units,
    barrel_units,
)
from retrograd.isa.program import MAX_CODE, MAX_DATA
from retrograd.isa.table import TABLE, Table
from retrograd.isa.words import Format, format_of

#: number of registers, each a word and its cotangent
REGISTERS = 256
#: bits of an encoded instruction
INSTRUCTION = 64
#: bits of the counters of cycles, instructions and bits
COUNTER = 64


@dataclass(frozen=True)
class Parameters:
    """A co-processor to build. `units`: the function units that it has; an instruction that needs another unit is illegal.

    Raises ValueError for a memory size or a word length that the hardware cannot have.
    """

    #: a name such as "Q16.16" is converted to the format
    format: Format = field(default_factory=lambda: Format(32, 16))
    #: capacity in instructions
    code_words: int = 1024
    #: capacity in words of data memory
    data_words: int = 1024
    units: frozenset[Unit] = frozenset(Unit)
    table: Table = field(default=TABLE, repr=False, compare=False)
    #: the name of the core, one of `CORES`, or "barrel"
    core: str = "small"
    #: threads of the core `barrel`, which the host sees as lanes; the other cores have one lane
    lanes: int = 1
    #: micro-operations that a thread of the core `barrel` executes in a turn, 1 or 2
    slots: int = 1
    #: direct memory access: the co-processor copies words to and from a memory of the host
    dma: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "format", format_of(self.format))
        if self.format.width < 8:
            raise ValueError(f"the hardware has words of 8 to 64 bits, not {self.format.width}")
        if not 2 <= self.code_words <= MAX_CODE:
            raise ValueError(f"room for 2 to {MAX_CODE} instructions, not {self.code_words}")
        if not 2 <= self.data_words <= MAX_DATA:
            raise ValueError(f"room for 2 to {MAX_DATA} words of data, not {self.data_words}")
        if Unit.LOGIC not in self.units:
            raise ValueError("nothing executes without the logic unit")
        if self.core not in (*CORES, BARREL):
            raise ValueError(f"the cores are {', '.join((*CORES, BARREL))}, not {self.core}")
        whole, several = isinstance(self.lanes, int) and not isinstance(self.lanes, bool), self.core == BARREL
        if several and not (whole and MIN_THREADS <= self.lanes <= MAX_THREADS):
            raise ValueError(f"the core barrel has {MIN_THREADS} to {MAX_THREADS} threads, not {self.lanes!r:.40}")
        if not several and not (whole and self.lanes == 1):
            raise ValueError(f"the core {self.core} has one lane, not {self.lanes!r:.40}")
        if self.slots not in range(1, MAX_SLOTS + 1 if several else 2) or isinstance(self.slots, bool):
            known = f"1 to {MAX_SLOTS} slots" if several else "one slot"
            raise ValueError(f"the core {self.core} has {known}, not {self.slots!r:.40}")

    @property
    def microarchitecture(self) -> Units:
        """The units of the core, and how long they take."""
        return barrel_units(self.lanes, self.slots) if self.core == BARREL else CORES[self.core]

    @property
    def width(self) -> int:
        """W."""
        return self.format.width

    @property
    def pc_bits(self) -> int:
        """Bits of the signed PC. Before the trap, PC may lie one jump outside the code, and a reversal may move it once more. It must not wrap."""
        return max(self.width, self.code_words.bit_length()) + 2
