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
from dataclasses import dataclass
from typing import NamedTuple

from retrograd.compiler.frontends.builder import ModuleBuilder
from retrograd.compiler.frontends.janus import syntax
from retrograd.compiler.frontends.janus.lowering.code import Code
from retrograd.compiler.frontends.janus.lowering.expressions import counted, described_place, integer, word_type
from retrograd.compiler.frontends.janus.lowering.locals import Locals
from retrograd.compiler.frontends.janus.lowering.statements import StatementLowering
from retrograd.compiler.frontends.janus.lowering.values import (
    BOOL,
    INT,
    ArrayPlace,
    Integer,
    Place,
    ScalarPlace,
    StackPlace,
    array_layouts,
    stack_layouts,
    to_stored,
)
from retrograd.compiler.ir.expressions import Address, E, loads, variables
from retrograd.compiler.ir.flatten import Temporaries
from retrograd.compiler.ir.statements import (
    ZERO,
    Call,
    Check,
    Const,
    Kind,
    Local,
    Operand,
    Procedure,
    Region,
    Test,
    Var,
)
from retrograd.compiler.ir.traversal import callees_first
from retrograd.isa.diagnostics import CompileError, Diagnostic, Span

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
    capacity: int = 0

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
            if form.capacity or form.lengths is not None:
                size = form.capacity + 1
                for n in form.lengths or ():
                    size = size * n if n else 1
                inside = (
                    stack_layouts(p.name, form.capacity)
                    if form.lengths is None
                    else array_layouts(p.name, form.type, form.lengths, self._module.w)
                )
                base = Var(p.name, Kind.ADDRESS, p.span)
                region = Region(p.name, size, span=p.span, layouts=inside)
                params.append(base)
                regions.append(region)
                address = Address(region, base)
                if form.lengths is None:
                    place = StackPlace(p.name, form.capacity, address)
                else:
                    lengths = [Var(f"{p.name}.length", INT, p.span) if n is None else n for n in form.lengths]
                    params += [n for n in lengths if isinstance(n, Var)]
                    place = ArrayPlace(p.name, form.type, tuple(lengths), address)
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
            parameters, arguments = len(procedure.parameters), len(node.arguments)
            message = (
                f"`{node.name}` has {counted(parameters, 'parameter')}, and is given {counted(arguments, 'argument')}"
            )
            at.fail("RG0715", message, node.span)
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
                if p.type == "stack" or p.lengths:
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
                else (place.address, place.lengths)
                if isinstance(place, ArrayPlace)
                else place.address
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
                    forms.append(_Form(same, kind, tuple(None if isinstance(n, Var) else n for n in lengths)))
                    if same == k:
                        for other in given[:k]:
                            if isinstance(other.place, ArrayPlace) and other.place.address.region is address.region:
                                address = at.expressions.apart(address, other.place.address, node.span)
                        operands.append((t.location(address), None))
                        regions.append(address.region)
                        operands += [
                            (n if isinstance(n, Var) else Const(n), (k, axis)) for axis, n in enumerate(lengths)
                        ]
                case StackPlace(capacity=capacity, address=address):
                    forms.append(_Form(same, None, None, capacity))
                    if same == k:
                        operands.append((t.location(address), None))
                        regions.append(address.region)
        return operands, regions, tuple(forms)

    def _require_type(
        self,
        at: Code,
        procedure: syntax.Procedure,
        p: syntax.Parameter,
        place: Place | None,
        node: syntax.Call,
    ) -> None:
        """Refuse an argument of another type than the parameter's."""
        if p.type == "stack":
            fits = isinstance(place, StackPlace)
        elif p.lengths:
            fits = (
                isinstance(place, ArrayPlace)
                and place.type == integer(p.type, at.w)
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
                out |= {value.name, stack}
            case syntax.Call(name=name, arguments=arguments) if name in procedures:
                for p, a in zip(procedures[name].parameters, arguments, strict=False):
                    if isinstance(a, syntax.Reference) and p.name in written[name]:
                        out.add(a.name)
            case _:
                pass
    return out
