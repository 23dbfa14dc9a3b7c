"""Jacobians: one way back a row, or one for many rows where they are known to share no column.

    Rows i and k seeded together give ȳᵢJᵢ + ȳₖJₖ; where no column can be nonzero in both, both can be read off.

Source: Curtis, Powell, Reid, On the estimation of sparse Jacobian matrices, J. Inst. Maths Applics 13 (1974), 117.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retrograd.compiler.language.types import ArrayType, StructType, Type
from retrograd.compiler.lower import Argument
from retrograd.differentiation.arguments import Derived, Reals, Which, need_derivative, position, positions, refuse
from retrograd.differentiation.course import Course
from retrograd.differentiation.gradients import by_choice, choose
from retrograd.functions.reversible import Inverse, Reversible
from retrograd.isa.diagnostics import Diagnostic, InputError


@dataclass(frozen=True, eq=False)
class SparseJacobian:
    """J[i, indices[p]] = data[p] for p in indptr[i] … indptr[i + 1] − 1, columns ascending: compressed rows."""

    data: NDArray[np.float64]
    indices: NDArray[np.int64]
    indptr: NDArray[np.int64]
    shape: tuple[int, int]
    #: how often the machine went back
    runs: int

    def toarray(self) -> NDArray[np.float64]:
        """All of it, zeros too."""
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
    outputs: int | str = 0,
    *,
    pattern: Any = None,
    scale: int = 0,
) -> Callable[..., Any]:
    """g(*args) = ∂y/∂args, y being the value that the argument `outputs` has after f(*args).

    An array of shape y.shape + arg.shape; a struct counts as one more axis, of its numbers in order. `argnums`
    as in `grad`: one, a tuple of several, or None for all that have a derivative but the outputs, by name; the outputs may be
    chosen too, for what they hold before. y: fixed or lognum, a number, an array or structs of these. One way back for each
    number in y, with ȳ = 2^scale.

    `pattern`: a bool array or a sparse matrix of SciPy's that says which entries can be nonzero, of one row for each number in
    y and one column for each number in the arguments, one after the other. Rows that share no column go back together, and
    the result is one `SparseJacobian`. A derivative outside of the pattern raises InputError, where it can be told.
    Trap: it cannot where the column belongs to another row that went back together with it: too small a pattern
    may give wrong numbers. Raises NotDifferentiable, CompileError, ProgramTrap.
    """
    chosen, at = positions(f, argnums), position(f, outputs)

    def whole(args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        course = Course(f, args, keywords, scale)
        y = course.arguments[at]
        need_derivative(f, y.name, y.type)
        wanted = choose(f, course.arguments, chosen, at)
        if pattern is not None:
            return _sparse(course, y, wanted, pattern)
        return by_choice(argnums, _dense(course, y, wanted))

    derived = Derived("jacobian", f, whole)
    derived.made = jacobian, (f, argnums, outputs), {"pattern": pattern, "scale": scale}
    return derived


def _shape(t: Type) -> tuple[int, ...]:
    """The shape of a value's numbers, those of a struct along the last axis."""
    match t:
        case ArrayType(element, shape):
            return (*shape, *_shape(element))
        case StructType():
            return (t.size,)
    return ()


def _dense(course: Course, y: Argument, wanted: list[Argument]) -> dict[str, Any]:
    found = {a.name: np.zeros((y.type.size, a.type.size)) for a in wanted}
    outputs = course.logarithms(y, final=True)
    inputs = {a.name: course.logarithms(a, final=False) for a in wanted}
    for i in range(y.type.size):
        course.back(course.seeds([y.address + i]))
        for a in wanted:
            found[a.name][i] = _by_sizes(course.inside(a), [x[i] for x in outputs], inputs[a.name])
    shapes = {a.name: (*_shape(y.type), *_shape(a.type)) for a in wanted}
    return {
        name: rows.reshape(shapes[name]) if shapes[name] else float(rows.reshape(())) for name, rows in found.items()
    }


def _by_sizes(inside: Reals, of: Sequence[Any], by: Sequence[Reals]) -> Reals:
    """∂y/∂x = (y/x)·∂ln y/∂ln x for lognums; `of`, `by`: signs and logarithms of y and of each x, (1, 0) for fixed.

    The quotient is that of logarithms: it may have a float where y and x have none. Zero stays zero.
    """
    (sign, log), (signs, logs) = of, by
    with np.errstate(over="ignore", under="ignore"):
        quotient = sign * signs * np.exp2(log - logs)
        row: Reals = np.multiply(inside, quotient, out=np.zeros_like(inside), where=inside != 0)
    return row


# ---------------------------------------------------------------------- sparse


def _sparse(course: Course, y: Argument, wanted: list[Argument], pattern: Any) -> SparseJacobian:
    shape = y.type.size, sum(a.type.size for a in wanted)
    indptr, indices = _rows_of(pattern, shape, y, wanted)
    rows = [indices[indptr[i] : indptr[i + 1]] for i in range(shape[0])]
    groups = colour(rows, shape[1])
    outputs = course.logarithms(y, final=True)
    by = [course.logarithms(a, final=False) for a in wanted]
    inputs = [np.concatenate(part) for part in zip(*by, strict=True)] or [np.zeros(0), np.zeros(0)]
    data = np.zeros(len(indices))
    for group in groups:
        course.back(course.seeds(y.address + i for i in group))
        parts = [course.inside(a) for a in wanted]
        inside = np.concatenate(parts) if parts else np.zeros(0)
        for i in group:
            own = rows[i]
            data[indptr[i] : indptr[i + 1]] = _by_sizes(inside[own], [x[i] for x in outputs], [x[own] for x in inputs])
            inside[own] = 0.0
        stray = np.flatnonzero(inside)
        if len(stray):
            flat = np.where(inside != 0, np.concatenate([course.gradient(a) for a in wanted]), 0.0)
            _refuse_stray(course, y, wanted, group, int(stray[0]), flat)
    return SparseJacobian(data, indices, indptr, shape, len(groups))


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
    """(indptr, indices) of a pattern, columns ascending and each once. What a sparse matrix stores counts, be it zero."""
    found: tuple[int, ...]
    if hasattr(pattern, "tocoo"):
        pattern = pattern.tocoo()
        found = tuple(pattern.shape)
    else:
        try:
            pattern = np.asarray(pattern)
        except ValueError:
            refuse("the pattern has rows of different lengths")
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
    course: Course, y: Argument, wanted: list[Argument], group: list[int], column: int, flat: NDArray[np.float64]
) -> None:
    """What fell outside of the pattern, by the names of outputs and argument."""
    value, first = flat[column], 0
    for a in wanted:
        if column - first < a.type.size:
            break
        first += a.type.size
    shown = ", ".join(f"`{_element(y, i)}`" for i in group[:6]) + (", …" if len(group) > 6 else "")
    which = shown if len(group) == 1 else f"one of {shown}"
    many = "" if np.count_nonzero(flat) == 1 else f", and there are {np.count_nonzero(flat) - 1} more"
    message = (
        f"{which} of `{course.f.__name__}` depends on `{_element(a, column - first)}` (column {column}), "
        f"which the pattern denies: the derivative is {value:.6g}{many}"
    )
    hint = "Let the pattern hold every entry that can be nonzero."
    raise InputError(Diagnostic("RG0603", message, hint=hint))


def _element(a: Argument, i: int) -> str:
    """How an argument's number i is written."""
    shape = _shape(a.type)
    if not shape:
        return a.name
    return f"{a.name}[{', '.join(map(str, np.unravel_index(i, shape)))}]"
