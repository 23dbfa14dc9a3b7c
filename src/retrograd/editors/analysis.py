"""An assembly text as an editor needs it: its faults, its names and where they are defined, and pages about words.

    document = Document(text, "p.rga", path)
    document.findings              errors and warnings: those of `retrograd verify`, and literals that lose bits
    document.definition(7, 12)     where the name, or the partner of the jump, at a line and column is defined
    document.hover(7, 3)           the manual's page of the instruction, with the encoded instructions and their cycles

Lines and columns count from 0 here, as editors count them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from retrograd.assembler.assemble import Parser
from retrograd.assembler.instructions import SUGAR, sugar_page
from retrograd.assembler.lexer import parts_of
from retrograd.assembler.verify import findings
from retrograd.editors.vocabulary import NAME, vocabulary
from retrograd.isa.diagnostics import Diagnostic, RetrogradError
from retrograd.isa.encoding import write
from retrograd.isa.manual.pages import entry_page
from retrograd.isa.microarchitecture.schedule import cycles
from retrograd.isa.program import Program
from retrograd.isa.table import TABLE
from retrograd.isa.words import Q32_32

#: instructions of a line that a page lists
_LISTED = 12


@dataclass(frozen=True)
class Place:
    """A name in a text: the file, the line, and the columns."""

    file: str
    line: int
    start: int
    end: int


@dataclass(frozen=True)
class Symbol:
    """A name that a text defines: "procedure", "label", "data", "constant" or "register"."""

    name: str
    kind: str
    place: Place


@dataclass(frozen=True)
class Word:
    """The word at a position; `first`: it is an instruction or a directive, and no operand or label."""

    text: str
    first: bool
    start: int
    end: int


class Document:
    """A text, read by the assembler. A text with faults has all names that the assembler found."""

    def __init__(self, text: str, name: str, path: Path | None = None) -> None:
        self.name, self.path = name, path
        self.lines = text.split("\n")
        roots = () if path is None else (path.resolve().parent,)
        self._parser = Parser(TABLE, Q32_32, roots)
        self.program: Program | None = None
        self.findings: list[Diagnostic] = []
        try:
            self._parser.read(name, text, None if path is None else path.resolve())
            self.program = self._parser.program()
            self.findings = findings(self.program)
        except RetrogradError as error:
            self.findings = list(error.diagnostics)
        self.findings += self._parser.sources.warnings

    # ------------------------------------------------------------------ names

    @cached_property
    def symbols(self) -> list[Symbol]:
        """The names that this text defines itself, in their order."""
        table = self._parser.symbols
        found = []
        for name, (index, number) in table.defined_at.items():
            place = self._place(name, index, number - 1)
            # The names that a `proc` makes besides its own have no text.
            if index or place is None or place.end == place.start:
                continue
            if name in table.constants:
                kind = "constant"
            elif name in table.registers:
                kind = "register"
            elif name in table.data_labels:
                kind = "data"
            else:
                kind = "procedure" if parts_of(self.lines[number - 1])[2] == "proc" else "label"
            found.append(Symbol(name, kind, place))
        return sorted(found, key=lambda s: (s.place.line, s.place.start))

    def _place(self, name: str, index: int, line: int) -> Place | None:
        """The place of a name that is defined on a line of a file; its head where the line has no such text."""
        file = self._parser.sources.files[index]
        if line >= len(file.lines):
            return None
        found = re.search(rf"(?<![\w.]){re.escape(name)}(?![\w.])", file.lines[line])
        start, end = (0, 0) if found is None else found.span()
        return Place(file.name, line, start, end)

    def word(self, line: int, column: int) -> Word | None:
        """The word at a position."""
        if not 0 <= line < len(self.lines):
            return None
        text = self.lines[line]
        parts = parts_of(text)
        for found in re.finditer(rf"\.?{NAME}", text[: parts.end()]):
            if found.start() <= column <= found.end():
                return Word(found[0], found.start() == parts.start(2), *found.span())
        return None

    def definition(self, line: int, column: int) -> Place | None:
        """Where the name at a position is defined; of a jump's own word, its partner: the other end of the jump."""
        found = self.word(line, column)
        if found is None:
            return None
        if found.first:
            return self._partner(line, found.text) if found.text in vocabulary().jumps else None
        return self._defined(found.text)

    def _defined(self, name: str) -> Place | None:
        defined = self._parser.symbols.defined_at.get(name)
        return None if defined is None else self._place(name, defined[0], defined[1] - 1)

    def _partner(self, line: int, word: str) -> Place | None:
        """The place of the instruction behind the label that a jump names; of a call, the name of the procedure."""
        text = self.lines[line]
        operands = text[: parts_of(text).end()].rpartition(word)[2].replace(",", " ").split()
        label = self._defined(operands[-1]) if operands else None
        if label is None or label.file != self.name or not word.startswith(("goto", "from")):
            return label
        # A label may stand on a line of its own, above its instruction.
        for number in range(label.line, len(self.lines)):
            parts = parts_of(self.lines[number])
            if parts[2] is not None:
                return label if parts[2] == "proc" else Place(self.name, number, *parts.span(2))
        return label

    def references(self, line: int, column: int) -> list[Place]:
        """The places of this text that have the name at a position, its definition included."""
        found = self.word(line, column)
        if found is None or found.first or found.text not in self._parser.symbols.defined_at:
            return []
        pattern = re.compile(rf"(?<![\w.]){re.escape(found.text)}(?![\w.])")
        return [
            Place(self.name, number, *match.span())
            for number, text in enumerate(self.lines)
            for match in pattern.finditer(text[: parts_of(text).end()])
        ]

    # ------------------------------------------------------------------ pages

    def hover(self, line: int, column: int) -> str | None:
        """The page about a word, in Markdown."""
        found = self.word(line, column)
        if found is None:
            return None
        if found.first:
            page = page_of(found.text)
            if page is None:
                return None
            encoded = self._encoded(line)
            return f"```text\n{page}\n```" + (f"\n\n{encoded}" if encoded else "")
        table = self._parser.symbols
        for kind, values in {
            "constant": table.constants, "data label: word": table.data_labels, "label: address": table.labels,
        }.items():  # fmt: skip
            if found.text in values:
                return f"`{found.text}` — {kind} {values[found.text]}"
        if found.text in table.registers:
            return f"`{found.text}` — register r{table.registers[found.text]}"
        return None

    def _encoded(self, line: int) -> str:
        """The instructions that a line stands for, with their cycles on the co-processor."""
        if self.program is None:
            return ""
        rows = []
        for pc, i in enumerate(self.program.instructions):
            span = self.program.source.span(pc)
            if span is None or span.file != self.name or span.line != line + 1:
                continue
            same, w = i.ra == i.rb, self.program.format
            times = [str(cycles(i.opcode, w, lifted, same)) for lifted in (False, True)]
            rows.append(f"| {pc} | `{write(i)}` | {times[0]} | {times[1]} |")
        if not rows:
            return ""
        more = ["| … | | | |"] if len(rows) > _LISTED else []
        head = ["| pc | instruction | cycles | with cotangents |", "|---|---|---|---|"]
        return "\n".join([*head, *rows[:_LISTED], *more])


def page_of(word: str) -> str | None:
    """The manual's page of an instruction, shorthand or word of the assembler: semantics, inverse, traps, adjoint; None for others."""
    sugar = sugar_page(word)
    if sugar is not None:
        condition = word.partition(".")[2]
        real = next(
            (name for name in (sugar.split("\n")[-1].split() if condition else ()) if name in TABLE.by_name), None
        )
        return sugar if word in SUGAR or real is None else f"{sugar}\n\n{entry_page(real)}"
    try:
        return entry_page(word)
    except KeyError:
        return None
