"""The TextMate grammar of assembly text, for VS Code and other editors, made from the vocabulary.

python -m retrograd.editors.textmate editors/vscode/syntaxes    writes it; with --check it is compared
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from retrograd.editors import vocabulary as v
from retrograd.isa.manual.pages import publish

NAME_OF_FILE = "rga.tmLanguage.json"


def grammar() -> dict[str, Any]:
    """The grammar as JSON data."""
    words = v.vocabulary()
    # A word begins a line, after a label at most; the operands up to the end of the line follow it.
    kinds = {
        "keyword.control.rga": words.jumps,
        "keyword.mnemonic.rga": words.instructions,
        "storage.type.rga": words.words,
        "keyword.other.directive.rga": words.directives,
    }
    lines = [
        {
            "begin": v.one_of(listed),
            "beginCaptures": {"0": {"name": scope}},
            "end": "$",
            "patterns": [{"include": "#operands"}],
        }
        for scope, listed in kinds.items()
    ]
    operands = {
        "variable.language.register.rga": v.REGISTER,
        "constant.numeric.fixed-point.rga": v.FIXED_POINT,
        "constant.numeric.integer.rga": v.INTEGER,
        "constant.character.rga": v.CHARACTER,
        "string.quoted.double.rga": v.STRING,
        "keyword.operator.rga": v.OPERATOR,
        "variable.other.rga": v.NAME,
        "punctuation.rga": r"[\[\](),]",
    }
    comment = {"match": ";.*$", "name": "comment.line.semicolon.rga"}
    return {
        "name": "Retrograd assembly",
        "scopeName": "source.rga",
        "fileTypes": ["rga"],
        "patterns": [
            comment,
            {"match": f"({v.NAME})\\s*(:)", "captures": {"1": {"name": "entity.name.label.rga"}, "2": {"name": "punctuation.rga"}}},
            *lines,
            {"match": r"[A-Za-z_.][A-Za-z0-9_.]*", "name": "invalid.illegal.rga"},
        ],
        "repository": {
            "operands": {"patterns": [comment, *({"match": pattern, "name": scope} for scope, pattern in operands.items())]}
        },
    }  # fmt: skip


def text() -> str:
    """The grammar as a file."""
    return json.dumps(grammar(), indent=2, ensure_ascii=False) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the grammar into a folder, or compare it; returns the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    check = "--check" in given
    folder = next((item for item in given if item != "--check"), "editors/vscode/syntaxes")
    return publish("retrograd.editors.textmate", Path(folder), {NAME_OF_FILE: text()}, check)


if __name__ == "__main__":
    sys.exit(main())
