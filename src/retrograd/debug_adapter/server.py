"""A server of the Debug Adapter Protocol on two streams: reads requests, and writes responses and events.

    every request has one response, in the order of the requests; none ends the server but `disconnect`, a header that is none, and the end of the input

A thread reads the requests into a queue. The main thread carries them out. While the program runs, `poll` is called between the
parts of the motion: it answers the requests that need no program that stands still, and ends the motion on `pause` and `cancel`.
"""

from __future__ import annotations

import threading
from collections import deque
from contextlib import suppress
from typing import Any, BinaryIO

from retrograd.debug_adapter.messages import Arguments, Malformed, bad_request, framed, read
from retrograd.isa.diagnostics import InputError, RetrogradError, printable

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
            message["message"] = printable(error.diagnostics[0].message)
            # Braces would stand for variables of the message.
            format = text.replace("{", "(").replace("}", ")")
            message["body"] = {"error": {"id": number, "format": format, "showUser": True}}
        self._send(message)

    def output(self, text: str, category: str = "console") -> None:
        """Show a text in the console of the editor."""
        if text:
            self.event("output", category=category, output=text)
