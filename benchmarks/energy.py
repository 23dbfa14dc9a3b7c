"""What counting costs: a run in the interpreter of machine code, and the same run with everything counted.

    overhead = time(run, counts, counts of each line) / time(run)

The engine counts executions anyway; the rest is done once, at the end, for each address of the program.
"""

from __future__ import annotations

from retrograd.assembler.assemble import assemble
from retrograd.benchmarks.measure import Row, seconds
from retrograd.isa.program import Program
from retrograd.simulator.energy.attribution import by_line
from retrograd.simulator.energy.counting import Counts, counts_of
from retrograd.simulator.engines.native import NativeMachine

#: what a run on the threaded tier may take with counting, of what it takes without
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
    return [Row("counting on the threaded tier, over a run without", ratio, "×", BAR, lower_is_better=True)]


def _run(program: Program) -> NativeMachine:
    machine = NativeMachine(program, tier="threaded")
    machine.run()
    return machine


def _counted(program: Program) -> tuple[Counts, int]:
    counts = counts_of(_run(program))
    assert counts.accesses.reads
    assert counts.operations
    assert not counts.erased_bits
    return counts, sum(part.cycles for part in by_line(counts).values())
