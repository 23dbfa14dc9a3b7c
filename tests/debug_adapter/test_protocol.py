"""Malformed, repeated, random and cancelled requests: each has one response, in order, and none ends or hangs the adapter."""

from __future__ import annotations

import io
import json
import random
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from retrograd.cli.commands.debugging import serve
from retrograd.observe._server import Malformed, framed, read
from tests.debug_adapter.client import PATIENCE, Client, Refused, adapter, encoded
from tests.debug_adapter.test_requests import ARGUMENTS, SHAPES, SQUARES

#: runs for hours on the reference machine
LONG = """\
.reg n, r1
.reg i, r3
        start
again:  from.ne i, r0, more
        add i, 1
more:   goto.le i, n, again
        sub i, n
        sub i, 1
        finish
"""
COMMANDS = [
    "initialize", "launch", "attach", "configurationDone", "disconnect", "terminate", "threads", "cancel", "pause",
    "setBreakpoints", "setFunctionBreakpoints", "setInstructionBreakpoints", "setDataBreakpoints", "dataBreakpointInfo",
    "setExceptionBreakpoints", "exceptionInfo", "breakpointLocations", "continue", "reverseContinue", "next", "stepIn",
    "stepOut", "stepBack", "stackTrace", "scopes", "variables", "setVariable", "setExpression", "evaluate", "completions",
    "source", "loadedSources", "disassemble", "readMemory", "writeMemory", "restart", "goto", "", "\0",
]  # fmt: skip
NAMES = [
    "threadId", "frameId", "variablesReference", "name", "value", "expression", "context", "line", "endLine", "source",
    "breakpoints", "filters", "filterOptions", "levels", "startFrame", "start", "count", "granularity", "text", "column",
    "memoryReference", "offset", "instructionOffset", "instructionCount", "data", "requestId", "progressId", "program",
    "sourceReference", "path", "condition", "hitCondition", "logMessage", "dataId", "instructionReference", "filterId",
]  # fmt: skip
TEXTS = [
    "", "i", "sum", "r3", "again", "0x2", "M[0]", "M[99999999999]", "i == 2", "i if", "1e999", "why sum", "turn", "to 7", "step",
    "reverse-line", "out", "trap", "instruction", "hover", "repl", "{i", "{i}", "% 0", ">= 2", "\0", "é" * 2000, "(" * 500, "9" * 5000,
    "\ud800", "M[0]\ud800", "\u2028", "n", "p", "p.x", "m[0, 1]", "large", "large[40]", "z", "out", "cotangent(out)", "cotangent(large)", "m[0]", "real(out)", "info", "list",
    "AAAA", "i ** 10**9", "i << 99", "set i = 3", "break again", "continue", "delete 1", "counts", str(SQUARES), "write",
]  # fmt: skip


def any_value(rng: random.Random, depth: int = 0) -> Any:
    match rng.randrange(9 if depth < 3 else 6):
        case 0:
            return rng.choice(TEXTS)
        case 1:
            return rng.randrange(-2, 12)
        case 2:
            return rng.choice([None, True, False, 1.5, -(10**30), 10**30, 1 << 62])
        case 3 | 4 | 5:
            return rng.choice([1, rng.choice(TEXTS)])
        case 6:
            return [any_value(rng, depth + 1) for _ in range(rng.randrange(3))]
        case _:
            return {rng.choice(NAMES): any_value(rng, depth + 1) for _ in range(rng.randrange(6))}


def arguments_like(rng: random.Random) -> Any:
    if rng.random() < 0.1:
        return any_value(rng)
    found = {"threadId": 1, "frameId": 1, "variablesReference": rng.randrange(1, 6), "source": {"path": str(SQUARES)}}
    found |= {"line": 8, "instructionCount": 4, "count": 9, "text": "re", "column": 3, "name": "sum", "value": "4"}
    found |= {"expression": rng.choice(TEXTS), "memoryReference": "0x1", "breakpoints": [{"line": 8}], "filters": []}
    for name in rng.sample(NAMES, rng.randrange(4)):
        found[name] = any_value(rng)
    for name in rng.sample(sorted(found), rng.randrange(3)):
        del found[name]
    return found


def random_requests(seed: int, count: int, program: Path | str = SQUARES, **arguments: Any) -> None:
    rng = random.Random(seed)
    with adapter() as c:
        c.launch(program, **arguments)
        c.stopped("pause")
        sent = []
        for _ in range(count):
            command = rng.choice([name for name in COMMANDS if name not in ("disconnect", "terminate")])
            sent.append(c.send(command, arguments_like(rng)))
            if command in ("continue", "evaluate") and rng.random() < 0.2:
                sent.append(c.send("cancel", {"requestId": sent[-1]}))
        for number in sent:
            found = c.response(number)
            assert found["success"] or found["message"]
        # It still works, if `continue` at the end or `quit` has not ended the program.
        assert [thread["id"] for thread in c.request("threads")["threads"]] in ([], [1])


@pytest.mark.parametrize("seed", range(4))
def test_random_requests(seed: int) -> None:
    random_requests(seed, 250, set={"n": 5})


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4, 44))
def test_many_random_requests(seed: int) -> None:
    random_requests(seed, 1500, set={"n": 5})


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    ("program", "arguments"),
    [
        (SHAPES, {"args": ARGUMENTS}),
        (f"{SQUARES.parent / 'bessel.py'}:bessel", {"args": ["0.0", "2.5"], "loss": "out"}),
        (SQUARES.parent / "vlad" / "derivatives.vlad", {"expression": 3}),
    ],
    ids=["function", "gradient", "vlad"],
)
def test_random_requests_to_other_programs(program: Path | str, arguments: dict[str, Any], seed: int) -> None:
    random_requests(seed, 600, program, **arguments)


MALFORMED = [
    b"Content-Length: 5\r\n\r\n{]{]{", b"Content-Length: 2\r\n\r\n[]", b"Content-Length: 4\r\n\r\nnull",
    b"Content-Length: 3\r\n\r\n\xff\xfe\xfd", b"Content-Length: 0\r\n\r\n",
    b"Content-Type: text/plain\r\nCONTENT-LENGTH:4\r\n\r\nnull", b"Content-Length: 4\nContent-Type: x\n\nnull",
    b"Content-Length: 100000\r\n\r\n" + b"[" * 100000,
    encoded({"seq": 1}), encoded({"seq": "1", "type": "request", "command": "threads"}),
    encoded({"seq": 1, "type": "request"}), encoded({"seq": 1, "type": "request", "command": 5}),
    encoded({"seq": 1, "type": "riddle", "command": "threads"}), encoded({"seq": 1, "type": "request", "command": "threads", "arguments": []}),
    encoded({"seq": True, "type": "request", "command": "threads"}), encoded({"seq": 1, "type": "request", "command": "fly"}),
]  # fmt: skip


@pytest.mark.parametrize("data", MALFORMED, ids=range(len(MALFORMED)))
def test_malformed_messages(data: bytes) -> None:
    """One response without success, and then everything works."""
    with adapter() as c:
        c.raw(data)
        c.seq = 100
        c.launch(SQUARES, set={"n": 5})
        c.stopped("pause")
        refused = [m for m in c.messages if m["type"] == "response"]
        assert len(refused) == 1
        assert not refused[0]["success"]
        assert "Traceback" not in json.dumps(refused)


BODY = framed({"seq": 1, "type": "request", "command": "initialize"}).partition(b"\r\n\r\n")[2]
HEADERS = [
    b"POST / HTTP/1.1\r\nContent-Length: %d", b"GET /?Content-Length:%d HTTP/1.1", b"Host: x\r\nContent-Length: %d",
    b"Content-Length: %d\r\nReferer: x", b"Referer: http://x/?Content-Length:%d", b" Content-Length: %d", b"x Content-Length: %d",
    b"Content-Length: %d\r\nContent-Length: 4", b"Content-Length: %d x", b"Content-Length: -%d", b"Content-Length: x%d", b"\r\nContent-Length: %d",
    b"Content-Length : %d", b"Content-Lengt: %d", b"nothing %d", b"Content-Length: 999999999%d", b"Content-Type: a\rContent-Length: %d",
]  # fmt: skip


@pytest.mark.parametrize("header", HEADERS)
def test_nothing_is_read_behind_another_header(header: bytes) -> None:
    """No part of a web page's request is taken for a message: one refusal, and the end."""
    found = read(io.BytesIO(header % len(BODY) + b"\r\n\r\n" + BODY))
    assert isinstance(found, Malformed)
    assert found.last
    sink = io.BytesIO()
    serve(
        io.BytesIO(
            header % len(BODY) + b"\r\n\r\n" + BODY + framed({"seq": 2, "type": "request", "command": "initialize"})
        ),
        sink,
    )
    sink.seek(0)
    refused = read(sink)
    assert isinstance(refused, dict)
    assert not refused["success"]
    assert read(sink) is None


def test_framing() -> None:
    message = {"seq": 1, "type": "request", "command": "é"}
    assert read(io.BytesIO(framed(message))) == message
    assert read(io.BytesIO(framed(message)[:-1])) is None
    assert read(io.BytesIO(framed({"a": "é\u2028😀", "b": "\ud800"}))) == {"a": "é\u2028😀", "b": "?"}


@pytest.mark.parametrize("seed", range(40))
def test_random_bytes_before_a_message(seed: int) -> None:
    """No bytes but those of a header stand before a message that is read."""
    rng = random.Random(seed)
    junk = bytes(rng.choices(b"Content-Lgh: 0123\r\n{}\xff", k=rng.randrange(1, 40))) + b"\r\n"
    found = read(io.BytesIO(junk + framed({"seq": 1})))
    assert isinstance(found, Malformed)
    assert found.last


def test_repeated_requests() -> None:
    with adapter() as c:
        c.launch(SQUARES, set={"n": 5}, stopOnEntry=True)
        c.stopped("entry")
        for command, message in [
            ("initialize", "once"),
            ("launch", "already"),
            ("configurationDone", "once"),
            ("attach", "no running"),
        ]:
            with pytest.raises(Refused, match=message):
                c.request(command, program=str(SQUARES))
        for _ in range(3):
            c.move("next")
            c.request("pause", threadId=1)
        assert not c.waits("stopped")


def long_program(tmp_path: Path) -> Path:
    path = tmp_path / "long.rga"
    path.write_text(LONG)
    return path


def test_refusals_have_no_control_characters() -> None:
    with adapter() as c:
        for command in ("\x1b]0;title\x07", "\u202e"):
            found = c.response(c.send(command))
            assert found["message"].isprintable()
        c.launch(SQUARES)
        found = c.response(c.send("evaluate", {"expression": "n\x1b[31m\u202e", "context": "watch"}))
        assert found["message"].isprintable()
        conditions = [{"line": 3, "hitCondition": "\x1b[31m"}, {"line": 3, "condition": "n\u202e > \x1b"}]
        found = c.request("setBreakpoints", source={"path": str(SQUARES)}, breakpoints=conditions)
        for place in found["breakpoints"]:
            assert not place["verified"]
            assert place["message"].isprintable()


@pytest.mark.long
@pytest.mark.parametrize("engine", ["reference", "auto"])
def test_a_long_run(engine: str, tmp_path: Path) -> None:
    """It shows its progress, takes breakpoints, refuses requests that need a state, and is paused and cancelled within a second."""
    path = long_program(tmp_path)
    with adapter() as c:
        c.launch(path, configure=False, engine=engine, set={"n": 10**15})
        c.request("configurationDone")
        began = c.event("progressStart")
        assert began["cancellable"]
        assert c.event("progressUpdate")["progressId"] == began["progressId"]
        with pytest.raises(Refused, match="the program runs"):
            c.request("stackTrace", threadId=1)
        assert c.request("threads")["threads"]
        begun = time.monotonic()
        c.request("pause", threadId=1)
        c.stopped("pause")
        assert time.monotonic() - begun < 2
        assert c.event("progressEnd") == {"progressId": began["progressId"]}
        first = int(c.value("i"))
        assert first > 100
        number = c.send("continue", {"threadId": 1})
        c.response(number)
        c.event("progressStart")
        c.request("cancel", requestId=number)
        c.stopped("pause")
        c.request("continue", threadId=1)
        c.request("cancel", progressId=c.event("progressStart")["progressId"])
        c.stopped("pause")
        # A breakpoint that is set while the program runs stops it.
        c.request("continue", threadId=1)
        c.request("setBreakpoints", source={"path": str(path)}, breakpoints=[{"line": 5}])
        c.stopped("breakpoint")
        assert int(c.value("i")) > first
        c.request("setBreakpoints", source={"path": str(path)}, breakpoints=[])
        # The way back, and a search in it.
        number = c.send("evaluate", {"expression": "last-write n", "context": "repl"})
        c.send("cancel", {"requestId": number})
        found = c.response(number)
        assert found["success"] or found["message"] == "cancelled"
        c.request("continue", threadId=1)
        c.request("disconnect")


def test_a_request_that_waits_is_cancelled(tmp_path: Path) -> None:
    with adapter() as c:
        c.launch(SQUARES, set={"n": 5})
        c.stopped("pause")
        c.raw(encoded({"seq": 51, "type": "request", "command": "cancel", "arguments": {"requestId": 52}}))
        c.raw(encoded({"seq": 52, "type": "request", "command": "evaluate", "arguments": {"expression": "sum"}}))
        c.raw(encoded({"seq": 53, "type": "request", "command": "evaluate", "arguments": {"expression": "sum"}}))
        assert c.response(51)["success"]
        assert c.response(52)["message"] == "cancelled"
        assert c.response(53)["body"]["result"] == "55"


def test_a_disconnect_that_is_refused_ends_nothing() -> None:
    with adapter() as c:
        assert not c.response(c.send("disconnect", [1]))["success"]
        c.send("cancel", {"requestId": 3})
        c.request("disconnect")


def test_the_end_of_the_input_ends_a_run(tmp_path: Path) -> None:
    with adapter() as c:
        c.launch(long_program(tmp_path), engine="reference", set={"n": 10**15})
        c.event("progressStart")


def test_standard_streams() -> None:
    """The command, in a process: the prints of a program do not reach the protocol."""
    command = [sys.executable, "-m", "retrograd.cli.main", "dap"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        c = Client(process.stdout, process.stdin)
        c.launch(SHAPES, args=ARGUMENTS)
        c.stopped("pause")
        assert c.event("output")["output"] == "the file is executed\n"
        c.request("disconnect")
        assert process.wait(PATIENCE) == 0
        assert process.stderr is not None
        assert process.stderr.read() == b""


def test_a_program_that_reads_standard_input(tmp_path: Path) -> None:
    path = tmp_path / "reads.py"
    path.write_text(
        "import sys\nimport retrograd as rg\nprint(sys.stdin.read() == '')\n@rg.reversible\ndef f(x: int):\n    x += 1\n"
    )
    command = [sys.executable, "-m", "retrograd.cli.main", "dap"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        c = Client(process.stdout, process.stdin)
        c.launch(f"{path}:f", args=["1"])
        assert c.event("output")["output"] == "True\n"
        c.stopped("pause")
        c.request("disconnect")
        assert process.wait(PATIENCE) == 0


@pytest.mark.parametrize("text", ["\ud800", "\0", "x" * 5000, "\ud800.py:f", "\ud800.vlad", "~", ".py", ""])
def test_launches_of_strange_names(text: str) -> None:
    with adapter() as c:
        c.request("initialize", adapterID="retrograd")
        for arguments in (
            {"program": text},
            {"program": str(SQUARES), "cwd": text or "\0"},
            {"program": str(SQUARES), "mem": [text], "set": [text]},
        ):
            with pytest.raises(Refused):
                c.request("launch", **arguments)
        c.request("launch", program=str(SQUARES))
        c.request("setBreakpoints", source={"path": text}, breakpoints=[{"line": 1}])


def test_a_port() -> None:
    """Editors connect one after the other; only editors with the token launch a program."""
    command = [sys.executable, "-m", "retrograd.cli.main", "dap", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        host, port = process.stdout.readline().split()[-1].split(":")
        token = process.stdout.readline().split()[-1]
        assert len(token) == 32
        for _ in range(2):
            with socket.create_connection((host, int(port)), PATIENCE) as editor:
                c = Client(editor.makefile("rb"), editor.makefile("wb"))
                c.request("initialize", adapterID="retrograd")
                for wrong in ({}, {"token": ""}, {"token": token[:-1]}, {"token": "é" * 32}):
                    with pytest.raises(Refused, match="token"):
                        c.request("launch", program=str(SQUARES), **wrong)
                c.request("disconnect")
            with socket.create_connection((host, int(port)), PATIENCE) as editor:
                c = Client(editor.makefile("rb"), editor.makefile("wb"))
                c.launch(SQUARES, set={"n": 5}, token=token)
                c.stopped("pause")
                c.request("disconnect")
        process.terminate()
