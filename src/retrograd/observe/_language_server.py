"""An assembly text as an editor needs it: its faults, its names and where they are defined, and pages about words.

    document = Document(text, "p.rga", path)
    document.findings              errors and warnings: those of `retrograd verify`, and literals that lose bits
    document.definition(7, 12)     where the name, or the partner of the jump, at a line and column is defined
    document.hover(7, 3)           the manual's page of the instruction, with the encoded instructions and their cycles

Lines and columns count from 0 here, as editors count them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from lsprotocol import types as lsp
from pygls import uris
from pygls.exceptions import JsonRpcServerNotInitialized
from pygls.lsp.server import LanguageServer
from pygls.protocol import LanguageServerProtocol

from retrograd.assembler.assemble import Parser
from retrograd.assembler.instructions import SUGAR, sugar_page
from retrograd.assembler.lexer import parts_of
from retrograd.assembler.verify import findings
from retrograd.isa.diagnostics import Diagnostic, RetrogradError, Span, printable
from retrograd.isa.encoding import write
from retrograd.isa.manual.pages import entry_page
from retrograd.isa.microarchitecture.schedule import cycles
from retrograd.isa.program import Program
from retrograd.isa.table import TABLE
from retrograd.isa.words import Q32_32
from retrograd.observe.lexers import NAME, vocabulary
from retrograd.version import __version__

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


# -----------------------------------------------------------------------------
# A language server for assembly text, with pygls: diagnostics as typed, hover, go to label and partner, symbols, completion.
#
# The analysis above has the answers, and the server translates them. Positions of editors count UTF-16 code units, those of the analysis characters.

_KINDS = {
    "procedure": "Function", "label": "Key", "data": "Array", "constant": "Constant", "register": "Variable",
}  # fmt: skip


class AssemblyServer:
    """The documents of one editor. Each change is analysed once, when something of the new text is needed."""

    def __init__(self, server: Any) -> None:
        self.server = server
        self._known: dict[str, tuple[str, Document]] = {}
        features = {
            lsp.TEXT_DOCUMENT_DID_OPEN: self._changed,
            lsp.TEXT_DOCUMENT_DID_CHANGE: self._changed,
            lsp.TEXT_DOCUMENT_DID_SAVE: self._changed,
            lsp.TEXT_DOCUMENT_DID_CLOSE: self._closed,
            lsp.TEXT_DOCUMENT_HOVER: self._hover,
            lsp.TEXT_DOCUMENT_DEFINITION: self._definition,
            lsp.TEXT_DOCUMENT_REFERENCES: self._references,
            lsp.TEXT_DOCUMENT_DOCUMENT_SYMBOL: self._symbols,
            lsp.TEXT_DOCUMENT_COMPLETION: self._completion,
        }
        for name, carry_out in features.items():
            server.feature(name)(self._answering(carry_out, name != lsp.TEXT_DOCUMENT_DID_CLOSE))

    def _answering(self, carry_out: Callable[[Any], Any], of_open: bool) -> Callable[[Any], Any]:
        """The feature as a function: pygls sets attributes of a function that it registers, and a bound method has none.

        `of_open`: there is no answer about a document that the editor has not opened, since its text is unknown here.
        """

        def answer(params: Any) -> Any:
            known = params.text_document.uri in self.server.workspace.text_documents
            return carry_out(params) if known or not of_open else None

        return answer

    def _document(self, uri: str) -> tuple[Any, Document]:
        """(the text document of pygls, the analysis of its text)."""
        text = self.server.workspace.get_text_document(uri)
        known = self._known.get(uri)
        if known is None or known[0] != text.source:
            found = uris.to_fs_path(uri)
            path = Path(found) if found and uri.startswith("file:") else None
            known = text.source, Document(text.source, str(path or uri), path)
            self._known[uri] = known
        return text, known[1]

    @staticmethod
    def _range(text: Any, line: int, start: int, end: int) -> Any:
        """The range of columns of a line, in the units of the editor."""
        number = min(line, max(len(text.lines) - 1, 0))
        codec, content = text.position_codec, text.lines[number] if text.lines else ""
        before, until = (codec.client_num_units(content[:column]) for column in (start, end))
        return lsp.Range(lsp.Position(number, before), lsp.Position(number, until))

    def _at(self, params: Any) -> tuple[Any, Document, int, int]:
        text, document = self._document(params.text_document.uri)
        line, units = params.position.line, params.position.character
        content = document.lines[line] if 0 <= line < len(document.lines) else ""
        column = next(
            (n for n in range(len(content)) if text.position_codec.client_num_units(content[:n]) >= units), len(content)
        )
        return text, document, line, column

    def _location(self, text: Any, document: Document, place: Place) -> Any:
        if place.file == document.name:
            return lsp.Location(text.uri, self._range(text, place.line, place.start, place.end))
        folder = document.path.parent if document.path else Path()
        uri = uris.from_fs_path(str((folder / place.file).resolve()))
        ends = (lsp.Position(place.line, column) for column in (place.start, place.end))
        return lsp.Location(uri, lsp.Range(*ends))

    # ------------------------------------------------------------------ features

    def _changed(self, params: Any) -> None:
        """Publish the findings of a text."""
        text, document = self._document(params.text_document.uri)
        found = [self._diagnostic(text, document, d) for d in document.findings]
        self.server.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(text.uri, found))

    def _closed(self, params: Any) -> None:
        self._known.pop(params.text_document.uri, None)
        self.server.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(params.text_document.uri, []))

    def _diagnostic(self, text: Any, document: Document, d: Diagnostic) -> Any:
        own = d.span is not None and d.span.file == document.name
        span = d.span if own and d.span is not None else Span(document.name, 1)
        where = "" if own or d.span is None else f"{d.span}: "
        message = f"{where}{d.message}\nwhy: {d.kind.why}\nfix: {d.hint or d.kind.fix}"
        severity = lsp.DiagnosticSeverity.Error if d.severity == "error" else lsp.DiagnosticSeverity.Warning
        place = self._range(text, span.line - 1, span.column - 1, max(span.end, span.column) - 1)
        return lsp.Diagnostic(
            range=place, message=printable(message, lines=True), severity=severity, code=d.code, source="retrograd"
        )

    def _hover(self, params: Any) -> Any:
        text, document, line, column = self._at(params)
        page, word = document.hover(line, column), document.word(line, column)
        if page is None or word is None:
            return None
        content = lsp.MarkupContent(lsp.MarkupKind.Markdown, page)
        return lsp.Hover(content, self._range(text, line, word.start, word.end))

    def _definition(self, params: Any) -> Any:
        text, document, line, column = self._at(params)
        place = document.definition(line, column)
        return None if place is None else self._location(text, document, place)

    def _references(self, params: Any) -> Any:
        text, document, line, column = self._at(params)
        return [self._location(text, document, place) for place in document.references(line, column)]

    def _symbols(self, params: Any) -> Any:
        text, document = self._document(params.text_document.uri)
        out = []
        for symbol in document.symbols:
            p = symbol.place
            place = self._range(text, p.line, p.start, p.end)
            out.append(
                lsp.DocumentSymbol(symbol.name, getattr(lsp.SymbolKind, _KINDS[symbol.kind]), place, place, symbol.kind)
            )
        return out

    def _completion(self, params: Any) -> Any:
        document, line, column = self._at(params)[1:]
        before = document.lines[line][:column] if 0 <= line < len(document.lines) else ""
        _, colon, rest = before.rpartition(":")
        if len((rest if colon else before).split()) > 1 or before[-1:] in (",", "["):
            names = {s.name: lsp.CompletionItemKind.Value for s in document.symbols}
        else:
            words = vocabulary()
            names = dict.fromkeys(
                (*words.instructions, *words.jumps, *words.words, *words.directives), lsp.CompletionItemKind.Keyword
            )
        return lsp.CompletionList(False, [lsp.CompletionItem(name, kind=kind) for name, kind in names.items()])


class _Protocol(LanguageServerProtocol):
    """The protocol, with errors of its own for messages that it does not allow. pygls answers them with tracebacks, or by none.

    A request before `initialize` has the error ServerNotInitialized, and a message whose number or method has another type is ignored.
    """

    def handle_message(self, message: Any) -> None:
        number, method = getattr(message, "id", None), getattr(message, "method", "")
        if not isinstance(number, int | str | None) or not isinstance(method, str):
            return
        if self._workspace is None and method not in (lsp.INITIALIZE, lsp.EXIT):
            if method and number is not None:
                self._send_response(number, error=JsonRpcServerNotInitialized().to_response_error())
            return
        super().handle_message(message)


def server() -> Any:
    """A language server, ready to start."""
    made = LanguageServer("retrograd", __version__, protocol_cls=_Protocol)
    AssemblyServer(made)
    return made
