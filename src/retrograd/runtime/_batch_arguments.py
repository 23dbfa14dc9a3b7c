"""Arrays in chunks as arguments of a batch: of Dask, of Zarr, or files of NumPy that are mapped into memory.

    ChunkedArray(source)[first:last] == np.asarray(source)[first:last],   and only these rows are read

Such an argument is read where its rows run, a task at a time, so a batch may be larger than memory.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn, cast

import numpy as np
from numpy.typing import NDArray

from retrograd.compiler.compiled import Compiled
from retrograd.compiler.frontends.python.source import SourceFunction
from retrograd.compiler.language.types import (
    FIXED,
    ArrayAnnotation,
    ArrayType,
    ScalarType,
    StackAnnotation,
    StackType,
    StaticType,
    StructType,
    Type,
    is_complex,
    static,
)
from retrograd.compiler.language.values import FormType, Structure
from retrograd.compiler.pipeline import Argument
from retrograd.isa.diagnostics import Diagnostic, InputError, nearest
from retrograd.isa.words import Format
from retrograd.runtime._arrays import Ragged, WordArray, as_array, is_lent_by_device, plain
from retrograd.runtime._binding import FurtherArguments, has_trees, located, restored, types_of, with_further
from retrograd.runtime._distribution import refuse as refuse_task
from retrograd.runtime._execution import Request
from retrograd.runtime._marshal import Losses, from_words, word_array
from retrograd.simulator.engines.batch.layout import Range, ResultArray, split_columns
from retrograd.simulator.engines.tiering import engine_named


def is_chunked(value: Any) -> bool:
    """Whether the object is an array of which parts are read on request."""
    if isinstance(value, np.memmap):
        return value.ndim > 0
    return not isinstance(value, np.ndarray) and all(hasattr(value, name) for name in ("chunks", "shape", "dtype"))


class ChunkedArray:
    """The elements of a batched argument, along axis 0."""

    def __init__(self, source: Any, what: str) -> None:
        self._source = source
        self.shape: tuple[int, ...] = tuple(source.shape)
        if not self.shape or not all(isinstance(n, int) for n in self.shape):
            hint = "`compute_chunk_sizes()` of Dask finds the sizes."
            refuse_task("RG1509", f"{what} is an array in chunks of shape {self.shape}", hint)
        self.ndim = len(self.shape)
        self.dtype = np.dtype(source.dtype)

    @property
    def folder(self) -> Path | None:
        """The folder of a mapped file, or of an archive of Zarr; None for other arrays."""
        file = getattr(self._source, "filename", None)
        if file is not None:
            return Path(file).resolve().parent
        root = getattr(getattr(self._source, "store", None), "root", None)
        return None if root is None else Path(root).resolve()

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, at: int | slice) -> Any:
        """An element, or rows: an array of NumPy, a copy."""
        found = self._source[at]
        if hasattr(found, "compute"):
            found = found.compute()  # NumPy would make an ordinary array of masked chunks
        return np.array(as_array(found))[()]


class ChunkedRows:
    """The rows of a batched argument as a batch takes them: words, or real numbers.

    `make(first, last)` gives rows [first, last).
    """

    def __init__(self, count: int, make: Callable[[int, int], NDArray[Any]]) -> None:
        self._count, self._make = count, make

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, at: slice) -> NDArray[Any]:
        """Rows in one piece."""
        first, last, _ = at.indices(self._count)
        return self._make(first, last)


# -----------------------------------------------------------------------------
# The arguments of a batch, along their axes, and their words as a matrix.

Axis = int | None | Sequence[int | None]
Axes = int | None | Sequence[Axis] | Mapping[str, Axis]
Words = NDArray[np.uint64]


def refuse(message: str, hint: str | None = None, function: SourceFunction | None = None, name: str = "") -> NoReturn:
    raise InputError(located(Diagnostic("RG0603", message, hint=hint), function, name))


@dataclass(frozen=True)
class _Column:
    """An argument's elements, the batch along axis 0; of stacks and of values with a form, a list."""

    items: Any
    #: of `*xs`: the positions of the values that all elements share
    shared: frozenset[int] = frozenset()

    def __len__(self) -> int:
        return len(self.items)

    def part(self, rows: slice | None) -> Any:
        """The elements, or some of them."""
        return self.items if rows is None else self.items[rows]

    def element(self, i: int) -> Any:
        item = self.items[i]
        return item.tolist() if isinstance(item, np.ndarray) and item.dtype == object else item

    def example(self) -> Any:
        """An element of the column's type; of an empty column, zeros."""
        if type(self.items) is not np.ndarray and on_device(self.items):
            return np.zeros(self.items.shape[1:], self.items.dtype)[()]
        if len(self):
            return self.element(0)
        if not isinstance(self.items, np.ndarray | ChunkedArray) or self.items.dtype == object:
            return None
        return np.zeros(self.items.shape[1:], self.items.dtype)[()]


def columns_of(
    called: str, function: SourceFunction | None, parameters: list[str], given: Mapping[str, Any], in_axes: Axes
) -> tuple[dict[str, _Column], int]:
    """(the batched arguments, how many elements they have)."""
    declared = {p.name: p for p in function.parameters} if function is not None else {}
    at = None if function is None else function.variadic
    if at is not None and isinstance(in_axes, Sequence) and not isinstance(in_axes, str | bytes):
        in_axes = (*in_axes[:at], cast("tuple[int | None, ...]", tuple(in_axes[at:])))
    single = {
        name
        for name, value in given.items()
        if (name in declared and declared[name].annotation is static)
        or isinstance(value, SourceFunction)
        or hasattr(value, "__retrograd_inverse_of__")
    }
    columns: dict[str, _Column] = {}
    for name, axis in _axes(called, parameters, given, single, in_axes).items():
        if isinstance(axis, tuple):
            columns[name] = _column_of_tuples(called, name, given[name], axis)
            continue
        stack = name in declared and _is_listed(declared[name].annotation)
        columns[name] = _Column(_along(called, name, given[name], axis, stack))
    if not columns:
        hint = "in_axes gives the axis of at least one of them"
        refuse(f"no argument of `{called}` is batched: how many elements there are cannot be told", hint)
    lengths = {name: len(column) for name, column in columns.items()}
    (first, expected), *others = lengths.items()
    for name, found in others:
        if found != expected:
            message = f"`{name}` of `{called}` has {found} element{'s' * (found != 1)}, and `{first}` has {expected}"
            hint = "Batched arguments are equally long along their axes; in_axes is None for what all elements share."
            refuse(message, hint, function, name)
    return columns, expected


def _axes(
    called: str, parameters: list[str], given: Mapping[str, Any], single: set[str], in_axes: Axes
) -> dict[str, int | tuple[int | None, ...]]:
    """The axes of the batched arguments; for `*xs` a tuple."""
    listed = f"its arguments are {', '.join(parameters)}"
    asked: dict[str, Any]
    if isinstance(in_axes, Mapping):
        for name in in_axes:
            if name not in parameters:
                refuse(f"in_axes: `{called}` has no argument {name!r:.40}", nearest(str(name), parameters) or listed)
        asked = {name: 0 for name in given if name not in single} | dict(in_axes)
    elif isinstance(in_axes, Sequence) and not isinstance(in_axes, str | bytes):
        asked = dict(zip(parameters, in_axes, strict=False))
        lacking = [name for name in given if name not in asked and name not in single]
        if len(in_axes) > len(parameters) or lacking:
            refuse(
                f"in_axes says {len(in_axes)} of the {len(parameters)} arguments of `{called}`",
                f"one for each: {listed}",
            )
    else:
        asked = {name: in_axes for name in given if name not in single}
    out: dict[str, int | tuple[int | None, ...]] = {}
    for name, axis in asked.items():
        if isinstance(given.get(name), FurtherArguments):
            axes = _axes_of_tuple(called, name, given[name], axis)
            if any(a is not None for a in axes):
                out[name] = axes
            continue
        if axis is None:
            continue
        try:
            if isinstance(axis, bool):
                raise TypeError
            out[name] = operator.index(axis)
        except TypeError:
            refuse(f"in_axes: the axis of `{name}` is {axis!r:.40}", "an axis is an integer, or None")
        if name in single:
            refuse(f"in_axes: `{name}` of `{called}` is known when it is compiled, and the same for all", "None for it")
        if name not in given:
            refuse(f"in_axes gives `{name}` of `{called}` an axis, and `{name}` is not given", "None for defaults")
    return out


def _axes_of_tuple(called: str, name: str, items: Sequence[Any], axis: Any) -> tuple[int | None, ...]:
    """The axis of each item of `*xs`; one axis stands for all of them."""
    each = list(axis) if isinstance(axis, Sequence) and not isinstance(axis, str | bytes) else [axis] * len(items)
    if len(each) != len(items):
        refuse(f"in_axes gives {len(each)} axes for the {len(items)} values of `*{name}` of `{called}`", "one for each")
    wrong = next(
        (a for a in each if a is not None and (isinstance(a, bool) or not isinstance(a, int | np.integer))), None
    )
    if wrong is not None:
        refuse(f"in_axes: the axis of `{name}` is {wrong!r:.40}", "an axis is an integer, or None")
    return tuple(None if a is None else int(a) for a in each)


def _column_of_tuples(called: str, name: str, items: Sequence[Any], axes: Sequence[int | None]) -> _Column:
    """The tuples of all elements: an item with an axis is taken along it, an item without is in each of them."""
    along = {
        i: _along(called, f"{name}[{i}]", items[i], axis, False) for i, axis in enumerate(axes) if axis is not None
    }
    lengths = {i: len(found) for i, found in along.items()}
    first, expected = next(iter(lengths.items()))
    for i, length in lengths.items():
        if length != expected:
            message = f"`{name}[{i}]` of `{called}` has {length} elements, and `{name}[{first}]` has {expected}"
            refuse(
                message,
                "Batched arguments are equally long along their axes; in_axes is None for what all elements share.",
            )
    tuples = [FurtherArguments(along[i][k] if i in along else x for i, x in enumerate(items)) for k in range(expected)]
    return _Column(tuples, frozenset(range(len(items))) - along.keys())


def _along(called: str, name: str, value: Any, axis: int, stack: bool) -> Any:
    """The elements of an argument along an axis."""
    if type(value) is np.ndarray and value.ndim and not axis and not stack:
        return value  # as most are
    what = f"`{name}` of `{called}`"
    if on_device(value):
        if not axis and value.ndim and not stack:
            return value
        value = value[...]
    if is_chunked(value) and not stack:
        if axis == 0:
            return ChunkedArray(value, what)
        if not isinstance(value, np.ndarray):
            refuse(f"{what} is an array in chunks, whose elements lie along axis 0", "in_axes is 0 for it, or None")
    if stack:
        if isinstance(value, np.ndarray) and value.ndim:
            value = list(value)
        if not isinstance(value, list | tuple) or axis != 0:
            refuse(f"{what} takes a list of its values, along axis 0")
        return value
    try:
        array = as_array(_on_host(value, name))
    except Ragged:
        refuse(f"{what} is given rows of different lengths", "Elements of a batch have one shape.")
    except InputError as error:
        d = error.diagnostics[0]
        raise InputError(replace(d, message=f"{what}: {d.message}")) from None
    if not -array.ndim <= axis < array.ndim:
        given = "one value" if array.ndim == 0 else f"an array of shape {array.shape}"
        hint = "in_axes is None for an argument that is the same for all elements"
        refuse(f"{what} is {given}: it has no axis {axis} to take elements along", hint)
    return np.moveaxis(array, axis, 0) if axis else array


def on_device(items: Any) -> bool:
    """Whether they are the `DeviceItems` of an argument."""
    return getattr(items, "where", None) is not None and hasattr(items, "given")


def _on_host(value: Any, name: str) -> Any:
    """The value itself, or a copy of an array on a CUDA device."""
    if isinstance(value, np.ndarray | np.generic | int | float | complex | list | tuple):
        return value
    if not (hasattr(value, "__dlpack_device__") or hasattr(value, "__cuda_array_interface__")):
        return value
    from retrograd.simulator.engines.cuda.device_arrays import copied_to_host

    return copied_to_host(value, f"`{name}`")


class Batch:
    """The arguments of a requested function, for many runs."""

    def __init__(self, request: Request, args: Sequence[Any], keywords: dict[str, Any], in_axes: Axes) -> None:
        self.request, self._reported = request, False
        self.function = function = request.function
        names = [p.name for p in function.parameters]
        args, keywords = with_further(function, args, keywords)
        for p in function.parameters[function.first_result :]:
            if isinstance(p.annotation, Structure):
                hint = "Results of a batch are numbers and arrays: take the list or the data class apart inside."
                refuse(
                    f"`{function.__name__}` gives a {p.annotation}, whose size may differ from element to element", hint
                )
            if isinstance(p.annotation, ArrayAnnotation) and p.name not in (*names[: len(args)], *keywords):
                hint = f"Give room for it: `{p.name}=np.zeros((…))`, with an axis for the elements in front."
                refuse(
                    f"`{function.__name__}` gives an array, whose shape is not found in a batch", hint, function, p.name
                )
        self.values = dict(zip(names, request.values(tuple(args), keywords), strict=True))
        #: the device of arguments that lie on one, and stay there
        self.device: int | None = None
        if any(map(is_lent_by_device, self.values.values())):
            self._leave_on_device()
        given = {name: self.values[name] for name in (*names[: len(args)], *keywords)}
        self.columns, self.length = columns_of(function.__name__, function, names, given, in_axes)
        for name, value in self.values.items():
            if name not in self.columns and is_chunked(value):
                self.values[name] = np.asarray(value[...])

    def _leave_on_device(self) -> None:
        """Take arrays of float64s and float32s on a device where they are; others are copied.

        A named engine of the CPU, workers and stores need copies.
        """
        from retrograd.runtime._device import copied, items_of
        from retrograd.simulator.engines.cuda.device_arrays import is_device_array

        stays = engine_named(self.request.engine) in ("auto", "cuda") and self.request.over is None
        for name, value in self.values.items():
            if is_lent_by_device(value) and is_device_array(value):
                found = items_of(value, f"`{name}`") if stays else None
                self.values[name] = copied(value, f"`{name}`") if found is None else found
                self.device = self.device if found is None else found.where.index

    def element(self, i: int) -> list[Any]:
        """The arguments of one run."""
        found = [self.columns[name].element(i) if name in self.columns else v for name, v in self.values.items()]
        return found if self.device is None else [v[...] if on_device(v) else v for v in found]

    def shares(self, a: Argument) -> bool:
        """Whether an argument, or a part of one, is the same for all elements."""
        name = a.name.partition("[")[0].partition(".")[0]
        if name not in self.columns:
            return True
        item = a.name.removeprefix(f"{name}[").partition("]")[0]
        return item.isdigit() and int(item) in self.columns[name].shared

    def given(self, name: str) -> Callable[[int], Any]:
        """The given value of an argument, by element."""
        return self.columns[name].element if name in self.columns else lambda _: self.values[name]

    def types(self) -> tuple[Type, ...]:
        """The types of the arguments, the same for every element. Raises InputError."""
        example = [
            self.columns[name].example()
            if name in self.columns
            else v.example()
            if self.device is not None and on_device(v)
            else v
            for name, v in self.values.items()
        ]
        found = self.function.types_of(example)
        if any(is_listed(t) for t in found):
            for i in range(self.length):
                own = types_of(self.function, self.element(i))  # each stack may be too long
                for p, t, other in zip(self.function.parameters, found, own, strict=True):
                    if isinstance(t, FormType) and t != other:
                        message = f"`{p.name}` of `{self.function.__name__}` has another form in element {i} than in element 0"
                        hint = "Lists have one length, and data classes one form, throughout a batch."
                        refuse(message, hint, self.function, p.name)
        return found

    def compiled(self, whole_memory: bool = False) -> Compiled:
        """The program for every element.

        `whole_memory`: a row costs all words of memory, as it does on a GPU. Raises CompileError, InputError.
        """
        types, request = self.types(), self.request
        found = self.function.compiled_for(types, request.format, request.options)
        if not whole_memory and self.device is None and request.engine != "cuda":
            return found
        return self.function.compiled_for(types, request.format, request.for_whole_memory(found).options)

    def words(self, compiled: Compiled) -> Loaded:
        """The words of all arguments. Raises InputError naming argument and element.

        Arrays of float64s stay as they are: compiled code converts them row by row, and `Loaded.rows` does where it is
        read.
        Numbers that lose most of their bits are reported, those of an array in chunks by the first part that has some.
        """
        losses = None if self._reported or compiled.options.precision == "ignore" else Losses()
        self._reported = True
        try:
            shared, arrays = self._arrays(compiled, later=True, losses=losses)
        except InputError:
            self._arrays(compiled, later=False)  # the error of the first argument that has one
            raise
        if losses is not None:
            losses.report(compiled)
        rowed = [a for a in compiled.arguments if a.name in self.columns]
        if self.device is not None:
            rowed = [a for a in self._in_order(compiled) if self._has_rows(a)]
        ranges = {a.name: (a.address, a.type.size) for a in rowed}

        def convert(rows: slice | None) -> Sequence[Words]:
            return self._arrays(compiled, later=False, rows=rows)[1]

        def report() -> None:
            found = Losses()
            for a in rowed:
                if losses is not None and on_device(value := self._items(a)):
                    found.array(a.name, as_array(value[...]), compiled.format)
            found.report(compiled)

        return Loaded(ranges, None, shared, arrays, convert, None if self.device is None else report)

    def _in_order(self, compiled: Compiled) -> list[Argument]:
        """The arguments, those with rows at the end."""
        return sorted(compiled.arguments, key=lambda a: a.name in self.columns)

    def _items(self, a: Argument) -> Any:
        return self.columns[a.name].items if a.name in self.columns else self.values.get(a.name)

    def _has_rows(self, a: Argument) -> bool:
        """Whether an argument is batched, or lies on a device as numbers, where it is read for each row."""
        if a.name in self.columns:
            return True
        return self.device is not None and element_type(a.type) == FIXED and on_device(self.values.get(a.name))

    def _arrays(
        self, compiled: Compiled, later: bool, rows: slice | None = None, losses: Losses | None = None
    ) -> tuple[Words, list[Any]]:
        """(the first words of memory, the rows of each batched argument: words, or with `later` real numbers and arrays in chunks)"""
        shared = np.zeros(compiled.argument_words, dtype=np.uint64)
        arrays: list[Any] = []
        for a in self._in_order(compiled):
            try:
                if a.name not in self.columns:
                    value, rowed = self.values[a.name], self._has_rows(a)
                    if rowed and later:
                        arrays.append(self._device_rows(value, a, shared=True))
                        continue
                    value = value[...] if self.device is not None and on_device(value) else value
                    words = word_array(a.type, value, compiled.format, a.name, losses)
                    if rowed:
                        count = self.length if rows is None else len(range(*rows.indices(self.length)))
                        arrays.append(np.broadcast_to(words, (count, a.type.size)))
                    else:
                        shared[a.address : a.address + a.type.size] = words
                else:
                    arrays.append(self._rows_of(a, compiled, later, rows, losses))
            except InputError as error:
                raise InputError(located(error.diagnostics[0], self.function, a.name)) from None
        return shared, arrays

    def _rows_of(self, a: Argument, compiled: Compiled, later: bool, rows: slice | None, losses: Losses | None) -> Any:
        """The rows of a batched argument."""
        w = compiled.format
        if (
            self.device is not None
            and on_device(self.columns[a.name].items)
            and later
            and element_type(a.type) == FIXED
        ):
            return self._device_rows(self.columns[a.name].items, a)
        items = self.columns[a.name].part(rows)
        if isinstance(items, ChunkedArray):
            if later:
                return ChunkedRows(self.length, self._chunk_maker(a, compiled, losses is not None))
            items = items[:]
        if self.device is not None and on_device(items):
            items = items[...]
        shape = len(items), a.type.size
        # An array of objects has a list or a tuple for each element, where arrays of structs are given as such.
        listed = (
            isinstance(a.type, ArrayType)
            and isinstance(items, np.ndarray)
            and items.dtype == object
            and items.ndim == 1
        )
        if listed or is_listed(a.type) or is_tuple(a.type):
            out = np.zeros(shape, dtype=np.uint64)
            for i, item in enumerate(items):
                out[i] = word_array(a.type, item, w, a.name, losses)
            return out
        reals = later and element_type(a.type) == FIXED and _only_reals(items)
        if reals and losses is not None:
            losses.array(a.name, plain(items), w)
        array = plain(items) if reals else word_array(many(a.type, len(items)), items, w, a.name, losses)
        return array.reshape(shape)

    def _device_rows(self, items: Any, a: Argument, shared: bool = False) -> Any:
        from retrograd.runtime._device import DeviceRows

        return DeviceRows(items, self.length, a.type.size, shared)

    def _chunk_maker(self, a: Argument, compiled: Compiled, report: bool) -> Callable[[int, int], NDArray[Any]]:
        """The rows [first, last) of an array in chunks.

        `report`: the numbers that lose most of their bits, in the first part that has some.
        """
        reported = not report

        def make(first: int, last: int) -> NDArray[Any]:
            nonlocal reported
            losses = None if reported else Losses()
            if losses is not None:
                losses.begin = first
            found: NDArray[Any] = self._rows_of(a, compiled, True, slice(first, last), losses)
            if losses:
                reported = True
                losses.report(compiled)
            return found

        return make


def _only_reals(items: Any) -> bool:
    """Whether they are float64s without words of their own."""
    known = isinstance(items, np.ndarray) and items.dtype == np.float64 and items.flags.aligned
    return known and (not isinstance(items, WordArray) or items.origin is None)


class Loaded:
    """The arguments of a batch: the rows of batched arguments, and one copy of the words of the shared ones.

    `ranges`: the places of batched arguments in memory, by name, in the order of the rows' columns. `shared`: the first
    words of memory, zeros where rows go. `arrays`: rows for each of the ranges, words, float64s or `ChunkedRows`; by
    default those of `rows`, a matrix of words. `convert` makes words of all `arrays`, or of some rows. `report`, where
    some rows lie on a device: reports their numbers that lose most of their bits.
    """

    def __init__(
        self,
        ranges: dict[str, Range],
        rows: Words | None,
        shared: Words,
        arrays: Sequence[Any] = (),
        convert: Callable[[slice | None], Sequence[Words]] = lambda _: (),
        report: Callable[[], None] | None = None,
    ) -> None:
        self.ranges, self.shared = ranges, shared
        self._rows, self._convert, self.report = rows, convert, report
        #: the ranges of memory, adjacent ranges of one matrix joined, and an array of rows for each of them
        self.given: tuple[Range, ...] = tuple(ranges.values()) if rows is None else _joined_ranges(ranges.values())
        self.arrays = list(arrays) if rows is None else split_columns(rows, self.given)

    def __len__(self) -> int:
        return len(self.arrays[0])

    @property
    def is_chunked(self) -> bool:
        """Whether some rows are read on request."""
        return any(isinstance(array, ChunkedRows) for array in self.arrays)

    @property
    def rows(self) -> Words:
        """The words of all rows. Raises InputError naming an element that has none."""
        if self._rows is None:
            self._rows = np.concatenate(self._convert(None), axis=1)
        return self._rows

    @property
    def is_on_device(self) -> bool:
        """Whether some rows lie on a CUDA device."""
        return self.report is not None and any(hasattr(array, "items") for array in self.arrays)

    def in_memory(self, device: bool = True) -> Loaded:
        """The same, with no rows that are read on request; without `device` also with none on a device."""
        if self.is_chunked or (not device and self.is_on_device):
            return Loaded(self.ranges, self.rows, self.shared)
        return self

    def part(self, first: int, last: int) -> Loaded:
        """Some rows, in memory."""
        if self._rows is not None:
            return Loaded(self.ranges, self._rows[first:last], self.shared)
        arrays = [array[first:last] for array in self.arrays]

        def convert(rows: slice | None) -> Sequence[Words]:
            start, stop, _ = (rows or slice(None)).indices(last - first)
            return self._convert(slice(first + start, first + stop))

        return Loaded(self.ranges, None, self.shared, arrays, convert)

    def at(self, which: Sequence[int]) -> Loaded:
        """The rows of these numbers, as words."""
        if self.is_chunked:
            rows = np.vstack([self.part(i, i + 1).rows for i in which])
        else:
            rows = self.rows[which]
        return Loaded(self.ranges, rows, self.shared)

    def of(self, name: str) -> Words:
        """The columns of a batched argument: a view."""
        at = 0
        for other, (_, count) in self.ranges.items():
            if other == name:
                return self.rows[:, at : at + count]
            at += count
        raise KeyError(name)

    def with_rows(self, name: str, address: int, words: Words) -> Loaded:
        """The same with further words of memory from `address` on, one row for each element, under a name of their own."""
        ranges = self.ranges | {name: (address, words.shape[1])}
        return Loaded(ranges, np.hstack([self.rows, words]), self.shared)

    def with_words(self, words: Mapping[int, int]) -> Loaded:
        """The same with further words of memory, by address, equal in all rows."""
        if not words:
            return self
        more = np.broadcast_to(np.array([*words.values()], dtype=np.uint64), (len(self), len(words)))
        ranges = {f"at {address}": (address, 1) for address in words}
        if self.is_chunked:

            def convert(rows: slice | None) -> Sequence[Words]:
                return [*self._convert(rows), more if rows is None else more[rows]]

            columns = [more[:, k : k + 1] for k in range(len(words))]
            return Loaded(self.ranges | ranges, None, self.shared, [*self.arrays, *columns], convert)
        return Loaded(self.ranges | ranges, np.hstack([self.rows, more]), self.shared)

    @property
    def matrix(self) -> Words:
        """The words of all arguments, one row for each element."""
        out = np.tile(self.shared, (len(self.rows), 1))
        for name, (address, count) in self.ranges.items():
            out[:, address : address + count] = self.of(name)
        return out


def _joined_ranges(ranges: Iterable[Range]) -> tuple[Range, ...]:
    """The ranges, adjacent ones joined."""
    out: list[Range] = []
    for address, count in ranges:
        if out and sum(out[-1]) == address:
            out[-1] = out[-1][0], out[-1][1] + count
        else:
            out.append((address, count))
    return tuple(out)


def many(t: Type, length: int) -> ArrayType:
    """The type of `length` values of a type, one after the other."""
    if isinstance(t, ArrayType):
        return ArrayType(t.element, (length, *t.shape))
    assert not isinstance(t, StackType | StaticType)
    return ArrayType(t, (length,))


def is_listed(t: Type | FormType) -> bool:
    """Whether values of a type are lists, of a length for each row: stacks, arrays of stacks, values of a form."""
    return isinstance(t.element if isinstance(t, ArrayType) else t, StackType | FormType)


def _is_listed(annotation: Any) -> bool:
    """`is_listed`, of the type that an annotation names."""
    element = annotation.element if isinstance(annotation, ArrayAnnotation) else annotation
    return isinstance(element, StackAnnotation | Structure)


def stacked_values(t: Type, found: ResultArray, w: Format, rows: int = 0) -> Any:
    """The values that the rows hold, stacked. `rows`: their number, where they may lie on a device."""
    if isinstance(t, StaticType):
        return t.value
    if isinstance(t, StructType) and is_tuple(t):
        assert found.words is not None
        columns, at = [], 0
        for _, inner in t.fields:
            columns.append(stacked_values(inner, ResultArray(found.words[:, at : at + inner.size], None, w), w))
            at += inner.size
        return FurtherArguments(columns)
    shape = t.shape if isinstance(t, ArrayType) else ()
    if found.there and element_type(t) == FIXED and (there := found.on_device((rows, *shape))) is not None:
        return there
    if found.reals is not None and not found.large:
        return found.reals.reshape(len(found.reals), *shape)
    words = found.words
    assert words is not None
    if is_listed(t):
        return [from_words(t, row, w) for row in words.tolist()]
    all_ = many(t, len(words))
    # Numbers may lie apart, as columns of a matrix do; structs are put together word by word.
    return from_words(all_, words if isinstance(all_.element, ScalarType) else words.ravel(), w)


def in_given_form(t: Type, given: Callable[[int], Any], stacked: Any) -> Any:
    """Stacked values in the form in which each element was given: trees as a list of trees, the values of `*xs` part by part."""
    if isinstance(t, StructType) and is_tuple(t):
        return FurtherArguments(
            in_given_form(inner, lambda i, k=k: given(i)[k], part)  # type: ignore[misc]
            for k, ((_, inner), part) in enumerate(zip(t.fields, stacked, strict=True))
        )
    if not has_trees(t) or is_complex(element_type(t)):
        return stacked
    return [restored(t, given(i), one) for i, one in enumerate(stacked)]


def is_tuple(t: Type) -> bool:
    """Whether a type is that of `*xs`, or of a tuple of several types; a batch of lists is an array of structs."""
    return isinstance(t, StructType) and t.is_tuple and t.cls.__name__ == "tuple"


def element_type(t: Type) -> Type:
    """The type of an array's elements; of any other type, that type."""
    return t.element if isinstance(t, ArrayType) else t
