"""Machines whose words are arrays, and whole runs of translated code without a machine.

ArrayMachine    a TieredMachine whose stores are arrays from the start, for engines that share them
WholeRuns       a run from one end of a program to the other on given words; a machine is made only where it is read
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from retrograd.isa.diagnostics import api_boundary
from retrograd.isa.program import Program
from retrograd.simulator.engines import tiering
from retrograd.simulator.engines.array_words import (
    DTYPES,
    ArrayWords,
    ReusedZeros,
    address_of,
    fresh_zeros,
    words_with_spare,
)
from retrograd.simulator.engines.native import BRIEF as SHARED
from retrograd.simulator.engines.state import (
    CONTROL_WORDS,
    Exit,
    Slot,
    TranslatedSlot,
)
from retrograd.simulator.engines.tiered_machine import LARGE_IN_PYTHON, TieredMachine
from retrograd.simulator.engines.tiering import Decision, Reason
from retrograd.simulator.engines.translator.flow import Variant
from retrograd.simulator.engines.translator.ghost_uncompute import clears, disable_ghosts, ghosts_of
from retrograd.simulator.engines.translator.translate import (
    Translated,
    translation,
)
from retrograd.simulator.machine import REGISTERS
from retrograd.simulator.stores import Store

# -----------------------------------------------------------------------------
# Machines for long runs on many words, whose memory is an array from the first step on.


class ArrayMachine(TieredMachine):
    """A machine whose memory is an array from the first step on. Compiled code uses it as it is; Python is slower with it."""

    def _first_memory(self, size: int) -> Store:
        memory = words_with_spare(size, self.format)
        memory[: len(self.program.data)] = self.program.data
        return memory

    @api_boundary
    def load(self, address: int, words: Iterable[int]) -> None:
        if isinstance(address, int) and isinstance(words, np.ndarray) and (words.dtype, words.ndim) == (np.uint64, 1):
            end = address + len(words)
            if 0 <= address <= end <= len(self._memory):
                self._memory[address:end] = words & self.format.mask
                return
        super().load(address, words)


# -----------------------------------------------------------------------------
# Whole runs: a loaded translation, run from one end of its program to the other, without a machine.
#
#     WholeRuns(program)(words)  =  the machine that has run on these words, if it reaches the end
#
# Most calls of a function take few steps and do not trap, and to make a machine takes far longer than such a run. Here the state of
# a run lies in one fresh array, and a machine is made of it only where the caller reads it. The results are those of a machine, since
# the code is the same. A run that does not reach the end is discarded: the caller runs it on a machine, which raises the trap,
# meets the limit to the step, and can be interrupted.

#: bytes of a number of the control block, and of a count
_BYTES = 8
#: steps of a run without a machine: a few milliseconds, in which a user could not press Ctrl-C
BRIEF = 1 << 22
#: numbers of a state whose pages are used again
_LARGE = 1 << 16
_NAMED, _LOADED = Decision("translated", Reason.NAMED), Decision("translated", Reason.LOADED)


class WholeRuns:
    """A program's translation, loaded, and the layout of the state of its runs."""

    def __init__(self, program: Program, *, backward: bool, overflow: bool) -> None:
        self.program, self.backward, self.overflow = program, backward, overflow
        self._policy: tiering.Policy | None = None
        #: whether the last run did not reach the end since a check of an instruction failed
        self.trapped = False
        self._load()

    def _load(self) -> None:
        program, backward, overflow = self.program, self.backward, self.overflow
        ghosts, clear = ghosts_of(program), clears(program)
        variant = Variant(backward=backward, overflow=overflow, ghosts=ghosts, clears=clear, zeros=True)
        found = self.translation = translation(program, variant, None)
        self._loaded_at, self._run = found.address, Translated(found.address)
        self._dtype: np.dtype[Any] = np.dtype(DTYPES[program.format.width])
        self._data = np.array(program.data, dtype=self._dtype)
        sizes = (CONTROL_WORDS, self._room(REGISTERS), len(found.flow.counters), self._room(found.losses + 1))
        #: where registers, counts, log and memory begin, and the end of all; few pages of a large memory are used
        self._registers, self._counts, self._log, self._memory, self._size = np.cumsum(
            (*sizes, self._room(program.memory + 1))
        ).tolist()
        self._words = slice(self._memory * self._width, self._memory * self._width + program.memory)
        code = found.flow.code
        erased = [sum(code[at].opcode.erased_words for at in run) for run in found.flow.counters]
        #: words that each block erases; None where no block does
        self._erased = np.array(erased) if any(erased) else None

    @property
    def _width(self) -> int:
        """Words of the program in a number of the control block."""
        return _BYTES // self._dtype.itemsize

    def _room(self, words: int) -> int:
        """The room of a number of words, in numbers of the control block."""
        return -(-words // self._width)

    def _account_of_program(self) -> tiering.Account:
        if self._policy is not tiering.policy:
            self._policy = tiering.policy
            self._account = tiering.policy.account(self.program)
        return self._account

    @property
    def is_long(self) -> bool:
        """Whether the last run took more steps than a run without a machine may take."""
        return self._left_to_a_machine(self._account_of_program().steps)

    def _left_to_a_machine(self, expected: int | None) -> bool:
        """Whether a run of `expected` steps may be interrupted, or has a second thread for its rows."""
        if expected is None or expected <= min(SHARED, BRIEF):
            return False
        return expected > BRIEF or self.translation.shares_rows

    def __call__(
        self, words: Sequence[int] | NDArray[Any], engine: str, limit: int | None, given: Mapping[int, int]
    ) -> FinishedRun | None:
        """The run from these first words of memory, and from the `given` ones, address -> word; None if it does not reach the end.

        `engine`: the engine that was named. A run of very many steps is left to a machine, which Ctrl-C can interrupt.
        """
        account = self._account_of_program()
        expected = account.steps
        self.trapped = False
        if self._left_to_a_machine(expected):
            return None
        left = BRIEF if limit is None else min(limit, BRIEF)
        if left <= 4 * len(self.program.code):
            return None
        zeros = _reused(self._size, expected)
        state = _zeros(self._size, expected) if zeros is None else zeros.array[: self._size]
        memory = state.view(self._dtype)[self._words]
        if len(self._data):
            memory[: len(self._data)] = self._data
        if len(words):
            memory[: len(words)] = words
        for address, word in given.items():
            memory[address] = word
        base = address_of(state) if zeros is None else zeros.address
        # The step over the end at which the program begins is taken here: `start` and `finish` do nothing.
        state[Slot.LEFT], state[Slot.WAY], state[Slot.LOG] = left - 1, 1, base + self._log * _BYTES
        found = self.translation
        if found.address != self._loaded_at:
            self._loaded_at, self._run = found.address, Translated(found.address)
        why = self._run(
            base,
            base + self._registers * _BYTES,
            base + self._memory * _BYTES,
            len(memory),
            None,
            None,
            base + self._counts * _BYTES,
        )
        if why != Exit.HALTED or state.item(TranslatedSlot.WINDOW):
            if why == Exit.UNCOMPUTE:
                disable_ghosts(self.program, found.flow)
                self._load()
            if why == Exit.LIMIT and left == BRIEF:
                account.steps = BRIEF + 1
            self.trapped = why == Exit.REFUSED or (why == Exit.HALTED and bool(state.item(TranslatedSlot.WINDOW)))
            return None
        steps = left - state.item(Slot.LEFT)
        account.steps = steps
        if zeros is not None:
            memory.flags.writeable = False
            zeros.used(steps)
        if found.code.pending:
            found.code.count(steps * tiering.policy.costs.first_code_step)
        tiering.record(self._decision(engine))
        return FinishedRun(self, engine, state, memory, steps)

    def erased_words(self, state: NDArray[np.int64]) -> int:
        """The words that a run has erased."""
        return 0 if self._erased is None else int(self._erased @ state[self._counts : self._log])

    def fresh_machine(self, engine: str, given: int) -> TieredMachine:
        """A machine of the engine at the start of a long run. `given`: words of memory that will be loaded."""
        # An array is filled faster; a sparse memory has the room of the words that are used.
        memory = self.program.memory
        cls = ArrayMachine if memory <= max(8 * given, LARGE_IN_PYTHON) else TieredMachine
        return cls(self.program, engine=engine, backward=self.backward, overflow=self.overflow)

    def machine(self, engine: str, state: NDArray[np.int64]) -> TieredMachine:
        """A machine of the engine that stands where a run ended."""
        machine = TieredMachine(self.program, engine=engine, backward=self.backward, overflow=self.overflow)
        native = machine._taken_over()
        words = state.view(self._dtype)
        machine._memory[:] = words[self._words]
        machine._registers[:] = words[self._registers * self._width :][:REGISTERS]
        native.step_over_end(machine)
        native.leave_machine(machine, state, Exit.HALTED, self.translation.executed, state[self._counts : self._log])
        machine.decision = self._decision(engine)
        return machine

    @staticmethod
    def _decision(engine: str) -> Decision:
        return _NAMED if engine == "translated" else _LOADED


def _reused(size: int, steps: int | None) -> ReusedZeros | None:
    """Zeros of earlier runs for a large memory; None before the first run."""
    if steps is None or size < _LARGE or not ReusedZeros.are_supported:
        return None
    return ReusedZeros.of(size)


def _zeros(size: int, steps: int | None) -> NDArray[np.int64]:
    """The state of a run of about this many steps, as zeros: fresh ones where the run can use a small part of them only."""
    if steps is None or steps > size:
        return np.zeros(size, dtype=np.int64)
    return fresh_zeros(size, np.int64)


class FinishedRun:
    """A run that reached the end of its program. `memory`, `retired`, `erased_bits` and `engine` are those of the machine."""

    __slots__ = ("_machine", "_of", "_state", "memory", "named", "retired")
    engine = "translated"

    def __init__(self, of: WholeRuns, named: str, state: NDArray[np.int64], memory: NDArray[Any], steps: int) -> None:
        self._of, self.named, self._state = of, named, state
        self._machine: TieredMachine | None = None
        self.memory, self.retired = ArrayWords(memory), steps

    @property
    def erased_bits(self) -> int:
        """Bits lost by `erase`."""
        return self._of.erased_words(self._state) * self._of.program.format.width

    def machine(self) -> TieredMachine:
        """A machine that stands at the end of the run; the same one each time."""
        if self._machine is None:
            self._machine = self._of.machine(self.named, self._state)
        return self._machine
