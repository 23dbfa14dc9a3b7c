"""Sources of a program: files and lines as an editor names them, and the addresses of their code.

lines[name][line]    the addresses at which a breakpoint of a line stops
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from retrograd.debug_adapter.messages import Arguments, bad_request
from retrograd.debugger.places import line_addresses
from retrograd.isa.diagnostics import Span
from retrograd.isa.program import Program


class Sources:
    """The source files of a program. A file that no longer exists is served from the text that was compiled."""

    def __init__(self, program: Program) -> None:
        self._program, self._map = program, program.source
        self._paths = {name: os.path.realpath(name) for name in self._map.files}

    @cached_property
    def lines(self) -> Mapping[str, Mapping[int, frozenset[int]]]:
        """name -> line -> the addresses at which a breakpoint of the line stops."""
        return line_addresses(self._program)

    def name_of(self, source: Arguments) -> str | None:
        """The file of a program that a Source object of the protocol stands for; None if it is another file."""
        number = source.maybe_integer("sourceReference", 0)
        if number:
            return self._map.files[number - 1] if number <= len(self._map.files) else None
        path = source.maybe_text("path")
        if path is None or "\0" in path:
            return None
        real = os.path.realpath(path)
        return next((name for name, known in self._paths.items() if known == real), None)

    def as_source(self, span: Span) -> dict[str, Any]:
        """The Source object of the protocol for the file of a span."""
        path = self._paths.get(span.file, span.file)
        found: dict[str, Any] = {"name": os.path.basename(span.file), "path": path}
        if not os.path.isfile(path):
            number = self._map.files.index(span.file) + 1
            if number <= len(self._map.texts):
                found = {"name": found["name"], "sourceReference": number}
        return found

    def text(self, number: int) -> str:
        """The text of a source by its reference. Raises InputError RG1306."""
        if not 1 <= number <= len(self._map.texts):
            raise bad_request(f"there is no source {number}")
        return "\n".join(line.rstrip("\r\n") for line in self._map.texts[number - 1])

    def all(self) -> list[dict[str, Any]]:
        """The Source objects of all files."""
        return [self.as_source(Span(name, 1)) for name in self._map.files]

    @property
    def known(self) -> bool:
        """Whether any instruction has a place in a source."""
        return any(self.lines.values())
