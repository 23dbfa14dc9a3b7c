"""Calls by name as compute–copy–uncompute: the memory of a run against its time.

    f(x)  →  forget(f(x))         for each call of f that does not lie in f, nor in a function that f calls

A call inside the recursion of f stays: to forget it would compute the rest of the recursion twice at each level. Source: C. H. Bennett, Time/Space
Trade-offs for Reversible Computation, SIAM J. Comput. 18, 1989.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any

from retrograd.compiler.frontends.functional import core

#: a function that has a name: its binding, or the functional function itself
Named = Any


class Calls:
    """The calls of functions by name in a program. `define`: a functional function -> its definition."""

    def __init__(self, define: Callable[[Any], core.Lambda]) -> None:
        self._define = define
        #: function -> its definition, and the functions that its body mentions
        self._lambdas: dict[Named, core.Lambda] = {}
        self._mentions: dict[Named, set[Named]] = {}

    def names(self, function: Any) -> list[str]:
        """The names of the functions with a call that can be forgotten, in the order of the text."""
        self._enter(function)
        found: dict[str, None] = {}
        for owner in list(self._lambdas):
            if not isinstance(owner, core.Binding):
                for call in self._calls(self._lambdas[owner], (owner,)):
                    found.setdefault(call)
        return list(found)

    def forgetting(self, function: Any, names: Collection[str]) -> core.Lambda:
        """The definition of a functional function, in which the calls of the functions with these names are forgotten."""
        if not names:
            return self._define(function)
        code = self._enter(function)
        made = self._rewritten(code, (function,), frozenset(names))
        assert isinstance(made, core.Lambda)
        return made

    def _enter(self, function: Any) -> core.Lambda:
        if function in self._lambdas:
            return self._lambdas[function]
        code = self._lambdas[function] = self._define(function)
        self._mentions[function] = self._mentioned(code)
        for node in core.walk(code):
            named: list[tuple[core.Binding, core.Core]] = []
            match node:
                case core.LetRec(functions):
                    named = [(b, f) for b, f in functions]
                case core.Let(binding, core.Lambda() as value):
                    named = [(binding, value)]
                case core.Global(other):
                    self._enter(other)
                case _:
                    pass
            for b, f in named:
                assert isinstance(f, core.Lambda)
                self._lambdas[b], self._mentions[b] = f, self._mentioned(f)
        return code

    def _mentioned(self, e: core.Core) -> set[Named]:
        out: set[Named] = set()
        for node in core.walk(e):
            if isinstance(node, core.Ref):
                out.add(node.binding)
            elif isinstance(node, core.Global):
                out.add(node.function)
        return out

    def _reaches(self, start: Named, others: Collection[Named]) -> bool:
        """Whether a call of a function may lead to a call of one of the others, or is one."""
        seen: set[Named] = set()
        todo = [start]
        while todo:
            f = todo.pop()
            if any(f is other for other in others):
                return True
            if f not in seen:
                seen.add(f)
                todo += self._mentions.get(f, ())
        return False

    def _callee(self, e: core.Apply, around: tuple[Named, ...]) -> str | None:
        """The name of the function that a call calls, if the call can be forgotten."""
        match e.function:
            case core.Ref(binding) if binding in self._lambdas:
                found: Named = binding
            case core.Global(function):
                found = function
            case _:
                return None
        name: str = found.name if isinstance(found, core.Binding) else found.__name__
        return None if self._reaches(found, around) else name

    def _calls(self, e: core.Core, around: tuple[Named, ...]) -> Iterator[str]:
        if isinstance(e, core.Apply):
            name = self._callee(e, around)
            if name is not None:
                yield name
        for child, inside in self._children(e, around):
            yield from self._calls(child, inside)

    def _children(self, e: core.Core, around: tuple[Named, ...]) -> list[tuple[core.Core, tuple[Named, ...]]]:
        match e:
            case core.LetRec(functions, body):
                return [*((f, (*around, b)) for b, f in functions), (body, around)]
            case core.Let(binding, core.Lambda() as value, body):
                return [(value, (*around, binding)), (body, around)]
            case _:
                return [(child, around) for child in core.children(e)]

    def _rewritten(self, e: core.Core, around: tuple[Named, ...], names: frozenset[str]) -> core.Core:
        parts = [self._rewritten(child, inside, names) for child, inside in self._children(e, around)]
        made = core.rebuilt(e, parts)
        if isinstance(e, core.Apply) and self._callee(e, around) in names:
            return core.Forget(made, e.at)
        return made
