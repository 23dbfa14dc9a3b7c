"""A language server for assembly text, with pygls: diagnostics as typed, hover, go to label and partner, symbols, completion.

`analysis.py` has the answers; this file translates them. Positions of editors count UTF-16 code units, those of the analysis characters.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from lsprotocol import types as lsp
from pygls import uris
from pygls.exceptions import JsonRpcServerNotInitialized
from pygls.lsp.server import LanguageServer
from pygls.protocol import LanguageServerProtocol

from retrograd.editors.analysis import Document, Place
from retrograd.editors.vocabulary import vocabulary
from retrograd.isa.diagnostics import Diagnostic, Span, printable
from retrograd.version import __version__

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
