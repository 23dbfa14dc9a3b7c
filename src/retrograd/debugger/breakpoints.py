"""Stops of a session: breakpoints, watches, their hit conditions, and log messages.

    HitCondition("% 3")(passes)       the machine stands at the place for the 3rd, 6th … time
    LogMessage("i = {i}", machine)    the text, with the values of the expressions in braces

The number of passes is that of the step: it is the same whether the run came there forward or backward.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from retrograd.debugger.expressions import Expression
from retrograd.debugger.places import Place
from retrograd.isa.diagnostics import Diagnostic, InputError
from retrograd.simulator.machine import Machine

_COMPARE: dict[str, Callable[[int, int], bool]] = {
    "": operator.eq, "=": operator.eq, "==": operator.eq, "<": operator.lt, "<=": operator.le,
    ">": operator.gt, ">=": operator.ge, "%": lambda n, k: k > 0 and n % k == 0,
}  # fmt: skip
_LONGEST = 1000


class HitCondition:
    """A condition on the number of passes: `N` or `== N`, `< N`, `<= N`, `> N`, `>= N`, `% N` (each N-th). Raises InputError RG1301."""

    def __init__(self, text: str) -> None:
        self.text = text
        found = re.fullmatch(r"\s*(==|=|<=|<|>=|>|%|)\s*(\d{1,18})\s*", text, re.ASCII)
        if found is None:
            hint = "write a number, or `>= 3`, `% 10`"
            raise InputError(Diagnostic("RG1301", f"`{text[:60]}` is no hit condition", hint=hint))
        self._holds, self._number = _COMPARE[found[1]], int(found[2])

    def __call__(self, passes: int) -> bool:
        """Whether it holds for the present pass, counted from 1."""
        return self._holds(passes, self._number)


class LogMessage:
    """A text with expressions in braces; `{{` and `}}` are braces themselves. Raises InputError RG1301, RG1302."""

    def __init__(self, text: str, machine: Machine) -> None:
        self.text = text
        if len(text) > _LONGEST:
            raise InputError(Diagnostic("RG1301", f"a log message has at most {_LONGEST} characters"))
        self._parts: list[str | Expression] = []
        for literal, inner in re.findall(r"((?:[^{}]|\{\{|\}\})+)|\{([^{}]*)\}", text):
            if literal:
                self._parts.append(literal.replace("{{", "{").replace("}}", "}"))
            else:
                self._parts.append(Expression(inner, machine))

    def __call__(self, machine: Machine) -> str:
        """The text in the state of a machine; an expression without a value is shown as its error."""
        out = []
        for part in self._parts:
            if isinstance(part, str):
                out.append(part)
                continue
            try:
                out.append(shown(part(machine)))
            except InputError as error:
                out.append(f"<{error.diagnostics[0].message}>")
        return "".join(out)


def shown(value: object) -> str:
    """A value of an expression as text."""
    if value is None:
        return ""
    if isinstance(value, list):
        return f"[{', '.join(map(shown, value))}]"
    return f"{float(value):.10g}" if isinstance(value, Fraction | float) else str(value)


@dataclass
class Breakpoint:
    """A stop before the instruction at one of the addresses, where `condition` and the hit condition hold.

    A procedure is left through its entry. At an address of `entries` the breakpoint stops where a call enters, and not at the return.
    With `message` the text is logged, and the run goes on.
    """

    number: int
    addresses: frozenset[int]
    text: str
    entries: frozenset[int] = frozenset()
    condition: Expression | None = None
    hit: HitCondition | None = None
    message: LogMessage | None = None


@dataclass(frozen=True)
class Watch:
    """A stop where a place changes, and where `condition` and the hit condition hold. A pass is an execution of an instruction that may write it."""

    number: int
    place: Place
    text: str
    condition: Expression | None = None
    hit: HitCondition | None = None
