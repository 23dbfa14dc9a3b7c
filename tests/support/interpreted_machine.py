"""A machine whose steps are those of the interpreter's source, for tests in lockstep with the reference machine.

    InterpretedMachine(program, resume=resumes(device))        device: the decorator of the functions, or None for plain Python

It hands the state to `resume`, as a kernel gets it, and takes it back. Where the interpreter refuses an instruction, the reference machine executes it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from retrograd.isa.words import Format
from retrograd.simulator.engines.cuda.interpreter import Control, End, Modes, decoded, machine_source, row_of

import retrograd as rg

#: (format, D) -> the function `resume`
Resumes = Callable[[Format, bool], Callable[..., None]]
#: machines that run side by side, of which all but one stand still
THREADS, THREAD = 3, 1


def plain(w: Format, differentiating: bool, change: Callable[[str], str] = lambda text: text) -> Callable[..., None]:
    """`resume` as plain Python over NumPy's scalars. `change`: of its source, to plant a fault."""
    scope: dict[str, Any] = {"device": lambda function: function}
    exec(change(machine_source(w, differentiating)), scope)
    found: Callable[..., None] = scope["resume"]
    return found


class InterpretedMachine(rg.Machine):
    """The reference machine, of which `resume` takes the steps that it can."""

    def __init__(self, program: rg.Program, *, resumes: Resumes, **modes: Any) -> None:
        self._resumes = resumes
        super().__init__(program, **modes)
        #: steps that the interpreter has taken
        self.interpreted = 0

    def _loop(self, max_steps: int | None) -> int:
        taken = 0
        while max_steps is None or taken < max_steps:
            if 0 <= self._pc < len(self.program.code):
                steps, why = self._resume((1 << 40) if max_steps is None else max_steps - taken)
                taken += steps
                if why in (End.HALTED, End.LIMIT):
                    break
            one = super()._loop(1)
            taken += one
            if not one:
                break
        return taken

    def _resume(self, steps: int) -> tuple[int, int]:
        count, w = len(self.program.code), self.format
        code = decoded(self.program, differentiating=self._differentiating, renumbered=False)
        c = self._cotangents
        control = np.zeros((len(Control), THREADS), np.int64)
        given = {Control.ROW: row_of(count, self._pc, self._direction), Control.BR: self._br, Control.LEFT: steps}
        if c is not None:
            given |= {Control.WAY: c.way, Control.CROSSED: c._crossed, Control.DROPPED: c.dropped}
            given[Control.LOST_POINT], given[Control.LOST_WAY] = c._lost or (0, 0)
        for slot, value in given.items():
            control[slot, THREAD] = value
        stores = [self._registers, self._memory, *((c.registers, c.memory) if c else ([], []))]
        arrays = [_interleaved(store, w) for store in stores]
        executed = np.zeros((len(code), THREADS), np.int64)
        modes = Modes.CHECKS
        modes |= Modes.OVERFLOW * ("overflow" in self._modes) | Modes.STRICT * ("strict" in self._modes)
        modes |= Modes.KEEP * self._keep_dropped
        self._resumes(w, self._differentiating)(
            code, *(array.reshape(-1) for array in arrays), control.reshape(-1), executed.reshape(-1),
            THREAD, THREADS, len(self._memory), int(modes),
        )  # fmt: skip
        return self._take_back(stores, arrays, control[:, THREAD].tolist(), executed[:, THREAD], steps)

    def _take_back(
        self,
        stores: list[Any],
        arrays: list[NDArray[np.int64]],
        control: list[int],
        executed: NDArray[np.int64],
        steps: int,
    ) -> tuple[int, int]:
        count, w, c = len(self.program.code), self.format, self._cotangents
        for store, array in zip(stores, arrays, strict=True):
            assert not array[:, [k for k in range(THREADS) if k != THREAD]].any()
            store[:] = [word & w.mask for word in array[: len(store), THREAD].tolist()]
        if c is not None:
            c._crossed, c.dropped = control[Control.CROSSED], control[Control.DROPPED]
            c._lost = (control[Control.LOST_POINT], control[Control.LOST_WAY]) if control[Control.LOST_WAY] else None
        hits = executed.tolist()
        for pc in range(count):
            self.executed[+1][pc] += hits[row_of(count, pc, +1)]
            self.executed[-1][pc] += hits[row_of(count, pc, -1)]
        row, br, why = control[Control.ROW], control[Control.BR], control[Control.WHY]
        direction = 1 if row <= count else -1
        if direction != self._direction:
            # Cotangents know the way of the run, which a branch that turns does not change.
            self._direction = direction
        self._pc = row if direction > 0 else 2 * count - row
        self._br = br
        if why == End.ASTRAY:
            self._pc += direction * br
        self.interpreted += steps - control[Control.LEFT]
        return steps - control[Control.LEFT], why


def _interleaved(store: Any, w: Format) -> NDArray[np.int64]:
    out = np.zeros((len(store) or 1, THREADS), np.int64)
    out[: len(store), THREAD] = [w.signed(word) for word in store]
    return out
