"""Paths through statements, and loops as recursion: `for`, `while`, list comprehensions, sums over any sequence.

    while t: body         =  letrec loop(n…) = if t then (body; loop(n…)) else (n…)
                             in let (n…) = loop(n…)
    for x in xs: body     =  letrec loop(c, n…) = match c {[x, *c] → (body; loop(c, n…)), [] → (n…)}
                             in let (n…) = loop(cursor of xs, n…)
    [e for x in xs if t]  =  letrec loop(c) = match c {[x, *c] → if t then [e, *loop(c)] else loop(c), [] → []}
                             in loop(cursor of xs)

n… are the names that the loop assigns and that have a value in front of it. `break` gives (n…), and `continue` calls
the loop. If a `return` is inside, the loop gives the function's value: the statements behind it are a function
after(n…), which `break` and the end call.
Trap: a name that has no value in front of the loop has none behind it, since the loop may run no time.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol

from retrograd.compiler.frontends.functional import core
from retrograd.compiler.frontends.functional.types import (
    BOOL,
    INT,
    Array,
    Known,
    List,
    Tuple,
    Type,
    Value,
    combined,
    named,
    names_of,
    record,
    record_form,
)
from retrograd.compiler.ir.expressions import const
from retrograd.compiler.ir.statements import Kind

Scope = dict[str, core.Binding]


class Expressions(Protocol):
    """The reader of expressions (expressions.py)."""

    def at(self, node: ast.AST) -> core.Place: ...

    def fail(self, code: str, message: str, at: ast.AST, hint: str | None = None) -> NoReturn: ...

    def known(self, node: ast.expr, scope: Scope) -> Any: ...

    def constant(self, e: core.Core) -> core.Core: ...

    def expression(self, node: ast.expr, scope: Scope) -> core.Core: ...

    def test(self, node: ast.expr, scope: Scope) -> core.Core: ...

    def chosen(
        self, test: core.Core, x: Callable[[], core.Core], y: Callable[[], core.Core], at: ast.AST
    ) -> core.Core: ...

    def bound(
        self, target: ast.expr, value: core.Core, body: Callable[[Scope], core.Core], scope: Scope, at: ast.AST
    ) -> core.Core: ...


# -----------------------------------------------------------------------------
# The paths through statements: which of them return, and the names that they assign.


def returns(body: Sequence[ast.stmt]) -> bool:
    """Whether no path through the statements reaches their end."""
    for node in body:
        match node:
            case ast.Return() | ast.Break() | ast.Continue():
                return True
            case ast.If() if returns(node.body) and returns(node.orelse):
                return True
            case ast.Match() if all(returns(c.body) for c in node.cases) and catches_all(node):
                return True
    return False


def within(body: Sequence[ast.stmt]) -> Iterator[ast.AST]:
    """The syntax inside statements, without that of inner functions."""
    todo: list[ast.AST] = list(body)
    while todo:
        node = todo.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.Lambda):
            todo += ast.iter_child_nodes(node)


def leaves(body: Sequence[ast.stmt]) -> bool:
    """Whether some path leaves the statements by `return`, or by the `break` or `continue` of a loop around them."""
    todo: list[tuple[ast.AST, bool]] = [(node, False) for node in body]
    while todo:
        node, inside = todo.pop()
        if isinstance(node, ast.Return) or (isinstance(node, ast.Break | ast.Continue) and not inside):
            return True
        if not isinstance(node, ast.FunctionDef | ast.Lambda):
            todo += ((n, inside or isinstance(node, ast.For | ast.While)) for n in ast.iter_child_nodes(node))
    return False


def stored(body: Sequence[ast.stmt]) -> list[str]:
    """The names that statements assign on some path, in alphabetical order."""
    hidden: set[int] = set()
    found: set[str] = set()
    names: list[ast.Name] = []
    for node in within(body):
        match node:
            case ast.Name(ctx=ast.Store()):
                names.append(node)
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)) | ast.FunctionDef(name=name):
                found.add(name)
            case ast.comprehension(target=target):
                hidden.update(map(id, ast.walk(target)))
    return sorted(found | {n.id for n in names if id(n) not in hidden})


def assigned(body: Sequence[ast.stmt]) -> set[str]:
    """The names that statements assign on every path."""
    out: set[str] = set()
    for node in body:
        match node:
            case ast.If():
                out |= assigned(node.body) & assigned(node.orelse)
            case ast.Match():
                out |= set.intersection(*(assigned(c.body) for c in node.cases)) if catches_all(node) else set()
            case ast.For() | ast.While():
                pass
            case _:
                out |= set(stored([node]))
    return out


def catches_all(node: ast.Match) -> bool:
    return any(isinstance(c.pattern, ast.MatchAs) and c.pattern.pattern is None for c in node.cases)


# -----------------------------------------------------------------------------
# What loops go over.


class Cursor:
    """The rest of a sequence: a list and a tuple are their own; of an array it is the array and an index."""

    def type(self, inference: Any, types: tuple[Type, ...], at: core.Place) -> Type:
        match types[0]:
            case List() | Tuple(_, ""):
                return types[0]
            case Tuple(_, form) if form.startswith("dict["):
                return DictView("keys").type(inference, types, at)
            case Array():
                return Tuple((types[0], INT), CURSOR)
        hint = "Loops go over `range(…)`, lists, tuples, arrays, `enumerate(…)` and `zip(…)`."
        raise inference.fail("RG0703", f"a loop over {named(types[0])}", at, hint)

    def value(self, lowering: Any, values: Sequence[Value], at: core.Place) -> Value:
        [given] = values
        if isinstance(given.type, Tuple) and given.type.form:
            return DictView("keys").value(lowering, values, at)
        if not isinstance(given.type, Array):
            return given
        return combined(Tuple((given.type, INT), CURSOR), [given, Value(INT, (const(0, Kind.INT),))])


@dataclass(frozen=True)
class DictView:
    """`p.keys()`, `p.values()`, `p.items()` of a dict: a tuple. A key is known by its type, and takes no words."""

    name: str

    def type(self, inference: Any, types: tuple[Type, ...], at: core.Place) -> Type:
        of = types[0]
        if not isinstance(of, Tuple) or not of.form.startswith("dict["):
            raise inference.fail(
                "RG0703", f"`{self.name}` of {named(of)}, which is no dict", at, "A dict has known names."
            )
        keys = [Known(name) for name in names_of(of)]
        pairs = [Tuple((key, t)) for key, t in zip(keys, of.items, strict=True)]
        return Tuple(tuple({"keys": keys, "values": of.items, "items": pairs}[self.name]))

    def value(self, lowering: Any, values: Sequence[Value], at: core.Place) -> Value:
        t = self.type(None, (values[0].type,), at)
        return combined(t, [] if self.name == "keys" else [values[0]])


class Entry:
    """One item more in front of a dict, `{key: value, **rest}`, of which a later one with its key has the value."""

    def type(self, inference: Any, types: tuple[Type, ...], at: core.Place) -> Type:
        key, value, rest = types
        if not isinstance(key, Known) or not isinstance(key.value, str) or not isinstance(rest, Tuple):
            hint = "Keys are those of a dict: `{k: f(v) for k, v in p.items()}`, `{k: p[k] for k in p}`."
            raise inference.fail("RG0703", f"the key of this dict is {named(key)}", at, hint)
        items: dict[str, Type] = {key.value: value}
        return record("dict", list((items | dict(zip(names_of(rest), rest.items, strict=True))).items()))

    def value(self, lowering: Any, values: Sequence[Value], at: core.Place) -> Value:
        key, value, rest = values
        t = self.type(lowering.inference, (key.type, value.type, rest.type), at)
        assert isinstance(key.type, Known)
        assert isinstance(rest.type, Tuple)
        parts = dict(zip(names_of(rest.type), rest.split(rest.type.items), strict=True))
        return combined(t, list(({str(key.type.value): value} | parts).values()))


@dataclass(frozen=True)
class Text:
    """A text that is written: the name of a dict's item."""

    text: str

    def type(self, inference: Any, types: tuple[Type, ...], at: core.Place) -> Type:
        return Known(self.text)

    def value(self, lowering: Any, values: Sequence[Value], at: core.Place) -> Value:
        return Value(Known(self.text))


@dataclass(frozen=True)
class SameText:
    """Whether two names are the same, or not; it is known by their types."""

    same: bool

    def type(self, inference: Any, types: tuple[Type, ...], at: core.Place) -> Type:
        for t in types:
            if not isinstance(t, Known):
                inference.fail(
                    "RG0703", f"a text is compared with {named(t)}", at, "Texts are names of a dict's items."
                )
        return Known((types[0] == types[1]) is self.same)

    def value(self, lowering: Any, values: Sequence[Value], at: core.Place) -> Value:
        return Value(self.type(None, tuple(v.type for v in values), at))


class SameLengths:
    """The first of several sequences, which must have as many items as the others: `zip(…, strict=True)`."""

    def type(self, inference: Any, types: tuple[Type, ...], at: core.Place) -> Type:
        lengths = []
        for t in types:
            if not isinstance(t, Array | Tuple):
                hint = "Leave `strict=` out: then the loop ends with the shorter one."
                raise inference.fail("RG0703", f"`strict=` of {named(t)}, whose length is not known", at, hint)
            lengths.append(t.shape[0] if isinstance(t, Array) else len(t.items))
        if len(set(lengths)) > 1:
            counts = " and ".join(map(str, lengths))
            inference.fail("RG0712", f"`zip(…, strict=True)` of {counts} items", at, "Give each as many items.")
        return types[0]

    def value(self, lowering: Any, values: Sequence[Value], at: core.Place) -> Value:
        return values[0]


class IsVector:
    """Whether a value is an array with one axis, which is known by its type."""

    def type(self, inference: Any, types: tuple[Type, ...], at: core.Place) -> Type:
        return Known(isinstance(types[0], Array) and len(types[0].shape) == 1)

    def value(self, lowering: Any, values: Sequence[Value], at: core.Place) -> Value:
        return Value(self.type(None, tuple(v.type for v in values), at))


class Whole:
    """An argument of `range`: the number itself, which must be an int."""

    def type(self, inference: Any, types: tuple[Type, ...], at: core.Place) -> Type:
        if types[0] not in (INT, BOOL):
            inference.fail(
                "RG0703",
                f"`range` takes ints, and is given {named(types[0])}",
                at,
                "`int(x)` makes an int of a number.",
            )
        return types[0]

    def value(self, lowering: Any, values: Sequence[Value], at: core.Place) -> Value:
        return values[0]


CURSOR = "cursor"


def taken_apart(e: core.Match, t: Tuple) -> core.Core | None:
    """`match` of a tuple, by the first item and the rest; None if it has no case for it."""
    at = e.at
    whole = core.Binding("sequence", at)
    cases = {case.cls: case for case in e.cases}
    longer, empty = cases.get(list), cases[type(None)].body if type(None) in cases else e.orelse

    def item(k: int) -> core.Core:
        return core.Item(core.Ref(whole, at), k, at)

    def first(head: core.Core, tail: core.Core) -> core.Core | None:
        if longer is None:
            return e.orelse
        bound, rest = longer.fields
        return core.Let(bound, head, core.Let(rest, tail, longer.body, at), at)

    if t.form == CURSOR:
        index = core.Operation("+", (item(1), core.Number(1, at)), at)
        then = first(core.Element(item(0), (item(1),), at), core.Record((item(0), index), at, CURSOR))
        if then is None or empty is None:
            return None
        test = core.Operation("<", (item(1), core.Length(item(0), at)), at)
        made: core.Core | None = core.Conditional(test, then, empty, at)
    elif t.items:
        made = first(item(0), core.Record(tuple(item(k) for k in range(1, len(t.items))), at))
    else:
        made = empty
    return None if made is None else core.Let(whole, e.subject, made, at)


#: an item, and the values of a source's variables behind it → the expression of one pass
Step = Callable[[core.Core, tuple[core.Core, ...]], core.Core]


@dataclass
class Source:
    """What a loop goes over.

    `held`: values that are computed once. `states`: the variables of the loop for it, and their first values.
    `advanced(then, done)`: the expression `then(item, next states)`, or `done()` at the end.
    """

    held: list[tuple[core.Binding, core.Core]]
    states: list[tuple[core.Binding, core.Core]]
    advanced: Callable[[Step, Callable[[], core.Core]], core.Core]


#: sequences that are no value
_COUNTED = (range, enumerate, zip, reversed)


def source(reader: Expressions, node: ast.expr, scope: Scope) -> Source:
    """What `for … in node` goes over. Raises CompileError."""
    at = reader.at(node)
    match node:
        case ast.Call(func=f, args=args, keywords=[]) if reader.known(f, scope) is range and 1 <= len(args) <= 3:
            return _range(reader, args, node, scope)
        case ast.Call(func=f, args=[ast.Call(func=g, args=args, keywords=[])], keywords=[]) if (
            reader.known(f, scope) is reversed and reader.known(g, scope) is range and 1 <= len(args) <= 2
        ):
            return _range(reader, args, node, scope, backward=True)
        case ast.Call(func=f, args=[inside, *first], keywords=[]) if (
            reader.known(f, scope) is enumerate and len(first) < 2
        ):
            counted = source(reader, inside, scope)
            k = core.Binding("k", at)
            begin = reader.expression(first[0], scope) if first else core.Number(0, at)
            after = core.Operation("+", (core.Ref(k, at), core.Number(1, at)), at)
            return Source(
                counted.held,
                [(k, core.Primitive(Whole(), (begin,), at)), *counted.states],
                lambda then, done: counted.advanced(
                    lambda item, states: then(core.Record((core.Ref(k, at), item), at), (after, *states)), done
                ),
            )
        case ast.Call(func=f, args=[_, *_] as args, keywords=[]) if reader.known(f, scope) is zip:
            return _zip([source(reader, inside, scope) for inside in args], at)
        case ast.Call(func=f, args=[_, *_] as args, keywords=[ast.keyword("strict", ast.Constant(strict))]) if (
            reader.known(f, scope) is zip
        ):
            zipped = [source(reader, inside, scope) for inside in args]
            if strict:
                start = zipped[0]
                if any(isinstance(x, ast.Call) and reader.known(x.func, scope) in _COUNTED for x in args):
                    hint = "Leave `strict=` out: then the loop ends with the shorter one."
                    reader.fail("RG0729", "`strict=` beside `range`, `enumerate`, `zip` or `reversed`", node, hint)
                same = core.Primitive(SameLengths(), tuple(reader.expression(x, scope) for x in args), at)
                begin = core.Primitive(Cursor(), (same,), at)
                zipped[0] = Source(start.held, [(start.states[0][0], begin)], start.advanced)
            return _zip(zipped, at)
    whole, rest, head = (core.Binding(name, at) for name in ("items", "rest", "item"))

    def advanced(then: Step, done: Callable[[], core.Core]) -> core.Core:
        cases = (
            core.Case(type(None), (), done()),
            core.Case(list, (head, rest), then(core.Ref(head, at), (core.Ref(rest, at),))),
        )
        return core.Match(core.Ref(whole, at), cases, None, at)

    return Source([], [(whole, core.Primitive(Cursor(), (reader.expression(node, scope),), at))], advanced)


def _range(
    reader: Expressions, args: Sequence[ast.expr], node: ast.expr, scope: Scope, backward: bool = False
) -> Source:
    """start, start + step, … below stop, or above it for a negative step; `backward`: from stop − 1 down to start.

    With a step of 1 or −1, i is the variable, and i + step is a word wherever another pass follows. Otherwise passes are
    counted: start + k step for k = 0, 1, …, so that no word beyond the last item is made. Of n below m there are

        ⌊(m − 1 − n) / s⌋ + 1  =  ⌊(m − 1) / s⌋ − ⌊n / s⌋ + 1, less 1 if (m − 1) mod s < n mod s

    items: 2^(W−1) of them at most.
    """
    at = reader.at(node)
    given: list[core.Core] = [core.Primitive(Whole(), (reader.expression(a, scope),), reader.at(a)) for a in args]
    step: Any = 1
    if len(args) == 3:
        number = reader.constant(reader.expression(args[2], scope))
        step = number.value if isinstance(number, core.Number) else None
        if not isinstance(step, int) or step == 0:
            found = "0" if step == 0 else "not a whole number that is known"
            hint = "Write a number for the step, or a `while` loop."
            reader.fail("RG0729", f"the step of this range is {found}", args[2], hint)
    held: list[tuple[core.Binding, core.Core]] = []

    def once(name: str, value: core.Core) -> core.Core:
        held.append((core.Binding(name, at), value))
        return core.Ref(held[-1][0], at)

    def operation(op: str, x: core.Core, y: core.Core | int) -> core.Core:
        return core.Operation(op, (x, core.Number(y, at) if isinstance(y, int) else y), at)

    start = once("start", given[0]) if len(args) > 1 else core.Number(0, at)
    stop = once("stop", given[min(1, len(args) - 1)])
    i = core.Binding("i", at)
    own = core.Ref(i, at)
    if abs(step) == 1:
        item = operation("+", operation("-", operation("-", stop, own), 1), start) if backward else own
        test = operation("<" if step > 0 else ">", own, stop)
        after = operation("+", own, step)
        return Source(held, [(i, start)], lambda then, done: core.Conditional(test, then(item, (after,)), done(), at))
    size = abs(step)
    low, high = (start, operation("-", stop, 1)) if step > 0 else (operation("+", stop, 1), start)
    apart = operation("-", operation("//", high, size), operation("//", low, size))
    less = core.Conditional(
        operation("<", operation("%", high, size), operation("%", low, size)),
        core.Number(0, at),
        core.Number(1, at),
        at,
    )
    some = operation("<", start, stop) if step > 0 else operation(">", start, stop)
    count = once("count", core.Conditional(some, operation("+", apart, less), core.Number(0, at), at))
    item = operation("+", start, operation("*", own, step))
    # Words differ where a count of 2^(W−1), for a step of 2, is no int.
    test, after = operation("!=", own, count), operation("+", own, 1)
    return Source(
        held, [(i, core.Number(0, at))], lambda then, done: core.Conditional(test, then(item, (after,)), done(), at)
    )


def _zip(parts: Sequence[Source], at: core.Place) -> Source:
    """The items of several sources as tuples, as long as each has one."""

    def advanced(then: Step, done: Callable[[], core.Core]) -> core.Core:
        def from_(k: int, items: tuple[core.Core, ...], states: tuple[core.Core, ...]) -> core.Core:
            if k == len(parts):
                return then(core.Record(items, at), states)
            return parts[k].advanced(lambda item, own: from_(k + 1, (*items, item), (*states, *own)), done)

        return from_(0, (), ())

    return Source([x for p in parts for x in p.held], [x for p in parts for x in p.states], advanced)


# -----------------------------------------------------------------------------
# Loops.

Then = Callable[[Scope], core.Core]


@dataclass(frozen=True)
class Loop:
    """The loop around the statements that are read: what `continue` and `break` give, by the names at that place."""

    again: Then
    left: Then


def recursion(
    over: Source | None,
    carried: Sequence[tuple[core.Binding, core.Core]],
    body: Callable[[core.Core | None, Callable[..., core.Core]], core.Core],
    done: Callable[[], core.Core],
    at: core.Place,
    name: str = "loop",
) -> core.Core:
    """letrec loop(states, carried) = body(item, again) or done() in loop(first states, first carried).

    again(values) calls the loop with the next states.
    """
    own = core.Binding(name, at)

    def again(states: tuple[core.Core, ...]) -> Callable[..., core.Core]:
        return lambda *values: core.Apply(core.Ref(own, at), (*states, *values), at)

    if over is None:
        inside, states, held = body(None, again(())), [], []
    else:
        inside = over.advanced(lambda item, following: body(item, again(following)), done)
        states, held = over.states, over.held
    variables = [*states, *carried]
    f = core.Lambda(name, tuple(b for b, _ in variables), inside, at)
    f.group = ((own, f),)
    made: core.Core = core.LetRec(((own, f),), core.Apply(core.Ref(own, at), tuple(x for _, x in variables), at), at)
    for binding, value in reversed(held):
        made = core.Let(binding, value, made, at)
    return made


def comprehended(reader: Expressions, node: ast.ListComp | ast.DictComp | ast.GeneratorExp, scope: Scope) -> core.Core:
    """The list or the dict of a comprehension; the sum of a generator expression."""
    at = reader.at(node)
    adds = isinstance(node, ast.GeneratorExp)

    def level(k: int, scope: Scope, so_far: tuple[core.Core, ...], end: Callable[..., core.Core]) -> core.Core:
        """The value from the k-th `for` on. `so_far`: the sum; `end` gives the value behind the last item."""
        g = node.generators[k]
        if g.is_async:
            reader.fail("RG0729", "an asynchronous loop", g.iter)
        total = core.Binding("total", at)
        now: tuple[core.Core, ...] = (core.Ref(total, at),) if adds else ()

        def body(item: core.Core | None, again: Callable[..., core.Core]) -> core.Core:
            def kept(scope: Scope) -> core.Core:
                if k + 1 < len(node.generators):
                    return level(k + 1, scope, now, again)
                if isinstance(node, ast.DictComp):
                    parts = reader.expression(node.key, scope), reader.expression(node.value, scope), again()
                    return core.Primitive(Entry(), parts, reader.at(node.key))
                value = reader.expression(node.elt, scope)
                return again(core.Operation("+", (*now, value), at)) if adds else core.Build(None, (value, again()), at)

            def tested(scope: Scope) -> core.Core:
                made = kept(scope)
                for test in reversed(g.ifs):
                    truth = reader.test(test, scope)
                    made = reader.chosen(truth, lambda x=made: x, lambda: again(*now), test)  # type: ignore[misc]
                return made

            assert item is not None
            return reader.bound(g.target, item, tested, scope, node)

        carried = [(total, x) for x in so_far]
        return recursion(source(reader, g.iter, scope), carried, body, lambda: end(*now), at, "sum" if adds else "list")

    start: tuple[core.Core, ...] = (core.Number(0, at),) if adds else ()
    empty: core.Core = core.Build(None, (), at)
    if isinstance(node, ast.DictComp):
        empty = core.Record((), at, record_form("dict", ()))
    return level(0, scope, start, (lambda x: x) if adds else lambda: empty)


def plain_sum(node: ast.GeneratorExp, reader: Expressions, scope: Scope) -> bool:
    """Whether a sum goes over ranges with a step of one, which a `core.Total` adds up."""
    return all(
        isinstance(g.target, ast.Name)
        and isinstance(g.iter, ast.Call)
        and reader.known(g.iter.func, scope) is range
        and 1 <= len(g.iter.args) <= 2
        and not (g.ifs or g.iter.keywords)
        for g in node.generators
    )
