"""Emission: IR → Program. The parts are laid out in code and memory, and calls and names get their addresses.

code   = start; SP and constants loaded; entry; both cleared; finish; procedures, callees first
memory = the module's words; words of variables without a register; stack; the module's words above it
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from retrograd.compiler.backend.calling_convention import Shared
from retrograd.compiler.backend.discarded_cotangents import directions, with_discards
from retrograd.compiler.backend.function_emitter import FunctionEmitter
from retrograd.compiler.backend.linear_code import Branch, Step, callees, linearize
from retrograd.compiler.backend.location_lists import half_updated, location_lists, unsettled_arrays
from retrograd.compiler.backend.moves import Moves, make_constant, undo
from retrograd.compiler.backend.register_allocation import SLOT, assign_roles, weigh_constants
from retrograd.compiler.ir.call_graph import callees_first
from retrograd.compiler.ir.effects import AccessAnalysis
from retrograd.compiler.ir.statements import SP, Const, External, Module, Node
from retrograd.compiler.ir.traversal import operands_of
from retrograd.isa.diagnostics import Span
from retrograd.isa.encoding import Instruction, encode
from retrograd.isa.program import Program, SourceMap
from retrograd.isa.table import TABLE

_NAME = re.compile(r"[A-Za-z_][\w.]*", re.ASCII)
_REGISTER = re.compile(r"r\d+")


@dataclass(frozen=True)
class Emitted:
    """A program, and the statements of the IR behind its addresses.

    `checks`: address of an instruction whose trap has a meaning in the source -> its statement (a Check, a checked Local or
    Delocal, an If, While or For for the assertions at its ends, an Op with guards, a Call that saves on the stack).
    `externals`: address of a mark -> index of the External. `origins`: address -> the statement that the instruction
    serves; None for the frames of the program and its procedures.
    """

    program: Program
    checks: Mapping[int, Node]
    externals: Mapping[int, int]
    #: address of a mark -> the locations that the host reads: registers below 256, memory from there on, or constants
    watched: Mapping[int, tuple[int | Const, ...]]
    origins: Sequence[Node | None]


def emit(module: Module, *, registers: int = 256) -> Emitted:
    """The module as a program, which the verifier passes without findings.

    `registers`: how many it may use, from 12 on. Raises AssertionError where the IR is not well formed.
    """
    w = module.format
    entry = linearize(module.entry, w)
    bodies = _reachable(module, entry)
    if module.discarded:
        ways = directions(entry, bodies)
        entry = with_discards(entry, (1,), module.discarded)
        bodies = {name: with_discards(steps, ways[name], module.discarded) for name, steps in bodies.items()}
    components = callees_first({name: callees(steps) for name, steps in bodies.items()})

    weights: dict[int, float] = {}
    weigh_constants(entry, w, 0, weights)
    for body in bodies.values():
        weigh_constants(body, w, 1, weights)
    uses_stack = any(component.recursive for component in components) or any(
        map(_mentions_stack, (entry, *bodies.values()))
    )
    roles = assign_roles(registers, uses_stack, weights)
    shared = Shared(module, roles, Moves(module, roles))

    procedures: dict[str, FunctionEmitter] = {}
    for component in components:
        emitters = {
            name: FunctionEmitter(shared, bodies[name], module.procedures[name], component) for name in component.names
        }
        for emitter in emitters.values():
            emitter.assign_parameters()
        clobbered = 0
        for emitter in emitters.values():
            emitter.emit_procedure()
            clobbered |= emitter.clobbers()
        shared.clobbered.update(dict.fromkeys(emitters, clobbered))
        procedures |= emitters
    main = FunctionEmitter(shared, entry)
    main.emit_body()
    return _link(shared, main, procedures)


def _reachable(module: Module, entry: Iterable[Step]) -> dict[str, list[Step]]:
    """procedure -> its steps, for the procedures that the entry reaches."""
    bodies: dict[str, list[Step]] = {}
    work = list(callees(entry))
    while work:
        name = work.pop()
        if name not in bodies:
            if name not in module.procedures:
                raise AssertionError(f"a call of {name}, which the module does not define")
            procedure = module.procedures[name]
            bodies[name] = linearize(procedure.body, module.format, procedure.span)
            work += callees(bodies[name])
    return bodies


def _mentions_stack(steps: Iterable[Step]) -> bool:
    for step in steps:
        named = step.item.carried if isinstance(step.item, Branch) else operands_of(step.item)
        if SP in named:
            return True
    return False


def _link(shared: Shared, main: FunctionEmitter, procedures: Mapping[str, FunctionEmitter]) -> Emitted:
    """Lay the parts out in code and memory."""
    module, w = shared.module, shared.module.format
    clobbered = main.locations.clobbered
    for emitter in procedures.values():
        clobbered |= emitter.locations.clobbered
    slots = max(clobbered.bit_length() - SLOT, 0)
    stack = module.memory + slots

    setup: list[Instruction] = []
    if shared.roles.stack is not None and stack:
        setup += make_constant(shared.roles.stack, stack, w)
    for word, register in shared.roles.constants.items():
        setup += make_constant(register, word, w)
    start, finish = Instruction(TABLE["start"]), Instruction(TABLE["finish"])
    code = [start, *setup, *main.code, *undo(setup), finish]
    frame = len(setup) + 1
    origins: list[Node | None] = [*[None] * frame, *main.origins, *[None] * frame]
    spans: list[Span | None] = [*[None] * frame, *main.spans, *[None] * frame]
    bases = {"": frame}
    for name, emitter in procedures.items():
        bases[name] = len(code)
        code += emitter.code
        origins += emitter.origins
        spans += emitter.spans

    emitters = {"": main, **procedures}
    entrances = {name: bases[name] + emitter.entrance for name, emitter in procedures.items()}
    checks: dict[int, Node] = {}
    for name, emitter in emitters.items():
        base = bases[name]
        for at, callee in emitter.calls.items():
            pc = base + at
            code[pc] = code[pc]._replace(imm=code[pc].opcode.distance(entrances[callee] - pc))
        for at in emitter.checks:
            origin = emitter.origins[at]
            assert origin is not None
            checks[base + at] = origin
    externals = {pc: node.number for pc, node in enumerate(origins) if isinstance(node, External)}

    regions = [region for region in module.regions if region.address is not None]
    names = _unique((*entrances, *(region.name for region in regions)))
    words = {i: encode(i) for i in dict.fromkeys(code)}
    size = stack
    if module.above:
        # The words above the stack have fixed addresses, so variables in memory take their room from the stack.
        size = module.memory + module.stack + module.above
    elif shared.roles.stack is not None:
        # One address fewer than a word can hold, so that a stack that grows too large reaches the end of the memory.
        size = stack + min(module.stack, max(w.mask - stack, 0))
    program = Program(
        [words[i] for i in code],
        _data(module),
        size,
        w,
        dict(zip(names, entrances.values(), strict=False)),
        {name: region.address or 0 for name, region in zip(names[len(entrances) :], regions, strict=True)},
        _source_map(module, spans),
        variables=location_lists(module, shared.moves, emitters, bases, len(code)),
        unsettled=module.with_unsettled(unsettled_arrays(emitters.values()))
        .with_unsettled(half_updated(emitters.values(), AccessAnalysis(module)))
        .unsettled,
    )
    watched = {
        bases[name] + at: tuple(x if isinstance(x, Const) or x < SLOT else SLOT + shared.moves.slot(x) for x in places)
        for name, emitter in emitters.items()
        for at, places in emitter.watched.items()
    }
    return Emitted(program, checks, externals, watched, origins)


def _data(module: Module) -> list[int]:
    """The initial words of memory: the data of the regions."""
    data: list[int] = []
    for region in module.regions:
        if region.address is not None and region.data:
            end = region.address + len(region.data)
            data += [0] * (end - len(data))
            data[region.address : end] = [word & module.format.mask for word in region.data]
    return data


def _unique(wanted: Iterable[str]) -> list[str]:
    """Different names that the assembler takes for labels: other characters become `_`, and equal names get a number."""
    out: dict[str, None] = {}
    counts: dict[str, int] = {}
    for name in wanted:
        base = name if _NAME.fullmatch(name) else re.sub(r"[^\w.]+", "_", name, flags=re.ASCII).rstrip("_")
        if not _NAME.fullmatch(base) or _REGISTER.fullmatch(base):
            base = f"_{base}"
        label = base
        while label in out:
            counts[base] = counts.get(base, 1) + 1
            label = f"{base}.{counts[base]}"
        out[label] = None
    return list(out)


def _source_map(module: Module, spans: Sequence[Span | None]) -> SourceMap:
    files = {name: index for index, name in enumerate(module.files)}
    out: list[tuple[int, int, int, int] | None] = []
    for span in spans:
        if span is None:
            out.append(None)
        else:
            out.append((files.setdefault(span.file, len(files)), span.line, span.column, span.end))
    return SourceMap(tuple(files), out, module.texts)
