"""Spills of compiled code: the machine instructions that access the stack, by the place of the program for which they were emitted.

Each LLVM instruction of a function gets a debug location whose line is a number that the emitter has noted (`FunctionBuilder.places`).
LLVM keeps the lines of instructions through its passes, and prints them as `.loc` in assembly. Machine instructions that LLVM
adds itself, such as a spill, have the line of the instruction before them, or at the top of a block, of the next one.

Besides words that are spilled and reloaded, the stack holds the arrays of a function; their accesses count, too. Prologues (push, pop) and
addresses that are only computed (lea) do not.
"""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise

from retrograd.simulator.engines.llvm.builder import ModuleBuilder

#: architecture -> an operand in the stack frame, and the instructions that have one without an access
_FRAMES = {"x86_64": (r"\(%rsp", r"\s*lea"), "aarch64": (r"\[sp", r"\s*add\b")}
#: numbers of metadata; those of the module itself begin at 0
_UNIT, _FILE, _FUNCTION, _TYPE, _NONE, _INFO, _DWARF, _FIRST = range(10, 18)
_DEFINITIONS = f"""
!llvm.dbg.cu = !{{!{_UNIT}}}
!llvm.module.flags = !{{!{_INFO}, !{_DWARF}}}
!{_INFO} = !{{i32 2, !"Debug Info Version", i32 3}}
!{_DWARF} = !{{i32 2, !"Dwarf Version", i32 4}}
!{_UNIT} = distinct !DICompileUnit(language: DW_LANG_C99, file: !{_FILE}, emissionKind: LineTablesOnly)
!{_FILE} = !DIFile(filename: "program", directory: "")
!{_FUNCTION} = distinct !DISubprogram(name: "program", scope: !{_FILE}, file: !{_FILE}, line: 1, type: !{_TYPE}, unit: !{_UNIT}, spFlags: DISPFlagDefinition)
!{_TYPE} = !DISubroutineType(types: !{_NONE})
!{_NONE} = !{{}}
"""


def with_locations(module: ModuleBuilder, name: str) -> str:
    """The text of the module, where each instruction of the function has its place as the line of its debug location, plus one."""
    function = next(f for f in module.functions if f.callee.name == f"@{name}")
    lines, places = function.lines, [*function.places, (len(function.lines), 0)]
    located = lines[: places[0][0]]
    for (first, place), (last, _) in pairwise(places):
        located += [f"{line}, !dbg !{_FIRST + place}" if line.startswith("  ") else line for line in lines[first:last]]
    before = function.text()
    head, rest = before.split("\n", 1)
    after = f"{head.removesuffix('{')}!dbg !{_FUNCTION} {{\n{rest}".replace("\n".join(lines), "\n".join(located))
    used = sorted({place for _, place in function.places})
    locations = "\n".join(f"!{_FIRST + k} = !DILocation(line: {k + 1}, scope: !{_FUNCTION})" for k in used)
    return f"{module.text().replace(before, after)}{_DEFINITIONS}{locations}\n"


def stack_accesses(assembly: str, architecture: str) -> Counter[int] | None:
    """place -> machine instructions for it that read or write the stack; None for an architecture whose frames are not known."""
    if architecture not in _FRAMES:
        return None
    frame, computed = map(re.compile, _FRAMES[architecture])
    found: Counter[int] = Counter()
    line = pending = 0
    for text in assembly.splitlines():
        if text.startswith("\t.loc"):
            line = int(text.split()[2])
            if line:
                found[line - 1] += pending
                pending = 0
        elif text.startswith("\t.cfi_endproc"):
            line = pending = 0
        elif frame.search(text) and not computed.match(text):
            if line:
                found[line - 1] += 1
            else:
                pending += 1
    return +found
