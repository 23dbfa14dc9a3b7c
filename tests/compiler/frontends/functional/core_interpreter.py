"""An interpreter of the core: the meaning of each expression. It uses neither types nor the stages behind the reader.

Numbers are of the class that `operations` takes; functions, lists and tuples are Python's; derivatives are given.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from retrograd.compiler.frontends.functional import core
from retrograd.compiler.frontends.functional.control_flow import Cursor, IsVector, Whole
from retrograd.compiler.frontends.python.captures import Captures

Env = Mapping[core.Binding, Any]


class Interpreter:
    """`operations`: name of an operation → function of its operands. `operators`: "grad" and the like, as functions of functions."""

    def __init__(
        self, operations: Mapping[str, Callable[..., Any]], operators: Mapping[str, Callable[..., Any]]
    ) -> None:
        self._operations, self._operators = operations, operators
        self._known: dict[int, Any] = {}

    def function(self, f: Any) -> Callable[..., Any]:
        """A functional function as a function of Python."""
        if id(f) not in self._known:
            self._known[id(f)] = f, self._closure(f.functional_core(Captures()), {})
        found: Callable[..., Any] = self._known[id(f)][1]
        return found

    def _closure(self, f: core.Lambda, env: Env) -> Callable[..., Any]:
        def called(*args: Any) -> Any:
            assert len(args) == len(f.params)
            own = {b: self._closure(member, env) for b, member in f.group}
            return self.value(f.body, {**env, **own, **dict(zip(f.params, args, strict=True))})

        return called

    def value(self, e: core.Core, env: Env) -> Any:
        match e:
            case core.Number(value):
                return value
            case core.Ref(binding):
                return env[binding]
            case core.Lambda():
                return self._closure(e, env)
            case core.Global(function):
                return self.function(function)
            case core.Operator(name):
                return self._operators[name]
            case core.Apply(f, args):
                return self.value(f, env)(*[self.value(a, env) for a in args])
            case core.Let(binding, value, body):
                return self.value(body, {**env, binding: self.value(value, env)})
            case core.LetRec(functions, body):
                inner: dict[core.Binding, Any] = dict(env)
                # The functions of a letrec see each other: their environment is filled after they are made.
                inner.update({b: self._closure(f, inner) for b, f in functions})
                return self.value(body, inner)
            case core.Conditional(test, then, orelse):
                return self.value(then if self.value(test, env) else orelse, env)
            case core.Operation("unpack", (whole, core.Number(count))):
                # The test that a tuple has as many items as there are names for them.
                assert len(self.value(whole, env)) == count
                return 0
            case core.Operation(op, args):
                values = [self.value(a, env) for a in args]
                return self._operations[
                    f"unary {op}" if len(values) == 1 and f"unary {op}" in self._operations else op
                ](*values)
            case core.Record(items):
                return tuple(self.value(i, env) for i in items)
            case core.Item(value, index):
                return self.value(value, env)[index]
            case core.Build(None, args):
                if not args:
                    return []
                *items, tail = (self.value(a, env) for a in args)
                return [*items, *tail]
            case core.Build(cls, args):
                assert cls is not None
                return cls(*[self.value(a, env) for a in args])
            case core.Cast(value) | core.Forget(value):
                return self.value(value, env)
            case core.Field(value, name):
                return getattr(self.value(value, env), name)
            case core.Match():
                return self._match(e, env)
            case core.Element(array, indices):
                found = self.value(array, env)
                for i in indices:
                    found = found[self.value(i, env)]
                return found
            case core.Length(array):
                return len(self.value(array, env))
            case core.Total(index, start, stop, body):
                total: Any = 0
                for k in range(self.value(start, env), self.value(stop, env)):
                    total = total + self.value(body, {**env, index: k})
                return total
            case core.Refusal(_, message):
                raise AssertionError(message)
            case core.Primitive(Cursor() | Whole(), (given,)):
                return self.value(given, env)
            case core.Primitive(IsVector()):
                return False
            case core.Structural() | core.Primitive():
                raise TypeError("no expression of a source text")

    def _match(self, e: core.Match, env: Env) -> Any:
        subject = self.value(e.subject, env)
        for case in e.cases:
            parts: tuple[Any, ...] | None = None
            if case.cls is type(None):
                parts = () if isinstance(subject, list | tuple) and not subject else None
            elif case.cls is list:
                parts = (subject[0], subject[1:]) if isinstance(subject, list | tuple) and subject else None
            elif type(subject) is case.cls:
                parts = tuple(getattr(subject, name) for name in type(subject).__match_args__)
            if parts is not None:
                return self.value(case.body, {**env, **dict(zip(case.fields, parts, strict=True))})
        assert e.orelse is not None
        return self.value(e.orelse, env)
