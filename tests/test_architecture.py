"""Who may import whom. A walk over the syntax tree of every file; nothing is imported to find out."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

Every = Callable[[Callable[[Any], None], Iterable[Any]], None]

ROOT = Path(__file__).resolve().parents[1]
#: the parts that meet at `retrograd.isa` only
SIBLINGS = ("assembler", "simulator", "hdl", "compiler")
FACE = "src/retrograd"
BENCHMARKS = "benchmarks"
#: the standard library of every version: annotationlib is new in Python 3.14
STANDARD = sys.stdlib_module_names | {"annotationlib"}
FOLDERS = ("isa", *SIBLINGS, FACE, BENCHMARKS)
#: systems that the benchmarks compare with, and what references need: most users have none of them
#: systems that adapters make functions for, each in one file of the face, inside functions
ADAPTED = {
    "jax": "src/retrograd/derivatives/_adapters.py",
    "torch": "src/retrograd/derivatives/_torch_adapter.py",
}
PEERS = frozenset({"numba", "jax", "torch", "casadi", "autograd", "enzyme_ad", "warp", "scipy", "mpmath"})

#: folder -> what it may import that is neither ours nor the standard library
THIRD_PARTY: dict[str, frozenset[str]] = {
    "isa": frozenset(),
    "assembler": frozenset(),
    # numba, cuda, nvtx: the engine on GPUs, where its extra is installed
    "simulator": frozenset({"numpy", "llvmlite", "numba", "cuda", "nvtx"}),
    # litex, migen: a module of LiteX, where its extra is installed
    "hdl": frozenset({"amaranth", "amaranth_boards", "litex", "migen", "numpy", "z3"}),
    "compiler": frozenset({"numpy", "lark"}),
    # jax, torch: adapters; scipy: a sparse Jacobian as its users want it; pytest and hypothesis: the laws in users' own tests; vcd: traces of runs; pygments: highlighting; pygls, lsprotocol: a language server; anywidget, traitlets: the explorer in notebooks; pyarrow: tables of sweeps.
    FACE: frozenset(
        {
            "numpy",
            "matplotlib",
            "rich",
            "scipy",
            "pytest",
            "hypothesis",
            "vcd",
            "jax",
            "torch",
            "pygments",
            "pygls",
            "lsprotocol",
            "distributed",
            "zarr",
            "pyarrow",
            "IPython",
            "anywidget",
            "traitlets",
        }
    ),
    BENCHMARKS: frozenset({"numpy", "matplotlib"}) | PEERS,
}
#: module -> the only folder that may import it
ONLY_IN = {
    "llvmlite": "simulator/engines",
    "amaranth": "hdl",
    "cuda": "simulator/engines/cuda/runtime.py",
    "nvtx": "simulator/engines/cuda/runtime.py",
    "vcd": "src/retrograd/observe/_traces.py",
    "pygments": "src/retrograd/observe/lexers.py",
    "pygls": "src/retrograd/observe/_language_server.py",
    "lsprotocol": "src/retrograd/observe/_language_server.py",
    "distributed": "src/retrograd/runtime/_distribution.py",
    "IPython": "src/retrograd/presentation.py",
    "anywidget": "src/retrograd/observe/_notebook.py",
    "traitlets": "src/retrograd/observe/_notebook.py",
}
#: the front end of Python; these files compose it with the rest of the compiler, which depends on no source language
PYTHON_FRONT_END = "compiler/frontends/python"
COMPOSED_IN = frozenset({"compiler/pipeline.py", "compiler/compiled.py"})
#: files of another front end that read Python's syntax, or objects of Python
READS_PYTHON = frozenset(
    {
        "compiler/language/foreign.py",
        *(
            f"compiler/frontends/functional/{name}.py"
            for name in (
                "arrays", "control_flow", "expressions", "function", "linear_algebra", "numpy_functions",
                "procedures", "program", "reader", "types",
            )
        ),
    }
)  # fmt: skip
#: what the command line loads when it is needed and not before: `retrograd --help` must start at once
LAZY = frozenset(
    {"matplotlib", "rich", "numpy", "llvmlite", "amaranth", "scipy", "numba", "cuda", "distributed", "zarr"}
)
LAZY_IN = "src/retrograd/cli"
#: files that are imported only where the peer that they are for is there
OF_PEERS = frozenset({"benchmarks/peers/warp_kernels.py", "benchmarks/points.py"})


def inside(path: PurePosixPath, folder: str) -> bool:
    return path.is_relative_to(folder)


def own_folder(path: PurePosixPath) -> str:
    return next(folder for folder in FOLDERS if inside(path, folder))


def part_of(module: str) -> str:
    """The folder that a module of ours comes from; what is no other part is the face."""
    name = module.split(".")[1] if "." in module else ""
    return name if name in ("isa", *SIBLINGS) else FACE


def for_types_only(node: ast.If) -> bool:
    return ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")


def imports(tree: ast.AST, calls: bool, at_import: bool = True) -> Iterator[tuple[int, str, int, bool]]:
    """(line, module, level of a relative import, whether importing the file runs it), strings included.

    `from retrograd import isa` counts as `retrograd.isa`: what is taken from a package may be a module.
    `calls`: whether an expression may import. Expressions are most of a tree.
    """
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.expr) and not calls:
            continue
        runs = at_import
        match node:
            case ast.Import(names=names):
                yield from ((node.lineno, name.name, 0, at_import) for name in names)
            case ast.ImportFrom(module=module, names=names, level=level):
                whole = module == "retrograd" and level == 0
                found = [f"retrograd.{name.name}" for name in names] if whole else [module or ""]
                yield from ((node.lineno, name, level, at_import) for name in found)
            case ast.Call(func=func, args=[ast.Constant(value=str(name)), *_]):
                if ast.unparse(func).split(".")[-1] in ("import_module", "__import__"):
                    yield node.lineno, name, len(name) - len(name.lstrip(".")), at_import
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                runs = False
            case ast.If() if for_types_only(node):
                runs = False
            case _:
                pass
        yield from imports(node, calls, runs)


def violations(path: PurePosixPath, source: str) -> list[str]:
    """What the file imports against the rules. `path` is relative to the root of the project."""
    folder = own_folder(path)
    found: list[str] = []
    calls = "import_module" in source or "__import__" in source
    for line, module, level, runs in imports(ast.parse(source), calls):
        where = f"{path}:{line}: {module}"
        top = module.split(".")[0]
        if level:
            found.append(f"{where}: a relative import")
            continue
        if folder == "compiler" and not inside(path, PYTHON_FRONT_END) and path.as_posix() not in READS_PYTHON:
            front_end = module.startswith(f"retrograd.{PYTHON_FRONT_END.replace('/', '.')}")
            if top == "ast" or (front_end and path.as_posix() not in COMPOSED_IN):
                found.append(f"{where}: only the Python front end depends on Python's syntax")
        if top == "retrograd":
            part = part_of(module)
            if folder not in (FACE, BENCHMARKS) and part not in ("isa", folder):
                found.append(f"{where}: {folder} meets the other parts at retrograd.isa only")
            if folder == "isa" and part != "isa":
                found.append(f"{where}: isa imports nothing of ours but itself")
            continue
        if top in FOLDERS or top in ("src", "tests", "docs", "examples"):
            found.append(f"{where}: our packages are imported as retrograd.…")
            continue
        if top not in STANDARD and top not in THIRD_PARTY[folder]:
            found.append(f"{where}: no dependency of {folder}")
        if top in ONLY_IN and not inside(path, ONLY_IN[top]):
            found.append(f"{where}: only {ONLY_IN[top]} imports it")
        if top == "numba" and folder == "simulator" and path.as_posix() != ONLY_IN["cuda"]:
            found.append(f"{where}: only {ONLY_IN['cuda']} imports it")
        if top in ADAPTED and folder == FACE and (runs or path.as_posix() != ADAPTED[top]):
            found.append(f"{where}: only {ADAPTED[top]} imports it, inside functions")
        if top in PEERS and runs and folder == BENCHMARKS and path.as_posix() not in OF_PEERS:
            found.append(f"{where}: a peer is imported inside functions only")
        if top in LAZY and runs and inside(path, LAZY_IN):
            found.append(f"{where}: the command line imports it inside functions only")
    return found


FILES = sorted(
    path.relative_to(ROOT).as_posix() for folder in FOLDERS for path in (ROOT / folder).rglob("*.py") if path.is_file()
)


def check_imports(name: str) -> None:
    assert violations(PurePosixPath(name), (ROOT / name).read_text(encoding="utf-8")) == []


@pytest.mark.always
def test_imports(every: Every) -> None:
    every(check_imports, FILES)


def test_every_case_that_fails_is_named(every: Every) -> None:
    """The fixture that makes one test of many cases."""

    def check(case: int) -> None:
        assert case % 2 == 0

    every(check, [0, 2])
    with pytest.raises(BaseExceptionGroup, match="2 of 4 cases") as caught:
        every(check, [1, 2, 3, 4])
    assert [error.__notes__ for error in caught.value.exceptions] == [["case: 1"], ["case: 3"]]
    with pytest.raises(AssertionError, match="there are no cases"):
        every(check, [])


def test_the_walk_found_the_files() -> None:
    # A walk from a wrong root finds nothing, and nothing wrong.
    assert {
        "isa/table.py",
        "isa/expr.py",
        "src/retrograd/__init__.py",
        "simulator/__init__.py",
        "benchmarks/run.py",
    } <= set(FILES)


def test_no_package_shadows_ours() -> None:
    # A folder `retrograd` at the root would be imported in place of the installed package.
    assert not (ROOT / "retrograd").exists()


PLANTED: dict[str, tuple[str, str, str]] = {
    "isa takes numpy": ("isa/expr.py", "import numpy as np", "no dependency of isa"),
    "isa takes the simulator": ("isa/laws.py", "from retrograd.simulator import run", "isa imports nothing of ours"),
    "isa takes the face": ("isa/laws.py", "import retrograd", "isa imports nothing of ours"),
    "isa takes the face's module": ("isa/laws.py", "from retrograd import testing", "isa imports nothing of ours"),
    "a sibling": ("assembler/parse.py", "from retrograd.simulator.machine import Machine", "retrograd.isa only"),
    "a sibling, whole": ("assembler/parse.py", "from retrograd import simulator", "retrograd.isa only"),
    "a sibling, in a function": ("compiler/ir/statements.py", "def f():\n    import retrograd.assembler", "retrograd.isa only"),
    "a sibling, for types": (
        "simulator/x.py", "if TYPE_CHECKING:\n    from retrograd.hdl import core", "retrograd.isa only"),
    "a sibling, by its name in a string": (
        "simulator/x.py", "import importlib\nimportlib.import_module('retrograd.assembler')", "retrograd.isa only"),
    "the face": ("hdl/core/core.py", "from retrograd.cli.main import main", "retrograd.isa only"),
    "the face, whole": ("simulator/machine.py", "import retrograd", "retrograd.isa only"),
    "llvmlite outside the engines": ("simulator/machine.py", "import llvmlite", "only simulator/engines"),
    "llvmlite.binding outside them": ("simulator/machine.py", "from llvmlite import binding", "only simulator/engines"),
    "llvmlite in the face": ("src/retrograd/cli/commands/run.py", "def f():\n    import llvmlite", "only simulator/engines"),
    "llvmlite in a folder named alike": ("simulator/engines_old/x.py", "import llvmlite", "only simulator/engines"),
    "amaranth outside hdl": ("simulator/x.py", "from amaranth.hdl import Module", "only hdl"),
    "numpy at the top of the command line": ("src/retrograd/cli/commands/run.py", "import numpy as np", "inside functions only"),
    "rich at the top, in a try": (
        "src/retrograd/cli/commands/run.py", "try:\n    from rich.table import Table\nexcept ImportError:\n    pass",
        "inside functions only"),
    "matplotlib in a class body": (
        "src/retrograd/cli/plot.py", "class P:\n    import matplotlib.pyplot as plt", "inside functions only"),
    "a relative import": ("isa/laws.py", "from .expr import Expr", "a relative import"),
    "a relative import of a sibling": ("simulator/x.py", "from .. import assembler", "a relative import"),
    "a package by its folder": ("simulator/x.py", "from isa.expr import Expr", "imported as retrograd"),
    "a peer at the top of a benchmark": ("benchmarks/peers/by_jax.py", "import jax", "inside functions only"),
    "a peer in the face": ("src/retrograd/cli/commands/bench.py", "def f():\n    import casadi", "no dependency of src/retrograd"),
    "Torch outside its adapter": ("src/retrograd/cli/commands/bench.py", "def f():\n    import torch", "only src/retrograd/derivatives/_torch_adapter"),
    "JAX at the top of its adapter": ("src/retrograd/derivatives/_adapters.py", "import jax", "inside functions"),
    "the tests in a benchmark": ("benchmarks/run.py", "from tests.examples import x", "imported as retrograd"),
    "Python's syntax outside its front end": (
        "compiler/language/arithmetic.py", "import ast", "only the Python front end"),
    "the Python front end in the core of another": (
        "compiler/frontends/functional/core.py", "from retrograd.compiler.frontends.python.captures import Captures", "only the Python front end"),
    "the Python front end in what all share": (
        "compiler/frontends/x.py", "from retrograd.compiler.frontends.python.source import Errors", "only the Python front end"),
    "an unknown dependency": ("compiler/x.py", "import sympy", "no dependency of compiler"),
}  # fmt: skip


@pytest.mark.parametrize("fault", PLANTED)
def test_a_planted_violation_is_found(fault: str) -> None:
    path, source, message = PLANTED[fault]
    found = violations(PurePosixPath(path), source)
    assert any(message in text for text in found), found


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("isa/laws.py", "from __future__ import annotations\nimport math\nfrom retrograd.isa.expr import Expr"),
        ("isa/laws.py", "from retrograd import isa"),
        (
            "compiler/frontends/python/x.py",
            "import ast\nfrom retrograd.compiler.frontends.python.source import Errors",
        ),
        ("compiler/pipeline.py", "from retrograd.compiler.frontends.python.function import Specialiser"),
        ("assembler/parse.py", "import re\nfrom retrograd.isa import table\nfrom retrograd.assembler import lexer"),
        ("simulator/engines/machines.py", "import numpy as np\nimport llvmlite\nfrom llvmlite import binding"),
        ("hdl/core/core.py", "from amaranth import Module\nfrom retrograd.isa.expr import Expr"),
        ("src/retrograd/cli/commands/run.py", "def f():\n    import numpy\n    from rich.table import Table"),
        ("src/retrograd/cli/commands/run.py", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import numpy"),
        ("benchmarks/peers/by_jax.py", "import retrograd.simulator.machine\ndef f():\n    import jax"),
        ("src/retrograd/testing.py", "import numpy\nfrom retrograd.simulator import machine\nimport retrograd.hdl"),
    ],
)
def test_what_is_allowed_is_silent(path: str, source: str) -> None:
    assert violations(PurePosixPath(path), source) == []


def fixed_opcodes(source: str) -> list[int]:
    """The lines that make an entry of the table under an opcode written as a number."""
    calls = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call) and len(node.args) > 1)
    return [
        call.lineno
        for call in calls
        if ast.unparse(call.func).split(".")[-1] in ("Function", "Bijection") and isinstance(call.args[1], ast.Constant)
    ]


@pytest.mark.long
def test_entries_of_tests_take_free_opcodes() -> None:
    """An opcode written as a number in a test is taken by the next instruction of the table."""
    assert fixed_opcodes('Function("odd", 0xB0, "tests")\nentries.Bijection("odd", code, "tests")') == [1]
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    assert files
    assert {path.name: lines for path in files if (lines := fixed_opcodes(path.read_text()))} == {}
