"""Requests about the state of a program that stands still: frames, scopes, variables, values, code and memory."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from retrograd.debug_adapter import memory
from retrograd.debug_adapter.evaluation import completions, evaluated
from retrograd.debug_adapter.host import Host
from retrograd.debug_adapter.messages import Arguments, bad_request
from retrograd.debug_adapter.stops import address_of, reference
from retrograd.debug_adapter.views import Node
from retrograd.debugger.calls import Frame

_Body = dict[str, Any] | None


class Inspection:
    """Answers the requests of one editor. The frames of a state are searched once."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._frames: list[Frame] = []
        self._whole = True
        self.requests: dict[str, Callable[[Arguments], _Body]] = {
            "stackTrace": self._stack_trace, "scopes": self._scopes, "variables": self._variables,
            "setVariable": self._set_variable, "setExpression": self._set_expression, "evaluate": self._evaluate,
            "completions": self._completions, "source": self._source, "loadedSources": self._loaded_sources,
            "disassemble": self._disassemble, "readMemory": self._read_memory, "writeMemory": self._write_memory,
        }  # fmt: skip

    def forget_frames(self) -> None:
        """Search the frames anew: the state is another one."""
        self._frames = []

    def _stack_trace(self, given: Arguments) -> _Body:
        session = self._host.standing
        self._host.check_thread(given)
        start, levels = given.maybe_integer("startFrame", 0), given.maybe_integer("levels", 0)
        if levels == 1 and not start and not self._frames:
            # The search for the callers is left for a request that needs them.
            top = session.calls.frame()
            return {"stackFrames": [self._stack_frame(1, top)], "totalFrames": 1 + bool(session.calls.addresses)}
        found, whole = self.frames()
        shown = [self._stack_frame(n + 1, f) for n, f in enumerate(found)]
        if not whole:
            shown.append(
                {
                    "id": len(found) + 1,
                    "name": "older calls lie too far back",
                    "line": 0,
                    "column": 0,
                    "presentationHint": "label",
                }
            )
        return {"stackFrames": shown[start : start + levels if levels else None], "totalFrames": len(shown)}

    def frames(self) -> tuple[list[Frame], bool]:
        """(the active calls, whether these are all)."""
        if not self._frames:
            with self._host.interruptible():
                found, self._whole = self._host.standing.frames()
            self._frames = list(found)
        return self._frames, self._whole

    def _stack_frame(self, number: int, frame: Frame) -> dict[str, Any]:
        assert self._host.launched is not None
        found: dict[str, Any] = {
            "id": number,
            "name": frame.procedure or self._host.launched.name,
            "line": 0,
            "column": 0,
            "instructionPointerReference": reference(frame.pc),
        }
        if frame.span is not None:
            span = frame.span
            found |= {
                "source": self._host.sources.as_source(span), "line": span.line + self._host.base - 1,
                "column": span.column + self._host.column - 1, "endLine": span.line + self._host.base - 1,
                "endColumn": max(span.end, span.column) + self._host.column - 1,
            }  # fmt: skip
        return found

    def frame(self, given: Arguments) -> Frame | None:
        """The frame of a request; None for the innermost one. Raises InputError RG1306."""
        self._host.standing  # noqa: B018
        number = given.maybe_integer("frameId", 1)
        if number == 1:
            return None
        found, _ = self.frames()
        if not 1 <= number <= len(found):
            raise bad_request(f"there is no frame {number}")
        return found[number - 1]

    def _scopes(self, given: Arguments) -> _Body:
        frame = self.frame(given)
        found = self._host.views.scopes() if frame is None else self._host.views.scopes_at(frame.step)
        hints = {"Variables": "locals", "Registers": "registers"}
        scopes = []
        for node in found:
            scope = {"name": node.name, "variablesReference": node.reference, "expensive": node.name == "Memory"}
            if node.name in hints:
                scope["presentationHint"] = hints[node.name]
            if node.indexed:
                scope["indexedVariables"] = node.indexed
            scopes.append(scope)
        return {"scopes": scopes}

    def shown(self, node: Node) -> dict[str, Any]:
        """A node as the fields that variables and results have."""
        found: dict[str, Any] = {"value": node.value, "variablesReference": self._host.views.registered(node).reference}
        if node.kind:
            found["type"] = node.kind
        if node.indexed:
            found["indexedVariables"] = node.indexed
        if node.place is not None and node.place.memory:
            found["memoryReference"] = str(node.place)
        return found

    def _variables(self, given: Arguments) -> _Body:
        self._host.standing  # noqa: B018
        of = given.integer("variablesReference", 1)
        found = self._host.views.children(of, given.maybe_integer("start", 0), given.maybe_integer("count", 0))
        if given.maybe_text("filter") == "named" and self._host.views.node(of).indexed:
            found = []
        out = []
        for node in found:
            row = {"name": node.name, **self.shown(node)}
            if node.expression is not None:
                row["evaluateName"] = node.expression
            if not node.settable:
                row["presentationHint"] = {"attributes": ["readOnly"]}
            out.append(row)
        return {"variables": out}

    def _set_variable(self, given: Arguments) -> _Body:
        self._host.standing  # noqa: B018
        of, name, value = given.integer("variablesReference", 1), given.text("name"), given.text("value")
        node = self._host.views.child(of, name)
        found = self.shown(self._host.views.set(node, value))
        self._host.changed()
        return found

    def _set_expression(self, given: Arguments) -> _Body:
        if self.frame(given) is not None:
            raise bad_request("variables of an outer frame are those of an earlier step")
        node = evaluated(self._host, given.text("expression"), "watch")
        found = self.shown(self._host.views.set(node, given.text("value")))
        self._host.changed()
        return found

    def _evaluate(self, given: Arguments) -> _Body:
        session, frame = self._host.standing, self.frame(given)
        text, context = given.text("expression"), given.maybe_text("context") or "repl"
        with self._host.interruptible(), nullcontext() if frame is None else session.at(frame.step):
            node = evaluated(self._host, text, context if frame is None else "hover")
        found = self.shown(node)
        found["result"] = found.pop("value")
        return found

    def _completions(self, given: Arguments) -> _Body:
        self._host.standing  # noqa: B018
        text = given.text("text")
        return {"targets": completions(self._host, text, given.integer("column") - self._host.column)}

    def _source(self, given: Arguments) -> _Body:
        number = given.inner("source").maybe_integer("sourceReference", 0) or given.integer("sourceReference")
        return {"content": self._host.sources.text(number)}

    def _loaded_sources(self, given: Arguments) -> _Body:
        return {"sources": self._host.sources.all()}

    def _disassemble(self, given: Arguments) -> _Body:
        session, far = self._host.standing, 1 << 40
        pc = address_of(given.text("memoryReference")) + given.maybe_integer("offset", 0, -far, far)
        pc += given.maybe_integer("instructionOffset", 0, -far, far)
        count = given.integer("instructionCount")
        return {"instructions": memory.disassemble(session, self._host.sources, pc, count, self._host.base)}

    def _read_memory(self, given: Arguments) -> _Body:
        text, offset = given.text("memoryReference"), given.maybe_integer("offset", 0, -(1 << 53))
        return memory.read(self._host.standing, text, offset, given.integer("count"))

    def _write_memory(self, given: Arguments) -> _Body:
        text, offset = given.text("memoryReference"), given.maybe_integer("offset", 0, -(1 << 53))
        written = memory.change(self._host.standing, text, offset, given.text("data"))
        self._host.changed()
        return {"bytesWritten": written}
