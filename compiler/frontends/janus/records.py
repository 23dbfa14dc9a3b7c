"""Structs of Janus: a program with structs → the same program with a variable for each field.

    struct point { int x  int y }
    struct point p                  int p.x, int p.y
    struct point a[3]               int a.x[3], int a.y[3]
    a[i].x                          a.x[i]
    p <=> q                         p.x <=> q.x, then p.y <=> q.y
    call f(a[i])                    call f(a.x[i], a.y[i])

The inverse follows: each statement becomes statements that have one, and that change different variables.
Raises CompileError: RG0702 for an unknown struct or field, RG0703 for a struct where a number is expected, RG0712 for
initial values of another shape.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from math import prod
from typing import NamedTuple, NoReturn, TypeGuard, TypeVar

from retrograd.compiler.deep_recursion import with_deep_stack
from retrograd.compiler.frontends.janus import syntax
from retrograd.compiler.frontends.janus.expressions import FIXES, counted
from retrograd.isa.diagnostics import CompileError, Diagnostic, Span, nearest

T = TypeVar("T")

#: structs within each other; leaves of one struct; elements of a field that an initial value copies
_DEEPEST, _LEAVES, _COPIED = 16, 256, 1024


class _Typed(NamedTuple):
    """The type of a name, and its lengths."""

    type: str
    lengths: tuple[syntax.Expression | None, ...]


class _Leaf(NamedTuple):
    """A field that is no struct. `path`: the fields that lead to it, with their positions and numbers of dimensions."""

    type: str
    path: tuple[tuple[str, int, int], ...]
    lengths: tuple[syntax.Expression | None, ...]

    @property
    def suffix(self) -> str:
        return "".join(f".{name}" for name, _, _ in self.path)


def flattened(program: syntax.Program) -> syntax.Program:
    """The program with a variable for each field of its structs. Raises CompileError with all errors, or RG0720."""
    try:
        return with_deep_stack(lambda: _flattened(program))
    except RecursionError:
        pass
    raise CompileError(Diagnostic("RG0720", f"{program.source.name} is nested too deep to be compiled"))


def _flattened(program: syntax.Program) -> syntax.Program:
    if not program.structs and not any("struct" in v.type for p in program.procedures for v in p.variables):
        fields = (r for p in program.procedures for s in syntax.statements(p.body) for r in _named(s) if r.counts)
        if next(fields, None) is None and not any(_declares_struct(p.body) for p in program.procedures):
            return program
    return _Flattening(program).program()


def _declares_struct(body: syntax.Body) -> bool:
    found = (s for s in syntax.statements(body) if isinstance(s, syntax.Local))
    return any("struct" in d.type for s in found for d in (*s.declarations, *s.releases))


def _named(s: syntax.Statement) -> Iterator[syntax.Reference]:
    for e in syntax.expressions(s):
        yield from syntax.references(e)


def argument_count(procedure: syntax.Procedure, node: syntax.Call) -> str:
    """The message of a call with another number of arguments than the procedure has parameters."""
    parameters, arguments = counted(len(procedure.parameters), "parameter"), counted(len(node.arguments), "argument")
    return f"`{node.name}` has {parameters}, and is given {arguments}"


class _Flattening:
    """Replaces the structs of one program. `_names`: the variables in scope."""

    def __init__(self, program: syntax.Program) -> None:
        self._program = program
        self._structs = {s.name: s for s in program.structs}
        self._procedures = {p.name: p for p in program.procedures}
        self._names: dict[str, _Typed] = {}
        self._findings: list[Diagnostic] = []

    def program(self) -> syntax.Program:
        for s in self._program.structs:
            self._kept(partial(self._leaves, f"struct {s.name}", s.span))
        if self._findings:
            raise CompileError(*self._findings)
        procedures = tuple(self._procedure(p) for p in self._program.procedures)
        if self._findings:
            raise CompileError(*self._findings)
        return replace(self._program, procedures=procedures, structs=())

    # ------------------------------------------------------------------ errors

    def _fail(self, code: str, message: str, span: Span, hint: str | None = None) -> NoReturn:
        raise CompileError(self._program.source.diagnostic(code, message, span, hint or FIXES.get(code)))

    def _kept(self, make: Callable[[], Iterable[T]]) -> list[T]:
        """The results of a maker; none where it raises an error, which is kept."""
        try:
            return list(make())
        except CompileError as error:
            self._findings += error.diagnostics
            return []

    def _text(self, e: syntax.Expression) -> str:
        return self._program.source.piece(e.span)

    # ------------------------------------------------------------------ structs

    def _leaves(self, kind: str, span: Span, depth: int = 0) -> tuple[_Leaf, ...]:
        """The fields of a type that are no structs, in order; of another type one leaf without a path."""
        if not kind.startswith("struct "):
            return (_Leaf(kind, (), ()),)
        name = kind.removeprefix("struct ")
        struct = self._structs.get(name)
        if struct is None:
            hint = nearest(name, self._structs) or "Declare it above the procedures: `struct point { int x  int y }`."
            self._fail("RG0702", f"there is no `struct {name}`", span, hint)
        if depth > _DEEPEST:
            self._fail("RG0703", f"`struct {name}` contains itself, or more than {_DEEPEST} levels of structs", span)
        out: list[_Leaf] = []
        for k, f in enumerate(struct.fields):
            for leaf in self._leaves(f.type, f.span, depth + 1):
                out.append(_Leaf(leaf.type, ((f.name, k, len(f.lengths)), *leaf.path), (*f.lengths, *leaf.lengths)))
            if len(out) > _LEAVES:
                self._fail("RG0703", f"`struct {name}` has more than {_LEAVES} fields", span, "Use arrays.")
        return tuple(out)

    def _resolved(self, r: syntax.Reference) -> tuple[_Typed, syntax.Reference]:
        """(the type of what a reference stands for, the reference with all indices at its end)."""
        first, *rest = r.name.split(".")
        found = self._names.get(first)
        if found is None:
            self._fail("RG0702", f"`{first}` is not declared", r.span, nearest(first, self._names))
        counts = r.counts or (len(r.indices),)
        done = first
        for name, count in zip(rest, counts, strict=False):
            struct = self._structs.get(found.type.removeprefix("struct ")) if found.type.startswith("struct ") else None
            if struct is None:
                self._fail("RG0703", f"`{self._text(r)}`: `{done}` is no struct, and has no field `{name}`", r.span)
            if count != len(found.lengths):
                self._fail_indices(r, done, found, count, f"An element has fields: `{done}[i].{name}`.")
            field = next((f for f in struct.fields if f.name == name), None)
            if field is None:
                fields = [f.name for f in struct.fields]
                hint = nearest(name, fields) or f"Its fields: {', '.join(fields)}."
                self._fail("RG0702", f"`struct {struct.name}` has no field `{name}`", r.span, hint)
            done, found = f"{done}.{name}", _Typed(field.type, field.lengths)
        if counts[-1] > len(found.lengths) and found.type.startswith("struct "):
            self._fail_indices(r, done, found, counts[-1])
        indices = tuple(self._expression(i) for i in r.indices)
        return _Typed(found.type, found.lengths[counts[-1] :]), syntax.Reference(r.name, indices, span=r.span)

    def _fail_indices(
        self, r: syntax.Reference, name: str, found: _Typed, count: int, hint: str | None = None
    ) -> NoReturn:
        """Refuse a number of indices behind a name."""
        there = f"{count} {'index stands' if count == 1 else 'indices stand'} there"
        message = f"`{self._text(r)}`: `{name}` has {counted(len(found.lengths), 'dimension')}, and {there}"
        self._fail("RG0703", message, r.span, hint)

    def _parts(self, r: syntax.Reference) -> tuple[syntax.Reference, ...]:
        """A reference to each field of a struct; of another variable, the reference."""
        typed, at = self._resolved(r)
        return tuple(replace(at, name=at.name + leaf.suffix) for leaf in self._leaves(typed.type, r.span))

    # ------------------------------------------------------------------ expressions

    def _reference(self, r: syntax.Reference) -> syntax.Reference:
        """A reference to a variable that is no struct."""
        typed, at = self._resolved(r)
        if typed.type.startswith("struct "):
            hint = "A statement changes one field, `p.x += 1`; a struct is exchanged, passed to a procedure, and shown."
            self._fail(
                "RG0703", f"`{self._text(r)}` is a {typed.type} where a number or a stack is expected", r.span, hint
            )
        return at

    def _expression(self, e: syntax.Expression) -> syntax.Expression:
        match e:
            case syntax.Reference():
                return self._reference(e)
            case syntax.Unary(operand=x) | syntax.Cast(operand=x):
                return replace(e, operand=self._expression(x))
            case syntax.Indicator(condition=x):
                return replace(e, condition=self._expression(x))
            case syntax.Binary(left=x, right=y):
                return replace(e, left=self._expression(x), right=self._expression(y))
            case syntax.Size(of=of):
                typed, _ = self._resolved(of)
                if typed.type.startswith("struct ") and not typed.lengths:
                    self._fail("RG0703", f"`{self._text(of)}` is one struct, which has no size", e.span)
                return replace(e, of=self._parts(of)[0])
            case syntax.Empty(of=of) | syntax.Top(of=of):
                return replace(e, of=self._reference(of))
            case syntax.Items(items=items):
                return replace(e, items=tuple(map(self._expression, items)))
        return e

    # ------------------------------------------------------------------ variables

    def _declared(self, d: syntax.Declaration) -> tuple[syntax.Declaration, ...]:
        """A declaration for each field."""
        lengths = tuple(None if n is None else self._expression(n) for n in d.lengths)
        out = []
        for leaf in self._leaves(d.type, d.span):
            initial = d.initial
            if leaf.path and initial is not None:
                initial = self._initial(initial, len(d.lengths), leaf, leaf.path, d.type)
            elif initial is not None:
                initial = self._expression(initial)
            own = (*lengths, *leaf.lengths)
            out.append(replace(d, type=leaf.type, name=d.name + leaf.suffix, lengths=own, initial=initial))
        return tuple(out)

    def _initial(
        self,
        e: syntax.Expression,
        dimensions: int,
        leaf: _Leaf,
        path: Sequence[tuple[str, int, int]],
        kind: str,
    ) -> syntax.Expression:
        """The values of one field in the initial values of a struct, or of an array of structs.

        `dimensions`: those of the array whose values they are; `path`: the fields that lead from there to the leaf.
        """
        if dimensions and isinstance(e, syntax.Items):
            items = (self._initial(item, dimensions - 1, leaf, path, kind) for item in e.items)
            return replace(e, items=tuple(items))
        if not path:
            return self._expression(e)
        _, k, inner = path[0]
        fields = self._structs[kind.removeprefix("struct ")].fields
        if isinstance(e, syntax.Reference) and not dimensions:
            typed, at = self._resolved(e)
            lengths = [n.value for n in leaf.lengths[len(leaf.lengths) - sum(n for _, _, n in path) :] if _is_number(n)]
            if typed == _Typed(kind, ()) and prod(lengths) <= _COPIED:
                return _elements(replace(at, name=at.name + "".join(f".{name}" for name, _, _ in path)), lengths)
        if dimensions or not isinstance(e, syntax.Items) or len(e.items) > len(fields):
            hint = f"Give a value for each field: {{{', '.join(f.name for f in fields)}}}; missing values are zeros."
            self._fail("RG0712", f"`{self._text(e)}` does not fit `{kind}`", e.span, hint)
        if k < len(e.items):
            return self._initial(e.items[k], inner, leaf, path[1:], fields[k].type)
        if any(n for _, _, n in path):
            return syntax.Items((), span=e.span)
        return syntax.Truth(False, span=e.span) if leaf.type == "bool" else syntax.Number(0, span=e.span)

    def _parameters(self, parameters: Iterable[syntax.Parameter]) -> Iterator[syntax.Parameter]:
        for p in parameters:
            for leaf in self._leaves(p.type, p.span):
                yield replace(p, type=leaf.type, name=p.name + leaf.suffix, lengths=(*p.lengths, *leaf.lengths))

    def _procedure(self, p: syntax.Procedure) -> syntax.Procedure:
        self._names = {v.name: _Typed(v.type, v.lengths) for v in p.parameters}
        parameters = self._kept(lambda: self._parameters(p.parameters))
        declarations: list[syntax.Declaration] = []
        for d in p.declarations:
            declarations += self._kept(partial(self._declared, d))
            self._names[d.name] = _Typed(d.type, d.lengths)
        return replace(p, parameters=tuple(parameters), declarations=tuple(declarations), body=self._body(p.body))

    # ------------------------------------------------------------------ statements

    def _body(self, body: syntax.Body) -> syntax.Body:
        return tuple(x for s in body for x in self._kept(partial(self._statement, s)))

    def _statement(self, s: syntax.Statement) -> Iterable[syntax.Statement]:
        e = self._expression
        match s:
            case syntax.Update(target=target, value=value):
                return (replace(s, target=self._reference(target), value=e(value)),)
            case syntax.Swap(left=left, right=right):
                (a, _), (b, _) = self._resolved(left), self._resolved(right)
                if (a.type, len(a.lengths)) != (b.type, len(b.lengths)) and "struct" in a.type + b.type:
                    text = self._program.source.piece(s.span)
                    self._fail("RG0703", f"`{text}` exchanges values of two types", s.span)
                pairs = zip(self._parts(left), self._parts(right), strict=True)
                return [replace(s, left=x, right=y) for x, y in pairs]
            case syntax.If(condition=first, then=then, orelse=orelse, exit=last):
                then, orelse = self._body(then), self._body(orelse)
                return (replace(s, condition=e(first), then=then, orelse=orelse, exit=e(last)),)
            case syntax.Loop(entry=first, do=do, loop=loop, exit=last):
                return (replace(s, entry=e(first), do=self._body(do), loop=self._body(loop), exit=e(last)),)
            case syntax.Iterate(start=start, step=step, stop=stop):
                start, step, stop = e(start), None if step is None else e(step), e(stop)
                before = dict(self._names)
                self._names[s.name] = _Typed(s.type, ())
                body = self._body(s.body)
                self._names = before
                return (replace(s, start=start, step=step, stop=stop, body=body),)
            case syntax.Local():
                return (self._local(s),)
            case syntax.Push(value=value, stack=stack) | syntax.Pop(value=value, stack=stack):
                return (replace(s, value=self._reference(value), stack=self._reference(stack)),)
            case syntax.Call():
                return (self._call(s),)
            case syntax.Assert(condition=condition):
                return (replace(s, condition=e(condition)),)
            case syntax.Printf(arguments=arguments):
                return (replace(s, arguments=tuple(map(self._reference, arguments))),)
            case syntax.Show(arguments=arguments):
                return (replace(s, arguments=tuple(x for a in arguments for x in self._parts(a))),)
        return (s,)

    def _local(self, s: syntax.Local) -> syntax.Local:
        before = dict(self._names)
        try:
            declarations: list[syntax.Declaration] = []
            for d in s.declarations:
                declarations += self._declared(d)
                self._names[d.name] = _Typed(d.type, d.lengths)
            body = self._body(s.body)
            releases: list[syntax.Declaration] = []
            for d in s.releases:
                releases += self._declared(d)
            return replace(s, declarations=tuple(declarations), body=body, releases=tuple(releases))
        finally:
            self._names = before

    def _call(self, s: syntax.Call) -> syntax.Call:
        procedure = self._procedures.get(s.name)
        if procedure is not None and len(procedure.parameters) != len(s.arguments):
            self._fail("RG0715", argument_count(procedure, s), s.span)
        parameters = procedure.parameters if procedure is not None else (None,) * len(s.arguments)
        out: list[syntax.Expression] = []
        for p, a in zip(parameters, s.arguments, strict=True):
            typed = self._resolved(a)[0] if isinstance(a, syntax.Reference) else _Typed("int", ())
            alike = p is not None and (p.type, len(p.lengths)) == (typed.type, len(typed.lengths))
            if p is not None and not alike and "struct" in p.type + typed.type:
                given = typed.type if isinstance(a, syntax.Reference) else "an expression"
                given += f" with {counted(len(typed.lengths), 'dimension')}" if typed.lengths else ""
                wanted = f"{p.type} {p.name}{'[]' * len(p.lengths)}"
                message = f"the parameter `{wanted}` of `{s.name}` is given {given}"
                self._fail("RG0703", message, a.span, f"Pass a variable of the type `{p.type}`.")
            out += self._parts(a) if isinstance(a, syntax.Reference) else (self._expression(a),)
        return replace(s, arguments=tuple(out))


def _is_number(e: syntax.Expression | None) -> TypeGuard[syntax.Number]:
    return isinstance(e, syntax.Number)


def _elements(r: syntax.Reference, lengths: Sequence[int]) -> syntax.Expression:
    """The elements of an array, as initial values."""
    if not lengths:
        return r
    indices = (syntax.Number(k, span=r.span) for k in range(lengths[0]))
    items = (_elements(replace(r, indices=(*r.indices, i)), lengths[1:]) for i in indices)
    return syntax.Items(tuple(items), span=r.span)
