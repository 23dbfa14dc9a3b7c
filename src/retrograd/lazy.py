"""Lazy public names of a package (PEP 562), read from its type stub.

The stub `__init__.pyi` has one line for each public name:

    from retrograd.runtime._batches import vmap as vmap

Type checkers read it as a stub. `attach` reads the same lines for `dir`, `__all__` and `import *`, and imports the module
of a name when the name is first used. So `import retrograd` loads none of the parts.
"""

import sys
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from types import FunctionType


def attach(
    package: str, file: str, other_names: Callable[[], Mapping[str, str]] = dict
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """(`__getattr__`, `__dir__`) of the package whose `__init__.py` is `file`.

    `other_names()`: what to write for names that other packages have.
    """

    @cache
    def homes() -> dict[str, str]:
        """Public name -> the module that defines it."""
        import ast
        from pathlib import Path

        stub = ast.parse(Path(file).with_suffix(".pyi").read_text("utf-8"))
        imports = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
        return {alias.name: node.module or "" for node in imports for alias in node.names}

    def load(name: str) -> object:
        if name == "__all__":
            return sorted(name for name in homes() if not name.startswith("_"))
        if name not in homes():
            here = other_names().get(name)
            message = f"module {package!r} has no attribute {name!r}" + (f": {here}" if here else "")
            raise AttributeError(message, name=name, obj=sys.modules[package])
        value: object = getattr(import_module(homes()[name]), name)
        if isinstance(value, FunctionType):
            from retrograd.isa.diagnostics import api_boundary

            value = api_boundary(value)
            # A pickle finds the function by these.
            value.__module__, value.__qualname__ = package, name
        # The next access finds the name in the module, without this function.
        setattr(sys.modules[package], name, value)
        return value

    return load, lambda: sorted({*vars(sys.modules[package]), *homes(), "__all__"})
