"""Tabulation: results that a loop computes, and would compute again on the way back, are kept in an array in between.

    Within((…, for i: Within(r + v, d), …), b)
        →  Within((…, for i: (Local v; Within(r, (v, d)); exch v, K[i]; Delocal v), …), b)

The loop runs backward once b has run. There the exchange brings v in again, so that neither v⁻¹ in the loop nor v in
its inverse is executed: each word of K saves two executions of v, and costs two exchanges. This is the trade-off of
time and space of reversible programs (C. H. Bennett, Time/space trade-offs for reversible computation, SIAM J. Comput.
18, 1989).
Conditions: nothing of r reads v; neither b nor d interferes with the operands of v; the loops between both Withins make
a known number of passes, each with a place of K. Correct because v then holds the same words in the inverse of the loop
as in the loop, and K is zero before and behind the outer Within.
Choice: `budget` words are spent where a word saves most instructions; values that read each other go together. Traps:
v⁻¹ and one execution of v disappear, so traps become rarer. Derivatives are taken of the transformed program: its
reverse sweep reads K, too.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple, NoReturn

from retrograd.compiler.backend.emission import Emitted, emit, with_arrays_discarded
from retrograd.compiler.backend.memory_operands import select_operands
from retrograd.compiler.backend.release_marks import mark_releases
from retrograd.compiler.deep_recursion import collector_paused, with_deep_stack
from retrograd.compiler.derivatives.accumulators import useful_storage
from retrograd.compiler.frontends.python.source import SourceFunction, fail
from retrograd.compiler.ir import statements as ir
from retrograd.compiler.ir.effects import NO_MEMORY, NO_VARS, AccessAnalysis, AccessSets, clobbered_between
from retrograd.compiler.ir.instruction_selection import executed, expected_trips, length, trip_values
from retrograd.compiler.ir.statements import Module, Region, Var
from retrograd.compiler.ir.traversal import map_children, rebuilt, splice, walk, with_conditions, without_conditions
from retrograd.compiler.ir.value_numbering import NumberedValue, ValueNumbering
from retrograd.compiler.language.purity import Impure
from retrograd.compiler.language.types import Type, is_real, leaves
from retrograd.compiler.passes.dead_code import erase_routines
from retrograd.compiler.passes.inlining import inline_calls
from retrograd.compiler.pipeline import Argument, Lowered, lower, optimise
from retrograd.isa.diagnostics import (
    CompileError,
    CompilerFault,
    Diagnosed,
    Diagnostic,
    InputError,
    PrecisionWarning,
    Span,
    nearest,
)
from retrograd.isa.encoding import IMMEDIATE_MAX, IMMEDIATE_MIN
from retrograd.isa.program import Program
from retrograd.isa.table import TABLE
from retrograd.isa.words import Q32_32, Format

_ADD, _MUL, _EXCHANGE = TABLE["mov.add"], TABLE["mul.add"], TABLE["exch"]


class StoredResult(NamedTuple):
    """Temporaries of one place that are kept in memory: their words in all, and the instructions that this saves in a run."""

    names: tuple[str, ...]
    words: int
    saved: int
    span: Span | None


class Storage(NamedTuple):
    """The choice for a budget of words.

    `following`: the results that are left, with their words and savings, the best first.
    """

    budget: int
    chosen: tuple[StoredResult, ...] = ()
    following: tuple[StoredResult, ...] = ()

    @property
    def words(self) -> int:
        return sum(result.words for result in self.chosen)


NOTHING_STORED = Storage(0)


def store_results(module: ir.Module, budget: int) -> tuple[ir.Module, Storage]:
    """The module with temporaries of loops in at most `budget` words of memory, and the choice."""
    places = _Survey(module).places
    chosen: list[StoredResult] = []
    left = budget
    while True:
        offers = [offer for place in places for offer in place.offers()]
        offers.sort(key=lambda offer: -offer.result.saved / offer.result.words)
        affordable = next((offer for offer in offers if offer.result.words <= left), None)
        if affordable is None:
            break
        left -= affordable.result.words
        affordable.place.take(affordable.values)
        chosen.append(affordable.result)
    following = tuple(dict.fromkeys(offer.result for offer in offers))
    storage = Storage(budget, tuple(chosen), following)
    taken = {id(place.node): place for place in places if place.chosen}
    return (_Rewriter(module, taken).module if taken else module), storage


# ---------------------------------------------------------------- places


@dataclass(eq=False)
class _Place:
    """A Within in loops inside a compute block, and the values of it that can be kept."""

    node: ir.Within
    loops: tuple[ir.For, ...]
    #: passes of all loops
    passes: int
    #: how often the compute block around the loops runs
    times: int
    values: list[NumberedValue]
    #: number of a value -> the value and all values that read it, if all of them can be kept
    closures: dict[int, frozenset[int]]
    w: Format
    chosen: set[int] = field(default_factory=set)

    def offers(self) -> Iterator[_Offer]:
        """Each further value with the values that read it: the words that they take, the instructions that they save."""
        for number, closure in self.closures.items():
            added = closure - self.chosen
            if number in self.chosen:
                continue
            values = [value for value in self.values if value.number in added]
            words = sum(len(value.locals) for value in values)
            address = 4 * (len(self.loops) > 1 and not self.chosen)
            saved = sum(executed(value.statements, self.w) for value in values) - words - address
            if saved > 0:
                names = tuple(var.name for value in values for var in value.locals)
                result = StoredResult(
                    names,
                    words * self.passes,
                    2 * saved * self.passes * self.times,
                    self.node.span or values[0].nodes[0][1].span,
                )
                yield _Offer(self, added, result)

    def take(self, numbers: frozenset[int]) -> None:
        self.chosen |= numbers


class _Offer(NamedTuple):
    place: _Place
    values: frozenset[int]
    result: StoredResult


class _Frame(NamedTuple):
    """The compute block around a statement, and the loops between them.

    `changed`: variables and memory that its Within changes before it is undone.
    """

    changed: AccessSets
    times: int
    loops: tuple[ir.For, ...] = ()
    passes: int = 1


class _Survey:
    """Finds the places of a module where results can be kept."""

    def __init__(self, module: ir.Module) -> None:
        self.w = module.format
        self.accesses = AccessAnalysis(module)
        self.numbering = ValueNumbering(module, self.accesses)
        self.places: list[_Place] = []
        # A recursive procedure would need a place for each of its activations.
        for body in (module.entry, *(p.body for p in module.procedures.values() if not p.recursive)):
            self.births = Counter(node.var for node in walk(body) if isinstance(node, ir.Local))
            self.block(body, None, 1)

    def block(self, block: ir.Block, frame: _Frame | None, times: int) -> None:
        """`times`: how often the block runs, in all."""
        for node in block:
            match node:
                case ir.Within(compute, body):
                    if frame is not None and frame.loops:
                        self.consider(node, frame)
                    changed = clobbered_between(node, self.accesses)
                    for part in compute:
                        # Where a part reads a changed word, its own locals may differ when it is undone.
                        steady = not changed.clobbers(self.accesses.of(part)._replace(writes=NO_VARS, stores=NO_MEMORY))
                        self.block((part,), _Frame(changed, times) if steady else None, times)
                    self.block(body, frame, times)
                case ir.For(body=body):
                    inside = times * expected_trips(node, self.w)
                    values = trip_values(node, self.w)
                    inner = None
                    if frame is not None and values is not None and abs(node.step) == 1 and length(values):
                        inner = frame._replace(loops=(*frame.loops, node), passes=frame.passes * length(values))
                    self.block(body, inner, inside)
                case ir.If(test, then, orelse, post):
                    # Undone, it must take the branch that it has taken.
                    operands = {test.a, test.b, post.a, post.b}
                    kept = frame if frame is None or frame.changed.writes.isdisjoint(operands) else None
                    for branch in (then, orelse):
                        self.block(branch, kept, times)
                case ir.While(body=body):
                    self.block(body, None, times)
                case ir.Op() | ir.Local() | ir.Delocal() | ir.Call() | ir.Check() | ir.External():
                    pass

    def consider(self, node: ir.Within, frame: _Frame) -> None:
        values = self.numbering.of(node.compute)
        if len({value.number for value in values}) < len(values):
            return
        between = clobbered_between(node, self.accesses)
        steady = {value.number for value in values if not frame.changed.clobbers(value.access)}
        able = {value.number for value in values if self.storable(value, steady, between)}
        closures: dict[int, frozenset[int]] = {}
        for value in reversed(values):
            if value.number not in able:
                continue
            closure = {value.number} | {other.number for other in values if value.number in other.needs}
            rest = [other for other in values if other.number not in closure]
            # The values are computed behind all others.
            if closure <= able and not any(
                other.access.clobbers(kept.access) for other in rest for kept in values if kept.number in closure
            ):
                closures[value.number] = frozenset(closure)
        if closures:
            self.places.append(_Place(node, frame.loops, frame.passes, frame.times, values, closures, self.w))

    def storable(self, value: NumberedValue, steady: set[int], between: AccessSets) -> bool:
        """Whether the value can be kept: `steady` are the numbers of values whose operands are the same when they are undone."""
        access = value.access
        return (
            not (value.opaque or access.stack or access.barrier or access.promises)
            and value.weight > 0
            and bool(value.locals)
            and value.needs | {value.number} <= steady
            and not between.clobbers(access)
            and between.writes.isdisjoint(value.locals)
            and all(self.births[var] == 1 for var in value.locals)
            and not any(isinstance(statement, ir.Delocal) for statement in value.statements)
        )


# ---------------------------------------------------------------- rewriting


class _Rewriter:
    """The module with the chosen values in memory."""

    def __init__(self, module: ir.Module, taken: dict[int, _Place]) -> None:
        self.w = module.format
        self.taken = taken
        self.memory = module.memory
        self.regions: list[ir.Region] = []
        entry = self.block(module.entry)
        procedures = {name: replace(p, body=self.block(p.body)) for name, p in module.procedures.items()}
        self.module = replace(
            module, entry=entry, procedures=procedures, memory=self.memory, regions=(*module.regions, *self.regions)
        )

    def block(self, block: ir.Block) -> ir.Block:
        out: list[ir.Node] = []
        for node in block:
            place = self.taken.get(id(node))
            new = map_children(node, self.block)
            if place is None:
                out.append(new)
            else:
                assert isinstance(new, ir.Within)
                out.extend(self.stored(new, place))
        return block if rebuilt(block, out) is block else splice(out)

    def stored(self, node: ir.Within, place: _Place) -> ir.Block:
        """The Within, its chosen values exchanged into memory."""
        kept = [value for value in place.values if value.number in place.chosen]
        rest = [s for value in place.values if value.number not in place.chosen for s in value.statements]
        statements = [s for value in kept for s in value.statements]
        born = [s for s in statements if isinstance(s, ir.Local)]
        body = (*(s for s in statements if not isinstance(s, ir.Local)), *node.body)
        inner = (node._replace(compute=tuple(rest), body=body),) if rest else body
        return (
            *born,
            *inner,
            *self.exchanges([s.var for s in born], place, node.span),
            *map(ir.invert_node, reversed(born)),
        )

    def exchanges(self, variables: Sequence[ir.Var], place: _Place, span: Span | None) -> ir.Block:
        """v, K[i] := K[i], v for each variable, in an array of its own."""
        *outer, last = place.loops
        at: ir.Var = last.var
        offset, stride = 0, 1
        products: list[ir.Node] = []
        variable = ir.Var("at", ir.Kind.ADDRESS, span)
        for loop in reversed(place.loops):
            values = trip_values(loop, self.w)
            assert values is not None
            offset -= stride * min(values[0], values[-1])
            if loop is not last:
                products.append(ir.Op(_MUL, variable, loop.var, ir.Const(stride & self.w.mask), span=span))
            stride *= length(values)
        compute: list[ir.Node] = []
        far = not IMMEDIATE_MIN < offset + self.memory + len(variables) * place.passes <= IMMEDIATE_MAX
        if outer or far:
            at = variable
            compute = [ir.Local(at, False, span), ir.Op(_ADD, at, last.var, span=span), *products]
        if far:
            # Passes whose numbers are too large for a constant in an instruction.
            compute.append(ir.Op(_ADD, at, ir.Const(offset & self.w.mask), span=span))
            offset = 0
        out: list[ir.Node] = []
        for var in variables:
            region = ir.Region(f"{var.name}.kept", place.passes, self.memory, None, span)
            self.regions.append(region)
            out.append(ir.Op(_EXCHANGE, var, at, None, self.memory + offset, span, region))
            self.memory += place.passes
        return (ir.Within(tuple(compute), tuple(out), None, span),) if compute else tuple(out)


# -----------------------------------------------------------------------------
# A reversible function, compiled for given types: from source to Program in a few steps.
#
# lower → optimise → (keep results in memory) → (erase) → emit

#: the ways to treat numbers that lose their bits
Precision = Literal["warn", "error", "ignore"]
#: the registry of the warnings that were shown
_shown: dict[str | tuple[str, type[Warning], int], int] = {}


@dataclass(frozen=True)
class Options:
    """Options of the compiler; no option changes results, except `erase`, which makes a program irreversible.

    `level`: 0 leaves the IR as it was lowered, 1 runs all passes. `erase`: True erases the temporaries of routines and
    expressions in place of uncomputing them; a collection of names does so for these routines, and for expressions
    unless `temporaries` is
    False. `stack`: words for recursion. `heap`: words for the lists and data of functional functions. None: see
    `pipeline.lower`.
    `forget`: names of functional functions whose calls are computed, copied and uncomputed
    (`frontends/functional/core.py`).
    `parts`: names of loops of functional functions that run in parts, to keep √n states of n passes
    (`frontends/functional/loops_in_parts.py`).
    `memory`: words that the program may use to keep results of loops that it would compute again
    (`compiler/compiled.py`); not in erase mode, which computes nothing again. `cotangents`: the program will run in
    differentiation mode, and discards the cotangent of each variable that dies on the way back
    (`derivatives/discarded_cotangents.py`). `recorded`: numbers of the source lie in memory beside the numbers from
    which they were rounded, for `rg.error_bound` (`frontends/constants.py`). `precision`: whether a number of the
    source or of an argument that loses more than half of its bits in the format, or becomes 0, gives a PrecisionWarning
    ("warn"), is refused ("error"), or is rounded without a word ("ignore"). A number of the source that becomes 0 is
    refused always.
    """

    level: int = 1
    erase: bool | frozenset[str] = False
    stack: int | None = None
    cotangents: bool = False
    temporaries: bool = True
    memory: int = 0
    heap: int | None = None
    forget: frozenset[str] = frozenset()
    parts: frozenset[str] = frozenset()
    recorded: bool = False
    precision: Precision = "warn"

    def __post_init__(self) -> None:
        if self.precision not in ("warn", "error", "ignore"):
            self._refuse("precision", '"warn", "error" or "ignore"')
        if self.level not in (0, 1) or isinstance(self.level, bool):
            self._refuse("level", "0 executes the program as it is written, 1 runs all passes")
        for name in ("stack", "memory", "heap"):
            words = getattr(self, name)
            if words is None and name != "memory":
                continue
            if isinstance(words, bool) or not isinstance(words, int) or words < 0:
                self._refuse(name, "a number of words, 0 or more")
        for name in ("cotangents", "temporaries", "recorded"):
            if not isinstance(getattr(self, name), bool):
                self._refuse(name, "True or False")
        if not isinstance(self.erase, bool):
            object.__setattr__(self, "erase", self._names("erase", "True, False, or names of routines"))
        object.__setattr__(self, "forget", self._names("forget", "names of functional functions"))
        object.__setattr__(self, "parts", self._names("parts", "names of loops of functional functions"))

    def changed(self, changes: Mapping[str, Any]) -> Options:
        """These options with others in place of some. Raises InputError RG0603."""
        names = [f.name for f in fields(self)]
        for name in changes:
            if name not in names:
                hint = nearest(name, names) or f"options: {', '.join(names)}"
                raise InputError(Diagnostic("RG0603", f"there is no option `{name:.40}`", hint=hint))
        return replace(self, **changes)

    def _names(self, option: str, hint: str) -> frozenset[str]:
        given = getattr(self, option)
        if not isinstance(given, frozenset | set | list | tuple) or not all(isinstance(name, str) for name in given):
            self._refuse(option, hint)
        return frozenset(given)

    def _refuse(self, option: str, hint: str) -> NoReturn:
        raise InputError(Diagnostic("RG0603", f"{option} = {getattr(self, option)!r:.40}", hint=hint))


@dataclass(frozen=True)
class Compiled:
    """A program, with the addresses of its arguments and the checks behind its traps."""

    function: SourceFunction
    format: Format
    options: Options
    lowered: Lowered
    module: Module
    emitted: Emitted
    #: the results that are kept in memory, and the results that more words would keep
    storage: Storage = NOTHING_STORED
    #: programs of its derivatives and other results that are computed once, by a key
    derived: dict[tuple[Any, ...], Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "derived": {}}

    @cached_property
    def program(self) -> Program:
        return self.emitted.program

    @cached_property
    def externals(self) -> Mapping[int, Any]:
        """The statements for the host, by the addresses of their marks."""
        return self.emitted.externals

    @cached_property
    def arguments(self) -> tuple[Argument, ...]:
        return self.lowered.arguments

    @cached_property
    def argument_words(self) -> int:
        """How many words the arguments take, from address 0 on."""
        return sum(a.type.size for a in self.arguments)


def as_written(compiled: Compiled) -> Compiled:
    """The program without optimisation, in which variables have the values that the source gives them; with `release_marks`."""
    module = inline_calls(mark_releases(compiled.lowered.module))
    return replace(
        compiled, options=replace(compiled.options, level=0, erase=False), module=module, emitted=emit(module)
    )


@contextmanager
def faults_reported(function: SourceFunction) -> Iterator[None]:
    """Inside, an exception that is no error of the program is a fault of the compiler: raises CompilerFault RG0732.

    The emitter verifies each program: all variables are live where they are used, and none at the end.
    """
    try:
        yield
    except (Diagnosed, Impure, RecursionError, MemoryError):
        raise
    except Exception as error:
        message = f"the compiler fails on `{function.__name__}`: {type(error).__name__}: {error}"
        source, span = function.source, function.source.span(function.tree)
        raise CompilerFault(Diagnostic("RG0732", message, span, None, source.text(span.line))) from error


def compile_function(
    function: SourceFunction,
    types: Sequence[Type],
    w: Format = Q32_32,
    options: Options | None = None,
    observe: Callable[[str, Module], None] | None = None,
) -> Compiled:
    """The function as a program. `observe(pass, module)` sees the IR after each step. Raises CompileError, CompilerFault.

    Warns with PrecisionWarning of each number of the source that loses more than half of its bits; a filter that shows
    a warning once shows it at the first compilation only.
    """
    try:
        chosen = options or Options()
        with faults_reported(function), collector_paused():
            made = with_deep_stack(lambda: _compile(function, types, w, chosen, observe))
        for message, place in made.lowered.warnings if chosen.precision != "ignore" else ():
            if chosen.precision == "error":
                text = function.source.text(place.span.line) if place.span.file == function.source.file else None
                raise CompileError(Diagnostic("RG0607", message, place.span, line=text))
            warning = PrecisionWarning(message)
            warning.span = place.span
            warnings.warn_explicit(warning, PrecisionWarning, place.span.file, place.span.line, registry=_shown)
        return made
    except RecursionError:
        pass
    except Impure as error:
        # Most impure operations are refused at their place. The others are refused here, and never run.
        fail("RG0721", str(error), function.source, function.tree)
    fail("RG0720", f"`{function.__name__}` is nested too deep to be compiled", function.source, function.tree)


def _compile(
    function: SourceFunction,
    types: Sequence[Type],
    w: Format,
    options: Options,
    observe: Callable[[str, Module], None] | None,
) -> Compiled:
    lowered = lower(
        function, types, w, options.stack, options.heap, options.forget, options.recorded, parts=options.parts
    )
    if observe is not None:
        observe("lower", lowered.module)
    names: Collection[str] | None = None if isinstance(options.erase, bool) else options.erase
    # A routine could keep values of another one alive, and erasure goes by the names of routines.
    module = optimise(lowered.module, options.level, observe, () if names is None else ("extend_live_ranges",))
    storage = Storage(options.memory)
    if options.level and not options.erase:
        module, storage = store_results(module, options.memory)
        if observe is not None:
            observe("store_results", module)
    emitted: Emitted | None = None
    if options.erase:

        def erased(module: Module) -> Module:
            return erase_routines(module, names, temporaries=options.temporaries)

        if options.level:
            # Operands in memory are chosen as in the program that erases nothing, so that both compare; the rest is
            # erased.
            emitted = emit_optimised(erased(select_operands(module)), options.level)
        module = erased(module)
        if observe is not None:
            observe("erase_routines", module)
    emitted = emitted or emit_optimised(module, options.level)
    compiled = Compiled(function, w, options, lowered, module, emitted, storage)
    return discarding_cotangents(compiled) if options.cotangents else compiled


def discarding_cotangents(compiled: Compiled) -> Compiled:
    """The program, to be run in differentiation mode: see `Options.cotangents`."""
    module = compiled.module
    useful = useful_storage(module, real_regions(compiled.lowered))
    variables = frozenset(x for x in useful if isinstance(x, Var))
    module = replace(with_arrays_discarded(with_conditions(module, variables), useful), discarded=variables)
    emitted = emit_optimised(module, compiled.options.level)
    return replace(compiled, options=replace(compiled.options, cotangents=True), module=module, emitted=emitted)


def emit_optimised(module: Module, level: int, *, derived: bool = False) -> Emitted:
    """The program of a module, with operands in memory from level 1 on; derivatives are taken of the module without them.

    `derived`: erasures in the module are the compiler's own, and may be left out.
    """
    module = without_conditions(module)
    if not level:
        return emit(module)
    return emit(select_operands(module, derived=derived))


def real_regions(lowered: Lowered, names: Collection[str] | None = None) -> list[Region]:
    """The regions of arguments with derivatives; `names`: of these arguments only."""
    out: list[Region] = []
    given = iter(lowered.module.arguments or ())
    for argument in lowered.arguments:
        for _, _, leaf in leaves(argument.type, argument.name):
            region = next(given)
            if (names is None or argument.name in names) and is_real(leaf):
                out.append(region)
    return out
