"""rot and irot: exactly reversible for every angle and operand, and within two units of the true rotation."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from numpy.typing import NDArray
from retrograd.isa import laws, smtlib
from retrograd.isa.effects import Effects, Exchange, Permute, Update, inverse, transition
from retrograd.isa.expr import Expr, nodes, place, select
from retrograd.isa.functions import index_bits, shear
from retrograd.isa.table import TABLE
from retrograd.isa.words import Format

import retrograd as rg

Q32, Q16, W16, W8 = Format(64, 32), Format(32, 16), Format(16, 8), Format(8, 4)
PLACES = ("a", "b", "br", "d")
#: of vectors shorter than this share of the largest word, no sum within the shears overflows
SHARE = 0.92

formats = pytest.mark.parametrize("w", [Q32, Q16], ids=str)


def compiled(name: str, w: Format) -> Callable[[int, int, int], tuple[int, int]]:
    """(d, a, b) -> (d, a) afterwards, as words."""
    run = laws.compile_execute(TABLE[name], w, PLACES)

    def rotate(d: int, a: int, b: int) -> tuple[int, int]:
        after = run(a & w.mask, b & w.mask, 0, d & w.mask)
        assert not isinstance(after, str)
        return after[3], after[0]

    return rotate


def true_rotation(w: Format, d: int, a: int, b: int) -> tuple[Any, Any]:
    angle = mp.mpf(b) / (1 << w.frac)
    c, s = mp.cos(angle), mp.sin(angle)
    return d * c - a * s, d * s + a * c


def a_vector(rng: random.Random, w: Format) -> tuple[int, int, int]:
    """A vector whose rotations fit, and an angle; words of every length."""
    while True:
        short = rng.randrange(w.width) if rng.random() < 0.5 else 0
        d, a = (rng.randrange(-w.sign, w.sign) >> short for _ in range(2))
        if math.hypot(d, a) <= SHARE * w.sign:
            return d, a, rng.randrange(-w.sign, w.sign) >> (rng.randrange(w.width) if rng.random() < 0.7 else 0)


def angle_edges(w: Format) -> list[int]:
    """Where the table's segments, and the quadrants, meet; the axes; the ends."""
    k, turn = 4 << index_bits(w), 2 * mp.pi * (1 << w.frac)
    out = [int(mp.floor(mp.mpf(j) / (2 * k) * turn)) + i for j in range(-2 * k, 2 * k + 1) for i in (0, 1)]
    return [x for x in out if -w.sign <= x < w.sign] + [0, 1, -1, w.sign - 1, -w.sign]


# ------------------------------------------------------------------ every state of eight bits


def numpy_values(roots: list[Expr], w: Format, places: dict[str, NDArray[Any]]) -> list[NDArray[Any]]:
    """The trees over whole arrays, of integers four times as wide as the words: every product fits, shifted or not."""
    dtype = {8: np.int32, 16: np.int64}[w.width]

    def signed(x: Any) -> Any:
        return (x ^ w.sign) - w.sign

    done: dict[Expr, Any] = {}
    for n in nodes(*roots):
        v = [done[x] for x in n.args]
        s = n.param if isinstance(n.param, int) else 0
        match n.op:
            case "input":
                r = places[str(n.param)].astype(dtype)
            case "const":
                r = dtype(s & w.mask)
            case "add":
                r = (v[0] + v[1]) & w.mask
            case "sub":
                r = (v[0] - v[1]) & w.mask
            case "and":
                r = v[0] & v[1]
            case "xor":
                r = v[0] ^ v[1]
            case "or":
                r = v[0] | v[1]
            case "shl":
                r = (v[0] << (v[1] % w.width)) & w.mask
            case "shr":
                r = v[0] >> (v[1] % w.width)
            case "sar":
                r = (signed(v[0]) >> (v[1] % w.width)) & w.mask
            case "eq":
                r = (v[0] == v[1]).astype(dtype)
            case "lt":
                r = (signed(v[0]) < signed(v[1])).astype(dtype)
            case "ltu":
                r = (v[0] < v[1]).astype(dtype)
            case "select":
                r = np.where(v[0] != 0, v[1], v[2])
            case "mulshift":
                r = ((signed(v[0]) * signed(v[1])) >> s) & w.mask
            case "mulround" if 0 < s <= w.width:
                r = ((signed(v[0]) * signed(v[1])) + (1 << s - 1) >> s) & w.mask
            case "divshift":
                top, bottom = signed(v[0]) << max(s, 0), signed(v[1]) << max(-s, 0)
                r = np.where(v[1] == 0, 0, top // np.where(v[1] == 0, 1, bottom)) & w.mask
            case "table" if isinstance(n.param, tuple):
                r = np.array([x & w.mask for x in n.param], dtype)[v[0] % len(n.param)]
            case _:
                raise ValueError(n.op)
        done[n] = r
    return [np.asarray(done[root], dtype) for root in roots]


@pytest.mark.long
def test_bijection_on_every_state_of_eight_bits() -> None:
    """All vectors, all angles: 2^24 states. For every angle all 2^16 vectors are reached, and irot goes back."""
    w = W8
    forward, backward = TABLE["rot"].transition(w), TABLE["irot"].transition(w)
    every = np.arange(256, dtype=np.int64)
    states = {"d": every[:, None], "a": every[None, :]}
    for angle in range(256):
        there = dict(states, b=np.array([[angle]]))
        d, a = numpy_values([forward["d"], forward["a"]], w, there)
        assert np.bincount((d * 256 + a).ravel(), minlength=65536).max() == 1, angle
        back = numpy_values([backward["d"], backward["a"]], w, {"d": d, "a": a, "b": there["b"]})
        assert (back[0] == states["d"]).all(), angle
        assert (back[1] == states["a"]).all(), angle


def test_the_array_fold_is_the_definition() -> None:
    rng = random.Random(3)
    for w in (W8, W16):
        run = compiled("rot", w)
        words = np.array([[rng.getrandbits(w.width) for _ in range(500)] for _ in range(3)])
        after = TABLE["rot"].transition(w)
        d, a = numpy_values([after["d"], after["a"]], w, dict(zip("dab", words, strict=True)))
        assert [run(*map(int, words[:, i])) for i in range(500)] == list(zip(d.tolist(), a.tolist(), strict=True))


# ------------------------------------------------------------------ back again


def identity_counterexamples(w: Format, count: int, seed: int) -> Iterator[tuple[int, int, int]]:
    rot, irot = compiled("rot", w), compiled("irot", w)
    rng = random.Random(seed)
    for i in range(count):
        d, a, b = (rng.getrandbits(w.width) for _ in range(3))
        if i % 3 == 0:
            d, a, b = (w.wrap(w.signed(x) >> rng.randrange(w.width)) for x in (d, a, b))
        if irot(*rot(d, a, b), b) != (d, a) or rot(*irot(d, a, b), b) != (d, a):
            yield d, a, b


@formats
def test_irot_takes_rot_back(w: Format) -> None:
    """Both ways round, over all words, overflow or not."""
    assert list(identity_counterexamples(w, 2500, 1)) == []


@pytest.mark.long
def test_irot_takes_rot_back_a_million_times() -> None:
    assert list(identity_counterexamples(Q32, 1_000_000, 2)) == []


@formats
def test_irot_takes_rot_back_at_every_edge(w: Format) -> None:
    rot, irot = compiled("rot", w), compiled("irot", w)
    vectors = [(w.sign, w.sign), (w.sign, w.mask), (0, 1), (w.sign - 1, w.sign - 1), (1, 0)]
    for b in angle_edges(w):
        for d, a in vectors:
            assert irot(*rot(d, a, b), b) == (d, a), (d, a, b)


# ------------------------------------------------------------------ proofs


def solve(text: str) -> str:
    import z3  # type: ignore[import-untyped]

    solver = z3.Solver()
    solver.set("timeout", 120_000)
    solver.from_string(text)
    return str(solver.check())


def shears(w: Format, broken: bool = False) -> Effects:
    """rot's effects with its tables' output, t, s and the three decisions, as free words."""
    d, a = place("d"), place("a")
    p, q, t, s = place("p"), place("q"), place("t"), place("s")
    tilt = shear(t, a, w.width)
    first = select(p, -d, d)
    second = select(q, -a, a)
    return (
        Exchange("d", "a", when=place("x")),
        Permute("d", first, first),
        Permute("a", second, second),
        Update("d", "sub", tilt),
        Update("a", "add", shear(s, d, w.width - 1)),
        Update("d", "sub" if not broken else "xor", tilt),
    )


def restoration(effects: Effects, undo: Effects, w: Format) -> str:
    """Unsatisfiable iff `undo` after `effects` is the identity on d and a, whatever the other words."""
    there = transition(effects, w)
    from retrograd.isa.expr import substitute

    back = transition(undo, w)
    finals = [substitute(back[name], there) for name in ("d", "a")]
    commands, out = smtlib.define([*finals, place("d"), place("a")], w)
    return "\n".join([*commands, f"(assert (or (not (= {out[0]} {out[2]})) (not (= {out[1]} {out[3]}))))"])


def test_shears_are_undone_for_any_t_and_s() -> None:
    """By SMT at 16 bits: every vector, every t and s, every quadrant. What the tables hold plays no part."""
    assert solve(restoration(shears(W16), inverse(shears(W16)), W16)) == "unsat"


@pytest.mark.long
def test_the_proof_can_fail() -> None:
    assert solve(restoration(shears(W16), inverse(shears(W16, broken=True)), W16)) == "sat"


def test_rot_itself_is_undone() -> None:
    """By SMT at 16 bits: the entry as it stands, tables and all."""
    assert solve(smtlib.reversibility(TABLE["rot"], W16)) == "unsat"
    assert solve(smtlib.reversibility(TABLE["irot"], W16)) == "unsat"


def test_the_proved_shears_are_those_of_the_entry() -> None:
    from retrograd.isa import functions
    from retrograd.isa.expr import substitute

    for w in (W16, Q32):
        r = functions.rotation(place("b"), w)
        parts = {"x": r.exchanged, "p": r.first_negated, "q": r.second_negated, "t": r.t, "s": r.s}
        free = transition(shears(w), w)
        assert {name: substitute(tree, parts) for name, tree in free.items()} == TABLE["rot"].transition(w)


# ------------------------------------------------------------------ accuracy


def test_error_is_bounded_everywhere_at_eight_bits() -> None:
    """All 2^24 states in reach. With a table this short the shears go beyond π/4: the bounds are wider."""
    w = W8
    after = TABLE["rot"].transition(w)
    signed = np.arange(-128, 128)
    d, a = signed[:, None].astype(float), signed[None, :].astype(float)
    inside = np.hypot(d, a) < 0.85 * w.sign
    for angle in range(-128, 128):
        words = {"d": (signed & 255)[:, None], "a": (signed & 255)[None, :], "b": np.array([[angle & 255]])}
        got = numpy_values([after["d"], after["a"]], w, words)
        c, s = math.cos(angle / 16), math.sin(angle / 16)
        for value, true in zip(got, (d * c - a * s, d * s + a * c), strict=True):
            wrong = np.abs(((value ^ 128) - 128) - true)[inside].max()
            assert wrong <= 3, angle


@pytest.mark.parametrize("w", [Q32, Q16, W16, Format(16, 12), Format(32, 28), Format(64, 8), Format(64, 60)], ids=str)
def test_error_is_at_most_two_units(w: Format) -> None:
    rot = compiled("rot", w)
    rng = random.Random(11)
    triples = [a_vector(rng, w) for _ in range(1500)]
    edges = rng.sample(angle_edges(w), 300)
    triples += [(*a_vector(rng, w)[:2], b) for b in edges]
    largest = mp.mpf(0)
    with mp.workprec(200):
        for d, a, b in triples:
            got = rot(d, a, b)
            for word, true in zip(got, true_rotation(w, d, a, b), strict=True):
                wrong = abs(w.signed(word) - true)
                assert wrong <= 2, (d, a, b)
                largest = max(largest, wrong)
    assert largest > 0.5


@formats
def test_angles_that_leave_nothing_to_round(w: Format) -> None:
    rot = compiled("rot", w)
    rng = random.Random(4)
    for _ in range(200):
        d, a, _ = a_vector(rng, w)
        assert rot(d, a, 0) == (d & w.mask, a & w.mask)
        # Small vectors feel no rounding of the angle: a quarter turn only exchanges and negates.
        d, a = rng.randrange(-100, 101), rng.randrange(-100, 101)
        for quarters, (x, y) in enumerate([(d, a), (-a, d), (-d, -a), (a, -d)]):
            angle = round(quarters * math.pi / 2 * (1 << w.frac))
            assert rot(d, a, angle) == (x & w.mask, y & w.mask)
            assert rot(x, y, -angle) == (d & w.mask, a & w.mask)


# ------------------------------------------------------------------ a full turn on the machine


def turning(n: int, w: Format) -> rg.Program:
    return rg.assemble("\n".join(["start", *["rot r1, r2, r3"] * n, "finish"]), format=w)


@pytest.mark.parametrize("n", [64, 1000])
@formats
def test_a_full_turn_in_n_steps(w: Format, n: int) -> None:
    """n rotations by 2π/n return within n·(2√2 + |v|·2^-(F+1)) units, and stepping back returns bit for bit.

    Each step adds at most 2 units to either component, and the angle's rounding, half a word, turns |v| by 2^-(F+1).
    """
    rng = random.Random(n)
    machine = rg.Machine(turning(n, w))
    for length in (1 << w.frac, w.sign // 2, 1000):
        phi = rng.uniform(0, 2 * math.pi)
        d, a = round(length * math.cos(phi)), round(length * math.sin(phi))
        step = round(2 * math.pi / n * (1 << w.frac))
        machine.registers[1:4] = [d & w.mask, a & w.mask, step]
        before = machine.state()
        machine.run()
        x, y = w.signed(machine.registers[1]), w.signed(machine.registers[2])
        bound = n * (2 * math.sqrt(2) + length * 2.0 ** -(w.frac + 1))
        assert math.hypot(x - d, y - a) <= bound
        # Halfway it is on the other side: it did go round.
        machine.run_back(n // 2)
        other = w.signed(machine.registers[1]), w.signed(machine.registers[2])
        assert math.hypot(other[0] + d, other[1] + a) <= bound + length * 2 * math.pi / n
        machine.run_back()
        assert machine.state() == before


# ------------------------------------------------------------------ overflow


@formats
def test_overflow_traps_with_the_operand_and_changes_nothing(w: Format) -> None:
    one_eighth = round(math.pi / 4 * (1 << w.frac))
    for name, d, a in (("rot", w.sign - 1, -w.sign + 1), ("irot", w.sign - 1, w.sign - 1), ("rot", -w.sign, 0)):
        program = rg.assemble(f"start\n{name} r1, r2, r3\nfinish", format=w)
        machine = rg.Machine(program)
        machine.registers[1:4] = [d & w.mask, a & w.mask, one_eighth]
        machine.step()
        before = machine.state()
        with pytest.raises(rg.Trap) as caught:
            machine.step()
        assert caught.value.diagnostics[0].code == "RG0404"
        assert machine.state() == before
        if name == "rot":
            assert caught.value.value == d & w.mask
            assert f"{float(w.to_real(d))}" in str(caught.value)
        # The machine that lets words wrap goes on, and comes back all the same.
        wrapping = rg.Machine(program, overflow=False)
        wrapping.registers[1:4] = machine.registers[1:4]
        start = wrapping.state()
        wrapping.run()
        assert wrapping.state()[0] != start[0]
        wrapping.run_back()
        assert wrapping.state() == start


@pytest.mark.parametrize("w", [Q32, Q16, Format(32, 12), Format(64, 48)], ids=str)
def test_short_vectors_never_overflow(w: Format) -> None:
    """Up to 0.92 of the largest word at any angle; the guard is right too: where it holds, the result is."""
    opcode = TABLE["rot"]
    guards = [g for g in opcode.guards(w) if g.mode == "overflow"]
    checks = laws.compile_execute(opcode, w, PLACES)
    from retrograd.isa.folds import emit

    statements, out = emit([opcode.guard_predicate(g, w) for g in guards], w, {p: p for p in PLACES})
    scope: dict[str, Any] = {}
    body = [*statements, f"return bool({' and '.join(out)})"]
    exec(f"def run({', '.join(PLACES)}):\n" + "".join(f"    {line}\n" for line in body), scope)
    fits = scope["run"]
    rng = random.Random(6)
    edges = angle_edges(w)
    passed = refused = 0
    for i in range(4000):
        length = SHARE * w.sign * (0.9999 if i % 2 else 1.25 * rng.random())
        phi = rng.uniform(0, 2 * math.pi)
        d, a = int(length * math.cos(phi)), int(length * math.sin(phi))
        b = rng.choice(edges) if i % 3 else rng.randrange(-w.sign, w.sign)
        if max(abs(d), abs(a)) >= w.sign:
            continue
        words = a & w.mask, b & w.mask, 0, d & w.mask
        if fits(*words):
            passed += 1
            after = checks(*words)
            assert not isinstance(after, str)
            x, y = w.signed(after[3]), w.signed(after[0])
            angle = b / (1 << w.frac)
            c, s = math.cos(angle), math.sin(angle)
            assert math.hypot(x - (d * c - a * s), y - (d * s + a * c)) < 1e-6 * w.sign
        else:
            refused += 1
            assert length > SHARE * w.sign, (d, a, b)
    assert passed > 3000
    assert refused > 10
