"""Programs as source for `numba.njit`, beside the translation of the CPU: the same words, steps and words lost, row by row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from retrograd.examples import bessel, bundle_adjustment, hypot
from retrograd.isa.program import Program
from retrograd.simulator.engines.batch import cpu
from retrograd.simulator.engines.cuda.interpreter import interpreter_source
from support import generator, program_source

import retrograd as rg
from retrograd.runtime._batch_arguments import Batch
from retrograd.runtime._execution import Request

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")

#: rows of a batch
ROWS = 20_000
#: random programs, plain Python in the default tier
PROGRAMS, SLOW = 12, 24


@pytest.fixture(autouse=True)
def transformations() -> None:
    """Nothing is skipped here: each test runs once in the full tier, too."""


def program_of(function: Any, *args: Any) -> tuple[Program, NDArray[np.uint64]]:
    """The program of a function, and a batch as words."""
    batch = Batch(Request(function), args, {}, 0)
    compiled = function.compiled_for(batch.types())
    return compiled.program, np.asarray(batch.words(compiled).matrix)


def check(program: Program, words: NDArray[np.uint64], **options: Any) -> int:
    """The number of rows that end, all of them equal to those of the CPU's batch."""
    device = options.pop("device", None)
    found, report = program_source.run(program, words, device=device, **options)
    expected = cpu.run_batch(program, words, **options)
    ended = np.setdiff1d(np.arange(len(words)), expected.failed)
    assert np.flatnonzero(report[:, 0]).tolist() == expected.failed.tolist()
    assert np.array_equal(found[ended], expected.rows[ended])
    assert np.array_equal(report[ended, 1], expected.steps[ended])
    assert expected.lost_words is not None
    assert np.array_equal(report[ended, 2], expected.lost_words[ended])
    return len(ended)


def numbers(low: float, high: float, count: int = ROWS) -> NDArray[np.float64]:
    return np.random.default_rng(5).uniform(low, high, count)


@pytest.mark.long
def test_hypot() -> None:
    program, words = program_of(hypot.hypot, np.zeros(ROWS), numbers(-50_000, 50_000), numbers(0, 9))
    assert check(program, words) > ROWS // 2


@pytest.mark.long
def test_hypot_backward_and_unchecked() -> None:
    program, words = program_of(hypot.hypot, np.zeros(ROWS), numbers(-50_000, 50_000), numbers(0, 9))
    check(program, cpu.run_batch(program, words).rows, backward=True)
    assert check(program, words, overflow=False) >= check(program, words)


@pytest.mark.long
@pytest.mark.parametrize("name", ["bessel", "project"])
def test_examples(name: str) -> None:
    if name == "bessel":
        program, words = program_of(bessel.bessel, np.zeros(ROWS), numbers(0.1, 3))
    else:
        args = (
            np.zeros((ROWS, 2)),
            numbers(0.5, 2, 11 * ROWS).reshape(ROWS, 11),
            numbers(1, 3, 3 * ROWS).reshape(ROWS, 3),
        )
        program, words = program_of(bundle_adjustment.project, *args)
    assert check(program, words) > ROWS // 2


def rows_of(case: Any, count: int) -> NDArray[np.uint64]:
    """Rows of a random program's memory, with its own words in the first."""
    width = max(1, len(case.memory))
    out = np.random.default_rng(case.seed).integers(0, 1 << 62, (count, width), dtype=np.uint64)
    out &= np.uint64(case.program.format.mask)
    out[0] = (case.memory or [0])[:width]
    out[1] = 0
    return out


@pytest.mark.long
def test_random_programs_in_python() -> None:
    ended = 0
    for seed in range(PROGRAMS):
        case = generator.generate(seed, sizes=(10, 40))
        for backward in (False, True):
            ended += check(case.program, rows_of(case, 6), backward=backward, device=lambda f: f)
    assert ended > PROGRAMS


@pytest.mark.long
@pytest.mark.parametrize("seed", range(SLOW))
def test_random_programs(seed: int) -> None:
    case = generator.generate(1000 + seed, sizes=(10, 40))
    check(case.program, rows_of(case, ROWS))


# ---------------------------------------------------------------- the interpreter itself, in machine code

LOOP = """
@device
def rows(code, words, out, memory, n, limit, modes, report):
    for i in range(words.shape[0]):
        memory[:] = 0
        for k in range(words.shape[1]):
            memory[k] = words[i, k]
        report[i, 0], report[i, 1], report[i, 2], report[i, 3] = interpret(code, memory, S(0), S(1), n, limit, modes)
        for k in range(words.shape[1]):
            out[i, k] = memory[k]
"""


def interpreted(program: Program, words: NDArray[np.uint64]) -> None:
    """The interpreter's source, compiled with the handlers of a program, beside the CPU's batch: cycles, too."""
    import numba
    from retrograd.simulator.engines.cuda.interpreter import Modes, decoded

    names = {i.opcode.name for i in program.instructions} | {
        program.table.inverse(i.opcode).name for i in program.instructions
    }
    text = interpreter_source(program.format, only=names).replace("cuda.local.array", "np.empty") + LOOP
    scope: dict[str, Any] = {"device": numba.njit(error_model="numpy")}
    exec(text, scope)
    given, report = program_source.signed(words, program.format), np.zeros((len(words), 4), np.int64)
    out, memory = np.zeros_like(given), np.zeros(program.memory + 1, np.int64)
    modes = Modes.CHECKS | Modes.OVERFLOW | Modes.CYCLES
    scope["rows"](decoded(program, cycles=True), given, out, memory, program.memory, 1 << 40, int(modes), report)
    expected = cpu.run_batch(program, words, cycles=True)
    ended = np.setdiff1d(np.arange(len(words)), expected.failed)
    assert len(ended) > len(words) // 2
    assert np.flatnonzero(report[:, 0]).tolist() == expected.failed.tolist()
    assert np.array_equal(out[ended].view(np.uint64), expected.rows[ended])
    assert expected.cycles is not None
    assert np.array_equal(report[ended][:, [1, 3]], np.stack([expected.steps[ended], expected.cycles[ended]], 1))


@pytest.mark.long
@pytest.mark.parametrize("name", ["hypot", "bessel"])
def test_the_interpreter_compiled(name: str) -> None:
    if name == "hypot":
        interpreted(*program_of(hypot.hypot, np.zeros(ROWS), numbers(-50_000, 50_000), numbers(0, 9)))
    else:
        interpreted(*program_of(bessel.bessel, np.zeros(ROWS), numbers(0.1, 3)))


#: a product, a quotient, a selection, and guards that hold in the first row alone
PRODUCT = """
        .memory 4
        start
        ld.add r1, [r0]
        ld.add r2, [r0 + 1]
        fmul.add r3, r1, r2
        fdiv.add r4, r1, r2
        max.add r5, r3, r4
        st.add [r0 + 2], r5
        st.add [r0 + 3], r4
        finish
"""


@pytest.mark.parametrize("planted", ["high_word", "long_quotient", "choose", "guard"])
def test_a_planted_fault_is_found(planted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def device(function: Callable[..., Any]) -> Callable[..., Any]:
        def wrong(*args: Any) -> Any:
            found = function(*args)
            return (found[0], found[1] ^ 1, found[2]) if isinstance(found, tuple) else found ^ 1

        return wrong if function.__name__ == planted else function

    words = np.array([[3 << 32, (5 << 32) + 1, 0, 0], [7 << 61, 2 << 62, 0, 0], [9 << 35, 0, 0, 0]], np.uint64)
    program = rg.assemble(PRODUCT)
    assert check(program, words, device=lambda f: f) == 1
    if planted == "guard":
        text = program_source.ProgramSource.text
        monkeypatch.setattr(
            program_source.ProgramSource, "text", lambda self: text(self).replace("(checks & (not", "(False & (not")
        )
    with pytest.raises(AssertionError):
        check(program, words, device=device)
