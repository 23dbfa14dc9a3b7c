"""The catalogue of errors: complete, each kind registered once, before any code that raises it, and its page fresh."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from retrograd.isa.diagnostics import KINDS, register
from retrograd.isa.manual.pages import manual

from retrograd.catalogue import PARTS, catalogue, explain, main, page
from tests.test_import_graph import FILES, imported

Every = Callable[[Callable[[Any], None], Iterable[Any]], None]

DOCS = Path(__file__).resolve().parents[1] / "docs" / "reference"
PAGE = page()
#: code -> the package that registers it
OWNER = {
    code: part
    for part in PARTS
    for code in re.findall(r'^    \("(RG\d{4})"', FILES[f"{part}.errors"].read_text(), re.MULTILINE)
}


def test_the_page_is_fresh() -> None:
    text = (DOCS / "errors.md").read_text(encoding="utf-8")
    assert text == PAGE, "run python -m retrograd.catalogue docs/reference"


def test_every_part_is_in_the_catalogue() -> None:
    registering = {name for name, path in FILES.items() if re.search(r"^register\(", path.read_text(), re.MULTILINE)}
    assert {f"{part}.errors" for part in PARTS} == registering
    assert catalogue().keys() == OWNER.keys()
    assert list(catalogue()) == sorted(KINDS)


def test_a_code_is_registered_once() -> None:
    with pytest.raises(ValueError, match="share the code RG0101"):
        register(("RG0101", "title", "why", "fix"))
    assert KINDS["RG0101"].title == "unknown mnemonic"


def codes_in(tree: ast.AST) -> Iterator[str]:
    """The codes that are strings of their own: what a diagnostic is made of, and no docstring."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and re.fullmatch(r"RG\d{4}", node.value):
            yield node.value


class WithoutFunctions(ast.NodeTransformer):
    """The tree that is left when functions, and what only a type checker reads, are taken out."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        return None

    def visit_If(self, node: ast.If) -> ast.If | None:
        return None if ast.unparse(node.test) == "TYPE_CHECKING" else node


@cache
def imported_at_import(name: str) -> frozenset[str]:
    """The modules that a module imports when it is imported."""
    tree = WithoutFunctions().visit(ast.parse(FILES[name].read_text(encoding="utf-8")))
    return frozenset(imported(tree, FILES))


def packages_loaded_by(name: str) -> set[str]:
    """A module, the modules that it imports, and the packages around them all."""
    seen: set[str] = set()
    waiting = [name]
    while waiting:
        module = waiting.pop()
        while module and module not in seen:
            seen.add(module)
            waiting.extend(imported_at_import(module) if module in FILES else ())
            module = module.rpartition(".")[0]
    return seen


def check_codes_are_registered(name: str) -> None:
    used = set(codes_in(ast.parse(FILES[name].read_text(encoding="utf-8"))))
    loaded = packages_loaded_by(name) if used else set()
    assert {code: OWNER[code] for code in used if OWNER[code] not in loaded} == {}


@pytest.mark.long
def test_a_module_loads_the_packages_that_register_its_codes(every: Every) -> None:
    """Else the error would have no title, and no advice, where the other package was never imported."""
    every(check_codes_are_registered, FILES)


def check_every_error_is_explained(code: str) -> None:
    kind = catalogue()[code]
    assert PAGE.count(f"### {code} {kind.title}\n\n{kind.why}\n\n**Fix:** {kind.fix}\n") == 1
    shown = " ".join(explain(code).split())
    assert shown == " ".join(f"{code}: {kind.title} why: {kind.why} fix: {kind.fix}".split())
    assert explain(code.lower()) == explain(code)


def test_every_error_is_explained(every: Every) -> None:
    every(check_every_error_is_explained, OWNER)


@pytest.mark.parametrize("code", ["", "RG9999", "mul", "RG01"])
def test_an_unknown_code_is_not_explained(code: str) -> None:
    with pytest.raises(KeyError):
        explain(code)


def test_every_link_of_the_manual_to_an_error_has_its_heading() -> None:
    linked = set(re.findall(r"\(errors\.md#([^)]*)\)", manual()))
    headings = {re.sub(r"[^\w -]", "", h.lower()).replace(" ", "-") for h in re.findall(r"^### (.*)", PAGE, re.M)}
    assert linked
    assert linked <= headings


def test_an_error_names_the_instructions_that_raise_it() -> None:
    section = PAGE.split("### RG0402")[1].split("###")[0]
    assert "**Raised by:** `div`, `mod`, `fdiv`, `fdivp`." in section


def test_writing_and_checking(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--check", str(tmp_path)]) == 1
    assert list(tmp_path.iterdir()) == []
    assert main([str(tmp_path)]) == 0
    assert main(["--check", str(tmp_path)]) == 0
    capsys.readouterr()
    (tmp_path / "errors.md").write_text(PAGE + "\nmore\n", encoding="utf-8")
    assert main(["--check", str(tmp_path)]) == 1
    assert "errors.md is stale: run python -m retrograd.catalogue" in capsys.readouterr().err
