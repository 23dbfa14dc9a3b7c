"""Location lists: where the variables of the source are, for debuggers (DWARF's term).

scalar: a register or a word of memory, between two points of the code
array: its layout, from an address that is fixed, or that a variable holds
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from retrograd.compiler.backend.function_emitter import FunctionEmitter
from retrograd.compiler.backend.moves import Moves
from retrograd.compiler.backend.register_allocation import SLOT
from retrograd.compiler.ir.effects import AccessAnalysis
from retrograd.compiler.ir.statements import Kind, Local, Module, Op, Region, Var
from retrograd.isa.program import ArrayLayout, VariableLocation
from retrograd.isa.table import TABLE

_EXCHANGE = TABLE["exch"]
_WORD = re.compile(r"[^\W\d]\w*")


def location_lists(
    module: Module, moves: Moves, emitters: Mapping[str, FunctionEmitter], bases: Mapping[str, int], size: int
) -> list[VariableLocation]:
    """The location lists of a program of `size` instructions, whose parts begin at `bases`.

    A variable is of the source if its line has the name, or for parameters its file.
    Arrays at fixed addresses that the code uses are there throughout. An array whose address a variable holds lives as long as the variable.
    """
    texts = dict(zip(module.files, module.texts, strict=False))
    anywhere = frozenset(_WORD.findall("\n".join(line for text in texts.values() for line in text)))
    out = [
        VariableLocation(array.name, array.kind, 0, size, address, True, array)
        for address, array in _static_arrays(_regions_in_use(module, emitters))
    ]
    for name, emitter in emitters.items():
        arrays = _arrays_at_variables(emitter)
        for var, location, first, last in emitter.location_lists():
            text = () if var.span is None else texts.get(var.span.file, ())
            line = 0 if var.span is None else var.span.line
            known = _WORD.findall(text[line - 1]) if 0 < line <= len(text) else anywhere
            if var.name.partition(".")[0].partition("[")[0] in known:
                memory = location >= SLOT
                place = moves.slot(location) if memory else location
                base = bases[name]
                points = base + first, base + last
                out.append(VariableLocation(var.name, var.kind.value, *points, place, memory))
                out += [
                    VariableLocation(array.name, array.kind, *points, place, memory, array, indirect=True)
                    for array in arrays.get(var, ())
                ]
    return out


def _regions_in_use(module: Module, emitters: Mapping[str, FunctionEmitter]) -> list[Region]:
    """The arguments, the regions that the code accesses, and those of which it holds words in variables, `a[1]`."""
    items = [step.item for emitter in emitters.values() for step in emitter.steps]
    used = {id(item.region) for item in items if isinstance(item, Op)} | {id(r) for r in module.arguments or ()}
    words = {item.var.name.partition("[")[0] for item in items if isinstance(item, Local) and "[" in item.var.name}
    return [r for r in module.regions if id(r) in used or any(array.name in words for array in r.layouts)]


def _static_arrays(regions: Iterable[Region]) -> Iterator[tuple[int, ArrayLayout]]:
    """(address, layout) of the arrays at fixed addresses. Of arrays with equal names all but the first have that of their region."""
    taken = set[str]()
    for region in regions:
        if region.address is not None:
            for array in region.layouts:
                own = array.name.partition(".")[0]
                name = region.name + array.name.removeprefix(own) if array.name in taken else array.name
                taken.add(name)
                yield region.address + array.offset, array._replace(name=name)


def _arrays_at_variables(emitter: FunctionEmitter) -> dict[Var, tuple[ArrayLayout, ...]]:
    """Variable -> the arrays at the address that it holds: array parameters, and arrays in frames."""
    out: dict[Var, tuple[ArrayLayout, ...]] = {}
    if emitter.procedure is not None:
        bases = [p for p in emitter.procedure.params if p.kind is Kind.ADDRESS]
        if len(bases) == len(emitter.procedure.regions):
            out |= {p: region.layouts for p, region in zip(bases, emitter.procedure.regions, strict=True)}
    items = [step.item for step in emitter.steps]
    frames = {f"{i.region.name}.base": i.region for i in items if isinstance(i, Op) and i.region is not None}
    for item in items:
        if isinstance(item, Local) and item.var.name in frames and frames[item.var.name].address is None:
            out[item.var] = frames[item.var.name].layouts
    return out


def _elements_in_registers(emitter: FunctionEmitter) -> dict[Var, Region]:
    """Temporary -> the array of which it holds an element, at an index of the run; the word in memory is zero then."""
    out: dict[Var, Region] = {}
    for step in emitter.steps:
        item = step.item
        if not isinstance(item, Op) or item.opcode is not _EXCHANGE or item.region is None:
            continue
        if isinstance(item.d, Var) and not _WORD.match(item.d.name):
            out[item.d] = item.region
    return out


def unsettled_arrays(emitters: Iterable[FunctionEmitter]) -> dict[str, set[tuple[str, int]]]:
    """Array -> the lines at which an element of it is in a register, as in `isa.program.Program.unsettled`."""
    out = defaultdict[str, set[tuple[str, int]]](set)
    for emitter in emitters:
        held = _elements_in_registers(emitter)
        for var, _, first, last in emitter.location_lists() if held else ():
            if var in held:
                lines = {tuple(span.lines()) for span in emitter.spans[first:last] if span is not None}
                # An element that returns to memory within a line is where it belongs between lines.
                for array in held[var].layouts if len(lines) > 1 else ():
                    out[array.name].update(*lines)
    return out


def half_updated(emitters: Iterable[FunctionEmitter], accesses: AccessAnalysis) -> dict[str, set[tuple[str, int]]]:
    """Variable or array -> the lines at which a part of their updates is done when they begin.

    `y += f(x) + z` updates y twice. Inlined, the statements of f have lines of their own; where nothing of the line stands before
    them, it begins after the first update. In a procedure the code may also run from its end.
    """
    out = defaultdict[str, set[tuple[str, int]]](set)
    for emitter in emitters:
        code = list(zip(emitter.origins, emitter.spans, strict=True))
        for way in (code,) if emitter.procedure is None else (code, code[::-1]):
            # A statement, by its line and those of the calls that it was copied to -> the names that were updated before its line began
            before: dict[tuple[tuple[str, int], ...], set[str]] = {}
            begun = set[tuple[tuple[str, int], ...]]()
            for origin, span in way:
                lines = () if span is None else tuple(span.lines())
                before = {lines[i:]: before.get(lines[i:], set()) for i in range(len(lines))}
                begun = begun & before.keys() | {lines}
                called = len(lines) > 1 or any(before.values())
                updated = set(accesses.of(origin).names()) if called and isinstance(origin, Op) else set()
                for statement, early in before.items():
                    if statement not in begun:
                        early.update(updated)
                    else:
                        for name in updated & early:
                            out[name].add(statement[0])
    return out
