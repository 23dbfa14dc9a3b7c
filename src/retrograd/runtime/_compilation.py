"""The compiled versions of a function of the language.

    compiled_for(types, format, options)        compiled at most once for each combination

A version is used again as long as the values that the function captured are the same (`Captures.hold`).
"""

from __future__ import annotations

import importlib
import pickle
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from retrograd.assembler.assemble import disassemble
from retrograd.compiler.compiled import (
    Compiled,
    Options,
    Storage,
    StoredResult,
    compile_function,
    discarding_cotangents,
)
from retrograd.compiler.frontends.python.captures import static_key
from retrograd.compiler.frontends.python.source import SourceFunction, UndeclaredResult
from retrograd.compiler.ir.statements import Remark
from retrograd.compiler.ir.text import as_text
from retrograd.compiler.language import intrinsics
from retrograd.compiler.language.types import StaticType, Type
from retrograd.isa.diagnostics import Diagnostic, RetrogradError, Span, api_boundary, markup
from retrograd.isa.program import Program
from retrograd.isa.words import Q32_32, Format, format_of
from retrograd.presentation import columns, shortened_text
from retrograd.runtime._arrays import WordArray
from retrograd.runtime._binding import bind, named_tuple, types_from_annotations, types_of
from retrograd.simulator.engines.llvm.jit import jit_compiler
from retrograd.simulator.engines.translator.flow import Variant
from retrograd.simulator.engines.translator.ghost_uncompute import ghosts_of
from retrograd.simulator.engines.translator.loop_summary import KINDS, LoopSummary, loop_summaries

# The library compiles functions itself, so it is imported at the first use of a function of it under another name.
intrinsics.load_library = lambda: importlib.import_module("retrograd.library.elementary")

#: combinations of types, format and options for which a function keeps compiled code; versions of each, by captured values
_KEPT = 64
_VARIANTS = 4
#: the types of these numbers do not depend on their values; those of these arrays depend on shape and dtype
_NUMBERS = frozenset({bool, int, float, np.bool_, np.int64, np.float64})
_ARRAYS = frozenset({np.ndarray, WordArray})
#: combinations of Python types, shapes and dtypes for which a function keeps the types of the language
_SHAPES = 256
_default_format = Q32_32


def use_format(format: Format | str) -> Format:
    """Set the number format of all functions that name none. Returns the previous one. Raises InputError RG0604."""
    global _default_format
    previous, _default_format = _default_format, format_of(format)
    return previous


def format_or_default(format: Format | str | None) -> Format:
    """The format, or where it is None that of all functions that name none. Raises InputError RG0604."""
    return _default_format if format is None else format_of(format)


class Compilable(SourceFunction):
    """A function of the language with its compiled versions."""

    def __init__(
        self, fn: Callable[..., Any], format: Format | str | None = None, options: Options | None = None
    ) -> None:
        super().__init__(fn)
        self.format = None if format is None else format_of(format)
        self.options = options or Options()
        #: by types, format and options; several where captured values differ, the newest first
        self._versions: dict[Any, tuple[Compiled, ...]] = {}
        #: Python types of all arguments, with shapes and dtypes -> their types in the language, where one determines the other
        self._types: dict[tuple[Any, ...], tuple[Type, ...]] = {}
        #: the types, format and options of the last call, and the version for them
        self._last: tuple[Any, ...] = (None, None, None, None)

    @api_boundary
    def compiled(self, *args: Any, **keywords: Any) -> Compiled:
        """The program for arguments like these; without any, for the annotated types. Raises CompileError, InputError."""
        if args or keywords or not self.parameters:
            types = self.types_of(bind(self, args, keywords))
        else:
            types = types_from_annotations(self)
        return self.compiled_for(types)

    def suited(self, args: Sequence[Any], keywords: Mapping[str, Any]) -> Compilable:
        """The function that gives results of the type that they have for these arguments."""
        return self

    def giving(self, error: UndeclaredResult, args: Sequence[Any], keywords: Mapping[str, Any]) -> Compilable:
        """The function whose results have the type that was found for these arguments; kept, see `suited`."""
        raise error

    def types_of(self, values: Sequence[Any]) -> tuple[Type, ...]:
        """The types of the arguments, given in the order of the parameters. Raises InputError RG0603."""
        given = _given(values)
        found = None if given is None else self._types.get(given)
        if found is None:
            found = types_of(self, values)
            if given is not None and StaticType not in map(type, found):
                if len(self._types) >= _SHAPES:
                    self._types.clear()
                self._types[given] = found
        return found

    def format_for(self, format: Format | str | None = None) -> Format:
        """The number format: the given one, else the function's own, else that of all functions. Raises InputError RG0604."""
        return format_or_default(self.format if format is None else format)

    def compiled_for(
        self, types: tuple[Type, ...], format: Format | str | None = None, options: Options | None = None
    ) -> Compiled:
        """The program for these types and for the values captured now. Raises CompileError."""
        w = self.format or _default_format if format is None else format_of(format)
        chosen = options or self.options
        last = self._last
        # To compare the identity of three objects takes a tenth of the time of a look-up.
        if last[0] is types and last[1] is w and last[2] is chosen and last[3].lowered.captures.hold():
            newest: Compiled = last[3]
            return newest
        key = (types if StaticType not in map(type, types) else tuple(map(_hashable, types)), w, chosen)
        kept = self._versions.get(key, ())
        for found in kept:
            if found.lowered.captures.hold():
                self._last = types, w, chosen, found
                return found
        if chosen.cotangents:
            found = discarding_cotangents(self.compiled_for(types, w, replace(chosen, cotangents=False)))
        else:
            found = compile_function(self, types, w, chosen)
        if key not in self._versions and len(self._versions) >= _KEPT:
            del self._versions[next(iter(self._versions))]
        self._versions[key] = (found, *kept[: _VARIANTS - 1])
        return found

    @cached_property
    def results(self) -> Callable[..., Any]:
        """The class of named tuples that a run of the function returns."""
        return named_tuple(self.__name__, tuple(p.name for p in self.parameters))

    def latest(self) -> Compiled | None:
        """The version that was compiled last, of all that are kept."""
        return next(reversed(self._versions.values()))[0] if self._versions else None


def _given(values: Sequence[Any]) -> tuple[Any, ...] | None:
    """The Python types of the values, with shapes and dtypes of arrays; None where these do not determine their types."""
    types = tuple(map(type, values))
    if _NUMBERS.issuperset(types):
        return types
    found: list[Any] = []
    for t, value in zip(types, values, strict=True):
        if t in _NUMBERS:
            found.append(t)
        elif t in _ARRAYS and value.dtype.kind in "iufb":
            found += (t, value.shape, value.dtype)
        else:
            return None
    return tuple(found)


def _hashable(t: Type) -> Any:
    """A type as part of a key: a static value may have no hash."""
    return ("static", static_key(t.value)) if isinstance(t, StaticType) else t


# -----------------------------------------------------------------------------
# The results that a program keeps in memory, as text and for JSON: words, instructions saved, and the best use of more words.


def storage_text(storage: Storage) -> str:
    """A table of the chosen results by place, and the best of the others; empty if there are neither."""
    lines = []
    if storage.chosen:
        rows = [[_place(at), str(words), str(saved)] for at, words, saved in _by_place(storage.chosen)]
        lines.append(columns([["kept in memory", "words", "instructions saved"], *rows], right=(1, 2)))
    if storage.following:
        best = storage.following[0]
        lines.append(
            f"memory={storage.budget}: {best.words} more words, for {_place(best)}, would save {best.saved} instructions of a run"
        )
    return "\n".join(lines)


def storage_dict(storage: Storage) -> dict[str, Any]:
    """For JSON. `following`: the results that more words would keep, the best first."""
    return {
        "budget": storage.budget,
        "words": storage.words,
        "chosen": [_item(*row) for row in _by_place(storage.chosen)],
        "following": [_item(*row) for row in _by_place(storage.following)],
    }


def _by_place(results: Iterable[StoredResult]) -> list[tuple[StoredResult, int, int]]:
    """(the first result of a place, words and saved instructions of all its results)."""
    out: dict[Any, tuple[StoredResult, int, int]] = {}
    for result in results:
        first, words, saved = out.get(result.span, (result, 0, 0))
        out[result.span] = first, words + result.words, saved + result.saved
    return list(out.values())


def _item(first: StoredResult, words: int, saved: int) -> dict[str, Any]:
    span = first.span
    source = None if span is None else {"file": span.file, "line": span.line}
    return {"source": source, "words": words, "instructions_saved": saved}


def _place(result: StoredResult) -> str:
    span = result.span
    return "temporaries of a call" if span is None else f"{Path(span.file).name}:{span.line}"


# -----------------------------------------------------------------------------
# Compiled functions as text: assembly with the source beside it, the IR, and the page that a notebook shows.

#: lines of IR up to which a notebook shows it unfolded
_SHOWN = 60


class Listing:
    """A module of the IR as text: `str(listing)` is indented text, `~listing` the inverse module."""

    def __init__(self, module: Any) -> None:
        self.module = module

    def as_text(self) -> str:
        """The IR as indented text."""
        return as_text(self.module)

    def __invert__(self) -> Listing:
        return Listing(~self.module)

    def __str__(self) -> str:
        return self.as_text()

    def __repr__(self) -> str:
        return shortened_text(self.as_text())


def assembly(compiled: Compiled) -> str:
    """The program as assembly text, which assembles to the same program.

    Each line of the source is a comment at its first instruction.
    """
    source = compiled.program.source
    previous: tuple[str, int] | None = None

    def comment(pc: int) -> str | None:
        nonlocal previous
        span = source.span(pc)
        if span is None or (span.file, span.line) == previous:
            return None
        previous = (span.file, span.line)
        text = (source.line(span) or "").strip()
        return f"{span.line}: {text}"

    return disassemble(compiled.program, comment=comment)


def html(function: Compilable) -> str:
    """Signature, documentation, and the IR that a call of the function runs."""
    out = [f"<div><code><b>{markup(function.signature)}</b></code>"]
    if function.__doc__:
        out.append(f"<p>{markup(function.__doc__.strip(), lines=True)}</p>")
    compiled = _default(function)
    if compiled is not None:
        text = as_text(compiled.module)
        size = len(compiled.program.code)
        opened = " open" if text.count("\n") <= _SHOWN else ""
        types = ", ".join(f"{a.name}: {a.type}" for a in compiled.arguments)
        label = f"{size} instructions for {types}; {compiled.format}, {_shown(compiled.options)}"
        out.append(f"<details{opened}><summary>{markup(label)}</summary>")
        out.append(f"<pre>{markup(text, lines=True)}</pre></details>")
    return "\n".join([*out, "</div>"])


def _default(function: Compilable) -> Compiled | None:
    """The function in its own format and options, for the annotated types.

    Where these are open, for the types that it was compiled for last.
    """
    try:
        return function.compiled()
    except RetrogradError:
        pass
    latest = function.latest()
    try:
        return None if latest is None else function.compiled_for(tuple(a.type for a in latest.arguments))
    except RetrogradError:
        return None


def _shown(options: Options) -> str:
    """The level in words, and each option that differs from its default."""
    out = [f"level {options.level}"]
    if options.erase:
        names = "" if options.erase is True else f" of {', '.join(sorted(options.erase))}"
        out.append(f"erase mode{names}" + ("" if options.temporaries else ", temporaries uncomputed"))
    if options.stack != Options().stack:
        out.append(f"stack of {options.stack} words")
    if options.forget:
        out.append(f"calls forgotten of {', '.join(sorted(options.forget))}")
    if options.parts:
        out.append(f"loops in parts: {', '.join(sorted(options.parts))}")
    if options.memory:
        out.append(f"{options.memory} words for results of loops")
    return ", ".join(out)


# -----------------------------------------------------------------------------
# Pickles of functions of the language: by name, as Python's own functions are pickled.
#
#     pickle(f) = (module, qualified name)        in the same process it is loaded as f itself
#
# A process pool, under fork or spawn, finds `f` where it is defined and compiles it in its own process. Objects made from f
# (`~f`, `f.with_options(…)`, `rg.grad(f)`, `rg.vmap(f)`, …) are pickled as the call that makes them.
#
# Trap: a function defined within a function has no such name, and a name may have been bound to another object since;
# both raise NotPicklable.

Reduced = tuple[Any, ...]


class Uncopied:
    """An object of which `copy` gives the object itself, as of Python's own functions."""

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: Any) -> Any:
        return self


class NotPicklable(RetrogradError, pickle.PicklingError):
    """The object has no name by which another process could find it."""


def refuse(message: str, hint: str | None = None) -> NoReturn:
    """Raise NotPicklable RG0605."""
    raise NotPicklable(Diagnostic("RG0605", message, hint=hint))


def reduced_function(f: Compilable) -> Reduced:
    """`f.__reduce__()`: f is found by its name, or made again from another object that has one. Raises NotPicklable."""
    found = _named(f.__module__, f.__qualname__)
    if found is f:
        return loaded, (f.__module__, f.__qualname__)
    if isinstance(f.read_from, Compilable):
        return with_options, (f.read_from, f.format, f.options)
    if found is f.fn:
        # `g = reversible(h)`: the name leads to the Python function h.
        return decorated, (type(f), f.__module__, f.__qualname__, f.format, f.options)
    if "<locals>" in f.__qualname__:
        refuse(
            f"`{f.__name__}` is defined within a function, where another process cannot find it",
            "Define it at the top of a module, and pass what it captures as arguments.",
        )
    where = f"{f.__module__}.{f.__qualname__}"
    if found is None:
        refuse(f"there is no `{where}`, by which another process would find `{f.__name__}`")
    refuse(f"`{where}` is not this function any more: it was defined anew", "Pickle the new one.")


def need_name(f: Any) -> None:
    """Raise NotPicklable for a Python function that has no name of its own in its module."""
    name = getattr(f, "__qualname__", "")
    if "<locals>" in name or "<lambda>" in name:
        what = "a lambda" if "<lambda>" in name else f"`{f.__name__}`, defined within a function,"
        refuse(f"{what} cannot be found by another process", "Define a function at the top of a module.")


def _named(module: str | None, name: str) -> Any:
    found: Any = sys.modules.get(module or "")
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


def loaded(module: str, name: str) -> Any:
    """The object of this name in a module, the module imported. Raises AttributeError, ImportError."""
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found


def decorated(made: Callable[..., Any], module: str, name: str, format: Any, options: Any) -> Any:
    """The function of the language made from a Python function in a module."""
    return made(loaded(module, name), format, options)


def with_options(f: Any, format: Any, options: Any) -> Any:
    """The function compiled otherwise."""
    return f.with_options(format=format, **vars(options))


def inverse_of(f: Any) -> Any:
    return ~f


def again(make: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """make(*args, **keywords): an object made from a function, made again."""
    return make(*args, **keywords)


# -----------------------------------------------------------------------------
# The loops of a program as a table and for JSON: instructions and checks of a pass, and why an optimisation did not apply.

#: characters of a line of source that a table shows
_SHOWN_LOOPS = 40


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
        shown = line if len(line) <= _SHOWN_LOOPS else f"{line[: _SHOWN_LOOPS - 1]}…"
        return f"{indent}{Path(span.file).name}:{span.line}" + (f"  {shown}" if text else "")


def _note(loop: LoopSummary) -> str:
    """How passes and rows are executed, with the reason where that is one after the other."""
    if loop.row_reason is not None:
        return "a second core shares the rows" if loop.shares_rows else f"rows on one core: {loop.row_reason}"
    if loop.scalar_reason:
        return f"passes one by one: {loop.scalar_reason}"
    return f"{loop.lanes} passes at once, {loop.lane_checks} checks in each"
