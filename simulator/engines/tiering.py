"""Tiered execution: which engine runs a program, and why.

    Python ──► interpreter in machine code ──► translation into machine code

Each tier is faster than the one before it and takes longer to make ready. The policy is that of the ski-rental problem:
a tier is left once it has cost a fixed share of the price of the next one. Costs are counted for each program over all
its runs in the process, so that many short runs move on as one long run does. Where earlier runs of the program give
the number of steps to expect, a tier is left before the run that would exceed its share.

A decision depends on the table of costs, on the account of the program and on which code is ready. It reads no clock: a
busy machine decides as an idle machine does. Two exceptions concern code that runs already and computes the same: the
time after which a
batch is translated for lanes, and the time at which code that another process optimises is ready
(`llvm/tiered_code.py`). An account counts only time that compiled code would have saved, so the time that it takes to
enter compiled code (`Costs.enter`) is subtracted from each run.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

from retrograd.isa.diagnostics import Diagnostic, InputError, nearest
from retrograd.isa.program import Program

#: `native`: an engine of machine code from the first step, chosen as `auto` does; `cuda`: batches, and parallel loops
#: of single runs, on a GPU
ENGINES = ("auto", "reference", "native", "threaded", "translated", "cuda")

#: the variable of the environment that names the engine for `auto`
VARIABLE = "RETROGRAD_ENGINE"
FROM_VARIABLE = f" ({VARIABLE} in the environment)"

#: instructions up to which LLVM optimises a program at level 2; longer ones at level 1, whose time grows with their
#: length only
OPTIMISED_FULLY = 400

_COMPILER = "retrograd.simulator.engines.machines"
#: programs that have an account
_MOST = 4096


def engine_named(name: str) -> str:
    """The engine of that name; for `auto`, the engine that the environment names. Raises InputError RG1001."""
    chosen, where = name, ""
    if name == "auto" and os.environ.get(VARIABLE):
        chosen, where = os.environ[VARIABLE], FROM_VARIABLE
    if chosen not in ENGINES:
        message = f"there is no engine `{chosen:.40}`{where}"
        hint = nearest(chosen, ENGINES) or f"engines: {', '.join(ENGINES)}"
        raise InputError(Diagnostic("RG1001", message, hint=hint))
    return chosen


# ------------------------------------------------------------------ the table


@dataclass
class Costs:
    """The table: seconds on a common processor.

    Decisions depend on their ratios, which vary less than the seconds do.
    """

    #: to import NumPy; to import LLVM and the engines
    import_numpy: float = 0.1
    import_compiler: float = 0.04
    #: a step of Python, and a step that moves cotangents too; a step of the interpreter
    python_step: float = 0.6e-6
    python_lifted_step: float = 0.9e-6
    interpreter_step: float = 3e-9
    #: to enter compiled code, with the state of a machine
    enter: float = 60e-6
    #: a row of a batch on a machine, beside its steps
    python_row: float = 30e-6
    interpreter_row: float = 100e-6
    #: to compile the interpreter's handlers of one entry of the table; to load them from the disk
    compile_handler: float = 0.01
    load_handler: float = 0.001
    #: to load a translation from the disk
    load_translation: float = 0.002
    #: to translate: once, and for each instruction at LLVM's levels 0, 1 and 2
    translate: float = 0.02
    translate_instruction: tuple[float, float, float] = (0.0003, 0.0013, 0.0026)
    #: optimised code of a higher price is compiled in the background
    wait: float = 0.25
    #: the part of the price of optimised code that other code runs before it is begun. The background takes no time of
    #: the run.
    background_share: float = 0.1
    #: a step of a translation that is not optimised
    first_code_step: float = 1.5e-9
    #: batches of this much processor time are translated once more, for the lanes of the vector unit
    lanes: float = 0.2
    #: a batch waits for that code if it takes at most this many times as long as the batch; else the code comes from
    #: the background
    patience: float = 3.0
    #: a step of an instance in the interpreter's kernel on a GPU, of which thousands run side by side
    device_step: float = 1e-10
    #: to compile the interpreter's kernel for a GPU
    device_interpreter: float = 37.0
    #: a batch of less time gains nothing by threads, and need not be interruptible
    threads: float = 0.01
    #: the part of the price of a faster tier that Python may take before it is left. A series that ends right after
    #: the change
    #: has then cost (1 + share) / share times its time in Python, a long one `share` of the price more than the best
    #: engine.
    share: float = 0.375

    def python(self, differentiating: bool) -> float:
        """A step of Python."""
        return self.python_lifted_step if differentiating else self.python_step

    def translation(self, instructions: int, differentiating: bool = False) -> float:
        """To translate a program: into optimised code if that need not be compiled in the background, else into first code."""
        price = self.optimised_translation(instructions, differentiating)
        return price if price <= self.wait else self._translation(instructions, differentiating, 0)

    def optimised_translation(self, instructions: int, differentiating: bool = False) -> float:
        """To translate a program into optimised code."""
        return self._translation(instructions, differentiating, level_for(instructions))

    def longest_wait(self, instructions: int, differentiating: bool, to_import: float) -> float:
        """(1 + s) I + (5 + s)/2 · T + (1 + b) P: seconds that a run from an end of its program takes at most beyond its time in optimised code.

        I, T, P: to import the engines, to make the first translation, to optimise it (0 if T does); s = `share`, b =
        `background_share`. Python takes s I, and s H before the interpreter's handlers are made in H ≤ T/2; the interpreter
        takes T; the translation begins again. Its steps until optimised code is there, (1 + b) P, are taken again, too.
        """
        first = self.translation(instructions, differentiating)
        optimised = self.optimised_translation(instructions, differentiating)
        later = (1 + self.background_share) * optimised if optimised > self.wait else 0.0
        return (1 + self.share) * to_import + (5 + self.share) / 2 * first + later

    def _translation(self, instructions: int, differentiating: bool, level: int) -> float:
        # With cotangents an instruction becomes several.
        lifted = 1 + 3 * min(1.0, instructions / 200) if differentiating else 1
        return self.translate + self.translate_instruction[level] * instructions * lifted


def level_for(instructions: int) -> int:
    """LLVM's level for a program with this number of instructions: 2, or 1 for the longer ones."""
    return 2 if instructions <= OPTIMISED_FULLY else 1


@dataclass(slots=True)
class Account:
    """The cost of a program so far, in seconds."""

    #: time of Python that compiled code would have saved; time of the interpreter
    python: float = 0.0
    interpreter: float = 0.0
    #: steps of the last run from one end of the program to the other
    steps: int | None = None
    #: of a batch: a row on a machine, when it was last run so
    row: float | None = None
    #: the prices of the interpreter and of the translation, by the translation's variant; looked up once
    prices: dict[Any, Ready] = field(default_factory=dict)

    @property
    def spent(self) -> float:
        return self.python + self.interpreter


class Ready(NamedTuple):
    """The prices of a program's compiled code, in seconds; 0 for code that is loaded."""

    interpreter: float
    translation: float
    #: the translation lies on the disk
    kept: bool = False


# ------------------------------------------------------------------ decisions


class Reason(Enum):
    """Why an engine was chosen: a text with the figures of the decision."""

    NAMED = "the engine was named"
    OBSERVED = "every step is observed"
    IMPORT = "Python has taken {spent} of the {limit} that it may take before the compiler is imported ({price})"
    CHEAP = "Python has taken {spent} of the {limit} that it may take before compiled code is made ready ({price})"
    LOADED = "its translation is loaded"
    KEPT = "its translation is on the disk; Python has taken {spent}"
    PAID = "Python and the interpreter have taken {spent}, and its translation takes {price}"
    NO_INTERPRETER = "its translation takes {price}, and the handlers of the interpreter take more than half of that"
    INTERPRETER = "Python and the interpreter have taken {spent} of the {price} that its translation takes"
    FIRST_CODE = "its code is not optimised yet; optimising takes {price}, and begins in the background once this code has run for {limit}"
    OPTIMISED_CODE = "optimised code has come from the background; other code has run for {spent}"
    NOT_OPTIMISED = "the compiler in the background failed, so its code stays as it is"
    INSIDE = "the run begins inside the program, or leaves state that only the interpreter keeps"
    ROWS_IMPORT = "Python has taken {spent} of the {limit} that it may take before the compiler is imported ({price}); one machine runs the rows"
    ROWS = "the rows have taken {spent} of the {limit} that they may take before a loop over them is made ready ({price}); one machine runs them"
    DEVICE_SMALL = "the interpreter on the device takes {spent}, and may take {limit} before the program is translated for it ({price})"
    DEVICE_LARGE = "the interpreter on the device runs the batch until the program is translated for it ({price})"
    DEVICE_WITHOUT_INTERPRETER = "its translation takes {price}, and the interpreter of the device is not compiled; translations of this process have taken {spent}, and from {limit} on it is compiled in the background"
    DEVICE_TEAMS = "the device has places for more threads than the batch has elements, and a loop can be divided"
    DEVICE_ONLY = "the CUDA simulator runs no translation"
    BATCH = "rows on one machine take {spent}, and may take {limit} before a loop over them is made ready ({price})"


class Decision(NamedTuple):
    """The engine of a run or of a part of it, with the figures, in seconds, that the choice depended on."""

    engine: str
    reason: Reason
    spent: float = 0.0
    limit: float = 0.0
    price: float = 0.0
    #: steps after which to decide again
    steps: int | None = None
    #: see `Costs.longest_wait`; 0 where nothing is waited for
    wait: float = 0.0

    def __str__(self) -> str:
        figures = {name: _milliseconds(getattr(self, name)) for name in ("spent", "limit", "price")}
        bound = f"; code, and steps that begin again, take {_milliseconds(self.wait)} at most" if self.wait else ""
        return f"{self.engine}: {self.reason.value.format(**figures)}{bound}"


def _milliseconds(seconds: float) -> str:
    return f"{1000 * seconds:.1f} ms"


class Record(dict[tuple[str, Reason], tuple[Decision, int]]):
    """(engine, reason) -> the last decision for that engine and reason, and how many there were; in the order of the first ones."""

    def __str__(self) -> str:
        return "\n".join(f"{decision}{f' ({n} times)' * (n > 1)}" for decision, n in self.values())


_records: list[Record] = []


@contextmanager
def recorded() -> Iterator[Record]:
    """The decisions of all runs within."""
    found = Record()
    _records.append(found)
    try:
        yield found
    finally:
        _records[:] = [other for other in _records if other is not found]


def record(decision: Decision) -> Decision:
    """Add the decision to all records, and return it."""
    for found in _records:
        key = decision.engine, decision.reason
        found[key] = decision, found[key][1] + 1 if key in found else 1
    return decision


class Policy:
    """The table of costs, and the accounts of the process."""

    def __init__(self, costs: Costs | None = None) -> None:
        self.costs = costs or Costs()
        #: seconds of Python, of all programs, that compiled code would have saved
        self.python = 0.0
        #: seconds of translations for devices that an interpreter on the device would have saved, or would have run
        #: beside
        self.device_translations = 0.0
        self._accounts: dict[tuple[Any, ...], Account] = {}

    def account(self, program: Program, differentiating: bool = False, kind: str = "") -> Account:
        """The account of a program that runs with or without D; the same object each time. `kind` separates batches."""
        key = program.code, program.format, differentiating, kind
        found = self._accounts.get(key)
        if found is None:
            if len(self._accounts) >= _MOST:
                del self._accounts[next(iter(self._accounts))]
            found = self._accounts[key] = Account()
        return found

    def to_import(self) -> float:
        """The price of importing the engines; 0 where they are imported."""
        if _COMPILER in sys.modules and "llvmlite.binding" in sys.modules:
            return 0.0
        return self.costs.import_compiler + self.costs.import_numpy * ("numpy" not in sys.modules)

    # ------------------------------------------------------------------ runs

    def decide(
        self,
        program: Program,
        account: Account,
        ready: Callable[[], Ready],
        *,
        differentiating: bool = False,
        python: bool = True,
        whole: bool = True,
    ) -> Decision:
        """The engine for the next steps of a run. `ready` imports the compiler; it is called when that is worth its price.

        `python`: the run may take steps in Python. `whole`: it begins at an end of the program, so that a translation
        can run it.
        """
        costs = self.costs
        to_import = self.to_import()
        # The bound is that of a run from an end. Where decisions are not recorded it is not read, and runs take
        # microseconds.
        bounded = whole and bool(_records)
        wait = costs.longest_wait(len(program.code), differentiating, to_import) if bounded else 0.0
        if python and to_import:
            found = self._in_python(account, self.python, to_import, Reason.IMPORT, differentiating)
            if found is not None:
                return record(found._replace(wait=wait))
        code = ready()
        if whole and not code.translation:
            return record(Decision("translated", Reason.LOADED))
        price = min(code.interpreter, code.translation) if whole else code.interpreter
        if python:
            found = self._in_python(account, account.python, price, Reason.CHEAP, differentiating)
            if found is not None:
                return record(found._replace(wait=wait))
        if not whole:
            return record(Decision("threaded", Reason.INSIDE))
        spent, price = account.spent, code.translation
        if code.kept:
            return record(Decision("translated", Reason.KEPT, spent, 0.0, price))
        if spent >= price:
            return record(Decision("translated", Reason.PAID, spent, price, price, wait=wait))
        if price < 2 * code.interpreter:
            return record(Decision("translated", Reason.NO_INTERPRETER, spent, price, price, wait=wait))
        steps = 1 + round((price - spent) / costs.interpreter_step)
        return record(Decision("threaded", Reason.INTERPRETER, spent, price, price, steps, wait))

    def _in_python(
        self, account: Account, spent: float, price: float, reason: Reason, differentiating: bool
    ) -> Decision | None:
        """The decision for Python; None where it has taken its share of the price, or would in this run."""
        costs = self.costs
        limit, step = costs.share * price, costs.python(differentiating)
        expected = 0.0 if account.steps is None else step * account.steps - costs.enter
        # A run that ends before compiled code is entered is no reason to make such code ready.
        if (spent >= limit or spent + expected > limit) and (account.steps is None or expected > 0):
            return None
        steps = math.ceil((max(limit - spent, 0.0) + costs.enter) / step)
        return Decision("reference", reason, spent, limit, price, steps)

    def count_python(self, account: Account, steps: int, differentiating: bool) -> None:
        """Add steps of a run that Python took."""
        seconds = max(0.0, steps * self.costs.python(differentiating) - self.costs.enter)
        account.python += seconds
        self.python += seconds

    def count_interpreted(self, account: Account, steps: int) -> None:
        """Add steps of a run that the interpreter took. Its handlers are loaded now."""
        account.interpreter += steps * self.costs.interpreter_step
        account.prices = {variant: found._replace(interpreter=0.0) for variant, found in account.prices.items()}

    # ------------------------------------------------------------------ batches

    def decide_rows(self, account: Account, rows: int, loaded: bool, price: Callable[[], float]) -> Decision:
        """The engine for the rows of a batch that are left: `auto`, a machine for one row after the other, or `translated`, a loop
        over all of them. `loaded`: the loop is; `price` imports the compiler, and returns the seconds until the loop is
        loaded.
        """
        if loaded:
            return record(Decision("translated", Reason.LOADED))
        expected = 0.0 if account.row is None else rows * account.row
        if to_import := self.to_import():
            limit = self.costs.share * to_import
            if self.python + expected <= limit:
                return record(Decision("auto", Reason.ROWS_IMPORT, self.python, limit, to_import))
        found = price()
        limit = self.costs.share * found
        if account.spent + expected <= limit:
            return record(Decision("auto", Reason.ROWS, account.spent, limit, found))
        return record(Decision("translated", Reason.BATCH, account.spent + expected, limit, found))

    def decide_device(self, instructions: int, rows: int, kept: bool, interpreter: bool, simulated: bool) -> Decision:
        """The kernel for a batch on a GPU: `interpreted`, `translated`, or `both`: interpreted until the translation is compiled in the background.

        `kept`: the translation is loaded, or on disk; `interpreter`: the interpreter's kernel is. `simulated`: no
        translation can run.
        """
        if simulated:
            return record(Decision("interpreted", Reason.DEVICE_ONLY))
        if kept:
            return record(Decision("translated", Reason.LOADED))
        price = self.costs.optimised_translation(instructions)
        if not interpreter:
            self.device_translations += price
            limit = self.costs.background_share * self.costs.device_interpreter
            reason = Reason.DEVICE_WITHOUT_INTERPRETER
            return record(Decision("translated", reason, self.device_translations, limit, price))
        spent, limit = rows * instructions * self.costs.device_step, self.costs.share * price
        if spent <= limit:
            return record(Decision("interpreted", Reason.DEVICE_SMALL, spent, limit, price))
        return record(Decision("both", Reason.DEVICE_LARGE, spent, limit, price))

    def count_rows(self, account: Account, rows: int, steps: int, engine: str) -> None:
        """Add rows that a machine ran, on this engine."""
        if engine == "reference":
            each = steps * self.costs.python_step / rows
            seconds = rows * (self.costs.python_row + each)
            account.python += seconds
            # `count_python` left out the time to enter compiled code, which a loop over rows saves too.
            self.python += rows * (self.costs.python_row + min(each, self.costs.enter))
        else:
            seconds = rows * self.costs.interpreter_row + steps * self.costs.interpreter_step
            account.interpreter += seconds
        account.row = seconds / rows


#: the policy of this process
policy = Policy()


@contextmanager
def optimised_at_once() -> Iterator[None]:
    """Runs within wait for optimised code, as measurements need it."""
    costs = policy.costs
    before, costs.wait = costs.wait, math.inf
    try:
        yield
    finally:
        costs.wait = before
