"""Specialisations of functions: one procedure for each combination of argument shapes, and its parameters.

A procedure has one parameter for each scalar, array and stack among the arguments of the function, and for each length of an array that
is known only when the program runs. Arrays and stacks are passed by address.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, NoReturn

from retrograd.compiler.ir.expressions import Address, Length, RunLength, read
from retrograd.compiler.ir.statements import ZERO, Kind, Node, Op, Procedure, Region, Var
from retrograd.compiler.language.types import (
    ArrayShape,
    ClosureShape,
    PassedLength,
    ScalarShape,
    Shape,
    StackShape,
    StaticShape,
    StructShape,
    layouts,
    part_name,
)
from retrograd.compiler.language.values import (
    ArrayView,
    Constant,
    FunctionValue,
    StackValue,
    StructValue,
    Value,
    variable,
)
from retrograd.isa.diagnostics import Span
from retrograd.isa.program import ArrayLayout
from retrograd.isa.table import TABLE

#: (code, message, hint) raises a CompileError at the call that needs a procedure
Refuse = Callable[..., NoReturn]


@dataclass
class Specialisation:
    """A function that is lowered, or being lowered, for given shapes."""

    name: str
    function: Any
    shapes: tuple[Shape, ...]
    #: at its first call
    refuse: Refuse
    #: indices of the parameters that it may change; an assumption while it is being lowered
    written: frozenset[int] = frozenset()
    #: whether it is assumed to use these in sums only, while it is being lowered
    adds: bool = True
    recursive: bool = False
    called_itself: bool = False
    procedure: Procedure | None = None


@dataclass(frozen=True)
class GradientOf:
    """The gradient of a function as a function: its parameters, then one for each gradient ∂L/∂x, which is added to that.

    `loss` and `wanted`: positions of parameters. `keep`: words for cotangents of variables that the function frees.
    `steps`: fields and indices that lead from the parameter `loss` to one number. `path`: these as text.
    """

    function: Any
    backward: bool
    loss: int
    wanted: tuple[int, ...]
    keep: int
    steps: tuple[str | tuple[int, ...], ...] = ()
    path: str = ""


@dataclass
class Declare:
    """The parts of a program that functions add to by themselves. `gradient`: takes a gradient whose body is made later."""

    gradient: Callable[[Any], None]
    #: words of the heap of functional functions
    heap: int
    #: names of the functional functions whose calls are forgotten
    forget: frozenset[str] = frozenset()
    #: names of the loops that run in parts
    parts: frozenset[str] = frozenset()
    #: the functional functions of the program, once there are some
    functional: Any = None
    #: the specialisation of a function for the shapes of its arguments
    specialise: Any = None


class Parameters(NamedTuple):
    """`variables` of a procedure, each with its region if it is an address, and the value of each name in the function."""

    variables: tuple[Var, ...]
    regions: tuple[Region | None, ...]
    names: dict[str, Value]

    def declaration(
        self,
        name: str,
        written: frozenset[int],
        recursive: bool = False,
        span: Span | None = None,
        adds: bool = False,
    ) -> Procedure:
        """A procedure with the effects that calls of it have, and without its body. `adds`: it changes numbers by sums only."""
        touched: list[Node] = []
        for i, (var, region) in enumerate(zip(self.variables, self.regions, strict=True)):
            if region is None:
                if i in written and not adds:
                    touched.append(Op(TABLE["mov.xor"], var, ZERO))
            else:
                touched.append(Op(TABLE["ld.xor"], Var("t"), var, region=region))
                if i in written:
                    touched.append(Op(TABLE["st.xor"], None, var, ZERO, region=region))
        return self.procedure(name, tuple(touched), written, recursive, span)

    def procedure(
        self, name: str, body: tuple[Node, ...], written: frozenset[int], recursive: bool, span: Span | None
    ) -> Procedure:
        # Only variables count as written parameters: stores to arrays show in the body.
        scalars = frozenset(i for i, region in enumerate(self.regions) if region is None)
        regions = tuple(region for region in self.regions if region is not None)
        return Procedure(name, self.variables, regions, body, written & scalars, recursive, span)


def parameters_of(names: Sequence[str], shapes: Sequence[Shape]) -> Parameters:
    """The parameters of a procedure for arguments with these names and shapes."""
    variables: list[Var] = []
    regions: list[Region | None] = []
    run_lengths: dict[int, RunLength] = {}

    def length(n: int | PassedLength, name: str) -> Length:
        if isinstance(n, PassedLength) and n.first:
            var = Var(f"{name}.length", Kind.INT)
            variables.append(var)
            regions.append(None)
            meaning = read(var), frozenset({(var, 0)})
            run_lengths[n.number] = RunLength(read(var), n.most, (), f"len({name})", meaning)
        return run_lengths[n.number] if isinstance(n, PassedLength) else n

    def passed_by_address(name: str, size: int, inside: Iterable[ArrayLayout]) -> Address:
        base, region = Var(name, Kind.ADDRESS), Region(name, size, layouts=tuple(inside))
        variables.append(base)
        regions.append(region)
        return Address(region, base)

    def value(shape: Shape, name: str) -> Value:
        match shape:
            case ScalarShape(kind):
                variables.append(Var(name, kind))
                regions.append(None)
                return variable(variables[-1])
            case ArrayShape(element, given_lengths, strides):
                if (known := shape.lengths) is not None:
                    extent = sum((n - 1) * abs(s) for n, s in zip(known, strides, strict=True)) + element.size
                    inside = layouts(element, name, 0, known, strides)
                    return ArrayView(element, known, strides, passed_by_address(name, extent, inside))
                # The words behind the first are those of the caller's array, as with an array on the stack.
                address = passed_by_address(name, 1, ())
                return ArrayView(element, tuple(length(n, name) for n in given_lengths), strides, address)
            case StackShape(t):
                return StackValue(t, passed_by_address(name, t.size, layouts(t, name)))
            case StructShape(t, fields):
                return StructValue(t, {field: value(inner, part_name(name, t, field)) for field, inner in fields})
            case ClosureShape(_, captured, given):
                assert isinstance(given, FunctionValue)
                return replace(given, captured=tuple((n, value(inner, f"{name}.{n}")) for n, inner in captured))
            case StaticShape(_, given):
                return given if isinstance(given, FunctionValue | StructValue) else Constant(given)

    values = {name: value(shape, name) for name, shape in zip(names, shapes, strict=True)}
    return Parameters(tuple(variables), tuple(regions), values)
