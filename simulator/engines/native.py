"""The machine in compiled code: equal to the reference machine bit for bit, a thousand times as fast.

Its state is in arrays that the code works on; all else, traps among it, is the reference machine's own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from retrograd.simulator.cotangents import Cotangents, Store
from retrograd.simulator.engines.costs import Cost, cost_of, translation_seconds
from retrograd.simulator.engines.interpreter.handlers import decode, entry, passes_over_interpreter
from retrograd.simulator.engines.interpreter.threaded import ENTRY_BYTES
from retrograd.simulator.engines.state.control_block import ACCOUNT, CONTROL_WORDS, Exit, Flag, Late, Slot
from retrograd.simulator.engines.state.cotangents import SharedCotangents
from retrograd.simulator.engines.state.words import Words, zeros
from retrograd.simulator.engines.translator.flow import PROMOTED, Variant
from retrograd.simulator.engines.translator.translations import (
    Translated,
    is_translated,
    level_for,
    translation,
    translation_is_loaded,
)
from retrograd.simulator.machine import Machine

#: steps of the interpreter between two looks of Python at its signals: a fraction of a second
SLICE = 1 << 27
#: steps that are not worth leaving Python for
FEW = 4
#: steps that Python takes of all runs of a program before anything is compiled: some ten milliseconds
SHORT = 10_000
#: steps that the interpreter takes in a second, for weighing translation against it
SPEED = 3e8
#: steps of translated code that are over before anyone could press Ctrl-C, and words of memory that are soon copied
BRIEF, FEW_WORDS = 1 << 18, 1 << 14
#: more than any run takes
UNLIMITED = 1 << 62

Tier = Literal["auto", "threaded", "translated"]


class NativeMachine(Machine):
    """A machine whose runs are compiled code. See Machine, which it is in everything but speed.

    `tier`: "threaded", an interpreter that starts at once; "translated", the program as machine code where it is run from
    one of its ends, and the interpreter elsewhere; "auto", translated if that was done before or if the run is long, and Python
    for the first ten thousand steps of the program, over all runs, unless `at_once`.
    `level`: how hard LLVM works on the program, 0 to 2; by its size unless given.
    """

    def __init__(
        self, *args: Any, tier: Tier = "auto", at_once: bool = False, level: int | None = None, **keywords: Any
    ) -> None:
        super().__init__(*args, **keywords)
        self.tier = tier
        self._level = level_for(len(self.program.code)) if level is None else level
        #: compile from the first step on
        self._at_once = at_once
        self._threaded: dict[bool, NDArray[Any]] = {}
        #: words shared with compiled code; None while the machine is still all Python
        self._control: NDArray[np.int64] | None = None
        self._hits: NDArray[np.int64]

    def __getstate__(self) -> dict[str, object]:
        state = {**super().__getstate__(), "_threaded": {}, "_control": None}
        state.pop("_hits", None)
        return state

    @property
    def engine(self) -> str:
        """What has run so far: "reference", "threaded", "translated"."""
        return self._engine

    _engine = "reference"

    # ------------------------------------------------------------------ state

    def _share(self) -> NDArray[np.int64]:
        """Move the state to where compiled code finds it; the control block."""
        if self._control is not None:
            return self._control
        self._control = control = np.zeros(CONTROL_WORDS, dtype=np.int64)
        flags = Flag.OVERFLOW * ("overflow" in self._modes) | Flag.STRICT * ("strict" in self._modes)
        control[Slot.FLAGS], control[Slot.WAY] = flags | Flag.KEEP * self._keep_dropped, 1
        self._registers, self._memory = self._shared(self._registers), self._shared(self._memory)
        self._hits = np.array([self.executed[+1], self.executed[-1][::-1]], dtype=np.int64)
        self.executed = {+1: Words(self._hits[0]), -1: Words(self._hits[1][::-1])}
        if self._companions is not None:
            self._companions = self._shared_cotangents(self._companions)
            self._code.pop(True, None)  # it was bound to the old ones
        # Views that a user holds already show the words where they are now.
        for name in self._views:
            getattr(self, name)
        return control

    def _shared(self, words: Store) -> Words:
        # One to spare: where an address beyond the memory is followed, to be undone.
        array = zeros(len(words) + 1, self.format)[: len(words)]
        array[:] = np.fromiter(words, dtype=array.dtype, count=len(words))
        return Words(array)

    def _new_cotangents(self) -> Cotangents:
        made = super()._new_cotangents()
        return made if self._control is None else self._shared_cotangents(made)

    def _shared_cotangents(self, old: Cotangents) -> Cotangents:
        assert self._control is not None
        words = self._shared(old.registers), self._shared(old.memory)
        new = SharedCotangents(self._control, *words, keep=old.keep, strict=old.strict)
        new.take_over(old)
        return new

    # ------------------------------------------------------------------ motion

    def _code_for(self, differentiating: bool) -> NDArray[Any]:
        found = self._threaded.get(differentiating)
        if found is None:
            found = self._threaded[differentiating] = decode(self.program, differentiating)
        return found

    def _loop(self, max_steps: int | None) -> int:
        left = UNLIMITED if max_steps is None else min(max_steps, UNLIMITED)
        if left < FEW:
            return super()._loop(max_steps)
        taken = self._begin(left)
        while taken < left and not self.at_end:
            if not self._enters():
                # The reference machine says what is wrong, or that the run has ended.
                if not super()._loop(1):
                    break
                taken += 1
                continue
            why, done = self._run_threaded(min(left - taken, SLICE))
            taken += done
            if why == Exit.HALTED:
                break
            if why != Exit.LIMIT and taken < left:
                taken += super()._loop(1)
        return taken

    def _begin(self, left: int) -> int:
        """The first steps of a run, if another way than the interpreter's suits them; how many were taken."""
        if self.tier == "threaded":
            return 0
        whole = self._can_translate(left)
        if self.tier == "translated":
            return self._run_translated(left) if whole else 0
        cost = cost_of(self.program, self._differentiating)
        first = 0 if self._control is not None or self._at_once else min(left, cost.python_left(SHORT))
        # What is worth translating shows as it runs: should it cost more than its translation, it begins anew.
        worth = translation_seconds(len(self.program.code), self._differentiating)
        if whole and self._is_ready(first, cost, worth):
            return self._run_translated(left)
        if not first:
            self._share()  # arrays are soon copied
        before = self._snapshot() if whole else None
        taken = 0
        if first:
            # A short run ends before a compiler could begin.
            taken = super()._loop(first)
            cost.count_python(taken)
            if taken < first or taken == left:
                return taken
        if before is None:
            return taken
        if not self._is_ready(0, cost, worth):
            if not self._enters():
                return taken
            why, done = self._run_threaded(min(left - taken, 1 + round(SPEED * (worth - cost.seconds))))
            cost.threaded += done / SPEED
            taken += done
            if why != Exit.LIMIT or taken == left:
                return taken
        self._restore(before)
        return self._run_translated(left)

    def _is_ready(self, first: int, cost: Cost, worth: float) -> bool:
        """Whether to run the translation now: it is there, or has been paid for. `first`: steps that Python may still take."""
        variant = self._variant()
        if translation_is_loaded(self.program, variant, self._level):
            return True
        if first:
            return False
        if cost.seconds >= worth:
            return True
        if not cost.unlooked:
            return False
        cost.unlooked = False
        if is_translated(self.program, variant, self._level):
            return True
        return passes_over_interpreter(self.program, self._differentiating, worth)

    def _snapshot(self) -> tuple[Any, ...]:
        """All that a run changes, as it stands."""
        companions = self._companions
        account = None if companions is None else (companions.way, companions.dropped, dict(companions.kept))
        crossed = None if companions is None else (companions._crossed, companions._lost)
        words = [store.array.copy() if isinstance(store, Words) else store[:] for store in self._stores()]
        return self._pc, self._br, self._direction, words, account, crossed

    def _restore(self, before: tuple[Any, ...]) -> None:
        self._pc, self._br, self._direction, words, account, crossed = before
        for store, old in zip(self._stores(), words, strict=True):
            if isinstance(store, Words) and isinstance(old, np.ndarray):
                store.array[:] = old
            else:
                store[:] = old
        if self._companions is not None:
            self._companions.way, self._companions.dropped, self._companions.kept = account
            self._companions._crossed, self._companions._lost = crossed

    def _stores(self) -> list[Store]:
        stores = [self._registers, self._memory, self.executed[+1], self.executed[-1]]
        if self._companions is not None:
            stores += [self._companions.registers, self._companions.memory]
        return stores

    # ------------------------------------------------------------------ translated

    def _variant(self) -> Variant:
        return Variant(
            differentiating=self._differentiating,
            backward=self._direction < 0,
            overflow="overflow" in self._modes,
            strict="strict" in self._modes,
            promoted=len(self.program.code) <= PROMOTED,
        )

    def _can_translate(self, left: int) -> bool:
        """Whether the machine stands at an end of its program, with steps enough, and nothing that only the interpreter knows."""
        end = self.program.finish if self._direction < 0 else self.program.start
        if self._br or self._pc not in (end, end + self._direction) or left <= len(self.program.code) * 4:
            return False
        if not self._differentiating:
            return True
        assert self._companions is not None
        lost = self._companions._lost
        kept = self._keep_dropped or "strict" in self._modes
        return not kept and (lost is None or lost[1] == self._companions.way)

    def _run_translated(self, left: int) -> int:
        """Run from an end of the program; steps taken.

        It stops at the other end, where the interpreter must go on, or before the steps are used up.
        """
        main = threading.current_thread() is threading.main_thread()
        if main and left > BRIEF and len(self._memory) <= FEW_WORDS:
            # To begin a thread takes as long as a short run. One that turns out to be long begins anew.
            before = self._snapshot()
            taken, why = self._translated_steps(BRIEF, at_once=True)
            if why != Exit.LIMIT:
                return taken
            self._restore(before)
        return self._translated_steps(left, at_once=not main or left <= BRIEF)[0]

    def _translated_steps(self, left: int, at_once: bool) -> tuple[int, int]:
        """(steps taken, why it returned). `at_once`: in this thread, deaf to Ctrl-C."""
        n = len(self.program.code)
        steps = left
        if self._pc == (self.program.finish if self._direction < 0 else self.program.start):
            # It stands on what marks the end, which does nothing: no reason to decode the program.
            self.executed[self._direction][self._pc] += 1
            self._pc += self._direction
            left -= 1
        found = translation(self.program, self._variant(), self._level)
        control = self._share()
        self._engine = "translated"
        companions = self._companions
        log = zeros(found.losses + 1, self.format)
        counts = np.zeros(len(found.flow.blocks), dtype=np.int64)
        control[Slot.LEFT], control[Slot.LOG], control[Slot.LOGGED] = left, log.ctypes.data, 0
        control[Late.STOP] = 0
        run, arguments = (
            Translated(found.address),
            (
                control.ctypes.data,
                _address(self._registers),
                _address(self._memory),
                len(self._memory),
                None if companions is None else _address(companions.registers),
                None if companions is None else _address(companions.memory),
                counts.ctypes.data,
            ),
        )
        interrupted, why = (None, run(*arguments)) if at_once else _interruptible(control, run, *arguments)
        left = int(control[Slot.LEFT])
        self._br = int(control[Slot.BR])
        node = int(control[Late.NODE])
        self._direction = 1 if node < n else -1
        self._pc = node if node < n else 2 * n - 1 - node
        if why == Exit.ASTRAY:
            self._pc += self._direction * self._br
        places, blocks = found.executed
        np.add.at(self._hits.reshape(-1), places, counts[blocks])
        window = int(control[Late.WINDOW])
        if window:
            self._undo(window)
        if interrupted is not None:
            raise interrupted
        return steps - left - window, why

    def _undo(self, steps: int) -> None:
        """Go back over what went on after a failed guard, as if it had not been."""
        control = self._share()
        executed = self._hits.copy()
        way = int(control[Slot.WAY])
        self.turn()
        control[Slot.FLAGS] |= Flag.LENIENT
        try:
            why, taken = self._run_threaded(steps)
        finally:
            control[Slot.FLAGS] &= ~Flag.LENIENT
        assert (why, taken) == (Exit.LIMIT, steps), (why, taken, steps)
        self.turn()
        control[Slot.WAY] = way
        for k, slot in enumerate(ACCOUNT):
            control[slot] = control[Late.SAVED + k]
        # What was undone counts as never done. A step is taken back in the other direction, but where it turns round.
        undone = self._hits - executed
        turns = np.array([i.opcode.turns for i in self.program.instructions])
        other = undone[::-1, ::-1]
        self._hits[:] = executed - np.where(np.stack([turns, turns[::-1]]), undone, other)

    def _enters(self) -> bool:
        """Whether compiled code can go on from here: what it jumps to takes a jump."""
        code = self.program.instructions
        return 0 <= self._pc < len(code) and (not self._br or "br" in code[self._pc].opcode.writes)

    def _run_threaded(self, steps: int) -> tuple[int, int]:
        """(why it returned, steps taken)"""
        run, _ = entry()
        control = self._share()
        if self._engine != "translated":
            self._engine = "threaded"
        entries = self._code_for(self._differentiating)
        n, base = len(self.program.code), entries.ctypes.data
        forward, backward = base, base + (n + 1) * ENTRY_BYTES
        at = forward + self._pc * ENTRY_BYTES if self._direction > 0 else backward + (n - 1 - self._pc) * ENTRY_BYTES
        control[Slot.IP], control[Slot.BR], control[Slot.LEFT] = at, self._br, steps
        control[Slot.FORWARD], control[Slot.BACKWARD], control[Slot.BYTES] = forward, backward, n * ENTRY_BYTES
        control[Slot.MIRROR] = forward + backward + (n - 1) * ENTRY_BYTES
        companions = self._companions
        control[Slot.WHY] = Exit.LIMIT
        try:
            run(
                control.ctypes.data,
                _address(self._registers),
                _address(self._memory),
                len(self._memory),
                None if companions is None else _address(companions.registers),
                None if companions is None else _address(companions.memory),
            )
        finally:
            # Ctrl-C is raised as the call returns: what was run is kept.
            self._br = int(control[Slot.BR])
            at = int(control[Slot.IP])
            self._direction = -1 if at >= backward else 1
            self._pc = n - 1 - (at - backward) // ENTRY_BYTES if at >= backward else (at - forward) // ENTRY_BYTES
            why = int(control[Slot.WHY])
            if why == Exit.ASTRAY:
                self._pc += self._direction * self._br
            self._collect(entries, n)
        return why, steps - int(control[Slot.LEFT])

    def _collect(self, entries: NDArray[Any], n: int) -> None:
        """Counts of executed instructions, from the decoded code to where the machine keeps them."""
        counts = entries["count"]
        self._hits[0] += counts[:n]
        self._hits[1] += counts[n + 1 : 2 * n + 1]
        counts[:] = 0


def _interruptible(
    control: NDArray[np.int64], run: Callable[..., int], *arguments: Any
) -> tuple[BaseException | None, int]:
    """(what interrupted it, its result): in a thread of its own, so that Python hears of Ctrl-C and can ask it to stop."""
    ended = threading.Event()
    results: list[int] = []

    def work() -> None:
        results.append(run(*arguments))
        ended.set()

    threading.Thread(target=work, daemon=True).start()
    interrupted = None
    while not ended.is_set():
        try:
            ended.wait()
        except BaseException as error:
            interrupted = error
            control[Late.STOP] = 1
    return interrupted, results[0]


def _address(words: Store) -> int:
    assert isinstance(words, Words)
    return words.array.ctypes.data
