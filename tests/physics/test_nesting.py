"""Mirrored code: each pair of a range is an instruction and its inverse, ranges nest, and loops are mirrored whole."""

from __future__ import annotations

import pytest
from retrograd.assembler.assemble import assemble
from retrograd.examples.bessel import bessel
from retrograd.isa.encoding import encode, inverse
from retrograd.isa.program import Program
from support.generator import generate

import retrograd as rg
from retrograd.physics._graph import Mirror, jumps, lanes, mirrors, undone


def program_of(body: str) -> Program:
    return assemble(f"start\n{body}\nfinish")


def check(program: Program) -> list[Mirror]:
    """The laws of mirrors."""
    found = mirrors(program)
    code = program.instructions
    for m in found:
        assert m.first <= m.last < m.partner_first <= m.partner_last
        low = [pc for pc in range(m.first, m.last + 1) if code[pc].opcode.writes]
        high = [pc for pc in range(m.partner_first, m.partner_last + 1) if code[pc].opcode.writes]
        assert len(low) == len(high) > 0
        for a, b in zip(low, reversed(high), strict=True):
            if code[a].opcode.name in ("call", "uncall"):
                assert {code[a].opcode.name, code[b].opcode.name} == {"call", "uncall"}
            else:
                assert code[b][1:] == inverse(code[a])[1:]
                assert code[b].opcode.name == code[a].opcode.inverse_name
        for jump in jumps(program):
            x, y = jump.span
            whole = {x, y} <= {*low, *high}
            for a, b in zip(low, reversed(high), strict=True):
                assert jump.call or whole or (x < a < y) == (x < b < y)
    for m in found:
        for n in found:
            parts = [(n.first, n.last), (n.last, n.partner_first), (n.partner_first, n.partner_last)]
            apart = m.partner_last < n.first or n.partner_last < m.first
            inside = any(a <= m.first and m.partner_last <= b for a, b in parts)
            around = any(
                a <= n.first and n.partner_last <= b
                for a, b in [(m.first, m.last), (m.last, m.partner_first), (m.partner_first, m.partner_last)]
            )
            assert m is n or apart or inside or around, (m, n)
    return found


def test_compute_use_uncompute() -> None:
    program = program_of("add r1, 5\nmov.add r2, r1\nadd r9, r2\nmov.sub r2, r1\nsub r1, 5")
    assert check(program) == [Mirror(1, 2, 4, 5, 0)]
    assert undone(program) == {4, 5}


def test_assertions_are_passed_over() -> None:
    program = program_of("add r1, 5\nadd r3, 1\nadd r9, r1\nsub r3, 1\nassertz r3\nsub r1, 5\nassertz r1")
    assert check(program) == [Mirror(1, 2, 4, 6, 0)]


def test_a_loop_is_mirrored_whole() -> None:
    loop = "{0}: from.ne r3, r0, {0}.more\n add r3, 1\n{0}.more: goto.ne r3, r4, {0}\n"
    back = "{0}: from.ne r3, r4, {0}.more\n sub r3, 1\n{0}.more: goto.ne r3, r0, {0}\n"
    program = program_of(loop.format("a") + "add r9, r3\n" + back.format("b"))
    assert check(program) == [Mirror(1, 3, 5, 7, 0)]
    # Only the body of the loop has an inverse behind it: an instruction of a loop is not undone by one outside.
    assert check(program_of(loop.format("a") + "add r9, r3\nsub r3, 1")) == []


def test_the_two_ends_of_a_jump_do_not_undo_each_other() -> None:
    program = program_of("a: goto.eq r1, r0, b\nadd r2, 1\nb: from.eq r1, r0, a")
    assert check(program) == []


def test_calls_are_undone_by_uncalls() -> None:
    program = assemble("start\ncall f\nadd r2, r1\nuncall f\nfinish\nproc f, r10\nadd r1, 1\nendproc")
    assert check(program)[0] == Mirror(1, 1, 3, 3, 0)


def test_nested_pairs() -> None:
    program = program_of("add r1, 5\nadd r2, r1\nadd r9, r2\nsub r2, r1\nadd r8, r1\nsub r1, 5")
    assert check(program) == [Mirror(1, 1, 6, 6, 0), Mirror(2, 2, 4, 4, 1)]


def test_the_image_of_a_pair_in_the_part_that_undoes() -> None:
    inner = "add r1, 5\nadd r2, r1\nsub r1, 5"
    undoing = "add r1, 5\nsub r2, r1\nsub r1, 5"
    program = program_of(f"{inner}\nadd r9, r2\n{undoing}")
    assert check(program) == [Mirror(1, 3, 5, 7, 0), Mirror(1, 1, 3, 3, 1), Mirror(5, 5, 7, 7, 1)]


def test_an_uncomputed_series() -> None:
    program = rg.run(bessel, 0.0, 2.5).compiled.program
    [outer, *_] = check(program)
    assert (outer.first, outer.partner_last) == (1, len(program.code) - 2)


@pytest.mark.parametrize("seed", range(40))
def test_random_programs(seed: int) -> None:
    case = generate(seed)
    check(case.program)


def test_a_program_and_its_inverse_are_mirrored() -> None:
    code = assemble("start\nmul.add r1, r2, r3\nadd r4, r1\nswap r4, r5\nfinish")
    there, back = code.instructions[1:-1], (~code).instructions[1:-1]
    ends = code.code[0], code.code[-1]
    program = Program([ends[0], *map(encode, there), *map(encode, back), ends[1]])
    assert check(program)[0] == Mirror(1, 3, 4, 6, 0)


@pytest.mark.parametrize(
    ("spans", "expected"),
    [([], []), ([(0, 9), (2, 3)], [1, 0]), ([(0, 1), (2, 3)], [0, 0]), ([(0, 2), (2, 4)], [0, 1])],
)
def test_lanes(spans: list[tuple[int, int]], expected: list[int]) -> None:
    assert lanes(spans) == expected
