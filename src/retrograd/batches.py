"""One function on many inputs: compiled once, and run for each element of a batch.

    run_batch(f, xs).values.y[i] == run(f, xs[i]).values.y,  bit for bit

A batch is a matrix of words, one row for each element, in the order of the arguments: `_run_on_reference` takes it to the
matrix afterwards, and is what a faster engine takes the place of.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from retrograd.compiler.compiled import Compiled, Options
from retrograd.compiler.source import SourceFunction
from retrograd.compiler.types import ArrayType, StackAnnotation, StackType, StaticType, Type, static, struct_of
from retrograd.differentiation.arguments import Derived, NotDifferentiable
from retrograd.execution import ENGINES, ProgramTrap, execute
from retrograd.functions import Inverse, Reversible, results
from retrograd.isa.diagnostics import Diagnostic, InputError, nearest
from retrograd.isa.words import Format
from retrograd.marshal import bind, from_words, located, to_words, types_of
from retrograd.simulator.machine import REGISTERS, Machine, Trap

Axes = int | None | Sequence[int | None] | Mapping[str, int | None]
Words = NDArray[np.uint64]
Counts = NDArray[np.int64]


class ElementTrap(ProgramTrap):
    """A trap in one element of a batch; `machine` is that element's, and can run back to its start."""

    def __init__(self, diagnostic: Diagnostic, machine: Machine, trap: Trap | None, element: int) -> None:
        super().__init__(replace(diagnostic, message=f"element {element}: {diagnostic.message}"), machine, trap)
        self.element = element


@dataclass
class BatchResult:
    """Finished runs: `values` are all arguments afterwards, stacked along axis 0, by position and name."""

    values: Any
    #: of each element
    steps: Counts
    #: by each element
    erased_bits: Counts
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
    format: Format | None = None,
    options: Options | None = None,
    overflow: bool = True,
    **keywords: Any,
) -> BatchResult:
    """Run a reversible function on each element of a batch: element i of every argument, along the axis `in_axes`.

    `in_axes`: one axis for all, or an axis for each argument, by position or by name (0 for those not named); None gives every element
    the same initial value. Static arguments, functions and defaults are the same for all. All arguments come back
    stacked along axis 0, since every element may change them: arrays of numbers, arrays of structs, lists for stacks.
    Elements run in order, with `max_steps` for each. Raises CompileError, InputError naming the argument, ElementTrap
    naming the element.
    """
    return _run(function, args, keywords, in_axes, engine, backward, max_steps, format, options, overflow)


def _run(
    function: Reversible | Inverse,
    args: tuple[Any, ...],
    keywords: dict[str, Any],
    in_axes: Axes,
    engine: str = "auto",
    backward: bool = False,
    max_steps: int | None = None,
    format: Format | None = None,
    options: Options | None = None,
    overflow: bool = True,
) -> BatchResult:
    if engine not in ENGINES:
        _refuse(f"there is no engine `{engine}`", f"engines: {', '.join(ENGINES)}")
    if isinstance(function, Inverse):
        function, backward = ~function, not backward
    if not isinstance(function, Reversible):
        name = getattr(function, "__name__", None) or f"{function!r:.40}"
        _refuse(f"`{name}` is no reversible function", "Use @reversible.")
    batch = _Batch(function, args, keywords, in_axes)
    compiled = function.compiled_for(batch.types(), format, options)
    after, steps, erased = _run_on_reference(
        compiled, batch.words(compiled), backward=backward, overflow=overflow, limit=max_steps
    )
    values = []
    for a in compiled.arguments:
        part = after[:, a.address : a.address + a.type.size]
        values.append(_values(a.type, part, compiled.format))
    return BatchResult(results(function, values), steps, erased, compiled, after)


def _run_on_reference(
    compiled: Compiled, batch: Words, *, backward: bool, overflow: bool, limit: int | None
) -> tuple[Words, Counts, Counts]:
    """(words after, steps, erased bits) of each element. Raises ElementTrap."""
    after = np.zeros_like(batch)
    steps, erased = (np.zeros(len(batch), dtype=np.int64) for _ in range(2))
    # To decode a program takes as long as a hundred steps: one machine serves for all.
    machine = Machine(compiled.program, backward=backward, overflow=overflow)
    blank, origin = list(machine.memory), machine.pc
    for i, row in enumerate(batch.tolist()):
        machine.memory[:] = blank
        machine.memory[: len(row)] = row
        machine.registers[:] = [0] * REGISTERS
        machine.pc, machine.br, machine.direction = origin, 0, -1 if backward else 1
        for hits in machine.executed.values():
            hits[:] = [0] * len(hits)
        try:
            execute(compiled, machine, limit)
        except ProgramTrap as trap:
            raise ElementTrap(trap.diagnostics[0], trap.machine, trap.trap, i) from None
        after[i] = machine.memory[: len(row)]
        steps[i], erased[i] = machine.retired, machine.erased_bits
    return after, steps, erased


def vmap(f: Callable[..., Any], in_axes: Axes = 0) -> Callable[..., Any]:
    """g(*args) = f on each element of its arguments along their axes, the results stacked along axis 0.

    f: a reversible function or its inverse, see `run_batch`; what rg.grad, value_and_grad and jacobian return;
    another vmap; any function of numbers, arrays and structs. Tuples are stacked part by part, structs become arrays of
    structs, anything else a list. Raises InputError, ElementTrap.
    """
    if isinstance(f, Reversible | Inverse):
        return Derived("vmap", f, lambda args, keywords: _run(f, args, keywords, in_axes).values)
    if not callable(f):
        _refuse(f"vmap takes a function, not `{f!r:.40}`")
    if isinstance(f, Derived):
        return Derived("vmap", f.of, lambda args, keywords: _each(f, args, keywords, in_axes))
    return lambda *args, **keywords: _each(f, args, keywords, in_axes)


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
    columns, length = _columns(called, function, parameters, given, in_axes)
    if not length:
        _refuse(f"`{called}` is given no elements, and what it would return for them cannot be told")
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
        return np.stack([np.asarray(one) for one in found])
    return found


# ---------------------------------------------------------------------- arguments


def _refuse(message: str, hint: str | None = None, function: Reversible | None = None, name: str = "") -> NoReturn:
    raise InputError(located(Diagnostic("RG0603", message, hint=hint), function, name))


@dataclass(frozen=True)
class _Column:
    """An argument's elements, the batch along axis 0; of stacks, a list of lists."""

    items: Any

    def __len__(self) -> int:
        return len(self.items)

    def element(self, i: int) -> Any:
        item = self.items[i]
        return item.tolist() if isinstance(item, np.ndarray) and item.dtype == object else item

    def example(self) -> Any:
        """An element to tell the type by, if need be made up."""
        if len(self):
            return self.element(0)
        if not isinstance(self.items, np.ndarray) or self.items.dtype == object:
            return None
        return np.zeros(self.items.shape[1:], self.items.dtype)[()]


def _columns(
    called: str, function: Reversible | None, parameters: list[str], given: Mapping[str, Any], in_axes: Axes
) -> tuple[dict[str, _Column], int]:
    """(the batched arguments, how many elements they have)."""
    declared = {p.name: p for p in function.parameters} if function is not None else {}
    single = {
        name
        for name, value in given.items()
        if (name in declared and declared[name].annotation is static)
        or isinstance(value, SourceFunction)
        or hasattr(value, "__retrograd_inverse_of__")
    }
    columns: dict[str, _Column] = {}
    for name, axis in _axes(called, parameters, given, single, in_axes).items():
        stack = name in declared and isinstance(declared[name].annotation, StackAnnotation)
        columns[name] = _Column(_along(called, name, given[name], axis, stack))
    if not columns:
        hint = "in_axes gives the axis of at least one of them"
        _refuse(f"no argument of `{called}` is batched: how many elements there are cannot be told", hint)
    lengths = {name: len(column) for name, column in columns.items()}
    (first, expected), *others = lengths.items()
    for name, found in others:
        if found != expected:
            message = f"`{name}` of `{called}` has {found} element{'s' * (found != 1)}, and `{first}` has {expected}"
            hint = "Batched arguments are equally long along their axes; in_axes is None for what all elements share."
            _refuse(message, hint, function, name)
    return columns, expected


def _axes(
    called: str, parameters: list[str], given: Mapping[str, Any], single: set[str], in_axes: Axes
) -> dict[str, int]:
    """The axes of the batched arguments."""
    listed = f"its arguments are {', '.join(parameters)}"
    asked: dict[str, Any]
    if isinstance(in_axes, Mapping):
        for name in in_axes:
            if name not in parameters:
                _refuse(f"in_axes: `{called}` has no argument {name!r:.40}", nearest(str(name), parameters) or listed)
        asked = {name: 0 for name in given if name not in single} | dict(in_axes)
    elif isinstance(in_axes, Sequence) and not isinstance(in_axes, str | bytes):
        asked = dict(zip(parameters, in_axes, strict=False))
        lacking = [name for name in given if name not in asked and name not in single]
        if len(in_axes) > len(parameters) or lacking:
            _refuse(
                f"in_axes says {len(in_axes)} of the {len(parameters)} arguments of `{called}`",
                f"one for each: {listed}",
            )
    else:
        asked = {name: in_axes for name in given if name not in single}
    out: dict[str, int] = {}
    for name, axis in asked.items():
        if axis is None:
            continue
        try:
            if isinstance(axis, bool):
                raise TypeError
            out[name] = operator.index(axis)
        except TypeError:
            _refuse(f"in_axes: the axis of `{name}` is {axis!r:.40}", "an axis is an integer, or None")
        if name in single:
            _refuse(
                f"in_axes: `{name}` of `{called}` is known when it is compiled, and the same for all", "None for it"
            )
        if name not in given:
            _refuse(f"in_axes gives `{name}` of `{called}` an axis, and `{name}` is not given", "None for defaults")
    return out


def _along(called: str, name: str, value: Any, axis: int, stack: bool) -> Any:
    """The elements of an argument along an axis."""
    what = f"`{name}` of `{called}`"
    if stack:
        if not isinstance(value, list | tuple) or axis != 0:
            _refuse(f"{what} takes a list of stacks, along axis 0")
        return value
    try:
        array = np.asarray(value)
    except ValueError:
        _refuse(f"{what} is given rows of different lengths", "Elements of a batch have one shape.")
    if not -array.ndim <= axis < array.ndim:
        given = "one value" if array.ndim == 0 else f"an array of shape {array.shape}"
        hint = "in_axes is None for an argument that is the same for all elements"
        _refuse(f"{what} is {given}: it has no axis {axis} to take elements along", hint)
    return np.moveaxis(array, axis, 0)


class _Batch:
    """The arguments of a reversible function, for many runs."""

    def __init__(self, function: Reversible, args: tuple[Any, ...], keywords: dict[str, Any], in_axes: Axes) -> None:
        self.function = function
        names = [p.name for p in function.parameters]
        self.values = dict(zip(names, bind(function, args, keywords), strict=True))
        given = {name: self.values[name] for name in (*names[: len(args)], *keywords)}
        self.columns, self.length = _columns(function.__name__, function, names, given, in_axes)

    def element(self, i: int) -> list[Any]:
        """The arguments of one run."""
        return [self.columns[name].element(i) if name in self.columns else v for name, v in self.values.items()]

    def types(self) -> tuple[Type, ...]:
        """The types of every element's arguments. Raises InputError."""
        example = [self.columns[name].example() if name in self.columns else v for name, v in self.values.items()]
        found = types_of(self.function, example)
        if any(isinstance(t, StackType) for t in found):
            for i in range(self.length):
                types_of(self.function, self.element(i))  # each stack may be too long
        return found

    def words(self, compiled: Compiled) -> Words:
        """The matrix of words. Raises InputError naming argument and element."""
        out = np.zeros((self.length, sum(a.type.size for a in compiled.arguments)), dtype=np.uint64)
        for a in compiled.arguments:
            place = out[:, a.address : a.address + a.type.size]
            try:
                if a.name not in self.columns:
                    place[:] = np.array(to_words(a.type, self.values[a.name], compiled.format, a.name), dtype=np.uint64)
                elif isinstance(a.type, StackType):
                    for i, item in enumerate(self.columns[a.name].items):
                        place[i] = to_words(a.type, item, compiled.format, a.name)
                else:
                    many = _many(a.type, self.length)
                    words = to_words(many, self.columns[a.name].items, compiled.format, a.name)
                    place[:] = np.array(words, dtype=np.uint64).reshape(place.shape)
            except InputError as error:
                raise InputError(located(error.diagnostics[0], self.function, a.name)) from None
        return out


def _many(t: Type, length: int) -> ArrayType:
    """The type of so many values of a type, one after the other."""
    if isinstance(t, ArrayType):
        return ArrayType(t.element, (length, *t.shape))
    assert not isinstance(t, StackType | StaticType)
    return ArrayType(t, (length,))


def _values(t: Type, words: Words, w: Format) -> Any:
    """The values that the rows hold, stacked."""
    if isinstance(t, StaticType):
        return t.value
    if isinstance(t, StackType):
        return [from_words(t, row, w) for row in words.tolist()]
    return from_words(_many(t, len(words)), words.ravel().tolist(), w)
