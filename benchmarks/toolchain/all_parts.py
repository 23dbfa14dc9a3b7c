"""Measurements of the toolchain: assembler, reference machine, compiler, engines on loops, counting, calls, start-up, first
calls, cores."""

from __future__ import annotations

from collections.abc import Callable

from retrograd.benchmarks.measure import Row
from retrograd.benchmarks.toolchain import (
    assembler,
    calls,
    compiler,
    energy,
    first_calls,
    loops,
    machine,
    startup,
    wave,
)

#: name -> measurement, which takes `quick`
PARTS: dict[str, Callable[[bool], list[Row]]] = {
    "assembler": assembler.measure,
    "machine": machine.measure,
    "compiler": compiler.measure,
    "loops": loops.measure,
    "counting": energy.measure,
    "calls": calls.measure,
    "start-up": startup.measure,
    "first-calls": first_calls.measure,
    "cores": wave.measure,
}
