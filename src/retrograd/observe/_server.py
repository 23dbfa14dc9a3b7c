r"""Messages of the Debug Adapter Protocol: framing, and checked access to the arguments of requests.

    Content-Length: 119\r\n\r\n{"seq": 1, "type": "request", …}

    read(stream)        the next message, a Malformed for bytes that are none, or None at the end of the stream

A header has lines `Content-Length: N` and `Content-Type: …` only. Behind any other header, such as that of a request of HTTP, nothing is read.
"""

from __future__ import annotations

import json
import re
import threading
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, BinaryIO, Protocol

from retrograd import errors as errors  # noqa: PLC0414 (registers RG1306)
from retrograd.isa.diagnostics import Diagnostic, InputError, RetrogradError
from retrograd.observe._session import Session

#: bytes of a message and of a line of its header
_LONGEST_MESSAGE, _LONGEST_LINE = 1 << 26, 1 << 16
_LENGTH = re.compile(rb"Content-Length:[ \t]*(\d{1,12})[ \t]*\r?\n", re.IGNORECASE)
_TYPE = re.compile(rb"Content-Type:[^\r\n]*\r?\n", re.IGNORECASE)


@dataclass(frozen=True)
class Malformed:
    """Bytes that are no message, and the reason. `last`: the next message cannot be found behind them."""

    reason: str
    last: bool = False


def read(stream: BinaryIO) -> dict[str, Any] | Malformed | None:
    """The next message of a stream; None at its end."""
    length: int | None = None
    while True:
        line = stream.readline(_LONGEST_LINE)
        if not line:
            return None
        found = _LENGTH.fullmatch(line)
        if found is not None and length is None:
            length = int(found[1])
        elif length is not None and line in (b"\r\n", b"\n"):
            break
        elif not _TYPE.fullmatch(line):
            return Malformed(f"a header has a line `Content-Length: N`; this one is {line[:40]!r}", last=True)
    if length > _LONGEST_MESSAGE:
        return Malformed(f"a message has at most {_LONGEST_MESSAGE} bytes; this one has {length}", last=True)
    body = b""
    while len(body) < length:
        more = stream.read(length - len(body))
        if not more:
            return None
        body += more
    try:
        message = json.loads(body.decode("utf-8"))
        if b"\\u" in body:
            # Half a surrogate pair is no character, and no path or output takes it.
            message = json.loads(json.dumps(message, ensure_ascii=False).encode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return Malformed("the content is no JSON in UTF-8")
    return message if isinstance(message, dict) else Malformed("the content is no JSON object")


def framed(message: Mapping[str, Any]) -> bytes:
    """The bytes of a message."""
    body = json.dumps(message, ensure_ascii=True).encode()
    return b"Content-Length: %d\r\n\r\n" % len(body) + body


def bad_request(message: str, hint: str | None = None) -> InputError:
    """The error for a request that cannot be carried out as it is."""
    return InputError(Diagnostic("RG1306", message, hint=hint))


class Arguments:
    """The arguments of a request. Each access checks the type, and raises InputError RG1306."""

    def __init__(self, values: object) -> None:
        if values is None:
            values = {}
        if not isinstance(values, dict):
            raise bad_request("the arguments of a request are a JSON object")
        self.values: dict[str, Any] = values

    def _of(self, name: str, kind: type | tuple[type, ...], noun: str, *, needed: bool) -> Any:
        value = self.values.get(name)
        if value is None and not needed:
            return None
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise bad_request(f"`{name}` is {noun}" if name in self.values else f"`{name}` is missing: {noun}")
        return value

    def text(self, name: str) -> str:
        """A string."""
        found: str = self._of(name, str, "a string", needed=True)
        return found

    def maybe_text(self, name: str) -> str | None:
        """A string, or None where it is absent or empty."""
        found: str | None = self._of(name, str, "a string", needed=False)
        return found or None

    def integer(self, name: str, least: int = 0, most: int = (1 << 53) - 1) -> int:
        """An integer within bounds."""
        return self._bounded(name, self._of(name, int, "an integer", needed=True), least, most)

    def maybe_integer(self, name: str, default: int, least: int = 0, most: int = (1 << 53) - 1) -> int:
        """An integer within bounds, or the default where it is absent."""
        found = self._of(name, int, "an integer", needed=False)
        return default if found is None else self._bounded(name, found, least, most)

    @staticmethod
    def _bounded(name: str, value: int, least: int, most: int) -> int:
        if not least <= value <= most:
            raise bad_request(f"`{name}` is an integer from {least} to {most}")
        return value

    def truth(self, name: str, default: bool = False) -> bool:
        """A boolean."""
        found = self._of(name, bool, "true or false", needed=False)
        return default if found is None else bool(found)

    def objects(self, name: str) -> list[Arguments]:
        """A list of objects; an absent one is empty."""
        found = self._of(name, list, "a list of objects", needed=False) or []
        if not all(isinstance(item, dict) for item in found):
            raise bad_request(f"`{name}` is a list of objects")
        return [Arguments(item) for item in found]

    def texts(self, name: str) -> list[str]:
        """A list of strings, numbers and booleans, as strings; an absent one is empty."""
        found = self._of(name, list, "a list of strings", needed=False) or []
        if not all(isinstance(item, str | int | float) for item in found):
            raise bad_request(f"`{name}` is a list of strings")
        return [item if isinstance(item, str) else json.dumps(item) for item in found]

    def inner(self, name: str) -> Arguments:
        """An object; an absent one is empty."""
        return Arguments(self._of(name, dict, "an object", needed=False))


# -----------------------------------------------------------------------------
# The interface through which an adapter launches programs, so that it depends on no command line.


class Console(Protocol):
    """Commands of a session as text; they print their results."""

    @property
    def commands(self) -> Mapping[str, tuple[Any, str]]:
        """name -> (…, its summary)."""

    def execute(self, line: str) -> bool:
        """Carry out a line; True for the command that ends the session. Raises RetrogradError."""


@dataclass(frozen=True)
class Launched:
    """A program in a session, with the commands of its console."""

    name: str
    session: Session
    console: Console


#: the arguments of `launch` -> the program; raises RetrogradError
Launch = Callable[[Arguments], Launched]


# -----------------------------------------------------------------------------
# A server of the Debug Adapter Protocol on two streams: reads requests, and writes responses and events.
#
#     every request has one response, in the order of the requests; none ends the server but `disconnect`, a header that is none, and the end of the input
#
# A thread reads the requests into a queue. The main thread carries them out. While the program runs, `poll` is called between the
# parts of the motion: it answers the requests that need no program that stands still, and ends the motion on `pause` and `cancel`.

#: requests that wait; an editor that sends more is not heard until some are answered
_WAITING = 10_000


class Request:
    """A request with checked fields. Raises InputError RG1306 for a message that is none."""

    def __init__(self, message: dict[str, Any] | Malformed) -> None:
        fields = {} if isinstance(message, Malformed) else message
        seq, command = fields.get("seq"), fields.get("command")
        self.seq = seq if isinstance(seq, int) and not isinstance(seq, bool) else 0
        self.command = command if isinstance(command, str) else ""
        self.fault: InputError | None = None
        self.arguments = Arguments({})
        if isinstance(message, Malformed):
            self.fault = bad_request(message.reason)
        elif fields.get("type") != "request" or not self.command or self.seq is not seq:
            self.fault = bad_request("a request has `seq`, the type `request`, and a `command`")
        else:
            try:
                self.arguments = Arguments(fields.get("arguments"))
            except InputError as error:
                self.fault = error


class Cancelled(Exception):
    """The request was cancelled by `cancel`."""


class Connection:
    """The two streams of an editor, and the requests that wait."""

    def __init__(self, source: BinaryIO, sink: BinaryIO) -> None:
        self._source, self._sink = source, sink
        self._waiting: deque[Request] = deque()
        self._arrived = threading.Condition()
        self._ended = False
        self._seq = 0
        self._lock = threading.Lock()
        #: numbers of requests that were cancelled, and identifiers of progress
        self.cancelled: set[int | str] = set()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        while True:
            try:
                message = read(self._source)
            except (OSError, ValueError):
                message = None
            # A response of the editor to a request of the adapter: the adapter sends none.
            if isinstance(message, dict) and message.get("type") in ("response", "event"):
                continue
            request = None if message is None else Request(message)
            with self._arrived:
                if request is None:
                    self._ended = True
                else:
                    self._enqueue(request)
                if isinstance(message, Malformed) and message.last:
                    self._ended, request = True, None
                self._arrived.notify_all()
                # Behind `disconnect` nothing is read: a thread that reads would keep the stream from being closed.
                if request is None or (request.command == "disconnect" and request.fault is None):
                    return
                self._arrived.wait_for(lambda: len(self._waiting) < _WAITING)

    def _enqueue(self, request: Request) -> None:
        if request.command == "cancel" and request.fault is None:
            for name, kind in (("requestId", int), ("progressId", str)):
                value = request.arguments.values.get(name)
                if isinstance(value, kind) and len(self.cancelled) < _WAITING:
                    self.cancelled.add(value)
        self._waiting.append(request)

    @property
    def urgent(self) -> bool:
        """Whether a request waits, or the input has ended."""
        return bool(self._waiting) or self._ended

    def next(self, *, wait: bool = True) -> Request | None:
        """The next request; None at the end of the input, or where none waits."""
        with self._arrived:
            if wait:
                self._arrived.wait_for(lambda: self._waiting or self._ended)
            found = self._waiting.popleft() if self._waiting else None
            self._arrived.notify_all()
            return found

    @property
    def ended(self) -> bool:
        """Whether the input has ended, and all requests were taken."""
        return self._ended and not self._waiting

    @property
    def hung_up(self) -> bool:
        """Whether the input has ended, or a request waits that ends the session."""
        return self._ended or any(r.command in ("disconnect", "terminate") for r in list(self._waiting))

    # ------------------------------------------------------------------ output

    def _send(self, message: dict[str, Any]) -> None:
        with self._lock:
            self._seq += 1
            # An editor that has gone away gets nothing; the end of the input ends the server.
            with suppress(OSError, ValueError):
                self._sink.write(framed({"seq": self._seq, **message}))
                self._sink.flush()

    def event(self, name: str, /, **body: Any) -> None:
        """Send an event."""
        self._send({"type": "event", "event": name, "body": body})

    def respond(self, request: Request, body: dict[str, Any] | None) -> None:
        """Send the response of a request that was carried out."""
        message = {"type": "response", "request_seq": request.seq, "success": True, "command": request.command}
        self._send(message if body is None else {**message, "body": body})

    def refuse(self, request: Request, error: RetrogradError | str) -> None:
        """Send the response of a request that was not carried out: a short reason, or the diagnostics of an error."""
        message: dict[str, Any] = {"type": "response", "request_seq": request.seq, "success": False}
        message["command"] = request.command
        if isinstance(error, str):
            message["message"] = error
        else:
            text = "\n\n".join(d.render() for d in error.diagnostics)
            number = int(error.diagnostics[0].code[2:])
            message["message"] = error.diagnostics[0].message
            # Braces would stand for variables of the message.
            format = text.replace("{", "(").replace("}", ")")
            message["body"] = {"error": {"id": number, "format": format, "showUser": True}}
        self._send(message)

    def output(self, text: str, category: str = "console") -> None:
        """Show a text in the console of the editor."""
        if text:
            self.event("output", category=category, output=text)
