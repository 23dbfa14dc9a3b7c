"""Dictionaries with open addressing: against Python's, and the table against that of any other order of insertions."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

import retrograd as rg
from retrograd import Array, fixed, reversible
from retrograd.library import dictionaries
from retrograd.library.dictionaries import Dictionary, add, dict_of, empty_dictionary, get, insert, remove


def equal(a: Dictionary, b: Dictionary) -> bool:
    return all(np.array_equal(getattr(a, f), getattr(b, f)) for f in ("keys", "values", "used"))


def filled(content: dict[int, float], room: int, rng: Random) -> Dictionary:
    d = empty_dictionary(room)
    for key in rng.sample(sorted(content), len(content)):
        d = insert(d, key, content[key]).d
    return d


@pytest.mark.parametrize("seed", range(4))
def test_any_order_of_insertions_and_removals_gives_the_same_table(seed: int) -> None:
    rng = Random(seed)
    d, content = empty_dictionary(6), dict[int, float]()
    for _ in range(40):
        if content and (len(content) == 6 or rng.random() < 0.5):
            key = rng.choice(sorted(content))
            out = remove(d, key, 0.0)
            assert out.value == content.pop(key)
        else:
            key = rng.choice(sorted({*range(-9, 9)} - {*content}))
            content[key] = rng.randint(1, 99) / 4
            out = insert(d, key, content[key])
            assert out.value == 0.0
        d = out.d
        assert dict_of(d) == content
        assert all(get(0.0, d, key).y == content.get(key, 0.0) for key in (*content, 100))
    assert equal(d, filled(content, 6, rng))


@reversible
def histogram(d, xs: Array[int, "n"], heights: Array[fixed, "n"]) -> None:  # type: ignore[no-untyped-def]
    """Adds each height to the entry of its x, which is made where it is not there; the first of each x is moved there."""
    for i in range(len(xs)):
        if (get(d, xs[i]) == 0, heights[i] == 0):
            insert(d, xs[i], heights[i])
        else:
            add(d, xs[i], heights[i])


@pytest.mark.parametrize("level", [0, 1])
def test_a_dictionary_grows_in_a_loop_and_is_undone(level: int) -> None:
    f = histogram.with_options(level=level)
    out = f(empty_dictionary(5), [7, 3, 7, -2, 3], [1.0, 2.0, 4.0, 8.0, 16.0])
    assert dict_of(out.d) == {7: 5.0, 3: 18.0, -2: 8.0}
    assert out.heights.tolist() == [0.0, 0.0, 4.0, 0.0, 16.0]
    back = (~f)(*out)
    assert equal(back.d, empty_dictionary(5))
    assert back.heights.tolist() == [1.0, 2.0, 4.0, 8.0, 16.0]


def test_derivatives_go_through_the_table() -> None:
    @reversible
    def f(y: fixed, d, a: fixed, b: fixed) -> None:  # type: ignore[no-untyped-def]
        with rg.routine() as r:
            first, second = rg.copy(a), rg.copy(b)
            insert(d, 4, first)
            insert(d, 9, second)
            add(d, 4, b)
        y += get(d, 4) * get(d, 9)
        ~r

    assert f(0.0, empty_dictionary(4), 2.0, 3.0).y == 15.0
    assert tuple(rg.grad(f, ("a", "b"))(0.0, empty_dictionary(4), 2.0, 3.0)) == (3.0, 8.0)


@pytest.mark.parametrize(
    "call",
    [
        lambda d: insert(d, 3, 1.0),
        lambda d: insert(d, 5, 1.0),
        lambda d: remove(d, 8, 0.0),
        lambda d: add(d, 8, 1.0),
    ],
    ids=["key that is there", "full table", "removal of a key that is not there", "addition to one"],
)
def test_wrong_calls_trap(call) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(rg.RetrogradError) as error:
        call(filled({3: 1.0, 4: 2.0}, 2, Random(0)))
    assert error.value.code == "RG0804"


def test_every_function_has_an_inverse() -> None:
    assert remove is insert.inverse
    assert ~dictionaries.add is dictionaries.add.inverse
