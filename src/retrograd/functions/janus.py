"""Programs of Janus as reversible functions: FILE.ja runs `main`, FILE.ja:PROCEDURE another procedure.

A program of 1982 has global variables, which are the arguments of each of its procedures.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

from retrograd.assembler.lexer import decode_text
from retrograd.compiler.compiled import Options
from retrograd.compiler.frontends.builder import ModuleBuilder
from retrograd.compiler.frontends.janus import syntax
from retrograd.compiler.frontends.janus.parser_1982 import read
from retrograd.compiler.frontends.janus.procedures import Entry
from retrograd.compiler.frontends.python.captures import Captures
from retrograd.compiler.frontends.python.source import NOTHING, Parameter, Source
from retrograd.compiler.frontends.specialisation import Declare, Specialisation
from retrograd.compiler.ir.statements import Procedure
from retrograd.functions.reversible import Reversible
from retrograd.isa.diagnostics import api_boundary
from retrograd.isa.files import read_file
from retrograd.isa.words import Format

#: the numbers of the Jana interpreter: integers of 32 bits, which wrap
JANA = Format(32, 0)


def procedure() -> None:
    """A procedure of Janus, whose text stands in its own file."""


class JanusFunction(Reversible):
    """A procedure of Janus. The variables of `main` are its arguments, and begin as zeros unless they are given.

    Raises CompileError RG0702 where the program has no such procedure.
    """

    trap_fixes: Mapping[str, str] = MappingProxyType({
        "loop": "The condition of `from` is true before the loop and false after each pass through `loop`.",
        "RG0802": "Write the value that it holds, or undo the statements that changed it.",
        "RG0806": "Push and pop in pairs: a stack has room for 4096 values.",
        "RG0807": "End the recursion earlier, or make the arrays shorter.",
        "RG0810": "Test the exponent with an `if` first.",
    })  # fmt: skip

    def __init__(
        self, program: syntax.Program, name: str, format: Format | str | None = None, options: Options | None = None
    ) -> None:
        self.entry = Entry(program, name)
        super().__init__(procedure, JANA if format is None else format, options)
        self.__name__ = self.__qualname__ = name
        tree = ast.parse("def procedure(): pass").body[0]
        assert isinstance(tree, ast.FunctionDef)
        span = self.entry.procedure.span
        tree.lineno = tree.end_lineno = span.line
        tree.col_offset, tree.end_col_offset = span.column - 1, span.end - 1
        self._read = tree, Source(program.source.name, program.source.lines)

    @property
    def _parsed(self) -> tuple[ast.FunctionDef, Source]:
        return self._read

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """The variables of the entry. Raises CompileError."""
        return tuple(
            Parameter(v.name, v.annotation, NOTHING if v.initial is None else v.initial) for v in self.entry.variables
        )

    def own_lowering(
        self, made: Specialisation, module: ModuleBuilder, captures: Captures, shared: Declare
    ) -> Procedure:
        """The procedure for the shapes of its arguments. Raises CompileError."""
        return self.entry.lowered(made, module)

    @api_boundary
    def with_options(self, **changes: Any) -> JanusFunction:
        """The same procedure compiled otherwise: `level`, `stack`, `format`."""
        format = changes.pop("format", self.format)
        return JanusFunction(self.entry.program, self.__name__, format, self.options.changed(changes))


def read_janus(file: str, dialect: str | None = None) -> syntax.Program:
    """The program in a file. `dialect`: `jana` or `1982`. Raises InputError RG0501, CompileError RG0725."""
    return read(decode_text(read_file(Path(file)), file), file, dialect)


def load_janus(file: str, name: str = "main", dialect: str | None = None) -> JanusFunction:
    """The procedure of a file. Raises InputError RG0501, CompileError RG0702, RG0725."""
    return JanusFunction(read_janus(file, dialect), name)
