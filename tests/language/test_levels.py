"""Optimisation changes no result and adds no trap: what ends at level 0 ends at level 1, with the same words.

Some traps go: those of what nothing needs. docs/language.md says which.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence

import pytest
from support.random_programs import checks, edges

import retrograd as rg
from retrograd import Array, fixed, reversible


def compare_levels(
    seed: int,
) -> Counter[tuple[bool, bool]]:
    """Runs of one program at both levels, forward and backward: how often (level 0, level 1) trapped."""
    case = edges.near_the_edges(seed)
    rng = random.Random(seed)
    went: Counter[tuple[bool, bool]] = Counter()
    try:
        compiled = [case.compiled(0), case.compiled(1)]
        for turn in range(8):
            words, backward = edges.words_near_the_edges(rng), turn % 3 == 2
            plain, optimised = [checks.run(c.program, checks.memory_of(c, words), backward) for c in compiled]
            traps = plain.trap is not None, optimised.trap is not None
            went[traps] += 1
            assert traps != (False, True), f"level 1 alone: {optimised.trap}, of {words}, backward: {backward}"
            if traps == (False, False):
                assert not any(plain.machine.registers), "registers are left at level 0"
                assert not any(optimised.machine.registers), (
                    f"registers are left at level 1, of {words}, backward: {backward}"
                )
                after = [
                    [run.machine.memory[a.address] for a in c.arguments]
                    for c, run in zip(compiled, (plain, optimised), strict=True)
                ]
                assert after[0] == after[1], f"of {words}, backward: {backward}"
    except rg.CompileError as refused:
        if refused.code != "RG0714":  # a sum of constants that does not fit, say
            raise
    except AssertionError as error:
        error.add_note(f"program: near_the_edges({seed})\n\n{case.source}")
        raise
    finally:
        case.release()
    return went


def examine(
    seeds: Sequence[int],
) -> None:
    went: Counter[tuple[bool, bool]] = Counter()
    for seed in seeds:
        went += compare_levels(
            seed,
        )
    # Some of each kind: the programs end, trap at both levels, and trap at level 0 alone.
    assert min(went[False, False], went[True, True], went[True, False]) >= len(seeds) // 10, went


def test_optimisation_adds_no_trap() -> None:
    # 70 shows the partial sums that `cancel_inverse_pairs` formed, the last two what `extend_live_ranges` left in registers.
    examine(
        (*range(20), 70, 452, 652),
    )


@pytest.mark.long
@pytest.mark.parametrize("first", range(20, 3020, 250))
def test_optimisation_adds_no_trap_to_many_programs(
    first: int,
) -> None:
    examine(
        range(first, first + 250),
    )


HALF = 2.0**30


@reversible
def unused(y: fixed, x: fixed) -> None:
    t = 1 / x  # noqa: F841
    y += 1


@reversible
def undone_at_once(y: fixed, x: fixed) -> None:
    y += x * x
    y -= x * x


@reversible
def factor_zero(y: fixed, x: fixed) -> None:
    y += 0 * (1 / x)


@reversible
def needed(y: fixed, x: fixed) -> None:
    t = 1 / x
    y += t


@reversible
def decides(y: fixed, x: fixed) -> None:
    if 1 / x > 0:
        y += 1


@reversible
def index_unused(y: fixed, a: Array[fixed, 3], i: int) -> None:
    t = a[i]  # noqa: F841
    y += 1


@reversible
def asserted(y: fixed, x: fixed) -> None:
    assert x > 0


@reversible
def whole_sum(y: fixed, a: fixed, b: fixed) -> None:
    y -= a + b


@reversible
def named_sum(y: fixed, a: fixed, b: fixed) -> None:
    t = a + b
    y -= t


@reversible
def back_and_forth(y: fixed, a: fixed, b: fixed, c: fixed) -> None:
    y += a
    y += b
    y += c
    y -= a


#: function, arguments, whether it traps at level 0, and at level 1
CASES: list[tuple[Callable[..., object], tuple[object, ...], bool, bool]] = [
    (unused, (0.0, 0.0), True, False),
    (undone_at_once, (0.0, 2.0**20), True, False),
    (factor_zero, (0.0, 0.0), True, False),
    (needed, (0.0, 0.0), True, True),
    (decides, (0.0, 0.0), True, True),
    (index_unused, (0.0, [1.0, 2.0, 3.0], 3), True, True),
    (asserted, (0.0, 0.0), True, True),
    # Term by term: y − a overflows, though a + b and y − (a + b) fit; or a + b would, and no partial sum of y does.
    (whole_sum, (-HALF, 1.5 * HALF, -1.5 * HALF), True, True),
    (whole_sum, (1.5 * HALF, 1.5 * HALF, 1.5 * HALF), False, False),
    # A name holds the sum, which must fit.
    (named_sum, (-HALF, 1.5 * HALF, -1.5 * HALF), False, False),
    (named_sum, (1.5 * HALF, 1.5 * HALF, 1.5 * HALF), True, True),
    # y + b + c would overflow after y + b if a were left out.
    (back_and_forth, (0.0, -HALF, 1.9 * HALF, 1.0), False, False),
    (back_and_forth, (HALF, -HALF, 1.5 * HALF, -HALF), False, False),
]


@pytest.mark.parametrize("level", [0, 1])
@pytest.mark.parametrize(("f", "args", "plain", "optimised"), CASES)
def test_the_traps_of_a_program(
    f: rg.Reversible, args: tuple[object, ...], plain: bool, optimised: bool, level: int
) -> None:
    g = f.with_options(level=level)
    if (plain, optimised)[level]:
        with pytest.raises(rg.ProgramTrap):
            g(*args)
    else:
        g(*args)


@reversible
def flips(y: fixed, x: fixed, z: fixed, w: fixed) -> None:
    """What the branch adds is zero at w = 0; so the routine is undone, although the other branch is taken then."""
    with rg.routine() as r:
        t = fixed(0)
        if x > 0:
            t += rg.sqrt(z) * w
    y += t
    x -= 5
    ~r


@reversible
def flips_inside(y: fixed, x: fixed, z: fixed, w: fixed) -> None:
    with rg.routine() as r:
        t = fixed(0)
        if z > 0:
            t += z
            if x > 0:
                t += rg.sqrt(z) * w
            t -= z
    y += t
    x -= 5
    ~r


@pytest.mark.parametrize("level", [0, 1])
@pytest.mark.parametrize("f", [flips, flips_inside])
def test_a_branch_that_is_undone_by_the_other_one_leaves_nothing(f: rg.Reversible, level: int) -> None:
    """`extend_live_ranges` kept √z of the branch that was taken, and the other branch did not take it away."""
    result = rg.run(f.with_options(level=level), 0.0, 1.0, 4.0, 0.0)
    assert result.values == (0.0, -4.0, 4.0, 0.0)
    assert not any(result.machine.registers)
    with pytest.raises(rg.ProgramTrap) as trap:
        f.with_options(level=level)(0.0, 1.0, 4.0, 1.0)
    assert trap.value.code == "RG0802"


@pytest.mark.parametrize("level", [0, 1])
def test_a_sum_within_an_expression_is_checked(level: int) -> None:
    """Of a temporary that is still zero the first part cannot overflow, the second can."""

    @reversible
    def f(y: fixed, a: fixed, b: fixed, c: fixed) -> None:
        y += (a + b) * c

    @reversible
    def g(y: fixed, a: fixed, c: fixed) -> None:
        y += (1.5 + a) * c

    for function, args in ((f, (2.0**30, 2.0**30, 2.0**-20)), (g, (2.0**31 - 1.0, 2.0**-20))):
        with pytest.raises(rg.ProgramTrap, match="RG0404"):
            function.with_options(level=level)(0.0, *args)
