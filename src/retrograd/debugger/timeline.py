"""A timeline: the steps of one run, numbered from its beginning, on a machine that moves to any of them.

    state n  --instruction n-->  state n + 1

Long moves are runs of the machine's engine. For each address the timeline counts how often its instruction stands before the
present step. This count never falls as the step number grows, so the next or last step at an address is found by runs of growing
length and a binary search over step numbers: exactly, in about twice the distance, without a log.

A step back over an `erase` has no inverse. The timeline then begins anew from the state in which it was opened.

A long move can be interrupted. `between` is called between its parts, where the machine stands at a step, and may raise.
A search calls it only where no step that it looks for has been passed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any

from retrograd.isa.diagnostics import Diagnostic, InputError
from retrograd.simulator.engines.state import restore, snapshot
from retrograd.simulator.machine import Machine, Trap

#: moves of fewer steps are single steps; the first and the longest run of a search
_FEW, _FIRST, _LONGEST = 16, 64, 1 << 24
#: an excursion returns from a run of that length, in steps, by a copy of the state
_FAR = 1 << 16
#: seconds of a part of a long move; a part that takes less is followed by a longer part
_PART = 0.05


class Timeline:
    """A machine with the number of its step. `position` is that of the machine's present state."""

    def __init__(self, machine: Machine, position: int = 0) -> None:
        self.machine = machine
        self.position = position
        #: direction -> how often the instruction at each address was executed between the opening and the present step
        self.executed: dict[int, list[int]] = {way: [0] * len(machine.program.code) for way in (+1, -1)}
        #: called between the parts of long moves; it may raise to end the move
        self.between: Callable[[], None] | None = None
        #: the trap before which the machine stands
        self.trap: Trap | None = None
        table = machine.program.table
        self._turns = [i.opcode.turns or table.inverse(i.opcode).turns for i in machine.program.instructions]
        self._erases = any(i.opcode.erased_words for i in machine.program.instructions)
        self._opened: tuple[int, Any, Any] = position, None, None
        #: within an excursion, the state before its first long run
        self._away, self._mark = False, self._opened
        self.open_here()

    def open_here(self) -> None:
        """Let this state be the one from which the timeline begins anew, after a change from outside."""
        self._opened = self._copied()

    def _copied(self) -> tuple[int, Any, Any]:
        return self.position, snapshot(self.machine), {way: list(hits) for way, hits in self.executed.items()}

    def _return_to(self, copied: tuple[int, Any, Any]) -> None:
        self.position, state, executed = copied
        restore(self.machine, state)
        self.executed = {way: list(hits) for way, hits in executed.items()}

    def begin_here(self) -> None:
        """Count steps from 0 at this state, before which there is no step."""
        self.position, self.trap = 0, None
        for hits in self.executed.values():
            hits[:] = [0] * len(hits)
        self.open_here()

    def poll(self) -> None:
        """Call `between`, at a step where a motion may end."""
        if self.between is not None:
            self.between()

    @contextmanager
    def excursion(self) -> Iterator[None]:
        """Return to the present step after the block, and to the trap before which the machine stands."""
        position, trap, outer = self.position, self.trap, (self._away, self._mark)
        self._away, self._mark = True, (position, None, None)
        try:
            yield
        finally:
            mark, (self._away, self._mark) = self._mark, outer
            if mark[1] is not None and abs(mark[0] - position) < abs(self.position - position):
                self._return_to(mark)
            self.to(position)
            self.trap = trap

    # ------------------------------------------------------------------ moves

    def one(self, back: bool) -> bool:
        """Take one step, or take one back; False if there is none."""
        return self.back(1) if back else self.forward(1)

    def to(self, position: int) -> bool:
        """Move to the step; False where the run ends or traps before it. Raises InputError RG1303."""
        if position < self.position:
            return self.back(self.position - position)
        return self.forward(position - self.position)

    def far(self, position: int) -> bool:
        """Move to the step as `to`, in parts between which the move can be interrupted. Raises InputError RG1303."""
        if self.between is None:
            return self.to(position)
        part = _FIRST
        while abs(position - self.position) > part:
            self.between()
            begun = time.monotonic()
            if not self.to(self.position + (part if position > self.position else -part)):
                return False
            part = self._longer(part, begun)
        return self.to(position)

    def forward(self, steps: int) -> bool:
        """Take the steps; False if the run ended or trapped before the last of them."""
        self.trap = None
        wanted = self.position + steps
        try:
            if steps < _FEW:
                while self.position < wanted and self._step():
                    pass
            else:
                self._run(steps, +1)
        except Trap as trap:
            self.trap = trap
        return self.position == wanted

    def back(self, steps: int) -> bool:
        """Take the steps back; False if the beginning came first. Raises InputError RG1303."""
        self.trap = None
        target = max(self.position - steps, 0)
        reached = target == self.position - steps
        before = self.position
        try:
            if before - target < _FEW:
                while self.position > target and self._step_back():
                    pass
            else:
                self._run(before - target, -1)
        except Trap:
            self._begin_anew(target, before)
        return reached and self.position == target

    def _step(self) -> bool:
        machine = self.machine
        pc, way = machine._pc, machine._direction
        if not machine.step():
            return False
        self.executed[way][pc] += 1
        self.position += 1
        return True

    def _step_back(self) -> bool:
        machine = self.machine
        if not machine.step_back():
            return False
        self.executed[machine._direction][machine._pc] -= 1
        self.position -= 1
        return True

    def _run(self, steps: int, sign: int) -> None:
        """Run on the engine. The counts of the machine are added to those of the timeline, also where it traps."""
        machine = self.machine
        if self._away and steps >= _FAR and self._mark[1] is None:
            self._mark = self._copied()
        before = {way: list(hits) for way, hits in machine.executed.items()}
        try:
            if sign > 0:
                machine.run(steps)
            else:
                machine.run_back(steps)
        finally:
            taken = 0
            for way, hits in machine.executed.items():
                for pc, (now, then) in enumerate(zip(hits, before[way], strict=True)):
                    if now != then:
                        taken += now - then
                        # Taken back, an instruction counts in the other direction; but an instruction that turns the machine in its own direction.
                        mine = way if sign > 0 or self._turns[pc] else -way
                        self.executed[mine][pc] += sign * int(now - then)
            self.position += sign * int(taken)

    def _begin_anew(self, target: int, before: int) -> None:
        opened = self._opened[0]
        if target < opened:
            self.forward(before - self.position)
            between = "an erased word lies between" if self._erases else "the way back from the changed state traps"
            message = f"step {target} lies before the beginning of the session, and {between}"
            raise InputError(Diagnostic("RG1303", message))
        self._return_to(self._opened)
        self.forward(target - opened)

    # ------------------------------------------------------------------ search

    def _hits(self, addresses: Collection[int]) -> int:
        ahead, behind = self.executed[+1], self.executed[-1]
        return sum(ahead[pc] + behind[pc] for pc in addresses)

    def nearest_at(self, stops: Collection[int], *, back: bool, near: int) -> bool:
        """Move to the nearest step at one of the addresses, forward from here on: by `near` single steps, then by the engine."""
        if not back and self.machine.pc in stops:
            return True
        for _ in range(near):
            if not self.one(back):
                return not back and self.machine.pc in stops
            if self.machine.pc in stops:
                return True
        return self.last_at(stops) if back else self.next_at(stops)

    def next_at(self, addresses: Collection[int]) -> bool:
        """Move to the first step, from here on, whose instruction is at one of the addresses; False at the end or a trap.

        Standing at the end or before a trap, at one of the addresses, is a hit too.
        """
        hits, chunk = self._hits(addresses), _FIRST
        while True:
            low = self.position
            self.poll()
            begun = time.monotonic()
            whole = self.forward(chunk)
            if self._hits(addresses) > hits:
                high = self.position
                while high - low > 1:
                    self.to((low + high) // 2)
                    if self._hits(addresses) > hits:
                        high = self.position
                    else:
                        low = self.position
                self.to(low)
                return True
            if not whole:
                return self.machine.pc in addresses
            chunk = self._longer(chunk, begun)

    def last_at(self, addresses: Collection[int]) -> bool:
        """Move back to the last step before, whose instruction is at one of the addresses; False at the beginning."""
        hits, chunk = self._hits(addresses), _FIRST
        while True:
            high = self.position
            self.poll()
            begun = time.monotonic()
            whole = self.back(chunk)
            if self._hits(addresses) < hits:
                low = self.position
                while high - low > 1:
                    self.to((low + high) // 2)
                    if self._hits(addresses) < hits:
                        low = self.position
                    else:
                        high = self.position
                self.to(low)
                return True
            if not whole or not self.position:
                return False
            chunk = self._longer(chunk, begun)

    def _longer(self, part: int, begun: float) -> int:
        """The steps of the next part of a move. Back over an `erase` each part is a run from the opening: few parts are better."""
        quick = time.monotonic() - begun < _PART
        return min(part * 4, _LONGEST) if quick or self._erases else part
