"""`retrograd dap`: a Debug Adapter Protocol server for editors, on standard streams or a port of this computer.

The arguments of `launch` are those of `retrograd debug` by name: `program`, `args`, `set`, `mem`, `engine`, `format`, `loss` …
A port can be reached by every user and every web page of the computer, so a `launch` there has the token that the server prints.
"""

from __future__ import annotations

import argparse
import io
import os
import secrets
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from functools import partial
from typing import BinaryIO, cast

from retrograd.cli.commands.debugging.interpreter import Interpreter
from retrograd.cli.commands.debugging.opening import opened_session
from retrograd.cli.exit_codes import OK
from retrograd.cli.functions import is_function
from retrograd.cli.options import Parser, fail, integer
from retrograd.isa.diagnostics import nearest
from retrograd.observe._adapter import Adapter
from retrograd.observe._server import Arguments, Connection, Launched, bad_request
from retrograd.simulator.energy.pricing import pricing_context

_HOST = "127.0.0.1"
#: names that editors add to the arguments of `launch`
_EDITOR = frozenset(("name", "type", "request", "presentation", "preLaunchTask", "postDebugTask", "internalConsoleOptions", "debugServer", "serverReadyAction", "console", "folder", "restart"))  # fmt: skip
_TEXTS = ("program", "cwd", "engine", "format", "loss", "resume", "tech", "token")
_TRUTHS = ("noDebug", "stopOnEntry", "stopAtEnd", "backward", "inverse", "noOverflow", "strict")
_NUMBERS = ("memory", "memoryLimit", "expression")
_LISTS = ("args", "mem", "include", "set")
#: argument of `launch` -> its type in JSON; `set` may be an object as well
LAUNCH = {
    **dict.fromkeys(_TEXTS, "string"), **dict.fromkeys(_TRUTHS, "boolean"),
    **dict.fromkeys(_NUMBERS, "integer"), **dict.fromkeys(_LISTS, "array"),
}  # fmt: skip


def arguments(p: Parser) -> None:
    """Options of `retrograd dap`."""
    p.add_argument(
        "--port",
        metavar="PORT",
        help="listen on a port of this computer; 0 takes a free one. `launch` must have the token that is printed",
    )
    p.size_options()


def execute(options: argparse.Namespace) -> int:
    """Serve one editor on standard streams, or editors one after the other on a port."""
    if options.port is not None:
        _serve_port(integer(options.port, "--port", 0))
        return OK
    with _own_streams() as (source, sink):
        serve(source, sink)
    return OK


def serve(source: BinaryIO, sink: BinaryIO, token: str | None = None) -> None:
    """Serve one editor until it disconnects or its stream ends. `token`: the argument of that name that `launch` must have."""
    connection = Connection(source, sink)
    folder = os.getcwd()
    try:
        with redirect_stdout(_Output(connection, "stdout")), redirect_stderr(_Output(connection, "stderr")):
            Adapter(connection, partial(launched, token=token)).serve()
    finally:
        os.chdir(folder)


@contextmanager
def _own_streams() -> Iterator[tuple[BinaryIO, BinaryIO]]:
    """Standard input and output for the protocol alone: all that prints to the descriptor of standard output goes to standard error."""
    sys.stdout.flush()
    given, own = os.dup(0), os.dup(1)
    os.dup2(2, 1)
    # A program that reads standard input gets its end, and no message of the protocol.
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    with os.fdopen(own, "wb") as sink, os.fdopen(given, "rb") as source:
        yield cast(BinaryIO, source), cast(BinaryIO, sink)


def _serve_port(port: int) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((_HOST, port))
        except (OSError, OverflowError) as error:
            raise fail("RG0507", f"--port {port}: {error}", "take another port, or 0 for a free one") from None
        listening.listen(1)
        token = secrets.token_hex(16)
        print(f"listening on {_HOST}:{listening.getsockname()[1]}\ntoken {token}", flush=True)
        while True:
            editor, _ = listening.accept()
            with editor, suppress(OSError):
                serve(editor.makefile("rb"), cast(BinaryIO, editor.makefile("wb")), token)


class _Output(io.TextIOBase):
    """A standard stream of the program's own prints, which the editor shows."""

    def __init__(self, connection: Connection, category: str) -> None:
        self._connection, self._category, self._begun = connection, category, ""

    def write(self, text: str) -> int:
        # `print` writes a text and its end; the editor gets whole lines.
        self._begun += text
        if "\n" in self._begun:
            whole, _, self._begun = self._begun.rpartition("\n")
            self._connection.output(whole + "\n", self._category)
        return len(text)

    def writable(self) -> bool:
        return True


# ---------------------------------------------------------------------- launch


def launched(given: Arguments, token: str | None = None) -> Launched:
    """The program of a `launch` request, in a session. Raises RetrogradError."""
    options = options_of(given)
    if token is not None and not secrets.compare_digest((given.maybe_text("token") or "").encode(), token.encode()):
        hint = 'add `"token": "…"` to the arguments of `launch`, with the token that `retrograd dap --port` has printed'
        raise bad_request("`token` is not that of this server", hint)
    if options.cwd is not None:
        try:
            os.chdir(options.cwd)
        except (OSError, ValueError) as error:
            raise bad_request(f"`cwd` {options.cwd[:60]}: {error}") from None
    session = opened_session(options)
    name = options.program.rpartition(":")[2] if is_function(options.program) else os.path.basename(options.program)
    return Launched(name, session, Interpreter(session, pricing_context(options.tech, session.machine.format)))


def options_of(given: Arguments) -> argparse.Namespace:
    """The options of `retrograd debug` for the arguments of `launch`. Raises InputError RG1306."""
    for name in given.values:
        if name not in LAUNCH and name not in _EDITOR and not name.startswith("__"):
            raise bad_request(f"`launch` has no argument `{name[:60]}`", nearest(name, LAUNCH))
    texts = {name: given.maybe_text(name) for name in _TEXTS}
    truths = {name: given.truth(name) for name in _TRUTHS}
    if texts["program"] is None:
        raise bad_request("`program` is missing: a path, or FILE.py:FUNCTION")
    if texts["program"] == "-":
        raise bad_request("`program` is a file: standard input belongs to the protocol")
    numbers = {name: str(given.integer(name)) if name in given.values else None for name in _NUMBERS}
    return argparse.Namespace(
        program=texts["program"], cwd=texts["cwd"], engine=texts["engine"] or "auto", format=texts["format"],
        precision=None, loss=texts["loss"], resume=texts["resume"], tech=texts["tech"] or "landauer",
        args=given.texts("args"), sets=_pairs(given, "set"), mem=given.texts("mem"), include=given.texts("include"),
        memory=numbers["memory"], memory_limit=numbers["memoryLimit"], expression=numbers["expression"],
        backward=truths["backward"], inverse=truths["inverse"], no_overflow=truths["noOverflow"],
        strict=truths["strict"],
    )  # fmt: skip


def _pairs(given: Arguments, name: str) -> list[str]:
    """`set`: a list of NAME=VALUE, or an object."""
    found = given.values.get(name)
    if isinstance(found, dict):
        return [f"{key}={Arguments({'value': [value]}).texts('value')[0]}" for key, value in found.items()]
    return given.texts(name)
