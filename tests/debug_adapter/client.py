"""A client of the Debug Adapter Protocol: an adapter in a thread, over pipes."""

from __future__ import annotations

import json
import os
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from retrograd.cli.commands.debugging import serve as serve_editor
from retrograd.observe._server import Malformed, framed, read

#: seconds until a message that does not come is a fault
PATIENCE = 20.0


class Refused(AssertionError):
    """A response without success."""


class Client:
    """Sends requests, and waits for responses and events."""

    def __init__(self, source: Any, sink: Any) -> None:
        self._source, self._sink = source, sink
        self.seq = 0
        self.messages: deque[dict[str, Any]] = deque()
        self.events: list[dict[str, Any]] = []
        self.closed = False
        self._arrived = threading.Condition()
        self._numbers: list[int] = []
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self) -> None:
        while True:
            message = read(self._source)
            with self._arrived:
                if message is None:
                    self.closed = True
                else:
                    assert not isinstance(message, Malformed)
                    self._numbers.append(message["seq"])
                    self.messages.append(message)
                self._arrived.notify_all()
            if message is None:
                return

    def raw(self, data: bytes) -> None:
        """Send bytes as they are."""
        self._sink.write(data)
        self._sink.flush()

    def send(self, command: str, arguments: Any = None) -> int:
        """Send a request; returns its number."""
        self.seq += 1
        message = {"seq": self.seq, "type": "request", "command": command}
        self.raw(framed(message if arguments is None else {**message, "arguments": arguments}))
        return self.seq

    def _wait(self, kind: str, key: str, value: Any) -> dict[str, Any]:
        deadline = time.monotonic() + PATIENCE
        with self._arrived:
            while True:
                for message in self.messages:
                    if message["type"] == kind and message[key] == value:
                        self.messages.remove(message)
                        return message
                left = deadline - time.monotonic()
                if left <= 0 or self.closed:
                    raise AssertionError(f"no {kind} {value}; waiting: {list(self.messages)}")
                self._arrived.wait(left)

    def response(self, number: int) -> dict[str, Any]:
        """The response to a request, a refusal included."""
        return self._wait("response", "request_seq", number)

    def request(self, command: str, **arguments: Any) -> dict[str, Any]:
        """The body of the response to a request. Raises Refused."""
        found = self.response(self.send(command, arguments))
        assert found["command"] == command
        if not found["success"]:
            raise Refused(found["message"])
        body: dict[str, Any] = found.get("body", {})
        return body

    def event(self, name: str) -> dict[str, Any]:
        """The body of the next event of a name."""
        body: dict[str, Any] = self._wait("event", "event", name)["body"]
        return body

    def stopped(self, reason: str) -> dict[str, Any]:
        """The next stop, whose reason must be the given one."""
        body = self.event("stopped")
        assert body["reason"] == reason, body
        return body

    def waits(self, name: str) -> bool:
        """Whether an event of a name has arrived and was not taken."""
        with self._arrived:
            return any(m["type"] == "event" and m["event"] == name for m in self.messages)

    # ------------------------------------------------------------------ shorthands

    def launch(self, program: object, configure: bool = True, **arguments: Any) -> dict[str, Any]:
        """Initialize and launch; `configure`: begin, with no breakpoints."""
        found = self.request(
            "initialize", adapterID="retrograd", supportsProgressReporting=True, supportsInvalidatedEvent=True
        )
        self.request("launch", program=str(program), **arguments)
        self.event("initialized")
        if configure:
            self.request("configurationDone")
        return found

    def line(self) -> int:
        """The line of the innermost frame."""
        line: int = self.request("stackTrace", threadId=1, levels=1)["stackFrames"][0]["line"]
        return line

    def move(self, command: str, reason: str = "step", **arguments: Any) -> dict[str, Any]:
        """A motion, and its stop."""
        self.request(command, threadId=1, **arguments)
        return self.stopped(reason)

    def value(self, expression: str, context: str = "watch") -> str:
        """The value of an expression."""
        value: str = self.request("evaluate", expression=expression, context=context, frameId=1)["result"]
        return value

    def scope(self, name: str, frame: int = 1) -> dict[str, dict[str, Any]]:
        """The variables of a scope by name."""
        scopes = self.request("scopes", frameId=frame)["scopes"]
        number = next(s["variablesReference"] for s in scopes if s["name"].startswith(name))
        return self.children(number)

    def children(self, number: int) -> dict[str, dict[str, Any]]:
        """The variables of a reference by name."""
        return {v["name"]: v for v in self.request("variables", variablesReference=number)["variables"]}


@contextmanager
def adapter() -> Iterator[Client]:
    """A client of a new adapter; the adapter must end with its input."""
    to_adapter, from_client = os.pipe()
    to_client, from_adapter = os.pipe()
    faults: list[BaseException] = []

    def serve() -> None:
        with os.fdopen(to_adapter, "rb") as source, os.fdopen(from_adapter, "wb") as sink:
            try:
                serve_editor(source, sink)
            except BaseException as error:
                faults.append(error)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    with os.fdopen(to_client, "rb") as source, os.fdopen(from_client, "wb") as sink:
        client = Client(source, sink)
        try:
            yield client
        finally:
            sink.close()
            thread.join(PATIENCE)
            assert not thread.is_alive(), "the adapter hangs"
            client.reader.join(PATIENCE)
            if faults:
                raise faults[0]
            assert client._numbers == list(range(1, len(client._numbers) + 1))


def encoded(message: object) -> bytes:
    """A message of any JSON."""
    body = json.dumps(message).encode()
    return b"Content-Length: %d\r\n\r\n" % len(body) + body
