"""Public names: the stub of a package, its `dir`, its `__all__` and what it loads agree; a name is typed once."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import retrograd as rg
import retrograd.hardware
import retrograd.library
import retrograd.observe
import retrograd.testing


def stub_of(package: ModuleType) -> list[tuple[str, str]]:
    """(module, name) of each import in the stub, which holds nothing else."""
    assert package.__file__ is not None
    found = []
    for node in ast.parse(Path(package.__file__).with_suffix(".pyi").read_text("utf-8")).body:
        if isinstance(node, ast.ImportFrom):
            assert len(node.names) == 1
            # A type checker takes `name as name` as a public name, and `name` alone as a private one.
            assert node.names[0].asname == node.names[0].name
            found.append((str(node.module), node.names[0].name))
        else:
            assert ast.unparse(node) == "__all__: list[str]"
    return found


@pytest.mark.parametrize("package", [rg, retrograd.testing, retrograd.hardware], ids=lambda package: package.__name__)
def test_stub_dir_and_all_agree(package: ModuleType) -> None:
    stub = stub_of(package)
    public = [name for _, name in stub if not name.startswith("_")]
    assert sorted(public) == sorted(set(public)) == package.__all__
    for module, name in stub:
        public_one, own = getattr(package, name), getattr(importlib.import_module(module), name)
        # A function is wrapped for its tracebacks.
        assert public_one is own or public_one.__wrapped__ is own
    modules = {name.rpartition(".")[2] for name in sys.modules if name.startswith(f"{package.__name__}.")}
    assert {name for name in dir(package) if name.isidentifier() and not name.startswith("_")} - modules == set(
        public
    ) - modules
    names: dict[str, object] = {}
    exec(f"from {package.__name__} import *", names)
    assert set(public) <= set(names)


def test_an_unknown_name() -> None:
    with pytest.raises(AttributeError, match="module 'retrograd' has no attribute 'gard'"):
        getattr(rg, "gard")  # noqa: B009
    with pytest.raises(ImportError):
        exec("from retrograd import gard")


def test_a_name_is_imported_when_it_is_used() -> None:
    code = (
        "import sys, retrograd as rg; dir(rg), rg.__all__; print('retrograd.isa' in sys.modules); "
        "rg.decode; print('retrograd.isa' in sys.modules, 'retrograd.compiler' in sys.modules, 'decode' in vars(rg))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True", "False", "True"]


def test_no_public_name_is_that_of_a_module() -> None:
    """The import of `retrograd.x` would set the attribute x, in place of the public name."""
    modules = {info.name for info in pkgutil.iter_modules(rg.__path__)}
    assert len(modules) > 5
    assert {*rg.__all__} & modules == set()


def test_every_public_name_is_in_the_reference() -> None:
    """Once, as a heading of docs/api.md with an example below: the site's page of the name follows from it."""
    text = (Path(__file__).resolve().parents[1] / "docs" / "api.md").read_text("utf-8")
    listed = [
        name for heading in re.findall(r"^### (.*)$", text, re.MULTILINE) for name in re.findall(r"`([^`]+)`", heading)
    ]
    packages = (retrograd.testing, retrograd.observe)
    # A module of the library stands for its functions. tests/tools/test_site.py compares these.
    modules = [f"{retrograd.library.__name__}.{m.name}" for m in pkgutil.iter_modules(retrograd.library.__path__)]
    modules.remove("retrograd.library.elementary")  # its functions are names of `retrograd`
    modules.remove("retrograd.library.narrow_formats")  # other forms of the same functions
    names = [f"{p.__name__}.{name}" for p in packages for name in p.__all__]
    assert sorted(listed) == sorted([*rg.__all__, *names, *modules])


def test_names_of_other_systems_lead_to_ours() -> None:
    """Each hint names what exists, and none is for a name that exists."""
    hints = rg._other_names()
    assert len(hints) > 20
    assert set(hints).isdisjoint(rg.__all__)
    for name, hint in hints.items():
        with pytest.raises(AttributeError, match=re.escape(f"no attribute '{name}': {hint}")):
            getattr(rg, name)
        assert set(re.findall(r"\brg\.(\w+)", hint)) <= set(rg.__all__)
        assert all((Path(__file__).resolve().parents[1] / page).is_file() for page in re.findall(r"docs/\S+\.md", hint))
