"""The optimiser: a list of passes, each a function from module to module that keeps the program's meaning.

    optimise(module) = passₙ( … pass₂(pass₁(module)))

Level 0 returns the module unchanged; level 1, the default, runs all passes below.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from retrograd.compiler.derivatives.gradients import GradientProcedures
from retrograd.compiler.frontends.builder import HostBlock, ModuleBuilder
from retrograd.compiler.frontends.constants import Place, SourceConstant
from retrograd.compiler.frontends.python.captures import Captures, static_key
from retrograd.compiler.frontends.python.function import Specialiser
from retrograd.compiler.frontends.python.source import SourceFunction
from retrograd.compiler.frontends.specialisation import Declare
from retrograd.compiler.ir.statements import ZERO, Call, Const, Local, Module, Node, Op, Operand, Region, Var, Within
from retrograd.compiler.ir.traversal import bodies, walk
from retrograd.compiler.language.types import (
    ArrayShape,
    ArrayType,
    ScalarShape,
    ScalarType,
    Shape,
    StackShape,
    StackType,
    StaticShape,
    StaticType,
    StructShape,
    StructType,
    Type,
    has_points,
    layouts,
    leaves,
    row_major,
)
from retrograd.compiler.language.values import Condition, FunctionValue
from retrograd.compiler.passes.check_elimination import eliminate_checks
from retrograd.compiler.passes.common_subexpressions import eliminate_common_subexpressions
from retrograd.compiler.passes.constant_folding import fold_constants
from retrograd.compiler.passes.dead_code import eliminate_dead_code
from retrograd.compiler.passes.forward_substitution import forward_substitute
from retrograd.compiler.passes.induction_variables import reduce_induction_variables
from retrograd.compiler.passes.inlining import inline_calls, rename_locals
from retrograd.compiler.passes.inverse_pairs import cancel_inverse_pairs, nest_inverse_pairs
from retrograd.compiler.passes.live_range_extension import extend_live_ranges
from retrograd.compiler.passes.loop_unrolling import unroll_loops
from retrograd.compiler.passes.scalar_replacement import replace_arrays_by_scalars
from retrograd.compiler.passes.strength_reduction import reduce_strength
from retrograd.isa.diagnostics import Span
from retrograd.isa.table import TABLE
from retrograd.isa.words import Format

#: words of the heap and of the stack of a functional program, of which a run costs those that it uses; of other stacks
HEAP, STACK = 1 << 20, 1 << 16
#: words of both on a GPU and on a simulated co-processor, where a run costs all words of memory
ROW_HEAP = 1 << 16

Pass = Callable[[Module], Module]

#: The passes of level 1, in order. A pass stands twice where another pass makes new candidates for it.
PASSES: tuple[tuple[str, Pass], ...] = (
    # One body, and in it one birth of every local.
    ("inline_calls", inline_calls),
    ("rename_locals", rename_locals),
    # While loops are whole, and their bodies as they were written.
    ("nest_inverse_pairs", nest_inverse_pairs),
    # Constants arrive from calls and from unrolled loops.
    ("unroll_loops", unroll_loops),
    ("fold_constants", fold_constants),
    # Constant indices make arrays replaceable; the replaced arrays leave copies.
    ("replace_arrays_by_scalars", replace_arrays_by_scalars),
    ("fold_constants", fold_constants),
    ("reduce_induction_variables", reduce_induction_variables),
    ("reduce_strength", reduce_strength),
    ("eliminate_checks", eliminate_checks),
    # Temporaries that only carry a sum go first, so that the rest is shared.
    ("forward_substitute", forward_substitute),
    ("cancel_inverse_pairs", cancel_inverse_pairs),
    ("eliminate_common_subexpressions", eliminate_common_subexpressions),
    # Temporaries that live longer can be shared by more statements.
    ("extend_live_ranges", extend_live_ranges),
    ("eliminate_common_subexpressions", eliminate_common_subexpressions),
    ("eliminate_dead_code", eliminate_dead_code),
)

Observer = Callable[[str, Module], None]


def optimise(module: Module, level: int = 1, observe: Observer | None = None, without: Collection[str] = ()) -> Module:
    """The module with the same meaning at less cost. `observe(name, module)` sees it after each pass.

    `without`: passes that are left out. Raises ValueError for a level that is not 0 or 1.
    """
    if level not in (0, 1):
        raise ValueError(f"there is no level {level}: 0 leaves the program as it is, 1 runs all passes")
    for name, run in PASSES if level else ():
        if name in without:
            continue
        module = run(module)
        if observe is not None:
            observe(name, module)
    return module


# -----------------------------------------------------------------------------
# Lowering of whole programs: a function and its callees as a module, with the arguments in memory.
#
# entry = within (each scalar argument exchanged into a variable) do (call of the function)


@dataclass(frozen=True)
class Argument:
    """An argument of the function; its words begin at `address`, in the order of its type."""

    name: str
    type: Type
    address: int


@dataclass(frozen=True)
class Lowered:
    """A function as a module, with its arguments, its blocks for the host, and the texts for its traps."""

    module: Module
    arguments: tuple[Argument, ...]
    #: statements for the host, by the number of their mark
    externals: tuple[HostBlock, ...] = ()
    #: place of the first condition of a branch or loop → (condition before it, condition after it)
    conditions: Mapping[Span, tuple[Condition, Condition]] = field(default_factory=dict)
    #: place of a branch or loop → its condition or bounds, in words
    statement_texts: Mapping[Span, str] = field(default_factory=dict)
    #: the numbers of the source that became words
    constants: tuple[SourceConstant, ...] = field(default=(), compare=False, repr=False)
    #: numbers that lost more than half of their bits: texts with their places
    warnings: tuple[tuple[str, Place], ...] = field(default=(), compare=False, repr=False)
    #: values from around the functions that the module depends on
    captures: Captures = field(default_factory=Captures, compare=False, repr=False)
    #: the functions of Python that were lowered, in their order
    functions: tuple[SourceFunction, ...] = field(default=(), compare=False, repr=False)
    #: places of expressions that are computed once, where places were asked for
    equal_places: frozenset[tuple[Span, Span]] = field(default=frozenset(), compare=False, repr=False)
    #: procedures of other front ends, whose numbers are at the point of the format
    at_format: frozenset[str] = field(default=frozenset(), compare=False, repr=False)


def lower(
    function: SourceFunction,
    types: Sequence[Type],
    w: Format,
    stack: int | None = None,
    heap: int | None = None,
    forget: frozenset[str] = frozenset(),
    recorded: bool = False,
    real: bool = False,
    placed: bool = False,
    parts: frozenset[str] = frozenset(),
) -> Lowered:
    """The function for arguments of these types as a reversible module: arguments in memory, in and out.

    `recorded`, `real`: see `Constants`. `placed`: see `ModuleBuilder`. `stack`, `heap`: words, by default STACK and
    HEAP, or HEAP for each of a functional function; in a narrow format these have a sixteenth of all addresses each, and
    so room for two gradients.

    Raises CompileError.
    """
    module = ModuleBuilder(w, recorded, real, placed)
    module.constants.pointed = any(map(has_points, types))
    gradients = GradientProcedures()
    part = w.share
    declared = Declare(gradients.add, min(HEAP, part) if heap is None else heap, forget, parts)
    specialiser = Specialiser(module, gradients.declare, declared)
    module.files[function.source.file] = function.source.lines
    shapes: list[Shape] = []
    arguments: list[Argument] = []
    compute: list[Node] = []
    passed: list[Operand] = []
    regions: list[Region] = []
    span = function.source.span(function.tree)
    given: list[Region] = []
    for p, t in zip(function.parameters, types, strict=True):
        arguments.append(Argument(p.name, t, module.memory))
        if isinstance(t, StaticType):
            specialiser.captures.contents(t.value)
            shapes.append(_static_shape(t.value))
            continue
        for name, _, leaf in leaves(t, p.name):
            region = module.static_region(name, leaf.size, span, layouts=tuple(layouts(leaf, name)))
            given.append(region)
            assert region.address is not None
            if isinstance(leaf, ScalarType):
                var = Var(name, leaf.kind, span)
                passed.append(var)
                exchange = Op(TABLE["exch"], var, ZERO, None, region.address, span, region)
                compute += [Local(var, False, span), exchange]
            else:
                passed.append(Const(region.address))
                regions.append(region)
        shapes.append(_shape_of(t))
    entry = specialiser.specialise(function, tuple(shapes))
    call = Call(entry.name, tuple(passed), tuple(regions), False, span)
    if stack is None:
        stack = STACK if declared.functional is None else min(HEAP, part)
    lowered = Module(
        (Within(tuple(compute), (call,), None, span),) if compute else (call,),
        dict(module.procedures),
        tuple(module.regions),
        module.memory,
        stack,
        format=w,
        files=tuple(module.files),
        texts=tuple(module.files.values()),
        externals=tuple(range(len(module.host_blocks))),
        unsettled={name: frozenset(lines) for name, lines in module.viewed.items()},
        arguments=(*given, *module.outliving),
        recorded=recorded,
    )
    module.constants.settle(lambda: _regions_of(lowered), module.files)
    lowered = gradients.expand(lowered)
    return Lowered(
        lowered,
        tuple(arguments),
        tuple(module.host_blocks),
        module.conditions,
        module.statement_texts,
        tuple(module.constants.found),
        tuple(module.constants.warnings),
        specialiser.captures.freeze(),
        tuple(module.functions),
        frozenset(module.equal_places),
        frozenset(module.procedures) - specialiser.python_procedures(),
    )


def _regions_of(module: Module) -> frozenset[Region]:
    """The memory that statements of the program name."""
    nodes = [node for body in bodies(module) for node in walk(body)]
    named = [(node.region,) if isinstance(node, Op) else node.regions for node in nodes if isinstance(node, Op | Call)]
    return frozenset(region for regions in named for region in regions if region is not None)


def shape_of(t: Type) -> Shape:
    """The shape of an argument of a type."""
    return _static_shape(t.value) if isinstance(t, StaticType) else _shape_of(t)


def _static_shape(value: Any) -> StaticShape:
    backward = getattr(type(value), "__retrograd_inverse__", False)
    if isinstance(value, SourceFunction) or backward:
        f = FunctionValue(value.__retrograd_inverse_of__ if backward else value, backward)
        return StaticShape((id(f.function), f.backward), f)
    return StaticShape(static_key(value), value)


def _shape_of(t: Type) -> Shape:
    match t:
        case ScalarType(kind):
            return ScalarShape(kind)
        case ArrayType(element, shape):
            return ArrayShape(element, shape, row_major(shape, element.size))
        case StackType():
            return StackShape(t)
        case StructType(_, fields):
            return StructShape(t, tuple((name, _shape_of(inner)) for name, inner in fields))
        case StaticType(value):
            return _static_shape(value)
