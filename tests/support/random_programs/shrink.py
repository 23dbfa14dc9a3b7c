"""A failing program made smaller: statements are deleted, or a block put in place of what holds it, while it fails."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator
from dataclasses import replace

from .checks import Case


def shrink(case: Case, fails: Callable[[Case], bool]) -> Case:
    """A smaller case for which `fails` is still true."""
    smaller = True
    while smaller:
        smaller = False
        for tree in _candidates(case.tree):
            candidate = replace(case, source=ast.unparse(ast.fix_missing_locations(tree)) + "\n", _compiled={})
            if len(candidate.source) < len(case.source) and fails(candidate):
                case, smaller = candidate, True
                break
    return case


def _candidates(tree: ast.Module) -> Iterator[ast.Module]:
    """The trees with one change each, the largest ones first."""
    for number, _ in enumerate(_places(tree)):
        for whole in (True, False):
            other = copy.deepcopy(tree)
            body, i = list(_places(other))[number]
            new = [] if whole else _inside(body[i])
            if new is None:
                continue
            body[i : i + 1] = new
            if not body:
                body.append(ast.Pass())
            yield other


def _places(tree: ast.AST) -> Iterator[tuple[list[ast.stmt], int]]:
    for node in ast.walk(tree):
        for name in ("body", "orelse"):
            body = getattr(node, name, None)
            if isinstance(body, list):
                for i, statement in enumerate(body):
                    if not isinstance(statement, ast.Import | ast.ImportFrom | ast.Pass):
                        yield body, i


def _inside(node: ast.stmt) -> list[ast.stmt] | None:
    return [*node.body, *node.orelse] if isinstance(node, ast.If | ast.For | ast.While) else None
