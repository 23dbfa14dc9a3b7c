"""Modules of files that cannot be imported by name: tools, and modules beside tests; and of texts."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

_ROOT = Path(__file__).parents[2]


def module_at(path: str) -> ModuleType:
    """The module in a file, by its path from the root of the project; executed once in a process.

    Modules beside tests cannot be imported by name (pytest's import mode `importlib`).
    """
    file = _ROOT / path
    name = "retrograd_" + path.removesuffix(".py").removesuffix("/__init__").replace("/", "_")
    return sys.modules[name] if name in sys.modules else _executed(name, file)


def _executed(name: str, file: Path) -> ModuleType:
    inside = [str(file.parent)] if file.stem == "__init__" else None
    spec = importlib.util.spec_from_file_location(name, file, submodule_search_locations=inside)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look their module up by name while it is being executed.
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def module_written(file: Path, text: str) -> ModuleType:
    """The module of a text: a reversible function needs its source in a file."""
    file.write_text(text)
    return _executed(file.stem, file)
