"""A machine that moves between engines: a run begins in Python and goes on in machine code where that pays.

It equals the reference machine bit for bit. The policy (`tiering.py`) decides which engine takes the next steps. Steps of Python
are those of the reference machine itself. For the others, a NativeEngine takes over the machine's stores and leaves the machine
where the compiled code stopped.

A translation runs a program from one of its ends only. A run that outgrows Python or the interpreter is therefore restored to
its beginning, and the translation runs all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

from retrograd.simulator.engines import tiering
from retrograd.simulator.engines.state import UNLIMITED
from retrograd.simulator.engines.tiering import Decision, Ready, Reason
from retrograd.simulator.machine import Machine, Outcome, Snapshot, Stop, restore, snapshot
from retrograd.simulator.stores import Cotangents, SparseWords, Store, memory_words

if TYPE_CHECKING:
    from retrograd.simulator.engines.native import NativeEngine

#: runs of fewer steps are left to Python without a decision: a single step of a debugger among them
FEW = 4
#: words from which on the memory is sparse while Python runs: such runs have few steps, and a list takes longer to be
#: filled
LARGE_IN_PYTHON = 1 << 16
#: words of memory that are copied at a stop of a run
MOST_COPIED = 1 << 14


class TieredMachine(Machine):
    """A machine whose runs are taken by one engine or several, as `engine` allows.

    `auto`: Python, the interpreter and the translation, as the policy decides; `native`: the same without Python; `threaded`: the
    interpreter; `translated`: the translation where a run begins at an end of the program, the interpreter elsewhere; `cuda`: the
    same with the translation on a device (cuda/stepped_machine.py).
    `level`: LLVM's effort for the translation, 0 to 2; by the size of the program unless given.
    """

    def __init__(self, *args: Any, engine: str = "auto", level: int | None = None, **keywords: Any) -> None:
        super().__init__(*args, **keywords)
        #: the engine that was named
        self.named = engine
        self._level = level
        self._native: NativeEngine | None = None
        #: the engine that ran a machine out of a pickle
        self._ran = "reference"
        #: the last decision of the last run; None before the first
        self.decision: Decision | None = None

    @property
    def engine(self) -> str:
        return self._ran if self._native is None else self._native.name

    def __getstate__(self) -> dict[str, object]:
        return {**super().__getstate__(), "_native": None, "_ran": self.engine}

    def _first_memory(self, size: int) -> Store:
        return memory_words(self.program.data, size, LARGE_IN_PYTHON)

    def _new_cotangents(self) -> Cotangents:
        made = super()._new_cotangents()
        return made if self._native is None else self._native.shared_cotangents(made)

    # ------------------------------------------------------------------ motion

    def _loop(self, max_steps: int | None) -> int:
        left = UNLIMITED if max_steps is None else min(max_steps, UNLIMITED)
        if left < FEW:
            return super()._loop(max_steps)
        account = tiering.policy.account(self.program, self._differentiating, "stops" * bool(self._stops))
        whole = self._can_translate(left)
        taken = self._run(left, account, whole)
        if whole and (self.at_end or self._pc in self._stops):
            account.steps = taken
        return taken

    def _run(self, left: int, account: tiering.Account, whole: bool) -> int:
        """Run for `left` steps or to the end, on one engine after the other; the steps taken."""
        before: Snapshot | None = None
        taken, stops = 0, self._stops
        # A copy of a large memory at each stop would take longer than what lies between two stops.
        copied = not (self._pc in stops and len(self._memory) > MOST_COPIED)
        while taken < left and not (taken and (self.at_end or self._pc in stops)):
            decision = self.decision = self._decide(account, whole and (copied or not taken))
            most = left - taken if decision.steps is None else min(left - taken, decision.steps)
            if whole and copied and not taken and isinstance(self._memory, SparseWords):
                # The copy has the written words alone; that of an array has all words of the memory.
                before = snapshot(self)
            taken_over = None if decision.engine == "reference" else self._taken_over()
            if taken_over is not None and decision.engine == "translated":
                if taken and before is not None:
                    restore(self, before)
                taken = taken_over.translated(self, left, before)
                if taken and self._pc in stops:
                    return taken
                return taken + taken_over.interpreted(self, left - taken)
            if whole and copied and before is None and decision.steps is not None:
                before = snapshot(self)
            if taken_over is None:
                done = super()._loop(most) if not stops else super()._watch(self.step, most, stops, None, None).steps
                tiering.policy.count_python(account, done, self._differentiating)
                # A run that goes on from here is longer than was expected.
                account.steps = None
            else:
                done = taken_over.interpreted(self, most)
                tiering.policy.count_interpreted(account, done)
            taken += done
            if done < most:
                break
        return taken

    def _watch(
        self,
        move: Callable[[], bool],
        max_steps: int | None,
        breakpoints: Collection[int],
        until: Callable[[Machine], bool] | None,
        observe: Callable[[Machine, int], None] | None,
    ) -> Outcome:
        if until is not None or observe is not None or move != self.step:
            tiering.record(Decision("reference", Reason.OBSERVED))
            return super()._watch(move, max_steps, breakpoints, until, observe)
        if max_steps is not None and max_steps < FEW:
            return super()._watch(move, max_steps, breakpoints, until, observe)
        self._stops = frozenset(breakpoints)
        try:
            taken = self._loop(max_steps)
        finally:
            self._stops = frozenset()
        if taken and self._pc in breakpoints:
            return Outcome(Stop.BREAKPOINT, taken)
        return Outcome(Stop.LIMIT if taken == max_steps and not self.at_end else Stop.HALTED, taken)

    def _decide(self, account: tiering.Account, whole: bool) -> Decision:
        translating = self.named in ("translated", "cuda")
        if self.named == "threaded" or (translating and not whole):
            return tiering.record(Decision("threaded", Reason.INSIDE if translating else Reason.NAMED))
        if translating:
            return tiering.record(Decision("translated", Reason.NAMED))
        return tiering.policy.decide(
            self.program,
            account,
            lambda: self._ready(account),
            differentiating=self._differentiating,
            python=self.named == "auto" and self._native is None,
            whole=whole,
        )

    def _ready(self, account: tiering.Account) -> Ready:
        # Imported here: NumPy and LLVM are imported only for a run that is worth their time.
        from retrograd.simulator.engines import native

        return native.ready(self, self._level, account)

    def _taken_over(self) -> NativeEngine:
        """The engine of machine code, to which the machine's state has been handed over."""
        if self._native is None:
            self._native = self._new_engine()
        return self._native

    def _new_engine(self) -> NativeEngine:
        from retrograd.simulator.engines import native

        return native.NativeEngine(self, self._level)

    def _can_translate(self, left: int) -> bool:
        """Whether the machine stands at an end of its program, with steps enough, and no state that only the interpreter keeps."""
        end = self.program.finish if self._direction < 0 else self.program.start
        places = {end, end + self._direction, *self._stops}
        if self._br or self._pc not in places or left <= len(self.program.code) * 4:
            return False
        if self._stops:
            # A translation has a place for each stop that is neither a branch nor an end.
            code = self.program.instructions
            stopping = [code[at].opcode for at in self._stops if 0 <= at < len(code)]
            plain = not any("br" in opcode.writes or opcode.halts for opcode in stopping)
            return plain and len(stopping) == len(self._stops) and not self._differentiating
        if not self._differentiating:
            return True
        assert self._cotangents is not None
        lost = self._cotangents._lost
        kept = self._keep_dropped or "strict" in self._modes
        return not kept and (lost is None or lost[1] == self._cotangents.way)
