"""Annotations are read alike on all versions of Python; from 3.14 on, an undefined name is found when they are read."""

from __future__ import annotations

import sys

import pytest
from retrograd.compiler.frontends.constants import annotations_of, signature_of

import retrograd as rg

#: without `from __future__ import annotations`
NODE = "class Node:\n    value: int\n    next: Node\n"


def names(source: str) -> dict[str, object]:
    found: dict[str, object] = {"rg": rg, "__name__": __name__}
    exec(compile(source, "<annotations>", "exec", dont_inherit=True), found)
    return found


def test_values_and_text() -> None:
    found = names("class A:\n    x: int\ndef f(x: int, y: 'n' = 1) -> float: ...\n")
    assert annotations_of(found["A"]) == {"x": int}  # type: ignore[arg-type]
    assert annotations_of(found["f"]) == {"x": int, "y": "n", "return": float}  # type: ignore[arg-type]
    assert str(signature_of(found["f"])) == "(x: int, y: 'n' = 1) -> float"  # type: ignore[arg-type]


@pytest.mark.parametrize("source", [f"@rg.struct\n{NODE}", "from __future__ import annotations\n@rg.struct\n" + NODE])
def test_a_struct_that_holds_itself(source: str) -> None:
    """Before Python 3.14, the definition itself is a NameError, unless annotations are text."""
    late = sys.version_info >= (3, 14) or source.startswith("from")
    with pytest.raises(rg.CompileError if late else NameError, match="RG0722" if late else "Node"):
        names(source)
