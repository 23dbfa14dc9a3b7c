"""Loops inside instances, divided among the threads of teams: words, counts and failures are those of the CPU.

The threads of a warp are threads of the host, and exchange words as those of a device do.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from retrograd.benchmarks import references
from retrograd.benchmarks.gpu import padded, words_of
from retrograd.examples import bessel, gmm
from retrograd.isa.program import Hints
from retrograd.simulator.engines.batch import cpu as on_cores
from retrograd.simulator.engines.cuda import batch as on_gpus
from retrograd.simulator.engines.cuda import teams
from retrograd.simulator.engines.cuda.batch import Setting
from retrograd.simulator.engines.cuda.kernels import kernel_ir
from retrograd.simulator.engines.cuda.teams import TeamTranslator, most_threads, team_loops
from retrograd.simulator.engines.llvm.builder import I1
from retrograd.simulator.engines.tiering import Decision, Policy, Reason, recorded
from support import teams_on_host

import retrograd as rg
from retrograd import Array, fixed, reversible
from retrograd.derivatives._requests import loss_gradient_program
from tests.simulator.engines.cuda.simulated.test_batch import compare, same

#: random loops in the default tier, and in the full one
LOOPS, SLOW, SLOW_CHUNK = 12, 400, 100


@pytest.fixture(autouse=True)
def divided(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[int, int]]]:
    """(threads of a team, instances) of every launch of teams."""
    found = teams_on_host.HostTeamKernel
    monkeypatch.setattr(on_gpus, "TranslatedKernel", found)
    monkeypatch.setattr(Policy, "decide_device", lambda *_: Decision("translated", Reason.LOADED))
    monkeypatch.setattr(on_gpus, "devices", lambda: (on_gpus.device(0),))
    for kept in (found.divided, on_gpus._loaded, on_gpus._undivided):
        kept.clear()
    yield found.divided
    for kept in (on_gpus._loaded, on_gpus._undivided):
        kept.clear()


@reversible
def squares(out: fixed, w: Array[fixed, "d"], x: Array[fixed, "n", "d"], y: Array[fixed, "n"]) -> None:
    """A regression: each pass is a row."""
    for i in range(len(y)):
        with rg.routine() as r:
            e = rg.sum(w * x[i]) - y[i]
        out += e * e
        ~r


def regression(count: int, rows: int = 9, seed: int = 1) -> tuple[Any, ...]:
    rng = np.random.default_rng(seed)
    shapes = (count, 3), (count, rows, 3), (count, rows)
    return np.zeros(count), *(rng.normal(size=shape) for shape in shapes)


def mixture(count: int, points: int) -> tuple[Any, Any, dict[str, Any]]:
    """(function, rows, arguments) of mixtures that differ by their points."""
    data = references.read_mixture(gmm.DATA / "test.txt")
    shared = {p.name: None for p in gmm.gmm_objective.parameters if p.name not in ("gamma", "m")} | {"out": 0, "x": 0}
    x = data.x[:1] + np.linspace(0, 1, count * points).reshape(count, points, 1)
    compiled, rows = words_of(gmm.gmm_objective, (np.zeros(count), *data[:3], x, *data[4:]), shared)
    return compiled, rows, {a.name: a for a in compiled.arguments}


def arrays(found: Any) -> list[Any]:
    return [np.asarray(part) for part in (found if isinstance(found, tuple) else (found,))]


# ---------------------------------------------------------------- as a user calls it


@pytest.mark.parametrize("of", [None, "w", "x"])
def test_a_regression(divided: Any, of: str | None) -> None:
    """Nine rows: eight threads. The values, and gradients by words that all passes share and by words of one pass."""
    f = squares if of is None else rg.value_and_grad(squares, of)
    arguments = regression(3)
    with recorded() as decisions:
        found = rg.vmap(f, engine="cuda")(*arguments)
    assert divided == [(8, 3)]
    assert not on_gpus._undivided
    assert "8 threads an element" in str(decisions)
    expected = rg.vmap(f, engine="native")(*arguments)
    assert all(map(np.array_equal, arrays(found), arrays(expected)))


def test_arrays_on_a_device(divided: Any) -> None:
    arguments = regression(2)
    there = rg.vmap(squares, engine="cuda")(*map(rg.on_device, arguments))
    expected = rg.vmap(squares, engine="native")(*arguments)
    assert all(map(np.array_equal, arrays(there), arrays(expected)))
    assert divided == [(8, 2)]


@pytest.mark.parametrize("name", ["Q16.16", "Q8.8"])
def test_narrow_words(divided: Any, name: str) -> None:
    first, *others = regression(3)
    arguments = first, *(other / 2 for other in others)
    gradient = rg.grad(squares, "w", scale=0)
    there, here = (rg.vmap(gradient, engine=e, format=name, precision="ignore")(*arguments) for e in ("cuda", "native"))
    assert np.array_equal(there, here)
    assert divided == [(8, 3)]
    assert not on_gpus._undivided


def test_more_elements_than_places(divided: Any) -> None:
    """One thread an element, in the kernel without teams."""
    device = on_gpus.device(0)
    places = device.threads_per_multiprocessor * device.multiprocessors
    compiled, _, _ = mixture(1, 40)
    modes = {"backward": False}
    found = [on_gpus.threads_of_instance(compiled.program, device, modes, n) for n in (1, places // 8, places // 2 + 1)]
    assert found == [32, 8, 1]


# ---------------------------------------------------------------- bits and counts


@pytest.mark.parametrize(("team", "points"), [(1, 6), (2, 6), (4, 6), (32, 6), (4, 80), (32, 80), (64, 80), (128, 80)])
def test_a_mixture(divided: Any, team: int, points: int) -> None:
    """The maximum of the terms is computed in a procedure, which has no hints at the array that it is given."""
    compiled, rows, _ = mixture(3, points)
    found = compare(compiled.program, rows, Setting(team=team, block=64), cycles=True)
    assert found.cycles is not None
    assert np.array_equal(found.cycles, on_cores.run_batch(compiled.program, rows, cycles=True).cycles)
    assert divided == ([(team, 3)] if team > 1 else [])
    assert not on_gpus._undivided


def test_a_block_for_an_element(divided: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A known length of 150 passes: 128 threads, in warps that exchange their sums; fewer where a block has no room."""
    arguments = regression(2, 150)
    expected = rg.vmap(squares, engine="native")(*arguments)
    for most in (1024, 96):
        monkeypatch.setattr(teams_on_host.HostTeamKernel, "most", most)
        before = teams_on_host.warps.block_meetings
        found = rg.vmap(squares, engine="cuda")(*arguments)
        assert all(map(np.array_equal, arrays(found), arrays(expected)))
        assert teams_on_host.warps.block_meetings > before
    there = rg.vmap(squares)(*map(rg.on_device, arguments))
    assert all(map(np.array_equal, arrays(there), arrays(expected)))
    assert divided == [(128, 2), (64, 2), (64, 2)]
    assert not on_gpus._undivided


def test_sums_of_a_block_that_overflow_on_the_way(divided: Any) -> None:
    """Partial sums of warps, none of which overflows; and a pass that traps in the last warp."""
    rows_ = np.zeros((4, 130))
    rows_[0, ::33] = 0.7e9
    rows_[1, 5], rows_[1, 40], rows_[1, 100] = 1.2e9, 1.2e9, -1.2e9
    rows_[2] = 1.0
    rows_[3, [1, 128]] = 1.4e9
    compiled, rows = words_of(total, (np.zeros(4), rows_))
    found = compare(compiled.program, rows, Setting(team=128, block=128))
    assert len(found.failed)
    assert divided == [(128, 4)]


def test_magnitudes_of_a_block_do_not_wrap(divided: Any) -> None:
    """In each thread the sums stay small, and in the program's order the second one overflows."""
    x = np.zeros((1, 513))
    x[0, 1:] = np.repeat([1.2e9, -1.2e9, 1.2e9, -1.2e9], 128)
    compiled, rows = words_of(total, (np.zeros(1), x))
    found = compare(compiled.program, rows, Setting(team=128, block=128))
    assert (divided, found.failed.tolist()) == ([(128, 1)], [0])


def test_warps_wait_before_and_after_they_read_sums() -> None:
    """A race of the host's threads would seldom be seen."""
    compiled, _ = words_of(total, (np.zeros(1), np.zeros((1, NUMBERS))))
    text = kernel_ir(compiled.program, teams=True)
    body = text[text.index("define internal i64 @team_sum(") :]
    body = body[: body.index("\n}")]
    found = re.findall(r"barrier\.sync|(?:load|store) i64[^,]*, ptr addrspace\(3\)", body)
    assert [re.split(r"[ .]", one)[0] for one in found] == ["store", "barrier", "load", "barrier"]


@reversible
def rows_of(out: fixed, w: Array[fixed, "d"], x: Array[fixed, "n", "d"], count: int, steps: int) -> None:
    """Σ of the first rows of x · w, squared, some times."""
    for _ in range(steps):
        for i in range(count):
            with rg.routine() as r:
                e = x[i] @ w
            out += e * e
            ~r


@pytest.mark.parametrize("count", [0, 1, 2, 3, 17, 30])
def test_a_length_of_the_run(divided: Any, count: int) -> None:
    """As many passes as an argument says, inside a loop with as many; a program has a kernel of teams for them."""
    x = np.random.default_rng(4).uniform(-1, 1, (2, 30, 3))
    for f in (rows_of, rg.grad(rows_of, "w")):
        found, expected = (
            rg.vmap(f, (0, None, 0, None, None), engine=engine)(np.zeros(2), np.ones(3), x, count, 2)
            for engine in ("cuda", "native")
        )
        assert all(map(np.array_equal, arrays(found), arrays(expected)))
    assert divided == [(32, 2)] * 2
    assert not on_gpus._undivided


def test_the_gradient_of_a_mixture(divided: Any) -> None:
    """Passes leave no cotangents in the arrays that they make, so they do not depend on each other."""
    compiled, rows, arguments = mixture(2, 9)
    wanted = [arguments[name] for name in ("alphas", "means", "icf")]
    made = loss_gradient_program(compiled, False, wanted, arguments["out"], 0)
    program, rows = made.compiled.program, padded(made.compiled, rows, made.compiled.program.memory)
    same(on_gpus.run_batch(program, rows), on_cores.run_batch(program, rows, threads=1))
    assert divided == [(8, 2)]
    assert not on_gpus._undivided


@reversible
def total(out: fixed, x: Array[fixed, "n"]) -> None:
    """Each pass adds a number."""
    for i in range(len(x)):
        out += x[i] * 1.5


#: numbers of a total, so many that its loop is not unrolled
NUMBERS = 40
LARGE = [1.2e9, 1.0, -1.2e9, 1.0, 1.2e9, -1.2e9, 0.5, 0.25]


def test_sums_that_overflow_on_the_way(divided: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the program's order a sum leaves its word, and in those of the threads none does."""
    x = np.array([row + [0.0] * (NUMBERS - len(row)) for row in ([1.0] * 9, LARGE, [1.4e9, 0.0, 0.7e9, -1.4e9])])
    compiled, rows = words_of(total, (np.zeros(3), x))
    setting = Setting(team=2, block=32)
    found = compare(compiled.program, rows, setting)
    assert (divided, found.failed.tolist()) == ([(2, 3)], [2])
    monkeypatch.setattr(TeamTranslator, "_weigh", lambda *_: None)
    on_gpus._loaded.clear()
    teams_on_host._address.cache_clear()
    with pytest.raises(AssertionError):
        compare(compiled.program, rows, setting)


@pytest.mark.parametrize("limit", [10, 100, 165, 400])
def test_limits(divided: Any, limit: int) -> None:
    compiled, rows = words_of(total, (np.zeros(2), np.ones((2, NUMBERS))))
    found = compare(compiled.program, rows, Setting(team=4, block=32), limit=limit, cores=False)
    assert len(found.failed) == (0 if limit > 170 else 2)


def test_a_state_that_the_program_never_has(divided: Any) -> None:
    """r18 is 1, 2, 1, 2, …: a thread that begins with 3 would count to 4 by threes, for 2^63 steps. It fails before."""
    program = rg.assemble(
        """
        .memory 4
        start
        add r250, 9
        add r249, 4
        add r251, 3
        add r18, 1
loop:   from.ne r7, r0, next
        add r7, 1
        st.add [r0], r7
inner:  from.ne r16, r0, inside
        mov.add r16, r18
inside: goto.ne r16, r249, inner
        sub r16, r249
        mov.xor r18, r251
next:   goto.ne r7, r250, loop
        finish
        """
    )
    program = replace(program, hints=Hints((), ((7, 0, 1),)))
    (loop,) = team_loops(program)
    assert loop.added == ((0, 1),)
    modes = {"backward": False, "overflow": True, "checks": True, "cycles": False, "core": "small"}
    threads = [on_gpus.threads_of_instance(program, on_gpus.device(0), modes, 2)]
    compare(program, np.zeros((2, 4), np.uint64), Setting(team=4, block=32))
    assert divided == [(4, 2)]
    assert len(on_gpus._undivided) == 1
    # Later batches have one thread an element.
    threads.append(on_gpus.threads_of_instance(program, on_gpus.device(0), modes, 2))
    assert threads == [8, 1]


# ---------------------------------------------------------------- random loops

#: of a random loop: words that passes add to, words that they store to, and words that they read
ADDED, STORED, READ, MEMORY = range(4, 12), range(12, 20), range(20, 60), 64
#: statements of a pass, mostly of passes that do not depend on each other
GOOD = (
    "ld.add r8, [r7 + {read}]\n st.add [r0 + {added}], r8\n ld.sub r8, [r7 + {read}]",
    "ld.add r8, [r7 + {read}]\n st.sub [r9 + {added}], r8\n ld.sub r8, [r7 + {read}]",
    "ld.add r8, [r7 + {read}]\n mul.add r14, r8, r7\n ld.sub r8, [r7 + {read}]",
    "swap r14, r1\n call double\n swap r14, r1",
    "exch r10, [r0 + {stored}]\n add r10, {small}\n st.add [r0 + {added}], r7\n sub r10, {small}\n"
    "exch r10, [r0 + {stored}]",
    "ld.add r11, [r0 + {stored}]\n add r15, 3\n sub r14, r7\n ld.sub r11, [r0 + {stored}]",
    "inner: from.ne r16, r0, inside\n add r16, 1\n ld.add r8, [r16 + {read}]\n st.add [r0 + {added}], r8\n"
    "ld.sub r8, [r16 + {read}]\n inside: goto.ne r16, r249, inner\n sub r16, r249",
    "add r9, 1\n st.add [r0 + {added}], r9\n sub r9, 1",
    "add r12, 2",
)
BAD = (
    "ld.add r8, [r0 + {added}]\n st.add [r0 + {added}], r7\n ld.sub r8, [r0 + {added}]",
    "ld.add r8, [r0 + {stored}]\n st.add [r0 + {added}], r8\n exch r8, [r0 + {stored}]\n add r8, 1",
    "st.xor [r0 + {stored}], r7",
    "add r13, r7",
    "mul.add r13, r12, r7\n mul.add r12, r13, r7",
    "add r14, r15",
)


def random_loop(rng: random.Random) -> rg.Program:
    """A loop of some passes, with hints at its accesses, of which few are wrong or missing."""
    body = []
    for k in range(rng.randint(1, 4)):
        kind = rng.choice(BAD if rng.random() < 0.06 else GOOD)
        named = {name: rng.choice(places) for name, places in (("added", ADDED), ("stored", STORED))}
        text = kind.format(**named, read=rng.randrange(20, 40), small=rng.randrange(1, 9))
        body.append(text.replace("inner", f"inner{k}").replace("inside", f"inside{k}"))
    lines = "\n ".join(body)
    program = rg.assemble(
        f".memory {MEMORY}\n proc double, r20\n add r1, r7\n endproc\n start\n add r250, {rng.randint(2, 9)}\n"
        f"add r249, 3\n add r14, 5\nloop: from.ne r7, r0, next\n add r7, 1\n {lines}\n"
        f"next: goto.ne r7, r250, loop\n st.add [r0 + 2], r14\n st.add [r0 + 3], r13\n finish\n"
    )
    accesses = []
    for at, i in enumerate(program.instructions):
        if "[ra+imm]" in i.opcode.operands and rng.random() < 0.99:
            place = next((found for found in (ADDED, STORED, READ) if i.imm in found), range(4))
            wrong = rng.random() < 0.01
            accesses.append((at, rng.randrange(MEMORY - 8) if wrong else place.start, 8 if wrong else len(place)))
    return replace(program, hints=Hints((), tuple(accesses)))


def check_random_loops(seeds: range, divided: list[tuple[int, int]]) -> tuple[int, int]:
    """(loops that teams executed, those that they could divide)"""
    executed = 0
    for seed in seeds:
        print(f"seed {seed}")
        rng = random.Random(seed)
        program = random_loop(rng)
        rows = np.random.default_rng(seed).integers(0, 1 << 40, (3, MEMORY), dtype=np.uint64)
        rows[:, : STORED.stop] = 0
        if seed % 3 == 0:
            rows[:, STORED.start : STORED.stop] = 7
        if seed % 5 == 0:
            rows[1, rng.choice(READ)] = (1 << 63) - 3
        executed += bool(team_loops(program))
        compare(program, rows, Setting(team=rng.choice([2, 4, 8]), block=32))
    return executed, len(on_gpus._undivided)


def test_random_loops(divided: Any) -> None:
    executed, alone = check_random_loops(range(LOOPS), divided)
    assert executed > LOOPS // 2
    assert alone < executed // 2


@pytest.mark.long
@pytest.mark.parametrize("first", range(0, SLOW, SLOW_CHUNK))
def test_many_random_loops(divided: Any, first: int) -> None:
    check_random_loops(range(1000 + first, 1000 + first + SLOW_CHUNK), divided)


# ---------------------------------------------------------------- planted faults


def never(self: Any, *_: Any) -> Any:
    return self.code.constant(I1, 1)


#: a pass that counts in a word to which it stores, and a pass that reads a word to which it adds
COUNTS = "exch r8, [r0 + 12]\n add r8, 1\n st.add [r0 + 4], r8\n exch r8, [r0 + 12]"
READS = "ld.add r8, [r0 + 4]\n st.add [r0 + 4], r7\n st.add [r0 + 5], r8\n erase r8"


@pytest.mark.parametrize(
    ("owner", "name", "fault", "body"),
    [
        (TeamTranslator, "_holds", never, COUNTS),
        (teams._Analysis, "_only_adds", lambda *_: True, READS),
    ],
    ids=["states", "sums"],
)  # fmt: skip
def test_planted_faults_are_found(
    monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, fault: Any, body: str
) -> None:
    program = rg.assemble(
        f".memory {MEMORY}\n start\n add r250, 7\nloop: from.ne r7, r0, next\n add r7, 1\n {body}\n"
        "next: goto.ne r7, r250, loop\n finish\n"
    )
    accesses = [
        (at, ADDED.start if i.imm in ADDED else STORED.start, 8)
        for at, i in enumerate(program.instructions)
        if "[ra+imm]" in i.opcode.operands
    ]
    program = replace(program, hints=Hints((), tuple(accesses)))
    rows, setting = np.ones((2, MEMORY), np.uint64), Setting(team=4, block=32)
    compare(program, rows, setting)
    monkeypatch.setattr(owner, name, fault)
    for kept in (on_gpus._loaded, on_gpus._undivided):
        kept.clear()
    teams._known_loops.cache_clear()
    with pytest.raises(AssertionError):
        compare(program, rows, setting)
    teams._known_loops.cache_clear()


def test_threads_for_a_loop() -> None:
    """A power of two, at most a thread a pass behind the first one; short loops have one.

    Long loops have a block, where the memories of its threads have room.
    """
    found = {points: most_threads(mixture(1, points)[0].program, False) for points in (2, 7, 8, 9, 17, 40, 70)}
    assert found == {2: 1, 7: 1, 8: 4, 9: 8, 17: 16, 40: 32, 70: 64}
    for rows, threads in ((150, 128), (1100, 32)):
        compiled, _ = words_of(squares, regression(1, rows))
        assert most_threads(compiled.program, False) == threads
        assert threads * compiled.program.memory <= teams.MOST_COPIED or threads == 32
    compiled, _ = words_of(bessel.bessel, (np.zeros(1), np.ones(1)))
    assert not team_loops(compiled.program)
    compiled, _ = words_of(
        rows_of, (np.zeros(1), np.ones((1, 3)), np.ones((1, 30, 3)), np.ones(1, int), np.ones(1, int))
    )
    assert most_threads(compiled.program, False) == 32
    (loop,) = team_loops(compiled.program)
    inside = compiled.program.instructions[loop.landing[0] : loop.closing[0] + 1]
    assert [i.opcode.name for i in inside if i.opcode.name.startswith("goto")] == ["goto.ne"]
