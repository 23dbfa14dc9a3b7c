"""The words of assembly text, from the tables of the assembler: nothing is listed a second time.

vocabulary().instructions    opcodes, shorthands and mirrored conditions
vocabulary().words           words that stand for a few instructions: push, pop, proc, endproc
vocabulary().directives      .equ, .word …
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from retrograd.assembler.assemble import Parser
from retrograd.isa.table import TABLE, Table
from retrograd.isa.words import Q32_32

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
