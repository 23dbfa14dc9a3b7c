"""Accesses of the stack in assembly, by places of the program."""

from __future__ import annotations

from retrograd.simulator.engines.llvm.builder import I64, ModuleBuilder
from retrograd.simulator.engines.llvm.instructions import stack_accesses, with_locations

ASSEMBLY = """
f:
\t.loc\t1 0 0
\tmovq\t8(%rsp), %rax
\t.loc\t1 5 0
\tleaq\t16(%rsp), %rcx
\tmovq\t(%rbx), %rax
\taddq\t%rax, 24(%rsp)
\tpushq\t%rbx
\t.loc\t1 8 0 is_stmt 0
\tmovq\t%rax, (%rsp)
\t.cfi_endproc
g:
\tmovq\t%rax, (%rsp)
"""


def test_each_access_belongs_to_the_line_before_or_at_the_top_of_a_block_to_the_next() -> None:
    assert stack_accesses(ASSEMBLY, "x86_64") == {4: 2, 7: 1}
    assert stack_accesses("\t.loc 1 3 0\n\tstr x0, [sp, #8]\n\tadd x0, sp, #8", "aarch64") == {2: 1}
    assert stack_accesses(ASSEMBLY, "vax") is None


def test_instructions_have_the_places_of_their_lines() -> None:
    module = ModuleBuilder()
    code = module.function("f", I64, {"x": I64})
    (x,) = code.arguments
    sums = []
    for place in (3, 4):
        code.places.append((len(code.lines), place))
        sums.append(x + place)
    code.ret(sums[0] * sums[1])
    lines = [line for line in with_locations(module, "f").splitlines() if line.startswith("  ")]
    first, second, third, end = (line.partition(" !dbg ")[2] for line in lines)
    assert first != second == third == end
    text = with_locations(module, "f")
    assert f"{first} = !DILocation(line: 4," in text
    assert f"{second} = !DILocation(line: 5," in text
