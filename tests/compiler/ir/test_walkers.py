"""Every `match` over statements names all kinds of statement: none falls through a default unseen."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

from retrograd.compiler.backend.linear_code import Step
from retrograd.compiler.ir.statements import Node

ROOT = Path(__file__).resolve().parents[3]
KINDS = frozenset(kind.__name__ for kind in get_args(Node))
#: the kinds of a step of linear code
ITEMS = frozenset(name.strip().removeprefix("ir.") for name in Step.__annotations__["item"].__forward_arg__.split("|"))


def other_classes(tree: ast.AST) -> Iterator[str]:
    """The names of classes that a front end defines, or imports from its own syntax: its `If` is no statement of ours."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").endswith(".syntax"):
            yield from (alias.asname or alias.name for alias in node.names)
        elif isinstance(node, ast.ClassDef):
            yield node.name


def silent(tree: ast.AST) -> Iterator[int]:
    """The lines of matches over statements that leave out a kind, or have a default."""
    others = set(other_classes(tree))
    for match in (node for node in ast.walk(tree) if isinstance(node, ast.Match)):
        patterns = [node for case in match.cases for node in ast.walk(case.pattern)]
        # `ir.Op` as well as `Op`, but not `ast.If`.
        named = {ast.unparse(p.cls).removeprefix("ir.") for p in patterns if isinstance(p, ast.MatchClass)}
        named &= (KINDS | ITEMS) - others
        default = any(isinstance(c.pattern, ast.MatchAs) and c.pattern.pattern is None for c in match.cases)
        if named and (default or named not in (KINDS, ITEMS)):
            yield match.lineno


def test_no_walker_has_a_silent_default() -> None:
    assert len(KINDS) == 10
    assert "Branch" in ITEMS
    files = sorted((ROOT / "compiler").rglob("*.py"))
    found = [f"{p.relative_to(ROOT)}:{n}" for p in files for n in silent(ast.parse(p.read_text("utf-8")))]
    assert found == []


def test_planted_defaults_are_found() -> None:
    whole = "match node:\n    case " + " | ".join(f"{kind}()" for kind in sorted(KINDS)) + ":\n        pass"
    assert list(silent(ast.parse(whole))) == []
    assert list(silent(ast.parse(whole + "\n    case _:\n        pass"))) == [1]
    assert list(silent(ast.parse(whole.replace("Call() | ", "")))) == [1]
    assert list(silent(ast.parse(whole.replace("Call() | ", "").replace("Op", "ir.Op")))) == [1]
    own = "class If:\n    pass\nmatch node:\n    case If():\n        pass"
    assert list(silent(ast.parse(own))) == []
    assert list(silent(ast.parse(own.replace("class If", "class Unless")))) == [3]
    assert list(silent(ast.parse("match e.op:\n    case 'add':\n        pass\n    case _:\n        pass"))) == []
