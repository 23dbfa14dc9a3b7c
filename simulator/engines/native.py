"""Runs of one machine in machine code: the interpreter, and the program's translation.

A NativeEngine takes over the stores of a machine: registers, memory, cotangents and counts move into arrays that compiled code
reads and writes, and PC, BR and DIR pass through the control block. The machine stays the owner of its state: after each run it
stands where the compiled code stopped. Instructions that compiled code refuses are executed by the reference machine, which
raises their traps.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import numpy as np
from numpy.typing import NDArray
from retrograd.simulator.engines import tiering
from retrograd.simulator.engines.array_words import (
    ArrayWords,
    SharedCotangents,
    shared_words,
    zeros,
)
from retrograd.simulator.engines.interpreter import ENTRY_BYTES, decode, entry, handlers_to_load
from retrograd.simulator.engines.llvm.tiered_code import TieredCode
from retrograd.simulator.engines.state import (
    ACCOUNT,
    CONTROL_WORDS,
    Exit,
    Flag,
    Slot,
    TranslatedSlot,
)
from retrograd.simulator.engines.translator.flow import Variant
from retrograd.simulator.engines.translator.ghost_uncompute import clears, disable_ghosts, ghosts_of
from retrograd.simulator.engines.translator.translate import (
    Executed,
    LoadedTranslation,
    Translated,
    is_translated,
    translation,
    translation_is_loaded,
)
from retrograd.simulator.engines.translator.vector_loops import second_thread
from retrograd.simulator.machine import Machine, Snapshot, restore, snapshot
from retrograd.simulator.stores import Cotangents, Store

#: steps of the interpreter after which Python looks at its signals: a fraction of a second
SLICE = 1 << 27
#: seconds between two looks for optimised code
GLANCE = 0.05
#: steps of translated code that end before a user could press Ctrl-C, and words of memory that are copied in no time
BRIEF, FEW_WORDS = 1 << 18, 1 << 14
#: the same from a stop to the next: a few milliseconds, since a thread for each print takes longer than most such runs
BETWEEN_STOPS = 1 << 22


def variant_of(machine: Machine) -> Variant:
    """The translation that runs the machine from the end of its program, or the stop of its run, at which it stands."""
    stops, n = machine._stops, len(machine.program.code)
    if stops:
        # A machine that stops in between does not keep the words with which uncompute blocks are skipped.
        return Variant(
            backward=machine._direction < 0,
            overflow="overflow" in machine._modes,
            strict="strict" in machine._modes,
            stops=tuple(sorted({*stops, *(2 * n - 1 - at for at in stops)})),
        )
    return Variant(
        differentiating=machine._differentiating,
        backward=machine._direction < 0,
        overflow="overflow" in machine._modes,
        strict="strict" in machine._modes,
        ghosts=None if machine._differentiating else ghosts_of(machine.program),
        clears=clears(machine.program),
        zeros=not any(machine._registers),
    )


def ready(machine: Machine, level: int | None, account: tiering.Account) -> tiering.Ready:
    """The prices of the machine's compiled code. The disk is searched once for each variant of a program."""
    program, variant = machine.program, variant_of(machine)
    if translation_is_loaded(program, variant, level):
        return tiering.Ready(0.0, 0.0)
    found = account.prices.get(variant)
    if found is None:
        costs, lifted = tiering.policy.costs, variant.differentiating
        kept = is_translated(program, variant, level)
        compiled, loaded = handlers_to_load(program, lifted)
        found = account.prices[variant] = tiering.Ready(
            compiled * costs.compile_handler + loaded * costs.load_handler,
            costs.load_translation if kept else costs.translation(len(program.code), lifted),
            kept,
        )
    return found


class NativeEngine:
    """Compiled code for a machine, whose stores it takes over. `level`: LLVM's effort, by the size of the program unless given."""

    def __init__(self, machine: Machine, level: int | None = None) -> None:
        self._level = level
        #: whether the last run of translated code took so many steps that the next is not tried without a thread
        self._far = False
        #: the fastest engine that has run: "threaded" or "translated"
        self.name = "threaded"
        #: (D, stops) -> the program decoded for the interpreter
        self._decoded: dict[tuple[bool, frozenset[int]], NDArray[Any]] = {}
        self.control = control = np.zeros(CONTROL_WORDS, dtype=np.int64)
        flags = Flag.OVERFLOW * ("overflow" in machine._modes) | Flag.STRICT * ("strict" in machine._modes)
        control[Slot.FLAGS], control[Slot.WAY] = flags | Flag.KEEP * machine._keep_dropped, 1
        #: how often each instruction was executed: forward by address, backward by address from the end
        self.hits = np.array([machine.executed[+1], machine.executed[-1][::-1]], dtype=np.int64)
        self._format = w = machine.format
        machine._registers, machine._memory = shared_words(machine._registers, w), shared_words(machine._memory, w)
        machine.executed = {+1: ArrayWords(self.hits[0]), -1: ArrayWords(self.hits[1][::-1])}
        if machine._cotangents is not None:
            machine._cotangents = self.shared_cotangents(machine._cotangents)
            machine._code.pop(True, None)  # its handlers are bound to the cotangents before
        # Views that a user holds already show the words where they are now.
        for name in machine._views:
            getattr(machine, name)

    def shared_cotangents(self, old: Cotangents) -> Cotangents:
        """The cotangents in arrays, with their account in the control block."""
        words = shared_words(old.registers, self._format), shared_words(old.memory, self._format)
        new = SharedCotangents(self.control, *words, keep=old.keep, strict=old.strict)
        new.take_over(old)
        return new

    def _arguments(self, machine: Machine) -> tuple[Any, ...]:
        """The arguments of compiled code: the control block and the stores."""
        shadows = machine._cotangents
        return (
            self.control.ctypes.data,
            _address(machine._registers),
            _address(machine._memory),
            len(machine._memory),
            None if shadows is None else _address(shadows.registers),
            None if shadows is None else _address(shadows.memory),
        )

    # ------------------------------------------------------------------ interpreted

    def interpreted(self, machine: Machine, steps: int) -> int:
        """Run until the machine halts or has taken the steps, which are returned. Raises Trap."""
        taken, stops = 0, machine._stops
        while taken < steps and not machine.at_end and not (taken and machine._pc in stops):
            if machine._pc in stops or not self._enters(machine):
                # The reference machine steps over a stop, or raises the trap, or the run has ended.
                if not Machine._loop(machine, 1):
                    break
                taken += 1
                continue
            why, done = self._run_threaded(machine, min(steps - taken, SLICE), stops)
            taken += done
            if why == Exit.HALTED:
                break
            if why != Exit.LIMIT and taken < steps and machine._pc not in stops:
                taken += Machine._loop(machine, 1)
        return taken

    def _enters(self, machine: Machine) -> bool:
        """Whether compiled code can go on from here: after a jump, only at an instruction that ends one."""
        code = machine.program.instructions
        return 0 <= machine._pc < len(code) and (not machine._br or "br" in code[machine._pc].opcode.writes)

    def _run_threaded(self, machine: Machine, steps: int, stops: frozenset[int] = frozenset()) -> tuple[int, int]:
        """Run the interpreter for at most `steps` steps, or to a stop. Returns its Exit, and the steps taken."""
        control = self.control
        run, _ = entry()
        differentiating = machine._differentiating
        entries = self._decoded.get((differentiating, stops))
        if entries is None:
            for key in [key for key in self._decoded if key[1]] if stops else ():
                del self._decoded[key]  # one set of stops at a time
            entries = self._decoded[differentiating, stops] = decode(machine.program, differentiating, stops)
        n, base = len(machine.program.code), entries.ctypes.data
        forward, backward = base, base + (n + 1) * ENTRY_BYTES
        at = (
            forward + machine._pc * ENTRY_BYTES
            if machine._direction > 0
            else backward + (n - 1 - machine._pc) * ENTRY_BYTES
        )
        control[Slot.IP], control[Slot.BR], control[Slot.LEFT] = at, machine._br, steps
        control[Slot.FORWARD], control[Slot.BACKWARD], control[Slot.BYTES] = forward, backward, n * ENTRY_BYTES
        control[Slot.MIRROR] = forward + backward + (n - 1) * ENTRY_BYTES
        control[Slot.WHY] = Exit.LIMIT
        try:
            run(*self._arguments(machine))
        finally:
            # Ctrl-C is raised as the call returns. The steps that were taken are kept.
            machine._br = int(control[Slot.BR])
            at = int(control[Slot.IP])
            machine._direction = -1 if at >= backward else 1
            machine._pc = n - 1 - (at - backward) // ENTRY_BYTES if at >= backward else (at - forward) // ENTRY_BYTES
            why = int(control[Slot.WHY])
            if why == Exit.BAILOUT:
                machine._pc += machine._direction * machine._br
            self._collect(entries, n)
        return why, steps - int(control[Slot.LEFT])

    def _collect(self, entries: NDArray[Any], n: int) -> None:
        """Move the counts of executed instructions from the decoded code to the machine's."""
        counts = entries["count"]
        self.hits[0] += counts[:n]
        self.hits[1] += counts[n + 1 : 2 * n + 1]
        counts[:] = 0

    # ------------------------------------------------------------------ translated

    def translated(self, machine: Machine, left: int, before: Snapshot | None = None) -> int:
        """Run the translation from an end of the program.

        Returns the steps taken. `before`: a copy of the machine as it is.

        It stops at the other end, at a stop of the run, at an instruction that the interpreter must execute, or before
        the steps are used up. At a stop that the code does not reach it takes no step.
        """
        node = self._stop_of(machine)
        if node >= 0 and (node, False) not in self._translation(machine).flow.blocks:
            return 0  # no run from an end of the program comes to this place in this direction
        main = threading.current_thread() is threading.main_thread()
        brief = BETWEEN_STOPS if machine._stops else BRIEF
        if left <= brief:
            before = None  # such a run is not tried first
        elif before is None and len(machine._memory) <= FEW_WORDS:
            before = snapshot(machine)
        if main and before is not None and not (machine._stops and self._far):
            # To begin a thread takes as long as a short run, so the run is first tried without one.
            taken, why = self._translated_steps(machine, brief, at_once=True)
            self._far = why == Exit.LIMIT
            if why not in (Exit.LIMIT, Exit.UNCOMPUTE):
                return taken
            restore(machine, before)
        at_once = not main or left <= brief
        while True:
            code = self._translation(machine).code
            first = code.address
            if before is None and code.pending and not at_once:
                before = snapshot(machine)
            taken, why = self._translated_steps(machine, left, at_once)
            # Optimised code has come, and the run was stopped for it.
            moved = why == Exit.LIMIT and code.address != first and not at_once
            self._far = taken > brief
            if before is None or not (moved or why == Exit.UNCOMPUTE):
                return taken
            # A translation begins at an end of the program only: that with optimised code, or the one that executes uncompute blocks.
            restore(machine, before)

    def _translation(self, machine: Machine) -> LoadedTranslation:
        return translation(machine.program, variant_of(machine), self._level)

    @staticmethod
    def _stop_of(machine: Machine) -> int:
        """The stop at which the machine stands, as an address of the flow; −1 elsewhere."""
        at = machine._pc
        if at not in machine._stops:
            return -1
        return at if machine._direction > 0 else 2 * len(machine.program.code) - 1 - at

    def _translated_steps(self, machine: Machine, left: int, at_once: bool) -> tuple[int, int]:
        """Returns the steps taken and the Exit. `at_once`: run in this thread, which Ctrl-C cannot interrupt."""
        control = self.control
        steps = left
        control[TranslatedSlot.NODE] = self._stop_of(machine)
        if machine._pc == (machine.program.finish if machine._direction < 0 else machine.program.start):
            left -= 1
            self.step_over_end(machine)
        found = self._translation(machine)
        code = found.code
        log = zeros(found.losses + 1, machine.format)
        counts = np.zeros(len(found.flow.counters), dtype=np.int64)
        control[Slot.LEFT], control[Slot.LOG], control[Slot.LOGGED] = left, log.ctypes.data, 0
        control[TranslatedSlot.STOP] = 0
        run, arguments = Translated(found.address), (*self._arguments(machine), counts.ctypes.data)
        control[TranslatedSlot.TEAM] = 0
        with ExitStack() as threads:
            if not at_once and left > BRIEF and found.shares_rows:
                control[TranslatedSlot.TEAM] = threads.enter_context(second_thread()).ctypes.data
            interrupted, why = (None, run(*arguments)) if at_once else _interruptible(control, code, run, *arguments)
        left = int(control[Slot.LEFT])
        if at_once and code.pending:
            code.count((steps - left) * tiering.policy.costs.first_code_step)
        if why == Exit.UNCOMPUTE:
            disable_ghosts(machine.program, found.flow)
        self.leave_machine(machine, control, why, found.executed, counts)
        window = int(control[TranslatedSlot.WINDOW])
        if window:
            self._undo(machine, window)
        if interrupted is not None:
            raise interrupted
        return steps - left - window, why

    def step_over_end(self, machine: Machine) -> None:
        """Step over `start` or `finish`. Both do nothing, so the step needs no decoded code."""
        machine.executed[machine._direction][machine._pc] += 1
        machine._pc += machine._direction

    def leave_machine(
        self,
        machine: Machine,
        control: NDArray[np.int64],
        why: int,
        executed: Executed,
        counts: NDArray[np.int64],
    ) -> None:
        """Leave the machine where the translation stopped, its executed instructions counted."""
        self.name = "translated"
        n = len(machine.program.code)
        machine._br = int(control[Slot.BR])
        node = int(control[TranslatedSlot.NODE])
        machine._direction = 1 if node < n else -1
        machine._pc = node if node < n else 2 * n - 1 - node
        if why == Exit.BAILOUT:
            machine._pc += machine._direction * machine._br
        places, blocks = executed
        np.add.at(self.hits.reshape(-1), places, counts[blocks])

    def _undo(self, machine: Machine, steps: int) -> None:
        """Undo the steps that were taken behind a failed guard: their effects, their counts and their dropped cotangents."""
        control = self.control
        executed = self.hits.copy()
        way = int(control[Slot.WAY])
        machine.turn()
        control[Slot.FLAGS] |= Flag.LENIENT
        try:
            why, taken = self._run_threaded(machine, steps)
        finally:
            control[Slot.FLAGS] &= ~Flag.LENIENT
        assert (why, taken) == (Exit.LIMIT, steps), (why, taken, steps)
        machine.turn()
        control[Slot.WAY] = way
        for k, slot in enumerate(ACCOUNT):
            control[slot] = control[TranslatedSlot.SAVED + k]
        # Undone steps are not counted. A step is undone in the other direction, unless its instruction turns the direction.
        undone = self.hits - executed
        turns = np.array([i.opcode.turns for i in machine.program.instructions])
        other = undone[::-1, ::-1]
        self.hits[:] = executed - np.where(np.stack([turns, turns[::-1]]), undone, other)


def _interruptible(
    control: NDArray[np.int64], code: TieredCode, run: Callable[..., int], *arguments: Any
) -> tuple[BaseException | None, int]:
    """Run compiled code in a thread, so that Python receives Ctrl-C and can stop the code at its next safepoint. It also stops there
    when optimised code has come.

    Returns the exception that interrupted the run, or None, and the code's result.
    """
    ended = threading.Event()
    results: list[int] = []

    def work() -> None:
        results.append(run(*arguments))
        ended.set()

    threading.Thread(target=work, daemon=True).start()
    interrupted = None
    while not ended.is_set():
        try:
            if not ended.wait(GLANCE if code.pending else None) and code.count(GLANCE):
                control[TranslatedSlot.STOP] = 1
        except BaseException as error:
            interrupted = error
            control[TranslatedSlot.STOP] = 1
    return interrupted, results[0]


def _address(words: Store) -> int:
    assert isinstance(words, ArrayWords)
    return words.array.ctypes.data
