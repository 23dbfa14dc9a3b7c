"""Messages of the Debug Adapter Protocol: framing, and checked access to the arguments of requests.

    Content-Length: 119\\r\\n\\r\\n{"seq": 1, "type": "request", …}

    read(stream)        the next message, a Malformed for bytes that are none, or None at the end of the stream

A header has lines `Content-Length: N` and `Content-Type: …` only. Behind any other header, such as that of a request of HTTP, nothing is read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

from retrograd.debugger import errors as errors  # noqa: PLC0414 (registers RG1306)
from retrograd.isa.diagnostics import Diagnostic, InputError

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
