"""Numbers become words on the device, and words become numbers, as on the host: bits, errors and warnings."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest
from retrograd.isa.diagnostics import InputError, PrecisionWarning
from retrograd.simulator.engines.batch.layout import BatchLayout, ResultArray
from retrograd.simulator.engines.cuda import batch
from retrograd.simulator.engines.cuda.batch import Setting, run_arrays

import retrograd as rg
from retrograd import Array, Format, fixed, reversible
from retrograd.runtime._arrays import fixed_words, nearest_reals
from retrograd.runtime._marshal import Losses

MODES = {"backward": False, "overflow": True, "checks": True, "cycles": False, "core": "small"}
FORMATS = (Format(64, 32), Format(32, 16), Format(16, 8), Format(8, 4), Format(64, 0), Format(64, 63))


def hard_numbers(w: Format) -> Any:
    """Ties, neighbours of ties and of both ends of the range, subnormal numbers, and all sizes between."""
    rng, unit = np.random.default_rng(w.width + w.frac), 2.0**-w.frac
    high = math.ldexp(w.sign, -w.frac)
    ties = (rng.integers(-min(w.sign, 1 << 40), min(w.sign, 1 << 40) - 1, 40) + 0.5) * unit
    ends = np.array([high, -high, high - unit, high - unit / 2, -high - unit / 2, -high - unit, -high + unit / 4])
    sizes = rng.normal(size=60) * 2.0 ** rng.integers(-60, 70, 60)
    others = np.array([0.0, -0.0, 5e-324, -5e-324, np.inf, -np.inf, np.nan, 2.0**62 * unit, 2.0**53 * unit + unit])
    every = np.concatenate([ties, ends, sizes, others])
    return np.concatenate([every, np.nextafter(every, np.inf), np.nextafter(every, -np.inf)])


def word_of(x: float, w: Format) -> int | None:
    """The host's word of a number; None where the host refuses it."""
    try:
        return int(fixed_words(np.array([x]), w)[0])
    except InputError:
        return None


def copied(w: Format, given: Any, piece: int = 100) -> tuple[Any, ResultArray]:
    """(the counts, the results) of a program that does nothing, on one number for each instance."""
    count = len(given)
    result = ResultArray(np.zeros((count, 1), np.uint64), np.zeros((count, 1)), w)
    program = rg.assemble(".memory 1\nstart\nfinish\n", format=w)
    layout = BatchLayout.first(1)
    counts = run_arrays(
        program, layout, count, [given.reshape(count, 1)], [result], None, modes=MODES, setting=Setting(piece=piece)
    )
    return counts, result


@pytest.mark.parametrize("w", FORMATS, ids=str)
def test_numbers_and_words(tier: str, w: Format) -> None:
    numbers = hard_numbers(w)
    counts, result = copied(w, numbers)
    words = [word_of(x, w) for x in numbers.tolist()]
    assert counts.failed.tolist() == [i for i, word in enumerate(words) if word is None]
    assert counts.refused
    ended = np.setdiff1d(np.arange(len(numbers)), counts.failed)
    assert len(ended) > 20
    assert result.words is not None
    assert result.reals is not None
    assert result.words[ended, 0].tolist() == [words[i] for i in ended]
    expected = nearest_reals(result.words[ended, 0], "fixed", w)
    assert result.reals[ended, 0].tobytes() == expected.tobytes()
    beyond = any(abs(w.signed(words[i])) > 1 << 53 for i in ended)
    assert result.large == beyond


@pytest.mark.parametrize("w", FORMATS[:4], ids=str)
def test_words_of_all_sizes(tier: str, w: Format) -> None:
    words = np.random.default_rng(1).integers(0, 1 << 64, 40, dtype=np.uint64) & np.uint64(w.mask)
    counts, result = copied(w, words, piece=7)
    assert not len(counts.failed)
    assert result.words is not None
    assert result.words[:, 0].tolist() == words.tolist()


@pytest.mark.parametrize("w", FORMATS, ids=str)
def test_numbers_that_lose_bits_are_marked(tier: str, w: Format) -> None:
    """As `Losses` finds them."""
    numbers = hard_numbers(w)
    found: dict[bool, int] = {False: 0, True: 0}
    for x in numbers[:: 1 if tier == "translated" else 9].tolist():
        if word_of(x, w) is not None:
            losses = Losses()
            losses.array("x", np.array([x]), w)
            lossy = copied(w, np.array([x]))[0].lossy
            assert lossy == bool(losses), x
            found[lossy] += 1
    assert all(found.values())


@reversible
def scaled(y: Array[fixed], x: Array[fixed], a: fixed):
    for i in range(len(x)):
        y[i] += a * x[i]


def arguments(count: int = 50) -> tuple[Any, ...]:
    rng = np.random.default_rng(3)
    return np.zeros((count, 3)), rng.normal(size=(count, 3)), rng.normal(size=count)


def test_arrays_with_any_strides(tier: str) -> None:
    y, x, a = arguments()
    expected = rg.run_batch(scaled, y, x, a, engine="native").values
    found = rg.run_batch(scaled, y, np.asfortranarray(x), np.repeat(a, 2)[::2], engine="cuda").values
    for here, there in zip(expected, found, strict=True):
        assert here.tobytes() == there.tobytes()


def test_no_number_is_converted_on_the_host(translated: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from retrograd.runtime import _batch_arguments

    monkeypatch.setattr(_batch_arguments.Loaded, "rows", property(lambda _: pytest.fail("the host makes words")))
    result = rg.run_batch(scaled, *arguments(), engine="cuda")
    assert result.engine == "cuda"
    assert len(translated.launches) == 2  # one for each of the two devices


@pytest.mark.parametrize("wrong", [np.nan, np.inf, 2.0**31, -(2.0**40)])
def test_a_number_without_a_word_is_refused_as_on_the_host(tier: str, wrong: float) -> None:
    y, x, a = arguments()
    x[17, 1] = wrong
    told = []
    for engine in ("native", "cuda"):
        with pytest.raises(InputError) as caught:
            rg.run_batch(scaled, y, x, a, engine=engine)
        told.append(str(caught.value))
    assert told[0] == told[1]
    assert "(17, 1)" in told[0]


def test_numbers_that_lose_bits_are_reported(tier: str) -> None:
    y, x, a = arguments()
    x[3, 2] = 1e-7
    told = []
    for engine in ("native", "cuda"):
        with pytest.warns(PrecisionWarning) as caught:
            rg.run_batch(scaled, y, x, a, engine=engine)
        told.append([str(w.message) for w in caught])
    assert told[0] == told[1]


def test_results_beyond_float64_keep_their_words(tier: str) -> None:
    y, x, a = arguments(20)
    x *= 2.0**22
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found, expected = (rg.run_batch(scaled, y, x, a, engine=e) for e in ("cuda", "native"))
    assert np.array_equal(found.matrix, expected.matrix)
    assert found.values.y.words("fixed", rg.Format()) is not None


def test_memory_of_an_earlier_batch_is_taken(translated: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A warm batch takes no new memory, neither of the host nor of the device."""
    taken: list[int] = []
    take = batch.KeptMemory.take

    def noted(self: Any, cuda: Any, where: Any, size: int) -> Any:
        monkeypatch.setattr(cuda, self._call, lambda size, kind: taken.append(size) or np.empty(size, kind))
        return take(self, cuda, where, size)

    rg.run_batch(scaled, *arguments(), engine="cuda")
    monkeypatch.setattr(batch.KeptMemory, "take", noted)
    rg.run_batch(scaled, *arguments(), engine="cuda")
    assert taken == []
