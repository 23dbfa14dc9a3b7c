"""The passes that know what memory and indices are: eliminate_checks, replace_arrays_by_scalars, extend_live_ranges, reduce_induction_variables, erased arrays.

Each on small examples with the IR that is expected, and on random programs: memory ends as it ended without, forward and
backward.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from types import ModuleType

import pytest
from retrograd.compiler import pipeline
from retrograd.compiler.backend.memory_operands import promote_to_registers, select_operands, use_memory_operands
from retrograd.compiler.ir.instruction_selection import facts
from retrograd.compiler.ir.ranges import MIRRORED, AffineValue, Symbols
from retrograd.compiler.ir.statements import (
    Block,
    Call,
    Check,
    Const,
    Delocal,
    External,
    For,
    If,
    Kind,
    Local,
    Module,
    Node,
    Op,
    Operand,
    Procedure,
    Region,
    Var,
    While,
    Within,
    invert,
)
from retrograd.compiler.ir.statements import (
    Test as When,
)
from retrograd.compiler.ir.traversal import bodies, map_blocks, map_bodies, walk
from retrograd.compiler.ir.value_numbering import StructuralKeys
from retrograd.compiler.passes.check_elimination import eliminate_checks
from retrograd.compiler.passes.dead_code import erase_routines
from retrograd.compiler.passes.forward_substitution import substitute_erased
from retrograd.compiler.passes.induction_variables import reduce_induction_variables
from retrograd.compiler.passes.inlining import rename_locals
from retrograd.compiler.passes.live_range_extension import extend_live_ranges
from retrograd.compiler.passes.scalar_replacement import replace_arrays_by_scalars
from retrograd.compiler.passes.strength_reduction import reduce_strength
from retrograd.isa.table import TABLE
from retrograd.isa.words import Format
from retrograd.simulator.semantics import Fault

w = Format(64, 32)
Pass = Callable[[Module], Module]


def op(name: str, d: Operand | None = None, a: Operand | None = None, b: Operand | None = None, **more: object) -> Op:
    return Op(TABLE[name], d, a, b, **more)  # type: ignore[arg-type]


def module(*entry: Node, procedures: tuple[Procedure, ...] = (), **more: object) -> Module:
    more = {"regions": REGIONS, "arguments": (GIVEN,), "memory": 64, **more}
    return Module(entry, {p.name: p for p in procedures}, **more)  # type: ignore[arg-type]


def after(run: Pass, *entry: Node, **more: object) -> Block:
    return run(module(*entry, **more)).entry  # type: ignore[arg-type]


def same(got: Block, *expected: Node) -> bool:
    """Equal up to the names of locals."""
    return StructuralKeys().block(got) == StructuralKeys().block(expected)


x, y, z, t, s, q, v, u = (Var(name, Kind.FIXED) for name in "xyztsqvu")
i, j, k, n, m = (Var(name) for name in "ijknm")
GIVEN, A, B = Region("given", 8, 0), Region("f.a", 8, 8), Region("f.b", 40, 16)
TABLED = Region("constant", 4, 56, (3, 9, 0, 5))
REGIONS = (GIVEN, A, B, TABLED)


def load(d: Var, at: int, region: Region = A) -> Op:
    return op("ld.add", d, Const(at), imm=region.address, region=region)


def exchange(d: Var, at: int, region: Region = A) -> Op:
    return op("exch", d, Const(0), imm=(region.address or 0) + at, region=region)


def below(a: Operand, length: int) -> Check:
    return Check(When("ltu", a, Const(length)), "RG0801", "")


def word(number: int) -> Const:
    return Const(number & w.mask)


# ---------------------------------------------------------------- ranges


def test_ranges_hold_for_all_words() -> None:
    """What is known of a function of two words in ranges holds of all words in them, in 4 bits."""
    small = Format(4, 0)
    rng = random.Random(1)
    names = ("mov", "mul", "and", "div", "mod", "sar", "shr", "shl", "abs", "min", "max", "slt", "sltu", "seq")
    for _ in range(600):
        name = rng.choice(names)
        symbols = Symbols(small)
        ends = [sorted((rng.randint(-8, 7), rng.randint(-8, 7))) for _ in range(2)]
        a, b = (symbols.unknown(*e) for e in ends)
        got = symbols.function(op(f"{name}.add"), a, b)
        function = TABLE[f"{name}.add"]
        for p in range(ends[0][0], ends[0][1] + 1):
            for r in range(ends[1][0], ends[1][1] + 1):
                if got is None or (name in ("div", "mod") and r == 0):
                    continue
                after_ = evaluated(function, p, r, small)
                assert got.low <= after_ <= got.high, (name, ends, p, r, got)


def evaluated(opcode: object, a: int, b: int, w: Format) -> int:
    from retrograd.isa.expr import evaluate

    value = opcode.entry.value(w)  # type: ignore[attr-defined]
    return w.signed(evaluate(value, w, {"a": a & w.mask, "b": b & w.mask, "d": 0, "m": 0, "imm": 0}))


def test_ranges_of_sums_of_many_terms() -> None:
    """No more than a few terms are kept of a sum; its range is known all the same, and all words where it may wrap."""
    symbols = Symbols(Format(8, 0))
    for most, expected in ((10, (0, 120)), (40, (-128, 127))):
        total = symbols.constant(0)
        for _ in range(12):
            total = symbols.sum(total, symbols.unknown(0, most))
        assert (total.low, total.high) == expected


def test_ranges_of_sums_and_tests_hold_for_all_words() -> None:
    """Sums of symbols, compared: whatever is claimed is true of all numbers that the symbols may stand for, in 4 bits."""
    small = Format(4, 0)
    rng = random.Random(2)

    def made(symbols: Symbols, bases: list[AffineValue], weights: list[int]) -> AffineValue:
        total = symbols.constant(weights[0])
        for base, weight in zip(bases, weights[1:], strict=True):
            total = symbols.sum(total, symbols.times(base, weight), rng.choice((1,)))
        return total

    claims = 0
    for _ in range(400):
        symbols = Symbols(small)
        ends = [sorted((rng.randint(-8, 7), rng.randint(-8, 7))) for _ in range(2)]
        bases = [symbols.unknown(*e) for e in ends]
        weights = [[rng.randint(-3, 3) for _ in range(3)] for _ in range(2)]
        left, right = (made(symbols, bases, some) for some in weights)
        cc = rng.choice(("eq", "ne", "lt", "ge", "ltu", "geu"))
        claim = symbols.holds(cc, left, right)
        for p in range(ends[0][0], ends[0][1] + 1):
            for r in range(ends[1][0], ends[1][1] + 1):
                a, b = (small.wrap(some[0] + some[1] * p + some[2] * r) for some in weights)
                assert left.low <= small.signed(a) <= left.high
                if claim is not None:
                    claims += 1
                    assert truth(cc, a, b, small) == claim, (cc, left, right, p, r)
    assert claims > 100


def test_what_a_test_leaves_of_its_operands_holds_for_all_words() -> None:
    """Both operands of a condition that holds lie in the ranges that the condition leaves, in 4 bits, and no condition leaves everything."""
    small = Format(4, 0)
    rng = random.Random(3)
    narrower: set[str] = set()
    for _ in range(2000):
        symbols = Symbols(small)
        ends = [sorted((rng.randint(-8, 7), rng.randint(-8, 7))) for _ in range(2)]
        a, b = (symbols.unknown(*e) for e in ends)
        cc = rng.choice(("eq", "ne", "lt", "ge", "ltu", "geu"))
        left, right = symbols.narrowed(cc, a, b), symbols.narrowed(MIRRORED[cc], b, a)
        narrower.update(name for name, new, old in ((cc, left, a), (MIRRORED[cc], right, b)) if new[:2] != old[:2])
        for p in range(ends[0][0], ends[0][1] + 1):
            for r in range(ends[1][0], ends[1][1] + 1):
                if truth(cc, p & small.mask, r & small.mask, small):
                    assert left.low <= p <= left.high, (cc, ends, p, r, left)
                    assert right.low <= r <= right.high, (cc, ends, p, r, right)
    assert narrower == {*MIRRORED, *MIRRORED.values()}


def truth(cc: str, a: int, b: int, w: Format) -> bool:
    p, r = (w.signed(a), w.signed(b)) if cc in ("lt", "ge") else (a, b)
    return {"eq": p == r, "ne": p != r, "lt": p < r, "ltu": p < r, "ge": p >= r, "geu": p >= r}[cc]


# ---------------------------------------------------------------- drop checks


def test_an_index_between_constants_is_not_checked() -> None:
    loop = For(i, Const(0), Const(9), 1, (below(i, 9), op("mov.add", n, i)))
    assert after(eliminate_checks, loop) == (loop._replace(body=loop.body[1:], some=True),)
    short = For(i, Const(0), Const(9), 1, (below(i, 8), op("mov.add", n, i)), some=True)
    assert after(eliminate_checks, short) == (short,)


def test_an_index_that_is_computed_from_others_is_not_checked() -> None:
    compute = (
        Local(k), op("mov.add", k, i), op("mul.add", k, j, Const(3)), op("imm.sub", k, imm=1), below(k, 7),
        Local(n), op("and.add", n, x, Const(7)), below(n, 8), Local(m), op("min.add", m, i, Const(5)), below(m, 6),
    )  # fmt: skip
    kept = tuple(node for node in compute if not isinstance(node, Check))
    use = (op("mov.add", y, k), op("mov.add", y, n), op("mov.add", y, m))
    inner = For(i, Const(1), Const(4), 1, (Within(compute, use),))
    loop = For(j, Const(0), Const(2), 1, (inner,), some=True)
    expected = loop._replace(body=(inner._replace(body=(Within(kept, use),), some=True),))
    assert after(eliminate_checks, loop) == (expected,)


def test_an_index_between_numbers_that_were_compared_is_not_checked() -> None:
    """0 ≤ j ≤ k ≤ 8, so the index of a loop from j to k is below 8."""
    compares = [Check(When("ge", *pair), "RG0804", "") for pair in ((j, Const(0)), (Const(8), k), (k, j))]
    loop = For(i, j, k, 1, (below(i, 8), op("mov.add", n, i)))
    within = Within(tuple(compares), (loop,))
    assert after(eliminate_checks, within) == (within._replace(body=(loop._replace(body=loop.body[1:]),)),)
    for left_out in range(3):
        weaker = Within(tuple(compares[:left_out] + compares[left_out + 1 :]), (loop,))
        assert after(eliminate_checks, weaker) == (weaker,)


def test_two_indices_of_which_one_begins_behind_the_other_differ() -> None:
    """u[i] −= u[k] for i from k + 1 on: 5 i − 5 k ≠ 0, whatever k is."""
    differ = (Local(n), op("mul.add", n, i, Const(5)), op("mul.add", n, k, word(-5)))
    check = Check(When("ne", n, Const(0)), "RG0805", "")
    loop = For(i, j, Const(5), 1, (Within((*differ, check), (op("mov.add", y, n),)),))
    first = (Local(j), op("mov.add", j, k), op("imm.add", j, imm=1))
    outer = For(k, Const(0), Const(5), 1, (Within(first, (loop,)),), some=True)
    expected = loop._replace(body=(Within(differ, (op("mov.add", y, n),)),))
    assert after(eliminate_checks, outer) == (outer._replace(body=(Within(first, (expected,)),)),)


def test_words_of_constant_arrays_are_between_the_least_and_the_greatest() -> None:
    index = (Local(k), op("ld.add", k, i, imm=56, region=TABLED))
    loop = For(i, Const(0), Const(4), 1, (Within((*index, below(k, 10)), (op("mov.add", y, k),)),), some=True)
    without = loop._replace(body=(Within(index, (op("mov.add", y, k),)),))
    assert after(eliminate_checks, loop) == (without,)
    written = op("st.add", None, i, Const(1), region=TABLED)
    assert after(eliminate_checks, loop, written) == (loop, written)


def test_a_check_is_not_repeated_within_what_tests_it() -> None:
    inner = Within((below(n, 8), Local(k), op("mov.add", k, n)), (op("mov.add", y, k),))
    outer = Within((below(n, 8), Local(m), op("mov.add", m, n)), (inner, op("mov.add", z, m)))
    expected = outer._replace(body=(inner._replace(compute=inner.compute[1:]), outer.body[1]))
    assert after(eliminate_checks, outer) == (expected,)
    # Backward, the second comes first; and n + 1 is another word.
    for kept in ((inner, inner), (below(n, 8), below(n, 8))):
        assert after(eliminate_checks, *kept) == kept
    changed = outer._replace(body=(op("imm.add", n, imm=1), inner, op("imm.sub", n, imm=1)))
    assert after(eliminate_checks, changed) == (changed,)


def test_what_a_branch_tests_at_both_ends_is_known_in_it() -> None:
    test = When("ltu", n, Const(8))
    check = Within((below(n, 8),), (op("mov.add", y, n),))
    got = after(eliminate_checks, If(test, (check,), (check,), test))
    assert got == (If(test, (Within((), check.body),), (check,), test),)
    open_end = If(test, (check,), (), When("eq", y, Const(0)))
    assert after(eliminate_checks, open_end) == (open_end,)


def test_a_branch_that_is_known_gives_way() -> None:
    test = When("lt", i, Const(4))
    loop = For(i, Const(0), Const(4), 1, (If(test, (op("neg", x),), (op("neg", y),), test),), some=True)
    assert after(eliminate_checks, loop) == (loop._replace(body=(op("neg", x),)),)


def test_what_the_body_changes_is_not_known_of_what_was_computed() -> None:
    """compute⁻¹ meets the changed word: there the check may fail."""
    compute = (Local(k), op("mov.add", k, Const(3)), below(k, 8))
    within = Within(compute, (op("mov.add", k, n), op("mov.sub", k, m)))
    assert after(eliminate_checks, within) == (within,)
    by_way_of_another = (*compute[:2], Local(j), op("mov.add", j, k), op("mov.sub", j, k), below(j, 8))
    within = Within(by_way_of_another, (op("mov.add", k, n), op("mov.sub", k, m)))
    assert after(eliminate_checks, within) == (within,)


def test_a_loop_that_changes_its_operand_says_nothing_of_it() -> None:
    loop = While(When("ne", n, m), (below(n, 8), op("imm.add", n, imm=1)), When("ne", n, Const(0)))
    assert after(eliminate_checks, loop) == (loop,)


# ---------------------------------------------------------------- promote arrays


def test_words_at_constant_places_become_variables() -> None:
    routine = Within(
        (Within((Local(q), exchange(q, 0)), (op("fexp.add", q, x),)), op("st.add", None, Const(8), y, imm=3, region=A)),
        (Within((Local(t), load(t, 0), Local(s), load(s, 3)), (op("fmul.add", z, t, s),)),),
        "r",
    )
    expected = Within(
        (Local(v), op("fexp.add", v, x), Local(u), op("mov.add", u, y)),
        (Within((Local(t), op("mov.add", t, v), Local(s), op("mov.add", s, u)), (op("fmul.add", z, t, s),)),),
        "r",
    )
    got = after(replace_arrays_by_scalars, routine)
    expected = expected._replace(compute=(Local(v), Local(u), *(c for c in expected.compute if isinstance(c, Op))))
    assert same(got, expected)
    # The array belongs to a host of whom nothing is known, or to the arguments; or someone looks.
    assert after(replace_arrays_by_scalars, routine, arguments=None) == (routine,)
    assert after(replace_arrays_by_scalars, routine, External(0)) == (routine, External(0))


def test_a_word_that_is_accessed_while_it_is_exchanged_out_is_swapped() -> None:
    odd = Within((Local(q), exchange(q, 0)), (op("mov.add", q, x), load(z, 0)))
    got = after(replace_arrays_by_scalars, odd)
    swapped = Within((Local(v), Local(q), op("swap", q, v)), (op("mov.add", q, x), op("mov.add", z, v)))
    assert same(got, swapped) or same(got, swapped._replace(compute=(Local(q), Local(v), op("swap", q, v))))


def test_a_local_that_the_compute_block_frees_is_not_the_word() -> None:
    """Its register would be freed in place of its own: the word lives on."""
    freed = Within((Local(q), exchange(q, 0), op("mov.add", z, q), op("mov.sub", q, x), Delocal(q)), (op("neg", y),))
    first = op("st.add", None, Const(8), x, region=A)
    got = after(replace_arrays_by_scalars, first, freed, op("neg", u))
    compute = (Local(q), op("swap", q, v), op("mov.add", z, q), op("mov.sub", q, x), Delocal(q))
    assert same(got, Local(v), op("mov.add", v, x), freed._replace(compute=compute), Delocal(v), op("neg", u))


def test_an_array_with_an_index_that_is_not_known_stays() -> None:
    accesses = (op("st.add", None, Const(8), y, region=A), op("ld.add", z, i, imm=8, region=A))
    assert after(replace_arrays_by_scalars, *accesses) == accesses
    p = Procedure("f", (Var("p"),), (Region("p", 8),), ())
    called = (op("st.add", None, Const(8), y, region=A), Call("f", (Const(8),), (A,)))
    assert after(replace_arrays_by_scalars, *called, procedures=(p,)) == called
    beyond = (op("st.add", None, Const(16), y, region=A),)
    assert after(replace_arrays_by_scalars, *beyond) == beyond


def test_a_variable_lives_outside_of_the_loops_that_its_array_lives_through() -> None:
    total = For(i, Const(0), Const(9), 1, (op("st.add", None, Const(8), x, region=A), load(z, 0)))
    got = after(replace_arrays_by_scalars, total)
    expected = total._replace(body=(op("mov.add", v, x), op("mov.add", z, v)))
    assert same(got, Local(v), expected, Delocal(v))


def test_a_variable_lives_within_what_leaves_its_array_zero_in_each_pass() -> None:
    routine = Within((op("st.add", None, Const(8), x, region=A),), (load(z, 0),))
    loop = For(i, Const(0), Const(9), 1, (routine,))
    got = after(replace_arrays_by_scalars, loop)
    assert same(got, loop._replace(body=(Within((Local(v), op("mov.add", v, x)), (op("mov.add", z, v),)),)))
    # Here x is not what it was when compute is undone.
    leaky = loop._replace(body=(routine._replace(body=(load(z, 0), op("neg", x))),))
    got = after(replace_arrays_by_scalars, leaky)
    assert isinstance(got[0], Local)
    assert isinstance(got[-1], Delocal)
    # What is computed by another Within runs twice, too.
    nested = Within((routine._replace(body=()), op("mov.add", y, z)), (op("neg", u),))
    assert same(
        after(replace_arrays_by_scalars, nested),
        nested._replace(compute=(Within((Local(v), op("mov.add", v, x)), ()), op("mov.add", y, z))),
    )


def test_words_of_constant_arrays_are_constants() -> None:
    index = op("ld.sub", n, Const(1), imm=56, region=TABLED)
    assert after(replace_arrays_by_scalars, index, arguments=None) == (op("mov.sub", n, Const(9)),)
    assert after(replace_arrays_by_scalars, index._replace(a=i)) == (index._replace(a=i),)
    written = op("exch", n, Const(56), region=TABLED)
    assert after(replace_arrays_by_scalars, index, written) == (index, written)


def test_small_arguments_are_exchanged_in_and_out_if_they_are_used_often() -> None:
    use = Within((Local(t), load(t, 2, GIVEN)), (op("fmul.add", y, t, t),))
    assert after(replace_arrays_by_scalars, use) == (use,)
    both = (use, Within((Local(q), exchange(q, 2, GIVEN)), (op("fmov.add", q, x),)))
    copied = Within((Local(t), op("mov.add", t, v)), (op("fmul.add", y, t, t),))
    ends = Local(v), exchange(v, 2, GIVEN)
    assert same(after(replace_arrays_by_scalars, *both), Within(ends, (copied, op("fmov.add", v, x))))


def test_no_more_variables_than_there_is_room_for() -> None:
    uses = [op("st.add", None, Const(at), x, imm=r.address, region=r) for r, c in ((A, 5), (B, 7)) for at in range(c)]
    uses += uses[:5]
    got = replace_arrays_by_scalars(module(*uses), max_live=6).entry
    assert sum(isinstance(node, Local) for node in got) == 5
    assert {node.region for node in walk(got) if isinstance(node, Op) and node.region} == {B}


# ---------------------------------------------------------------- keep temporaries


def outer(*compute: Node, body: Block | None = None) -> Within:
    return Within(compute, (op("fmul.add", y, u, u),) if body is None else body, "r")


def squared(of: Var = x) -> Within:
    """u += (of²)²"""
    return Within((Local(t), op("fmul.add", t, of, of)), (op("fmul.add", u, t, t),))


def test_what_is_computed_on_the_way_is_kept() -> None:
    got = after(extend_live_ranges, outer(Local(u), squared()))
    flat = (Local(u), Local(t), op("fmul.add", t, x, x), op("fmul.add", u, t, t))
    assert got == (outer(*flat),)
    deep = Within((Local(v), op("fexp.add", v, z)), (squared(v),))
    kept = (Local(u), Local(v), Local(t), op("fexp.add", v, z), op("fmul.add", t, v, v), op("fmul.add", u, t, t))
    assert same(after(extend_live_ranges, outer(Local(u), deep)), outer(*kept))
    # Only what is done twice is kept.
    assert after(extend_live_ranges, squared(), outer(body=(squared(),))) == (squared(), outer(body=(squared(),)))


def test_what_a_branch_computes_is_kept_beyond_it() -> None:
    test = When("lt", x, z)
    got = after(extend_live_ranges, outer(Local(u), If(test, (squared(),), (op("fmov.add", u, z),), test)))
    then = (op("fmul.add", t, x, x), op("fmul.add", u, t, t))
    assert got == (outer(Local(u), Local(t), If(test, then, (op("fmov.add", u, z),), test)),)


def test_what_the_body_would_change_is_computed_again() -> None:
    for body in ((op("fmov.add", x, u),), (op("neg", x), op("fmov.add", y, u))):
        changed = outer(Local(u), squared(), body=body)
        assert after(extend_live_ranges, changed) == (changed,)
    # z is changed, and by way of z, undone, x.
    through = outer(op("fmov.add", x, z), Local(u), squared(), body=(op("neg", z),))
    assert after(extend_live_ranges, through) == (through,)


def test_what_changes_more_than_its_own_locals_is_undone_at_once() -> None:
    swapped = Within((Local(t), op("fexp.add", t, x), Local(q), exchange(q, 1)), (op("fmov.add", q, t),))
    got = after(extend_live_ranges, outer(Local(u), swapped))
    rest = Within((Local(q), exchange(q, 1)), swapped.body)
    assert got == (outer(Local(u), Local(t), op("fexp.add", t, x), rest),)


def test_no_more_is_kept_than_there_is_room_for() -> None:
    compute = (Local(u), squared(), Within((Local(v), op("fexp.add", v, z)), (op("fmov.add", u, v),)))
    got = extend_live_ranges(module(outer(*compute)), max_live=1).entry
    assert isinstance(got[0], Within)
    assert sum(isinstance(node, Within) for node in got[0].compute) == 1


# ---------------------------------------------------------------- step addresses

a, b, c = (Var(name, Kind.ADDRESS) for name in "abc")


def read(at: Var, *sum_: Op, imm: int = 16, d: Var = y) -> Within:
    """d += B[sum]"""
    return Within((Local(at), *sum_, Local(t), op("ld.add", t, at, imm=imm, region=B)), (op("mov.add", d, t),))


def direct(at: Var, imm: int = 16, d: Var = y) -> Within:
    return Within((Local(t), op("ld.add", t, at, imm=imm, region=B)), (op("mov.add", d, t),))


def test_an_address_is_stepped_through_a_loop() -> None:
    loop = For(i, Const(2), Const(8), 2, (read(a, op("mul.add", a, i, Const(3)), op("mov.add", a, n)),), some=True)
    body = (direct(s, 22), op("mov.add", s, Const(6)))
    expected = Within((Local(s), op("mov.add", s, n)), (loop._replace(body=body), op("mov.sub", s, Const(18))))
    (got,) = after(reduce_induction_variables, loop)
    assert same((as_ints(got),), as_ints(expected))
    backward = after(reduce_induction_variables, loop._replace(backward=True))
    body = (op("mov.sub", s, Const(6)), direct(s, 40))
    expected = Within(
        (Local(s), op("mov.add", s, n)),
        (loop._replace(body=body, backward=True), op("mov.sub", s, word(-18))),
    )
    assert same((as_ints(backward[0]),), as_ints(expected))


def as_ints(node: Node) -> Node:
    """The statement with all its locals integers, so that Numbering compares no kinds."""
    for inner in walk((node,)):
        if isinstance(inner, Local):
            inner.var.kind = Kind.INT
    return node


def test_addresses_that_differ_by_constants_are_stepped_together() -> None:
    reads = (
        read(a, op("mov.add", a, i), op("mov.add", a, n)),
        read(b, op("mov.add", b, n), op("imm.sub", b, imm=1), op("mov.add", b, i), d=z),
    )
    got = after(reduce_induction_variables, For(i, j, k, 1, reads, some=True))
    (within,) = got
    assert isinstance(within, Within)
    assert sum(isinstance(node, Local) for node in walk(got)) == 3
    assert [node.imm for node in walk(got) if isinstance(node, Op) and node.opcode.entry.name == "ld"] == [16, 15]
    # From the last word back to the first.
    assert [node.opcode.name for node in within.body[1:] if isinstance(node, Op)] == ["mov.sub", "mov.add"]


def test_rows_that_lie_one_behind_the_other_are_one_walk() -> None:
    row = For(j, Const(0), Const(8), 1, (read(a, op("mul.add", a, i, Const(8)), op("mov.add", a, j)),), some=True)
    got = after(reduce_induction_variables, For(i, Const(0), Const(5), 1, (row,), some=True))
    (within,) = reduce_strength(module(*got)).entry
    assert isinstance(within, Within)
    assert len(within.compute) == 1
    outer_loop, back = within.body
    assert isinstance(outer_loop, For)
    assert len(outer_loop.body) == 1
    assert isinstance(back, Op)
    assert back.a == Const(40)
    assert sum(isinstance(node, Op) for node in walk(outer_loop.body)) == 3


def test_what_changes_in_the_loop_is_no_part_of_a_stepped_address() -> None:
    for sums in (
        (op("mov.add", a, i), op("mov.add", a, x)),
        (op("mov.add", a, i), op("and.add", a, n, Const(3))),
        (op("mov.add", a, i), op("mov.xor", a, n)),
    ):
        loop = For(i, Const(0), Const(9), 1, (read(a, *sums), op("imm.add", x, imm=1)), some=True)
        assert after(reduce_induction_variables, loop) == (loop,)
    shown = Within((Local(a), op("mov.add", a, i), op("mov.add", a, n)), (op("mov.add", y, a), op("neg", x)))
    loop = For(i, Const(0), Const(9), 1, (shown,), some=True)
    assert after(reduce_induction_variables, loop) == (loop,)


def test_what_is_not_computed_in_every_pass_is_not_stepped() -> None:
    test = When("eq", n, i)
    rare = If(test, (read(a, op("mov.add", a, i), op("mov.add", a, n)),), (), test)
    loop = For(i, Const(0), Const(9), 1, (rare,), some=True)
    assert after(reduce_induction_variables, loop) == (loop,)


def test_no_more_addresses_are_stepped_than_there_is_room_for() -> None:
    reads = [
        read(at, op("mov.add", at, i), op("mov.add", at, base)) for at, base in zip((a, b, c), (n, m, k), strict=True)
    ]
    loop = For(i, Const(0), Const(9), 1, tuple(reads), some=True)
    (got,) = reduce_induction_variables(module(loop), max_live=2).entry
    assert sum(isinstance(node, Op) and node.opcode.name == "mov.add" and node.d is not y for node in walk((got,))) == 6


class Nests:
    """Random nests of loops over two arrays, at places that are sums of multiples of loop variables and others."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.read_only, self.changed = Region("read", 256, 264), Region("changed", 256, 8)
        self.data = [Var("p"), Var("q")]
        self.result = Var("result")

    def program(self) -> tuple[Module, list[int]]:
        ends: list[Node] = []
        for at, var in enumerate((*self.data, self.result)):
            ends += [Local(var), op("exch", var, Const(at), region=GIVEN)]
        given = (GIVEN, self.changed, self.read_only)
        entry = (*ends, *self.block([], 4), *invert(ends))
        random_words = [self.rng.randint(0, 99) for _ in range(512)]
        memory = [self.rng.randint(0, 3), self.rng.randint(0, 3), *[0] * 6, *random_words]
        return Module(entry, {}, given, 520, arguments=given), memory

    def block(self, loops: list[Var], depth: int) -> Block:
        return tuple(node for _ in range(self.rng.randint(1, 2)) for node in self.statement(loops, depth))

    def address(self, loops: list[Var]) -> tuple[Var, list[Node]]:
        rng, at = self.rng, Var("at", Kind.ADDRESS)
        nodes: list[Node] = [Local(at)]
        for var in rng.sample(loops + self.data, rng.randint(1, min(3, len(loops) + 1))):
            kind = rng.random()
            if kind < 0.5:
                nodes.append(op(rng.choice(("mov.add", "mov.add", "mov.add", "mov.sub")), at, var))
            elif kind < 0.8:
                nodes.append(op("mul.add", at, var, word(rng.choice((1, 2, 3, -1, 5)))))
            else:
                nodes.append(op("shl.add", at, var, Const(rng.randint(0, 2))))
        if rng.random() < 0.4:
            nodes.append(op("imm.add", at, imm=rng.randint(-5, 30)))
        return at, nodes

    def access(self, loops: list[Var]) -> Node:
        (source, first), (target, second) = self.address(loops), self.address(loops)
        value, element = Var("value"), Var("element")
        load_ = (*first, Local(value), op("ld.add", value, source, imm=364, region=self.read_only))
        if self.rng.random() < 0.4:
            store = op("st.xor", None, target, value, imm=101, region=self.changed)
            return Within((*load_, *second), (store,))
        swap = (*second, Local(element), op("exch", element, target, imm=100, region=self.changed))
        return Within(load_, (Within(swap, (op("mov.add", element, value),)),))

    def statement(self, loops: list[Var], depth: int) -> list[Node]:
        rng, kind = self.rng, self.rng.random()
        if kind < 0.45 or depth == 0:
            return [self.access(loops)]
        if kind < 0.55:
            test = When(rng.choice(("eq", "lt")), rng.choice(loops + self.data), Const(rng.randint(0, 3)))
            return [If(test, self.block(loops, depth - 1), self.block(loops, depth - 1), test)]
        if kind < 0.65:
            return [Within(self.block(loops, depth - 1), (op("mov.add", self.result, self.data[0]),))]
        var, step, count, backward = Var("i"), rng.choice((1, 1, 2, -1)), rng.randint(0, 3), rng.random() < 0.3
        body = self.block([*loops, var], depth - 1)
        if rng.random() < 0.6:
            start = rng.randint(-1, 3)
            return [For(var, word(start), word(start + count * step), step, body, backward, count > 0)]
        ends = Var("start"), Var("stop")
        source = rng.choice(loops + self.data)
        compute = [node for end in ends for node in (Local(end), op("mov.add", end, source))]
        compute.append(op("imm.add", ends[1], imm=count * step))
        return [Within(tuple(compute), (For(var, *ends, step, body, backward, count > 0),))]


def check_nest(seed: int, interpreter: ModuleType) -> bool:
    """Stepped, alone and among other passes, a nest does what it did. Whether anything was stepped."""
    rng = random.Random(seed)
    m, memory = Nests(rng).program()
    expected = outcome(m, memory, interpreter)
    if len(expected) > 1:
        return False
    end = [*expected[0]]  # type: ignore[misc]
    back = outcome(~m, end, interpreter)
    passes = [run for _, run in pipeline.PASSES]
    for sequence in (
        [reduce_induction_variables],
        passes,
        [rng.choice(passes), reduce_induction_variables, rng.choice(passes), reduce_induction_variables],
    ):
        got = rename_locals(m)
        for run in sequence:
            got = run(got)
            assert outcome(got, memory, interpreter) == expected, (seed, run)
            assert outcome(~got, end, interpreter) == back, (seed, run)
        assert outcome(erase_routines(got), memory, interpreter) == expected, seed
    return reduce_induction_variables(rename_locals(m)).entry != rename_locals(m).entry


def test_nests_keep_their_meaning(interpreter: ModuleType) -> None:
    assert sum(check_nest(seed, interpreter) for seed in range(12)) > 3


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 4000, 100))
def test_many_nests_keep_their_meaning(first: int, interpreter: ModuleType) -> None:
    for seed in range(first, first + 100):
        check_nest(seed, interpreter)


# ---------------------------------------------------------------- arrays erased


def filling(region: Region) -> For:
    """for i: region[i] += x, but dearer."""
    change = (Within((Local(t), op("fexp.add", t, x), Local(s), op("fmul.add", s, t, t)), (op("fmov.add", q, s),)),)
    element = Within((Local(q), op("exch", q, i, imm=region.address, region=region)), change)
    return For(i, Const(0), Const(region.size), 1, (element,), some=True)


def test_arrays_of_a_routine_are_erased_word_by_word() -> None:
    routine = Within((filling(B),), (load(z, 1, B),), "r")
    got = after(erase_routines, routine)
    clearing = For(j, Const(0), Const(40), 1, (op("exch", k, j, imm=16, region=B), op("erase", k)), some=True)
    assert same(got[-3:], Local(k), clearing, Delocal(k))
    assert not any(node.name == "r" for node in walk(got) if isinstance(node, Within))
    small = after(erase_routines, Within((filling(A),), (load(z, 1),), "r"))
    assert sum(isinstance(node, Op) and node.opcode.name == "erase" for node in small) == 8


def test_arrays_are_spared_that_are_used_elsewhere_or_given() -> None:
    routine = Within((filling(A),), (load(z, 1),), "r")
    for kept in ((routine, load(y, 0)), (Within((filling(GIVEN),), (load(z, 1, GIVEN),), "r"),)):
        assert any(isinstance(node, Within) and node.name == "r" for node in after(erase_routines, *kept))
    changed = routine._replace(body=(op("st.add", None, Const(8), y, region=A), load(z, 1)))
    assert any(isinstance(node, Within) and node.name == "r" for node in after(erase_routines, changed))
    assert any(isinstance(node, Within) and node.name == "r" for node in after(erase_routines, routine, arguments=None))


def test_what_is_only_born_in_a_routine_is_freed_and_not_erased() -> None:
    routine = Within((Local(t), Local(s), op("fexp.add", s, x)), (op("mov.add", t, s), op("mov.sub", t, s)))
    got = after(erase_routines, routine)
    assert [node.var for node in got if isinstance(node, Delocal)] == [s, t]
    assert [node.d for node in got if isinstance(node, Op) and node.opcode.name == "erase"] == [s]


# ---------------------------------------------------------------- random programs

RESULTS, PORTS = "results", Region("ports", 1, 0)


def outcome(m: Module, memory: list[int], interpreter: ModuleType) -> tuple[object, ...]:
    """(memory, ) after the run, or the code of its trap."""
    try:
        run = interpreter.interpret(m, memory)
    except Fault as fault:
        return fault.code, None
    return (tuple(run.memory[: m.memory]),)


def at_constants(m: Module, rng: random.Random) -> Module:
    """The same program, but each access of an array is at some constant place near its beginning."""

    def moved(node: Node) -> Node:
        if not isinstance(node, Op) or not facts(node.opcode).memory:
            return node
        if node.region in m.regions and node.region.address is not None:
            at = node.region.address + rng.randrange(3)
            return node._replace(a=Const((at - node.imm) & m.format.mask))
        return node._replace(region=PORTS) if node.region is None and isinstance(node.a, Const) else node

    def rewrite(block: Block) -> Block:
        return tuple(moved(node) for node in block if not isinstance(node, External))

    return map_bodies(m, lambda body: map_blocks(body, rewrite))


def with_arrays_of_its_own(case: object, rng: random.Random) -> tuple[Module, list[int]]:
    """A random program within which all is undone, but for a few words of it that are copied out; and its memory."""
    m: Module = case.module  # type: ignore[attr-defined]
    # The regions that statements name; one that was given data since is another.
    named = {node.region for body in bodies(m) for node in walk(body) if isinstance(node, Op) and node.region}
    m = at_constants(replace(m, regions=tuple(sorted(named or m.regions, key=lambda r: r.address))), rng)
    results = Region(RESULTS, 8, m.memory)
    copies: list[Node] = []
    for at in range(rng.choice((1, 4, 8))):
        region, word_ = rng.choice(m.regions), Var("t")
        name = rng.choice(("ld.add", "exch"))
        fetch = op(name, word_, Const((region.address or 0) + at % 3), region=region)
        store = op("st.xor", None, Const(m.memory + at), word_, region=results)
        copies.append(Within((Local(word_), fetch), (store,)))
    entry: Block = (Within(m.entry, tuple(copies), "r"),)
    if rng.random() < 0.4:
        entry = (For(Var("i"), Const(0), Const(rng.randint(0, 2)), 1, entry),)
    elsewhere = {node.region for p in m.procedures.values() for node in walk(p.body) if isinstance(node, Op)}
    given = tuple(r for r in m.regions if r in elsewhere or rng.random() < 0.3)
    memory = [*case.memory, *[0] * 8]  # type: ignore[attr-defined]
    for region in m.regions:
        if region not in given and not region.data:
            start = region.address or 0
            memory[start : start + region.size] = [0] * region.size
    arguments = (*given, results, PORTS)
    return replace(m, entry=entry, memory=m.memory + 8, regions=(*m.regions, results), arguments=arguments), memory


def check(seed: int, interpreter: ModuleType, random_ir: ModuleType) -> bool:
    """Promoted, among other passes, or erased, the program does what it did. Whether something was promoted."""
    rng = random.Random(seed)
    m, memory = with_arrays_of_its_own(random_ir.generate(seed), rng)
    expected = outcome(m, memory, interpreter)
    if len(expected) > 1:
        return False
    end = [*expected[0]]  # type: ignore[misc]
    back = outcome(~m, end, interpreter)
    passes = [run for _, run in pipeline.PASSES]
    some = [rng.choice(passes) for _ in range(3)]
    for sequence in ([replace_arrays_by_scalars], [*some, rename_locals, replace_arrays_by_scalars, *some], passes):
        got = rename_locals(m)
        for run in sequence:
            got = run(got)
            assert outcome(got, memory, interpreter) == expected, (seed, run)
            assert outcome(~got, end, interpreter) == back, (seed, run)
        assert outcome(erase_routines(got), memory, interpreter) == expected, seed
    assert invert(invert(got.entry)) == got.entry
    return replace_arrays_by_scalars(rename_locals(m)) is not rename_locals(m)


@pytest.mark.parametrize("first", [0])
def test_random_programs_keep_their_meaning(first: int, interpreter: ModuleType, random_ir: ModuleType) -> None:
    for seed in range(first, first + 10):
        check(seed, interpreter, random_ir)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 3000, 50))
def test_many_random_programs_keep_their_meaning(first: int, interpreter: ModuleType, random_ir: ModuleType) -> None:
    for seed in range(first, first + 50):
        check(seed, interpreter, random_ir)


# ---------------------------------------------------------------- memory operands


T, U = (Var(name, Kind.FIXED) for name in "tu")
AT = Var("at", Kind.ADDRESS)
WORDS, OTHERS = Region("words", 8, 40), Region("others", 8, 48)


def fetched(name: str, *body: Node, a: Operand = AT, more: Block = ()) -> Within:
    """t is the word [a + 3] of `WORDS` in the body."""
    return Within((Local(T), op(name, T, a, imm=3, region=WORDS), *more), body)


def with_operands(*nodes: Node, erased: bool = False) -> Block:
    run = partial(use_memory_operands, erased=erased)
    return after(run, *nodes, regions=(WORDS, OTHERS), memory=64)


def accessed(name: str, d: Operand | None = None, b: Operand | None = None) -> Op:
    return op(name, d, AT, b, imm=3, region=WORDS)


def test_an_update_takes_the_word_from_memory() -> None:
    x, y = (Var(name, Kind.FIXED) for name in "xy")
    for name in ("ld.add", "exch"):
        assert with_operands(fetched(name, op("fmov.sub", y, T))) == (accessed("fld.sub", y),)
        assert with_operands(fetched(name, op("fmul.add", y, T, x))) == (accessed("fmulld.add", y, x),)
        assert with_operands(fetched(name, op("fmul.add", y, x, T))) == (accessed("fmulld.add", y, x),)
        assert with_operands(fetched(name, op("mov.xor", y, T))) == (accessed("ld.xor", y),)


def test_an_update_of_the_word_is_made_in_memory() -> None:
    x, y = (Var(name, Kind.FIXED) for name in "xy")
    block = with_operands(fetched("exch", op("fmov.sub", T, y), op("fmul.add", T, x, y)))
    assert block == (accessed("fst.sub", b=y), accessed("fmulst.add", x, y))


@pytest.mark.parametrize(
    "node",
    {
        "squared": fetched("ld.add", op("fmul.add", U, T, T)),
        "its square is added": fetched("exch", op("fmul.add", T, U, U)),
        "another function": fetched("ld.add", op("fmov.add", U, T), op("fsqrt.add", U, T)),
        "read and updated": fetched("exch", op("fmov.add", T, U), op("fmov.add", Var("y"), T)),
        "the word is written": fetched("ld.add", op("st.add", None, AT, U, region=WORDS), op("fmov.add", U, T)),
        "the address is written": fetched("ld.add", op("imm.add", AT, imm=1), op("fmov.add", U, T)),
        "the array is read, and the word is in a register": fetched(
            "exch", op("ld.add", Var("y"), AT, imm=2, region=WORDS), op("fmov.add", T, U)
        ),
        "the host looks": fetched("exch", External(0), op("fmov.add", T, U)),
        "many uses": fetched("ld.add", *[op("fmov.add", U, T)] * 8),
        "a use in each pass": fetched("ld.add", For(Var("i"), Const(0), Const(8), 1, (op("fmov.add", U, T),))),
        "checked": Within((Local(T, True), accessed("ld.add", T)), (op("fmov.add", U, T),)),
    }.values(),
)
def test_a_word_stays_in_its_register(node: Within) -> None:
    assert with_operands(node) == (node,)


def test_other_words_do_not_matter() -> None:
    at = Const(40)
    elsewhere = op("st.add", None, at, U, imm=4, region=WORDS)
    for between in (elsewhere, op("exch", Var("y"), AT, region=OTHERS)):
        block = with_operands(fetched("exch", between, op("fmov.add", T, U), a=at))
        assert block == (between, op("fst.add", None, at, U, imm=3, region=WORDS))


def test_a_use_among_the_temporaries() -> None:
    """The body may write the word where only the compute block reads it."""
    y = Var("y", Kind.FIXED)
    more: Block = (Local(U), op("fmul.add", U, T, y))
    write = op("st.add", None, AT, U, region=WORDS)
    assert with_operands(fetched("ld.add", write, more=more)) == (
        Within((Local(U), accessed("fmulld.add", U, y)), (write,)),
    )


def test_an_exchanged_word_whose_variable_is_erased() -> None:
    """As in gradient programs: behind the second exchange the variable is zero, and its erasure goes with it."""
    y = Var("y", Kind.FIXED)
    exchange, erase = accessed("exch", T), op("erase", T)
    for use, made in ((op("fmov.add", y, T), accessed("fld.add", y)), (op("fmov.add", T, y), accessed("fst.add", b=y))):
        for end in ((exchange, Delocal(T)), (exchange, erase, Delocal(T))):
            assert with_operands(Local(T), exchange, use, *end, erased=True) == (made,)
    # An erasure in place of the exchange loses the word.
    lost = (Local(T), exchange, op("fmov.add", y, T), erase, Delocal(T))
    assert with_operands(*lost, erased=True) == lost
    copy = (Local(T), accessed("ld.add", T), op("fmov.add", y, T), erase, Delocal(T))
    assert with_operands(*copy, erased=True) == (accessed("fld.add", y),)
    # An erasure of the user's stays.
    assert with_operands(*copy) == copy


# ---------------------------------------------------------------- words that stay in registers


def promoted(*nodes: Node, most: int = 32, **more: bool) -> Block:
    run = partial(promote_to_registers, max_live=most, **more)
    return after(run, *nodes, regions=(WORDS, OTHERS), memory=64)


R = Var("r", Kind.FIXED)


def kept(*body: Node, name: str = "exch", back: str = "exch") -> Block:
    return (Local(R), accessed(name, R), *body, accessed(back, R), Delocal(R))


def square(d: Var, a: Var) -> Op:
    """An update for which no instruction takes a word from memory."""
    return op("fmul.add", d, a, a)


def test_a_word_stays_in_a_register_from_statement_to_statement() -> None:
    y = Var("y", Kind.FIXED)
    neighbour = op("st.add", None, AT, U, imm=4, region=WORDS)
    elsewhere = op("st.add", None, Var("by", Kind.ADDRESS), U, imm=3, region=OTHERS)
    read = fetched("exch", square(y, T))
    both = fetched("exch", square(y, T), op("fmov.sub", T, U))
    assert same(
        promoted(read, neighbour, elsewhere, both),
        *kept(square(y, R), neighbour, elsewhere, square(y, R), op("fmov.sub", R, U)),
    )
    # An update in memory is an update of the register.
    inside = (read, accessed("fst.add", b=U), accessed("fmulst.sub", U, y), read)
    assert same(promoted(*inside), *kept(square(y, R), op("fmov.add", R, U), op("fmul.sub", R, U, y), square(y, R)))
    # A word that is only read is loaded.
    assert same(
        promoted(*[fetched("ld.add", square(y, T))] * 2),
        *kept(square(y, R), square(y, R), name="ld.add", back="ld.sub"),
    )
    # As in gradient programs, where no Within is left.
    flat = (Local(T), accessed("exch", T), square(y, T), accessed("exch", T), Delocal(T))
    assert same(promoted(*flat, *flat), *kept(square(y, R), square(y, R)))


def test_a_word_stays_in_a_register_through_a_loop() -> None:
    y = Var("y", Kind.FIXED)
    body = fetched("exch", square(y, T), op("fmov.add", T, U))
    for loop in (For(i, Const(0), Const(4), 1, (body,)), For(i, Const(0), n, 1, (body,), some=True)):
        inner = loop._replace(body=(square(y, R), op("fmov.add", R, U)))
        assert same(promoted(loop), *kept(inner))
    # It may make no pass, and then its address is any number.
    loop = For(i, Const(0), n, 1, (body,))
    assert promoted(loop) == (loop,)


@pytest.mark.parametrize(
    "between",
    {
        "the address is written": op("imm.add", AT, imm=1),
        "the word may be the same": op("st.add", None, Var("by", Kind.ADDRESS), U, imm=3, region=WORDS),
        "any word": op("st.add", None, Var("by", Kind.ADDRESS), U),
        "the host looks": External(0),
        "the address is another variable of that name": Within((Local(AT),), (op("imm.add", U, imm=1),)),
    }.values(),
)
def test_a_word_returns_to_memory(between: Node) -> None:
    y = Var("y", Kind.FIXED)
    one = fetched("exch", square(y, T))
    assert promoted(one, between, one) == (one, between, one)


def test_a_word_returns_to_memory_where_a_register_saves_nothing() -> None:
    y = Var("y", Kind.FIXED)
    one = fetched("exch", square(y, T))
    assert promoted(one) == (one,)
    # Updates that are made in memory take no more instructions there.
    in_memory = [fetched("exch", op("fmov.sub", T, y))] * 3
    assert promoted(*in_memory) == tuple(in_memory)
    # A test in front of the access may be that of its index.
    tested = fetched("exch", square(y, T))._replace(compute=(below(i, 4), Local(T), accessed("exch", T)))
    assert promoted(tested, tested) == (tested, tested)
    assert promoted(one, one, most=0) == (one, one)


def test_the_register_discards_the_cotangent_that_its_variables_discarded() -> None:
    y = Var("y", Kind.FIXED)
    one = fetched("ld.add", square(y, T))
    for discarded in (frozenset({T}), frozenset({y})):
        made = promote_to_registers(module(one, one, regions=(WORDS, OTHERS), discarded=discarded))
        local = made.entry[0]
        assert isinstance(local, Local)
        assert (local.var in made.discarded) == (T in discarded)
        assert discarded <= made.discarded


def test_a_variable_that_lives_on_keeps_its_word() -> None:
    """Its last use lies behind the stretch, which ends where the address changes."""
    y = Var("y", Kind.FIXED)
    read = Within((Local(v), accessed("ld.add", v)), (square(y, v),))
    end = (op("imm.add", AT, imm=1), op("fmov.add", y, T), op("erase", T), Delocal(T))
    found = promoted(Local(T), accessed("ld.add", T), read, read, *end, erased=True)
    inside = kept(op("mov.add", T, R), square(y, R), square(y, R), name="ld.add", back="ld.sub")
    assert same(found, Local(T), *inside, *end)


def test_a_word_that_is_accessed_in_memory_is_promoted_where_that_saves_instructions() -> None:
    """An instruction has one operand in memory. With the two words that are used again and again in registers, that is the factor."""
    y, seed = Var("y", Kind.FIXED), op("ld.add", U, AT, region=OTHERS)

    def one(at: int) -> Within:
        factor = Within((Local(s), load(s, at)), (op("fmul.add", y, U, s), op("fmul.add", T, s, z)))
        return Within((Local(U), seed), (fetched("exch", factor),))

    block, regions = tuple(map(one, range(6))), (A, WORDS, OTHERS)
    assert promoted(*block) == block
    products = [op("fmulld.add", d, Const(at), b, imm=8, region=A) for at in range(6) for d, b in ((y, U), (R, z))]
    found = select_operands(module(*block, regions=regions)).entry
    assert same(found, *kept(Local(U), seed, *products, seed._replace(opcode=TABLE["ld.sub"]), Delocal(U)))
    # Where the other operands are in registers anyway, the word stays in memory.
    plain = [fetched("exch", op("fmul.add", T, y, z))] * 6
    assert select_operands(module(*plain, regions=regions)).entry == (accessed("fmulst.add", y, z),) * 6


def test_a_word_whose_variable_is_not_the_word_all_the_time_is_exchanged_between_registers() -> None:
    """The variable of a compute block lives on; a read of the word in memory meanwhile finds the word that the exchange left there."""
    y = Var("y", Kind.FIXED)
    one = fetched("exch", square(y, T))
    inner = fetched("exch", accessed("ld.add", U), square(y, T))
    found = promoted(one, inner, one)
    assert same(
        found,
        *kept(square(y, R), Within((Local(T), op("swap", T, R)), (op("mov.add", U, R), square(y, T))), square(y, R)),
    )


# ---------------------------------------------------------------- temporaries that are erased


def erasing(*between: Node, summand: str = "fmul.sub", move: str = "fmov.add") -> Block:
    x, y = (Var(name, Kind.FIXED) for name in "xy")
    return (Local(T), op(summand, T, x, y), *between, op(move, U, T), op("erase", T), Delocal(T))


def test_an_erased_temporary_of_one_term_is_not_made() -> None:
    for summand, move, made in (
        ("fmul.sub", "fmov.add", "fmul.sub"),
        ("fmul.sub", "fmov.sub", "fmul.add"),
        ("fmul.add", "fmov.sub", "fmul.sub"),
    ):
        block = erasing(summand=summand, move=move)
        (found,) = after(substitute_erased, *block)
        assert isinstance(found, Op)
        assert found == block[1]._replace(opcode=TABLE[made], d=U)  # type: ignore[call-arg]


def test_an_erased_temporary_stays_where_its_term_changes_or_it_is_read_again() -> None:
    block = erasing()
    x = block[1].a  # type: ignore[union-attr]
    for between in (op("imm.add", x, imm=1), op("fmov.add", Var("z"), T), op("fmul.add", T, x, x)):
        kept = (*block[:2], between, *block[2:])
        assert after(substitute_erased, *kept) == kept
    unchecked = erasing(summand="mul.add")
    assert after(substitute_erased, *unchecked) == unchecked
