"""A Pygments lexer for assembly text, which Pygments finds by its entry point under the name `rga`.

    pygmentize -l rga examples/squares.rga

A word that begins a line and is no instruction, directive or label is marked as an error.
"""

from __future__ import annotations

from typing import Any, ClassVar

from pygments.lexer import RegexLexer, bygroups
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

from retrograd.editors import vocabulary as v

_WORDS = v.vocabulary()


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
            (rf"({v.NAME})([^\S\n]*)(:)", bygroups(Name.Label, Whitespace, Punctuation)),
            (v.one_of(_WORDS.jumps), Keyword.Reserved, "operands"),
            (v.one_of(_WORDS.instructions), Keyword, "operands"),
            (v.one_of(_WORDS.words), Keyword.Declaration, "operands"),
            (v.one_of(_WORDS.directives), Keyword.Namespace, "operands"),
            (r"[A-Za-z_.][\w.]*", Error, "operands"),
            (r".", Error, "operands"),
        ],
        "operands": [
            (r"\n", Whitespace, "#pop"),
            (r"[^\S\n]+", Whitespace),
            (r";[^\n]*", Comment.Single),
            (v.REGISTER, Name.Builtin),
            (v.FIXED_POINT, Number.Float),
            (v.INTEGER, Number.Integer),
            (v.CHARACTER, String.Char),
            (v.STRING, String.Double),
            (v.OPERATOR, Operator),
            (v.NAME, Name),
            (r"[\[\](),]", Punctuation),
            # A number that ends wrong, as a whole.
            (r"[0-9.][A-Za-z0-9_.]*", Text),
            (r".", Text),
        ],
    }
