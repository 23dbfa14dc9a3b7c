"""Active calls of a run: steps over calls and out of them, in both directions, and the list of frames.

A call instruction is executed twice: it enters its procedure, and with BR set it is the return from it. So calls are followed by
their addresses, at the speed of the engine.
"""

from __future__ import annotations

from dataclasses import dataclass

from retrograd.debugger.timeline import Timeline
from retrograd.isa.diagnostics import Span

#: single steps near a call that is searched, and the calls and returns that a search for callers passes
_NEAR_CALL, _SEARCHED = 32, 2000


@dataclass(frozen=True)
class Frame:
    """An active call: the address that is next in it, the label of its procedure, and the place in the source.

    `step`: that of the call; of the innermost frame, the present step.
    """

    pc: int
    procedure: str
    span: Span | None
    step: int = 0


class Calls:
    """The calls of one timeline."""

    def __init__(self, timeline: Timeline) -> None:
        self.timeline, self.machine = timeline, timeline.machine
        code = self.machine.program.instructions
        self.addresses = frozenset(pc for pc, i in enumerate(code) if i.opcode.name in ("call", "uncall"))

    def enters(self) -> bool:
        """Whether the next instruction is a call that enters its procedure; with BR set, it is the return from it."""
        return self.machine.pc in self.addresses and not self.machine.br

    def step_over(self, *, back: bool) -> bool:
        """Take one instruction; a call together with all steps until it returns. False if the run ends first."""
        if back:
            if not self.timeline.one(True):
                return False
            if self.machine.pc not in self.addresses or not self.machine.br:
                return True
        elif not self.enters():
            return self.timeline.one(False)
        # An inner call of the same instruction enters before it returns.
        call, depth = frozenset((self.machine.pc,)), 0
        while True:
            depth += 1 if self.enters() != back else -1
            if not depth:
                return True if back else self.timeline.one(False)
            if back:
                if not self.timeline.last_at(call):
                    return False
            elif not self.timeline.one(False) or not self.timeline.next_at(call):
                return False

    def step_out(self, *, back: bool) -> bool:
        """Move behind the return from the present procedure; backward, to the call that entered it. False if there is none."""
        depth = 0
        while True:
            if back:
                if not self.timeline.last_at(self.addresses):
                    return False
            elif not self.timeline.next_at(self.addresses):
                return False
            depth += 1 if self.enters() != back else -1
            if depth < 0:
                return back or self.timeline.one(False)
            if not back and not self.timeline.one(False):
                return False

    def frames(self) -> tuple[tuple[Frame, ...], bool]:
        """(the active calls, innermost first; whether the list is complete).

        The search passes at most `_SEARCHED` calls and returns. The timeline stays where it is.
        """
        out = [self.frame()]
        with self.timeline.excursion():
            depth = 0
            for _ in range(_SEARCHED if self.addresses else 0):
                if not self.timeline.nearest_at(self.addresses, back=True, near=_NEAR_CALL):
                    return tuple(out), True
                depth += -1 if self.enters() else 1
                if depth < 0:
                    out.append(self.frame())
                    depth = 0
            return tuple(out), self.timeline.position == 0 or not self.addresses

    def frame(self) -> Frame:
        """The innermost active call, as `frames` has it."""
        pc, labels = self.machine.pc, self.machine.program.labels
        before = [(address, name) for name, address in labels.items() if address <= pc]
        return Frame(pc, max(before)[1] if before else "", self.machine.program.source.span(pc), self.timeline.position)
