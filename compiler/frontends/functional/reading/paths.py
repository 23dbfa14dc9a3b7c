"""The paths through statements: which of them return, and the names that they assign."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence


def returns(body: Sequence[ast.stmt]) -> bool:
    """Whether every path through the statements returns."""
    for node in body:
        if isinstance(node, ast.Return):
            return True
        if isinstance(node, ast.If) and returns(node.body) and returns(node.orelse):
            return True
        if isinstance(node, ast.Match) and all(returns(c.body) for c in node.cases) and catches_all(node):
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


def stored(body: Sequence[ast.stmt]) -> list[str]:
    """The names that statements assign on some path, in alphabetical order."""
    found = {n.id for n in within(body) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return sorted(found | {n.name for n in within(body) if isinstance(n, ast.FunctionDef)})


def assigned(body: Sequence[ast.stmt]) -> set[str]:
    """The names that statements assign on every path."""
    out: set[str] = set()
    for node in body:
        match node:
            case ast.If():
                out |= assigned(node.body) & assigned(node.orelse)
            case ast.Match():
                out |= set.intersection(*(assigned(c.body) for c in node.cases)) if catches_all(node) else set()
            case _:
                out |= set(stored([node]))
    return out


def catches_all(node: ast.Match) -> bool:
    return any(isinstance(c.pattern, ast.MatchAs) and c.pattern.pattern is None for c in node.cases)
