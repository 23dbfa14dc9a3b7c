"""Discarded cotangents: a program in differentiation mode discards the cotangent of each variable that dies on the way back.

    Local v   →  Local v; assertz v          in code that runs backward while derivatives are carried

On the way back a variable dies where it was made. Without the `assertz` its cotangent would stay in the register, and would be
the initial cotangent of the next variable there. Procedures that run in both directions discard at both ends.

    within W: t[…] += …   →  for each i: exch x, t[i]; assertz x; exch x, t[i];  within W     for an array of W

The words of such an array are zero outside of W (`RestoredArrays`, and `frame_arrays` on the stack). Other arrays have
tests that their words are zero where they are made and freed, and an `assertz` there.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from retrograd.compiler.backend.function_emitter import FunctionEmitter, Shared
from retrograd.compiler.backend.linear_code import Branch, FixedRegions, Mark, Step, callees, linearize
from retrograd.compiler.backend.registers import SLOT, Moves, assign_roles, make_constant, undo, weigh_constants
from retrograd.compiler.ir.effects import AccessAnalysis, RestoredArrays, clobbered_between, frame_arrays
from retrograd.compiler.ir.statements import (
    SP,
    ZERO,
    Block,
    Call,
    Check,
    Const,
    Delocal,
    External,
    For,
    Kind,
    Local,
    Module,
    Node,
    Op,
    Region,
    Var,
    While,
    Within,
)
from retrograd.compiler.ir.traversal import callees_first, map_children, operands_of, rebuilt
from retrograd.isa.diagnostics import CompileError, Diagnostic, Span
from retrograd.isa.encoding import Instruction, encode, has_word
from retrograd.isa.program import WORTH_SKIPPING, ArrayLayout, Hints, Program, SourceMap, VariableLocation
from retrograd.isa.table import TABLE
from retrograd.isa.words import Format


def directions(entry: Sequence[Step], bodies: Mapping[str, Sequence[Step]]) -> dict[str, set[int]]:
    """procedure -> the directions in which it runs, +1 and −1, while the entry runs forward."""
    found: dict[str, set[int]] = {name: set() for name in bodies}
    todo: list[tuple[Sequence[Step], int]] = [(entry, 1)]
    while todo:
        steps, direction = todo.pop()
        for step in steps:
            if isinstance(step.item, Call):
                name, way = step.item.procedure, -direction if step.item.backward else direction
                if way not in found[name]:
                    found[name].add(way)
                    todo.append((bodies[name], way))
    return found


def with_discards(steps: Sequence[Step], ways: Collection[int], discarded: Collection[Var]) -> list[Step]:
    """The steps with an `assertz` of these variables where they are made, freed, or both."""
    out: list[Step] = []
    for step in steps:
        item = step.item
        if isinstance(item, Delocal) and -1 in ways and item.var in discarded:
            out.append(step._replace(item=Op(TABLE["assertz"], item.var)))
        out.append(step)
        if isinstance(item, Local) and 1 in ways and item.var in discarded:
            out.append(step._replace(item=Op(TABLE["assertz"], item.var)))
    return out


def with_arrays_discarded(module: Module, useful: Collection[object]) -> Module:
    """The module with an `assertz` of each word of its useful arrays where these are made.

    In procedures it has one where they are freed, too.
    """
    accesses = AccessAnalysis(module)
    restored = RestoredArrays(module, accesses)
    alive: set[Region] = set()
    # None among them is any memory.
    regions = frozenset(module.regions) if None in useful else frozenset(r for r in module.regions if r in useful)

    def rewritten(block: Block, repeats: bool, both: bool) -> Block:
        out: list[Node] = []
        for node in block:
            found = restored.of(node) if isinstance(node, Within) else []
            own = [r for r in found if r in regions and r not in alive]
            alive.update(own)
            again = repeats or isinstance(node, For | While)
            new = map_children(node, partial(rewritten, repeats=again, both=both))
            if repeats and isinstance(node, Within) and isinstance(new, Within):
                new = new._replace(compute=_with_frames_discarded(node, new.compute, accesses, useful))
            alive.difference_update(own)
            discards = [_discarded(r, node.span) for r in own]
            out += [*discards, new, *(discards if both else ())]
            if repeats and isinstance(node, Check) and node.freed is not None and node.freed in useful:
                out.append(Op(TABLE["assertz"], node.freed, span=node.span))
        return rebuilt(block, out)

    procedures = {name: replace(p, body=rewritten(p.body, True, True)) for name, p in module.procedures.items()}
    return replace(module, entry=rewritten(module.entry, False, False), procedures=procedures)


def _with_frames_discarded(node: Within, compute: Block, accesses: AccessAnalysis, useful: Collection[object]) -> Block:
    """The compute block with the same for its arrays on the stack, where it makes room for them and gives it back."""
    frames = frame_arrays(node.compute, clobbered_between(node, accesses).stores)
    out = list(compute)
    for k, frame in frames.items():
        if frame.region in useful or None in useful:
            made = next(i for i, other in enumerate(out) if other is node.compute[k])
            word, at = Var("word", Kind.FIXED, node.span), Var("at", Kind.ADDRESS, node.span)
            take = Op(TABLE["exch"], word, at, None, 0, node.span, frame.region)
            test = Within((Local(word, False, node.span), take), (Op(TABLE["assertz"], word, span=node.span),))
            out.insert(made + 1, frame.visited((test,), at, node.span))
    return tuple(out)


def _discarded(region: Region, span: Span | None) -> Node:
    """A loop over the words of an array, which are zero."""
    assert region.address is not None
    word, index = Var("word", Kind.FIXED, span), Var("i", Kind.INT, span)
    take = Op(TABLE["exch"], word, index, None, region.address, span, region)
    test = Within((Local(word, False, span), take), (Op(TABLE["assertz"], word, span=span),), None, span)
    return For(index, ZERO, Const(region.size), 1, (test,), some=True, span=span)


# -----------------------------------------------------------------------------
# Location lists: where the variables of the source are, for debuggers (DWARF's term).
#
# scalar: a register or a word of memory, between two points of the code
# array: its layout, from an address that is fixed, or that a variable holds

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
    """Temporary -> the array of which it holds an element, at an index of the run; the word in memory is zero then.

    A variable of the source is one, too, if it begins with the element of another: the optimiser has exchanged it in place
    of a copy.
    """
    out: dict[Var, Region] = {}
    new = set[Var]()
    for step in emitter.steps:
        item = step.item
        if isinstance(item, Local):
            new.add(item.var)
        elif isinstance(item, Op):
            d = item.d
            if item.opcode is _EXCHANGE and item.region is not None and isinstance(d, Var):
                of_another = d in new and d.name.partition("[")[0] != item.region.name
                if of_another or not _WORD.match(d.name):
                    out[d] = item.region
            new.difference_update(x for x in (d, item.a, item.b) if isinstance(x, Var))
        else:
            new.clear()
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
            last: Span | None = None
            lines: tuple[tuple[str, int], ...] = ()
            for origin, span in way:
                if span is not last or not begun:
                    last, lines = span, () if span is None else tuple(span.lines())
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


# -----------------------------------------------------------------------------
# Emission: IR → Program. The parts are laid out in code and memory, and calls and names get their addresses.
#
# code   = start; SP and constants loaded; entry; both cleared; finish; procedures, callees first
# memory = the module's words; words of variables without a register; stack; the module's words above it

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
    accesses, fixed = AccessAnalysis(module), FixedRegions(module)
    entry = linearize(module.entry, w, accesses, fixed)
    bodies = _reachable(module, entry, accesses, fixed)
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
    shared = Shared(module, roles, Moves(module, roles), fixed)

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
    return _link(shared, main, procedures, accesses)


def _reachable(
    module: Module, entry: Iterable[Step], accesses: AccessAnalysis, fixed: FixedRegions
) -> dict[str, list[Step]]:
    """procedure -> its steps, for the procedures that the entry reaches."""
    bodies: dict[str, list[Step]] = {}
    work = list(callees(entry))
    while work:
        name = work.pop()
        if name not in bodies:
            if name not in module.procedures:
                raise AssertionError(f"a call of {name}, which the module does not define")
            procedure = module.procedures[name]
            bodies[name] = linearize(procedure.body, module.format, accesses, fixed, procedure.span)
            work += callees(bodies[name])
    return bodies


def _mentions_stack(steps: Iterable[Step]) -> bool:
    for step in steps:
        if isinstance(step.item, Mark):
            continue
        named = step.item.carried if isinstance(step.item, Branch) else operands_of(step.item)
        if SP in named:
            return True
    return False


def _link(
    shared: Shared, main: FunctionEmitter, procedures: Mapping[str, FunctionEmitter], accesses: AccessAnalysis
) -> Emitted:
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

    if w.width < 32:
        _refuse_narrow(module, code, spans, stack)
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
        hints=_hints(code, bases, emitters, len(setup)),
        variables=location_lists(module, shared.moves, emitters, bases, len(code)),
        unsettled=module.with_unsettled(unsettled_arrays(emitters.values()))
        .with_unsettled(half_updated(emitters.values(), accesses))
        .unsettled,
    )
    watched = {
        bases[name] + at: tuple(x if isinstance(x, Const) or x < SLOT else SLOT + shared.moves.slot(x) for x in places)
        for name, emitter in emitters.items()
        for at, places in emitter.watched.items()
    }
    return Emitted(program, checks, externals, watched, origins)


def _refuse_narrow(module: Module, code: Sequence[Instruction], spans: Sequence[Span | None], memory: int) -> None:
    """Raise a CompileError where a word of the format holds not every address and distance of the program."""
    w = module.format
    distance, at = max(((abs(i.imm), pc) for pc, i in enumerate(code) if not has_word(i, w)), default=(0, 0))
    if distance:
        needs = f"a jump or an access over {distance} words, and its words hold at most {w.sign - 1}"
    elif memory > w.mask:
        needs = f"{memory} words of memory, and there are {w.mask} addresses"
    else:
        return
    around = (*spans[at:], *spans, *(region.span for region in module.regions))
    span = next((s for s in around if s is not None), None)
    lines = () if span is None else dict(zip(module.files, module.texts, strict=True)).get(span.file, ())
    line = lines[span.line - 1] if span is not None and span.line <= len(lines) else None
    # A heap is a share of all addresses up to 16 bits, so 16 bits in place of 8 need not have room.
    wider = Format(32, 32 * w.frac // w.width)
    hint = f'A wider format has room: `format="{wider}"`. Smaller arrays, and smaller limits `heap=`, need less memory.'
    raise CompileError(Diagnostic("RG0734", f"in {w} the program needs {needs}", span, hint, line))


def _hints(
    code: Sequence[Instruction], bases: Mapping[str, int], emitters: Mapping[str, FunctionEmitter], setup: int
) -> Hints:
    """The places of pairs and of accesses in the whole code.

    A pair right inside another one is joined with it, a short pair is left out.

    `setup`: how many instructions in front of the entry load SP and constants; their inverse behind it is the
    outermost pair.
    """
    joined: list[list[int]] = []
    for name, emitter in emitters.items():
        base, end = bases[name], len(emitter.code)
        pairs = [*emitter.pairs(), *([] if name else [(-setup, 0, end, end + setup)])]
        inside: dict[tuple[int, int], list[int]] = {}
        for pair in sorted(pairs, key=lambda p: (p[0], -p[3])):
            start, end, undo, after = (base + at for at in pair)
            outer = inside.pop((start, after), None)
            if outer is None:
                outer = [start, end, undo, after]
                joined.append(outer)
            else:
                outer[1:3] = end, undo
            inside[end, undo] = outer
    kept = [
        (start, end, undo, after)
        for start, end, undo, after in joined
        if end - start >= WORTH_SKIPPING or any("br" in i.opcode.writes for i in code[start:end])
    ]
    accesses = [
        (bases[name] + at, region.address or 0, region.size)
        for name, emitter in emitters.items()
        for at, region in emitter.regions.items()
    ]
    return Hints(tuple(kept), tuple(sorted(accesses, key=lambda a: (a[1:], a[0]))))


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
