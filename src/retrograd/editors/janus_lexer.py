"""A Pygments lexer for Janus, in Jana's dialect and in that of 1982, under the name `janus`.

    pygmentize -l janus examples/janus/fib.ja

The keywords are those of the two parsers. A character that begins no token of either dialect is marked as an error.
"""

from __future__ import annotations

from typing import Any, ClassVar

from pygments.lexer import RegexLexer, words
from pygments.token import Comment, Error, Keyword, Name, Number, Operator, Punctuation, String, Whitespace

from retrograd.compiler.frontends.janus import parser, parser_1982
from retrograd.compiler.frontends.janus.parser import TYPES

_ENDS = r"(?![A-Za-z0-9_'])"
_CONSTANTS = ("true", "false", "nil")
_OTHERS = (parser.KEYWORDS | parser_1982.KEYWORDS) - {*TYPES, *_CONSTANTS, "procedure"}
_SHOUTED = tuple(word.upper() for word in parser_1982.KEYWORDS)


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
            (r"<=>|\*\*|\*/|\+=|-=|\^=|!=|<=|>=|<<|>>|&&|\|\||[-+*/\\%<>=#&|^!~:]", Operator),
            (r"[(){}\[\],]", Punctuation),
            (r".", Error),
        ],
        "comment": [
            (r"[^*]+", Comment.Multiline),
            (r"\*/", Comment.Multiline, "#pop"),
            (r"\*", Comment.Multiline),
        ],
    }
