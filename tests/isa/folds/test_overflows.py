"""The format that an overflow names holds the result, and the next finer one does not: for every opcode that can overflow."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest
from retrograd.isa.entries import Opcode
from retrograd.isa.expr import evaluate
from retrograd.isa.smtlib import format_that_holds
from retrograd.isa.table import TABLE
from retrograd.isa.words import Format

W = Format(32, 16)
LOGNUMS = {"ftol": "d", "lmov": "da", "ladd": "dab", "lsub": "dab", "ltof": "a", "llog": "a", "lexp": "d", "lpow": "da"}
#: their results fit every word of this format
ALWAYS_FITTING = {"flog.xor", "fatan2.xor", "ftol.mul", "ftol.div"}
OVERFLOWING = [o for o in TABLE if any(g.code == "RG0404" for g in o.guards(W)) and "imm" not in o.reads]


def kinds_of(opcode: Opcode) -> dict[str, str]:
    places = LOGNUMS.get(opcode.entry.name, "")
    kinds = {p: "lognum" if p in places else "fixed" for p in "dabm"}
    if opcode.entry.name == "itof":
        del kinds["a"]
    if "m" in opcode.writes or "m" in opcode.reads:
        del kinds["a"]
    return kinds


def overflows(opcode: Opcode, words: dict[str, int], w: Format) -> bool:
    return not all(evaluate(opcode.guard_predicate(g, w), w, words) for g in opcode.guards(w) if g.code == "RG0404")


def moved(word: int, kind: str | None, v: Format) -> int:
    """The nearest word of v."""
    if kind is None:
        return v.wrap(W.signed(word))
    if kind == "fixed":
        return v.from_real(W.to_real(word))
    magnitude = word & (W.sign - 1)
    magnitude -= (magnitude >> (W.width - 2)) << (W.width - 1)
    scaled = round(Fraction(magnitude, 1 << W.frac) * (1 << v.frac))
    return scaled & (v.sign - 1) | (v.sign if word & W.sign else 0)


def some_word(rng: random.Random) -> int:
    """A word of any magnitude, or near an end of the fixed-point numbers or of the logarithms."""
    near = rng.choice([0, W.sign, W.sign >> 1])
    word = near + rng.choice([-1, 1]) * (rng.getrandbits(32) >> rng.randrange(1, 32))
    return W.wrap(-word if rng.random() < 0.5 else word)


@pytest.mark.parametrize("opcode", OVERFLOWING, ids=lambda o: o.name)
def test_the_named_format_is_the_finest_that_holds(opcode: Opcode) -> None:
    rng, kinds, tried = random.Random(opcode.name), kinds_of(opcode), 0
    for _ in range(2000):
        words = {p: some_word(rng) for p in "dabm"} | {"br": 0}
        if tried == 12:
            break
        if not overflows(opcode, words, W):
            continue
        found = format_that_holds(opcode, words, kinds, W)
        if found is None:
            continue
        tried += 1
        there = {p: moved(word, kinds.get(p), found) if p != "br" else 0 for p, word in words.items()}
        assert not overflows(opcode, there, found), (words, found)
        finer = Format(found.width, found.frac + 1)
        if found.width == 32 and finer != W:
            there = {p: moved(word, kinds.get(p), finer) if p != "br" else 0 for p, word in words.items()}
            assert overflows(opcode, there, finer), (words, found)
    assert bool(tried) == (opcode.name not in ALWAYS_FITTING)


def test_every_opcode_that_checks_overflow_is_tried() -> None:
    assert len(OVERFLOWING) > 30


def test_a_result_that_no_format_holds() -> None:
    words = {"d": 0, "a": 1 << 62, "b": 1 << 62, "m": 0, "br": 0}
    assert (
        format_that_holds(TABLE["fmul.add"], words, {"d": "fixed", "a": "fixed", "b": "fixed"}, Format(64, 0)) is None
    )
