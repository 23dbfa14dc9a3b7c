"""One function on many inputs: compiled once, and run for each element of a batch.

    run_batch(f, xs).values.y[i] == run(f, xs[i]).values.y,  bit for bit

The words of a batch are a matrix, one row for each element, in the order of the arguments; `run_rows` runs it on any engine,
and `run_distributed` on the workers of an executor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from retrograd.batch.arguments import Axes, Batch, columns_of, element_type, refuse, stacked_values
from retrograd.batch.distributed_runs import run_distributed
from retrograd.batch.runs import BatchWords, ElementTrap, Numbers, Words
from retrograd.compiler.compiled import Compiled, Options, Precision
from retrograd.compiler.language.types import FIXED, is_struct
from retrograd.distribution.tasks import Distribution, distribute
from retrograd.functions.derived import Derived, NotDifferentiable
from retrograd.functions.execution import ProgramTrap
from retrograd.functions.pickling import need_name
from retrograd.functions.requests import Request
from retrograd.functions.reversible import Inverse, Reversible, request_of
from retrograd.isa.diagnostics import InputError, api_boundary
from retrograd.isa.microarchitecture.micro_operations import core_units
from retrograd.isa.words import Format
from retrograd.presentation.progress import Bar
from retrograd.simulator.engines.batch.layout import Range
from retrograd.values.arrays import as_array
from retrograd.values.binding import bind, with_further

Traps = Literal["raise", "return"]
#: whether the gradients by an argument that all elements share are returned for each element, or added up
Shared = Literal["each", "sum"]


@dataclass(kw_only=True)
class BatchResult(BatchWords):
    """Finished runs. It differs from `Result` in that counts are arrays, traps belong to elements, and no single machine exists."""

    #: all arguments after the runs, stacked along axis 0, by position and by name
    values: Any
    compiled: Compiled = field(repr=False)

    @property
    def matrix(self) -> Words:
        """The words of all arguments after the runs, one row for each element: exact, where a float64 has only 53 bits."""
        return self.after

    @property
    def words(self) -> dict[str, Words]:
        """The words of each argument, one row for each element."""
        return {a.name: self.matrix[:, a.address : a.address + a.type.size] for a in self.compiled.arguments}


def run_batch(
    function: Reversible | Inverse,
    *args: Any,
    in_axes: Axes = 0,
    engine: str = "auto",
    backward: bool = False,
    max_steps: int | None = None,
    format: Format | str | None = None,
    options: Options | None = None,
    precision: Precision | None = None,
    overflow: bool = True,
    checks: bool = True,
    traps: Traps = "raise",
    cycles: bool = False,
    core: str = "small",
    progress: bool | None = None,
    executor: Any = None,
    store: str | Path | None = None,
    chunk: int | None = None,
    **keywords: Any,
) -> BatchResult:
    """Run a reversible function on each element of a batch: element i of every argument, along the axis `in_axes`.

    `in_axes`: one axis for all arguments, or one for each, by position or by name (0 for an argument that is not named); None
    gives every element the same initial value. Static arguments, functions and defaults are the same for all. All arguments
    come back stacked along axis 0, since every element may change them: arrays of numbers, arrays of structs, lists for stacks.

    `engine`, `format`, `options`, `precision`, `overflow`: see `run`; `native` takes all cores, `cuda` a GPU. `max_steps`: for each element.
    `checks=False` leaves out every check except that of memory: an element that would trap continues with wrapped words.
    `cycles=True` counts the cycles of each element on the co-processor with this core, "small" or "fast". `progress`: whether a bar is shown; None shows one on a terminal after a second.

    `executor`: workers that run the elements: a number of processes, an executor of `concurrent.futures`, a client of Dask, or the
    address of its scheduler ("tcp://HOST:PORT"). A task has `chunk` elements; a task whose worker is lost runs again. `store`: a
    file of SQLite that keeps the results of tasks, so that a call that was interrupted goes on. None of the three changes a bit.
    Arguments may be arrays of Dask or Zarr, or mapped files of NumPy: they are read a task at a time.

    All elements run, whether or not others trap. Then the first trap is raised, with the BatchResult in its `result`; with
    `traps="return"` all traps are in the result. `rg.energy(rg.vmap(f), …)` prices a batch.
    Raises CompileError, InputError naming the argument or the engine, DeviceError, ElementTrap naming the element; with
    `executor` or `store`, InputError RG1501 to RG1508.
    """
    if traps not in ("raise", "return"):
        refuse(f"traps = {traps!r:.40}", '"raise" or "return"')
    core_units(core)
    request = request_of(
        function, backward=backward, engine=engine, format=format, options=options, precision=precision, max_steps=max_steps,
        overflow=overflow, checks=checks, cycles=cycles, core=core,
    )  # fmt: skip
    found = _result(request, args, keywords, in_axes, progress, Distribution.of(executor, store, chunk))
    if traps == "raise":
        _need_ends(found)
    return found


def _result(
    request: Request,
    args: tuple[Any, ...],
    keywords: dict[str, Any],
    in_axes: Axes,
    progress: bool | None = None,
    over: Distribution | None = None,
) -> BatchResult:
    batch = Batch(request, args, keywords, in_axes)
    compiled = batch.compiled()
    arguments, numbers = argument_ranges(compiled)
    words = batch.words(compiled)
    rows = run_distributed(compiled, words, arguments, (), request, numbers=numbers, progress=progress, over=over)
    values = [
        stacked_values(a.type, found, compiled.format)
        for a, found in zip(compiled.arguments, rows.results, strict=True)
    ]
    # The arrays of the results are the values now.
    return BatchResult(**{**vars(rows), "results": []}, values=request.function.results(*values), compiled=compiled)


def argument_ranges(compiled: Compiled) -> tuple[list[Range], dict[Range, Numbers]]:
    """(the places of the arguments, those of fixed numbers), computed once."""
    found: tuple[list[Range], dict[Range, Numbers]] | None = compiled.derived.get(("ranges",))
    if found is None:
        every = {(a.address, a.type.size): a.type for a in compiled.arguments}
        numbers = {place: Numbers() for place, t in every.items() if element_type(t) == FIXED}
        arguments = [(a.address, a.type.size) for a in compiled.arguments]
        found = compiled.derived["ranges",] = arguments, numbers
    return found


def _need_ends(found: BatchResult) -> None:
    """Raise the first trap, if there is any."""
    if found.traps:
        error = found.traps[min(found.traps)]
        error.result = found
        raise error


# ---------------------------------------------------------------------- functions of batches


class Mapped(Derived):
    """`vmap` of a reversible function, or of a gradient, run as one batch."""

    def __init__(
        self,
        f: Reversible | Inverse | Derived,
        call: Callable[[tuple[Any, ...], dict[str, Any]], Any],
        in_axes: Axes,
        engine: str,
        format: Format | str | None,
        shared: Shared = "each",
        precision: Precision | None = None,
    ) -> None:
        made = vmap, (f, in_axes), {"engine": engine, "format": format, "shared": shared, "precision": precision}
        super().__init__("vmap", f.of if isinstance(f, Derived) else f, call, made)
        #: the function that is run on each element
        self.each = f
        self.in_axes, self.engine, self.format, self.precision = in_axes, engine, format, precision
        #: whether gradients by shared arguments are added up
        self.summed = shared == "sum"


def vmap(
    f: Callable[..., Any],
    in_axes: Axes = 0,
    *,
    engine: str = "auto",
    format: Format | str | None = None,
    precision: Precision | None = None,
    shared: Shared = "each",
    executor: Any = None,
    store: str | Path | None = None,
    chunk: int | None = None,
    progress: bool | None = None,
) -> Callable[..., Any]:
    """g(*args) = f on each element of its arguments along their axes, the results stacked along axis 0.

    f: a reversible function or its inverse, see `run_batch`; a function made by rg.grad, value_and_grad or jacobian;
    another vmap; any Python function of numbers, arrays and structs. Tuples are stacked part by part, structs become arrays of
    structs, other results a list. `engine`, `format`, `precision`: of reversible functions and their derivatives, see `run`; the defaults
    leave those of f.
    `shared="sum"`: gradients by an argument that all elements share are added up: ∂(Σᵢ Lᵢ)/∂x, of the argument's own shape;
    value_and_grad adds up the losses, too: (Σᵢ Lᵢ, …).
    Each element has the scale of cotangents that it has alone. Each sum is one of integers: exact, the same bits for any number of threads or blocks, without memory for each element.
    `executor`, `store`, `chunk`, `progress`: see `run_batch`. A store keeps results of reversible functions and their gradients.
    Raises InputError, ElementTrap.
    """
    if shared not in ("each", "sum"):
        refuse(f"shared = {shared!r:.40}", '"each" or "sum"')
    over = Distribution.of(executor, store, chunk)
    in_axes = deepcopy(in_axes)  # the caller may change a list
    if isinstance(f, Derived):
        mapped = f.mapped(in_axes, engine, format, shared, over, progress, precision)
        if mapped is not None:
            return mapped
    if shared == "sum":
        refuse('shared = "sum" is for gradients', "vmap(grad(f), …) or vmap(value_and_grad(f), …)")
    if isinstance(f, Reversible | Inverse):
        request = request_of(f, engine=engine, format=format, precision=precision)

        def values(args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
            found = _result(request, args, keywords, in_axes, progress, over)
            _need_ends(found)
            return found.values

        return Mapped(f, values, in_axes, engine, format, precision=precision)
    if not callable(f):
        refuse(f"vmap takes a function, not `{f!r:.40}`")
    if isinstance(f, Derived):
        each = f.with_settings(engine, format, precision)
        made = vmap, (f, in_axes), {"engine": engine, "format": format, "precision": precision}
        return Derived("vmap", f.of, lambda args, keywords: _each(each, args, keywords, in_axes, over, progress), made)
    return _Each(f, in_axes, over, progress)


class _Each:
    """`vmap` of any Python function."""

    def __init__(self, f: Callable[..., Any], in_axes: Axes, over: Distribution | None, progress: bool | None) -> None:
        self._f, self._in_axes, self._over, self._progress = f, in_axes, over, progress
        self.__name__ = f"vmap({getattr(f, '__name__', 'a function')})"

    @api_boundary
    def __call__(self, /, *args: Any, **keywords: Any) -> Any:
        return _each(self._f, args, keywords, self._in_axes, self._over, self._progress)

    def __reduce__(self) -> tuple[Any, ...]:
        need_name(self._f)
        return vmap, (self._f, self._in_axes)


def _each(
    f: Callable[..., Any],
    args: Sequence[Any],
    keywords: dict[str, Any],
    in_axes: Axes,
    over: Distribution | None,
    progress: bool | None,
) -> Any:
    """Any function, called for one element after the other, or for some elements in each task."""
    called = getattr(f, "__name__", "the function")
    if isinstance(f, Derived):
        function = ~f.of if isinstance(f.of, Inverse) else f.of
        bind(function, args, keywords)
        args, keywords = with_further(function, args, keywords)
        parameters = [p.name for p in function.parameters]
        names = [*parameters[: len(args)], *keywords]
    else:
        function, parameters = None, [*(f"argument {i}" for i in range(len(args))), *keywords]
        names = parameters
    given = dict(zip(names, [*args, *keywords.values()], strict=True))
    columns, length = columns_of(called, function, parameters, given, in_axes)
    if not length:
        refuse(f"`{called}` is given no elements, and what it would return for them cannot be told")

    def element(i: int) -> _Call:
        values = [columns[name].element(i) if name in columns else value for name, value in given.items()]
        return f, tuple(values[: len(args)]), dict(zip(keywords, values[len(args) :], strict=True))

    out: list[Any] = []
    if over is not None:
        out = _on_workers(element, length, over, progress)
        if len(out) == length:
            return _stacked(out)
    # An element that fails on a worker fails here again, with its place and its machine.
    for i in range(len(out), length):
        try:
            out.append(_call(element(i)))
        except ProgramTrap as trap:
            raise ElementTrap(trap.diagnostics[0], trap.machine, trap.trap, i) from None
        except NotDifferentiable:
            raise  # its cause is the types, which all elements share
        except InputError as error:
            d = error.diagnostics[0]
            raise InputError(replace(d, message=f"element {i}: {d.message}")) from None
    return _stacked(out)


#: a function and its arguments, by position and by name
_Call = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]
#: elements of a task, unless another number is given
_ELEMENTS = 16


def _call(call: _Call) -> Any:
    f, args, keywords = call
    return f(*args, **keywords)


def _call_all(calls: list[_Call]) -> list[Any]:
    """On a worker: the results of the elements before the first that raises an exception."""
    out: list[Any] = []
    for call in calls:
        try:
            out.append(_call(call))
        except Exception:
            break
    return out


def _on_workers(element: Callable[[int], _Call], length: int, over: Distribution, progress: bool | None) -> list[Any]:
    """The results of the elements before the first that raises an exception."""
    size = over.chunk or _ELEMENTS
    firsts = range(0, length, size)
    tasks = ([element(i) for i in range(first, min(first + size, length))] for first in firsts)
    found: list[list[Any]] = [[] for _ in firsts]
    with (
        Bar(length, progress, "running") as bar,
        closing(distribute(_call_all, tasks, over, bar=bar, size=len)) as parts,
    ):
        for index, part in parts:
            found[index] = part
    out: list[Any] = []
    for first, part in zip(firsts, found, strict=True):
        out += part
        if len(part) < min(size, length - first):
            break
    return out


def _stacked(found: list[Any]) -> Any:
    """The results of all elements as one, part by part."""
    first = found[0]
    if isinstance(first, tuple):
        parts = [_stacked([one[k] for one in found]) for k in range(len(first))]
        return type(first)(*parts) if hasattr(first, "_fields") else tuple(parts)
    if is_struct(type(first)):
        out = np.empty(len(found), dtype=object)
        out[:] = found
        return out
    if isinstance(first, np.ndarray | np.generic | int | float | complex):
        return np.stack([as_array(one) for one in found])
    return found
