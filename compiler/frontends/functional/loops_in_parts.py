"""Loops in parts: the history of √n passes and √n states, in place of the history of n passes.

    f(x) = … f(y) …        a loop: f calls itself, at its end alone
    part(k, x)             the body of f, with  (y, 1) if k = 1 else part(k − 1, y)  in place of f(y), and (x, 0) in place of a value
    from(k, x)             let (y, more) = forget(part(k, x)) in  from(k + 1, y) if more else last(y)
    last(x)                the body of f, with last(x) in place of f(y)

    f(x) in parts  =  from(1, x)

The k-th part has k passes, so m parts have m²/2: the number of passes need not be known. n passes leave √2n states, and
the history of √2n passes at most is there at a time. Each pass is computed and uncomputed, so the run takes twice the
instructions, and five times those of a pass of one line, with the counting. `last` gives the value of a state that needs no further pass, so its call of itself is never reached.
Trap: the states of a loop have one type. A recursion over a list of known length, each of whose calls has a type of its
own, is no loop.
Source: C. H. Bennett, Time/Space Trade-offs for Reversible Computation, SIAM J. Comput. 18, 1989.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from retrograd.compiler.frontends.functional import core
from retrograd.compiler.frontends.functional.core import Binding, Core, Lambda, Place
from retrograd.compiler.frontends.functional.types import BOOL, INT, Type, Value
from retrograd.compiler.ir.expressions import const
from retrograd.compiler.ir.statements import Kind
from retrograd.compiler.language.values import Constant, Scalar


@dataclass(frozen=True)
class Count:
    """Whole numbers that count passes: "0", "1", k + 1, k − 1, k == 1, k != 0.

    Code on bundles counts as code on reals does.
    """

    op: str

    def type(self, inference: Any, types: Sequence[Type], at: Place) -> Type:
        return BOOL if self.op in ("==", "!=") else INT

    def value(self, lowering: Any, values: Sequence[Value], at: Place) -> Value:
        if not values:
            return Value(INT, (const(int(self.op), Kind.INT),))
        a = lowering.arithmetic
        other = Constant(0 if self.op == "!=" else 1)
        return Value(self.type(None, (), at), (a.expression(a.binary(self.op, Scalar(values[0].words[0]), other)),))


def _count(op: str, at: Place, *args: Core) -> Core:
    return core.Primitive(Count(op), args, at)


#: whether an expression is a function itself, by its name
Itself = Callable[[Core], bool]


def _is_loop(body: Core, itself: Itself) -> bool:
    """Whether the function calls itself, at its end alone."""
    ends = sum(isinstance(e, core.Apply) and itself(e.function) for e in _ends(body))
    return ends > 0 and ends == sum(map(itself, core.walk(body)))


def _ends(e: Core) -> Iterator[Core]:
    """The expressions of which one is the value."""
    match e:
        case core.Let(_, _, body) | core.LetRec(_, body):
            yield from _ends(body)
        case core.Conditional(_, then, orelse):
            yield from _ends(then)
            yield from _ends(orelse)
        case core.Match(_, cases, orelse):
            for part in (*(c.body for c in cases), *(() if orelse is None else (orelse,))):
                yield from _ends(part)
        case _:
            yield e


def _with_ends(e: Core, made: Callable[[Core], Core]) -> Core:
    """The expression with others in place of `_ends`."""
    match e:
        case core.Let(_, _, body) | core.LetRec(_, body):
            return replace(e, body=_with_ends(body, made))
        case core.Conditional(_, then, orelse):
            return replace(e, then=_with_ends(then, made), orelse=_with_ends(orelse, made))
        case core.Match(_, cases, orelse):
            bodies = tuple(replace(c, body=_with_ends(c.body, made)) for c in cases)
            return replace(e, cases=bodies, orelse=None if orelse is None else _with_ends(orelse, made))
    return made(e)


def _in_parts(f: Lambda, itself: Itself) -> Lambda:
    """The loop in parts."""
    at, name = f.at, f.name
    part, from_, last = (Binding(name, at) for _ in range(3))
    k, n, state, found = (Binding(b, at) for b in ("passes", "passes", "state", "found"))

    def refs(bindings: Sequence[Binding]) -> tuple[Core, ...]:
        return tuple(core.Ref(b, at) for b in bindings)

    def fresh() -> tuple[Binding, ...]:
        return tuple(Binding(p.name, p.at) for p in f.params)

    def call(callee: Binding, *args: Core) -> Core:
        return core.Apply(core.Ref(callee, at), args, at)

    def pair(args: Sequence[Core], more: str) -> Core:
        return core.Record((core.Record(tuple(args), at), _count(more, at)), at)

    def pass_(e: Core) -> Core:
        if not (isinstance(e, core.Apply) and itself(e.function)):
            return pair(refs(f.params), "0")
        given = fresh()
        one = _count("==", at, core.Ref(k, at))
        further = call(part, _count("-", at, core.Ref(k, at)), *refs(given))
        made: Core = core.Conditional(one, pair(refs(given), "1"), further, e.at)
        for b, value in reversed(list(zip(given, e.args, strict=True))):
            made = core.Let(b, value, made, e.at)
        return made

    def end(e: Core) -> Core:
        return call(last, *refs(f.params)) if isinstance(e, core.Apply) and itself(e.function) else e

    begun = fresh()
    items = [core.Item(core.Ref(state, at), i, at) for i in range(len(begun))]
    again = call(from_, _count("+", at, core.Ref(n, at)), *items)
    more = _count("!=", at, core.Item(core.Ref(found, at), 1, at))
    step: Core = core.Conditional(more, again, call(last, *items), at)
    step = core.Let(state, core.Item(core.Ref(found, at), 0, at), step, at)
    step = core.Let(found, core.Forget(call(part, core.Ref(n, at), *refs(begun)), at), step, at)
    outer = fresh()
    made = call(from_, _count("1", at), *refs(outer))
    for binding, code in (
        (from_, Lambda(name, (n, *begun), step, at)),
        (last, Lambda(name, f.params, _with_ends(f.body, end), at)),
        (part, Lambda(name, (k, *f.params), _with_ends(f.body, pass_), at)),
    ):
        code.group = ((binding, code),)
        made = core.LetRec(code.group, made, at)
    return Lambda(name, outer, made, at)


class Loops:
    """The loops of a program. `define`: a functional function -> its definition."""

    def __init__(self, define: Callable[[Any], Lambda]) -> None:
        self._define = define

    def names(self, function: Any) -> list[str]:
        """The names of the loops in a functional function and in those that it calls, in the order of the text."""
        found: dict[str, None] = {}
        seen: set[Any] = set()
        todo = [function]
        while todo:
            function = todo.pop(0)
            if function in seen:
                continue
            seen.add(function)
            code = self._define(function)
            if _is_loop(code.body, _is_global(function)):
                found.setdefault(code.name)
            for node in core.walk(code):
                if isinstance(node, core.Global):
                    todo.append(node.function)
                elif isinstance(node, core.LetRec):
                    for binding, f in node.functions:
                        if _is_loop(f.body, _is_bound(binding)):
                            found.setdefault(f.name)
        return list(found)

    def in_parts(self, function: Any, names: Collection[str]) -> Lambda:
        """The definition of a functional function, in which the loops with these names are in parts."""
        code = self._define(function)
        if not names:
            return code
        found = self._rewritten(code, names)
        assert isinstance(found, Lambda)
        itself = _is_global(function)
        return _in_parts(found, itself) if found.name in names and _is_loop(found.body, itself) else found

    def _rewritten(self, e: Core, names: Collection[str]) -> Core:
        """The expression, and the same object where there is no loop in it: rules of primitives know functions by their code."""
        before = core.children(e)
        parts = [self._rewritten(child, names) for child in before]
        if isinstance(e, core.LetRec):
            for i, (binding, _) in enumerate(e.functions):
                f = parts[i]
                assert isinstance(f, Lambda)
                if f.name in names and _is_loop(f.body, _is_bound(binding)):
                    parts[i] = _in_parts(f, _is_bound(binding))
        if all(a is b for a, b in zip(before, parts, strict=True)):
            return e
        if isinstance(e, core.LetRec):
            # The functions of the letrec that stay as they are become members of a new group.
            parts = [replace(p, group=(), versions={}) if p in before and isinstance(p, Lambda) else p for p in parts]
        return core.rebuilt(e, parts)


def _is_global(function: Any) -> Itself:
    return lambda e: isinstance(e, core.Global) and e.function is function


def _is_bound(binding: Binding) -> Itself:
    return lambda e: isinstance(e, core.Ref) and e.binding is binding
