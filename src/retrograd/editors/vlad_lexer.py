"""A Pygments lexer for VLAD under the name `vlad`: the forms and primitives of the translator, and `===>` for expected values.

pygmentize -l vlad examples/vlad/newton.vlad
"""

from __future__ import annotations

from typing import Any, ClassVar

from pygments.lexer import RegexLexer, words
from pygments.token import Comment, Error, Keyword, Name, Number, Operator, Punctuation, Whitespace

from retrograd.compiler.frontends.vlad.primitives import PRIMITIVES
from retrograd.compiler.frontends.vlad.translation import FORMS

#: the end of an atom
_ENDS = r"(?=[\s()\[\]';]|\Z)"


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
            (words(tuple(FORMS), suffix=_ENDS), Keyword),
            (words(tuple(PRIMITIVES), suffix=_ENDS), Name.Builtin),
            (rf"#[tf]{_ENDS}", Keyword.Constant),
            (rf"[+-]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?{_ENDS}", Number),
            (rf"\.{_ENDS}", Punctuation),
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
