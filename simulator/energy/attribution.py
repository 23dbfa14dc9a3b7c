"""Attribution of counts to the lines and functions of the source.

    counts per address × source map → counts per line, and per function

The work of an inlined function belongs to its own lines. Sums are exact: the parts add up to the whole.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

from retrograd.isa.program import Program
from retrograd.simulator.energy.counting import Counts

_T = TypeVar("_T")

#: code without a place in the source: `start`, `finish`, constants, the frame of subroutines
FRAME = "(frame)"
#: the file of a program without a source
ADDRESS = "address"
#: code outside of functions and subroutines
TOP = "(program)"


class SourceLine(NamedTuple):
    """A line of the source; no file and line 0 stand for code that the compiler added.

    For a program without a source, such as an image, the addresses of its code stand for lines.
    """

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.file else FRAME


def lines_of(program: Program) -> list[SourceLine]:
    """The line that each address comes from."""
    if not any(program.source.spans):
        return [SourceLine(ADDRESS, pc) for pc in range(len(program.code))]
    spans = [program.source.span(pc) for pc in range(len(program.code))]
    return [SourceLine("", 0) if span is None else SourceLine(span.file, span.line) for span in spans]


def by_line(counts: Counts) -> dict[SourceLine, Counts]:
    """The counts of each line that was executed, in the order of files and lines."""
    return dict(sorted(_grouped(counts, lines_of(counts.program)).items()))


def by_function(counts: Counts) -> dict[str, Counts]:
    """The counts of each function of a Python source, or of each subroutine of assembly by its label."""
    return _grouped(counts, functions_of(counts.program))


def _grouped(counts: Counts, owners: Sequence[_T]) -> dict[_T, Counts]:
    addresses: dict[_T, set[int]] = {}
    for pc, _ in counts.executed:
        addresses.setdefault(owners[pc], set()).add(pc)
    return {owner: counts.at(found) for owner, found in addresses.items()}


def functions_of(program: Program) -> list[str]:
    """The function that each address belongs to."""
    source = program.source
    inside = {
        file: _python_functions(text)
        for file, text in zip(source.files, source.texts, strict=False)
        if not file.endswith(".rga")
    }
    subroutines = dict(_subroutines(program))
    out = []
    for pc in range(len(program.code)):
        span = source.span(pc)
        named = None if span is None else (inside.get(span.file) or {}).get(span.line)
        if named is not None:
            out.append(named)
        elif span is None and any(inside.values()):
            out.append(FRAME)
        else:
            out.append(subroutines.get(pc, TOP))
    return out


def _python_functions(lines: Sequence[str]) -> Mapping[int, str]:
    """line -> the innermost function around it."""
    try:
        tree = ast.parse("".join(line if line.endswith("\n") else line + "\n" for line in lines))
    except (SyntaxError, ValueError):
        return {}
    found: dict[int, str] = {}

    def visit(node: ast.AST, outer: str) -> None:
        for child in ast.iter_child_nodes(node):
            name = outer
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                name = f"{outer}.{child.name}" if outer else child.name
                if not isinstance(child, ast.ClassDef):
                    first = min([child.lineno, *(d.lineno for d in child.decorator_list)])
                    found.update(dict.fromkeys(range(first, (child.end_lineno or child.lineno) + 1), name))
            visit(child, name)

    visit(tree, "")
    return found


def _subroutines(program: Program) -> Iterator[tuple[int, str]]:
    """(address, name) of the code in subroutines: the innermost unconditional pair around a `swapbr`."""
    code = program.instructions
    names = {pc: name for name, pc in reversed(list(program.labels.items()))}
    pairs: list[tuple[int, int]] = []
    for pc, i in enumerate(code):
        while pairs and pairs[-1][1] <= pc:
            pairs.pop()
        if i.opcode.name in ("from", "goto") and i.imm > 0:
            pairs.append((pc, pc + i.imm))
        elif i.opcode.name == "swapbr":
            first, last = pairs[-1] if pairs else (pc, pc)
            label = names.get(pc) or next((names[at] for at in range(first, last + 1) if at in names), f"at {first}")
            yield from ((at, label) for at in range(first, last + 1))
