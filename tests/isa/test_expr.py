"""The expression tree: interning, the meaning of every operation, and the agreement of all folds."""

from __future__ import annotations

import copy
import operator
import pickle
import random
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import islice, product
from math import isqrt
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from retrograd.isa import derivatives, folds, smtlib
from retrograd.isa.expr import (
    ONE,
    OPERATIONS,
    ZERO,
    Expr,
    apply_operation,
    const,
    div_round,
    div_shift,
    evaluate,
    fold,
    formula,
    inputs,
    look_up,
    mul_round,
    mul_shift,
    nodes,
    place,
    rotate_left,
    select,
    sqrt_round,
    substitute,
)
from retrograd.isa.words import WIDTHS, Format
from support import real_values

PLACES = ("a", "b", "d", "imm")
COMPUTING = [op for op in OPERATIONS if op not in ("const", "input")]
Parameter = int | tuple[int, ...] | None
a, b, d = place("a"), place("b"), place("d")


def relaxed(examples: int) -> settings:
    """Drawing trees is slow beside the folds; that is no fault of theirs."""
    return settings(
        max_examples=examples,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )


# ---------------------------------------------------------------- strategies


def words_of(w: Format) -> st.SearchStrategy[int]:
    """Words, with the corners where definitions break drawn often."""
    return st.sampled_from([0, 1, 2, w.mask, w.sign, w.sign - 1, w.width]) | st.integers(0, w.mask)


def tables_of(w: Format) -> st.SearchStrategy[tuple[int, ...]]:
    """Up to 8 entries, and no more than a word can count; some below 0 or too large for a word."""
    entries = words_of(w) | st.integers(-(2**70), 2**70)
    sizes = st.sampled_from([1, 2, 4, 8])
    return sizes.flatmap(lambda n: st.lists(entries, min_size=n, max_size=n)).map(tuple)


def parameters_of(op: str, w: Format) -> st.SearchStrategy[Parameter]:
    """The parameters that OPERATIONS declares legal."""
    match op:
        case "mulshift":
            return st.integers(0, 2 * w.width)
        case "divshift":
            return st.integers(-w.width, w.width)
        case "sqrtround":
            return st.integers(0, w.width)
        case "mulround":
            return st.integers(0, 2 * w.width - 1)
        case "divround":
            return st.integers(-w.width, w.width - 1)
        case "table":
            return tables_of(w)
    return st.none()


def leaves_of(w: Format) -> st.SearchStrategy[Expr]:
    constants = st.sampled_from([0, 1, -1, w.width - 1, w.sign, w.mask]) | st.integers(-w.sign, w.mask)
    return st.sampled_from(PLACES).map(place) | constants.map(const)


@st.composite
def trees(draw: Callable[..., Any], w: Format, top: str, exclude: tuple[str, ...] = ()) -> Expr:
    """A random tree with shared subtrees, whose root is the operation `top`."""
    operations = [op for op in COMPUTING if op not in exclude]
    pool = draw(st.lists(leaves_of(w), min_size=2, max_size=4))

    def node(op: str) -> Expr:
        args = tuple(draw(st.sampled_from(pool)) for _ in range(OPERATIONS[op][0]))
        return Expr(op, args, draw(parameters_of(op, w)))

    for _ in range(draw(st.integers(0, 6))):
        pool.append(node(draw(st.sampled_from(operations))))
    if top == "const":
        return const(draw(words_of(w)))
    if top == "input":
        return place(draw(st.sampled_from(PLACES)))
    return node(top)


def environments(w: Format) -> st.SearchStrategy[dict[str, int]]:
    return st.fixed_dictionaries({name: words_of(w) for name in PLACES})


def cases(w: Format, top: str, exclude: tuple[str, ...] = ()) -> st.SearchStrategy[tuple[Expr, dict[str, int]]]:
    return st.tuples(trees(w, top, exclude), environments(w))


# ---------------------------------------------------------------- interning


def test_equal_trees_are_one_object() -> None:
    assert (place("a") + 1) * place("b") is (place("a") + 1) * place("b")
    assert const(3) is const(3)
    assert a + b is not b + a
    assert mul_shift(a, b, 1) is not mul_shift(a, b, 2)
    assert place("a") is not place("b")
    assert const(0) is ZERO
    assert const(1) is ONE


@pytest.mark.parametrize("op", OPERATIONS)
@relaxed(4)
@given(data=st.data())
def test_pickling_and_copying_keep_identity(op: str, data: st.DataObject) -> None:
    tree = data.draw(trees(Format(16, 8), op))
    assert pickle.loads(pickle.dumps(tree)) is tree
    assert copy.deepcopy(tree) is tree
    assert copy.copy(tree) is tree


def test_a_tree_has_no_truth_value() -> None:
    with pytest.raises(TypeError, match="select"):
        bool(a.lt(b))
    with pytest.raises(TypeError, match="select"):
        _ = 1 if a else 0
    with pytest.raises(TypeError, match="select"):
        _ = a and b
    with pytest.raises(TypeError, match="select"):
        _ = not a


def test_a_table_has_a_power_of_two_of_entries() -> None:
    assert look_up(a, [3, 4]) is Expr("table", (a,), (3, 4))
    for size in (0, 3, 6, 65):
        with pytest.raises(ValueError, match=f"not {size}"):
            look_up(a, range(size))


def test_arity_is_checked() -> None:
    for op, (arity, _) in OPERATIONS.items():
        with pytest.raises(TypeError, match=f"{op} takes {arity} operands"):
            Expr(op, (a,) * (arity + 1))


def test_what_has_no_word_meaning_is_no_operator() -> None:
    # Python's >> and // and < do not say signed or unsigned; a tree offers only named forms of them.
    operators: list[Callable[[Any, Any], Any]] = [operator.rshift, operator.floordiv, operator.lt, operator.truediv]
    for broken in operators:
        with pytest.raises(TypeError):
            broken(a, b)


OPERATORS: dict[str, tuple[Expr, Callable[[int, int], int]]] = {
    "a + b": (a + b, lambda x, y: x + y),
    "a - b": (a - b, lambda x, y: x - y),
    "-a": (-a, lambda x, y: -x),
    "a * b": (a * b, lambda x, y: x * y),
    "a & b": (a & b, lambda x, y: x & y),
    "a | b": (a | b, lambda x, y: x | y),
    "a ^ b": (a ^ b, lambda x, y: x ^ y),
    "~a": (~a, lambda x, y: 255 - x),
    "a << b": (a << b, lambda x, y: x * 2 ** (y % 8)),
    "shr": (a.shr(b), lambda x, y: x // 2 ** (y % 8)),
    "sar": (a.sar(b), lambda x, y: (x - 256 * (x >= 128)) // 2 ** (y % 8)),
    "eq": (a.eq(b), lambda x, y: int(x == y)),
    "ne": (a.ne(b), lambda x, y: int(x != y)),
    "lt": (a.lt(b), lambda x, y: int((x + 128) % 256 < (y + 128) % 256)),
    "ge": (a.ge(b), lambda x, y: int((x + 128) % 256 >= (y + 128) % 256)),
    "ltu": (a.ltu(b), lambda x, y: int(x < y)),
    "geu": (a.geu(b), lambda x, y: int(x >= y)),
    "rotate": (rotate_left(a, b), lambda x, y: x << (y % 8) | x >> (8 - y % 8)),
    "select": (select(a, b, 7), lambda x, y: y if x != 0 else 7),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_build_what_they_look_like(name: str) -> None:
    tree, meaning = OPERATORS[name]
    w = Format(8, 4)
    for x, y in product(range(0, 256, 3), range(0, 256, 5)):
        assert evaluate(tree, w, {"a": x, "b": y}) == meaning(x, y) % 256, (x, y)


# ---------------------------------------------------------------- meaning, defined a second time


def golden(op: str, s: Parameter, width: int, v: list[int]) -> int:
    """The meaning column of OPERATIONS over the rationals, sharing no code with the definition."""
    modulus: int = 2**width
    if isinstance(s, tuple):
        assert op == "table"
        return s[v[0] - v[0] // len(s) * len(s)] % modulus
    s = s or 0

    def signed(x: int) -> int:
        return x - modulus if x >= modulus // 2 else x

    def floor(x: Fraction) -> int:
        return x.numerator // x.denominator

    def nearest(x: Fraction) -> int:
        """The integer at most a half away; of two, the upper."""
        below = floor(x)
        return below if x - below < below + 1 - x else below + 1

    def bits(combine: Callable[[int, int], int]) -> int:
        return sum(combine(v[0] // 2**k % 2, v[1] // 2**k % 2) * 2**k for k in range(width))

    match op:
        case "const":
            return s % modulus
        case "add":
            return (v[0] + v[1]) % modulus
        case "sub":
            return (v[0] - v[1]) % modulus
        case "and":
            return bits(lambda x, y: x * y)
        case "or":
            return bits(max)
        case "xor":
            return bits(lambda x, y: (x + y) % 2)
        case "shl":
            return v[0] * (1 << v[1] % width) % modulus
        case "shr":
            return floor(Fraction(v[0], 1 << v[1] % width))
        case "sar":
            return floor(Fraction(signed(v[0]), 1 << v[1] % width)) % modulus
        case "eq":
            return 1 if v[0] == v[1] else 0
        case "lt":
            return 1 if signed(v[0]) < signed(v[1]) else 0
        case "ltu":
            return 1 if v[0] < v[1] else 0
        case "select":
            return v[2] if v[0] == 0 else v[1]
        case "mulshift":
            return floor(Fraction(signed(v[0]) * signed(v[1]), 1 << s)) % modulus
        case "divshift":
            return 0 if v[1] == 0 else floor(Fraction(signed(v[0])) * Fraction(2) ** s / signed(v[1])) % modulus
        case "mulround":
            place = s if s <= width else s - width
            return nearest(Fraction(signed(v[0]) * signed(v[1]), 2**place)) // 2 ** (s - place) % modulus
        case "divround":
            if v[1] == 0:
                return 0
            quotient = nearest(Fraction(signed(v[0]) * 2 ** (s % width), signed(v[1])))
            return quotient // modulus ** -(s // width) % modulus
    raise AssertionError(f"{op} has no golden")


def is_nearest_to_root(r: int, x: int) -> bool:
    """r − ½ < √x < r + ½, where neither is a root of an integer."""
    return (2 * r - 1 if r else 0) ** 2 <= 4 * x < (2 * r + 1) ** 2


#: every size that a word of 4 bits can count, with entries of every kind
TABLES = tuple(tuple(k * k * 7 - 40 for k in range(2**size)) for size in range(5))


def legal_parameters(op: str, width: int) -> Sequence[Parameter]:
    """The parameters that OPERATIONS declares legal, all but for tables, of which there are examples."""
    match op:
        case "const":
            return range(-(2**width), 2 ** (width + 1))
        case "mulshift":
            return range(2 * width + 1)
        case "divshift":
            return range(-width, width + 1)
        case "sqrtround":
            return range(width + 1)
        case "mulround":
            return range(2 * width)
        case "divround":
            return range(-width, width)
        case "table":
            return TABLES
    return (None,)


@pytest.mark.parametrize("op", [op for op in OPERATIONS if op != "input"])
def test_every_operation_means_what_it_says_on_all_words(op: str) -> None:
    """Exhaustive at W = 4: every operand, every legal parameter."""
    w = Format(4, 2)
    for s in legal_parameters(op, 4):
        for v in product(range(16), repeat=OPERATIONS[op][0]):
            found = apply_operation(w, op, s or 0, list(v))
            if isinstance(s, int) and op == "sqrtround":
                assert is_nearest_to_root(found, v[0] << s) if v[0] < 8 else found == 0, (s, v)
            else:
                assert found == golden(op, s, 4, list(v)), (s, v)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("op", COMPUTING)
@relaxed(6)
@given(data=st.data())
def test_every_operation_means_what_it_says(op: str, width: int, data: st.DataObject) -> None:
    w = Format(width, width // 2)
    v = [data.draw(words_of(w)) for _ in range(OPERATIONS[op][0])]
    s = data.draw(parameters_of(op, w))
    found = apply_operation(w, op, s or 0, v)
    if op != "sqrtround" or not isinstance(s, int):
        assert found == golden(op, s, width, v)
    elif v[0] >= w.sign:
        assert found == 0
    else:
        assert is_nearest_to_root(found, v[0] << s)


@pytest.mark.parametrize(
    ("tree", "x", "y", "word"),
    [
        (a << b, 0x81, 9, 0x02),  # amounts count mod W, so 9 is 1
        (a << b, 0x81, 8, 0x81),
        (a.shr(b), 0x81, 0xFF, 0x01),  # and −1 is W−1
        (a.sar(b), 0x81, 7, 0xFF),
        (a.sar(b), 0x81, 8, 0x81),
        (mul_shift(a, b, 0), 0xFF, 0xFF, 0x01),
        (mul_shift(a, b, 4), 0xFF, 0x01, 0xFF),  # floor(−1/16) is −1, not 0
        (mul_shift(a, b, 8), 0x80, 0x80, 0x40),
        (mul_shift(a, b, 16), 0x80, 0x7F, 0xFF),
        (div_shift(a, b, 0), 0xF9, 0x02, 0xFC),  # floor(−7/2) is −4, not −3
        (div_shift(a, b, 0), 0x07, 0xFE, 0xFC),
        (div_shift(a, b, 0), 0x80, 0xFF, 0x80),  # 128 wraps to −128
        (div_shift(a, b, 0), 0x55, 0x00, 0x00),
        (div_shift(a, b, 8), 0x00, 0x00, 0x00),
        (div_shift(a, b, 4), 0x10, 0x03, 0x55),
        (div_shift(a, b, -4), 0xFF, 0x01, 0xFF),
        (mul_round(a, b, 4), 0xFF, 0x01, 0x00),  # −1/16 is next to 0
        (mul_round(a, b, 4), 0xF8, 0x01, 0x00),  # −1/2 goes up
        (mul_round(a, b, 4), 0x08, 0x01, 0x01),  # and so does 1/2
        (mul_round(a, b, 4), 0xF7, 0x01, 0xFF),
        (mul_round(a, b, 4), 0x7F, 0x7F, 0xF0),  # 1008.06 is 3·256 + 240
        (mul_round(a, b, 12), 0x7F, 0x7F, 0x03),
        (mul_round(a, b, 4), 0x80, 0x01, 0xF8),
        (mul_round(a, b, 0), 0xFF, 0xFF, 0x01),
        (div_round(a, b, 0), 0xF9, 0x02, 0xFD),  # −7/2 goes up to −3
        (div_round(a, b, 0), 0x07, 0xFE, 0xFD),
        (div_round(a, b, 0), 0x07, 0x02, 0x04),
        (div_round(a, b, 0), 0x80, 0xFF, 0x80),  # 128 wraps to −128
        (div_round(a, b, -8), 0x80, 0xFF, 0x00),  # and its high word is 0
        (div_round(a, b, 7), 0x80, 0xFF, 0x00),  # 2^14, of which twice as much is no number of 16 bits
        (div_round(a, b, -1), 0x80, 0xFF, 0x40),
        (div_round(a, b, 4), 0x55, 0x00, 0x00),
        (sqrt_round(a, 4), 0x20, 0, 0x17),  # √2 in Q4.4 is nearer to 23/16 than to 22/16
        (sqrt_round(a, 0), 0x7F, 0, 0x0B),
        (sqrt_round(a, 4), 0x80, 0, 0x00),
    ],
)
def test_corners_by_hand(tree: Expr, x: int, y: int, word: int) -> None:
    assert evaluate(tree, Format(8, 4), {"a": x, "b": y}) == word


@pytest.mark.parametrize("w", [Format(64, 32), Format(32, 16)], ids=str)
def test_root_next_to_perfect_squares(w: Format) -> None:
    # A root taken in floating point is wrong just here.
    for r in (1, 2, 3, 2 ** (w.width // 2 - 1) - 1, 3**15 % 2 ** (w.width // 2 - 1)):
        for x in (r * r - 1, r * r, r * r + 1):
            assert is_nearest_to_root(apply_operation(w, "sqrtround", 0, [x]), x)
    assert is_nearest_to_root(apply_operation(w, "sqrtround", w.width, [w.sign - 1]), (w.sign - 1) << w.width)


# ---------------------------------------------------------------- folds agree


def run_source(roots: list[Expr], w: Format, env: dict[str, int]) -> list[int]:
    statements, out = folds.emit(roots, w, {name: f"v_{name}" for name in PLACES})
    source = "\n".join([*statements, f"result = [{', '.join(out)}]"])
    scope: dict[str, Any] = {"isqrt": isqrt, **{f"v_{name}": word for name, word in env.items()}}
    exec(compile(source, "<fold>", "exec"), scope)
    found: list[int] = scope["result"]
    return found


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("op", OPERATIONS)
@relaxed(5)
@given(data=st.data())
def test_python_source_agrees_with_evaluation(op: str, width: int, data: st.DataObject) -> None:
    w = Format(width, width // 2)
    tree, env = data.draw(cases(w, op))
    roots = list(nodes(tree))
    found = run_source(roots, w, env)
    assert found == [evaluate(root, w, env) for root in roots]
    # Every node is a word in every backend: no intermediate may leave [0, 2^W).
    assert all(type(word) is int and 0 <= word <= w.mask for word in found)


@pytest.mark.parametrize("op", COMPUTING)
def test_python_source_agrees_on_all_words(op: str) -> None:
    """Exhaustive at W = 4 over operands, each legal parameter compiled once."""
    w = Format(4, 2)
    arity = OPERATIONS[op][0]
    args = (a, b, d)[:arity]
    for s in legal_parameters(op, 4):
        tree = Expr(op, args, s)
        statements, (out,) = folds.emit([tree], w, {"a": "a", "b": "b", "d": "d"})
        assert statements == []
        run = eval(f"lambda a=0, b=0, d=0: {out}", {"isqrt": isqrt})
        for v in product(range(16), repeat=arity):
            assert run(*v) == apply_operation(w, op, s or 0, list(v)), (s, v)


def run_smt(tree: Expr, w: Format, env: dict[str, int]) -> int:
    """The word z3 finds for the tree, with the places held at their words."""
    import z3  # type: ignore[import-untyped]

    commands, (out,) = smtlib.define([tree], w)
    sort = f"(_ BitVec {w.width})"
    held = [f"(assert (= {name} (_ bv{env[name]} {w.width})))" for name in sorted(inputs(tree))]
    text = "\n".join([*commands, f"(declare-const found {sort})", *held, f"(assert (= found {out}))"])
    solver = z3.Solver()
    solver.from_string(text)
    assert solver.check() == z3.sat
    word: int = solver.model()[z3.BitVec("found", w.width)].as_long()
    return word


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("op", [op for op in OPERATIONS if op != "sqrtround"])
@relaxed(3)
@given(data=st.data())
def test_smtlib_agrees_with_evaluation(op: str, width: int, data: st.DataObject) -> None:
    w = Format(width, width // 2)
    tree, env = data.draw(cases(w, op, exclude=("sqrtround",)))
    assert run_smt(tree, w, env) == evaluate(tree, w, env)


@pytest.mark.parametrize(
    ("op", "s"),
    [(op, s) for op in COMPUTING if op != "sqrtround" for s in legal_parameters(op, 4)],
)
def test_smtlib_agrees_on_all_words(op: str, s: int) -> None:
    """Exhaustive at W = 4: one formula a parameter, which says that some operands disagree."""
    import z3  # type: ignore[import-untyped]

    w = Format(4, 2)
    arity = OPERATIONS[op][0]
    if arity == 3:
        domain: tuple[tuple[int, ...], ...] = tuple(product((0, 1, 8, 15), range(16), range(0, 16, 5)))
    else:
        domain = tuple(product(range(16), repeat=arity))
    tree = Expr(op, (a, b, d)[:arity], s)
    commands, (out,) = smtlib.define([tree], w)
    agreements = []
    for v in domain:
        held = " ".join(f"(= {name} (_ bv{word} 4))" for name, word in zip("abd", v, strict=False))
        agreements.append(f"(=> (and true {held}) (= {out} (_ bv{apply_operation(w, op, s or 0, list(v))} 4)))")
    solver = z3.Solver()
    solver.from_string("\n".join([*commands, f"(assert (not (and {' '.join(agreements)})))"]))
    assert solver.check() == z3.unsat


@relaxed(30)
@given(data=st.data())
def test_substitution_is_evaluation_in_two_steps(data: st.DataObject) -> None:
    w = Format(16, 8)
    tree, env = data.draw(cases(w, data.draw(st.sampled_from(COMPUTING))))
    inner = data.draw(trees(w, data.draw(st.sampled_from(COMPUTING))))
    expected = evaluate(tree, w, {**env, "a": evaluate(inner, w, env)})
    assert evaluate(substitute(tree, {"a": inner}), w, env) == expected


def test_substitution_is_simultaneous() -> None:
    assert substitute(a - b, {"a": b, "b": a}) is b - a


def test_inputs_and_nodes() -> None:
    tree = select(a.lt(b), a + b, (a + b) << 3)
    assert inputs(tree) == {"a", "b"}
    order = list(nodes(tree))
    assert len(order) == len(set(order)) == 7
    position = {node: i for i, node in enumerate(order)}
    assert all(position[arg] < position[node] for node in order for arg in node.args)


def test_shared_subtrees_cost_once() -> None:
    tree = a
    for _ in range(200):
        tree = tree + tree
    calls = 0

    def count(node: Expr, args: list[int]) -> int:
        nonlocal calls
        calls += 1
        return 0

    fold(tree, count)
    assert calls == 201
    assert evaluate(tree, Format(), {"a": 1}) == 0  # 2^200 mod 2^64
    statements, _ = folds.emit([tree], Format(), {"a": "a"})
    assert len(statements) == 199
    commands, _ = smtlib.define([tree], Format())
    assert len(commands) == 201


@pytest.mark.parametrize("depth", [10, 400, 3000])
def test_deep_trees_are_no_trouble(depth: int) -> None:
    """A polynomial unrolled, or a derivative of one, is a deep tree: no fold may hit a limit of its host."""
    w = Format(16, 8)
    tree = a
    for k in range(depth):
        tree = (tree + k) ^ b
    env = {"a": 5, "b": 9, "d": 0, "imm": 0}
    expected = 5
    for k in range(depth):
        expected = (expected + k) % 2**16 ^ 9
    assert evaluate(tree, w, env) == expected
    assert run_smt(tree, w, env) == expected
    assert run_source([tree], w, env) == [expected]


# ---------------------------------------------------------------- notation


@pytest.mark.parametrize(
    ("tree", "text"),
    [
        (a + b, "a + b"),
        (a - b, "a − b"),
        (-a, "−a"),
        (~a, "¬a"),
        (a.ne(b), "a ≠ b"),
        (a.ge(0), "a ≥ 0"),
        (a.geu(b), "a ≥ᵤ b"),
        ((a + b) & 7, "(a + b) ∧ 7"),
        (const(-3), "−3"),
        (a * b, "a·b"),
        (mul_shift(a, b, 32), "⌊a·b / 2^32⌋"),
        (div_shift(a, b, 32), "⌊a·2^32 / b⌋"),
        (div_shift(a, b, -32), "⌊a / (b·2^32)⌋"),
        (mul_round(a, b, 32), "⌊a·b / 2^32⌉"),
        (div_round(a, b, 32), "⌊a·2^32 / b⌉"),
        (div_round(a, b, -32), "⌊a / (b·2^32)⌉"),
        (sqrt_round(a, 32), "⌊√(a·2^32)⌉"),
        (select(a, b, d), "b if a else d"),
        (look_up(a + b, range(64)), "T64[a + b]"),
        (a - b - d, "a − b − d"),
        (a - (b - d), "a − (b − d)"),
        (-(a + b), "−(a + b)"),
        ((a + b) * -d, "(a + b)·(−d)"),
        (a * b * d, "a·b·d"),
        (a * (b * d), "a·(b·d)"),
        (a + b * d, "a + b·d"),
        ((a & b) | d, "(a ∧ b) ∨ d"),
        (~(a ^ b), "¬(a ⊕ b)"),
        ((a & b).eq(d), "(a ∧ b) = d"),
        (a.lt(b) & b.lt(d), "(a < b) ∧ (b < d)"),
        (a.lt(b) + 1, "[a < b] + 1"),
        (a.lt(b).eq(d), "[a < b] = d"),
        (mul_shift(a, b, 3) - d, "⌊a·b / 2^3⌋ − d"),
        (div_shift(a + b, d, 0), "⌊(a + b) / d⌋"),
        (div_shift(a, b * d, -3), "⌊a / (b·d·2^3)⌋"),
        (select(a.lt(b), select(a, b, d), a), "(b if a else d) if a < b else a"),
        (Expr("mulshift", (a, b), "F"), "⌊a·b / 2^F⌋"),
        (Expr("divshift", (a, b), "(F + 1)"), "⌊a·2^(F + 1) / b⌋"),
        (Expr("divshift", (a, b), "−(W − F)"), "⌊a / (b·2^(W − F))⌋"),
    ],
)
def test_formula(tree: Expr, text: str) -> None:
    assert formula(tree) == text
    assert repr(tree) == f"<Expr {text}>"


def test_what_reads_the_same_means_the_same() -> None:
    """Many trees of two levels over two words and a negative constant: no bracket is missing."""

    def level(pool: list[Expr]) -> list[Expr]:
        out = [-x for x in pool] + [~x for x in pool] + [x.ne(0) for x in pool] + [sqrt_round(x, 2) for x in pool]
        for x, y in product(pool, repeat=2):
            out += [x + y, x - y, x & y, x | y, x ^ y, x << y, x.shr(y), x.sar(y), x.eq(y), x.lt(y), x.ge(y), x.ltu(y)]
            out += [x * y, *(mul_shift(x, y, 3), div_shift(x, y, 0), div_shift(x, y, 2), div_shift(x, y, -2))]
            out += [mul_round(x, y, 3), div_round(x, y, 2), div_round(x, y, -2)]
            out += [select(x, y, a), select(a, x, y), select(x, b, y)]
        return out

    w = Format(8, 4)
    states = [{"a": x, "b": y} for x, y in [(0, 0), (1, 2), (200, 3), (7, 255), (128, 129), (90, 0), (0, 5)]]
    said: dict[str, Expr] = {}
    for tree in level([a, b, const(-1), *random.Random(1).sample(level([a, b]), 40)]):
        other = said.setdefault(formula(tree), tree)
        if other is not tree:
            for state in states:
                assert evaluate(tree, w, state) == evaluate(other, w, state), formula(tree)


def test_formula_takes_names() -> None:
    assert formula(a + b, {"a": "R[ra]", "b": "R[rb]"}) == "R[ra] + R[rb]"


def test_formula_costs_its_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    # Folds within a fold would make a chain of ≠ take time exponential in its length.
    tree = a
    for _ in range(8):
        tree = tree.ne(0)
    visits = 0

    def counting(root: Expr, combine: Callable[[Expr, list[Any]], Any]) -> Any:
        def counted(node: Expr, args: list[Any]) -> Any:
            nonlocal visits
            visits += 1
            return combine(node, args)

        return fold(root, counted)

    monkeypatch.setattr("retrograd.isa.expr.fold", counting)
    formula(tree)
    assert 0 < visits <= 4 * len(list(nodes(tree)))


# ---------------------------------------------------------------- completeness


@pytest.mark.parametrize("op", OPERATIONS)
def test_every_fold_handles_every_operation(op: str) -> None:
    w = Format(16, 8)
    named: dict[str, int | str | tuple[int, ...]] = {"const": 3, "input": "a", "table": (7, -1, 2, 0)}
    parameter = named.get(op, 4 if op.endswith("shift") else None)
    tree = Expr(op, (a, b, d)[: OPERATIONS[op][0]], parameter)
    env = {"a": 5, "b": 3, "d": 2, "imm": 0}
    assert 0 <= evaluate(tree, w, env) <= w.mask
    assert run_source([tree], w, env) == [evaluate(tree, w, env)]
    assert smtlib.define([tree], w)[1] != []
    assert formula(tree) != ""


def test_operations_with_partials_are_operations() -> None:
    assert set(derivatives.PARTIALS) <= set(COMPUTING)


@pytest.fixture
def unheard_of(monkeypatch: pytest.MonkeyPatch) -> Iterator[Expr]:
    """A node of an operation that no fold knows; trees with it are gone from the intern table afterwards.

    Other trees that are made meanwhile stay: caches may hold them.
    """
    monkeypatch.setitem(OPERATIONS, "unheard_of", (1, "nothing"))
    before = len(Expr._interned)
    yield Expr("unheard_of", (a,))
    for key, made in list(islice(Expr._interned.items(), before, None)):
        if any(node.op == "unheard_of" for node in nodes(made)):
            del Expr._interned[key]


FOLDS: dict[str, Callable[[Expr], object]] = {
    "evaluate": lambda tree: evaluate(tree, Format(), {"a": 1}),
    "python_source": lambda tree: folds.emit([tree], Format(), {"a": "a"}),
    "smtlib": lambda tree: smtlib.define([tree], Format()),
    "formula": formula,
}


@pytest.mark.parametrize("name", FOLDS)
def test_an_unknown_operation_is_refused_by_every_fold(name: str, unheard_of: Expr) -> None:
    with pytest.raises(ValueError, match="unheard_of"):
        FOLDS[name](unheard_of)


def test_an_unknown_operation_has_no_derivative(unheard_of: Expr) -> None:
    with pytest.raises(derivatives.NoDerivative, match="unheard_of"):
        derivatives.vector_jacobian(unheard_of, place("c"))
    with pytest.raises(derivatives.NoDerivative, match="unheard_of"):
        real_values.real_value(unheard_of, Format(), {"a": 1.0})


def test_an_unknown_operation_cannot_be_built() -> None:
    with pytest.raises((KeyError, ValueError)):
        Expr("no_such_operation", (a,))
