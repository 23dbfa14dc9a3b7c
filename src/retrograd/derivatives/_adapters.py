"""Reversible functions in other systems of differentiation: what all share, then JAX; `_torch_adapter` has Torch.

    g = to_jax(f);    jax.grad(g)(x) = rg.grad(f)(x)             rounded to the dtype of x

Adapted(f, outputs).results(values, rank)     the chosen results, as arrays
Adapted(f, outputs).pulled(values, ȳ, rank)   cotangents of the chosen results → cotangents of the arguments, None where there are none
Adapted(f, outputs).pushed(values, ẋ, rank)   tangents of the arguments → tangents of the chosen results
Adapted(f, outputs).curved(values, ẋ, ȳ, rank)   the change of `pulled` in the direction ẋ: Σₖ ȳₖ Hₖ ẋ

The other system's vmap, applied `rank` times, puts `rank` axes in front of each array. An axis of length 1 is shared by all elements.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from retrograd.compiler.compiled import Precision
from retrograd.compiler.frontends.python.source import NOTHING
from retrograd.compiler.language.types import ArrayAnnotation, StackAnnotation, static
from retrograd.compiler.language.values import Structure
from retrograd.derivatives._arguments import chosen_parts, differentiable, direction_of, is_one, refuse
from retrograd.derivatives._gradients import batch_pullback
from retrograd.derivatives._requests import pullback_alone
from retrograd.derivatives._tangents import hvp, jvp
from retrograd.isa.diagnostics import Diagnostic, InputError
from retrograd.isa.words import Format
from retrograd.runtime._arrays import of_own_type
from retrograd.runtime._batch_arguments import Axis, in_given_form
from retrograd.runtime._batches import batch_run
from retrograd.runtime._binding import FurtherArguments, bind, is_tree
from retrograd.runtime._execution import ArgumentPart, Scale, Which
from retrograd.runtime._reversible import Inverse, Reversible
from retrograd.simulator.engines.tiering import engine_named

# -----------------------------------------------------------------------------
# What every system shares.


class Adapted:
    """A reversible function whose results at the positions `chosen` are returned to another system."""

    def __init__(
        self,
        f: Reversible | Inverse,
        outputs: Which,
        scale: Scale,
        engine: str,
        format: Format | str | None,
        precision: Precision | None,
        trees: Trees,
    ) -> None:
        self.trees = trees
        self.function, _ = direction_of(f)
        self._options: dict[str, Any] = {"scale": scale, "engine": engine, "format": format, "precision": precision}
        self.f, self.single = f, is_one(outputs)
        #: the parts that are returned, and the arguments that hold them
        self.parts = chosen_parts(f, outputs) or [ArgumentPart(i) for i in range(len(self.function.parameters))]
        self.chosen = [*dict.fromkeys(p.position for p in self.parts)]
        # Checked now: JAX raises errors of a call as its own.
        self.function.format_for(format)
        engine_named(engine)
        self._request = differentiable(f, scale, engine, format, precision)
        parameters = self.function.parameters
        self.static = [p.annotation is static for p in parameters]
        #: values whose size may differ from element to element are no results of a batch
        self._by_element = any(isinstance(p.annotation, Structure | StackAnnotation) for p in parameters)

    def values(self, args: tuple[Any, ...], keywords: dict[str, Any]) -> list[Any]:
        """The arguments in the order of the parameters. Raises InputError."""
        values = bind(self.function, args, keywords)
        given = zip(values, self.function.parameters, strict=True)
        return [tuple(v) if p.variadic else _array(v, p.annotation) for v, p in given]

    def results(self, values: Sequence[Any], rank: int) -> list[NDArray[Any]]:
        """The leaves of the chosen results, with the axes of all elements in front. Raises CompileError, InputError, ProgramTrap."""
        elements = self._elements(values, rank)
        if elements.single:
            each = [self._request.called(tuple(elements.values), {})]
        elif self._by_element:
            each = [self._request.called(tuple(elements.element(k)), {}) for k in range(elements.count)]
        else:
            ran = batch_run(self._request, elements.values, {}, self._axes(elements))
            types = [a.type for a in ran.compiled.arguments]
            found = [in_given_form(types[i], elements.given(i), ran.values[i]) for i in self.chosen]
            return [leaf for one in found for leaf in elements.leaves(one)]
        return [leaf for i in self.chosen for leaf in elements.leaves([one[i] for one in each])]

    def pulled(self, values: Sequence[Any], cotangents: Sequence[Any], rank: int) -> list[list[NDArray[Any]] | None]:
        """The leaves of the cotangent of each argument, as `results`; None for an argument without a derivative.

        `cotangents`: of the chosen results, trees of arrays with the same axes in front; None is zero.
        """
        known = [self.trees.flatten(c)[0] for c in cotangents if c is not None]
        elements = self._elements(values, rank, leading([leaf for leaves in known for leaf in leaves], rank))
        variadic = [self.function.parameters[i].variadic for i in self.chosen]
        own = _Elements(
            [FurtherArguments(c) if v and c is not None else c for c, v in zip(cotangents, variadic, strict=True)],
            [c is None for c in cotangents], self.trees, rank, elements.lead,
        )  # fmt: skip
        if elements.single or self._by_element:
            each = [
                pullback_alone(self._request, elements.element(k))(self._placed(own.element(k)))._asdict()
                for k in range(elements.count)
            ]
            pulled = {name: [one[name] for one in each] for name in each[0]}
        else:
            elements.need_axis()
            pulled = batch_pullback(
                self._request, elements.values, self._axes(elements),
                self._placed([own.whole(i) for i in range(len(variadic))]),
            )._asdict()  # fmt: skip
        names = [p.name for p in self.function.parameters]
        return [elements.leaves(pulled[name]) if name in pulled else None for name in names]

    def tangents_of(self, arrays: Sequence[Any], real: Sequence[bool], without: Mapping[int, Any]) -> list[Any]:
        """The tangents of all arguments from those of the arguments that are not in `without`; None where not `real`."""
        found = iter([a if r else None for a, r in zip(arrays, real, strict=True)])
        return [None if i in without else next(found) for i in range(len(self.static))]

    def pushed(self, values: Sequence[Any], tangents: Sequence[Any], rank: int) -> list[NDArray[Any]]:
        """The leaves of the tangent of each chosen result, as `results`; 0 for one without a derivative.

        `tangents`: of the arguments, trees of arrays with the same axes in front; None is zero. Each element is a run
        of its own.
        """
        known = [self.trees.flatten(t)[0] for t in tangents if t is not None]
        elements = self._elements(values, rank, leading([leaf for leaves in known for leaf in leaves], rank))
        variadic = [p.variadic for p in self.function.parameters]
        own = _Elements(
            [FurtherArguments(t) if v and t is not None else t for t, v in zip(tangents, variadic, strict=True)],
            [t is None for t in tangents], self.trees, rank, elements.lead,
        )  # fmt: skip
        each = [
            jvp(self.f, elements.element(k), own.element(k), **self._options)[1]._asdict()
            for k in range(elements.count)
        ]
        found: list[NDArray[Any]] = []
        for i in self.chosen:
            name = self.function.parameters[i].name
            if name in each[0]:
                found += elements.leaves([one[name] for one in each])
            else:
                found += [np.zeros(())] * len(self.trees.flatten(values[i])[0])
        return found

    def curved(
        self, values: Sequence[Any], tangents: Sequence[Any], cotangents: Sequence[Any], rank: int
    ) -> list[list[NDArray[Any]] | None]:
        """The change of `pulled` where the arguments move by the tangents; None for an argument without a derivative.

        A run of `rg.hvp` for each element of a result whose cotangent is not 0. Raises NotDifferentiable for results
        that are no real numbers or arrays of these.
        """
        known = [leaf for c in (*tangents, *cotangents) if c is not None for leaf in self.trees.flatten(c)[0]]
        elements = self._elements(values, rank, leading(known, rank))
        ways, weights = (
            _Elements(list(given), [one is None for one in given], self.trees, rank, elements.lead)
            for given in (tangents, cotangents)
        )
        names = [p.name for p in self.function.parameters]
        moved = [i for i, t in enumerate(tangents) if t is not None]
        products: dict[str, Callable[[Any, Any], Any]] = {}
        each: list[list[Any]] = []
        for k in range(elements.count):
            at, direction = elements.element(k), ways.element(k)
            sums = [[np.zeros(np.shape(x)) for x in self.trees.flatten(direction[i])[0]] for i in moved]
            for i, weight in zip(self.chosen, weights.element(k), strict=True):
                if weight is None:
                    continue
                if not isinstance(weight, float | int | np.ndarray) or np.iscomplexobj(weight):
                    refuse(
                        f"`{names[i]}` of `{self.f.__name__}` is no real number",
                        "second derivatives are of real numbers",
                    )
                for index in np.argwhere(np.asarray(weight)).tolist():
                    loss = names[i] + (f"[{', '.join(map(str, index))}]" if index else "")
                    if loss not in products:
                        products[loss] = hvp(self.f, [names[j] for j in moved], loss, **self._options)
                    found = products[loss](at, [direction[j] for j in moved])
                    for total, one in zip(sums, found, strict=True):
                        for place, change in enumerate(self.trees.flatten(one)[0]):
                            total[place] = total[place] + np.asarray(weight)[tuple(index)] * np.asarray(change)
            each.append(sums)
        out: list[list[NDArray[Any]] | None] = [None] * len(names)
        for place, i in enumerate(moved):
            columns = zip(*(one[place] for one in each), strict=True)
            out[i] = [np.stack(column).reshape((*elements.lead, *column[0].shape)) for column in columns]
        return out

    def _placed(self, cotangents: Sequence[Any]) -> list[Any]:
        """The cotangents of the chosen results in the order of the parameters, None for all others."""
        given: list[Any] = [None] * len(self.static)
        for i, value in zip(self.chosen, cotangents, strict=True):
            given[i] = value
        return given

    def _elements(self, values: Sequence[Any], rank: int, lead: tuple[int, ...] = ()) -> _Elements:
        static = [fixed or is_function(v) for fixed, v in zip(self.static, values, strict=True)]
        given = zip(values, self.function.parameters, strict=True)
        return _Elements([FurtherArguments(v) if p.variadic else v for v, p in given], static, self.trees, rank, lead)

    def _axes(self, elements: _Elements) -> dict[str, Axis]:
        """The axes of the arguments, by name: see `run_batch`."""
        return {p.name: axis for p, axis in zip(self.function.parameters, elements.axes, strict=True)}

    def returned(self, results: Sequence[Any]) -> Any:
        """The results as `outputs` chose them: one by itself, or a tuple."""
        whole = dict(zip(self.chosen, results, strict=True))
        found = [_part(whole[p.position], p.steps) for p in self.parts]
        return found[0] if self.single else tuple(found)


def _part(value: Any, steps: Sequence[str | tuple[int, ...]]) -> Any:
    """The part of a result that fields and indices lead to, by operations of the other system."""
    for step in steps:
        match step, value:
            case str(), Mapping():
                value = value[step]
            case str(), _:
                # The parts of a complex number have other names there.
                value = (
                    getattr(value, step) if hasattr(value, step) else getattr(value, {"re": "real", "im": "imag"}[step])
                )
            case (i, *rest), list() | tuple():
                value = value[i][tuple(rest)] if rest else value[i]
            case _:
                value = value[step]
    return value


def _array(value: Any, annotation: Any) -> Any:
    """A list of numbers for an array as an array: other systems take a list for a tree."""
    if not isinstance(value, list | tuple) or hasattr(value, "_fields"):
        return value
    listed = isinstance(annotation, ArrayAnnotation) if annotation is not NOTHING else not is_tree(value)
    if not listed:
        return value
    try:
        array = np.asarray(value)
    except (ValueError, TypeError, RuntimeError):
        return value
    return array if array.dtype.kind in "iufbc" else value


def is_function(value: Any) -> bool:
    """Whether an argument is a reversible function, which is passed as it is."""
    return isinstance(value, Reversible | Inverse)


def leading(leaves: Iterable[Any], rank: int) -> tuple[int, ...]:
    """The axes of all elements, in front of these arrays; leaves that are no arrays have none."""
    return np.broadcast_shapes((1,) * rank, *(leaf.shape[:rank] for leaf in leaves if isinstance(leaf, np.ndarray)))


class Trees(NamedTuple):
    """Another system's trees: flatten(tree) = (leaves, form), unflatten(leaves, form) = tree."""

    flatten: Callable[[Any], tuple[list[Any], Any]]
    unflatten: Callable[[list[Any], Any], Any]


class _Elements:
    """Values whose arrays have `rank` axes in front, as the arguments of one batch: elements in the order of these axes, the last fastest."""

    def __init__(
        self, values: Sequence[Any], static: Sequence[bool], trees: Trees, rank: int, lead: tuple[int, ...]
    ) -> None:
        self.trees, self.rank, self.static = trees, rank, static
        given = [v for v, fixed in zip(values, static, strict=True) if not fixed]
        items = [one for v in given for one in (v if isinstance(v, FurtherArguments) else [v])]
        leaves = [leaf for one in items for leaf in trees.flatten(one)[0]] if rank else []
        self.lead = np.broadcast_shapes(lead, leading(leaves, rank)) if rank else ()
        self.count = math.prod(self.lead)
        #: whether there is one element, which is run by itself
        self.single = self.count == 1
        found = [(v, None) if fixed else self._split(v) for v, fixed in zip(values, static, strict=True)]
        #: plain values, or where an argument has an axis the values of all elements; a tuple of items has an axis for each
        self.values: list[Any] = [value for value, _ in found]
        self.axes: list[Axis] = [axis for _, axis in found]

    def _split(self, value: Any) -> tuple[Any, Axis]:
        """(the value of an argument, or those of all elements; their axis, or None)."""
        if isinstance(value, FurtherArguments):
            parts = [self._split(item) for item in value]
            axes: list[Any] = [axis for _, axis in parts]
            whole = FurtherArguments(part for part, _ in parts)
            return (whole, axes) if any(axis is not None for axis in axes) else (whole, None)
        if not self.rank and isinstance(value, np.ndarray | int | float | complex):
            return plain_value(value), None
        leaves, form = self.trees.flatten(value)
        shared = [not isinstance(x, np.ndarray) or math.prod(x.shape[: self.rank]) == 1 for x in leaves]
        if all(shared):
            return self.trees.unflatten([self._alone(x) for x in leaves], form), None
        if isinstance(value, np.ndarray):
            return self._rows(value), 0
        rows = [self._alone(x) if one else self._rows(x) for x, one in zip(leaves, shared, strict=True)]
        each = np.empty(self.count, dtype=object)
        for k in range(self.count):
            own = [x if one else plain_value(x[k]) for x, one in zip(rows, shared, strict=True)]
            each[k] = self.trees.unflatten(own, form)
        return each, 0

    def _alone(self, leaf: Any) -> Any:
        """A leaf that all elements share."""
        return plain_value(leaf.reshape(leaf.shape[self.rank :])) if isinstance(leaf, np.ndarray) else leaf

    def _rows(self, leaf: NDArray[Any]) -> NDArray[Any]:
        """An array of all elements, along axis 0; numbers as a batch takes them without a copy of its own."""
        core = leaf.shape[self.rank :]
        rows = np.broadcast_to(leaf, (*self.lead, *core)).reshape(self.count, *core)
        return rows.astype({"f": np.float64, "c": np.complex128}.get(rows.dtype.kind, rows.dtype), copy=False)

    def element(self, k: int) -> list[Any]:
        """The values of one element."""
        return [_at(value, axis, k) for value, axis in zip(self.values, self.axes, strict=True)]

    def given(self, i: int) -> Callable[[int], Any]:
        """The value at a position, by element."""
        return lambda k: _at(self.values[i], self.axes[i], k)

    def whole(self, i: int) -> Any:
        """The values of all elements at a position, whether they share one or not."""
        return self._whole(self.values[i], self.axes[i])

    def _whole(self, value: Any, axis: Axis) -> Any:
        if isinstance(value, FurtherArguments):
            axes = axis if isinstance(axis, Sequence) else [axis] * len(value)
            return FurtherArguments(self._whole(part, own) for part, own in zip(value, axes, strict=True))
        if value is None or axis is not None:
            return value
        if isinstance(value, np.ndarray | int | float | complex):
            return np.broadcast_to(value, (self.count, *np.shape(value)))
        each = np.empty(self.count, dtype=object)
        each[:] = [value] * self.count
        return each

    def need_axis(self) -> None:
        """Give an argument an axis if none has one: only the cotangents of the elements differ then."""
        if all(axis is None for axis in self.axes):
            i = self.static.index(False)
            value = self.values[i] = self.whole(i)
            self.axes[i] = [0] * len(value) if isinstance(value, FurtherArguments) else 0

    def leaves(self, found: Any) -> list[NDArray[Any]]:
        """The leaves of stacked results: of an array, of a list with a tree for each element, of the parts of `*xs`."""
        if isinstance(found, FurtherArguments):
            return [leaf for part in found for leaf in self.leaves(part)]
        if isinstance(found, np.ndarray) and found.dtype != object:
            return [found.reshape((*self.lead, *found.shape[1:]))]
        each = [self.trees.flatten(tuple(one) if isinstance(one, FurtherArguments) else one)[0] for one in found]
        stacked = [np.stack([np.asarray(leaf) for leaf in column]) for column in zip(*each, strict=True)]
        return [leaf.reshape((*self.lead, *leaf.shape[1:])) for leaf in stacked]


def _at(value: Any, axis: Axis, k: int) -> Any:
    """The value of one element."""
    if isinstance(axis, Sequence):
        return FurtherArguments(_at(part, own, k) for part, own in zip(value, axis, strict=True))
    return value if axis is None else plain_value(value[k])


def plain_value(value: Any) -> Any:
    """A number of an array, or an array without axes, as a number of Python's; any other value unchanged."""
    return value.item() if isinstance(value, np.generic | np.ndarray) and value.ndim == 0 else value


def refuse_missing(adapter: str, module: str) -> NoReturn:
    """Raise InputError: the other system is not installed."""
    hint = f"Install it, for example by `pip install {module}`."
    raise InputError(
        Diagnostic("RG0603", f"`rg.{adapter}` needs the package `{module}`, which is not installed", hint=hint)
    )


# -----------------------------------------------------------------------------
# JAX: a reversible function as a `jax.custom_vjp`.

#: the callbacks that an adapter keeps
_CALLBACKS = 64


def to_jax(
    f: Reversible | Inverse,
    outputs: Which = 0,
    *,
    mode: Literal["reverse", "forward"] = "reverse",
    scale: Scale = "auto",
    engine: str = "auto",
    format: Format | str | None = None,
    precision: Precision | None = None,
) -> Callable[..., Any]:
    """g(*args) = the values that the arguments `outputs` have after f(*args), a function of JAX with f's own derivative.

    `outputs`: a position, a name or a part such as `"a.x"` gives one value, a sequence a tuple, None all arguments. jax.grad, vjp and jacrev run the gradient
    program; jax.jit calls it as a host function, and jax.vmap runs all elements as one batch, each with the bits of its own call. Arguments are JAX arrays, numbers, or
    pytrees of these for structs; each result has the shape and dtype of its argument. Static arguments and functions are passed as they are.
    Raises InputError where JAX is not installed, NotDifferentiable for outputs that do not exist; a call raises as `vjp`.
    Trap: JAX raises an error of a call, a ProgramTrap for example, as a JaxRuntimeError with the text of ours. JAX has
    float32 unless `jax_enable_x64` is set, and a result is rounded to it.
    A function of `mode="reverse"` has jax.grad, vjp and jacrev, and jax.hessian and grad of grad where the outputs are
    real; JAX refuses jax.jvp of it. One of `mode="forward"` has jax.jvp, jacfwd and linearize, by `rg.jvp`; JAX refuses
    jax.grad of it.

    >>> g = rg.to_jax(energy)           # doctest: +SKIP
    >>> jax.grad(g, argnums=1)(0.0, x)  # doctest: +SKIP
    """
    try:
        import jax
    except ImportError:
        refuse_missing("to_jax", "jax")
    if mode not in ("reverse", "forward"):
        raise InputError(Diagnostic("RG0603", f"mode = {mode!r:.40}", hint='Choose "reverse" or "forward".'))
    number = jax.numpy
    adapted = Adapted(f, outputs, scale, engine, format, precision, Trees(jax.tree.flatten, _unflatten))

    floats, linear = _Floats(jax), _linear_call(jax)

    #: the callbacks that were made, the last ones: of an equal call JAX compiles nothing again where the callback is the same object
    callbacks: dict[Any, Callable[..., Any]] = {}

    def on_host(run: Callable[..., list[NDArray[Any]]], fixed_values: dict[int, Any], shapes: Any, *arrays: Any) -> Any:
        """run(*arrays, rank) as arrays of these shapes and dtypes. JAX's vmap puts `rank` axes in front of all arrays.

        `run` is determined by its code, the static values, and the shapes.
        """
        given_leaves, given_form = jax.tree.flatten(arrays)
        wanted, form = jax.tree.flatten(shapes)
        known = tuple((leaf.shape, leaf.dtype) for leaf in (*given_leaves, *wanted))
        key = run.__code__, tuple((i, id(v)) for i, v in fixed_values.items()), given_form, form, known
        own = max((leaf.ndim for leaf in given_leaves), default=0)

        def called(*given: Any) -> Any:
            values = jax.tree.map(lambda leaf: of_own_type(np.asarray(leaf)), list(given))
            leaves = jax.tree.leaves(values)
            rank = max((leaf.ndim for leaf in leaves), default=0) - own
            lead = leading(leaves, rank)
            found = run(*values, rank) if 0 not in lead else [np.zeros(())] * len(wanted)
            made = [np.broadcast_to(v.astype(s.dtype), (*lead, *s.shape)) for v, s in zip(found, wanted, strict=True)]
            return jax.tree.unflatten(form, made)

        kept = callbacks.pop(key, called)
        callbacks[key] = kept
        if len(callbacks) > _CALLBACKS:
            callbacks.pop(next(iter(callbacks)), None)
        return jax.pure_callback(kept, shapes, *arrays, vmap_method="expand_dims")

    def call(values: list[Any], fixed_values: dict[int, Any]) -> Any:
        """The custom_vjp of the arguments that are arrays, at these static values."""

        def whole(arrays: list[Any]) -> list[Any]:
            found = iter(arrays)
            return [fixed_values[i] if i in fixed_values else next(found) for i in range(len(adapted.static))]

        def place(i: int) -> int:
            return i - sum(j < i for j in fixed_values)

        def primal(arrays: list[Any]) -> list[Any]:
            chosen = [arrays[place(i)] for i in adapted.chosen]
            shapes = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), chosen)

            def run(given: list[Any], rank: int) -> list[NDArray[Any]]:
                return adapted.results(whole(given), rank)

            results: list[Any] = on_host(run, fixed_values, shapes, arrays)
            return results

        def forward(arrays: list[Any]) -> tuple[list[Any], list[Any]]:
            return pushing(arrays), arrays

        def back(arrays: list[Any], cotangents: list[Any]) -> tuple[list[Any]]:
            # In a function that JAX has traced, an argument that is a number of the source comes back as a literal.
            arrays = jax.tree.map(number.asarray, arrays)
            real = [jax.tree.map(floats.is_one, arrays[place(i)]) for i in adapted.chosen]
            # JAX gives cotangents of integers the dtype float0, which no callback takes.
            given = jax.tree.map(lambda c, r: c if r else number.zeros(c.shape), cotangents, real)
            shapes = floats.shapes(arrays)

            def leaves(pulled: list[list[NDArray[Any]] | None], arrays: list[Any]) -> list[NDArray[Any]]:
                out: list[NDArray[Any]] = []
                for i, found in enumerate(pulled):
                    if i not in fixed_values:
                        zeros = [np.zeros(())] * len(jax.tree.leaves(arrays[place(i)]))
                        out += zeros if found is None else [np.conj(leaf) for leaf in found]
                return out

            def kept(cotangents: list[Any]) -> list[Any]:
                # In JAX the cotangent of a complex number is ∂L/∂re − i ∂L/∂im.
                turned = jax.tree.map(np.conj, cotangents)
                return [c if any(jax.tree.leaves(r)) else None for c, r in zip(turned, real, strict=True)]

            def run(arrays: list[Any], cotangents: list[Any], rank: int) -> list[NDArray[Any]]:
                return leaves(adapted.pulled(whole(arrays), kept(cotangents), rank), arrays)

            def run_curved(arrays: list[Any], moved: list[Any], cotangents: list[Any], rank: int) -> list[NDArray[Any]]:
                tangents = adapted.tangents_of(moved, movable, fixed_values)
                return leaves(adapted.curved(whole(arrays), tangents, kept(cotangents), rank), arrays)

            def pull(arrays: list[Any], given: list[Any]) -> list[Any]:
                found: list[Any] = on_host(run, fixed_values, shapes, arrays, given)
                return found

            def change(primals: tuple[list[Any], list[Any]], tangents: tuple[list[Any], list[Any]]) -> tuple[Any, Any]:
                moved = floats.without_float0(primals[0], tangents[0])
                return pulling(*primals), linear(changed, transposed, primals, (moved, tangents[1]))

            # The change is linear in both tangents: reverse mode over this reverse mode transposes it.
            def changed(primals: tuple[list[Any], list[Any]], moved: tuple[list[Any], list[Any]]) -> list[Any]:
                curved = on_host(run_curved, fixed_values, shapes, primals[0], moved[0], primals[1])
                total: list[Any] = jax.tree.map(number.add, pulling(primals[0], moved[1]), curved)
                return total

            def transposed(primals: tuple[list[Any], list[Any]], way: list[Any]) -> tuple[list[Any], list[Any]]:
                curved = on_host(run_curved, fixed_values, shapes, primals[0], way, primals[1])
                own = jax.tree.map(lambda c: jax.ShapeDtypeStruct(c.shape, c.dtype), primals[1])
                return curved, on_host(run_pushed, fixed_values, own, primals[0], way)

            def run_pushed(arrays: list[Any], moved: list[Any], rank: int) -> list[NDArray[Any]]:
                return adapted.pushed(whole(arrays), adapted.tangents_of(moved, movable, fixed_values), rank)

            pulling = jax.custom_jvp(pull)
            pulling.defjvp(change)

            movable = [floats.within(a) for a in arrays]
            found = pulling(arrays, given)
            return (floats.with_float0(arrays, found),)

        def push(primals: tuple[list[Any]], tangents: tuple[list[Any]]) -> tuple[list[Any], list[Any]]:
            (arrays,), (given,) = primals, tangents
            real = [floats.within(a) for a in arrays]
            moved, results = floats.without_float0(arrays, given), primal(arrays)

            def run(given_arrays: list[Any], given_tangents: list[Any], rank: int) -> list[NDArray[Any]]:
                tangents = adapted.tangents_of(given_tangents, real, fixed_values)
                return adapted.pushed(whole(given_arrays), tangents, rank)

            found = on_host(run, fixed_values, floats.shapes(results), arrays, moved)
            return results, floats.with_float0(results, found)

        pushing = jax.custom_jvp(primal)
        pushing.defjvp(push)
        if mode == "forward":
            return pushing(values)
        differentiable = jax.custom_vjp(primal)
        differentiable.defvjp(forward, back)
        return differentiable(values)

    def g(*args: Any, **keywords: Any) -> Any:
        values = adapted.values(args, keywords)
        fixed_values = {i: v for i, v in enumerate(values) if adapted.static[i] or is_function(v)}
        # Copies: an array of NumPy may be changed before the way back.
        arrays = [jax.tree.map(jax.numpy.array, v) for i, v in enumerate(values) if i not in fixed_values]
        results = iter(call(arrays, fixed_values) if arrays else ())
        return adapted.returned(list(results))

    g.__name__ = f"to_jax({f.__name__})"
    g.__doc__ = f"{f.__name__} as a function of JAX."
    return g


def _linear_call(jax: Any) -> Callable[..., Any]:
    """call(fun, transposed, fixed, x) = fun(fixed, x), linear in x; reverse mode takes transposed(fixed, cotangent) for x.

    jax.custom_derivatives.linear_call is the same without vmap. Derivatives by `fixed` are refused by JAX.
    """
    from jax.extend.core import Primitive
    from jax.interpreters import ad, batching, mlir

    primitive = Primitive("retrograd_linear_call")
    primitive.multiple_results = True

    def call(fun: Any, transposed: Any, fixed: Any, x: Any) -> Any:
        fixed_leaves, fixed_form = jax.tree.flatten(fixed)
        leaves, form = jax.tree.flatten(x)
        count = len(fixed_leaves)

        def forth(*flat: Any) -> list[Any]:
            found: list[Any] = jax.tree.leaves(fun(fixed_form.unflatten(flat[:count]), form.unflatten(flat[count:])))
            return found

        out = jax.tree.structure(jax.eval_shape(fun, fixed, x))

        def back(*flat: Any) -> list[Any]:
            found: list[Any] = jax.tree.leaves(
                transposed(fixed_form.unflatten(flat[:count]), out.unflatten(flat[count:]))
            )
            return found

        return out.unflatten(primitive.bind(*fixed_leaves, *leaves, forth=forth, back=back, count=count))

    def shapes(*avals: Any, forth: Any, **_: Any) -> list[Any]:
        found = jax.eval_shape(forth, *(jax.ShapeDtypeStruct(a.shape, a.dtype) for a in avals))
        return [jax.core.ShapedArray(s.shape, s.dtype) for s in found]

    def transpose(cotangents: Any, *operands: Any, forth: Any, back: Any, count: int) -> list[Any]:
        zeros = [jax.numpy.zeros(c.aval.shape, c.aval.dtype) if isinstance(c, ad.Zero) else c for c in cotangents]
        found: list[Any] = primitive.bind(*operands[:count], *zeros, forth=back, back=forth, count=count)
        return [None] * count + found

    def batched(operands: Any, dims: Any, *, forth: Any, back: Any, count: int) -> tuple[list[Any], list[int]]:
        size = next(x.shape[d] for x, d in zip(operands, dims, strict=True) if d is not None)
        whole = [
            jax.numpy.broadcast_to(x, (size, *x.shape)) if d is None else jax.numpy.moveaxis(x, d, 0)
            for x, d in zip(operands, dims, strict=True)
        ]
        found = primitive.bind(*whole, forth=jax.vmap(forth), back=jax.vmap(back), count=count)
        return found, [0] * len(found)

    primitive.def_impl(lambda *flat, forth, **_: forth(*flat))
    primitive.def_abstract_eval(shapes)
    ad.primitive_transposes[primitive] = transpose
    batching.primitive_batchers[primitive] = batched
    mlir.register_lowering(primitive, mlir.lower_fun(lambda *flat, forth, **_: forth(*flat), multiple_results=True))
    return call


class _Floats:
    """Which arrays of JAX have derivatives.

    JAX gives cotangents and tangents of the others the dtype float0, which no callback takes.
    """

    def __init__(self, jax: Any) -> None:
        self.jax = jax

    def is_one(self, leaf: Any) -> bool:
        """Whether an array has a derivative: of floats or complex numbers, those of JAX's own types, too."""
        return bool(self.jax.numpy.issubdtype(leaf.dtype, self.jax.numpy.inexact))

    def within(self, tree: Any) -> bool:
        """Whether a tree has an array with a derivative."""
        return any(self.is_one(leaf) for leaf in self.jax.tree.leaves(tree))

    def shapes(self, tree: Any) -> Any:
        """The shapes and dtypes of a tree's derivatives, float32 for integers."""
        of, single = self.jax.ShapeDtypeStruct, np.dtype(np.float32)
        return self.jax.tree.map(lambda a: of(a.shape, a.dtype if self.is_one(a) else single), tree)

    def without_float0(self, tree: Any, tangents: Any) -> Any:
        """The tangents, with zeros for integers."""
        zeros, single = self.jax.numpy.zeros, np.dtype(np.float32)
        return self.jax.tree.map(lambda a, d: d if self.is_one(a) else zeros(a.shape, single), tree, tangents)

    def with_float0(self, tree: Any, found: Any) -> Any:
        """Derivatives of a tree, those of integers of the dtype float0."""
        zero = self.jax.dtypes.float0
        return self.jax.tree.map(lambda a, d: d if self.is_one(a) else np.zeros(a.shape, zero), tree, found)


def _unflatten(leaves: list[Any], form: Any) -> Any:
    return form.unflatten(leaves)
