"""What a co-processor is built for: word format, memory sizes, function units."""

from __future__ import annotations

from dataclasses import dataclass, field

from retrograd.isa.microarchitecture.micro_operations import Unit
from retrograd.isa.program import MAX_CODE, MAX_DATA
from retrograd.isa.table import TABLE, Table
from retrograd.isa.words import Format, format_of

#: registers, each a word and its cotangent
REGISTERS = 256
#: bits of an encoded instruction
INSTRUCTION = 64
#: bits of the counters of cycles, instructions and bits
COUNTER = 64


@dataclass(frozen=True)
class Parameters:
    """A co-processor to build. `units`: those it has; an instruction that needs another is illegal.

    Raises ValueError for memories of impossible size, and for words too short or long for the hardware.
    """

    #: a name, such as "Q16.16", becomes the format
    format: Format = field(default_factory=lambda: Format(32, 16))
    #: instructions that fit
    code_words: int = 1024
    #: words of data memory that fit
    data_words: int = 1024
    units: frozenset[Unit] = frozenset(Unit)
    table: Table = field(default=TABLE, repr=False, compare=False)

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

    @property
    def width(self) -> int:
        """W."""
        return self.format.width

    @property
    def pc_bits(self) -> int:
        """Bits of the signed PC: it goes one jump out of the code before it traps, and a turn further before it wraps."""
        return max(self.width, self.code_words.bit_length()) + 2
