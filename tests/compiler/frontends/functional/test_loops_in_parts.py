"""Loops that run in parts: their values, derivatives, words, and the choice of them."""

from __future__ import annotations

from typing import Any

import pytest
from retrograd.isa.diagnostics import CompileError, InputError

import retrograd as rg
from retrograd import fixed
from retrograd.derivatives._functional import Functional, evaluations, read_vlad
from retrograd.physics.advice import measured
from retrograd.runtime._execution import ProgramTrap


@rg.functional
def orbit(x: fixed, n: int):
    """One loop of numbers"""

    def turn(v, k):
        return v if k == 0 else turn(rg.sin(v) + x, k - 1)

    return turn(x, n)


@rg.functional
def nested(x: fixed, n: int) -> tuple[fixed, fixed]:
    """A loop in a loop, several ends, and a state of tuples and functions"""

    def inner(f, v, k):
        if v > 2.0:
            return v
        if k == 0:
            return f(v)
        return inner(f, f(v) if k % 2 == 0 else v * 0.5, k - 1)

    def outer(p, k):
        a, b = p
        if k > n:
            return p
        return outer((inner(lambda t: t * x + 0.25, a, k), a + b * 0.5), k + 1)

    return outer((x, 0.5), 0)


@rg.data
class Leaf:
    value: fixed


@rg.functional
def listed(x: fixed, n: int):
    """A loop whose state is a list and an object of a data class"""

    def mapped(f, items):
        match items:
            case []:
                return []
            case [first, *rest]:
                return [f(first), *mapped(f, rest)]

    def total(items, leaf):
        match items:
            case []:
                return leaf.value
            case [first, *rest]:
                return first + total(rest, leaf)

    def loop(items, leaf, k):
        if k == 0:
            return total(items, leaf)
        return loop(mapped(lambda t: t * x, items), Leaf(leaf.value + 0.5), k - 1)

    return loop([x, 1.0, 2.0], Leaf(x), n)


PROGRAMS: dict[str, tuple[Functional, Any]] = {"orbit": (orbit, 20), "nested": (nested, 7), "listed": (listed, 9)}


@pytest.mark.parametrize("name", PROGRAMS)
def test_words_and_derivatives_are_those_of_the_loop(name: str) -> None:
    """For each subset of the loops: the same words, no bit erased, and the way back leaves zeros."""
    f, n = PROGRAMS[name]
    loops = f.loops()
    plain, slope = rg.run(f, 0.75, n), rg.grad(f, "x")(0.75, n)
    for parts in [{loop} for loop in loops] + [set(loops)]:
        g = f.with_options(parts=parts)
        found = rg.run(g, 0.75, n)
        assert (found.words, found.erased_bits) == (plain.words, 0)
        assert rg.grad(g, "x")(0.75, n) == pytest.approx(slope, abs=1e-7)
        back = rg.run(~g, *found.values).words
        assert all(not any(w) for k, w in back.items() if k.startswith("out"))


@pytest.mark.parametrize("n", [0, 1, 2, 3, 5, 6, 7])
def test_each_number_of_passes(n: int) -> None:
    """At the bounds of parts, too, which have 1, 2, 3 … passes."""
    assert orbit.with_options(parts="turn")(0.5, n) == orbit(0.5, n)


def test_the_loops_of_a_program() -> None:
    """Functions that call themselves at their end alone."""
    assert [sorted(f.loops()) for f, _ in PROGRAMS.values()] == [["turn"], ["inner", "outer"], ["loop"]]


def test_words_grow_with_the_root_of_the_passes() -> None:
    def words(f: Functional, n: int) -> int:
        return measured(f.compiled(0.5, n), [0.5, n, 0.0]).words

    large = orbit.with_options(heap=1 << 14, stack=1 << 14)
    in_parts = large.with_options(parts="turn")
    assert words(large, 4096) / words(large, 1024) == pytest.approx(4, rel=0.1)
    assert words(in_parts, 4096) / words(in_parts, 1024) == pytest.approx(2, rel=0.15)
    assert words(in_parts, 4096) < words(large, 4096) / 5


def test_a_name_that_is_no_loop_is_refused() -> None:
    with pytest.raises(CompileError, match="has no loop `mapped`") as found:
        listed.with_options(parts="mapped")(0.5, 3)
    assert "loop" in str(found.value.diagnostics[0].hint)
    with pytest.raises(InputError, match="RG0603"):
        listed.with_options(parts=3)


def test_advice_finds_loops() -> None:
    """Within fewer words than all ways to forget calls need."""
    advice = rg.advise(orbit, 0.5, 400, memory=300)
    assert advice.fits
    assert advice.chosen.parts == {"turn"}
    assert "turn, in parts" in str(advice)
    assert advice.advised(0.5, 400) == orbit(0.5, 400)
    assert advice.as_dict()["chosen"]["parts"] == ["turn"]


# ---------------------------------------------------------------------- VLAD

_LOOP = "(define (turn f x n) (if (zero? n) x (turn f (+ (f x) .25) (- n 1))))\n"
EXPRESSIONS = {
    "value": "(turn sin 1 400)",
    "forward": "((derivative (lambda (x) (turn sin x 2000))) 1)",
    "descent": "(turn (lambda (x) (* -.5 ((gradient (lambda (x) (* x (sin x)))) x))) 1 200)",
    "in the heap": "(turn (lambda (x) (sum (map-n (lambda (i) (* x (/ i 160))) 17))) 1 60)",
    "beside a list": "(let turn ((n 300) (s 0) (l (list 1 2 3))) (if (= n 0) (fold + s l) (turn (- n 1) (+ s .5) (map sin l))))",
}

#: words that are too few for the loops as they are
SHORT = {"value": 256, "forward": 1024, "in the heap": 2048, "beside a list": 512, "descent": 256}


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_vlad_runs_loops_in_parts_where_memory_is_short(name: str) -> None:
    """The same word with a part of the memory, which is too small for the loop as it is."""
    file = read_vlad(_LOOP + EXPRESSIONS[name], "loops.vlad")
    (plain,) = evaluations(file, back=True)
    (found,) = evaluations(file, memory=SHORT[name], back=True)
    assert (found.value, found.erased_bits, found.restored) == (plain.value, 0, True)
    assert found.steps > 1.8 * plain.steps


def test_vlad_without_a_loop_stays_out_of_memory() -> None:
    text = "(define (deep n) (if (zero? n) 0 (+ 1 (deep (- n 1)))))\n(deep 4000)"
    with pytest.raises(ProgramTrap) as found:
        list(evaluations(read_vlad(text, "deep.vlad"), memory=1024))
    assert found.value.code in ("RG0811", "RG0807")
    assert "--memory-budget" in str(found.value.diagnostics[0].hint)


def test_vlad_forgets_by_a_form() -> None:
    """(forget e): the history of e is taken back where its value is there."""
    text = "(define (f x n) (if (zero? n) x (f (+ (sin x) .25) (- n 1))))\n(+ {0} (f 2 100))"
    call = "(f 1 100)"
    plain, forgetting = (
        next(iter(evaluations(read_vlad(text.format(e), "f.vlad"), back=True))) for e in (call, f"(forget {call})")
    )
    assert plain.value == forgetting.value
    assert forgetting.steps > 1.4 * plain.steps
    assert (forgetting.restored, forgetting.erased_bits) == (True, 0)
    with pytest.raises(CompileError, match="RG0729"):
        list(evaluations(read_vlad("(forget 1 2)", "f.vlad")))
