"""Matching and simplification of trees: laws on random trees, and the forms that the rules name."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from retrograd.isa.expr import (
    ONE,
    ZERO,
    Expr,
    const,
    div_round,
    evaluate,
    match,
    mul_shift,
    nodes,
    place,
    select,
    substitute,
)
from retrograd.isa.folds import FITTING, is_truth, negated, replaced, simplify, sum_tested_by
from retrograd.isa.table import TABLE
from retrograd.isa.words import Format

W = Format(8, 4)
x, y, z = map(place, "xyz")
leaves = st.sampled_from([x, y, z, ZERO, ONE, const(-3)])


def grown(trees: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    def two(build: object) -> st.SearchStrategy[Expr]:
        return st.builds(build, trees, trees)  # type: ignore[arg-type]

    binary = [Expr.__add__, Expr.__sub__, Expr.__lshift__, Expr.sar, Expr.eq, Expr.lt, Expr.__and__, Expr.__xor__]
    scaled = [lambda p, q: mul_shift(p, q, 4), lambda p, q: div_round(p, q, 4)]
    return st.one_of(
        *map(two, [*binary, *scaled]), st.builds(select, trees, trees, trees), st.builds(Expr.__neg__, trees)
    )


trees = st.recursive(leaves, grown, max_leaves=12)
words = st.fixed_dictionaries({name: st.integers(0, W.mask) for name in "xyz"})


@given(trees, words)
def test_a_simplified_tree_has_the_same_word(tree: Expr, env: dict[str, int]) -> None:
    assert evaluate(simplify(tree), W, env) == evaluate(tree, W, env)
    minus = negated(tree)
    assert minus is None or evaluate(minus, W, env) == evaluate(-tree, W, env)


@given(trees)
def test_simplification_is_done_in_one_pass(tree: Expr) -> None:
    assert simplify(simplify(tree)) is simplify(tree)


@pytest.mark.parametrize(
    ("tree", "simple"),
    [
        (x + 0, x),
        (ZERO + x, x),
        (x - 0, x),
        (x << 0, x),
        (-(ZERO - x), x),
        (x + -y, x - y),
        (x - -y, x + y),
        (mul_shift(x, 0, 4), ZERO),
        (div_round(0, x, 4), ZERO),
        (select(x, y, y), y),
        (select(x, y, 0) + select(x, 0, z), select(x, y, z)),
        (-select(x, y, 0), select(x, -y, 0)),
        (select(x, y, z) - select(z, y, x), select(x, y, z) - select(z, y, x)),
        ((x + y) - y, x),
        ((x + y) - x, y),
        ((x - y) + y, x),
        (y + (x - y), x),
        ((x - y) - -y, x),
        ((x + y) + -y, x),
        (y - (y - x), x),
        (x - x, ZERO),
        ((x + y) - z, (x + y) - z),
        ((x - y) + x, (x - y) + x),
        (select(x, select(x, y, z), z), select(x, y, z)),
        (select(x, y, select(x, z, y)), y),
        (select(x, select(z, y, z), z), select(x, select(z, y, z), z)),
        (select(x, -select(x, -y, y), select(x, -y, y)), y),
        (((x + y) ^ y) & ((x + y) ^ x), (x ^ (x + y)) & (y ^ (x + y))),
        (((x - y) ^ x) & (y ^ x), (x ^ y) & (x ^ (x - y))),
        (((x - y) ^ y) & (x ^ y), ((x - y) ^ y) & (x ^ y)),
    ],
)
def test_each_rule(tree: Expr, simple: Expr) -> None:
    assert simplify(tree) is simple
    for some in product((0, 1, 2, 0x55, 0x7F, 0x80, 0x81, 0xFF), repeat=3):
        env = dict(zip("xyz", some, strict=True))
        assert evaluate(tree, W, env) == evaluate(simple, W, env)


@given(trees, words)
def test_what_replaces_an_input_is_simplified_around_and_stays(tree: Expr, env: dict[str, int]) -> None:
    moved = {"x": y + 0, "z": -(ZERO - x)}
    inner = {name: evaluate(other, W, env) for name, other in moved.items()}
    assert evaluate(replaced(tree, moved), W, env) == evaluate(tree, W, {**env, **inner})
    assert replaced(tree + 0, {}) is tree + 0
    assert replaced(x + 0, moved) is y + 0


@pytest.mark.parametrize(("done", "undone"), [("add", "sub"), ("sub", "add")])
def test_the_guard_of_a_sum_that_undoes_another_is_the_guard_of_the_other(done: str, undone: str) -> None:
    after = {"x": Expr(done, (x, y))}
    assert replaced(FITTING[undone], after) is FITTING[done]
    assert replaced(FITTING[done], after) is not FITTING[done]
    assert replaced(Expr(undone, (x, y)), after) is x


def test_the_guards_of_a_rotation_back_need_no_second_rotation() -> None:
    """Its sums, and two comparisons of its result."""
    for w in Format(32, 16), Format(64, 32), Format(8, 4):
        opcode = TABLE["irot"]
        known = {*nodes(*opcode.transition(w).values())}
        (guard,) = (g for g in opcode.guards(w) if g.code == "RG0404")
        added = [node for node in nodes(opcode.guard_predicate(guard, w)) if node not in known]
        assert not [node for node in added if node.op.startswith(("mul", "div", "table", "select"))]
        forward = {*nodes(*TABLE["rot"].transition(w).values())}
        assert {n for n in known if n.inputs == {"b"}} == {n for n in forward if n.inputs == {"b"}}


@given(trees, trees, trees)
def test_a_pattern_matches_what_is_put_into_it(pattern: Expr, first: Expr, second: Expr) -> None:
    env = {"x": first, "y": second, "z": first}
    found = match(pattern, substitute(pattern, env))
    assert found == {name: env[name] for name in pattern.inputs}


@given(trees, trees)
def test_what_matches_is_the_pattern_with_something_in_it(pattern: Expr, tree: Expr) -> None:
    found = match(pattern, tree)
    assert found is None or substitute(pattern, found) is tree


def test_a_name_matches_one_tree() -> None:
    assert match(x + x, y + z) is None
    assert match(x + x, y + y) == {"x": y}
    assert match(mul_shift(x, y, 4), mul_shift(x, y, 5)) is None


@given(trees, words)
def test_a_truth_is_zero_or_one(tree: Expr, env: dict[str, int]) -> None:
    assert not is_truth(tree) or evaluate(tree, W, env) in (0, 1)


def test_truths_are_seen_by_their_operations() -> None:
    assert is_truth(x.lt(y) & select(z, x.eq(y), x.ne(z)))
    assert not is_truth(x & x.lt(y))


def test_the_test_that_a_sum_fits_is_recognised() -> None:
    assert {name: sum_tested_by(test) for name, test in FITTING.items()} == {"add": x + y, "sub": x - y}
    assert sum_tested_by(substitute(FITTING["sub"], {"x": z, "y": x & z})) is z - (x & z)
    assert sum_tested_by(((x ^ (x + y)) & (y ^ (x + z))).ge(0)) is None
