"""A Pygments lexer for Janus, in Jana's dialect and in that of 1982, under the name `janus`.

    pygmentize -l janus examples/janus/fib.ja

The keywords are those of the two parsers. A character that begins no token of either dialect is marked as an error.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

from pygments.lexer import RegexLexer, bygroups, words
from pygments.token import (
    Comment,
    Error,
    Keyword,
    Name,
    Number,
    Operator,
    Punctuation,
    String,
    Text,
    Whitespace,
)

from retrograd.assembler.assemble import Parser
from retrograd.compiler.frontends.janus.parser import JANA, JANUS_1982
from retrograd.compiler.frontends.janus.syntax import TYPES
from retrograd.compiler.frontends.vlad.primitives import PRIMITIVES
from retrograd.compiler.frontends.vlad.translation import FORMS, STREAMS
from retrograd.isa.manual.pages import publish
from retrograd.isa.table import TABLE, Table
from retrograd.isa.words import Q32_32

_ENDS = r"(?![A-Za-z0-9_'])"
_CONSTANTS = ("true", "false", "nil")
_OTHERS = (JANA.keywords | JANUS_1982.keywords) - {*TYPES, *_CONSTANTS, "procedure"}
_SHOUTED = tuple(word.upper() for word in JANUS_1982.keywords)


class JanusLexer(RegexLexer):
    """Tokens of Janus.

    >>> from pygments.token import Keyword
    >>> [text for kind, text in JanusLexer().get_tokens("if n = 0 then x += 1 fi x = 1") if kind in Keyword]
    ['if', 'then', 'fi']
    """

    name = "Janus"
    aliases: ClassVar[list[str]] = ["janus"]
    filenames: ClassVar[list[str]] = ["*.ja", "*.janus"]

    tokens: ClassVar[dict[str, Any]] = {
        "root": [
            (r"\s+", Whitespace),
            (r"//[^\n]*", Comment.Single),
            (r"/\*", Comment.Multiline, "comment"),
            (r";[^\n]*", Comment.Single),
            (r'"(?:[^"\\\n]|\\.)*"', String.Double),
            (words(("procedure",), suffix=_ENDS), Keyword.Declaration),
            (words(tuple(TYPES), suffix=_ENDS), Keyword.Type),
            (words(_CONSTANTS, suffix=_ENDS), Keyword.Constant),
            (words((*_OTHERS, *_SHOUTED), suffix=_ENDS), Keyword),
            (r"0[xX][0-9a-fA-F]+", Number.Hex),
            (r"0[oO][0-7]+", Number.Oct),
            (r"0[bB][01]+", Number.Bin),
            (r"[0-9]+", Number.Integer),
            (r"[A-Za-z_][A-Za-z0-9_']*", Name),
            (r"<=>|\*\*|\*/|\+=|-=|\*=|/=|\^=|!=|<=|>=|<<|>>|&&|\|\||[-+*/\\%<>=#&|^!~:]", Operator),
            (r"[(){}\[\],.]", Punctuation),
            (r".", Error),
        ],
        "comment": [
            (r"[^*]+", Comment.Multiline),
            (r"\*/", Comment.Multiline, "#pop"),
            (r"\*", Comment.Multiline),
        ],
    }


# -----------------------------------------------------------------------------
# The words of assembly text, from the tables of the assembler: nothing is listed a second time.
#
# vocabulary().instructions    opcodes, shorthands and mirrored conditions
# vocabulary().words           words that stand for a few instructions: push, pop, proc, endproc
# vocabulary().directives      .equ, .word …

#: a name, and the tokens of operands; the patterns have the same meaning in Python and in TextMate grammars. Digits are possessive (`++`):
#: a number that ends wrong would be tried at each of its digits else
NAME = r"[A-Za-z_][A-Za-z0-9_.]*"
REGISTER = r"r(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])(?![A-Za-z0-9_.])"
FIXED_POINT = r"(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?q(?![A-Za-z0-9_])"
INTEGER = r"(?:0[xX][0-9a-fA-F_]++|0[bB][01_]++|0[oO][0-7_]++|[0-9][0-9_]*+)(?![A-Za-z0-9_.])"
CHARACTER = r"'(?:\\.|[^\\'])'"
STRING = r'"(?:\\.|[^"\\])*"'
OPERATOR = r"<<|>>|[-+*/%&|^~]"


@dataclass(frozen=True)
class Vocabulary:
    """The words that begin a line, by kind."""

    instructions: tuple[str, ...]
    #: instructions whose last operand is a label
    jumps: tuple[str, ...]
    words: tuple[str, ...]
    directives: tuple[str, ...]


@cache
def vocabulary(table: Table = TABLE) -> Vocabulary:
    """The words of a table's assembly language."""
    parser = Parser(table, Q32_32, ())
    jumps = parser.instructions.branches
    return Vocabulary(
        tuple(sorted(name for name in parser.forms if name not in jumps)),
        tuple(sorted(jumps)),
        tuple(sorted(parser.subroutines)),
        tuple(sorted(parser.directives)),
    )


def one_of(words: Iterable[str]) -> str:
    """The pattern of one of the words as a whole, longest first."""
    listed = "|".join(re.escape(word) for word in sorted(words, key=lambda word: (-len(word), word)))
    return f"(?:{listed})(?![A-Za-z0-9_.])"


# -----------------------------------------------------------------------------
# A Pygments lexer for VLAD under the name `vlad`: the forms and primitives of the translator, and `===>` for expected values.
#
# pygmentize -l vlad examples/vlad/newton.vlad

#: the end of an atom
_VLAD_ENDS = r"(?=[\s()\[\]';]|\Z)"


class VladLexer(RegexLexer):
    """Tokens of VLAD.

    >>> from pygments.token import Keyword
    >>> [text for kind, text in VladLexer().get_tokens("(define (f x) (if (zero? x) 1 x))") if kind in Keyword]
    ['define', 'if']
    """

    name = "VLAD"
    aliases: ClassVar[list[str]] = ["vlad"]
    filenames: ClassVar[list[str]] = ["*.vlad"]

    tokens: ClassVar[dict[str, Any]] = {
        "root": [
            (r"\s+", Whitespace),
            (r";[^\n]*", Comment.Single),
            (r"#\|", Comment.Multiline, "comment"),
            (r"===>", Operator.Word),
            (r"[()\[\]]", Punctuation),
            (r"'", Operator),
            (words(tuple(FORMS), suffix=_VLAD_ENDS), Keyword),
            (words((*PRIMITIVES, *STREAMS), suffix=_VLAD_ENDS), Name.Builtin),
            (rf"#[tf]{_VLAD_ENDS}", Keyword.Constant),
            (rf"[+-]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?{_VLAD_ENDS}", Number),
            (rf"\.{_VLAD_ENDS}", Punctuation),
            (r"[^\s()\[\]';]+", Name),
            (r".", Error),
        ],
        "comment": [
            (r"[^|#]+", Comment.Multiline),
            (r"#\|", Comment.Multiline, "#push"),
            (r"\|#", Comment.Multiline, "#pop"),
            (r"[|#]", Comment.Multiline),
        ],
    }


# -----------------------------------------------------------------------------
# A Pygments lexer for assembly text, which Pygments finds by its entry point under the name `rga`.
#
#     pygmentize -l rga examples/squares.rga
#
# A word that begins a line and is no instruction, directive or label is marked as an error.

_WORDS = vocabulary()


class AssemblyLexer(RegexLexer):
    """Tokens of Retrograd's assembly language.

    >>> from pygments.token import Keyword
    >>> [text for kind, text in AssemblyLexer().get_tokens("add r1, 5 ; sum") if kind in Keyword]
    ['add']
    """

    name = "Retrograd assembly"
    aliases: ClassVar[list[str]] = ["rga", "retrograd"]
    filenames: ClassVar[list[str]] = ["*.rga"]

    tokens: ClassVar[dict[str, Any]] = {
        "root": [
            (r"\n", Whitespace),
            (r"[^\S\n]+", Whitespace),
            (r";[^\n]*", Comment.Single),
            (rf"({NAME})([^\S\n]*)(:)", bygroups(Name.Label, Whitespace, Punctuation)),
            (one_of(_WORDS.jumps), Keyword.Reserved, "operands"),
            (one_of(_WORDS.instructions), Keyword, "operands"),
            (one_of(_WORDS.words), Keyword.Declaration, "operands"),
            (one_of(_WORDS.directives), Keyword.Namespace, "operands"),
            (r"[A-Za-z_.][\w.]*", Error, "operands"),
            (r".", Error, "operands"),
        ],
        "operands": [
            (r"\n", Whitespace, "#pop"),
            (r"[^\S\n]+", Whitespace),
            (r";[^\n]*", Comment.Single),
            (REGISTER, Name.Builtin),
            (FIXED_POINT, Number.Float),
            (INTEGER, Number.Integer),
            (CHARACTER, String.Char),
            (STRING, String.Double),
            (OPERATOR, Operator),
            (NAME, Name),
            (r"[\[\](),]", Punctuation),
            # A number that ends wrong, as a whole.
            (r"[0-9.][A-Za-z0-9_.]*", Text),
            (r".", Text),
        ],
    }


# -----------------------------------------------------------------------------
# The TextMate grammar of assembly text, for VS Code and other editors, made from the vocabulary.
#
# python -m retrograd.observe.lexers editors/vscode/syntaxes    writes it; with --check it is compared

NAME_OF_FILE = "rga.tmLanguage.json"


def grammar() -> dict[str, Any]:
    """The grammar as JSON data."""
    words = vocabulary()
    # A word begins a line, after a label at most; the operands up to the end of the line follow it.
    kinds = {
        "keyword.control.rga": words.jumps,
        "keyword.mnemonic.rga": words.instructions,
        "storage.type.rga": words.words,
        "keyword.other.directive.rga": words.directives,
    }
    lines = [
        {
            "begin": one_of(listed),
            "beginCaptures": {"0": {"name": scope}},
            "end": "$",
            "patterns": [{"include": "#operands"}],
        }
        for scope, listed in kinds.items()
    ]
    operands = {
        "variable.language.register.rga": REGISTER,
        "constant.numeric.fixed-point.rga": FIXED_POINT,
        "constant.numeric.integer.rga": INTEGER,
        "constant.character.rga": CHARACTER,
        "string.quoted.double.rga": STRING,
        "keyword.operator.rga": OPERATOR,
        "variable.other.rga": NAME,
        "punctuation.rga": r"[\[\](),]",
    }
    comment = {"match": ";.*$", "name": "comment.line.semicolon.rga"}
    return {
        "name": "Retrograd assembly",
        "scopeName": "source.rga",
        "fileTypes": ["rga"],
        "patterns": [
            comment,
            {"match": f"({NAME})\\s*(:)", "captures": {"1": {"name": "entity.name.label.rga"}, "2": {"name": "punctuation.rga"}}},
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
    return publish("retrograd.observe.lexers", Path(folder), {NAME_OF_FILE: text()}, check)


if __name__ == "__main__":
    sys.exit(main())
