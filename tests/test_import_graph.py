"""The import graph: no circle of files, imports inside functions counted; few floors."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
#: folder -> the package as which it installs
PACKAGES = {
    "src/retrograd": "retrograd",
    **{name: f"retrograd.{name}" for name in ("isa", "assembler", "compiler", "simulator", "hdl", "benchmarks")},
}
#: floors of the graph of folders: the longest chain of imports, in folders
MOST_FLOORS = 12
#: files on the longest chain of imports; files that a first call of a gradient passes, and a later one. Each pass is
#: one of the second.
LONGEST_CHAIN, FIRST_CALL, LATER_CALL = 41, 80, 15

Graph = Mapping[str, Iterable[str]]


def modules() -> dict[str, Path]:
    found = {}
    for folder, package in PACKAGES.items():
        for path in (ROOT / folder).rglob("*.py"):
            parts = path.relative_to(ROOT / folder).with_suffix("").parts
            found[".".join((package, *(parts[:-1] if parts[-1] == "__init__" else parts)))] = path
    return found


def imported(tree: ast.AST, known: Iterable[str]) -> Iterator[str]:
    """The modules of `known` that a file imports anywhere: also in functions, and for types only."""
    for node in ast.walk(tree):
        names: list[str] = []
        match node:
            case ast.Import(names=aliases):
                names = [alias.name for alias in aliases]
            case ast.ImportFrom(module=str(module), names=aliases, level=0):
                names = [f"{module}.{alias.name}" for alias in aliases]
            case _:
                pass
        for name in names:
            while name and name not in known:
                name = name.rpartition(".")[0]
            if name:
                yield name


def graph_of(files: Mapping[str, Path]) -> dict[str, set[str]]:
    return {
        name: set(imported(ast.parse(path.read_text(encoding="utf-8")), files)) - {name} for name, path in files.items()
    }


def folders_of(graph: Graph, files: Mapping[str, Path]) -> dict[str, set[str]]:
    """The graph of folders; a folder and the folders inside it are different folders."""
    place = {name: path.parent.relative_to(ROOT).as_posix() for name, path in files.items()}
    found: dict[str, set[str]] = {folder: set() for folder in place.values()}
    for name, others in graph.items():
        found[place[name]] |= {place[other] for other in others} - {place[name]}
    return found


def circles(graph: Graph) -> set[frozenset[str]]:
    """Strongly connected components of more than one node."""

    def reached(node: str) -> set[str]:
        seen: set[str] = set()
        open_ = [node]
        while open_:
            for other in graph[open_.pop()]:
                if other not in seen:
                    seen.add(other)
                    open_.append(other)
        return seen

    reach = {node: reached(node) for node in graph}
    return {frozenset(m for m in reach[node] if node in reach[m]) for node in graph if node in reach[node]}


def floors(graph: Graph) -> int:
    """Nodes on the longest path of a graph without circles."""
    height: dict[str, int] = {}
    for node in TopologicalSorter(graph).static_order():
        height[node] = 1 + max((height[other] for other in graph[node]), default=0)
    return max(height.values())


def condensed(graph: Graph) -> dict[str, set[str]]:
    """The graph with each circle as one node, named as the least of its members."""
    node = {name: name for name in graph} | {name: min(circle) for circle in circles(graph) for name in circle}
    found: dict[str, set[str]] = {name: set() for name in node.values()}
    for name, others in graph.items():
        found[node[name]] |= {node[other] for other in others} - {node[name]}
    return found


FILES = modules()


@pytest.fixture(scope="module")
def graph() -> Graph:
    """Parsed when a test needs it: each process of the tests imports this file, and one of them runs its tests."""
    return graph_of(FILES)


@pytest.fixture(scope="module")
def folders(graph: Graph) -> Graph:
    return folders_of(graph, FILES)


def test_the_walk_found_the_files(graph: Graph) -> None:
    assert len(FILES) > 300
    assert {"retrograd.isa.expr", "retrograd.isa.entries"} <= set(graph["retrograd.isa.table"])


def test_no_circle(graph: Graph) -> None:
    assert [sorted(circle) for circle in circles(graph)] == []


def test_folders_have_an_order(folders: Graph) -> None:
    """A folder and its own folders may import each other; any other two may not."""
    assert [sorted(circle) for circle in circles(folders) if not all(f.startswith(min(circle)) for f in circle)] == []


def test_few_floors(folders: Graph) -> None:
    assert floors(condensed(folders)) <= MOST_FLOORS


def test_the_longest_chain_of_imports(graph: Graph) -> None:
    assert floors(graph) <= LONGEST_CHAIN


#: counts the files of the product whose functions are called
CALLS = """
import importlib, sys
import retrograd as rg

@rg.reversible
def double(y: rg.fixed, x: rg.fixed):
    y += x + x

@rg.reversible
def square(y: rg.fixed, x: rg.fixed):
    y += x * x

rg.grad(double)(0.0, 3.0)  # imports what compiles

parts = [importlib.import_module(name) for name in ("retrograd", "retrograd.isa", "retrograd.compiler", "retrograd.simulator")]
roots = tuple(path for part in parts for path in part.__path__)

def files(run):
    seen = set()
    sys.setprofile(lambda frame, event, _: seen.add(frame.f_code) if event == "call" else None)
    try:
        run()
    finally:
        sys.setprofile(None)
    return len({code.co_filename for code in seen if code.co_filename.startswith(roots)})

gradient = lambda: rg.grad(square)(0.0, 3.0)
print(files(gradient), [gradient() for _ in range(3)] and files(gradient))
"""


def test_a_call_passes_few_files(tmp_path: Path) -> None:
    """A reader follows a gradient through these: measured, since imports say nothing about it."""
    script = tmp_path / "calls.py"
    script.write_text(CALLS)
    found = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True).stdout
    first, later = map(int, found.split())
    assert 40 < first <= FIRST_CALL
    assert 10 < later <= LATER_CALL


def test_every_folder_installs_as_a_package() -> None:
    """setuptools finds no packages by itself where folders have other names than their packages."""
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]["packages"]
    examples = {name for name in listed if name.startswith("retrograd.examples")}
    assert examples == {"retrograd.examples", "retrograd.examples.functional"}
    assert set(listed) - examples == {name for name, path in FILES.items() if path.name == "__init__.py"}


def test_every_folder_has_a_docstring() -> None:
    """It says what lives there, what may be imported, and where to start reading."""
    missing = [
        path.relative_to(ROOT).as_posix()
        for path in FILES.values()
        if path.name == "__init__.py" and len((ast.get_docstring(ast.parse(path.read_text())) or "").splitlines()) < 3
    ]
    assert missing == []


def test_planted_circles_are_found() -> None:
    line: Graph = {"a": {"b"}, "b": {"c"}, "c": set(), "d": {"a"}}
    assert circles(line) == set()
    assert floors(line) == 4
    ring: Graph = {"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}
    assert circles(ring) == {frozenset("abc")}
    assert condensed(ring) == {"a": set(), "d": {"a"}}
    inside = ast.parse("def f():\n    from retrograd.isa import table\n    import retrograd.isa.expr")
    assert set(imported(inside, FILES)) == {"retrograd.isa.table", "retrograd.isa.expr"}
