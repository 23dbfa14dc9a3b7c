"""The cost of counting: a run in the threaded interpreter with all counts, beside the same run without.

    overhead = time(run, counts, counts of each line) / time(run)
    in the interpreter = time(run) / time(run by an interpreter that counts nothing)

The engine counts executions during the run. All other counts are computed once at the end, for each address of the program.
The interpreter that counts nothing is made here, in processes of its own, from the same handlers without the store of the count.
"""

from __future__ import annotations

import math
import os
import re
import subprocess
import sys
import tempfile
import time
from typing import Any

from retrograd.assembler.assemble import assemble
from retrograd.benchmarks.measure import Row, seconds
from retrograd.isa.program import Program
from retrograd.simulator.energy.counts import Counts, by_line, counts_of
from retrograd.simulator.engines import interpreter
from retrograd.simulator.engines.interpreter import COUNT
from retrograd.simulator.engines.llvm.builder import FunctionBuilder
from retrograd.simulator.engines.tiered_machine import TieredMachine

#: bar: time of a run on the threaded tier with counting, over the time without
BAR = 1.15
_LOOP = """
.memory 2
start
add r1, {passes}
top: from.ne r3, r0, bottom
add r3, 1
fmul.add r4, r5, r6
st.add [r0 + 1], r3
fmul.sub r4, r5, r6
ld.xor r7, [r0 + 1]
bottom: goto.ne r3, r1, top
finish
"""


def measure(quick: bool) -> list[Row]:
    """The overhead of counting on the threaded tier."""
    program = assemble(_LOOP.format(passes=3_000_000 if quick else 5_000_000))
    found = seconds({"run": lambda: _run(program), "counted": lambda: _counted(program)}, 5 if quick else 9)
    ratio = found["counted"][1] / found["run"][1]
    inside = _inside(10_000_000 if quick else 30_000_000, 5 if quick else 9)
    return [
        Row("counting on the threaded tier, over a run without", ratio, "×", BAR, lower_is_better=True),
        Row("the threaded tier, over one that keeps no counts", inside, "×", BAR, lower_is_better=True),
    ]


# ---------------------------------------------------------------------- an interpreter that does not count


def _inside(passes: int, repeats: int) -> float:
    """Time with counters over time without: the least of each; the two take turns."""
    least = {True: math.inf, False: math.inf}
    with tempfile.TemporaryDirectory() as counting, tempfile.TemporaryDirectory() as other:
        for _ in range(repeats):
            for keeps, cache in ((True, counting), (False, other)):
                command = [sys.executable, "-m", "retrograd.benchmarks.toolchain.energy", str(passes), str(int(keeps))]
                environment = {**os.environ, "RETROGRAD_CACHE": cache}
                told = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
                least[keeps] = min(least[keeps], float(told.stdout))
    return least[True] / least[False]


def _without_counts() -> None:
    """Make handlers that leave out the store of their count."""
    emit = vars(interpreter)["emit_handler"]

    def emitted(*arguments: Any) -> FunctionBuilder:
        code: FunctionBuilder = emit(*arguments)
        counts = set(re.findall(rf"(%\S+) = getelementptr i8, ptr %ip, i64 {COUNT}\b", "\n".join(code.lines)))
        stores = tuple(f"ptr {count}" for count in counts)
        code.lines = [line for line in code.lines if "store i64" not in line or not line.endswith(stores)]
        return code

    vars(interpreter)["emit_handler"] = emitted


def _one(passes: int, keeps: bool) -> float:
    """Seconds of the second run in this process; the first makes the handlers."""
    if not keeps:
        _without_counts()
    program = assemble(_LOOP.format(passes=passes))
    _run(program)
    began = time.process_time()
    machine = _run(program)
    took = time.process_time() - began
    assert any(machine.executed[+1]) == keeps
    return took


def _run(program: Program) -> TieredMachine:
    machine = TieredMachine(program, engine="threaded")
    machine.run()
    return machine


def _counted(program: Program) -> tuple[Counts, int]:
    counts = counts_of(_run(program))
    assert counts.accesses.reads
    assert counts.operations
    assert not counts.erased_bits
    return counts, sum(part.cycles for part in by_line(counts).values())


if __name__ == "__main__":
    print(_one(int(sys.argv[1]), sys.argv[2] == "1"))
