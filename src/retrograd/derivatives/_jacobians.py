"""Jacobians: one run of the gradient program for each row, or one for several rows that share no column.

    Rows i and k run together give ȳᵢJᵢ + ȳₖJₖ; where no column can be nonzero in both rows, both can be read from the sum.

Source: Curtis, Powell, Reid, On the estimation of sparse Jacobian matrices, J. Inst. Maths Applics 13 (1974), 117.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from retrograd.compiler.compiled import Compiled, Precision
from retrograd.compiler.ir.statements import Kind
from retrograd.compiler.language.types import ScalarType
from retrograd.compiler.language.values import FormType
from retrograd.compiler.pipeline import Argument
from retrograd.derivatives._arguments import (
    PIECE,
    Reals,
    at_scale,
    by_sizes,
    differentiable,
    from_words,
    given_function,
    is_one,
    kinds,
    logarithms,
    loss_part,
    made_by,
    need_derivative,
    not_inputs,
    part,
    part_of,
    pieces,
    refuse,
    scales_of,
    shape_of,
    shaped,
    sizes,
    with_derivative,
)
from retrograd.derivatives._requests import (
    COTANGENT_HINT,
    by_choice,
    loss_of,
    most_copies,
    need_automatic,
    need_some,
    plan_of,
    pullback_program,
    pulled_back,
    restored_by_name,
    wanted_of,
)
from retrograd.isa.diagnostics import Diagnostic, InputError
from retrograd.isa.words import Format
from retrograd.runtime._arrays import as_array, real_of
from retrograd.runtime._batch_arguments import Loaded
from retrograd.runtime._execution import (
    ArgumentPart,
    ProgramTrap,
    Request,
    Scale,
    Which,
    argument_words,
    execute,
    load,
)
from retrograd.runtime._reversible import Derived, Inverse, Reversible
from retrograd.runtime._traps import explain
from retrograd.simulator.engines.choice import machine_for
from retrograd.simulator.engines.tiering import engine_named
from retrograd.simulator.machine import Machine, Trap
from retrograd.simulator.stores import Store

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class SparseJacobian:
    """J[i, indices[p]] = data[p] for p in indptr[i] … indptr[i + 1] − 1, columns ascending: compressed rows."""

    data: NDArray[np.float64]
    indices: NDArray[np.int64]
    indptr: NDArray[np.int64]
    shape: tuple[int, int]
    #: runs of the gradient program
    runs: int

    def toarray(self) -> NDArray[np.float64]:
        """The whole matrix, with its zeros."""
        out = np.zeros(self.shape)
        rows = np.repeat(np.arange(self.shape[0]), np.diff(self.indptr))
        out[rows, self.indices] = self.data
        return out

    def to_scipy(self) -> Any:
        """A scipy.sparse.csr_array. Raises InputError where SciPy is not installed."""
        try:
            from scipy.sparse import csr_array  # type: ignore[import-untyped]
        except ImportError:
            hint = "install scipy, or use `toarray()` or the fields `data`, `indices` and `indptr`"
            raise InputError(
                Diagnostic("RG0603", "`to_scipy` needs SciPy, which is not installed", hint=hint)
            ) from None
        return csr_array((self.data, self.indices, self.indptr), shape=self.shape)


def jacobian(
    f: Reversible | Inverse,
    argnums: Which = None,
    outputs: Which = 0,
    *,
    pattern: Any = None,
    scale: Scale = "auto",
    engine: str = "auto",
    format: Format | str | None = None,
    precision: Precision | None = None,
) -> Callable[..., Any]:
    """g(*args) = ∂y/∂args, y being the value that the argument `outputs` has after f(*args).

    An array of shape y.shape + arg.shape; a struct counts as one more axis, of its words in order, 0 for ints and bools. `argnums`
    as in `grad`: one, a tuple of several, or None for all that have a derivative but the outputs, by name; the outputs may be
    chosen too, for the values that they have before. y: fixed or lognum, a number, an array or structs of these. The gradient
    program runs once for each number in y, with ȳ = 2^scale, all runs as one batch and at one scale. `engine`, `format`, `precision`: see `run_batch`.

    `outputs`: a position (0 stands for the first result of a functional function), a name, or a path such as `"y[1]"` or `"a.x"`; a sequence of these gives a tuple, one part for each, and
    None all arguments that have a derivative, by name.

    `pattern`: a bool array or a sparse matrix of SciPy's whose true entries can be nonzero, with one row for each
    number in y and one column for each number in the arguments, one after the other. Rows that share no column run together, and
    the result is one `SparseJacobian`. A derivative outside of the pattern raises InputError, where it can be detected.
    Trap: it cannot where the column belongs to another row of the same run: too small a pattern
    may give wrong numbers. Raises NotDifferentiable, CompileError, ProgramTrap.
    """
    request = differentiable(f, scale, engine, format, precision, argnums)
    outputs, pattern = deepcopy((outputs, pattern))  # the caller may change a list or an array
    results = _results(f, outputs)
    if pattern is not None and not is_one(outputs):
        refuse("a pattern is given for several outputs", "a pattern is that of one output: call rg.jacobian for each")

    def whole(args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        values = request.values(args, keywords)
        rows = [_Rows(request, values, results, y) for y in _chosen(request, values, results)]
        if pattern is not None:
            return rows[0].sparse(pattern)
        return by_choice(outputs, {of.y.name: by_choice(request.argnums, of.dense()) for of in rows})

    call, given, settings = made_by(jacobian, request, outputs)
    return Derived("jacobian", f, whole, (call, given, {**settings, "pattern": pattern}))


def _results(f: Reversible | Inverse, outputs: Any) -> list[ArgumentPart] | None:
    """The parts that `outputs` names, in its order; None for all arguments that have a derivative."""
    if outputs is None:
        return None
    if is_one(outputs):
        return [loss_part(f, outputs)]
    several = list(outputs)
    found = [part(f, which) for which in several]
    for k, one in enumerate(found):
        if one in found[:k]:
            refuse(f"the output {several[k]!r:.60} of `{f.__name__}` is chosen twice", "choose it once")
    return found


def _chosen(request: Request, values: list[Any], results: list[ArgumentPart] | None) -> list[ArgumentPart]:
    """The outputs at these arguments. Raises NotDifferentiable where no argument has a derivative."""
    if results is not None:
        return results
    return need_some(given_function(request), with_derivative(request.compiled(values).arguments))


class _Rows:
    """The rows of a Jacobian at some arguments."""

    def __init__(
        self, request: Request, values: list[Any], results: list[ArgumentPart] | None, y: ArgumentPart
    ) -> None:
        self.f, self.request, self.values = given_function(request), request, values
        self.compiled = request.compiled(values)
        self.format = self.compiled.format
        self.y = part_of(self.f, self.compiled.arguments, y)
        need_derivative(self.f, self.y.name, self.y.type)
        #: the scales to try, and the scale of the runs
        self._scales = scales_of(request.scale, self.compiled)
        self.scale = self._scales[0]
        if request.chosen is None and results is not None:
            held = not_inputs(self.f, {result.position for result in results})
            inputs = (a for a in with_derivative(self.compiled.arguments) if a.position not in held)
            request = replace(request, chosen=tuple(inputs))
        self.wanted = need_some(self.f, wanted_of(request, self.compiled.arguments))
        for a in (self.y, *self.wanted):
            if isinstance(a.type, FormType):
                hint = "rg.vjp and rg.jvp take and give lists and data classes; a Jacobian is an array"
                refuse(f"`{a.name}` of `{self.f.__name__}` is {a.type}, which has no rows or columns", hint)
        self.initial = np.array(argument_words(self.compiled, self.values), dtype=np.uint64)
        final = self.initial
        if Kind.LOGNUM in kinds(self.y.type) or self.compiled.externals:
            machine = request.machine(self.compiled, self.values)
            execute(self.compiled, machine)
            final = np.array(machine.memory[: len(final)], dtype=np.uint64)
        self.outputs = self._logarithms(self.y, final)
        #: the words of y and of the arguments that have a derivative: rows and columns of all others are 0
        self._real = np.array([kind.is_real for kind in kinds(self.y.type)], dtype=bool)
        self._columns = np.array([kind.is_real for a in self.wanted for kind in kinds(a.type)], dtype=np.float64)

    def _logarithms(self, a: Argument, words: NDArray[np.uint64]) -> tuple[Reals, Reals]:
        return logarithms(a.type, words[a.address : a.address + a.type.size], self.format)

    def back(self, groups: Sequence[Sequence[int]]) -> Iterator[Reals]:
        """For each group of rows, Σ of these rows as the machine keeps them: by ln|x| for lognums x, by x for fixed x.

        A run takes several groups, which share the words of the function.
        """
        y, backward = self.y, self.request.backward
        program, copies = most_copies(lambda k: pullback_program(self.compiled, backward, k), len(groups))
        away = [(k + 1) * program.cotangents for k in range(copies)]
        ranges = {f"seeds.{k}": (y.address + offset, y.type.size) for k, offset in enumerate(away)}
        kept = [(a.address + offset, a.type.size) for offset in away for a in self.wanted]
        ones = self._real * np.uint64(1 << (self.format.frac + self.scale))
        together = [groups[i : i + copies] for i in range(0, len(groups), copies)]
        for some in pieces(together, max(1, PIECE // max(1, y.type.size * copies))):
            seeds = np.zeros((len(some), copies, y.type.size), dtype=np.uint64)
            for row, run in zip(seeds, some, strict=True):
                for seed, group in zip(row, run, strict=False):
                    seed[list(group)] = ones[list(group)]
            begin = Loaded(ranges, seeds.reshape(len(some), -1), self.initial)
            ran = program.run_rows(self.request, begin, kept, explain=False)
            if ran.traps or ran.failed:
                # The trap is that of the run of one group.
                at, alone = min({*ran.traps, *ran.failed}), pullback_program(self.compiled, backward)
                for group in some[at]:
                    given = {y.address + alone.cotangents + i: int(ones[i]) for i in group}
                    pulled_back(self.request, self.compiled, self.values, given)
                raise program.run_rows(self.request, begin.at([at]), kept).traps[0].renumbered(at)
            for after, run in zip(ran.after, some, strict=True):
                for words in np.split(after, copies)[: len(run)]:
                    yield from_words(words, None, self.scale, self.format) * self._columns

    def dense(self) -> dict[str, Any]:
        """∂y/∂x by the name of x."""
        return self._at_scale(self._dense)

    def sparse(self, pattern: Any) -> SparseJacobian:
        """The entries of the pattern. Raises InputError for an entry outside of it that is seen to be nonzero."""
        return self._at_scale(lambda: self._sparse(pattern))

    def _at_scale(self, rows: Callable[[], T]) -> T:
        def attempt(scale: int, _: bool) -> T:
            self.scale = scale
            return rows()

        return at_scale(self._scales, attempt)

    def _dense(self) -> dict[str, Any]:
        y = self.y
        found = {a.name: np.zeros((y.type.size, a.type.size)) for a in self.wanted}
        inputs = {a.name: self._logarithms(a, self.initial) for a in self.wanted}
        ends = np.cumsum([a.type.size for a in self.wanted])[:-1]
        for i, row in enumerate(self.back([[i] for i in range(y.type.size)])):
            for a, inside in zip(self.wanted, np.split(row, ends), strict=True):
                found[a.name][i] = by_sizes(inside, [x[i] for x in self.outputs], inputs[a.name])
        shapes = {a.name: (*shape_of(y.type), *shape_of(a.type)) for a in self.wanted}
        return {
            name: rows.reshape(shapes[name]) if shapes[name] else float(rows.reshape(()))
            for name, rows in found.items()
        }

    def _sparse(self, pattern: Any) -> SparseJacobian:
        y, wanted = self.y, self.wanted
        shape = y.type.size, sum(a.type.size for a in wanted)
        indptr, indices = _rows_of(pattern, shape, y, wanted)
        rows = [indices[indptr[i] : indptr[i + 1]] for i in range(shape[0])]
        groups = colour(rows, shape[1])
        by = [self._logarithms(a, self.initial) for a in wanted]
        inputs = [np.concatenate(part) for part in zip(*by, strict=True)] or [np.zeros(0), np.zeros(0)]
        data = np.zeros(len(indices))
        for group, inside in zip(groups, self.back(groups), strict=True):
            for i in group:
                own = rows[i]
                data[indptr[i] : indptr[i + 1]] = by_sizes(
                    inside[own], [x[i] for x in self.outputs], [x[own] for x in inputs]
                )
                inside[own] = 0.0
            stray = np.flatnonzero(inside)
            if len(stray):
                with np.errstate(over="ignore"):
                    flat = inside / (inputs[0] * np.exp2(inputs[1]))
                _refuse_stray(self.f, y, wanted, group, int(stray[0]), np.where(inside != 0, flat, 0.0))
        return SparseJacobian(data, indices, indptr, shape, len(groups))


# ---------------------------------------------------------------------- sparse


def colour(rows: Sequence[NDArray[np.int64]], columns: int) -> list[list[int]]:
    """Rows in groups in which no two share a column: each row, longest first, joins the first group that it may."""
    taken = [0] * columns  # column -> the groups that own it, as bits
    groups: list[list[int]] = []
    for i in sorted(range(len(rows)), key=lambda i: -len(rows[i])):
        others = 0
        for column in rows[i]:
            others |= taken[column]
        free = (~others & (others + 1)).bit_length() - 1
        for column in rows[i]:
            taken[column] |= 1 << free
        if free == len(groups):
            groups.append([])
        groups[free].append(i)
    return groups


def _rows_of(
    pattern: Any, shape: tuple[int, int], y: Argument, wanted: list[Argument]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(indptr, indices) of a pattern, columns ascending and each once. A stored zero of a sparse matrix counts as an entry."""
    found: tuple[int, ...]
    if hasattr(pattern, "tocoo"):
        pattern = pattern.tocoo()
        found = tuple(pattern.shape)
    else:
        try:
            pattern = as_array(pattern)
        except InputError as error:
            refuse(f"the pattern: {error.diagnostics[0].message}", error.diagnostics[0].hint)
        if pattern.dtype.kind not in "biuf":
            refuse(f"the pattern is of {pattern.dtype}", "a pattern is an array of bools, or a scipy.sparse matrix")
        found = pattern.shape
    if found != shape:
        what = f"`{y.name}` has {shape[0]} numbers, and {_listed(wanted)} {shape[1]}"
        refuse(f"the pattern has shape {found}, and the Jacobian {shape}", what)
    row, column = (pattern.row, pattern.col) if hasattr(pattern, "tocoo") else np.nonzero(pattern)
    # Sorted by row, then column, and each place once.
    places = np.unique(np.asarray(row, dtype=np.int64) * max(1, shape[1]) + np.asarray(column, dtype=np.int64))
    rows, indices = np.divmod(places, max(1, shape[1]))
    return np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=shape[0]))]).astype(np.int64), indices


def _listed(wanted: list[Argument]) -> str:
    return ", ".join(f"`{a.name}`" for a in wanted) or "no argument"


def _refuse_stray(
    f: Reversible | Inverse,
    y: Argument,
    wanted: list[Argument],
    group: list[int],
    column: int,
    flat: NDArray[np.float64],
) -> None:
    """Raise InputError for the derivatives `flat` outside of the pattern, by the names of outputs and argument."""
    value, first = flat[column], 0
    for a in wanted:
        if column - first < a.type.size:
            break
        first += a.type.size
    shown = ", ".join(f"`{_element(y, i)}`" for i in group[:6]) + (", …" if len(group) > 6 else "")
    which = shown if len(group) == 1 else f"one of {shown}"
    many = "" if np.count_nonzero(flat) == 1 else f", and there are {np.count_nonzero(flat) - 1} more"
    message = (
        f"{which} of `{f.__name__}` depends on `{_element(a, column - first)}` (column {column}), "
        f"which the pattern denies: the derivative is {value:.6g}{many}"
    )
    hint = "Let the pattern hold every entry that can be nonzero."
    raise InputError(Diagnostic("RG0603", message, hint=hint))


def _element(a: Argument, i: int) -> str:
    """The name of an argument's number i."""
    shape = shape_of(a.type)
    if not shape:
        return a.name
    return f"{a.name}[{', '.join(map(str, np.unravel_index(i, shape)))}]"


# -----------------------------------------------------------------------------
# `gradient_report`: a gradient in differentiation mode, and its cost.
#
#     forward, D = 0;  L̄ := 2^scale;  back to `start`, D = 1;  the inputs' cotangents are ∂L/∂input
#
# This is the run of the machine and of the co-processor. Its way back is that of the same program, with a test where an active
# variable is freed, so that its cotangent is dropped there as in gradient programs. Both give the same bits.


class _Watched(list[int]):
    """Memory that records the highest address written: the extent of the stack of calls."""

    highest = -1

    def __setitem__(self, index: Any, value: Any) -> None:
        if isinstance(index, int) and index > self.highest:
            self.highest = index
        super().__setitem__(index, value)


@dataclass(frozen=True)
class GradientReport:
    """A gradient, and its cost in differentiation mode."""

    #: the loss
    value: float
    #: in the form of `grad`
    gradients: Any
    forward_steps: int
    backward_steps: int
    #: the largest number of words of memory in use, the stack of calls included; beside each lies a cotangent
    memory_words: int
    #: bits of cotangents that were not zero where their ancillas were freed
    dropped_bits: int
    #: whether, back at the start, every word of the arguments was as loaded
    inputs_restored: bool
    #: the way back began with the loss's cotangent at 2^scale
    scale: int = 0

    @property
    def ratio(self) -> float:
        """Steps back over steps forward."""
        return self.backward_steps / self.forward_steps


def gradient_report(
    f: Reversible | Inverse,
    argnums: Which = None,
    loss: int | str = 0,
    *,
    scale: Scale = "auto",
    engine: str = "auto",
    format: Format | str | None = None,
    precision: Precision | None = None,
) -> Callable[..., GradientReport]:
    """g(*args) = a GradientReport of ∂L/∂args: see `grad`.

    It runs in differentiation mode, as the co-processor does, since it reports the steps and the dropped bits of that mode; the
    gradient is that of `grad`, bit for bit. `engine`: "auto" stands for the reference machine, the only one that measures the
    extent of the stack.
    """
    request = differentiable(f, scale, engine, format, precision, argnums, loss)
    made = made_by(gradient_report, request, loss)
    return Derived("gradient_report", f, lambda args, keywords: _report(request, args, keywords), made)


def _report(request: Request, args: tuple[Any, ...], keywords: dict[str, Any]) -> GradientReport:
    engine = "reference" if engine_named(request.engine) == "auto" else request.engine
    values = request.values(args, keywords)
    plain = request.compiled(values)
    need_automatic(plain)
    loss = loss_of(request, plain)
    wanted = wanted_of(request, plain.arguments)
    compiled = request.with_cotangents().compiled(values)
    size = plain.argument_words

    there = _watched(load(plain, values, backward=request.backward, engine=engine))
    initial = there.memory[:size]
    execute(plain, there)
    assert isinstance(loss.type, ScalarType)
    value = real_of(there.memory[loss.address], "fixed", loss.type.kind.numbers(plain.format))

    plan = plan_of(request, plain)

    def returned_at(scale: int) -> _Returned:
        back = _watched(machine_for(compiled.program, engine, backward=not request.backward))
        back.load(0, there.memory[: plain.module.memory])
        back.differentiating = True
        seed = loss.address, 1 << (plain.format.frac + scale)
        back.memory_cotangents[seed[0]] = seed[1]
        reached = partial(_reached, back._memory)
        try:
            back.run()
            cotangents, restored = back.memory_cotangents[:size], back.memory[:size] == initial
            return _Returned(scale, cotangents, restored, back.retired, back.dropped_bits, reached())
        except Trap as trap:
            # A machine has cotangents of constants and of all arguments, too. In a long loop they may outgrow the word, and at a kink
            # there may be none. The gradient program has the requested cotangents alone.
            program = plan.program
            try:
                if trap.code not in ("RG0404", "RG0413"):
                    raise trap
                ran, _ = program.run_scaled((scale,), values, program.seed, engine)
            except (Trap, ProgramTrap):
                raise ProgramTrap(explained(compiled, back, trap), back, trap) from None
            cotangents = ran.memory[program.cotangents : program.cotangents + size]
            restored, steps = ran.memory[:size] == initial, ran.retired - there.retired
            return _Returned(scale, cotangents, restored, steps, ran.erased_bits, reached())

    returned = returned_at(plan.scale_at(values, request.engine))
    scale, cotangents = returned.scale, returned.cotangents

    def gradient(address: int, n: int, t: Any) -> Any:
        words = slice(address, address + n)
        found = from_words(cotangents[words], sizes(t, initial[words], plain.format), scale, plain.format)
        return shaped(t, found * plan.unit)

    gradients = {a.name: gradient(a.address, a.type.size, a.type) for a in wanted}
    found = by_choice(request.argnums, restored_by_name(plain.arguments, values, gradients))
    memory = max(compiled.module.memory, _reached(there._memory), returned.reached)
    return GradientReport(
        value, found, there.retired, returned.steps, memory, returned.dropped_bits, returned.restored, scale
    )


class _Returned(NamedTuple):
    """The way back at a scale."""

    scale: int
    cotangents: list[int]
    restored: bool
    steps: int
    dropped_bits: int
    #: the end of the memory that was written
    reached: int


def explained(compiled: Compiled, machine: Machine, trap: Trap) -> Diagnostic:
    """The diagnostic of a trap on the way back: of a cotangent, or of the function's own numbers."""
    d = explain(compiled, machine, trap)
    plain = trap.diagnostics[0].message.partition(" (at pc")[0]
    if "cotangent" not in plain:
        return d
    hint = COTANGENT_HINT if trap.code == "RG0404" else None
    return replace(d, code=trap.code, message=f"running back, {plain}", hint=hint)


def _watched(machine: Machine) -> Machine:
    """The machine, with the extent of its memory recorded where it is a list."""
    if type(machine) is Machine:
        machine._memory = _Watched(machine._memory)
    return machine


def _reached(memory: Store) -> int:
    """The words from the first to the last that was written, where that is recorded."""
    return memory.highest + 1 if isinstance(memory, _Watched) else 0
