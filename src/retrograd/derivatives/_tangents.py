"""Forward mode and second order: `jvp`, `hvp`, `hessian`.

Tangents run along with the program: their cost does not depend on the number of results, and nothing is stored. Programs keep
the tangent of a lognum x as dx/x, and its cotangent as x·∂L/∂x; users give and receive dx.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from retrograd.compiler.compiled import Compiled, Precision
from retrograd.compiler.ir.statements import Kind
from retrograd.compiler.language.types import StackType, Type, has_points
from retrograd.compiler.language.values import FormType
from retrograd.compiler.pipeline import Argument
from retrograd.derivatives._arguments import (
    PIECE,
    Reals,
    all_fixed,
    at_scale,
    differentiable,
    flattened,
    from_words,
    given_function,
    is_one,
    kinds,
    made_by,
    need_derivative,
    position,
    refuse,
    report_losses,
    scales_of,
    shape_of,
    shaped,
    sizes,
    to_words,
    unit,
)
from retrograd.derivatives._requests import (
    DerivedProgram,
    by_argument,
    by_choice,
    derivative_traps,
    execute_externals,
    kept,
    loss_of,
    most_copies,
    restored_by_name,
    second_order_program,
    tangent_program,
    wanted_of,
)
from retrograd.isa.diagnostics import InputError, api_boundary
from retrograd.isa.words import Format
from retrograd.runtime._batch_arguments import Loaded
from retrograd.runtime._execution import Finished, Request, Scale, Which, argument_words, read
from retrograd.runtime._reversible import Derived, Inverse, Reversible
from retrograd.simulator.engines.batch.layout import Range, split_columns

T = TypeVar("T")
Words = Sequence[int] | NDArray[np.uint64]


def jvp(
    f: Reversible | Inverse,
    primals: Sequence[Any] | Mapping[str, Any],
    tangents: Any,
    *,
    scale: Scale = "auto",
    engine: str = "auto",
    format: Format | str | None = None,
    precision: Precision | None = None,
) -> tuple[Any, Any]:
    """(values, J ẋ): values as f(*primals) gives them, J the Jacobian of all values by all arguments, ẋ the tangents.

    Tangents are given as `vjp` takes cotangents: a mapping by name, or a sequence with one for each argument, None for
    zero. Those of the values come back by name, for all arguments that have a derivative. `scale` = k runs with 2^k·ẋ:
    k more binary places; `"auto"` as in `grad`. `engine`, `format`, `precision`: see `run`. f may be an inverse. Raises NotDifferentiable, CompileError, ProgramTrap.
    Trap: where a variable is freed its tangent is dropped. The tangent is zero, unless the variable is zero by chance, at these
    arguments only.
    """
    request = differentiable(f, scale, engine, format, precision)
    by_name = isinstance(primals, Mapping)
    given = tuple(primals) if isinstance(primals, Sequence) else ()
    return request.suited(given, dict(primals) if by_name else {}, lambda found: _pushed(found, primals, tangents))


def _pushed(request: Request, primals: Sequence[Any] | Mapping[str, Any], tangents: Any) -> tuple[Any, Any]:
    """The values and their tangents: see `jvp`."""
    f, function, backward = given_function(request), request.function, request.backward
    values, compiled = _compiled(request, primals)
    program = kept(compiled, ("jvp", backward), lambda: tangent_program(compiled, backward))
    initial = _words(compiled, values)
    pairs = by_argument(f, compiled.arguments, tangents, "tangent")

    for a, _ in pairs:
        need_derivative(f, a.name, a.type)
    flat = [(a, flattened(a.type, value, a.name, "tangent")) for a, value in pairs]
    least = _room(compiled, [(a, v, initial[a.name]) for a, v in flat])

    def seeds(scale: int) -> dict[int, int]:
        given: dict[int, int] = {}
        for a, v in flat:
            given |= _given(compiled, a, v, initial[a.name], scale + least, "tangent")
        return {at + program.tangents: word for at, word in given.items()}

    execute_externals(request, compiled, values)
    with _derivative_traps(request, compiled, values):
        machine, k = program.run_scaled(scales_of(request.scale, compiled), values, seeds, request.engine)
    k += least
    _report_losses(compiled, flat, k, "tangent")
    out = {}
    for a in wanted_of(request, compiled.arguments):
        size = sizes(a.type, _at(machine, a), compiled.format)
        inside = from_words(_at(machine, a, program.tangents), np.ones(a.type.size), k, compiled.format)
        # Zero stays zero even where a lognum is beyond the range of floats.
        out[a.name] = shaped(a.type, np.multiply(inside, size, out=np.zeros_like(inside), where=inside != 0))
    restored_by_name(compiled.arguments, values, out)
    return function.results(*read(compiled, machine, values)), by_choice(None, out)


def hvp(
    f: Reversible | Inverse,
    argnums: Which = None,
    loss: int | str = 0,
    *,
    scale: Scale = "auto",
    engine: str = "auto",
    format: Format | str | None = None,
    precision: Precision | None = None,
) -> Callable[[Any, Any], Any]:
    """h(args, vectors) = H v, H the second derivatives of the loss by the chosen arguments, v one vector for each of them.

    `args`: the arguments as a sequence or by name. `vectors`: for one argument of that argument's form, for several a sequence,
    for argnums = None by name. The result has the form of `grad`'s. Computed forward over adjoint: tangents run along with the
    gradient program, at about twice its cost. `scale` as in `grad`; `engine`, `format`, `precision`: see `run`. Raises NotDifferentiable, CompileError, ProgramTrap.
    """
    return _Product(differentiable(f, scale, engine, format, precision, argnums, loss))


class _Product:
    """The function that `hvp` returns: h(args, vectors)."""

    def __init__(self, request: Request) -> None:
        self._request, self._of = request, given_function(request).__name__
        self.__name__ = f"hvp({self._of})"
        self.__doc__ = f"Products of the Hessian of {self._of} with vectors, h(args, vectors)."

    @api_boundary
    def __call__(self, /, *given: Any, **keywords: Any) -> Any:
        both = dict(zip(("args", "vectors"), given, strict=False)) | keywords
        if len(given) + len(keywords) != 2 or both.keys() != {"args", "vectors"}:
            refuse(
                f"`{self.__name__}` is called with two things: the arguments of `{self._of}`, and vectors",
                "the arguments together in one sequence, or by name in one mapping: h(args, vectors)",
            )
        at = _SecondOrder(self._request, both["args"])
        vectors = at.vectors(both["vectors"])
        execute_externals(self._request, at.compiled, at.values)
        with at.traps():
            at.run(vectors)
        _report_losses(
            at.compiled, [(a, vectors[a.name]) for a in at.wanted if a.name in vectors], at.shift(vectors), "vector"
        )
        found = {a.name: shaped(a.type, at.product(a)) for a in at.wanted}
        return by_choice(self._request.argnums, restored_by_name(at.compiled.arguments, at.values, found))

    def __repr__(self) -> str:
        return f"<{self.__name__}>"


def hessian(
    f: Reversible | Inverse,
    argnums: Which = None,
    loss: int | str = 0,
    *,
    scale: Scale = "auto",
    engine: str = "auto",
    format: Format | str | None = None,
    precision: Precision | None = None,
) -> Callable[..., Any]:
    """h(*args) = ∂²L/∂x∂z for the chosen arguments x, z; L is the value that the argument `loss` has after f(*args).

    For one argument an array of its shape twice over; for several a tuple of tuples; for argnums = None by name, twice.
    A struct or a complex number counts as one more axis, of its words in order, 0 for ints and bools.
    The second-order program runs once for each element, all runs as one batch; see `hvp`.
    `engine`, `format`, `precision`: see `run_batch`.
    """
    request = differentiable(f, scale, engine, format, precision, argnums, loss)

    def whole(args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        at = _SecondOrder(request, request.values(args, keywords))
        for a in at.wanted:
            if isinstance(a.type, FormType | StackType):
                refuse(
                    f"`{a.name}` of `{f.__name__}` is {a.type}",
                    "rg.hvp takes and gives lists and data classes; a Hessian is an array",
                )
        execute_externals(request, at.compiled, at.values)
        columns = at.at_scale(at.columns)
        shapes = {a.name: shape_of(a.type) for a in at.wanted}
        rows = {}
        for x in at.wanted:
            blocks = {}
            for z in at.wanted:
                block = columns[x.name][z.name].T
                blocks[z.name] = _scalar_or_array(block.reshape(shapes[x.name] + shapes[z.name]))
            rows[x.name] = by_choice(request.argnums, blocks)
        return by_choice(request.argnums, rows)

    return Derived("hessian", f, whole, made_by(hessian, request, loss))


@dataclass(frozen=True)
class _UnitRuns:
    """Runs of a second-order program for all unit vectors: unit u is vector u mod `copies` of run ⌊u / copies⌋."""

    program: DerivedProgram
    copies: int
    #: (argument, element that is 1)
    units: list[tuple[Argument, int]]
    #: the words of each run, without the words that are equal in all runs, and their number
    ranges: dict[str, Range]
    #: the words that are kept: ḡ of each argument, and then dḡ of each argument for each vector
    kept: list[Range]
    width: int
    #: the column in which each unit vector is not zero
    places: NDArray[np.int64]


class _SecondOrder:
    """The second derivatives at some arguments."""

    def __init__(self, of: Request, args: Sequence[Any] | Mapping[str, Any]) -> None:
        self.of = of
        self.values, self.compiled = _compiled(of, args)
        self.format = self.compiled.format
        #: the scales to try, and the scale of the last run
        self.scales = scales_of(of.scale, self.compiled)
        self.scale = self.scales[0]
        self._pointed = any(has_points(a.type) for a in self.compiled.arguments)
        self._loss = loss_of(of, self.compiled)
        self.wanted = wanted_of(of, self.compiled.arguments)
        self.program = self._program(1)
        #: the words of all arguments
        self.memory = words = argument_words(self.compiled, self.values)
        self.words = {a.name: words[a.address : a.address + a.type.size] for a in self.wanted}
        self.sizes = {a.name: sizes(a.type, self.words[a.name], self.format) for a in self.wanted}
        #: see `GradientPlan.unit`
        self._unit_of_loss = unit(self._loss.type, self.format)
        self.vector: dict[str, Reals] = {}
        self.machine: Finished

    def _kept(self, what: str, make: Callable[[], T], *more: Any) -> T:
        """The object that was made for such a request of the function, made once."""
        key = (what, self.of.backward, self._loss.name, tuple(a.name for a in self.wanted), self.scales[0], *more)
        return kept(self.compiled, key, make)

    def _program(self, copies: int) -> DerivedProgram:
        """The second-order program for that many vectors at once, made once."""
        of, backward, scale = self.compiled, self.of.backward, self.scales[0]
        return self._kept(
            "hvp", lambda: second_order_program(of, backward, self.wanted, self._loss, scale, copies), copies
        )

    def _unit_runs(self) -> _UnitRuns:
        """The runs for all unit vectors of the chosen arguments."""
        units = [(z, i) for z in self.wanted for i in range(z.type.size)]
        p, copies = most_copies(self._program, len(units))
        away = [(k + 1) * p.tangents for k in range(copies)]
        ranges = {(z.name, k): (z.address + away[k], z.type.size) for k in range(copies) for z in self.wanted}
        firsts = dict(zip(ranges, accumulate((n for _, n in ranges.values()), initial=0), strict=False))
        return _UnitRuns(
            p,
            copies,
            units,
            {f"{name}.{k}": found for (name, k), found in ranges.items()},
            [(a.address + p.cotangents + offset, a.type.size) for offset in (0, *away) for a in self.wanted],
            sum(n for _, n in ranges.values()),
            np.array([firsts[z.name, u % copies] + i for u, (z, i) in enumerate(units)], dtype=np.int64),
        )

    def at_scale(self, run: Callable[[], T]) -> T:
        """The result of a run at the scale that is asked for."""

        def attempt(scale: int, _: bool) -> T:
            self.scale = scale
            return run()

        return at_scale(self.scales, attempt)

    def vectors(self, given: Any) -> dict[str, Reals]:
        """One flat vector for each argument."""
        names = [a.name for a in self.wanted]
        if is_one(self.of.argnums):
            pairs = [(self.wanted[0], given)]
        elif self.of.argnums is None:
            pairs = by_argument(given_function(self.of), self.wanted, given, "vector")
        else:
            listed = f"give a sequence with one for each of {', '.join(names)}; None is zero"
            if not isinstance(given, Sequence) or isinstance(given, str | bytes):
                refuse(
                    f"the vectors of {len(names)} arguments are a sequence, not of type {type(given).__name__}", listed
                )
            if len(given) != len(names):
                counted = f"{len(given)} vector{'s are' if len(given) != 1 else ' is'} given"
                refuse(f"{counted} for {len(names)} arguments of `{given_function(self.of).__name__}`", listed)
            pairs = list(zip(self.wanted, given, strict=True))
        return {a.name: flattened(a.type, value, a.name, "vector") for a, value in pairs}

    def shift(self, vectors: Mapping[str, Reals]) -> int:
        """The j for which the program runs with 2^j·v: 0, or with points the scale and the j of `_room`."""
        if not self._pointed:
            return 0
        given = [(a, vectors[a.name], self.words[a.name]) for a in self.wanted if a.name in vectors]
        return self.scale + _room(self.compiled, given)

    def run(self, vectors: dict[str, Reals], scales: Sequence[int] | None = None) -> None:
        """Run the program for these vectors, at the scales of the request or at others."""
        self.vector = vectors
        program = self.program

        def seeds(scale: int) -> dict[int, int]:
            self.scale, given = scale, dict[int, int]()
            shift = self.shift(vectors)
            for a in self.wanted:
                if a.name in vectors:
                    given |= _given(self.compiled, a, vectors[a.name], self.words[a.name], shift, "vector")
            return {at + program.tangents: word for at, word in given.items()} | program.seed(scale)

        self.machine, self.scale = program.run_scaled(
            self.scales if scales is None else scales, self.values, seeds, self.of.engine
        )

    def traps(self) -> AbstractContextManager[None]:
        """Traps of runs, in terms of the function."""
        return _derivative_traps(self.of, self.compiled, self.values)

    def product(self, a: Argument) -> Reals:
        """H v for the argument, flat."""
        changes = _at(self.machine, a, self.program.cotangents + self.program.tangents)
        slopes, shift = _at(self.machine, a, self.program.cotangents), self.shift(self.vector)
        return self._product(a, changes, slopes, self.vector.get(a.name), shift)

    def _product(
        self, a: Argument, changes: Words, slopes: Words, vector: Reals | None, shift: int | NDArray[np.int64]
    ) -> Reals:
        """The same, from the words of dḡ and ḡ, and the argument's part of v. The run was with 2^shift·v."""
        size, w = self.sizes[a.name], self.format
        change = from_words(changes, None, self.scale, w)
        if self._pointed:
            change = change / np.exp2(shift)
        # Inside, ḡ = x·g for a lognum x: dg = (dḡ − g·dx) / x.
        if vector is not None and not all_fixed(a.type):
            logarithmic = np.array([kind is Kind.LOGNUM for kind in kinds(a.type)])
            change = change - np.where(logarithmic, from_words(slopes, size, self.scale, w) * vector, 0)
        return change / size * self._unit_of_loss

    def columns(self) -> dict[str, dict[str, Reals]]:
        """H times each unit vector, as rows: by argument, and by the argument of which the vector is an element.

        A run takes several vectors, which share the words and the cotangents of the function.
        """
        memory = np.array(self.memory, dtype=np.uint64)
        plan = self._kept("hvp columns", self._unit_runs)
        units, copies, kept = plan.units, plan.copies, plan.kept
        shifts = np.zeros(0, dtype=np.int64)
        if self._pointed:
            shifts = np.concatenate([shifts, *map(self._unit_shifts, self.wanted)])
        words = np.concatenate([np.zeros(0, dtype=np.uint64), *map(self._unit_words, self.wanted)])
        out = {a.name: np.empty((len(units), a.type.size)) for a in self.wanted}
        size = copies * max(1, PIECE // max(1, plan.width))
        for first in range(0, len(units), size):
            some = units[first : first + size]
            numbers, here = np.arange(len(some)) // copies, slice(first, first + len(some))
            rows = np.zeros((-(-len(some) // copies), plan.width), dtype=np.uint64)
            rows[numbers, plan.places[here]] = words[here]
            begin = Loaded(plan.ranges, rows, memory).with_words(plan.program.seed(self.scale))
            ran = plan.program.run_rows(self.of, begin, kept, explain=False)
            if ran.traps or ran.failed:
                # The trap is that of the run of one vector.
                at = min({*ran.traps, *ran.failed})
                for z, i in some[at * copies : (at + 1) * copies]:
                    with self.traps():
                        self.run({z.name: _unit(z, i)}, (self.scale,))
                raise plan.program.run_rows(self.of, begin.at([at]), kept).traps[0].renumbered(at)
            found = split_columns(ran.after, kept)
            for place, a in enumerate(self.wanted):
                slopes, *changes = found[place :: len(self.wanted)]
                together = np.stack(changes, axis=1).reshape(-1, a.type.size)[: len(some)]
                out[a.name][here] = self._product(a, together, slopes, None, shifts[here, None] if self._pointed else 0)
                if not all_fixed(a.type):
                    for u, (z, i) in enumerate(some):
                        if z is a:
                            own = self._product(
                                a, together[u], slopes[u // copies], _unit(z, i), shifts[first + u : first + u + 1]
                            )
                            out[a.name][first + u] = own
        for a in self.wanted:
            out[a.name][:, ~_real(a.type)] = 0
        ends = np.cumsum([z.type.size for z in self.wanted])[:-1]
        names = [z.name for z in self.wanted]
        return {name: dict(zip(names, np.split(by_unit, ends), strict=True)) for name, by_unit in out.items()}

    def _unit_shifts(self, z: Argument) -> NDArray[np.int64]:
        """The shift of each unit vector of the argument: see `shift`."""
        if not self._pointed:
            return np.zeros(z.type.size, dtype=np.int64)
        return self.scale - _exponents_of(_by_size(self.compiled, z, self.words[z.name]))

    def _unit_words(self, z: Argument) -> NDArray[np.uint64]:
        """The word of each unit vector of the argument that is not zero."""
        if all_fixed(z.type):
            return self._kept("unit words", lambda: self._units_at(z), z.name, self.scale if self._pointed else 0)
        return self._units_at(z)

    def _units_at(self, z: Argument) -> NDArray[np.uint64]:
        """The same, for the argument's words."""
        by_size = _by_size(self.compiled, z, self.words[z.name])
        try:
            units: Reals = np.where(_real(z.type), np.exp2(self._unit_shifts(z)), 0.0)
            words = to_words(units, by_size, 0, self.format, z.name, "vector")
        except InputError:
            # The message is that of the first vector at fault.
            for i in np.flatnonzero(_real(z.type)):
                to_words(_unit(z, int(i)) * units, by_size, 0, self.format, z.name, "vector")
            raise
        return np.array(words, dtype=np.uint64)


def _real(t: Type) -> NDArray[np.bool_]:
    """Which words of a type have derivatives."""
    return np.array([kind.is_real for kind in kinds(t)], dtype=bool)


def _unit(z: Argument, i: int) -> Reals:
    vector: Reals = np.eye(1, z.type.size, i)[0]
    return vector


def _compiled(request: Request, args: Sequence[Any] | Mapping[str, Any]) -> tuple[list[Any], Compiled]:
    function = request.function
    if not isinstance(args, Mapping) and (isinstance(args, str) or not isinstance(args, Sequence)):
        refuse(
            f"the arguments of `{function.__name__}` are given as one {type(args).__name__}", "a sequence, or by name"
        )
    if isinstance(args, Mapping):
        for name in args:
            position(function, name if isinstance(name, str) else str(name))
    values = request.values((), dict(args)) if isinstance(args, Mapping) else request.values(tuple(args), {})
    return values, request.compiled(values)


def _words(compiled: Compiled, values: list[Any]) -> dict[str, list[int]]:
    """The words of each argument."""
    words = argument_words(compiled, values)
    return {a.name: words[a.address : a.address + a.type.size] for a in compiled.arguments}


def _at(machine: Finished, a: Argument, offset: int = 0) -> list[int]:
    return machine.memory[a.address + offset : a.address + offset + a.type.size]


def _derivative_traps(request: Request, compiled: Compiled, values: list[Any]) -> AbstractContextManager[None]:
    message = f"a derivative does not fit in {compiled.format}"
    hint = "Take smaller vectors or a smaller `scale`, or use a format with more bits before the point."
    return derivative_traps(compiled, values, request.backward, message, hint)


def _given(compiled: Compiled, a: Argument, flat: Reals, words: Sequence[int], scale: int, what: str) -> dict[int, int]:
    tangent = to_words(flat, _by_size(compiled, a, words), scale, compiled.format, a.name, what)
    return {a.address + i: word for i, word in enumerate(tangent) if word}


def _exponents_of(numbers: Reals) -> NDArray[np.int64]:
    """The least n with |x| ≤ 2^n of each number; 0 for 0 and infinity."""
    mantissas, exponents = np.frexp(np.where(np.isfinite(numbers), numbers, 0))
    found: NDArray[np.int64] = exponents.astype(np.int64) - (np.abs(mantissas) == 0.5)
    return found


def _room(compiled: Compiled, given: Sequence[tuple[Argument, Reals, Sequence[int]]]) -> int:
    """The j for which the greatest word of 2^j·ẋ is 2^(F − 1) … 2^F; 0 where no argument has a point of its own.

    With points a tangent of 1 may be 0, of kilograms at −39, or have no word. `given`: tangents, words of arguments.
    """
    if not any(has_points(a.type) for a in compiled.arguments):
        return 0
    inside = [flat * _by_size(compiled, a, words) for a, flat, words in given if flat.any()]
    return -max((int(_exponents_of(x)[x != 0].max()) for x in inside), default=0)


def _report_losses(compiled: Compiled, given: Sequence[tuple[Argument, Reals]], shift: int, what: str) -> None:
    """See `report_losses`; the run was with 2^shift·ẋ."""
    if shift and any(has_points(a.type) for a in compiled.arguments):
        given, shift = [(a, flat * 2.0**shift) for a, flat in given], 0
    report_losses(compiled, given, shift, what)


def _by_size(compiled: Compiled, a: Argument, words: Sequence[int]) -> Reals:
    """1/x where a word holds the lognum x, 1 where it is fixed."""
    with np.errstate(divide="ignore", over="ignore"):
        by_size: Reals = 1 / sizes(a.type, words, compiled.format)
    return by_size


def _scalar_or_array(block: Any) -> Any:
    return float(block) if np.ndim(block) == 0 else block
