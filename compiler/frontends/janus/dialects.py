"""The dialects of Janus: `jana`, of the Jana interpreter, and `1982`, of Lutz and Derby."""

from __future__ import annotations

import re

from retrograd.compiler.frontends.janus.parser import parse
from retrograd.compiler.frontends.janus.parser_1982 import parse_1982
from retrograd.compiler.frontends.janus.syntax import Program

DIALECTS = {"jana": parse, "1982": parse_1982}
_PARAMETERS = re.compile(r"\bprocedure\s+[\w']+\s*\(")


def read(text: str, name: str, dialect: str | None = None) -> Program:
    """The program of a text. Raises CompileError RG0725.

    Without a dialect, a file NAME.janus is one of 1982, unless a procedure in it has parameters; any other file is one of Jana.
    """
    if dialect is None:
        dialect = "1982" if name.endswith(".janus") and _PARAMETERS.search(text) is None else "jana"
    return DIALECTS[dialect](text, name)
