"""Breakpoints as an editor sets them: of lines, procedures, instructions and data, each request replacing those of its kind.

A breakpoint that cannot be set is answered as not verified, with the reason; the others of its request are set.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypedDict

from retrograd.debug_adapter.messages import Arguments, bad_request
from retrograd.debug_adapter.sources import Sources
from retrograd.debugger.session import Session
from retrograd.isa.diagnostics import Diagnostic, InputError, RetrogradError, nearest


class _Tests(TypedDict):
    """When a breakpoint stops, as an editor states it."""

    condition: str | None
    hit: str | None


class Stops:
    """The breakpoints of an editor in a session. `base`: the number of an editor's first line."""

    def __init__(self, session: Session, sources: Sources, base: int) -> None:
        self._session, self._sources, self._base = session, sources, base
        #: kind of breakpoint, with the file for lines -> numbers in the session
        self._numbers: dict[str, list[int]] = {}
        #: number -> kind, for the reason of a stop
        self.kinds: dict[int, str] = {}

    def _replace(self, key: str, wanted: Sequence[Arguments], made: Callable[[Arguments], dict[str, Any]]) -> list[Any]:
        for number in self._numbers.pop(key, []):
            self._session.delete(number)
            self.kinds.pop(number, None)
        out, numbers = [], self._numbers.setdefault(key, [])
        for item in wanted:
            try:
                found = made(item)
            except RetrogradError as error:
                out.append({"verified": False, "message": error.diagnostics[0].message})
                continue
            numbers.append(found["id"])
            self.kinds[found["id"]] = key.partition(" ")[0]
            out.append({"verified": True, **found})
        return out

    @staticmethod
    def _tests(item: Arguments) -> _Tests:
        return {"condition": item.maybe_text("condition"), "hit": item.maybe_text("hitCondition")}

    # ------------------------------------------------------------------ lines

    def set_lines(self, source: Arguments, wanted: Sequence[Arguments]) -> list[Any]:
        """The breakpoints of a file. A line without code stands for the next line that has code."""
        name = self._sources.name_of(source)
        lines = {} if name is None else self._sources.lines[name]

        def made(item: Arguments) -> dict[str, Any]:
            line = item.integer("line") - self._base + 1
            found = next((n for n in lines if n >= line), None)
            if name is None or found is None:
                reason = "no code of the program comes from this file" if not lines else "no code from here on"
                raise InputError(Diagnostic("RG1302", reason))
            stop = self._session.break_on(
                lines[found], f":{found}", message=item.maybe_text("logMessage"), **self._tests(item)
            )
            return {"id": stop.number, "line": found + self._base - 1}

        return self._replace(f"line {name}", wanted, made)

    def locations(self, source: Arguments, first: int, last: int) -> list[Any]:
        """The lines with code between two lines."""
        name = self._sources.name_of(source)
        lines = {} if name is None else self._sources.lines[name]
        return [{"line": n + self._base - 1} for n in lines if first <= n + self._base - 1 <= last]

    # ------------------------------------------------------------------ procedures, instructions

    def set_functions(self, wanted: Sequence[Arguments]) -> list[Any]:
        """The breakpoints of procedures, by their labels."""
        labels = self._session.machine.program.labels

        def made(item: Arguments) -> dict[str, Any]:
            name = item.text("name")
            if name not in labels:
                hint = nearest(name, labels)
                raise InputError(Diagnostic("RG1302", f"the code has no procedure or label `{name[:60]}`{_also(hint)}"))
            return {"id": self._session.break_on(frozenset((labels[name],)), name, **self._tests(item)).number}

        return self._replace("function", wanted, made)

    def set_instructions(self, wanted: Sequence[Arguments]) -> list[Any]:
        """The breakpoints of addresses."""

        def made(item: Arguments) -> dict[str, Any]:
            pc = address_of(item.text("instructionReference")) + item.maybe_integer("offset", 0, -(1 << 53))
            if not 0 <= pc < len(self._session.machine.program.code):
                raise InputError(Diagnostic("RG1302", f"the code has no address {pc}"))
            stop = self._session.break_on(frozenset((pc,)), f"*{pc}", each=True, **self._tests(item))
            return {"id": stop.number, "instructionReference": reference(pc)}

        return self._replace("instruction", wanted, made)

    # ------------------------------------------------------------------ data

    def set_data(self, wanted: Sequence[Arguments]) -> list[Any]:
        """The watches of places, by the identifiers that `data_of` gave."""

        def made(item: Arguments) -> dict[str, Any]:
            if item.maybe_text("accessType") not in (None, "write"):
                raise InputError(Diagnostic("RG1306", "a watch stops at writes; reads leave no trace in a state"))
            return {"id": self._session.watch(item.text("dataId"), **self._tests(item)).number}

        return self._replace("data", wanted, made)


def _also(hint: str | None) -> str:
    return "" if hint is None else f": {hint}"


def reference(pc: int) -> str:
    """The reference of an instruction: its address, one unit for each instruction."""
    return f"0x{max(pc, 0):x}"


def address_of(text: str) -> int:
    """The address of a reference. Raises InputError RG1306."""
    try:
        if len(text) < 20:
            return int(text, 0)
    except ValueError:
        pass
    raise bad_request(f"`{text[:60]}` is no reference of an instruction")
