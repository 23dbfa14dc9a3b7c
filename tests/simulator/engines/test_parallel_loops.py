"""Rows of nested loops on two threads: which are shared, and machines in lockstep with the reference machine.

Rows overlap or lie apart, add to the words of their neighbours, and fail at a word or an address of either thread or of the rows between them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from retrograd.simulator.engines import native
from retrograd.simulator.engines.llvm.builder import Value
from retrograd.simulator.engines.llvm.jit import jit_compiler
from retrograd.simulator.engines.state import TeamSlot
from retrograd.simulator.engines.translator import row_sharing, translate
from retrograd.simulator.engines.translator.flow import Variant, flow_of
from retrograd.simulator.engines.translator.loops import find_vector_loops
from retrograd.simulator.engines.translator.vector_loops import find_parallel_loops
from support.machines import Lockstep

import retrograd as rg
from tests.simulator.engines.conftest import WITH_VECTOR_LOOPS, set_transformations

Make = Callable[..., rg.Machine]

#: nests of the default tier, and of the full tier in pieces
SOME, SLOW, SLOW_CHUNK = 24, 2000, 100
MEMORY = 1200

NEST = """
        .memory {memory}
        start
        add r249, {rows}
        add r250, {passes}
outer:  from.ne r6, r0, outerb
        add r6, 1
        add r5, {before}
inner:  from.ne r7, r0, innerb
        add r7, 1
{body}
        add r5, {stride}
innerb: goto.ne r7, r250, inner
        sub r7, {passes}
        add r5, {after}
outerb: goto.ne r6, r249, outer
        finish
"""

#: p += 2 q, and the neighbours of q̄ in its row and in the rows beside it += p̄
UPDATE = (
    "ld.add r8, [r5 + 400]",
    "exch r9, [r5]",
    "fadd r9, r8",
    "fadd r9, r8",
    "exch r9, [r5]",
    "ld.sub r8, [r5 + 400]",
)


def nest(body: tuple[str, ...], rows: int = 15, passes: int = 13, row: int = 20, stride: int = 1) -> rg.Program:
    lines = "\n".join(f"        {line}" for line in body)
    text = NEST.format(
        memory=MEMORY, rows=rows, passes=passes, before=2, after=row - stride * passes - 2, body=lines, stride=stride
    )
    return rg.assemble(text)


def neighbours(row: int) -> tuple[str, ...]:
    updates = [f"st.add [r5 + {30 + d}], r8" for d in (-row, row, -1, 1, 0)]
    return ("ld.add r8, [r5 + 800]", *updates, "ld.sub r8, [r5 + 800]")


def shared(program: rg.Program) -> int:
    """Loops whose rows can be shared."""
    flow = flow_of(program, Variant())
    loops = [finding.loop for finding in find_vector_loops(flow, Variant(), 8) if finding.loop is not None]
    return len(list(find_parallel_loops(flow, loops)))


@pytest.fixture(params=WITH_VECTOR_LOOPS, autouse=True)
def transformations(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Vector loops are the subject of these tests."""
    set_transformations(request.param, monkeypatch)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (UPDATE, 1),
        (neighbours(20), 1),
        # A word that is overwritten is not added to, and a word that rows write is read.
        (("ld.add r8, [r5]", "xor r9, r8", "exch r9, [r5 + 400]", "exch r9, [r5 + 400]", "xor r9, r8", "ld.sub r8, [r5]"), 0),
        (("ld.add r8, [r5 + 1]", "st.add [r5], r8", "ld.sub r8, [r5 + 1]", "ld.add r8, [r5]", "st.add [r5 + 400], r8", "ld.sub r8, [r5]"), 0),
        (("ld.add r8, [r5]", "fadd r3, r8", "ld.sub r8, [r5]"), 0),
    ],
    ids=["update", "neighbours", "xor", "read", "sum"],
)  # fmt: skip
def test_independence(body: tuple[str, ...], expected: int) -> None:
    assert shared(nest(body)) == expected


@pytest.fixture
def teams(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[NDArray[np.int64]]]:
    """Every run has a second thread, for few rows, too; the words that the threads of each run have shared."""
    unit = jit_compiler().vector_unit
    # Where the host has no masked instructions, LLVM takes others.
    monkeypatch.setattr(jit_compiler(), "vector_unit", unit._replace(masks=True, threads=True))
    found: list[NDArray[np.int64]] = []
    second = native.second_thread

    @contextmanager
    def kept() -> Iterator[NDArray[np.int64]]:
        with second() as words:
            found.append(words)
            yield words

    monkeypatch.setattr(native, "second_thread", kept)
    monkeypatch.setattr(native, "BRIEF", 1)
    monkeypatch.setattr(native, "FEW_WORDS", 0)
    monkeypatch.setattr(row_sharing, "FEW", 8)
    monkeypatch.setattr(row_sharing, "FEW_ROWS", 5)
    monkeypatch.setenv("RETROGRAD_CACHE", "")
    linked = dict(jit_compiler()._linked)
    jit_compiler()._linked.clear()
    translate._translation_of.cache_clear()
    yield found
    jit_compiler()._linked.clear()
    jit_compiler()._linked.update(linked)
    translate._translation_of.cache_clear()


def fill(machine: rg.Machine, words: list[int]) -> None:
    for at, word in enumerate(words):
        machine.memory[at] = word % (1 << 64)


def run(make: Make, program: rg.Program, words: list[int], base: int, limits: list[int | None]) -> Any:
    both = Lockstep(make, program)
    both.set(lambda m: fill(m, words))
    both.set(lambda m: m.registers.__setitem__(5, base % (1 << 64)))
    for limit in limits:
        both.run(limit)
    both.turn()
    both.run()
    return both


def test_rows_are_shared(translated: Make, teams: list[NDArray[np.int64]]) -> None:
    """All rows but the last, and both ways."""
    run(translated, nest(neighbours(20), rows=15), list(range(MEMORY)), 0, [None])
    assert [(int(w[TeamSlot.LAST]), int(w[TeamSlot.RESULT])) for w in teams] == [(14, 14)] * 2


@pytest.mark.parametrize("at", [402, 425, 470, 530, 545, 562, 585, 602, 650, 690])
def test_rows_that_fail(translated: Make, teams: list[NDArray[np.int64]], at: int) -> None:
    """A word that is too large, in rows of this thread, of the gap and of the other."""
    words = [1 << 40] * MEMORY
    words[at] = (1 << 63) - 3
    both = run(translated, nest(UPDATE), words, 0, [None])
    assert teams
    assert len(both.traps) == 1


#: p += q, where row r reads the words of row r + 2
LATER = ("ld.add r8, [r5 + 45]", "exch r9, [r5]", "fadd r9, r8", "exch r9, [r5]", "ld.sub r8, [r5 + 45]")


def overlapping(_: Any, rows: Value) -> tuple[Value, Value]:
    """Rows of the other thread are also given to this thread. With several rows, not every update is lost in a race."""
    return rows, (rows - row_sharing.GAP).shr(1) + row_sharing.GAP


def unchecked(sharing: Any, holds: Value) -> None:
    """Words that a row reads may be written by another."""


@pytest.mark.parametrize(
    ("name", "fault", "body"), [("_parts", overlapping, UPDATE), ("_unless", unchecked, LATER)], ids=["twice", "read"]
)
def test_faults_in_the_sharing_are_found(
    translated: Make,
    teams: list[NDArray[np.int64]],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    fault: Callable[..., Any],
    body: tuple[str, ...],
) -> None:
    words = list(range(1, MEMORY + 1))
    run(translated, nest(body), words, 0, [None])
    monkeypatch.setattr(row_sharing._SharingEmitter, name, fault)
    jit_compiler()._linked.clear()
    translate._translation_of.cache_clear()
    with pytest.raises(AssertionError):
        run(translated, nest(body), words, 0, [None])


def generate(rng: random.Random) -> tuple[rg.Program, list[int], int, list[int | None]]:
    row = rng.choice((20, 21, 17, 12, -20, -24, 3))
    stride = rng.choice((1, 1, -1))
    reads = ["ld.add r8, [r5 + 400]", "ld.add r9, [r5 + 421]"]
    body, targets = [reads[0]], [0, 1, -1, row, -row, 21, 40, 350, 600, 395]
    if rng.random() < 0.5:
        body.append(reads[1])
    for _ in range(rng.randrange(1, 5)):
        place = f"[r5 + {30 + rng.choice(targets)}]"
        update = rng.choice(
            ("fadd r14, r8", "fsub r14, r8", "fmul.add r14, r8, r9", "fmul.sub r14, r8, r8", "add r14, r7")
        )
        body += [f"exch r14, {place}", update, f"exch r14, {place}"]
    body += [line.replace("add", "sub", 1) for line in reversed([line for line in body if line in reads])]
    rows, passes = rng.randrange(7, 18), rng.choice((rng.randrange(1, 30), 13, 16))
    size = rng.choice((20, 36, 44))
    words = [rng.randrange(-1 << size, 1 << size) for _ in range(MEMORY)]
    for _ in range(rng.choice((0, 0, 1, 2))):
        words[rng.randrange(MEMORY)] = rng.choice(((1 << 63) - 1, 1 << 55, -1 << 61))
    low = rng.choice((60, 60, 200, 400, 1190 - 20 * rows - 450))
    base = low if row > 0 else low - row * rows
    limits: list[int | None] = [rng.randrange(300, 4000), None] if rng.random() < 0.3 else [None]
    return nest(tuple(body), rows, passes, row, stride), words, base, limits


@pytest.mark.long
def test_random_nests(translated: Make, teams: list[NDArray[np.int64]]) -> None:
    for seed in range(SOME):
        print(f"seed {seed}")
        run(translated, *generate(random.Random(seed)))
    assert sum(bool(words[TeamSlot.LAST]) for words in teams) > SOME // 4


@pytest.mark.long
@pytest.mark.parametrize("first", range(0, SLOW, SLOW_CHUNK))
def test_many_random_nests(translated: Make, teams: list[NDArray[np.int64]], first: int) -> None:
    for seed in range(first + 1000, first + 1000 + SLOW_CHUNK):
        print(f"seed {seed}")
        run(translated, *generate(random.Random(seed)))
