"""A reversible function, compiled for given types: from source to Program in a few steps.

lower → optimise → (keep results in memory) → (erase) → emit
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, NoReturn

from retrograd.compiler.backend.emission import Emitted, emit
from retrograd.compiler.backend.memory_operands import select_operands
from retrograd.compiler.backend.release_marks import mark_releases
from retrograd.compiler.deep_recursion import with_deep_stack
from retrograd.compiler.derivatives.accumulators import useful_variables
from retrograd.compiler.frontends.python.source import SourceFunction, fail
from retrograd.compiler.ir.statements import Module, Region
from retrograd.compiler.ir.traversal import with_conditions, without_conditions
from retrograd.compiler.language.purity import Impure
from retrograd.compiler.language.types import Type, is_real, leaves
from retrograd.compiler.lower import Argument, Lowered, lower
from retrograd.compiler.passes.erase_routines import erase_routines
from retrograd.compiler.passes.inlining import inline_calls
from retrograd.compiler.pipeline import optimise
from retrograd.compiler.stored_results import NOTHING_STORED, Storage, store_results
from retrograd.isa.diagnostics import CompileError, Diagnostic, InputError, PrecisionWarning, nearest
from retrograd.isa.program import Program
from retrograd.isa.words import Q32_32, Format

#: the ways to treat numbers that lose their bits
Precision = Literal["warn", "error", "ignore"]
#: the registry of the warnings that were shown
_shown: dict[str | tuple[str, type[Warning], int], int] = {}


@dataclass(frozen=True)
class Options:
    """Options of the compiler; no option changes results, except `erase`, which makes a program irreversible.

    `level`: 0 leaves the IR as it was lowered, 1 runs all passes. `erase`: True erases the temporaries of routines and expressions
    in place of uncomputing them; a collection of names does so for these routines, and for expressions unless `temporaries` is
    False. `stack`: words for recursion. `heap`: words for the lists and data of functional functions.
    `forget`: names of functional functions whose calls are computed, copied and uncomputed (`frontends/functional/forgetting.py`).
    `memory`: words that the program may use to keep results of loops that it would compute again
    (`compiler/stored_results.py`); not in erase mode, which computes nothing again. `cotangents`: the program will run in differentiation mode, and discards the cotangent of
    each variable that dies on the way back (`derivatives/discarded_cotangents.py`). `recorded`: numbers of the source lie in memory
    beside the numbers from which they were rounded, for `rg.error_bound` (`frontends/constants.py`). `precision`: whether a number of the source or of
    an argument that loses more than half of its bits in the format, or becomes 0, gives a PrecisionWarning ("warn"), is refused ("error"),
    or is rounded without a word ("ignore"). A number of the source that becomes 0 is refused always.
    """

    level: int = 1
    erase: bool | frozenset[str] = False
    stack: int = 1 << 16
    cotangents: bool = False
    temporaries: bool = True
    memory: int = 0
    heap: int = 1 << 16
    forget: frozenset[str] = frozenset()
    recorded: bool = False
    precision: Precision = "warn"

    def __post_init__(self) -> None:
        if self.precision not in ("warn", "error", "ignore"):
            self._refuse("precision", '"warn", "error" or "ignore"')
        if self.level not in (0, 1) or isinstance(self.level, bool):
            self._refuse("level", "0 executes the program as it is written, 1 runs all passes")
        for name in ("stack", "memory", "heap"):
            words = getattr(self, name)
            if isinstance(words, bool) or not isinstance(words, int) or words < 0:
                self._refuse(name, "a number of words, 0 or more")
        for name in ("cotangents", "temporaries", "recorded"):
            if not isinstance(getattr(self, name), bool):
                self._refuse(name, "True or False")
        if not isinstance(self.erase, bool):
            object.__setattr__(self, "erase", self._names("erase", "True, False, or names of routines"))
        object.__setattr__(self, "forget", self._names("forget", "names of functional functions"))

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

    @property
    def program(self) -> Program:
        return self.emitted.program

    @property
    def externals(self) -> Mapping[int, Any]:
        """The statements for the host, by the addresses of their marks."""
        return self.emitted.externals

    @property
    def arguments(self) -> tuple[Argument, ...]:
        return self.lowered.arguments

    @property
    def argument_words(self) -> int:
        """How many words the arguments take, from address 0 on."""
        return sum(a.type.size for a in self.arguments)


def as_written(compiled: Compiled) -> Compiled:
    """The program without optimisation, in which variables have the values that the source gives them; with `release_marks`."""
    module = inline_calls(mark_releases(compiled.lowered.module))
    return replace(
        compiled, options=replace(compiled.options, level=0, erase=False), module=module, emitted=emit(module)
    )


def compile_function(
    function: SourceFunction,
    types: Sequence[Type],
    w: Format = Q32_32,
    options: Options | None = None,
    observe: Callable[[str, Module], None] | None = None,
) -> Compiled:
    """The function as a program. `observe(pass, module)` sees the IR after each step. Raises CompileError.

    Warns with PrecisionWarning of each number of the source that loses more than half of its bits; a filter that shows a warning once
    shows it at the first compilation only.
    """
    try:
        chosen = options or Options()
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
    lowered = lower(function, types, w, options.stack, options.heap, options.forget, options.recorded)
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
            # Operands in memory are chosen as in the program that erases nothing, so that both compare; the rest is erased.
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
    useful = useful_variables(module, real_regions(compiled.lowered))
    module = replace(with_conditions(module, useful), discarded=useful)
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
