"""The entry of a Janus program: the parameters of a procedure, or the variables of `main`, are the arguments in memory.

    main:  x += its initial value …; the statements        from zeros to the final store; backward, to zeros

An integer of k bits, k < W, is widened at the entry (see values.py) and narrowed at the end.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Any, NoReturn

import numpy as np
from retrograd.compiler.frontends.builder import ModuleBuilder
from retrograd.compiler.frontends.janus import syntax
from retrograd.compiler.frontends.janus.lowering.expressions import WIDER, Expressions, integer
from retrograd.compiler.frontends.janus.lowering.locals import LARGEST
from retrograd.compiler.frontends.janus.lowering.procedures import Procedures
from retrograd.compiler.frontends.janus.lowering.statements import StatementLowering
from retrograd.compiler.frontends.janus.lowering.values import INT, ArrayPlace, Integer, Place, ScalarPlace, StackPlace
from retrograd.compiler.frontends.specialisation import Specialisation, parameters_of
from retrograd.compiler.ir.expressions import read
from retrograd.compiler.ir.statements import (
    ZERO,
    Block,
    Check,
    Const,
    For,
    Local,
    Node,
    Op,
    Procedure,
    Test,
    Var,
    Within,
)
from retrograd.compiler.language.types import ArrayAnnotation, StackAnnotation, known
from retrograd.compiler.language.values import ArrayView, Scalar, StackValue
from retrograd.compiler.language.values import Value as Argument
from retrograd.isa.diagnostics import CompileError, Diagnostic, Span, nearest
from retrograd.isa.table import TABLE
from retrograd.isa.words import Format


@dataclass(frozen=True)
class Variable:
    """An argument of the entry: the annotation of its type. `initial`: its value before `main`; None where it must be given."""

    name: str
    annotation: object
    initial: object = None


class Unsigned:
    """The annotation of an integer without a sign: its argument is a number of 0 … 2^W − 1."""

    retrograd_kind = "uint"


#: the letter that the name of a type begins with -> the annotation of an argument, and the type of its zeros
_ANNOTATIONS: dict[str, tuple[type, Any]] = {"b": (bool, bool), "i": (int, int), "u": (Unsigned, np.uint64)}


class Entry:
    """A procedure where a program begins. `stacks`: words of each stack. Raises CompileError RG0702."""

    def __init__(self, program: syntax.Program, name: str, stacks: int = 1 << 12) -> None:
        self.program, self.stacks = program, stacks
        found = program.entry(name)
        if found is None:
            names = [p.name for p in program.procedures]
            known = f"Its procedures are {', '.join(names[:8])}." if names else None
            message = f"{program.source.name} defines no procedure `{name}`"
            raise CompileError(Diagnostic("RG0702", message, hint=nearest(name, names) or known))
        self.procedure = found

    @cached_property
    def _sizes(self) -> tuple[dict[str, tuple[int, ...]], dict[str, int]]:
        """(the lengths of the arrays of `main`, the initial values of its variables that are constants)."""
        known: dict[str, int] = {}
        lengths: dict[str, tuple[int, ...]] = {}
        expressions = Expressions(Format(64, 0), {}, lambda span: "", self._refuse, known)
        for d in self.procedure.declarations:
            if d.name in lengths:
                raise self._refused("RG0706", f"`{d.name}` is declared already", d.span, "Choose another name.")
            found: list[int] = []
            for dimension in d.lengths:
                e = None if dimension is None else self._constant(expressions, dimension)
                if e is None or e < 1:
                    hint = "A length of an array of `main` is a number, or computed from variables declared before it."
                    raise self._refused("RG0703", f"the length of `{d.name}` is no number from 1 on", d.span, hint)
                found.append(e)
            if prod(found) > LARGEST:
                message = f"`{d.name}` has {prod(found)} elements, and an array has up to {LARGEST}"
                raise self._refused("RG0703", message, d.span, "Make it smaller.")
            lengths[d.name] = tuple(found)
            if not d.lengths and d.type != "stack":
                value = 0 if d.initial is None else self._constant(expressions, d.initial)
                if value is not None:
                    known[d.name] = value
        return lengths, known

    def _constant(self, expressions: Expressions, node: syntax.Expression) -> int | None:
        if isinstance(node, syntax.Number):
            return node.value
        if any(r.indices or r.name not in expressions.constants for r in syntax.references(node)):
            return None
        e = expressions.value(node).e
        return int(e.param) if e.op == "const" else None

    def _refused(self, code: str, message: str, span: Span, hint: str | None = None) -> CompileError:
        return CompileError(Diagnostic(code, message, span, hint, self.program.source.lines[span.line - 1]))

    def _refuse(self, code: str, message: str, span: Span, hint: str | None = None) -> NoReturn:
        raise self._refused(code, message, span, hint)

    @cached_property
    def variables(self) -> tuple[Variable, ...]:
        """The variables of `main`, which begin as zeros, or the parameters of another procedure. Raises CompileError."""
        out = []
        sizes = self._sizes[0]
        for d in self.procedure.variables:
            kind, dtype = _ANNOTATIONS["i" if d.type == "stack" else d.type[0]]
            own = isinstance(d, syntax.Declaration)
            if d.type == "stack":
                out.append(Variable(d.name, StackAnnotation(int, self.stacks), []))
            elif d.lengths and own:
                out.append(Variable(d.name, ArrayAnnotation(kind, sizes[d.name]), np.zeros(sizes[d.name], dtype)))
            elif d.lengths:
                open_lengths = (f"{d.name}.{axis}" for axis in range(len(d.lengths)))
                lengths = (
                    n.value if isinstance(n, syntax.Number) else o for n, o in zip(d.lengths, open_lengths, strict=True)
                )
                out.append(Variable(d.name, ArrayAnnotation(kind, tuple(lengths))))
            else:
                out.append(Variable(d.name, kind, (False if kind is bool else 0) if own else None))
        return tuple(out)

    # ------------------------------------------------------------------ lowering

    def lowered(self, made: Specialisation, module: ModuleBuilder) -> Procedure:
        """The procedure for the shapes of its arguments. Raises CompileError."""
        parameters = parameters_of([v.name for v in self.variables], made.shapes)
        procedures = Procedures(self.program, module, self.stacks)
        lowering = procedures.lowering(made.name, False)
        for d in self.procedure.variables:
            lowering.code.names[d.name] = self._place(
                d.name, integer(d.type, module.w) if d.type != "stack" else None, parameters.names[d.name]
            )
        widened = self._widened(lowering)
        # A value reads the variables that are declared before its own.
        places = {d.name: lowering.code.names.pop(d.name) for d in self.procedure.declarations}
        for d in self.procedure.declarations:
            lowering.code.span = d.span
            place = places[d.name]
            if d.initial is not None and isinstance(place, ScalarPlace):
                lowering.code.update(place, "add", lowering.code.expressions.of_type(d.initial, place.type))
            elif d.initial is not None and isinstance(place, ArrayPlace):
                lowering.locals.fill(place, d, "add")
            lowering.code.names[d.name] = place
        for d in self.procedure.declarations:
            place = lowering.code.names[d.name]
            if d.role == "constant" and isinstance(place, ScalarPlace):
                lowering.code.names[d.name] = replace(place, constant=True)
        lowering.lower(self.procedure.body)
        procedures.finish()
        body = tuple(lowering.code.out)
        if widened:
            body = (Within(widened, body, None, self.procedure.span),)
        made.written = frozenset(range(len(parameters.variables)))
        return parameters.procedure(made.name, body, made.written, False, self.procedure.span)

    @staticmethod
    def _place(name: str, t: Integer | None, given: Argument) -> Place:
        match given:
            case Scalar(_, Var() as var):
                return ScalarPlace(name, t, var)
            case ArrayView(shape=shape, address=address):
                return ArrayPlace(name, t, known(shape), address)
            case StackValue(type=stack, address=address):
                return StackPlace(name, stack.capacity, address)
        raise TypeError(given)

    def _widened(self, lowering: StatementLowering) -> Block:
        """The statements that widen the integers of fewer bits."""
        out: list[Node] = []
        for place in lowering.code.names.values():
            t = None if isinstance(place, StackPlace) else place.type
            if t is None:
                continue
            if t.width > lowering.code.w.width:
                message = f"`{place.name}` has {t.width} bits, and a word {lowering.code.w.width}"
                raise self._refused("RG0714", message, self.procedure.span, WIDER)
            if t.width == lowering.code.w.width:
                continue
            if isinstance(place, ScalarPlace):
                assert isinstance(place.where, Var)
                out += self._wide(place.where, place.name, t, lowering.code.w)
            elif isinstance(place, ArrayPlace):
                i, held = Var("i", INT), Var("held", INT, self.procedure.span)
                temporaries = lowering.code.temporaries()
                temporaries.compute.append(Local(held, False, self.procedure.span))
                exchange = temporaries.memory("exch", held, place.address.shifted(read(i), 1))
                inner = (exchange, *self._wide(held, place.name, t, lowering.code.w), exchange)
                words = 1
                for n in place.lengths:
                    assert isinstance(n, int)
                    words *= n
                out.append(For(i, ZERO, Const(words), 1, temporaries.wrap(inner), False, True, self.procedure.span))
        return tuple(out)

    def _wide(self, var: Var, name: str, t: Integer, w: Format) -> Block:
        """v → v · 2^(W−k), for a number of the type: v + 2^(k−1) is less than 2^k, and a rotation moves it up."""
        span = self.procedure.span
        message = f"`{name}` is given a value outside of its {t.width} bits"
        fits = Check(Test("ltu", var, Const(1 << t.width)), "RG0804", message, span)
        turn = Op(TABLE["roli"], var, None, None, w.width - t.width, span)
        if not t.signed:
            return fits, turn
        half = Op(TABLE["mov.add"], var, Const(1 << (t.width - 1)), None, 0, span)
        return half, fits, turn, Op(TABLE["mov.xor"], var, Const(w.sign), None, 0, span)
