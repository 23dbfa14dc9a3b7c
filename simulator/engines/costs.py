"""What programs have cost so far, over all runs in this process, so that `auto` compiles what pays.

    Python ──PYTHON steps──►  interpreter ──as long as translating takes──►  translation

A tier is left once it has cost about as much as the next one takes to make ready; whatever comes then, that costs at most about
twice what the best tier would have cost from the start. Steps are counted, not seconds, so that a busy machine decides as an idle
one does. The first FREE steps of each run count for nothing: to enter compiled code takes as long.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from retrograd.isa.program import Program

#: steps of Python that are over before compiled code has been entered
FREE = 100
#: seconds that a step of Python takes
STEP = 1e-6
#: seconds that it takes to run one row of a batch on a machine, whatever the row does
ROW = 1e-4
#: how many times the time of a step of Python one takes that moves cotangents, too
LIFTED = 3
#: instructions up to which LLVM optimises
OPTIMISED = 3000
#: programs that are remembered
_MOST = 4096

#: a program's code, its format, and how it is run
Key = tuple[Any, ...]


@dataclass(slots=True)
class Cost:
    """What a program has cost."""

    #: how many steps of Python one of its steps takes the time of
    weight: int = 1
    #: steps of Python that compiled code would have saved
    python: int = 0
    #: seconds of the interpreter in machine code
    threaded: float = 0.0
    #: whether a translation from earlier may lie on disk: looked for once
    unlooked: bool = True

    def count_python(self, steps: int) -> None:
        """Count the first `steps` steps of a run, which Python took."""
        self.python += max(0, self.weight * steps - FREE)

    def python_left(self, steps: int) -> int:
        """The number of steps that Python may still take, if it may take `steps` in all runs together."""
        return max(0, -(-(steps - self.python) // self.weight))

    @property
    def seconds(self) -> float:
        """What a translation from the start would about have saved."""
        return self.python * STEP + self.threaded


_costs: dict[Key, Cost] = {}


def cost_of(program: Program, differentiating: bool = False, kind: str = "") -> Cost:
    """The account of a program that is run with or without D; the same one each time. `kind`: of batches, their own."""
    key = program.code, program.format, differentiating, kind
    found = _costs.get(key)
    if found is None:
        if len(_costs) >= _MOST:
            del _costs[next(iter(_costs))]
        found = _costs[key] = Cost(LIFTED if differentiating else 1)
    return found


def translation_seconds(instructions: int, differentiating: bool = False) -> float:
    """About how long translating takes: more for each instruction the more there are, as long as LLVM optimises, and much
    more where cotangents are moved, too."""
    each = 0.0019 * (1 + instructions / 500) if instructions <= OPTIMISED else 0.001
    return 0.02 + each * instructions * (1 + 3 * min(1.0, instructions / 200) if differentiating else 1)
