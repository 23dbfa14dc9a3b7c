"""The loops of a program as a table and for JSON: instructions and checks of a pass, and why an optimisation did not apply."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from retrograd.compiler.compiled import Storage
from retrograd.compiler.ir.statements import Remark
from retrograd.functions.storage_report import storage_dict, storage_text
from retrograd.isa.diagnostics import Span
from retrograd.isa.program import Program
from retrograd.presentation.tables import columns, shortened_text
from retrograd.simulator.engines.llvm.jit import jit_compiler
from retrograd.simulator.engines.translator.flow import Variant
from retrograd.simulator.engines.translator.ghost_uncompute import ghosts_of
from retrograd.simulator.engines.translator.loop_summary import KINDS, LoopSummary, loop_summaries

#: characters of a line of source that a table shows
_SHOWN = 40


class LoopReport:
    """`str(report)` is a table, `report.as_dict()` a document of schema retrograd.loops/1.

    The loops are those of a single run on this processor: forward from `start`, all checks on, without cotangents. `storage`: the results
    of a function's loops that its program keeps in memory. `remarks`: of the compiler's passes.
    """

    def __init__(self, program: Program, storage: Storage | None = None, remarks: Sequence[Remark] = ()) -> None:
        self.program = program
        self.storage = storage
        self.remarks = remarks
        self.unit = jit_compiler().vector_unit
        self.loops = loop_summaries(program, Variant(ghosts=ghosts_of(program)), self.unit)

    def as_dict(self) -> dict[str, Any]:
        """For JSON, without its schema retrograd.loops/1. `within`: the index of the loop around a loop."""
        return {
            "format": str(self.program.format),
            "instructions": len(self.program.code),
            "lanes": self.unit.lanes,
            "loops": [self._loop(loop) for loop in self.loops],
            "remarks": self._remarks(None),
            "memory": None if self.storage is None else storage_dict(self.storage),
        }

    def _loop(self, loop: LoopSummary) -> dict[str, Any]:
        source = self.program.source
        span = source.span(loop.source)
        around = next((k for k, other in enumerate(self.loops) if any(loop is inner for inner in other.inner)), None)
        return {
            "within": around,
            "source": None if span is None else {
                "file": span.file, "line": span.line, "text": (source.line(span) or "").strip(),
            },
            "addresses": [loop.first, loop.last],
            "instructions": loop.instructions,
            "uncompute": {
                "executed": loop.executed_uncompute, "skipped": loop.skipped_uncompute, "reason": loop.uncompute_reason,
            },
            "checks": loop.checks,
            "spills": loop.spills,
            "vector": {"lanes": loop.lanes, "checks": loop.lane_checks, "reason": loop.scalar_reason},
            "rows": None if loop.row_reason is None else {"shared": loop.shares_rows, "reason": loop.row_reason},
            "remarks": [] if span is None else self._remarks(span),
        }  # fmt: skip

    def _remarks(self, place: Span | None) -> list[dict[str, str]]:
        """The remarks on the loops at a place of the source, or with None on the program."""
        return [
            {"transformation": transformation, "reason": reason}
            for transformation, loop, reason in self.remarks
            if loop == place
        ]

    def __repr__(self) -> str:
        return shortened_text(str(self))

    def __str__(self) -> str:
        program = self.program
        loops = "1 loop" if len(self.loops) == 1 else f"{len(self.loops)} loops"
        head = f"{len(program.code)} instructions, {program.format}, {loops}"
        if not self.loops:
            return "\n\n".join(part for part in (head, self._remark_text()) if part)
        names = ["loop", "addresses", "instructions", "uncompute", "skipped", *KINDS, "spills"]
        table = columns([names, *map(self._numbers, self.loops)], right=range(2, len(names)))
        notes = columns([["loop", "passes and rows"], *((self._place(loop), _note(loop)) for loop in self.loops)])
        executed = [[self._place(loop), loop.uncompute_reason] for loop in self.loops if loop.uncompute_reason]
        undone = columns([["loop", "uncompute is executed"], *executed]) if executed else ""
        kept = "" if self.storage is None else storage_text(self.storage)
        return "\n\n".join(part for part in (head, table, notes, undone, self._remark_text(), kept) if part)

    def _remark_text(self) -> str:
        """A table of the remarks: on the program, then on its loops."""
        rows = [["program", *remark.values()] for remark in self._remarks(None)]
        seen: set[Span] = set()
        for loop in self.loops:
            span = self.program.source.span(loop.source)
            if span is not None and span not in seen:
                seen.add(span)
                rows += [[self._place(loop).strip(), *remark.values()] for remark in self._remarks(span)]
        return columns([["loop", "transformation", "why it did not apply"], *rows]) if rows else ""

    def _numbers(self, loop: LoopSummary) -> list[str]:
        numbers = loop.instructions, loop.executed_uncompute, loop.skipped_uncompute, *loop.checks.values()
        spills = "–" if loop.spills is None else str(loop.spills)
        return [self._place(loop, text=True), f"{loop.first} to {loop.last}", *map(str, numbers), spills]

    def _place(self, loop: LoopSummary, *, text: bool = False) -> str:
        """File and line, or the address of the branch that closes the loop; indented as the loops are nested."""
        source, indent = self.program.source, "  " * loop.depth
        span = source.span(loop.source)
        if span is None:
            return f"{indent}address {loop.source}"
        line = " ".join((source.line(span) or "").split())
        shown = line if len(line) <= _SHOWN else f"{line[: _SHOWN - 1]}…"
        return f"{indent}{Path(span.file).name}:{span.line}" + (f"  {shown}" if text else "")


def _note(loop: LoopSummary) -> str:
    """How passes and rows are executed, with the reason where that is one after the other."""
    if loop.row_reason is not None:
        return "a second core shares the rows" if loop.shares_rows else f"rows on one core: {loop.row_reason}"
    if loop.scalar_reason:
        return f"passes one by one: {loop.scalar_reason}"
    return f"{loop.lanes} passes at once, {loop.lane_checks} checks in each"
