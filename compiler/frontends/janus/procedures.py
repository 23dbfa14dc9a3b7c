"""Versions of the procedures of a Janus program: one for each combination of types, known lengths and aliases of the arguments.

    call f(x, x)      a version of f in which both parameters are one variable
    call f(a[i])      the element is exchanged into a variable around the call
    call f(x + 1)     a temporary, which must hold the same value after the call

Lengths of arrays are part of a version where they are constants of the text, else the version has parameters for them. So there are
finitely many versions; beyond `_MOST`, all lengths of a procedure are parameters.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Any, NamedTuple, NoReturn

import numpy as np
from retrograd.compiler.frontends.builder import ModuleBuilder
from retrograd.compiler.frontends.janus import syntax
from retrograd.compiler.frontends.janus.expressions import (
    BOOL,
    INT,
    WIDER,
    ArrayPlace,
    Code,
    Expressions,
    Integer,
    Place,
    ScalarPlace,
    StackPlace,
    array_layouts,
    capacities_of,
    depth_of,
    described_place,
    integer,
    lengths_of,
    to_stored,
    word_type,
    words_of,
)
from retrograd.compiler.frontends.janus.records import argument_count, flattened
from retrograd.compiler.frontends.janus.statements import LARGEST, Locals, StatementLowering
from retrograd.compiler.frontends.specialisation import Specialisation, parameters_of
from retrograd.compiler.ir.expressions import Address, E, loads, read, variables
from retrograd.compiler.ir.flatten import Temporaries
from retrograd.compiler.ir.statements import (
    ZERO,
    Block,
    Call,
    Check,
    Const,
    For,
    Kind,
    Local,
    Node,
    Op,
    Operand,
    Procedure,
    Region,
    Test,
    Var,
    Within,
)
from retrograd.compiler.ir.traversal import callees_first
from retrograd.compiler.language.types import ArrayAnnotation, StackAnnotation, StackType, Type, known
from retrograd.compiler.language.values import ArrayView, Scalar, StackValue
from retrograd.compiler.language.values import Value as Argument
from retrograd.isa.diagnostics import CompileError, Diagnostic, Span, nearest
from retrograd.isa.table import TABLE
from retrograd.isa.words import Format

#: versions of one procedure whose lengths are known
_MOST = 16
#: errors that a run reports
_REPORTED = 20


class _Form(NamedTuple):
    """The form of an argument: `same`, the position of the first argument that is the same place."""

    same: int
    type: Integer | None = None
    #: of an array: each length, None where it is a parameter
    lengths: tuple[int | None, ...] | None = None
    #: of a stack, or of the stacks in an array; see `StackPlace`
    capacities: tuple[int, ...] = ()

    def takes(self, axis: int) -> bool:
        """Whether the length on an axis is a parameter."""
        return self.lengths is not None and self.lengths[axis] is None


@dataclass
class _Argument:
    """An argument of a call: its place in the caller, or the operand that is passed."""

    place: Place | None
    operand: Operand | None = None


class Procedures:
    """The procedures of a program, lowered into a module at their first calls. `capacity`: words of a stack."""

    def __init__(self, program: syntax.Program, module: ModuleBuilder, capacity: int) -> None:
        self._program, self._module, self._capacity = program, module, capacity
        self._known: dict[str, syntax.Procedure] = {p.name: p for p in program.procedures}
        self._written = written_parameters(self._known)
        graph = {
            name: [c.name for c in syntax.calls(p.body) if c.name in self._known] for name, p in self._known.items()
        }
        self._recursive = {n for component in callees_first(graph) if component.recursive for n in component.names}
        self._versions: dict[tuple[str, tuple[_Form, ...]], str] = {}
        self._waiting: list[tuple[str, tuple[_Form, ...], str]] = []
        self._findings: list[Diagnostic] = []

    def lowering(self, owner: str, recursive: bool) -> StatementLowering:
        """The lowering of a body."""
        code = Code(self._module, self._program.source, self._findings)
        return StatementLowering(code, Locals(code, owner, recursive, self._capacity), self.changed, self._call)

    def changed(self, statements: Sequence[syntax.Statement]) -> set[str]:
        """The names that statements may change."""
        return changed_names(statements, self._known, self._written)

    def finish(self) -> None:
        """Lower all versions that are called. Raises CompileError with the errors of all statements."""
        while self._waiting:
            name, forms, version = self._waiting.pop()
            self._module.procedures[version] = self._lowered(self._known[name], forms, version)
        if self._findings:
            # The versions of a procedure have the same errors.
            raise CompileError(*list(dict.fromkeys(sorted(self._findings, key=_place)))[:_REPORTED])

    # ------------------------------------------------------------------ versions

    def _version(self, procedure: syntax.Procedure, forms: tuple[_Form, ...]) -> tuple[str, tuple[_Form, ...]]:
        """(the name of the version, its forms)."""
        if (procedure.name, forms) not in self._versions:
            count = sum(name == procedure.name for name, _ in self._versions)
            if count >= _MOST:
                forms = tuple(
                    f._replace(lengths=None if f.lengths is None else (None,) * len(f.lengths)) for f in forms
                )
        key = procedure.name, forms
        if key not in self._versions:
            self._versions[key] = self._module.unique_name(procedure.name)
            self._waiting.append((*key, self._versions[key]))
        return self._versions[key], forms

    def _lowered(self, procedure: syntax.Procedure, forms: tuple[_Form, ...], version: str) -> Procedure:
        recursive = procedure.name in self._recursive
        lowering = self.lowering(version, recursive)
        params: list[Var] = []
        regions: list[Region] = []
        written: set[int] = set()
        changed = self._written[procedure.name]
        places: list[Place] = []
        for p, form in zip(procedure.parameters, forms, strict=True):
            if form.same < len(places):
                places.append(places[form.same])
                continue
            place: Place
            if form.capacities or form.lengths is not None:
                size = words_of(form.capacities)
                for n in form.lengths or ():
                    size = size * n if n else 1
                lengths_given = () if form.lengths is None else form.lengths
                inside = array_layouts(p.name, form.type, lengths_given, self._module.w, form.capacities)
                base = Var(p.name, Kind.ADDRESS, p.span)
                region = Region(p.name, size, span=p.span, layouts=inside)
                params.append(base)
                regions.append(region)
                address = Address(region, base)
                if form.lengths is None:
                    place = StackPlace(p.name, form.capacities, address)
                else:
                    lengths = [Var(f"{p.name}.length", INT, p.span) if n is None else n for n in form.lengths]
                    params += [n for n in lengths if isinstance(n, Var)]
                    place = ArrayPlace(p.name, form.type, tuple(lengths), address, form.capacities)
            else:
                params.append(Var(p.name, BOOL if form.type is None else INT, p.span))
                place = ScalarPlace(p.name, form.type, params[-1])
            places.append(place)
        for p, place in zip(procedure.parameters, places, strict=True):
            lowering.code.names[p.name] = place
            if p.name in changed and isinstance(place, ScalarPlace) and isinstance(place.where, Var):
                written.add(params.index(place.where))
        lowering.lower(procedure.body)
        body = tuple(lowering.code.out)
        return Procedure(version, tuple(params), tuple(regions), body, frozenset(written), recursive, procedure.span)

    # ------------------------------------------------------------------ calls

    def _call(self, at: Code, node: syntax.Call) -> None:
        if node.name == "main" and self._program.dialect == "jana":
            at.fail("RG0715", "`main` is where a program begins, and cannot be called", node.span)
        procedure = self._known.get(node.name)
        if procedure is None:
            message = f"there is no procedure `{node.name}`"
            warnings.warn(f"{node.span}: {message}: a run that reaches this call traps", stacklevel=2)
            at.emit(Check(Test("ne", ZERO, ZERO), "RG0804", message, node.span))
            return
        if len(procedure.parameters) != len(node.arguments):
            at.fail("RG0715", argument_count(procedure, node), node.span)
        t = at.temporaries()
        changed = self._written[procedure.name]
        #: elements that are passed by reference
        held: list[tuple[Address, Var]] = []
        given: list[_Argument] = []
        computed: list[E] = []
        for p, argument in zip(procedure.parameters, node.arguments, strict=True):
            place = at.expressions.place(argument) if isinstance(argument, syntax.Reference) else None
            if isinstance(place, ScalarPlace) and isinstance(place.where, Address):
                place = self._held(at, t, place, place.where, held, argument.span)
            elif place is None:
                if depth_of(p.type) or p.lengths:
                    at.fail(
                        "RG0703",
                        f"`{at.text(argument.span)}` is passed where an array or a stack is expected",
                        argument.span,
                    )
                wanted = word_type(p.type, at.w, at.fail, argument.span)
                e = to_stored(at.expressions.of_type(argument, wanted), wanted, at.w)
                if e.op == "const" and p.name not in changed:
                    given.append(_Argument(ScalarPlace(p.name, wanted, Var(p.name, INT)), t.operand(e)))
                    continue
                var = Var(at.text(argument.span), BOOL if wanted is None else INT, argument.span)
                t.compute.append(Local(var, False, node.span))
                t.into(t.compute, var, "xor" if wanted is None else "add", e, fresh=True)
                computed.append(e)
                place = ScalarPlace(p.name, wanted, var)
            given.append(_Argument(place))
        operands, regions, forms = self._passed(at, t, procedure, given, held, node)
        version, forms = self._version(procedure, forms)
        passed = [x for x, length in operands if length is None or forms[length[0]].takes(length[1])]
        for where, var in held:
            t.compute += [Local(var, False, node.span), t.memory("exch", var, where)]
        writes = self._writes(procedure, given, changed)
        reads = [*computed, *(e for where, _ in held for e, _ in where.terms)]
        clobbered = any(writes & variables(e) or writes & {a.region for a, _ in loads(e)} for e in reads)
        clobbered |= any(
            a.place is not None
            and p.name in changed
            and isinstance(arg, syntax.Expression)
            and not isinstance(arg, syntax.Reference)
            for p, a, arg in zip(procedure.parameters, given, node.arguments, strict=True)
        )
        call = Call(version, tuple(passed), tuple(regions), node.backward, node.span)
        at.emit(*t.wrap((call,), checked=clobbered))

    def _held(
        self,
        at: Code,
        t: Temporaries,
        place: ScalarPlace,
        where: Address,
        held: list[tuple[Address, Var]],
        span: Span,
    ) -> ScalarPlace:
        """The variable that an element is exchanged into around the call."""
        for other, var in held:
            if other.region is where.region:
                if where.minus(other) == 0:
                    return ScalarPlace(place.name, place.type, var)
                where = at.expressions.apart(where, other, span)
        t.address(where)
        var = Var(place.name, place.kind, at.span)
        held.append((where, var))
        return ScalarPlace(place.name, place.type, var)

    def _writes(self, procedure: syntax.Procedure, given: Sequence[_Argument], changed: set[str]) -> set[Var | Region]:
        """The variables and regions of the caller that the call may change."""
        out: set[Var | Region] = set()
        for p, a in zip(procedure.parameters, given, strict=True):
            if p.name in changed and a.place is not None:
                if isinstance(a.place, ScalarPlace):
                    if isinstance(a.place.where, Var):
                        out.add(a.place.where)
                else:
                    out.add(a.place.address.region)
        return out

    def _passed(
        self,
        at: Code,
        t: Temporaries,
        procedure: syntax.Procedure,
        given: Sequence[_Argument],
        held: Sequence[tuple[Address, Var]],
        node: syntax.Call,
    ) -> tuple[list[tuple[Operand, tuple[int, int] | None]], list[Region], tuple[_Form, ...]]:
        """(operands, each with (argument, axis) if it is a length; regions; forms)."""
        operands: list[tuple[Operand, tuple[int, int] | None]] = []
        regions: list[Region] = []
        forms: list[_Form] = []
        seen: list[object] = []
        for k, (p, a) in enumerate(zip(procedure.parameters, given, strict=True)):
            place = a.place
            key: object = (
                (id(place.where),)
                if isinstance(place, ScalarPlace)
                else (place.address, lengths_of(place))
                if place is not None
                else k
            )
            same = seen.index(key) if key in seen else k
            seen.append(key)
            self._require_type(at, procedure, p, place, node)
            if place is not None and p.name in self._written[procedure.name]:
                at.require_variable(place, node.span)
            match place:
                case ScalarPlace(type=kind, where=Var() as var):
                    forms.append(_Form(same, kind))
                    if same == k:
                        operands.append((a.operand if a.operand is not None else var, None))
                case ArrayPlace(type=kind, lengths=lengths, address=address):
                    if any(where.region is address.region for where, _ in held):
                        message = f"`{at.text(node.span)}` passes `{place.name}` and an element of it"
                        at.fail("RG0705", message, node.span)
                    known_lengths = tuple(None if isinstance(n, Var) else n for n in lengths)
                    forms.append(_Form(same, kind, known_lengths, place.capacities))
                    if same == k:
                        address = self._apart(at, procedure, given[: k + 1], node)
                        operands.append((t.location(address), None))
                        regions.append(address.region)
                        operands += [
                            (n if isinstance(n, Var) else Const(n), (k, axis)) for axis, n in enumerate(lengths)
                        ]
                case StackPlace(capacities=capacities, address=address):
                    forms.append(_Form(same, None, None, capacities))
                    if same == k:
                        address = self._apart(at, procedure, given[: k + 1], node)
                        operands.append((t.location(address), None))
                        regions.append(address.region)
        return operands, regions, tuple(forms)

    def _apart(self, at: Code, procedure: syntax.Procedure, given: Sequence[_Argument], node: syntax.Call) -> Address:
        """The address of the last argument, an array or a stack, tested to be apart from the others in its region."""
        place = given[-1].place
        assert isinstance(place, ArrayPlace | StackPlace)
        address = place.address
        written = [p.name in self._written[procedure.name] for p in procedure.parameters]
        for k, other in enumerate(given[:-1]):
            if not isinstance(other.place, ArrayPlace | StackPlace) or other.place.address.region is not address.region:
                continue
            if lengths_of(other.place) == lengths_of(place):
                address = at.expressions.apart(address, other.place.address, node.span)
            elif written[k] or written[len(given) - 1]:
                at.fail("RG0705", f"`{at.text(node.span)}` passes `{place.name}` and a part of it", node.span)
        return address

    def _require_type(
        self,
        at: Code,
        procedure: syntax.Procedure,
        p: syntax.Parameter,
        place: Place | None,
        node: syntax.Call,
    ) -> None:
        """Refuse an argument of another type than the parameter's."""
        depth = depth_of(p.type)
        if depth and not p.lengths:
            fits = isinstance(place, StackPlace) and len(place.capacities) == depth
        elif p.lengths:
            fits = (
                isinstance(place, ArrayPlace)
                and place.type == integer(p.type, at.w)
                and len(place.capacities) == depth
                and len(place.lengths) == len(p.lengths)
            )
            for wanted, n in zip(p.lengths, place.lengths if isinstance(place, ArrayPlace) else (), strict=False):
                if isinstance(wanted, syntax.Number) and isinstance(n, int) and wanted.value != n:
                    message = (
                        f"`{p.name}` of `{procedure.name}` has a length of {wanted.value}, and is given an array of {n}"
                    )
                    at.fail("RG0712", message, node.span)
        else:
            fits = isinstance(place, ScalarPlace) and place.type == integer(p.type, at.w)
        if not fits:
            found = "an expression" if place is None else described_place(place, at.w)
            wanted_text = f"{p.type} {p.name}{'[]' * len(p.lengths)}"
            at.fail("RG0703", f"the parameter `{wanted_text}` of `{procedure.name}` is given {found}", node.span)


def _capacities(t: Type) -> tuple[int, ...]:
    """The capacities of a stack and of the stacks in it, the outer first."""
    return (t.capacity, *_capacities(t.element)) if isinstance(t, StackType) else ()


def _place(found: Diagnostic) -> tuple[int, int]:
    return (found.span.line, found.span.column) if found.span is not None else (0, 0)


# ---------------------------------------------------------------------- names that statements change


def written_parameters(procedures: Mapping[str, syntax.Procedure]) -> dict[str, set[str]]:
    """For each procedure the parameters that it may change: the least solution."""
    written: dict[str, set[str]] = {name: set() for name in procedures}
    while True:
        before = {name: len(found) for name, found in written.items()}
        for name, p in procedures.items():
            own = {x.name for x in p.parameters}
            written[name] |= changed_names(p.body, procedures, written) & own
        if all(len(found) == before[name] for name, found in written.items()):
            return written


def changed_names(
    statements: Sequence[syntax.Statement], procedures: Mapping[str, syntax.Procedure], written: Mapping[str, set[str]]
) -> set[str]:
    """The names that statements may change, given the parameters that procedures may change."""
    out: set[str] = set()
    for node in syntax.statements(statements):
        match node:
            case syntax.Update(target=target):
                out.add(target.name)
            case syntax.Swap(left=left, right=right):
                out |= {left.name, right.name}
            case syntax.Push(value=value, stack=stack) | syntax.Pop(value=value, stack=stack):
                out |= {value.name, stack.name}
            case syntax.Call(name=name, arguments=arguments) if name in procedures:
                for p, a in zip(procedures[name].parameters, arguments, strict=False):
                    if isinstance(a, syntax.Reference) and p.name in written[name]:
                        out.add(a.name)
            case _:
                pass
    return out


# -----------------------------------------------------------------------------
# The entry of a Janus program: the parameters of a procedure, or the variables of `main`, are the arguments in memory.
#
#     main:  x += its initial value …; the statements        from zeros to the final store; backward, to zeros
#
# An integer of k bits, k < W, is widened at the entry (see values.py) and narrowed at the end.


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
        program = flattened(program)
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
            if not d.lengths and not depth_of(d.type):
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
        return CompileError(self.program.source.diagnostic(code, message, span, hint))

    def _refuse(self, code: str, message: str, span: Span, hint: str | None = None) -> NoReturn:
        raise self._refused(code, message, span, hint)

    @cached_property
    def variables(self) -> tuple[Variable, ...]:
        """The variables of `main`, which begin as zeros, or the parameters of another procedure. Raises CompileError."""
        out = []
        sizes = self._sizes[0]
        for d in self.procedure.variables:
            depth = depth_of(d.type)
            kind: Any
            kind, dtype = _ANNOTATIONS["i" if depth else d.type[0]]
            own = isinstance(d, syntax.Declaration)
            for capacity in reversed(capacities_of(depth, self.stacks)):
                kind = StackAnnotation(kind, capacity)
            if depth and not d.lengths:
                out.append(Variable(d.name, kind, []))
            elif depth and own:
                empty: Any = []
                for n in reversed(sizes[d.name]):
                    empty = [empty] * n
                out.append(Variable(d.name, ArrayAnnotation(kind, sizes[d.name]), empty))
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
            lowering.code.names[d.name] = self._place(d.name, integer(d.type, module.w), parameters.names[d.name])
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
            case ArrayView(element=element, shape=shape, address=address):
                return ArrayPlace(name, t, known(shape), address, _capacities(element))
            case StackValue(type=stack, address=address):
                return StackPlace(name, _capacities(stack), address)
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
