"""Rows that compiled code converts: words, numbers and errors are those of the conversions of whole arrays."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from retrograd.isa.words import Format
from retrograd.simulator.engines import tiering
from retrograd.simulator.engines.batch import cpu, loops
from retrograd.simulator.engines.batch.layout import BatchLayout, ResultArray
from retrograd.simulator.engines.llvm.jit import jit_compiler

import retrograd as rg
from retrograd import Array, fixed, reversible
from retrograd.runtime import _batch_runs as batch_runs
from retrograd.runtime._arrays import WordArray
from tests.simulator.engines.batch.test_batch import COUNTDOWN

FORMATS = ["Q2.2", "Q4.4", "Q8.8", "Q4.12", "Q16.16", "Q8.24", "Q32.32", "Q16.48", "Q1.63"]
#: lanes are for words that fill their bytes
EACH = [(lanes, w) for lanes in (1, 8) for w in FORMATS if lanes == 1 or Format.named(w).width > 4]


@reversible
def add(y: fixed, x: fixed):
    y += x


@reversible
def halves(y: Array[fixed, 2, 3], x: Array[fixed, 2, 3], n: int):
    for i in range(2):
        for j in range(3):
            y[i, j] += x[i, j] * 0.5
    n += 1


@reversible
def product(y: fixed, x: fixed, z: fixed):
    y += x * z


@reversible
def root(y: fixed, x: fixed):
    y += rg.sqrt(x)


#: numbers about the smallest of a format are converted
pytestmark = pytest.mark.filterwarnings("ignore::retrograd.isa.diagnostics.PrecisionWarning")


@pytest.fixture(params=[1, 8], ids=["alone", "lanes"], autouse=True)
def lanes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(jit_compiler(), "lanes", request.param)
    monkeypatch.setattr("retrograd.simulator.engines.tiering.policy.costs.lanes", 0.0)
    # The code for lanes is there at once.
    monkeypatch.setattr("retrograd.simulator.engines.tiering.policy.costs.wait", math.inf)
    return int(request.param)


def bits(value: Any) -> Any:
    """All that makes a result: type, shape, the bits of its numbers, and words beside them."""
    if isinstance(value, tuple):
        return [bits(v) for v in value]
    words = value.words("fixed", value._format) if isinstance(value, WordArray) else None
    return type(value), value.dtype, value.shape, value.tobytes(), None if words is None else words.tolist()


def same(found: Any, expected: Any) -> None:
    assert bits(found.values) == bits(expected.values)
    assert found.matrix.dtype == expected.matrix.dtype == np.uint64
    assert found.matrix.tolist() == expected.matrix.tolist()
    for name, words in expected.words.items():
        assert found.words[name].tolist() == words.tolist()
    assert (found.steps.tolist(), found.erased_bits.tolist()) == (
        expected.steps.tolist(),
        expected.erased_bits.tolist(),
    )


def numbers(w: Format) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Numbers with words: random ones, both ends, ties between two words, integers about 2^53, zeros, subnormals."""
    unit, high = 2.0**-w.frac, float(w.sign)
    units = [
        0.0,
        -0.0,
        0.5,
        -0.5,
        1.5,
        2.5,
        -1.5,
        0.49999999999999994,
        5e-324,
        -high,
        -high - 0.5,
        -high + 0.5,
        high - 1,
    ]
    units += [k + sign * 2.0**53 for k in (-1, 0, 1, 2) for sign in (-1, 1)]
    rng = np.random.default_rng(w.width * 64 + w.frac)
    units += [*rng.uniform(-high, high, 20), *rng.normal(size=20)]
    fit = [u for u in units if -high - 0.5 <= u and np.rint(u) < high]
    return np.array(fit) * unit


@pytest.mark.parametrize(("lanes", "format"), EACH, indirect=["lanes"])
def test_numbers_are_converted_as_whole_arrays_are(format: str) -> None:
    w = Format.named(format)
    xs = numbers(w)
    found, expected = (
        rg.run_batch(add, np.zeros(len(xs)), xs, format=w, engine=e) for e in ("translated", "reference")
    )
    same(found, expected)
    assert found.words["x"].ravel().tolist() == rg.fixed.to_words(xs, w).tolist()
    back = rg.run_batch(~add, *found.values, format=w, engine="translated")
    assert back.words["x"].tolist() == found.words["x"].tolist()
    assert not back.words["y"].any()


@pytest.mark.parametrize(("lanes", "format"), EACH, indirect=["lanes"])
def test_numbers_without_a_word_are_refused(format: str) -> None:
    w = Format.named(format)
    unit, high = 2.0**-w.frac, float(w.sign)
    least = np.nextafter(high - 0.5, 0)
    wrong = [np.nan, np.inf, -np.inf, high * unit, 1e308, np.nextafter(-high - 0.5, -np.inf) * unit]
    # From 2^53 on there is no number between the last word and the first that does not fit.
    wrong += [] if least == np.rint(least) else [(high - 0.5) * unit]
    for bad in wrong:
        for at in (0, 11):
            xs, ys = np.zeros(12), np.zeros(12)
            xs[at] = bad
            for args in ((ys, xs), (xs, xs)):
                errors = []
                for engine in ("translated", "reference"):
                    with pytest.raises(rg.InputError) as error:
                        rg.run_batch(add, *args, format=w, engine=engine)
                    errors.append((type(error.value), str(error.value)))
                assert errors[0] == errors[1]


def test_the_error_is_that_of_the_first_argument() -> None:
    xs = np.zeros((2, 2, 3))
    xs[1, 0, 2] = np.nan
    for engine in ("translated", "reference"):
        with pytest.raises(rg.InputError, match="`x`"):
            rg.run_batch(halves, np.zeros((2, 2, 3)), xs, [0, 1 << 70], engine=engine)


ARRAYS: dict[str, Any] = {
    "reversed": lambda a: a[::-1],
    "every other": lambda a: np.repeat(a, 2, axis=0)[::2],
    "Fortran order": np.asfortranarray,
    "inner axes swapped": lambda a: np.ascontiguousarray(a.swapaxes(1, 2)).swapaxes(1, 2),
    "columns reversed": lambda a: a[:, :, ::-1],
    "broadcast": lambda a: np.broadcast_to(a[:1], a.shape),
    "read-only": lambda a: np.frombuffer(a.tobytes()).reshape(a.shape),
    "not aligned": lambda a: np.frombuffer(b"." + a.tobytes(), dtype=np.uint8)[1:].view(np.float64).reshape(a.shape),
    "other bytes": lambda a: a.astype(">f8"),
    "float32": lambda a: a.astype(np.float32),
    "longdouble": lambda a: a.astype(np.longdouble),
    "integers": lambda a: np.rint(a).astype(np.int64),
    "list": lambda a: a.tolist(),
}


@pytest.mark.parametrize("how", list(ARRAYS))
@pytest.mark.parametrize("axis", [0, 2])
def test_strides(how: str, axis: int) -> None:
    xs = ARRAYS[how](np.random.default_rng(5).normal(size=(10, 2, 3)))
    there = np.array(xs, dtype=np.float64)
    expected = rg.run_batch(halves, np.ones((10, 2, 3)), there, np.arange(10), engine="reference")
    given = xs if axis == 0 else np.moveaxis(np.asarray(xs), 0, axis)
    axes = {"x": axis}
    same(rg.run_batch(halves, np.ones((10, 2, 3)), given, np.arange(10), in_axes=axes, engine="translated"), expected)


def test_words_stay_beside_numbers() -> None:
    """A number with more bits than a float64 keeps its word, through runs and where values are written over."""
    w = "Q1.63"
    xs = np.array([0.1, 0.7, -0.3, 2.0**-10] * 4)
    there = rg.run_batch(add, xs / 4, xs / 8, format=w, engine="translated")
    words, ys = there.matrix.copy(), there.values.y
    same(rg.run_batch(add, *there.values, format=w, engine="translated", overflow=False),
         rg.run_batch(add, *there.values, format=w, engine="reference", overflow=False))  # fmt: skip
    ys[:] = 0.5
    assert there.matrix.tolist() == words.tolist()
    limit = 2.0 ** (53 - 32)
    for x in (limit, -limit, limit + 2.0**-31, limit + 1):
        found = rg.run_batch(add, np.zeros(9), np.full(9, x), engine="translated").values.x
        expected = rg.run_batch(add, np.zeros(9), np.full(9, x), engine="reference").values.x
        assert bits(found) == bits(expected), x


@pytest.mark.parametrize(("lanes", "format"), EACH, indirect=["lanes"])
def test_gradients_are_numbers(format: str) -> None:
    w = Format.named(format)
    rng = np.random.default_rng(3)
    xs, zs = (0.5 * rng.normal(size=20).clip(-0.9, 0.9) for _ in range(2))
    for scale in (0, 2) if w.width - w.frac > 4 else (0,):
        for make in (rg.grad, rg.value_and_grad):
            f = make(product, ("x", "z"), scale=scale, format=w)
            if w.width == w.frac + 1:
                continue  # no word is 1, the cotangent of the loss
            found, expected = (rg.vmap(f, engine=e)(np.zeros(20), xs, zs) for e in ("translated", "reference"))
            assert bits(found) == bits(expected)
            shared = [rg.vmap(f, (0, 0, None), engine=e)(np.zeros(20), xs, 0.5) for e in ("translated", "reference")]
            assert bits(shared[0]) == bits(shared[1])


def test_rows_of_several_engines_are_one_result(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows by a machine, by the loop, and by a machine again where they trap."""
    monkeypatch.setattr(tiering, "policy", tiering.Policy(tiering.Costs(lanes=0.0)))
    xs = np.arange(2000.0)
    xs[[3, 1500, 1999]] = -1.0
    found, expected = (rg.run_batch(root, xs * 0, xs, engine=e, traps="return") for e in ("auto", "reference"))
    assert found.engine == "translated"
    same(found, expected)
    assert list(found.traps) == list(expected.traps) == [3, 1500, 1999]
    assert [str(t) for t in found.traps.values()] == [str(t) for t in expected.traps.values()]
    # As numbers, too, a row that trapped is as it was given.
    assert (found.values.x[1500], found.values.y[1500], found.steps[1500]) == (-1.0, 0.0, 0)


def test_arrays_of_a_caller() -> None:
    """Each array may hold words or numbers, in any strides; columns beside those of a range stay as they were."""
    program = rg.assemble(
        ".memory 4\nstart\nld.add r1, [r0]\nst.add [r0 + 1], r1\nst.add [r0 + 2], r1\nld.sub r1, [r0]\nfinish"
    )
    w, n = program.format, 21
    table = np.zeros((n, 5))
    table[:, 2] = np.arange(n)
    wide = np.full((n, 9), 7, dtype=np.uint64)
    layout = BatchLayout(((0, 1), (1, 1)), ((2, 1), (1, 1)))
    kept = [ResultArray(wide[:, 4:5], None, w), ResultArray(None, np.zeros((n, 1)), w, 3)]
    given = [table[:, 2:3], np.arange(n, dtype=np.uint64).reshape(n, 1)[::-1]]
    ran = cpu.RowRuns(program, layout)(n, given, kept, np.zeros(0, dtype=np.uint64))
    words = np.arange(n, dtype=np.uint64) << np.uint64(32)
    assert wide[:, 4].tolist() == words.tolist()
    assert (np.delete(wide, 4, axis=1) == 7).all()
    assert kept[1].reals is not None
    assert (kept[1].reals[:, 0] * 2.0**35).tolist() == (words + np.arange(n, dtype=np.uint64)[::-1]).tolist()
    assert (ran.lost_words, ran.cycles, ran.failed.tolist(), ran.refused) == (None, None, [], False)


@reversible
def line(y: fixed, x: fixed, slope: Array[fixed, 2], moved: fixed):
    """`slope` stays as it is; `moved` is changed, and `x` is put back."""
    with rg.routine() as r:
        t = x * slope[0] + slope[1]
    y += t
    ~r
    moved += 1
    x += slope[1]
    x -= slope[1]


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("trapped", [False, True])
def test_arguments_that_stay_the_same_are_one_view(backward: bool, trapped: bool) -> None:
    """Values and words are those of each element's own run, also of elements that trap and of arguments that change."""
    f = ~line if backward else line
    xs, slope = np.linspace(-2.0, 2.0, 19), np.array([0.3, -0.7])
    xs[5] = 2.0**31 - 1 if trapped else 0.25
    slope *= 4
    axes = {"slope": None, "moved": None}
    ran = [
        rg.run_batch(f, np.zeros(19), xs, slope, 3.0, in_axes=axes, engine=e, traps="return")
        for e in ("translated", "reference")
    ]
    same(*ran)
    assert list(ran[0].traps) == list(ran[1].traps) == [5] * trapped
    for i in set(range(19)) - {5}:
        alone = rg.run(f, 0.0, xs[i], slope, 3.0)
        assert [np.asarray(v[i]).tolist() for v in ran[0].values] == [np.asarray(v).tolist() for v in alone.values]
    assert ran[0].values.slope.shape == (19, 2)
    assert not ran[0].values.slope.flags.writeable
    assert ran[0].values.x.flags.writeable
    moved = set(ran[0].values.moved.tolist()) - {3.0}
    assert moved == {2.0 if backward else 4.0}


def test_the_view_is_of_the_words() -> None:
    """A shared number that is between two words comes back as its word."""
    found = rg.run_batch(product, np.zeros(9), np.ones(9), 0.1, in_axes=(0, 0, None), engine="translated")
    assert found.values.z.tolist() == [round(0.1 * 2**32) / 2**32] * 9
    assert found.words["z"].ravel().tolist() == rg.fixed.to_words(np.full(9, 0.1), found.compiled.format).tolist()


@pytest.mark.parametrize("format", [w for w in FORMATS if Format.named(w).width > 8])
def test_rows_are_large_exactly_if_a_float_may_not_hold_one(format: str) -> None:
    w = Format.named(format)
    near = {s * (1 << k) + d for s in (-1, 1) for k in (0, 4, 15, 31, 52, 53, 54, 63) for d in (-1, 0, 1)}
    for number in sorted(n for n in near if -w.sign <= n < w.sign):
        for others in ([], [0], [-1, 1]):
            words = np.array([w.wrap(n) for n in (*others, number)], np.uint64)
            found = ResultArray(None, np.zeros(len(words)), w)
            found.put(slice(None), words)
            assert found.large == (abs(number) > 1 << 53), (number, others)
            if not found.large:
                assert found.reals is not None
                assert found.reals.tolist() == [n * 2.0**-w.frac for n in (*others, number)]


@pytest.mark.parametrize(("lanes", "format"), EACH, indirect=["lanes"])
def test_vmap_has_the_words_of_the_runs(format: str) -> None:
    """Results that are numbers alone have words where a number has more than 53 bits, and where an element traps."""
    w = Format.named(format)
    xs = numbers(w)
    for some in (xs, xs[np.abs(xs) < 2.0 ** (52 - w.frac)]):
        found, expected = (
            rg.vmap(add, engine=e, format=w)(np.zeros(len(some)), some) for e in ("translated", "reference")
        )
        assert [bits(one) for one in found] == [bits(one) for one in expected]
    if w.width - w.frac < 4:
        return
    given = np.arange(40.0).clip(0, 3)
    given[[7, 30]] = -1.0
    expected = rg.run_batch(root, given * 0, given, engine="reference", format=w, traps="return")
    for engine in ("translated", "reference"):
        with pytest.raises(rg.ElementTrap) as trap:
            rg.vmap(root, engine=engine, format=w)(given * 0, given)
        same(trap.value.result, expected)
        assert list(trap.value.result.traps) == list(expected.traps) == [7, 30]


def test_only_elements_of_more_than_53_bits_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    counts: list[int] = []
    run_rows = batch_runs.run_rows

    def counted(request: Any, compiled: Any, loaded: Any, *rest: Any, **more: Any) -> Any:
        counts.append(len(loaded))
        return run_rows(request, compiled, loaded, *rest, **more)

    monkeypatch.setattr(batch_runs, "run_rows", counted)
    xs = np.arange(100.0)
    step = rg.vmap(add, engine="translated")
    step(np.zeros(100), xs)
    assert counts == [100]
    xs[[3, 90]] = 2.0**21 + 0.5
    found = step(np.full(100, 2.0**-32), xs)
    assert counts == [100, 100, 2]
    assert rg.fixed.to_words(found.y, Format.named("Q32.32")).tolist() == [(int(x * 2) << 31) + 1 for x in xs]
    roots, large = np.ones(9), np.zeros(9)
    roots[[3, 7]], large[3] = -1.0, 2.0**22
    with pytest.raises(rg.ElementTrap, match="element 3:") as trap:
        rg.vmap(root, engine="translated")(large, roots)
    assert list(trap.value.result.traps) == [3, 7]


@pytest.mark.parametrize("masks", [True, False])
@pytest.mark.parametrize("odd", [0, 1, 7])
@pytest.mark.parametrize("count", [1, 5, 8, 24, 128, 131, 300])
def test_blocks_of_groups(lanes: int, count: int, odd: int, masks: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each group has its own memory, results, counts and sums; `odd` rows take other ways, or do not end."""
    monkeypatch.setattr(loops, "_loops", {})
    monkeypatch.setattr(jit_compiler(), "diverging", masks)
    # Code is kept by the number of lanes, and not by whether they diverge.
    monkeypatch.setattr(jit_compiler(), "lanes", lanes if masks else min(lanes, 4))
    program, rng = rg.assemble(COUNTDOWN), np.random.default_rng(count)
    passes, start = np.full(count, 3), rng.integers(-(2**40), 2**40, count)
    passes[rng.integers(0, count, odd)] = rng.integers(1, 9, odd)
    passes[rng.integers(0, count, odd // 3)] = 0
    ended = passes > 0
    layout = BatchLayout(((0, 1), (1, 1), (3, 1)), ((1, 1), (2, 1), (1, 1), (3, 1)), ((1, 1), (0, 1)))
    given = [passes.astype(np.uint64)[:, None], np.repeat(start * 2.0**-32, 2)[::2, None]]
    given.append(start.astype(np.uint64)[::-1, None])
    both, third, reals = np.zeros((count, 2), np.uint64), np.zeros((count, 1), np.uint64), np.zeros((count, 1))
    arrays = [(both[:, :1], None), (third, None), (None, reals), (both[:, 1:], None)]
    kept = [ResultArray(words, numbers, program.format) for words, numbers in arrays]
    runs, shared = cpu.RowRuns(program, layout), np.array([0, 0, 77], dtype=np.uint64)
    for _ in range(2):
        ran = runs(count, given, kept, shared, limit=10_000)
        total = np.where(ended, start + passes * (passes + 1) // 2, 0)
        assert ran.failed.tolist() == np.flatnonzero(~ended).tolist()
        assert both.view(np.int64).tolist() == np.stack([total, np.where(ended, start[::-1], 0)], axis=1).tolist()
        assert (third[:, 0].tolist(), (reals[:, 0] * 2.0**32).tolist()) == ((77 * ended).tolist(), total.tolist())
        assert ran.sums == [int(total.sum()), int(passes.sum())]
        assert ran.steps[ended].tolist() == [4 * int(k) + 4 for k in passes[ended]]
    assert loops.groups_of(4) == 16


def test_a_number_without_a_word_in_a_block() -> None:
    """Its instance is refused; the others of the block run."""
    program = rg.assemble(".memory 2\nstart\nld.add r1, [r0]\nst.add [r0 + 1], r1\nld.sub r1, [r0]\nfinish")
    xs, kept = np.arange(200.0), ResultArray(None, reals := np.zeros((200, 1)), program.format)
    xs[[9, 150]] = np.nan
    ran = cpu.RowRuns(program, BatchLayout(((0, 1),), ((1, 1),)))(200, [xs[:, None]], [kept], np.zeros(0, np.uint64))
    assert (ran.refused, ran.failed.tolist(), reals[:, 0].tolist()) == (True, [9, 150], np.nan_to_num(xs).tolist())
    assert ran.steps.tolist() == [0 if np.isnan(x) else 4 for x in xs]
