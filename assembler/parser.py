"""Parser: the first pass over assembly text, line by line.

A line is a label, then an instruction, a directive or a word that stands for instructions. Most lines of large programs are
instructions on registers, and many are repeated: the first are encoded by one match, the second are looked up.
"""

from __future__ import annotations

import re
from pathlib import Path

from retrograd.assembler.directives import Directives
from retrograd.assembler.instructions import Instructions, WrittenInstruction, forms_of
from retrograd.assembler.layout import Layout
from retrograd.assembler.lexer import TextFault, parts_of
from retrograd.assembler.sources import Sources
from retrograd.assembler.subroutines import Subroutines
from retrograd.assembler.symbols import SymbolTable
from retrograd.isa.diagnostics import Span, nearest
from retrograd.isa.program import MAX_CODE, Program
from retrograd.isa.table import Table
from retrograd.isa.words import Format

#: a line whose operands are all names
_REGISTERS_ONLY = re.compile(r"\s*([a-z][\w.]*)\s+(\w+)(?:\s*,\s*(\w+)(?:\s*,\s*(\w+))?)?[ \t]*(?:;|$)")


class Parser:
    """Reads sources into a layout."""

    def __init__(self, table: Table, w: Format, roots: tuple[Path, ...]) -> None:
        self.sources = Sources(roots)
        self.symbols = SymbolTable(self.sources, w)
        self.layout = Layout(self.sources, self.symbols, table)
        self.forms = forms_of(table)
        self.instructions = Instructions(self.layout)
        self.directives = Directives(self.layout, self.read).words
        self.subroutines = Subroutines(self.layout).words
        #: line -> (word, column, end) of lines that encode alike wherever they stand, until the next directive
        self.known_lines: dict[str, tuple[int, int, int]] = {}

    def program(self) -> Program:
        """The program of the sources that have been read. Raises AssemblyError."""
        return self.layout.program()

    def read(self, name: str, text: str, path: Path | None) -> None:
        """Read one source, and the files that it includes."""
        known, layout, sources = self.known_lines, self.layout, self.sources
        code, spans = layout.code, layout.spans
        with sources.opened(name, text, path) as file:
            index = file.index
            for number, line in enumerate(file.lines, 1):
                hit = None if layout.in_data else known.get(line) or self._on_registers(line)
                if hit is not None:
                    word, column, end = hit
                    code.append(word)
                    spans.append((index, number, column, end))
                else:
                    sources.line = number
                    try:
                        self._line(line)
                    except TextFault as e:
                        hint = e.hint
                        if e.name:
                            hint = nearest(e.name, self.symbols.names()) or "define it above: its value is needed here"
                        sources.report(sources.position(e.start, e.end), e, hint)
                if len(code) > MAX_CODE:
                    raise sources.stop("RG0116", f"more than {MAX_CODE} instructions", Span(name, number))

    def _on_registers(self, line: str) -> tuple[int, int, int] | None:
        """The encoding of an instruction on registers; None for any other line, and for any fault."""
        found = _REGISTERS_ONLY.match(line)
        if found is None:
            return None
        form = self.forms.get(found[1])
        count = found.lastindex
        if form is None or count is None or len(form.shifts) != count - 1:
            return None
        word = form.bits
        registers = self.symbols.registers
        for group, shift in enumerate(form.shifts, 2):
            register = registers.get(found[group])
            if register is None:
                return None
            word |= register << shift
        for x, y in form.distinct:
            if (word >> x ^ word >> y) & 255 == 0:
                return None
        encoded = word, found.start(1) + 1, found.end(count) + 1
        self.known_lines[line] = encoded
        return encoded

    def _line(self, line: str) -> None:
        found = parts_of(line)
        label, word, rest = found.groups()
        if label is not None:
            self.layout.define_label(label, found.start(1))
        start, column = found.start(2), found.start(3)
        if word is None:
            if rest.strip():
                at = column + len(rest) - len(rest.lstrip())
                raise TextFault("RG0113", f"unexpected `{rest.strip()[:20]}`", at, at + len(rest.strip()))
        elif (form := self.forms.get(word)) is not None:
            if self.layout.in_data:
                raise TextFault("RG0114", f"the instruction `{word}` stands in .data", start, start + len(word))
            alike = self.instructions.encode(form, WrittenInstruction(word, start, rest, column))
            if alike and label is None:
                self.known_lines[line] = (self.layout.code[-1], *self.layout.spans[-1][2:])
        elif word in self.directives:
            self.known_lines.clear()
            self.directives[word](rest, column)
        elif word in self.subroutines:
            if self.layout.in_data:
                raise TextFault("RG0114", f"`{word}` stands in .data", start, start + len(word))
            self.subroutines[word](rest, column)
        else:
            raise self._unknown(word, rest, start)

    def _unknown(self, word: str, rest: str, start: int) -> TextFault:
        """The fault of a word that is neither an instruction nor a directive."""
        end = start + len(word)
        if word.startswith("."):
            return TextFault("RG0109", f"unknown directive `{word}`", start, end, nearest(word, self.directives, 0.7))
        if rest.lstrip().startswith(":"):
            return TextFault("RG0113", "a second label on the line", start, end, "give it a line of its own")
        names = [*self.forms, *self.subroutines, *self.directives]
        hint = (nearest(word.lower(), names) if word.lower() != word else None) or nearest(word, names)
        updates = [name for name in self.forms if name.startswith(word + ".")]
        if updates:
            hint = f"write the update too: {', '.join(f'`{u}`' for u in updates)}"
        return TextFault("RG0101", f"unknown instruction `{word}`", start, end, hint)
