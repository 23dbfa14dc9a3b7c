"""The 31 programs of the SyReC suite as netlists of ours, beside the published counts of their synthesis.

The lowering is a fold over trees and needs no machine format, so words have any width, and no sign. The programs and
the published counts, gates, lines and quantum cost of cost-aware and of line-aware synthesis, are those of the suite's
tests (R. Wille, S. Offermann, R. Drechsler, SyReC: a programming language for synthesis of reversible circuits, 2010; Munich
Quantum Toolkit, test/circuits and test/configs).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from itertools import product

import pytest
from retrograd.hdl.reversible import builder
from retrograd.hdl.reversible.builder import FALSE, Builder
from retrograd.hdl.reversible.circuit import Circuit, count
from retrograd.hdl.reversible.lowering import EffectLowering, Strategy
from retrograd.isa.effects import Effects, Exchange, Update
from retrograd.isa.expr import Expr, const, mul_shift, place, select
from retrograd.isa.words import Format

Words = Mapping[str, int]
Figures = tuple[int, int, int]


class Bits(Format):
    """Words of any width, for netlists only."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "mask", (1 << self.width) - 1)
        object.__setattr__(self, "sign", 1 << (self.width - 1))


@dataclass(frozen=True)
class Program:
    """Words and their effects; `expected` has the words that change, and None where the program has no value."""

    width: int
    names: str
    effects: Effects | Callable[[EffectLowering], None]
    expected: Callable[[dict[str, int]], dict[str, int] | None]

    @property
    def widths(self) -> dict[str, int]:
        """name -> bits; a name may state them, as `op:1`."""
        parts = [name.partition(":") for name in self.names.split()]
        return {name: int(bits or self.width) for name, _, bits in parts}

    def circuit(self, strategy: Strategy = "bennett") -> Circuit:
        b = Builder()
        lowering = EffectLowering(b, Bits(self.width, 0), strategy)
        given = {name: b.inputs(bits) for name, bits in self.widths.items()}
        lowering.places = {name: [*lines, *[FALSE] * (self.width - len(lines))] for name, lines in given.items()}
        if callable(self.effects):
            self.effects(lowering)
        else:
            lowering.effects(self.effects)
        outputs = {name: tuple(line for line in lowering.places[name] if line >= 0) for name in given}
        garbage = sorted(b.taken) if strategy == "garbage" else ()
        return Circuit(
            b.lines, tuple(b.gates), {name: tuple(lines) for name, lines in given.items()}, outputs, tuple(garbage)
        )


def places(names: str) -> tuple[Expr, ...]:
    return tuple(place(name) for name in names.split())


def xor(**values: Expr | int) -> Effects:
    return tuple(Update(name, "xor", const(v) if isinstance(v, int) else v) for name, v in values.items())


op, x0, x1, x2, x3, x4, x5, x6, x7, x8, x9, x10 = places("op x0 x1 x2 x3 x4 x5 x6 x7 x8 x9 x10")
a, b, c, s, left, right = places("a b c s left right")


def sum_or_difference(x: Expr, y: Expr) -> Expr:
    return select(op, x + y, x - y)


def undone(body: Callable[[EffectLowering], None]) -> Callable[[EffectLowering], None]:
    """`call` and `uncall`."""

    def both(lowering: EffectLowering) -> None:
        body(lowering)
        lowering.b.inverted(lambda: body(lowering))

    return both


def with_quotient(lowering: EffectLowering, x: Expr, y: Expr, body: Callable[[list[int], list[int]], object]) -> None:
    """body(quotient, remainder) of words without a sign."""
    g = lowering.b
    lowering.with_trees([x, y], lambda v: g.within(lambda: builder._divide(g, v[0], v[1]), lambda q: body(q[0], q[1])))


def divide(lowering: EffectLowering) -> None:
    """a ^= x1 / x2; b += x1 / x2; c −= x1 / x2"""
    g, at = lowering.b, lowering.places
    with_quotient(
        lowering,
        x1,
        x2,
        lambda q, _: [g.flip_each(at["a"], q), g.add(at["b"], q), g.subtract(at["c"], q)],
    )


def modulo(lowering: EffectLowering) -> None:
    with_quotient(lowering, x1, x2, lambda _, r: lowering.b.flip_each(lowering.places["x0"], r[:2]))


def operators(lowering: EffectLowering) -> None:
    """Sum, difference, product, quotient, remainder and upper half of the product of x1 + 2 and x2 + 2."""
    g, at, x, y = lowering.b, lowering.places, x1 + 2, x2 + 2
    lowering.effects(xor(a=x + 4, b=x - y, c=mul_shift(x, y, 0)))
    with_quotient(lowering, x, y, lambda q, r: [g.flip_each(at["d"], q), g.flip_each(at["e"], r[:2])])
    lowering.with_trees(
        [x, y],
        lambda v: g.within(
            lambda: builder.product(g, [*v[0], FALSE], [*v[1], FALSE], 2, 0), lambda p: g.flip_each(at["f"], p[:2])
        ),
    )


def gray(lowering: EffectLowering) -> None:
    """From Gray's code where op is 1, bit by bit on x0; to it elsewhere."""
    g, x, y = lowering.b, lowering.places["x0"], lowering.places["x1"]
    (way,) = lowering.places["op"][:1]
    g.flip(x[15], y[15])
    for k in reversed(range(15)):
        g.flip(x[k], y[k])
        g.flip(x[k], y[k + 1])
        g.flip(x[k], y[k + 1], way)
        g.flip(x[k], x[k + 1], way)


def parity(target: str, *sources: str) -> Callable[[EffectLowering], None]:
    """target ^= all bits of the sources, and 1 where op is 0."""

    def body(lowering: EffectLowering) -> None:
        at = lowering.places
        for bit in (line for name in (*sources, "op") for line in at[name]):
            lowering.b.flip(at[target][0], bit)
        lowering.b.flip(at[target][0])

    return body


def branches(lowering: EffectLowering) -> None:
    """if a ≠ b and a > 0: a += 1, else a −= (b + c) − (c + 2); the condition holds behind it where it held before."""
    where = (a.ne(b)) & const(0).ltu(a)
    (line,) = lowering.b.fresh()
    lowering.places["where"] = [line, *[FALSE] * 3]
    lowering.effects(xor(where=where))
    lowering.effects((Update("a", "add", select(place("where"), const(1), const(0) - ((b + c) - (c + 2)))),))
    lowering.effects(xor(where=where))
    lowering.b.give_back([line])


def branched(w: Words) -> dict[str, int] | None:
    def where(x: int) -> bool:
        return x != w["b"] and x > 0

    after = (w["a"] + 1 if where(w["a"]) else w["a"] - w["b"] + 2) & 15
    return {"a": after} if where(after) == where(w["a"]) else None


def logical(lowering: EffectLowering, found: tuple[Expr, ...]) -> None:
    for name, value in zip(("x0", "x3", "x4", "x5"), found, strict=True):
        lowering.effects(xor(**{name: value}))


def truth(w: Words, *found: bool) -> dict[str, int]:
    return {name: w[name] ^ bit for name, bit in zip(("x0", "x3", "x4", "x5"), found, strict=True)}


def steps(*lines: tuple[str, str, Callable[[Words], int]]) -> Callable[[dict[str, int]], dict[str, int]]:
    """Updates in their order: the reference."""

    def run(w: dict[str, int]) -> dict[str, int]:
        w = dict(w)
        for name, operator, value in lines:
            v = value(w)
            w[name] = w[name] ^ v if operator == "xor" else w[name] + v if operator == "add" else w[name] - v
        return w

    return run


def relations(w: Words) -> dict[str, int]:
    x, y = w["left"], w["right"]
    found = [x == y, x != y, x > y, x >= y, x < y, x <= y, x & y & 1, (x | y) & 1]
    return {"res": w["res"] ^ int(found[w["op"]])}


ARRAYS = " ".join(f"{array}{i}" for array in "abc" for i in range(4))
CONSTANTS = [0b11, 1, 2, 2, 0, 0, 1, 0, 3, 1, 0, 1, 0, 0, 0]
NUMBERS = [2, 0, 1, 1, 0, 0, 1, 1, 3, 0, 1, 1, 0, 1, 1, 1, 2]
TRUE_WORDS = x1.ne(0) & x2.ne(0), x1.ne(0) | x2.ne(0)


def updates(*lines: tuple[str, str, Expr]) -> Effects:
    return tuple(Update(*line) for line in lines)


def all_equal(w: Words) -> dict[str, int]:
    return {}


PROGRAMS: dict[str, Program] = {
    "alu_2": Program(
        2,
        "op:1 x0 x1 x2",
        xor(x0=sum_or_difference(x1, x2)),
        lambda w: {"x0": w["x0"] ^ (w["x1"] + (1 if w["op"] else -1) * w["x2"])},
    ),
    "binary_numeric": Program(
        2,
        " ".join(f"x{i}" for i in range(15)),
        xor(**{f"x{i}": v for i, v in enumerate(CONSTANTS)}),
        lambda w: {f"x{i}": w[f"x{i}"] ^ v for i, v in enumerate(CONSTANTS)},
    ),
    "bitwise_and_2": Program(
        2, "x0 x1 x2", updates(("x0", "add", x1 & x2)), lambda w: {"x0": w["x0"] + (w["x1"] & w["x2"])}
    ),
    "bitwise_or_2": Program(
        2, "x0 x1 x2", updates(("x0", "add", x1 | x2)), lambda w: {"x0": w["x0"] + (w["x1"] | w["x2"])}
    ),
    "bn_2": Program(2, "a b c d e f x1 x2", operators, lambda w: operated(w, (w["x1"] + 2) % 4, (w["x2"] + 2) % 4)),
    "call_8": Program(
        8, "op:1 a b c", undone(lambda t: t.effects(updates(("a", "add", select(op, b + c, const(0)))))), all_equal
    ),
    "constExpr_8": Program(
        8,
        "a c",
        xor(c=((a.shr(1)) & 0x55) ^ ((a << 1) & 0xAA)),
        lambda w: {"c": w["c"] ^ (w["a"] >> 1 & 0x55) ^ (w["a"] << 1 & 0xAA)},
    ),
    "divide_2": Program(2, "a b c x1 x2", undone(divide), all_equal),
    "foldEval_4": Program(
        4,
        "op:1 x0 a b c",
        xor(x0=select(op, (b ^ c) ^ a, a ^ (b ^ c))),
        lambda w: {"x0": w["x0"] ^ w["a"] ^ w["b"] ^ w["c"]},
    ),
    "for_4": Program(
        4,
        "op:1 a0 a1 b0 b1 c0 c1",
        undone(lambda t: t.effects(xor(c0=place("a0") + place("b0"), c1=place("a1") + place("b1")))),
        all_equal,
    ),
    "for_32": Program(
        32,
        f"op:1 {ARRAYS}",
        xor(**{f"c{i}": sum_or_difference(place(f"a{i}"), place(f"b{i}")) for i in range(4)}),
        lambda w: {
            f"c{i}": w[f"c{i}"] ^ (w[f"a{i}"] + (1 if w["op"] else -1) * w[f"b{i}"]) & 0xFFFFFFFF for i in range(4)
        },
    ),
    "gray_binary_conversion_16": Program(16, "op:1 x0 x1", gray, lambda w: {"x0": grayed(w)}),
    "ifCondVariants_4": Program(4, "a b c", branches, branched),
    "input_repeated_2": Program(
        2,
        "x0 x1 x2 x3 x4 x5 x6 x7 x8 x9 x10",
        updates(
            ("x0", "add", x3 - x3),
            ("x1", "add", x4 + x4),
            ("x2", "sub", (x6 ^ x7) + (x5 ^ x5)),
            ("x3", "add", (x8 + x8) + (x9 + x10)),
        ),
        steps(
            ("x1", "add", lambda w: 2 * w["x4"]),
            ("x2", "sub", lambda w: w["x6"] ^ w["x7"]),
            ("x3", "add", lambda w: 2 * w["x8"] + w["x9"] + w["x10"]),
        ),
    ),
    "input_repeated_4": Program(
        4,
        "x0 x1 x2 x3 x4 x5",
        updates(("x0", "add", (x1 - x2) + (x2 ^ x4)), ("x5", "add", (x1 - x2) + (x3 ^ x2))),
        steps(
            ("x0", "add", lambda w: w["x1"] - w["x2"] + (w["x2"] ^ w["x4"])),
            ("x5", "add", lambda w: w["x1"] - w["x2"] + (w["x3"] ^ w["x2"])),
        ),
    ),
    "logical_and_1": Program(
        2,
        "x0:1 x1 x2 x3:1 x4:1 x5:1",
        lambda t: logical(t, (TRUE_WORDS[0], x1.ltu(x2), x2.geu(x1), x1.ne(x2))),
        lambda w: truth(w, bool(w["x1"] and w["x2"]), w["x1"] < w["x2"], w["x1"] <= w["x2"], w["x1"] != w["x2"]),
    ),
    "logical_or_1": Program(
        2,
        "x0:1 x1 x2 x3:1 x4:1 x5:1",
        lambda t: logical(t, (TRUE_WORDS[1], x2.ltu(x1), x1.geu(x2), x1.eq(x2))),
        lambda w: truth(w, bool(w["x1"] or w["x2"]), w["x1"] > w["x2"], w["x1"] >= w["x2"], w["x1"] == w["x2"]),
    ),
    "modulo_2": Program(2, "x0 x1 x2", modulo, lambda w: {"x0": w["x0"] ^ w["x1"] % w["x2"]} if w["x2"] else None),
    "multiple_statement_4": Program(
        4,
        "x0 x1 x2 x3",
        updates(("x3", "xor", x1 + x2), ("x2", "add", x1 - x3), ("x0", "sub", x3 ^ x2)),
        steps(
            ("x3", "xor", lambda w: w["x1"] + w["x2"] & 15),
            ("x2", "add", lambda w: w["x1"] - w["x3"]),
            ("x0", "sub", lambda w: w["x3"] ^ w["x2"] & 15),
        ),
    ),
    "multiply_2": Program(
        2, "x0 x1 x2", xor(x0=mul_shift(x1, x2, 0)), lambda w: {"x0": w["x0"] ^ w["x1"] * w["x2"] & 3}
    ),
    "negate_8": Program(
        8,
        "s",
        undone(lambda t: t.effects(updates(("s", "xor", const(255)), ("s", "add", const(1)), ("s", "sub", const(1))))),
        all_equal,
    ),
    "numeric_2": Program(
        2,
        " ".join(f"x{i}" for i in range(17)),
        xor(**{f"x{i}": v for i, v in enumerate(NUMBERS)}),
        lambda w: {f"x{i}": w[f"x{i}"] ^ v for i, v in enumerate(NUMBERS)},
    ),
    "operators_repeated_4": Program(
        4,
        "x0 x6 x1 x2 x3 x4 x5",
        updates(
            ("x3", "xor", x1 ^ x2),
            ("x0", "add", x2 + x3),
            ("x0", "sub", x4 + x4),
            ("x0", "xor", x5 + x5),
            ("x6", "sub", ((x1 ^ x2) - (x5 + x5)) + (x4 + x4)),
        ),
        steps(
            ("x3", "xor", lambda w: w["x1"] ^ w["x2"]),
            ("x0", "add", lambda w: w["x2"] + w["x3"]),
            ("x0", "sub", lambda w: 2 * w["x4"]),
            ("x0", "xor", lambda w: 2 * w["x5"] & 15),
            ("x6", "sub", lambda w: (w["x1"] ^ w["x2"]) - 2 * w["x5"] + 2 * w["x4"]),
        ),
    ),
    "parity_4": Program(
        4, "op:1 x0:1 x1", parity("x0", "x1"), lambda w: {"x0": w["x0"] ^ w["x1"].bit_count() ^ w["op"] ^ 1}
    ),
    "parity_check_16": Program(
        16,
        "op:1 x0:1 x1 x2:1",
        parity("x2", "x1", "x0"),
        lambda w: {"x2": w["x2"] ^ w["x1"].bit_count() ^ w["x0"] ^ w["op"] ^ 1},
    ),
    "relationalOp_4": Program(
        4,
        "left op:3 right res:1",
        xor(
            res=reduce(
                lambda total, term: total ^ term,
                (
                    op.eq(k) & found
                    for k, found in enumerate(
                        (
                            left.eq(right),
                            left.ne(right),
                            right.ltu(left),
                            left.geu(right),
                            left.ltu(right),
                            right.geu(left),
                            left & right & 1,
                            (left | right) & 1,
                        )
                    )
                ),
            )
        ),
        relations,
    ),
    "shift_4": Program(
        4,
        "x0 x1 x2",
        xor(x0=x2.shr(2), x1=x2 << 3),
        lambda w: {"x0": w["x0"] ^ w["x2"] >> 2, "x1": w["x1"] ^ w["x2"] << 3},
    ),
    "simple_add_2": Program(
        2, "x0 x1 x2", updates(("x0", "add", x1 - x2)), lambda w: {"x0": w["x0"] + w["x1"] - w["x2"]}
    ),
    "single_longstatement_4": Program(
        4,
        "x0 x1 x2 x3 x4 x5 x6",
        xor(x0=((x1 + x2) - (x3 ^ x4)) ^ (x5 - x6)),
        lambda w: {"x0": w["x0"] ^ (w["x1"] + w["x2"] - (w["x3"] ^ w["x4"])) ^ (w["x5"] - w["x6"])},
    ),
    "skip": Program(2, "x1 x2", (), all_equal),
    "swap_2": Program(2, "x1 x2", (Exchange("x1", "x2"),), lambda w: {"x1": w["x2"], "x2": w["x1"]}),
}


def operated(w: Words, x: int, y: int) -> dict[str, int] | None:
    if not y:
        return None
    found = {"a": x + 4, "b": x - y, "c": x * y, "d": x // y, "e": x % y, "f": x * y >> 2}
    return {name: w[name] ^ v & 3 for name, v in found.items()}


def grayed(w: Words) -> int:
    if not w["op"]:
        return w["x0"] ^ w["x1"] ^ w["x1"] >> 1
    bits = [0]
    for k in reversed(range(16)):
        bits.append((w["x0"] ^ w["x1"]) >> k & 1 ^ bits[-1])
    return sum(bit << 16 - k for k, bit in enumerate(bits))


CIRCUITS = {name: program.circuit() for name, program in PROGRAMS.items()}


def figures(circuit: Circuit) -> Figures:
    found = count(circuit)
    return found.gates, found.width, found.quantum_cost


def rows(program: Program) -> Iterator[dict[str, int]]:
    """All words, or 100 of them."""
    widths = program.widths
    if sum(widths.values()) <= 10:
        for words in product(*(range(1 << bits) for bits in widths.values())):
            yield dict(zip(widths, words, strict=True))
        return
    rng = random.Random(5)
    for _ in range(100):
        yield {name: rng.getrandbits(bits) for name, bits in widths.items()}


@pytest.mark.parametrize("name", PROGRAMS)
def test_words(name: str) -> None:
    program, circuit = PROGRAMS[name], CIRCUITS[name]
    back, seen = circuit.inverse(), 0
    for given in rows(program):
        changed = program.expected(given)
        if changed is None:
            continue
        found = circuit.run(given)
        assert found == {**given, **{k: v & (1 << program.widths[k]) - 1 for k, v in changed.items()}}
        assert back.run(found) == given
        seen += 1
    assert seen >= 10


#: gates, lines, quantum cost: published, of cost-aware and of line-aware synthesis; ours without garbage; ours with the
#: values of expressions left as garbage, where nothing is called and taken back
COUNTS: dict[str, tuple[Figures, Figures, Figures, Figures | None]] = {
    "alu_2": ((26, 11, 138), (46, 7, 222), (50, 13, 98), (26, 13, 50)),
    "binary_numeric": ((40, 60, 40), (40, 60, 40), (10, 30, 10), (10, 30, 10)),
    "bitwise_and_2": ((8, 8, 24), (8, 8, 24), (10, 8, 34), (8, 8, 24)),
    "bitwise_or_2": ((12, 8, 28), (12, 8, 28), (18, 8, 42), (12, 8, 28)),
    "bn_2": ((192, 68, 484), (276, 48, 648), (312, 29, 640), None),
    "call_8": ((212, 41, 1492), (196, 25, 1412), (352, 41, 816), None),
    "constExpr_8": ((8, 16, 8), (8, 16, 8), (24, 24, 24), (16, 24, 16)),
    "divide_2": ((246, 22, 998), (246, 22, 998), (292, 18, 708), None),
    "foldEval_4": ((42, 33, 202), (34, 17, 162), (84, 33, 116), (44, 33, 60)),
    "for_4": ((112, 41, 208), (208, 25, 400), (208, 29, 400), None),
    "for_32": ((2498, 641, 15426), (4738, 385, 27522), (5120, 481, 10112), (2624, 769, 5120)),
    "gray_binary_conversion_16": ((94, 63, 462), (64, 33, 312), (61, 33, 181), None),
    "ifCondVariants_4": ((184, 35, 866), (252, 23, 1270), (410, 33, 870), None),
    "input_repeated_2": ((88, 38, 168), (50, 22, 106), (116, 28, 228), (70, 36, 142)),
    "input_repeated_4": ((168, 48, 312), (224, 24, 416), (264, 36, 504), (152, 48, 296)),
    "logical_and_1": ((52, 12, 100), (52, 12, 100), (118, 15, 198), None),
    "logical_or_1": ((53, 12, 101), (53, 12, 101), (118, 15, 198), None),
    "modulo_2": ((30, 10, 98), (30, 10, 98), (134, 14, 326), None),
    "multiple_statement_4": ((116, 28, 212), (172, 16, 316), (156, 20, 300), (100, 28, 196)),
    "multiply_2": ((5, 8, 17), (5, 8, 17), (8, 8, 32), (5, 8, 17)),
    "negate_8": ((48, 8, 1740), (48, 8, 1740), (216, 16, 440), None),
    "numeric_2": ((47, 68, 47), (47, 68, 47), (13, 34, 13), (13, 34, 13)),
    "operators_repeated_4": ((276, 64, 516), (260, 28, 500), (436, 48, 844), (252, 64, 492)),
    "parity_4": ((17, 12, 73), (15, 6, 63), (6, 6, 6), None),
    "parity_check_16": ((69, 51, 333), (67, 19, 323), (19, 19, 19), None),
    "relationalOp_4": ((373, 60, 767), (373, 60, 767), (445, 76, 927), (223, 76, 464)),
    "shift_4": ((11, 20, 11), (11, 20, 11), (3, 12, 3), (3, 12, 3)),
    "simple_add_2": ((18, 8, 34), (30, 6, 54), (22, 8, 46), (14, 8, 30)),
    "single_longstatement_4": ((108, 48, 180), (192, 28, 336), (180, 48, 324), (92, 48, 164)),
    "skip": ((0, 4, 0), (0, 4, 0), (0, 4, 0), (0, 4, 0)),
    "swap_2": ((2, 4, 2), (2, 4, 2), (0, 4, 0), (0, 4, 0)),
}  # fmt: skip


@pytest.mark.parametrize("name", COUNTS)
def test_counts(name: str) -> None:
    _, _, clean, left = COUNTS[name]
    assert figures(CIRCUITS[name]) == clean
    if left is None:
        return
    program = PROGRAMS[name]
    circuit = program.circuit("garbage")
    assert figures(circuit) == left
    for given in rows(program):
        changed = program.expected(given)
        assert changed is None or circuit.run(given) == {
            **given,
            **{k: v & (1 << program.widths[k]) - 1 for k, v in changed.items()},
        }


def test_all_programs_are_counted() -> None:
    assert COUNTS.keys() == PROGRAMS.keys()
    assert len(COUNTS) == 31


def test_garbage_makes_the_published_product() -> None:
    """Three Toffoli gates and two CNOT gates: the product stays on its two lines."""
    assert COUNTS["multiply_2"][0] == COUNTS["multiply_2"][3]


def test_the_call_of_the_division() -> None:
    """Half of the gates are the call: for x2 ≠ 0 the quotient is that of words without a sign."""
    whole = CIRCUITS["divide_2"]
    half = len(whole.gates) // 2
    call = Circuit(whole.lines, whole.gates[:half], whole.inputs, whole.outputs)
    assert whole.gates[half:] == call.gates[::-1]
    for a, b, c, x, y in product(range(4), range(4), range(4), range(4), range(1, 4)):
        q = x // y
        found = call.run({"a": a, "b": b, "c": c, "x1": x, "x2": y})
        assert found == {"a": a ^ q, "b": (b + q) & 3, "c": (c - q) & 3, "x1": x, "x2": y}
