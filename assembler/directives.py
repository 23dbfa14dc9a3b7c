"""Directives: names, the format, memory, sections, data and includes."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

from retrograd.assembler.layout import Layout
from retrograd.assembler.lexer import TextFault, arguments, checked_name, quoted, split_operands, unescaped
from retrograd.isa.program import MAX_DATA
from retrograd.isa.words import WIDTHS, Format

_LABEL = re.compile(r'\s*("(?:\\.|[^"\\])*"|[A-Za-z_][\w.]*)\s*(?:,(.*))?', re.DOTALL)


class Directives:
    """Carries out the directives of a line. `read(name, text, path)` reads a file that is included."""

    def __init__(self, layout: Layout, read: Callable[[str, str, Path], None]) -> None:
        self.layout = layout
        self.symbols = layout.symbols
        self.sources = layout.sources
        self._read = read
        #: directive -> (rest of the line, its column) -> nothing
        self.words: dict[str, Callable[[str, int], None]] = {
            ".equ": self._equ,
            ".reg": self._reg,
            ".format": self._format,
            ".memory": self._memory,
            ".data": partial(self._section, True),
            ".text": partial(self._section, False),
            ".word": self._word,
            ".zero": self._zero,
            ".ascii": self._ascii,
            ".include": self._include,
            ".label": self._label,
        }

    # ------------------------------------------------------------ names and the format

    def _equ(self, rest: str, column: int) -> None:
        (name, at), (text, where) = arguments(rest, column, 2, ".equ NAME, CONSTANT")
        self.symbols.format_fixed = True
        value = self.symbols.value(text, where)
        self.symbols.claim(checked_name(name, at), at)
        self.symbols.constants[name] = value

    def _reg(self, rest: str, column: int) -> None:
        (name, at), (register, where) = arguments(rest, column, 2, ".reg NAME, REGISTER")
        number = self.symbols.register(register, where)
        self.symbols.claim(checked_name(name, at), at)
        self.symbols.registers[name] = number

    def _format(self, rest: str, column: int) -> None:
        (width, at), (frac, where) = arguments(rest, column, 2, ".format WIDTH, FRAC")
        end = where + len(frac)
        if self.symbols.format_fixed or self.layout.code or self.layout.data:
            raise TextFault("RG0117", "the format is set too late", at, end, "put it first in the program, once")
        bits, fraction = self.symbols.value(width, at), self.symbols.value(frac, where)
        if bits not in WIDTHS or not 0 <= fraction < bits:
            raise TextFault("RG0117", f"no format has {bits} bits, {fraction} of them fraction", at, end)
        self.symbols.format = Format(bits, fraction)
        self.symbols.format_fixed = True

    def _label(self, rest: str, column: int) -> None:
        """.label NAME, ADDRESS names a word of memory, with a value in .data or without; .label "TEXT" names this place."""
        found = _LABEL.fullmatch(rest)
        if found is None:
            at = column + len(rest) - len(rest.lstrip())
            hint = 'write `.label NAME, ADDRESS`, or `.label "TEXT"` for what is no name'
            raise TextFault("RG0113", "expected the name of a label", at, column + len(rest.rstrip()), hint)
        text, constant = found.groups()
        at = column + found.start(1)
        in_data = self.layout.in_data or constant is not None
        address = len(self.layout.data) if in_data else len(self.layout.code)
        if constant is not None:
            self.symbols.format_fixed = True
            address = self._words(constant, column + found.start(2))
        labels = self.symbols.data_labels if in_data else self.symbols.labels
        if text[0] == '"':
            name = unescaped(text[1:-1], at + 1)
            if not name:
                raise TextFault("RG0113", "a label without a name", at, at + 2)
            # It is written in no operand, so a label of the other section may have the same name.
            if name in labels:
                raise TextFault("RG0107", f"the label {text} is already defined", at, at + len(text))
            self.symbols.defined_at.setdefault(name, (self.sources.file.index, self.sources.line))
        else:
            name = text
            self.symbols.claim(name, at)
        labels[name] = address

    # ------------------------------------------------------------ memory and data

    def _words(self, text: str, at: int, most: int = MAX_DATA) -> int:
        """A number of words. Raises TextFault RG0116 for more than `most`."""
        count = self.symbols.value(text, at)
        if not 0 <= count <= most:
            shown = f"{count} words" if count.bit_length() < 200 else f"a count of words with {count.bit_length()} bits"
            raise TextFault("RG0116", f"{shown}, where 0 to {MAX_DATA} are possible", at, at + len(text))
        return count

    def _memory(self, rest: str, column: int) -> None:
        ((text, at),) = arguments(rest, column, 1, ".memory WORDS")
        self.layout.memory = max(self.layout.memory, self._words(text, at))

    def _section(self, data: bool, rest: str, column: int) -> None:
        arguments(rest, column, 0, ".data" if data else ".text")
        open_one = self.layout.subroutine
        if data and open_one is not None:
            hint = "Put .data before the `proc` or after its `endproc`."
            raise TextFault("RG0114", f"the procedure `{open_one.name}` is open", column - 5, column, hint)
        self.layout.in_data = data

    def _need_data(self, column: int) -> None:
        if not self.layout.in_data:
            begin = self.sources.file.lines[self.sources.line - 1].rindex(".", 0, column)
            raise TextFault("RG0114", "data stands in .text", begin, column)
        self.symbols.format_fixed = True

    def _word(self, rest: str, column: int) -> None:
        self._need_data(column)
        self.layout.store_constants(split_operands(rest), column)

    def _zero(self, rest: str, column: int) -> None:
        self._need_data(column)
        ((text, at),) = arguments(rest, column, 1, ".zero WORDS")
        self.layout.store([0] * self._words(text, at, MAX_DATA - len(self.layout.data)))

    def _ascii(self, rest: str, column: int) -> None:
        self._need_data(column)
        body, at = quoted(rest, column)
        data = unescaped(body, at).encode("utf-8", "surrogatepass")
        self.symbols.as_word(max(data, default=0), at, len(body))
        self.layout.store(data)

    def _include(self, rest: str, column: int) -> None:
        body, at = quoted(rest, column)
        in_data = self.layout.in_data
        self._read(*self.sources.included(body, at))
        self.layout.in_data = in_data
