"""The inverse law on every state of small machines: W = 4 whole, W = 8 whole or sampled."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import islice, product

import pytest
from retrograd.isa import laws
from retrograd.isa.entries import Opcode
from retrograd.isa.table import TABLE
from retrograd.isa.words import Format

NAMES = [opcode.name for opcode in TABLE]
FOUR, EIGHT = Format(4, 2), Format(8, 4)
#: states of eight bits in the default tier, and in the full one where there are more than 2^16
SAMPLES, MANY = 2000, 20_000
#: Opcodes that trap on every state: nothing can be restored where nothing happened.
ALWAYS_TRAPS = {"unerase"}

State = tuple[int, ...]


def free_words(opcode: Opcode) -> int:
    """How many words an opcode's law ranges over: outside branches, BR is 0 or the instruction traps."""
    branches = "br" in opcode.writes or "br" in opcode.reads
    return len(laws.places_of(opcode)) - (not branches)


def sampled(opcode: Opcode, w: Format, count: int) -> Iterator[State]:
    """Random states, BR drawn from what a run can hold there: nothing pending, or a jump to or from here."""
    rng = random.Random(opcode.code)
    places = laws.places_of(opcode)
    branches = "br" in opcode.writes or "br" in opcode.reads
    for _ in range(count):
        words = {p: rng.getrandbits(w.width) for p in places}
        if "b" in words and rng.random() < 0.2:
            words["b"] = words["a"] if "a" in words else words["b"]
        offset = words.get("imm", rng.getrandbits(w.width))
        words["br"] = rng.choice((0, offset, -offset & w.mask, words["br"])) if branches else 0
        yield tuple(words[p] for p in places)


@pytest.mark.parametrize("name", NAMES)
def test_inverse_law_on_every_state_of_four_bits(name: str) -> None:
    opcode = TABLE[name]
    states = list(laws.all_states(opcode, FOUR))
    assert len(states) == 16 ** free_words(opcode)
    assert list(islice(laws.inverse_counterexamples(opcode, FOUR, states), 3)) == []


@pytest.mark.parametrize("name", NAMES)
def test_inverse_law_at_eight_bits(name: str) -> None:
    opcode = TABLE[name]
    states = sampled(opcode, EIGHT, SAMPLES)
    assert list(islice(laws.inverse_counterexamples(opcode, EIGHT, states), 3)) == []


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_inverse_law_at_eight_bits_whole(name: str) -> None:
    opcode = TABLE[name]
    states = laws.all_states(opcode, EIGHT) if free_words(opcode) <= 2 else sampled(opcode, EIGHT, MANY)
    assert list(islice(laws.inverse_counterexamples(opcode, EIGHT, states), 3)) == []


@pytest.mark.parametrize("name", NAMES)
def test_the_law_is_not_empty(name: str) -> None:
    """The law speaks only of states that do not trap: there must be some."""
    opcode = TABLE[name]
    run = laws.compile_execute(opcode, FOUR, laws.places_of(opcode))
    assert any(not isinstance(run(*state), str) for state in laws.all_states(opcode, FOUR)) != (name in ALWAYS_TRAPS)
    # And the samples must meet the states that do not trap.
    small = laws.compile_execute(opcode, EIGHT, laws.places_of(opcode))
    drawn = sampled(opcode, EIGHT, SAMPLES)
    assert any(not isinstance(small(*state), str) for state in drawn) != (name in ALWAYS_TRAPS)


@pytest.mark.parametrize("name", NAMES)
def test_distinct_states_stay_distinct(name: str) -> None:
    """Injectivity counted outright, with no use of the inverse: as many states after as before."""
    opcode = TABLE[name]
    run = laws.compile_execute(opcode, FOUR, laws.places_of(opcode))
    images = [after for state in laws.all_states(opcode, FOUR) if not isinstance(after := run(*state), str)]
    # An erasure of k words of 4 bits maps 16^k states to one: that is what it is for, and what is counted.
    assert len(images) == len(set(images)) * 16**opcode.erased_words


@pytest.mark.parametrize("name", NAMES)
def test_compiled_execution_is_the_tree_walk(name: str) -> None:
    """`laws.execute` is the definition; what the exhaustive laws run is the compiled form."""
    opcode = TABLE[name]
    places = laws.places_of(opcode)
    for w in (FOUR, EIGHT, Format(16, 8), Format(32, 16), Format(64, 32)):
        modes = ("always", "overflow")
        for chosen in (("always",), modes) if any(g.mode == "overflow" for g in opcode.guards(w)) else (("always",),):
            run = laws.compile_execute(opcode, w, places, chosen)
            for state in sampled(opcode, w, 12):
                slow = laws.execute(opcode, dict(zip(places, state, strict=True)), w, chosen)
                fast = run(*state)
                assert fast == (slow if isinstance(slow, str) else tuple(slow[p] for p in places)), (w, state)


CHECKED = [o.name for o in TABLE if any(g.mode == "overflow" for g in o.guards(FOUR))]


@pytest.mark.parametrize("name", CHECKED)
def test_inverse_law_on_the_machine_that_checks_overflow(name: str) -> None:
    """Where `d += f` does not overflow, `d -= f` does not either: it returns to a word that was there."""
    opcode, modes = TABLE[name], ("always", "overflow")
    places = laws.places_of(opcode)
    undo = TABLE.inverse(opcode)
    run, back = (laws.compile_execute(o, FOUR, places, modes) for o in (opcode, undo))
    passed = 0
    for state in product(*((0,) if p == "br" else range(16) for p in places)):
        after = run(*state)
        if isinstance(after, str):
            continue
        passed += 1
        assert back(*after) == state
    assert passed


def test_some_guard_checks_overflow() -> None:
    assert {"fmov.add", "fmul.sub", "fdiv.xor", "fsqrt.add", "fabs.add", "itof.add"} <= set(CHECKED)


def test_encodings() -> None:
    assert list(laws.encoding_counterexamples()) == []
