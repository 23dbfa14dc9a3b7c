"""The language server, by pygls's own client over the command's standard streams; and its analysis of any text."""

from __future__ import annotations

import asyncio
import io
import json
import random
import re
import sys
from collections.abc import Awaitable, Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from retrograd.isa.manual.description import describe, effect_text
from retrograd.isa.microarchitecture.schedule import cycles
from retrograd.isa.table import TABLE
from retrograd.isa.words import Q32_32

from retrograd.cli.main import main
from retrograd.observe._language_server import Document, page_of
from retrograd.observe.lexers import vocabulary

ROOT = Path(__file__).resolve().parents[2]
TEXT = """\
.equ N, 3
.reg total, r2
.data
table: .word 1, 2
.text
        start
again:  from.ne r3, r0, more
        mul.add total, r3, r3
        add r3, 1
more:   goto.le r3, r1, again
        call twice
        finish
proc twice, r10
        add r5, N
endproc
"""
#: seconds until an answer that does not come is a fault
PATIENCE = 30


def test_every_word_has_a_page_from_the_table() -> None:
    """Semantics, inverse and adjoint are those of the table's description."""
    words = vocabulary()
    for word in (*words.instructions, *words.jumps, *words.words):
        assert page_of(word), word
    for opcode in TABLE:
        fact, page = describe(opcode), page_of(opcode.name)
        assert page is not None
        assert effect_text(fact) in page
        assert f"by {fact.inverse}" in page
        assert all(line in " ".join(page.split()) for line in fact.derivative or ())
    assert "goto.ge" in (page_of("goto.le") or "")
    assert page_of(".word") is None
    assert page_of("mumble") is None


def test_the_page_of_a_line_has_its_instructions_and_cycles() -> None:
    document = Document(TEXT, "p.rga")
    assert document.program is not None
    page = document.hover(7, 10)
    assert page is not None
    i = document.program.instructions[2]
    row = f"| 2 | `mul.add r2, r3, r3` | {cycles(i.opcode, Q32_32, False, True)} | {cycles(i.opcode, Q32_32, True, True)} |"
    assert row in page
    # `proc` is several instructions.
    assert (document.hover(12, 1) or "").count("`") >= 6
    for line, column, text in [
        (13, 16, "constant 3"),
        (7, 17, "register r2"),
        (9, 28, "label: address 1"),
        (3, 1, "data label: word 0"),
    ]:
        assert text in (document.hover(line, column) or ""), (line, column)
    assert document.hover(3, 8) is None
    assert document.hover(99, 0) is None


def test_definitions_partners_and_references() -> None:
    document = Document(TEXT, "p.rga")

    def at(line: int, column: int) -> tuple[int, int] | None:
        place = document.definition(line, column)
        return None if place is None else (place.line, place.start)

    # The partner of a jump is the other end; partners of partners are the jump itself.
    assert at(6, 9) == (9, 8)
    assert at(9, 9) == (6, 8)
    assert at(9, 27) == (6, 0)
    assert at(10, 14) == (12, 5)
    assert at(10, 9) == (12, 5)
    assert at(13, 16) == (0, 5)
    assert at(7, 17) == (1, 5)
    assert at(7, 10) is None
    assert [(p.line, p.start) for p in document.references(6, 1)] == [(6, 0), (9, 24)]
    assert [(s.name, s.kind) for s in document.symbols] == [
        ("N", "constant"), ("total", "register"), ("table", "data"), ("again", "label"), ("more", "label"), ("twice", "procedure"),
    ]  # fmt: skip


def test_partners_in_every_example() -> None:
    """Of each jump with a label on its own line, the partner of the partner is the jump."""
    pairs = 0
    for path in (ROOT / "examples").glob("*.rga"):
        document = Document(path.read_text(encoding="utf-8"), str(path), path)
        assert document.findings == []
        for number, line in enumerate(document.lines):
            for column in range(len(line)):
                word = document.word(number, column)
                if (
                    word is None
                    or not word.first
                    or column != word.start
                    or word.text.partition(".")[0] not in ("goto", "from")
                ):
                    continue
                there = document.definition(number, column)
                if there is None:
                    continue
                other = document.lines[there.line]
                begin = next((n for n in range(len(other)) if (w := document.word(there.line, n)) and w.first), None)
                if begin is not None:
                    back = document.definition(there.line, begin)
                    assert back is not None
                    assert back.line == number
                    pairs += 1
    assert pairs > 10


def test_includes(tmp_path: Path) -> None:
    (tmp_path / "names.rga").write_text(".equ N, 3\n")
    path = tmp_path / "p.rga"
    text = '.include "names.rga"\n start\n add r1, N\n finish\n'
    document = Document(text, str(path), path)
    assert document.findings == []
    place = document.definition(2, 9)
    assert place is not None
    assert (Path(place.file).name, place.line, place.start) == ("names.rga", 0, 5)
    assert document.symbols == []


def test_a_page_has_the_instructions_of_its_own_line(tmp_path: Path) -> None:
    """Each instruction of the text stands on the page of its line, and on no other; a file included has the same line numbers."""
    (tmp_path / "twice.rga").write_text("proc other, r9\n" + " add r7, 1\n" * 12 + "endproc\n")
    path = tmp_path / "p.rga"
    document = Document(f'.include "twice.rga"\n{TEXT}', str(path), path)
    program = document.program
    assert program is not None
    rows: list[int] = []
    for number, line in enumerate(document.lines):
        pages = {document.hover(number, column) or "" for column in range(len(line))}
        of_line = {int(pc) for page in pages for pc in re.findall(r"(?m)^\| (\d+) \|", page)}
        rows += sorted(of_line)
        spans = [program.source.span(pc) for pc in of_line]
        assert all(span is not None and (span.file, span.line) == (str(path), number + 1) for span in spans), line
    inside = [
        span is not None and span.file == str(path) for span in map(program.source.span, range(len(program.code)))
    ]
    assert rows == [pc for pc, own in enumerate(inside) if own]
    assert not all(inside)


def test_any_text_is_analysed() -> None:
    """Texts as they are typed: cut off, with lines exchanged, with strange characters."""
    rng = random.Random(4)
    for _ in range(250):
        lines = TEXT.split("\n")
        for _ in range(rng.randrange(4)):
            k = rng.randrange(len(lines))
            lines[k] = rng.choice(
                [
                    lines[k][: rng.randrange(len(lines[k]) + 1)],
                    rng.choice(lines),
                    "\0'\"é:",
                    '.label "a b", 1',
                    "proc",
                    "x: y: z",
                    ".format 8, 4",
                    " goto",
                ]
            )
        text = "\n".join(lines)[: rng.randrange(400)]
        document = Document(text, "p.rga")
        document.symbols
        for _ in range(20):
            line, column = rng.randrange(20), rng.randrange(40)
            document.hover(line, column)
            document.definition(line, column)
            document.references(line, column)


# ---------------------------------------------------------------------- by the client of pygls


def converse(script: Callable[[Any, Any, dict[str, Any]], Awaitable[None]]) -> None:
    """Run a script against the server: client, types of the protocol, diagnostics by document."""
    client_module = pytest.importorskip("pygls.lsp.client", reason="the tests of the language server need pygls")
    lsp = pytest.importorskip("lsprotocol.types")

    async def talk() -> None:
        client, published = client_module.LanguageClient("tests", "1"), dict[str, Any]()
        client.feature(lsp.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)(
            lambda params: published.update({params.uri: params.diagnostics})
        )
        await client.start_io(sys.executable, "-m", "retrograd.cli.main", "lsp")
        capabilities = lsp.ClientCapabilities()
        await asyncio.wait_for(client.initialize_async(lsp.InitializeParams(capabilities=capabilities)), PATIENCE)
        client.initialized(lsp.InitializedParams())
        try:
            await script(client, lsp, published)
        finally:
            await asyncio.wait_for(client.shutdown_async(None), PATIENCE)
            client.exit(None)
            await asyncio.wait_for(client._server.wait(), PATIENCE)
            await asyncio.wait_for(client.stop(), PATIENCE)
        assert client._server.returncode == 0

    asyncio.run(talk())


def test_a_document_that_is_not_open_has_no_answers() -> None:
    async def script(client: Any, lsp: Any, published: dict[str, Any]) -> None:
        document, start = lsp.TextDocumentIdentifier("untitled:Untitled-1"), lsp.Position(0, 0)
        assert await client.text_document_hover_async(lsp.HoverParams(document, start)) is None
        assert await client.text_document_definition_async(lsp.DefinitionParams(document, start)) is None
        assert await client.text_document_document_symbol_async(lsp.DocumentSymbolParams(document)) is None
        assert await client.text_document_completion_async(lsp.CompletionParams(document, start)) is None
        client.text_document_did_save(lsp.DidSaveTextDocumentParams(document))
        client.text_document_did_close(lsp.DidCloseTextDocumentParams(document))

    converse(script)


def answers_to(*messages: dict[str, Any]) -> list[dict[str, Any]]:
    """The messages that a server in this process writes until its input ends."""
    server = pytest.importorskip("retrograd.observe._language_server", reason="the language server needs pygls").server
    sent = [json.dumps({"jsonrpc": "2.0", **message}).encode() for message in messages]
    written = io.BytesIO()
    written.close = lambda: None  # type: ignore[method-assign]
    server().start_io(io.BytesIO(b"".join(b"Content-Length: %d\r\n\r\n%s" % (len(m), m) for m in sent)), written)
    return [json.loads(body) for body in re.split(rb"Content-Length[^{]*\r\n\r\n", written.getvalue())[1:]]


INITIALIZE = {"method": "initialize", "id": 1, "params": {"processId": None, "rootUri": None, "capabilities": {}}}
HOVER = {"method": "textDocument/hover", "params": {"textDocument": {"uri": "file:///p.rga"}, "position": {"line": 0, "character": 0}}}  # fmt: skip


def test_a_request_before_the_session_is_refused() -> None:
    opened = {"method": "textDocument/didOpen", "params": {"textDocument": {"uri": "file:///p.rga", "languageId": "rga", "version": 1, "text": ""}}}  # fmt: skip
    first, second = answers_to({**HOVER, "id": "a"}, opened, INITIALIZE)
    assert (first["id"], first["error"]["code"]) == ("a", -32002)  # ServerNotInitialized
    assert "Traceback" not in json.dumps(first)
    assert second["id"] == 1
    assert "result" in second


@pytest.mark.parametrize("number", [{"a": 1}, [1], 1.5])
def test_a_message_with_a_number_of_another_type_is_ignored(number: object, caplog: pytest.LogCaptureFixture) -> None:
    found = answers_to(INITIALIZE, {**HOVER, "id": number}, {"method": 5, "params": {}}, {**HOVER, "id": 2})
    assert [body.get("id") for body in found] == [1, 2]
    assert "TypeError" not in caplog.text


def test_diagnostics_have_no_control_characters() -> None:
    text = "start\nadd r1, \x1b[31m\u202e\nfinish\n"
    opened = {"method": "textDocument/didOpen", "params": {"textDocument": {"uri": "file:///p.rga", "languageId": "rga", "version": 1, "text": text}}}  # fmt: skip
    _, published = answers_to(INITIALIZE, opened)
    messages = [d["message"] for d in published["params"]["diagnostics"]]
    assert messages
    assert all(line.isprintable() for message in messages for line in message.splitlines())


@pytest.mark.long
def test_an_editor(tmp_path: Path) -> None:
    path = tmp_path / "p.rga"
    path.write_text(TEXT)
    uri = path.as_uri()

    async def script(client: Any, lsp: Any, published: dict[str, Any]) -> None:
        document = lsp.TextDocumentIdentifier(uri)

        async def diagnostics() -> list[Any]:
            for _ in range(PATIENCE * 20):
                if uri in published:
                    found = list(published.pop(uri))
                    return found
                await asyncio.sleep(0.05)
            raise AssertionError("no diagnostics")

        async def ask(name: str, line: int, column: int) -> Any:
            kind = {"hover": lsp.HoverParams, "definition": lsp.DefinitionParams, "completion": lsp.CompletionParams}[
                name
            ]
            request = getattr(client, f"text_document_{name}_async")
            return await asyncio.wait_for(request(kind(document, lsp.Position(line, column))), PATIENCE)

        client.text_document_did_open(lsp.DidOpenTextDocumentParams(lsp.TextDocumentItem(uri, "rga", 1, TEXT)))
        assert await diagnostics() == []
        hover = await ask("hover", 7, 10)
        assert "rd += ra·rb" in hover.contents.value
        assert (hover.range.start.character, hover.range.end.character) == (8, 15)
        assert (await ask("definition", 9, 9)).range.start.line == 6
        symbols = await client.text_document_document_symbol_async(lsp.DocumentSymbolParams(document))
        assert [s.name for s in symbols][-1] == "twice"
        found = await client.text_document_references_async(
            lsp.ReferenceParams(lsp.ReferenceContext(True), document, lsp.Position(6, 1))
        )
        assert len(found) == 2
        labels = [item.label for item in (await ask("completion", 5, 8)).items]
        assert "mul.add" in labels
        assert "again" in [item.label for item in (await ask("completion", 9, 24)).items]

        # As typed: a fault appears with its place, in units of UTF-16, and disappears.
        wrong = TEXT.replace("        add r3, 1", " imm.add r3, '😀' + addd")
        change = lsp.TextDocumentContentChangeWholeDocument(wrong)
        client.text_document_did_change(
            lsp.DidChangeTextDocumentParams(lsp.VersionedTextDocumentIdentifier(2, uri), [change])
        )
        faults = await diagnostics()
        assert [d.severity for d in faults] == [lsp.DiagnosticSeverity.Error] * len(faults)
        assert any(d.range.start.line == 8 and d.code.startswith("RG01") and "fix:" in d.message for d in faults)
        units = len(" imm.add r3, '😀' + addd".encode("utf-16-le")) // 2
        assert max(d.range.end.character for d in faults if d.range.start.line == 8) == units
        change = lsp.TextDocumentContentChangeWholeDocument(TEXT)
        client.text_document_did_change(
            lsp.DidChangeTextDocumentParams(lsp.VersionedTextDocumentIdentifier(3, uri), [change])
        )
        assert await diagnostics() == []
        assert await ask("hover", 500, 2) is None
        client.text_document_did_close(lsp.DidCloseTextDocumentParams(document))
        assert await diagnostics() == []

    converse(script)


def test_without_pygls(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert main(["lsp"]) == 2
    assert "retrograd[lsp]" in capsys.readouterr().err


@pytest.mark.parametrize(
    "line",
    [
        ".data\n.word 1, -{}\n.text\n start",
        " start\n add r1, {}",
        ".equ c, ({} + 1)\n start",
        " start\n ld.add r1, [r2 + {}]",
    ],
)
def test_literals_that_lose_bits_are_warnings(line: str) -> None:
    """At each literal, beside the faults of the text; a literal that keeps its bits has none."""
    for literal, lost in (("1e-9q", True), ("1.5q", False), ("123456.789q", False)):
        text = f"{line.format(literal)}\n sub r1, {literal}\n sub r1, {literal} ; again\n ad r1\n finish\n"
        found = Document(text, "p.rga").findings
        warned = [d for d in found if d.severity == "warning"]
        assert "RG0101" in [d.code for d in found]
        assert len(warned) == 3 * lost
        for d in warned:
            assert d.code == "RG0120"
            assert d.span is not None
            assert text.split("\n")[d.span.line - 1][d.span.column - 1 : d.span.end - 1] == literal
            assert d.hint == Q32_32.remedy(Fraction(literal[:-1]))


def test_lost_bits_reach_the_editor(tmp_path: Path) -> None:
    (tmp_path / "c.rga").write_text(".equ c, 1e-9q\n")
    document = Document('.include "c.rga"\n start\n add r1, c\n finish\n', str(tmp_path / "p.rga"), tmp_path / "p.rga")
    assert [(d.code, d.severity, Path(d.span.file).name) for d in document.findings if d.span] == [
        ("RG0120", "warning", "c.rga")
    ]
