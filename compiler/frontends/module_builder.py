"""Module under construction: procedures, static memory, source files, and blocks for the host.

Each front end lowers its functions into one `ModuleBuilder`. Nothing here depends on a source language.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from retrograd.compiler.frontends.constants import Constants
from retrograd.compiler.ir.effects import AccessAnalysis
from retrograd.compiler.ir.statements import Exact, Kind, Module, Procedure, Region
from retrograd.compiler.language.arithmetic import Powers
from retrograd.compiler.language.values import Condition, Value
from retrograd.isa.diagnostics import CompileError, Diagnostic, Span
from retrograd.isa.encoding import IMMEDIATE_MAX
from retrograd.isa.program import ArrayLayout
from retrograd.isa.words import Format


@dataclass(frozen=True)
class HostBlock:
    """Statements for the host: `run(names)` executes them, where `names` are the values that `watched` stands for.

    Calling it may raise anything; `file` is the source file whose lines the traceback shows.
    """

    run: Callable[[dict[str, Any]], None]
    watched: Mapping[str, Value]
    file: str


@dataclass(frozen=True)
class _Checkpoint:
    procedures: dict[str, Procedure]
    memory: int
    regions: int
    names: dict[str, int]


class ModuleBuilder:
    """Collects procedures, memory and source files of one program. `recorded`: see `Constants`."""

    def __init__(self, w: Format, recorded: bool = False) -> None:
        self.w = w
        self.procedures: dict[str, Procedure] = {}
        self.regions: list[Region] = []
        #: regions that hold words between the procedures that use them
        self.outliving: list[Region] = []
        self.memory = 0
        #: file → its lines
        self.files: dict[str, Sequence[str]] = {}
        self.host_blocks: list[HostBlock] = []
        #: variable -> the lines at which it lends its word to a view, which turns it
        self.viewed = defaultdict[str, set[tuple[str, int]]](set)
        #: calls in expressions that add to the target of an update, by analysis or by assumption
        self.calls_in_place = 0
        #: place of the first condition of a branch or loop → (condition before it, condition after it)
        self.conditions: dict[Span, tuple[Condition, Condition]] = {}
        #: place of a branch or loop → its condition or bounds, in words
        self.statement_texts: dict[Span, str] = {}
        self._names: dict[str, int] = {}
        self.constants = Constants(w, self._constant_region, recorded)
        self._constant_regions: dict[tuple[tuple[int, ...], Exact | None], Region] = {}
        self.powers = Powers(w, self._power_region, self._power_procedure)
        self.forget_accesses()

    def forget_accesses(self) -> None:
        """Analyse the effects of procedures again: the effects of a recursive procedure were an assumption."""
        self.accesses = AccessAnalysis(Module((), self.procedures, format=self.w))

    def unique_name(self, name: str) -> str:
        """A name that no other procedure has."""
        count = self._names.get(name, 0)
        self._names[name] = count + 1
        return name if count == 0 else f"{name}.{count + 1}"

    def static_region(
        self,
        name: str,
        size: int,
        span: Span | None,
        data: tuple[int, ...] | None = None,
        layouts: tuple[ArrayLayout, ...] = (),
        exact: Exact | None = None,
    ) -> Region:
        """A stretch of memory at a fixed address. `layouts`: the arrays of the source in it. Raises CompileError RG0421 beyond the largest address."""
        most = min(self.w.mask, IMMEDIATE_MAX)
        if self.memory + size > most:
            message = f"`{name.rpartition('.')[2]}` needs {size} words, and addresses go up to {most}"
            line = self.files[span.file][span.line - 1] if span is not None and span.file in self.files else None
            raise CompileError(
                Diagnostic("RG0421", message, span, "Ask for less, or choose a format of wider words.", line)
            )
        count = self._names.get(f"[{name}]", 0)
        self._names[f"[{name}]"] = count + 1
        region = Region(name if count == 0 else f"{name}.{count}", size, self.memory, data, span, layouts, exact)
        self.memory += size
        self.regions.append(region)
        return region

    def host_block(self, block: HostBlock) -> int:
        """Keep statements for the host: their number."""
        self.host_blocks.append(block)
        return len(self.host_blocks) - 1

    def checkpoint(self) -> _Checkpoint:
        return _Checkpoint(dict(self.procedures), self.memory, len(self.regions), dict(self._names))

    def restore(self, saved: _Checkpoint) -> None:
        """Drop procedures, regions and names that were added since the checkpoint."""
        self.procedures.clear()
        self.procedures.update(saved.procedures)
        self.memory, self._names = saved.memory, dict(saved.names)
        del self.regions[saved.regions :]
        self.outliving = [r for r in self.outliving if r in self.regions]
        self.powers.keep(self.procedures, self.regions)
        self._constant_regions = {k: r for k, r in self._constant_regions.items() if r in self.regions}
        self.forget_accesses()

    def _constant_region(self, words: tuple[int, ...], exact: Exact | None, span: Span | None) -> Region:
        """The memory of constants; equal ones share one region."""
        key = words, exact
        if key not in self._constant_regions:
            place = None if exact is None else span
            self._constant_regions[key] = self.static_region("constant", len(words), place, words, (), exact)
        return self._constant_regions[key]

    def _power_region(self, kind: Kind) -> Region:
        return self.static_region(f"powers of {kind.value}", self.w.width, None)

    def _power_procedure(self, procedure: Procedure) -> str:
        name = self.unique_name(procedure.name)
        self.procedures[name] = replace(procedure, name=name)
        return name
