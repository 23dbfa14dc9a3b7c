"""Expressions and commands that an editor evaluates: in hovers, watches, and its console.

    n + 1, xs[2], cotangent(x)         expressions of the debugger, anywhere
    why x, last-write x, counts …      commands that leave the program where it is, anywhere but in hovers
    turn, to 100, reverse-until x > 3  all commands of `retrograd debug`, in the console

A text that is an expression here is no command: `n` is the variable, where there is one.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from contextlib import redirect_stdout
from typing import Any

from retrograd.debug_adapter.host import Host
from retrograd.debug_adapter.messages import bad_request
from retrograd.debug_adapter.views import Node
from retrograd.debugger.breakpoints import shown
from retrograd.debugger.variables import Word, named
from retrograd.isa.diagnostics import InputError
from retrograd.isa.program import VariableLocation

#: commands that change nothing
_PURE = ("why", "last-write", "counts", "backtrace", "list", "info", "print", "help")


def evaluated(adapter: Host, text: str, context: str) -> Node:
    """The value of a text. Raises InputError RG1301, RG1302, RG1305, RG1306."""
    name = text.strip().partition(" ")[0]
    try:
        return _expression(adapter, text.strip())
    except InputError:
        assert adapter.launched is not None
        is_command = name in adapter.launched.console.commands or name in ("quit", "q")
        if context in ("hover", "clipboard", "variables") or not is_command:
            raise
        if context == "watch" and name not in _PURE:
            raise bad_request(f"`{name}` moves or changes the program; the console takes it") from None
    return Node("", _command(adapter, text), settable=False)


def _expression(adapter: Host, text: str) -> Node:
    """The node of an expression; that of a variable or place has its structure."""
    session = adapter.session
    value = session.evaluate(text)
    if isinstance(value, list):
        location = named(text, session.machine)
        if isinstance(location, VariableLocation) and location.layout is not None:
            shape = next((v.shape for v in session.variables(0) if v.name == text), (len(value),))
            return adapter.views.array(text, location.kind, value, shape)
        return Node(text, shown(value), settable=False)
    try:
        found = named(text, session.machine)
        place = session.place(text)
    except InputError:
        return Node(text, shown(value), settable=False)
    kind = found.kind if isinstance(found, Word) else "int"
    return Node(text, shown(value), kind, place, text)


def _command(adapter: Host, text: str) -> str:
    """Carry out a command of the console; returns the lines that it prints."""
    assert adapter.launched is not None
    session, printed = adapter.session, io.StringIO()

    def state() -> tuple[Any, ...]:
        return session.position, session.pc, session.machine.direction

    before = state()
    try:
        with redirect_stdout(printed):
            ends = adapter.launched.console.execute(text)
        if ends:
            adapter.then(lambda: adapter.terminated(0))
        elif text.strip().partition(" ")[0] == "set":
            adapter.changed()
    finally:
        # A motion that is cancelled has moved the program, too.
        if state() != before:
            adapter.moved()
            adapter.then(adapter.stopped_by_command)
    return printed.getvalue().rstrip("\n")


def completions(adapter: Host, text: str, column: int) -> Sequence[dict[str, Any]]:
    """Commands and variables that begin as the last word before a column does."""
    assert adapter.launched is not None
    before = text[: max(column, 0)]
    begin = max(before.rfind(c) for c in " ([+-*=<>,") + 1
    word = before[begin:]
    program = adapter.session.machine.program
    names = {v.name: "variable" for v in adapter.session.variables(0)}
    names |= dict.fromkeys([*program.register_names, *program.data_labels], "variable")
    if not begin:
        names |= dict.fromkeys(adapter.launched.console.commands, "function")
    return [{"label": name, "type": kind} for name, kind in sorted(names.items()) if name.startswith(word)][:100]
