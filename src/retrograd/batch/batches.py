"""One function on many inputs: compiled once, and run for each element of a batch.

    run_batch(f, xs).values.y[i] == run(f, xs[i]).values.y,  bit for bit

A batch is a matrix of words, one row for each element, in the order of the arguments: `batch_runs` takes it to the matrix
afterwards, on any engine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from retrograd.batch.arguments import Axes, Batch, columns_of, refuse, stacked_values
from retrograd.batch.gradients import Shared, batch_gradient
from retrograd.batch.runs import Counts, ElementTrap, Words, run_rows
from retrograd.compiler.compiled import Compiled, Options
from retrograd.compiler.language.types import struct_of
from retrograd.differentiation.arguments import Batched, Derived, NotDifferentiable
from retrograd.functions.execution import ProgramTrap
from retrograd.functions.reversible import Inverse, Reversible, results
from retrograd.isa.diagnostics import InputError
from retrograd.isa.words import Format
from retrograd.values.exact import as_array
from retrograd.values.marshal import bind

Traps = Literal["raise", "return"]


@dataclass
class BatchResult:
    """Finished runs: `values` are all arguments afterwards, stacked along axis 0, by position and name."""

    values: Any
    #: of each element
    steps: Counts
    #: by each element
    erased_bits: Counts
    #: what ran most of them: reference, threaded, translated or cuda
    engine: str
    #: of each on the co-processor, by the cycle model (docs/reference/timing.md); None unless asked for
    cycles: Counts | None
    #: why elements did not come to their end; their values are what they were given
    traps: dict[int, ElementTrap]
    compiled: Compiled = field(repr=False)
    #: the arguments afterwards as words, one row for each element: exact, where a float64 has but 53 bits
    matrix: Words = field(repr=False)

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
    overflow: bool = True,
    checks: bool = True,
    traps: Traps = "raise",
    cycles: bool = False,
    progress: bool | None = None,
    **keywords: Any,
) -> BatchResult:
    """Run a reversible function on each element of a batch: element i of every argument, along the axis `in_axes`.

    `in_axes`: one axis for all, or an axis for each argument, by position or by name (0 for those not named); None gives every element
    the same initial value. Static arguments, functions and defaults are the same for all. All arguments come back
    stacked along axis 0, since every element may change them: arrays of numbers, arrays of structs, lists for stacks.
    `engine`: what runs them, see `run`; `native` takes all cores, `cuda` a GPU. `max_steps` is for each element. An element that
    traps keeps the others from nothing: the first is raised when all have ended, the others' values in its `result`; with
    `traps="return"` all are in the result's `traps`. `checks=False` leaves out every check but that of memory: what would trap goes on with
    wrapped words, without a message; an element that leaves its memory traps. `cycles=True` counts them, too. `progress` shows a bar, None where a terminal waits long.
    What a batch costs is told by `rg.energy(rg.vmap(f), …)`.
    Raises CompileError, InputError naming the argument or for no such engine, DeviceError, ElementTrap naming the element.
    """
    return _run(
        function,
        args,
        keywords,
        in_axes,
        engine,
        backward,
        max_steps,
        format,
        options,
        overflow,
        checks,
        traps,
        cycles,
        progress,
    )


def _run(
    function: Reversible | Inverse,
    args: tuple[Any, ...],
    keywords: dict[str, Any],
    in_axes: Axes,
    engine: str = "auto",
    backward: bool = False,
    max_steps: int | None = None,
    format: Format | str | None = None,
    options: Options | None = None,
    overflow: bool = True,
    checks: bool = True,
    traps: Traps = "raise",
    cycles: bool = False,
    progress: bool | None = None,
) -> BatchResult:
    if traps not in ("raise", "return"):
        refuse(f"traps = {traps!r:.40}", '"raise" or "return"')
    if isinstance(function, Inverse):
        function, backward = ~function, not backward
    if not isinstance(function, Reversible):
        name = getattr(function, "__name__", None) or f"{function!r:.40}"
        refuse(f"`{name}` is no reversible function", "Use @reversible.")
    batch = Batch(function, args, keywords, in_axes)
    compiled = function.compiled_for(batch.types(), format, options)
    rows = run_rows(
        compiled,
        batch.words(compiled),
        [(0, sum(a.type.size for a in compiled.arguments))],
        engine=engine,
        backward=backward,
        overflow=overflow,
        checks=checks,
        limit=max_steps,
        cycles=cycles,
        progress=progress,
    )
    values = []
    for a in compiled.arguments:
        part = rows.after[:, a.address : a.address + a.type.size]
        values.append(stacked_values(a.type, part, compiled.format))
    found = BatchResult(
        results(function, values),
        rows.steps,
        rows.erased_bits,
        rows.engine,
        rows.cycles,
        rows.traps,
        compiled,
        rows.after,
    )
    if rows.traps and traps == "raise":
        error = rows.traps[min(rows.traps)]
        error.result = found
        raise error
    return found


def vmap(
    f: Callable[..., Any], in_axes: Axes = 0, *, engine: str = "auto", shared: Shared = "each"
) -> Callable[..., Any]:
    """g(*args) = f on each element of its arguments along their axes, the results stacked along axis 0.

    f: a reversible function or its inverse, see `run_batch`; what rg.grad, value_and_grad and jacobian return;
    another vmap; any function of numbers, arrays and structs. Tuples are stacked part by part, structs become arrays of
    structs, anything else a list. `engine`: what runs reversible functions and gradients of them.
    `shared="sum"`: of gradients by an argument that all elements share, the sum: ∂(Σᵢ Lᵢ)/∂x, of the argument's own shape. It is
    added up as integers: exact, the same bits however many threads or blocks there are, and no memory for each element.
    Raises InputError, ElementTrap.
    """
    if shared not in ("each", "sum"):
        refuse(f"shared = {shared!r:.40}", '"each" or "sum"')
    if shared == "sum" and not (isinstance(f, Derived) and f.sought is not None):
        refuse('shared = "sum" is for gradients', "vmap(grad(f), …) or vmap(value_and_grad(f), …)")
    made = vmap, (f, in_axes), {"engine": engine, "shared": shared}
    if isinstance(f, Reversible | Inverse):
        mapped = Derived("vmap", f, lambda args, keywords: _run(f, args, keywords, in_axes, engine).values)
        mapped.batched, mapped.made = Batched(f, in_axes, engine, summed=False), made
        return mapped
    if not callable(f):
        refuse(f"vmap takes a function, not `{f!r:.40}`")
    if isinstance(f, Derived):
        derived, sought = f, f.sought
        if sought is None:
            mapped = Derived("vmap", f.of, lambda args, keywords: _each(derived, args, keywords, in_axes))
            mapped.made = made
            return mapped
        mapped = Derived(
            "vmap",
            f.of,
            lambda args, keywords: batch_gradient(derived, sought, args, keywords, in_axes, engine, shared),
        )
        mapped.batched, mapped.made = Batched(f, in_axes, engine, summed=shared == "sum"), made
        return mapped
    return _Each(f, in_axes)


class _Each:
    """`vmap` of any function."""

    def __init__(self, f: Callable[..., Any], in_axes: Axes) -> None:
        self._f, self._in_axes = f, in_axes
        self.__name__ = f"vmap({getattr(f, '__name__', 'a function')})"

    def __call__(self, /, *args: Any, **keywords: Any) -> Any:
        return _each(self._f, args, keywords, self._in_axes)

    def __reduce__(self) -> tuple[Any, ...]:
        from retrograd.functions.pickling import need_name

        need_name(self._f)
        return vmap, (self._f, self._in_axes)


def _each(f: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any], in_axes: Axes) -> Any:
    """Any function, called for one element after the other."""
    called = getattr(f, "__name__", "the function")
    if isinstance(f, Derived):
        function = ~f.of if isinstance(f.of, Inverse) else f.of
        bind(function, args, keywords)
        parameters = [p.name for p in function.parameters]
        names = [*parameters[: len(args)], *keywords]
    else:
        function, parameters = None, [*(f"argument {i}" for i in range(len(args))), *keywords]
        names = parameters
    given = dict(zip(names, [*args, *keywords.values()], strict=True))
    columns, length = columns_of(called, function, parameters, given, in_axes)
    if not length:
        refuse(f"`{called}` is given no elements, and what it would return for them cannot be told")
    out = []
    for i in range(length):
        element = [columns[name].element(i) if name in columns else value for name, value in given.items()]
        positional = element[: len(args)]
        try:
            out.append(f(*positional, **dict(zip(keywords, element[len(args) :], strict=True))))
        except ProgramTrap as trap:
            raise ElementTrap(trap.diagnostics[0], trap.machine, trap.trap, i) from None
        except NotDifferentiable:
            raise  # it is of the types, which are those of all elements
        except InputError as error:
            d = error.diagnostics[0]
            raise InputError(replace(d, message=f"element {i}: {d.message}")) from None
    return _stacked(out)


def _stacked(found: list[Any]) -> Any:
    """Results of the elements as one, part by part."""
    first = found[0]
    if isinstance(first, tuple):
        parts = [_stacked([one[k] for one in found]) for k in range(len(first))]
        return type(first)(*parts) if hasattr(first, "_fields") else tuple(parts)
    if struct_of(type(first)) is not None:
        out = np.empty(len(found), dtype=object)
        out[:] = found
        return out
    if isinstance(first, np.ndarray | np.generic | int | float | complex):
        return np.stack([as_array(one) for one in found])
    return found
