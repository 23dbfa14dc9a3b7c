"""Retrograd's side of a workload: a function, its gradient, Jacobian or Hessian, as one program on a matrix of words.

    value      x -> f(x)                       the function's own program
    gradient   x -> (L, ∂L/∂x)                 the gradient program, forward and back in one
    rows       (x, ȳ) -> x̄                     the same for given cotangents: one row of a Jacobian each
    hessian    (x, ẋ) -> ∂²L/∂x² ẋ             forward over adjoint: one column of a Hessian each

Programs are timed from words to words, on any engine. The call of a user, from arrays to arrays, is `public` and is timed separately.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from retrograd.compiler.compiled import Compiled
from retrograd.compiler.pipeline import Argument
from retrograd.simulator.engines.batch.layout import Range

import retrograd as rg
from retrograd.derivatives._arguments import automatic, kinds
from retrograd.derivatives._requests import (
    DerivedProgram,
    gradient_program,
    loss_gradient_program,
    most_copies,
    second_order_program,
)
from retrograd.runtime._batch_arguments import Batch, Loaded
from retrograd.runtime._batch_runs import BatchWords, run_rows
from retrograd.runtime._execution import Request
from retrograd.runtime._reversible import Reversible

Reals = NDArray[np.float64]


@dataclass(frozen=True)
class Call:
    """A function of a workload, and the arguments of the batch."""

    function: Reversible
    args: tuple[Any, ...]
    in_axes: Any = 0

    @functools.cached_property
    def batch(self) -> Batch:
        return Batch(Request(self.function), self.args, {}, self.in_axes)

    @functools.cached_property
    def compiled(self) -> Compiled:
        return self.function.compiled_for(self.batch.types())

    @functools.cached_property
    def loaded(self) -> Loaded:
        return self.batch.words(self.compiled)

    @property
    def scale(self) -> int:
        """The scale of derivatives: the first that `scale="auto"` tries."""
        return automatic(self.compiled.format)[0]

    def argument(self, name: str) -> Argument:
        return next(a for a in self.compiled.arguments if a.name == name)

    def arguments(self, names: Sequence[str]) -> list[Argument]:
        """The named arguments, in the order of the function's parameters."""
        return [a for a in self.compiled.arguments if a.name in names]

    def one(self) -> list[Any]:
        """The arguments of the first element."""
        return self.batch.element(0)


@dataclass
class Ours:
    """A program, and the words of a batch."""

    compiled: Compiled
    loaded: Loaded
    kept: list[Range]
    #: the requested numbers, from rows in the order in which they are computed
    read: Callable[[BatchWords], Reals]
    #: words of the function's arguments: all other memory is extra
    own: int
    summed: list[Range] = field(default_factory=list)
    #: the call of a user, on an engine; None without a call that takes a batch
    public: Callable[[str], Any] | None = None
    #: evaluations that all rows together make; None: as many as the problem has
    evaluations: int | None = None

    def _request(self, **settings: Any) -> Request:
        function = self.compiled.function
        assert isinstance(function, Reversible)
        return Request(function, progress=False, **settings)

    def run(self, engine: str, elements: int | None = None, *, checks: bool = True, cycles: bool = False) -> BatchWords:
        """Run the batch, or its first elements. Raises the trap of an element that traps."""
        loaded = self.loaded
        if elements is not None:
            loaded = Loaded(loaded.ranges, loaded.rows[:elements], loaded.shared)
        request = self._request(engine=engine, checks=checks, cycles=cycles)
        rows = run_rows(request, self.compiled, loaded, self.kept, self.summed)
        if rows.traps:
            raise rows.traps[min(rows.traps)]
        return rows

    def uncall(self) -> Callable[[], BatchWords]:
        """Run the same batch backward. Raises AssertionError if it does not reach its initial words."""
        everything = [(0, self.own)]
        forward, backward = (self._request(engine="translated", backward=way) for way in (False, True))
        forth = run_rows(forward, self.compiled, self.loaded, everything)
        given, shared = self.loaded.given, self.loaded.shared
        columns = [np.ascontiguousarray(forth.after[:, at : at + n]) for at, n in given]
        alike = forth.after.copy()
        for at, n in given:
            alike[:, at : at + n] = shared[at : at + n]
        if (alike == shared[: self.own]).all():
            # Rows and words that all share, as they are given to the run forward.
            ranges = {str(k): one for k, one in enumerate(given)}
            loaded = Loaded(ranges, None, shared, columns, lambda rows: [c[rows or slice(None)] for c in columns])
        else:
            loaded = Loaded({"all": (0, self.own)}, forth.after, shared)

        def back(kept: list[Range]) -> BatchWords:
            return run_rows(backward, self.compiled, loaded, kept)

        if not np.array_equal(back(everything).after, self.loaded.matrix):
            raise AssertionError("running backward does not lead to where it began")
        # The same words are written as by the run forward, with which it is compared.
        return lambda: back(self.kept)

    @property
    def words(self) -> int:
        """Words of memory of one run, including the arguments."""
        return int(self.compiled.program.memory)


def value(call: Call, result: str) -> Ours:
    """The argument `result` after the run."""
    a = call.argument(result)

    def public(engine: str) -> Any:
        return rg.vmap(call.function, call.in_axes, engine=engine)(*call.args)

    numbers = _reader(call, _points(call, [a]))
    return Ours(call.compiled, call.loaded, [(a.address, a.type.size)], numbers, _own(call), public=public)


def gradient(call: Call, wanted: Sequence[str], loss: str = "out") -> Ours:
    """∂loss/∂wanted of each element: the arguments one after the other, in the order of the parameters."""
    chosen, lost, scale = call.arguments(wanted), call.argument(loss), call.scale
    program = loss_gradient_program(call.compiled, False, chosen, lost, scale)
    kept = [(a.address + program.cotangents, a.type.size) for a in chosen]
    derived = rg.grad(call.function, tuple(a.name for a in chosen), loss)

    def public(engine: str) -> Any:
        return rg.vmap(derived, call.in_axes, engine=engine)(*call.args)

    numbers = _reader(call, _places(call, chosen, lost))
    return Ours(program.compiled, call.loaded, kept, numbers, _own(call), public=public)


def rows(
    call: Call,
    wanted: Sequence[str],
    outputs: str,
    which: Sequence[int] | None = None,
) -> Ours:
    """∂outputs/∂wanted of each element: all elements with cotangents of the first outputs, then all with those of the next, and so on.

    `which` outputs; None: all. The result is a matrix for each element, one row for each output.
    """
    a = call.argument(outputs)
    chosen = call.arguments(wanted)
    one = np.uint64(1 << call.compiled.format.frac + call.scale)
    elements, size = len(call.loaded.rows), a.type.size
    seeded = range(size) if which is None else which
    program, copies = most_copies(lambda copies: gradient_program(call.compiled, False, copies), len(seeded))
    runs = -(-len(seeded) // copies)
    # Several outputs in a run; the last run may have fewer.
    seeds = np.zeros((runs * copies, size), dtype=np.uint64)
    seeds[range(len(seeded)), seeded] = one
    matrices = [np.hstack([call.loaded.rows, np.tile(seed, (elements, 1))]) for seed in seeds.reshape(runs, -1)]
    away = [(k + 1) * program.cotangents for k in range(copies)]
    ranges = call.loaded.ranges | {f"cotangents.{k}": (a.address + offset, size) for k, offset in enumerate(away)}
    kept = [(z.address + offset, z.type.size) for offset in away for z in chosen]
    numbers = _reader(call, np.tile(_places(call, chosen, a), copies))

    def read(found: BatchWords) -> Reals:
        by_run = numbers(found).reshape(runs, -1, copies, sum(z.type.size for z in chosen))
        by_element = np.moveaxis(by_run, 0, 1)
        return np.ascontiguousarray(by_element.reshape(len(by_element), runs * copies, -1)[:, : len(seeded)])

    return Ours(program.compiled, Loaded(ranges, np.vstack(matrices), call.loaded.shared), kept, read, _own(call))


def hessian(call: Call, wanted: str, loss: str = "out", *, each: bool = False) -> Ours:
    """∂²loss/∂wanted², by columns: of the first element, or of every element if each is one number."""
    a, lost, scale = call.argument(wanted), call.argument(loss), call.scale
    size, unit, given = a.type.size, np.uint64(1 << call.compiled.format.frac), call.loaded

    def made(copies: int) -> DerivedProgram:
        return second_order_program(call.compiled, False, [a], lost, scale, copies)

    program, copies = most_copies(made, 1 if each else size)
    away = [(k + 1) * program.tangents for k in range(copies)]
    ranges = given.ranges | {f"tangents.{k}": (a.address + away[k], size) for k in range(copies)}
    # Several columns in a run; the last run may have fewer.
    runs = len(given.rows) if each else -(-size // copies)
    elements = given.rows if each else np.repeat(given.rows[:1], runs, axis=0)
    tangents = (
        np.full((runs, 1), unit) if each else (np.eye(runs * copies, size, dtype=np.uint64) * unit).reshape(runs, -1)
    )
    kept = [(a.address + program.cotangents + offset, size) for offset in away]
    loaded = Loaded(ranges, np.hstack([elements, tangents]), given.shared)
    public = None
    if not each:
        whole = rg.hessian(call.function, wanted, loss)
        one = call.one()

        def public(engine: str) -> Any:
            return whole(*one)

    # A tangent that begins as 2^F is 2^(F − p) of a number at the point p.
    numbers = _reader(call, np.tile(_places(call, [a], lost) + call.compiled.format.frac - _points(call, [a]), copies))

    def read(found: BatchWords) -> Reals:
        return numbers(found).reshape(-1, size)[: len(given.rows) if each else size]

    found = Ours(program.compiled, loaded, kept, read, _own(call), public=public)
    found.evaluations = None if each else 1
    return found


def _own(call: Call) -> int:
    return call.compiled.argument_words


def _points(call: Call, arguments: Sequence[Argument]) -> NDArray[np.int64]:
    """The binary points of the words of arguments."""
    w = call.compiled.format
    return np.array([k.point(w) if k.is_fixed else w.frac for a in arguments for k in kinds(a.type)])


def _places(call: Call, wanted: Sequence[Argument], of: Argument) -> NDArray[np.int64]:
    """The places of cotangents of words at p, where that of `of`, at q, begins as 2^(F + scale): F + scale + q − p."""
    begun = call.compiled.format.frac + call.scale + int(_points(call, [of])[0])
    return begun - _points(call, wanted)


def _reader(call: Call, places: NDArray[np.int64]) -> Callable[[BatchWords], Reals]:
    """Words as numbers, each with its places behind the point."""
    up = 64 - call.compiled.format.width

    def read(found: BatchWords) -> Reals:
        numbers: Reals = np.ldexp((found.after.astype(np.int64) << up >> up).astype(float), -places)
        return numbers

    return read


def only(name: str, function: Reversible) -> dict[str, int | None]:
    """Batch axes, with one argument that differs between elements."""
    return {p.name: 0 if p.name == name else None for p in function.parameters}
