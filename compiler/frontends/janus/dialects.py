"""The dialects of Janus: `jana`, of the Jana interpreter, and `1982`, of Lutz and Derby."""

from __future__ import annotations

import re

from retrograd.compiler.frontends.janus.parser import parse
from retrograd.compiler.frontends.janus.parser_1982 import parse_1982
from retrograd.compiler.frontends.janus.syntax import Program
from retrograd.isa.diagnostics import Diagnostic, InputError

DIALECTS = {"jana": parse, "1982": parse_1982}
_PARAMETERS = re.compile(r"\bprocedure\s+[\w']+\s*\(")


def read(text: str, name: str, dialect: str | None = None) -> Program:
    """The program of a text. Raises CompileError RG0725, InputError RG0603 for an unknown dialect.

    Without a dialect, a file NAME.janus is one of 1982, unless a procedure in it has parameters; any other file is one of Jana.
    """
    if dialect is None:
        dialect = "1982" if name.endswith(".janus") and _PARAMETERS.search(text) is None else "jana"
    if dialect not in DIALECTS:
        hint = f"dialects: {', '.join(DIALECTS)}"
        raise InputError(Diagnostic("RG0603", f"there is no dialect {dialect!r:.40} of Janus", hint=hint))
    return DIALECTS[dialect](text, name)
