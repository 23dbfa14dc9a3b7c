"""The output of PISA programs: words that `OUTPUT` gives to the host, as text, by the protocol of the emulator PendVM.

The first word is a type, the next is a value of the type: an integer, or a text of four characters a word up to a zero byte. The type 0xFF00
is a line break by itself. `OUTPUT $r` is `imm.sub r, 0`, which no other instruction of PISA becomes.
"""

from __future__ import annotations

from retrograd.assembler.pisa.mnemonics import FORMAT
from retrograd.isa.program import Program

_KIND, _INTEGER, _TEXT, _LINE_BREAK = 0xFF00, 0x0000, 0x0100, 0xFF00
_UNSIGNED, _HEXADECIMAL = 0x01, 0x10


def marks(program: Program) -> dict[int, int]:
    """address -> register, of every OUTPUT of a program that was read from PISA."""
    return {
        pc: i.rd for pc, i in enumerate(program.instructions) if i.opcode.name == "imm.sub" and not i.imm
    }  # fmt: skip


class Output:
    """Words to text; keeps the type between two words."""

    def __init__(self) -> None:
        self._type: int | None = None

    def text(self, word: int) -> str:
        """The text of the next word; empty for a type. A word without a type that is known is shown in hexadecimal."""
        if self._type is None:
            if word == _LINE_BREAK:
                return "\n"
            self._type = word
            return ""
        kind, form = self._type & _KIND, self._type
        if kind == _TEXT:
            characters = word.to_bytes(FORMAT.width // 8, "little").partition(b"\0")[0]
            if not word >> FORMAT.width - 8:
                self._type = None
            return "".join(chr(c) if chr(c).isprintable() or c == 10 else "\ufffd" for c in characters)
        self._type = None
        if kind != _INTEGER or form & _HEXADECIMAL:
            return f"{word:x}"
        return str(word if form & _UNSIGNED else FORMAT.signed(word))
