"""Checks of an instance of a batch: near the bounds of memory and of words, each row ends or fails as on the reference machine."""

from __future__ import annotations

import random

import numpy as np
import pytest
from retrograd.isa.encoding import Instruction, encode, illegality
from retrograd.isa.entries import REGISTER_FIELDS
from retrograd.isa.table import TABLE
from retrograd.simulator.engines import tiering
from retrograd.simulator.engines.batch import loops
from retrograd.simulator.engines.batch.cpu import run_batch
from retrograd.simulator.engines.batch.layout import AccessRange, access_ranges
from retrograd.simulator.engines.llvm.jit import jit_compiler

import retrograd as rg

#: words of memory, the first of which are given for each row
MEMORY, GIVEN = 12, 6
DATA, BASE = (1, 2, 3, 4), 5
#: words at which sums, products, quotients and addresses begin to fail
LIMITS = (
    0,
    1,
    -1,
    2,
    7,
    1 << 31,
    1 << 32,
    1 << 47,
    (1 << 63) - 1,
    -(1 << 63),
    1 << 62,
    -(1 << 62),
    (1 << 63) - (1 << 31),
)


@pytest.fixture(params=[1, 4, 8], ids=["alone", "converged", "lanes"])
def lanes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Instances one by one, and side by side."""
    monkeypatch.setattr(loops, "_loops", {})
    monkeypatch.setattr(jit_compiler(), "lanes", request.param)
    monkeypatch.setattr(jit_compiler(), "diverging", request.param == 8)
    monkeypatch.setattr(tiering.policy.costs, "lanes", 0.0)
    monkeypatch.setattr(tiering.policy.costs, "wait", float("inf"))


def op(name: str, **fields: int) -> Instruction:
    return Instruction(TABLE[name], **fields)


def test_accesses_of_one_word_of_a_register_share_a_check() -> None:
    code = [
        op("ld.add", rd=1, ra=5, imm=3),
        op("ld.add", rd=2, ra=5, imm=-1),
        op("ld.add", rd=3, ra=6, imm=2),
        op("imm.add", rd=5, imm=1),
        op("ld.add", rd=4, ra=5, imm=9),
    ]
    assert access_ranges(code, range(5), {}) == {
        0: AccessRange(-1, 3, None),
        2: AccessRange(2, 2, None),
        4: AccessRange(9, 9, None),
    }
    # An access with a region is checked for its region.
    assert access_ranges(code, range(2), {1: (0, 4)}) == {0: AccessRange(3, 3, None), 1: AccessRange(-1, -1, (0, 4))}


def random_code(rng: random.Random) -> list[Instruction]:
    """Loads words of the row, computes with them, and accesses memory around an address that the row gives."""
    body = [op("ld.add", rd=r, imm=k) for k, r in enumerate((*DATA, BASE))]
    for _ in range(rng.randrange(2, 12)):
        d, a, b = (rng.choice(DATA) for _ in "dab")
        kind = rng.randrange(8)
        if kind < 3:
            name = rng.choice(("ld.add", "ld.sub", "fld.add", "fld.sub"))
            body.append(op(name, rd=d, ra=BASE, imm=rng.randrange(-4, 5)))
        elif kind == 3:
            body.append(op(rng.choice(("fmulst.add", "fmulst.sub")), rd=a, ra=BASE, rb=b, imm=rng.randrange(-3, 4)))
        elif kind == 4:
            body.append(op("imm.add", rd=BASE, imm=rng.randrange(1, 3)))
        elif d not in (a, b):
            name = rng.choice(("fmul.add", "fmul.sub", "fdiv.add", "fdiv.sub", "fmov.add", "fmov.sub", "fsqrt.add"))
            used = TABLE[name].fields
            fields = {"rd": d, "ra": a, "rb": b}
            body.append(op(name, **{f: fields[f] for f in REGISTER_FIELDS.values() if f in used}))
    return [op("start"), *(i for i in body if illegality(i) is None), op("finish")]


def row(rng: random.Random) -> list[int]:
    words = [
        rng.choice(LIMITS) + rng.randrange(-2, 3) if rng.random() < 0.4 else rng.randrange(-(1 << 34), 1 << 34)
        for _ in range(GIVEN)
    ]
    words[4] = rng.choice((rng.randrange(-3, MEMORY + 3), rng.randrange(4, MEMORY - 4), MEMORY - 4, rng.choice(LIMITS)))
    return words


def compare(seed: int, rows: int) -> tuple[int, int]:
    """Compare a batch with the reference machine; the numbers of rows that ended and that failed."""
    rng = random.Random(seed)
    program = rg.Program([encode(i) for i in random_code(rng)], memory=MEMORY)
    words = np.array([row(rng) for _ in range(rows)], dtype=object)
    given = np.array([[w % (1 << 64) for w in r] for r in words], dtype=np.uint64)
    found = run_batch(program, given)
    for k in range(rows):
        machine = rg.Machine(program)
        machine.memory[:GIVEN] = [int(w) for w in given[k]]
        try:
            machine.run()
        except rg.Trap:
            assert k in found.failed, (seed, k)
        else:
            assert k not in found.failed, (seed, k)
            assert list(map(int, found.rows[k])) == [int(w) % (1 << 64) for w in list(machine.memory)[:GIVEN]], (
                seed,
                k,
            )
            assert found.steps[k] == machine.retired
    return rows - len(found.failed), len(found.failed)


@pytest.mark.long
@pytest.mark.usefixtures("lanes")
def test_rows_near_the_bounds_fail_as_on_the_reference_machine() -> None:
    counts = np.array([compare(seed, 40) for seed in range(8)])
    assert (counts.sum(axis=0) > 40).all(), "both rows that end and rows that fail"


@pytest.mark.long
@pytest.mark.usefixtures("lanes")
@pytest.mark.parametrize("chunk", range(50))
def test_many_rows_near_the_bounds(chunk: int) -> None:
    for seed in range(20 * chunk, 20 * (chunk + 1)):
        compare(seed, 60)
