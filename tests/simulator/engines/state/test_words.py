"""Words: a sequence of ints like a list, of fixed length, in memory that compiled code shares."""

from __future__ import annotations

from collections.abc import MutableSequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from retrograd.isa.words import WIDTHS, Format
from retrograd.simulator.engines.array_words import DTYPES, ArrayWords, address_of, zeros


def words_of(values: list[int], width: int = 64) -> ArrayWords:
    array = zeros(len(values), Format(width, 0))
    array[:] = values
    return ArrayWords(array)


@pytest.mark.parametrize("width", WIDTHS)
def test_every_width_has_words_that_hold_it(width: int) -> None:
    w = Format(width, 0)
    words = ArrayWords(zeros(3, w))
    assert words == [0, 0, 0]
    words[1] = w.mask
    assert words == [0, w.mask, 0]
    # Compiled code takes words of whole bytes, as many as the width needs.
    assert words.array.dtype.itemsize * 8 == max(8, width)
    assert set(DTYPES) == set(WIDTHS)


def test_what_is_read_are_ints() -> None:
    words = words_of([5, (1 << 64) - 1, 7])
    assert words[1] == (1 << 64) - 1
    assert {type(x) for x in (words[0], *words, *words[:2], *reversed(words))} == {int}
    # NumPy's own integers would wrap where a word is added to.
    assert words[1] + 1 == 1 << 64
    assert type(words[0:2]) is list
    assert isinstance(words, MutableSequence)


def test_equality_is_that_of_lists() -> None:
    words = words_of([1, 2, 3])
    assert words == [1, 2, 3]
    assert words == [1, 2, 3]
    assert words == words_of([1, 2, 3])
    # Whatever the width.
    assert words == words_of([1, 2, 3], 8)
    for other in ([1, 2], [1, 2, 3, 4], [1, 2, 4], words_of([1, 2]), words_of([3, 2, 1]), (1, 2, 3), None, 1):
        assert words != other
    assert {+1: words} == {+1: [1, 2, 3]}
    with pytest.raises(TypeError):
        hash(words)


@settings(max_examples=50)
@given(st.lists(st.integers(0, (1 << 64) - 1), min_size=1, max_size=12), st.data())
def test_a_list_does_the_same(values: list[int], data: st.DataObject) -> None:
    words, expected = words_of(values), list(values)
    indices = st.integers(-len(values) - 2, len(values) + 1)
    for _ in range(data.draw(st.integers(1, 5))):
        at, value = data.draw(indices), data.draw(st.integers(0, (1 << 64) - 1))
        if -len(values) <= at < len(values):
            words[at] = expected[at] = value
            assert words[at] == expected[at]
        else:
            with pytest.raises(IndexError):
                words[at]
            with pytest.raises(IndexError):
                words[at] = value
        part = slice(*data.draw(st.tuples(indices, indices, st.sampled_from((None, 1, 2, -1)))))
        assert words[part] == expected[part]
        new = data.draw(st.permutations(expected[part]))
        words[part], expected[part] = new, new
        assert words == expected
        assert list(words) == expected
        assert (len(words), value in words, words.count(value)) == (
            len(expected),
            value in expected,
            expected.count(value),
        )
    assert repr(words) == f"ArrayWords({expected})"


def test_the_words_of_another() -> None:
    one, other = words_of([1, 2, 3]), words_of([4, 5, 6])
    one[:] = other
    assert one == [4, 5, 6]
    one[1] = 9
    assert other == [4, 5, 6]
    one[:2] = (x for x in (7, 8))
    assert one == [7, 8, 6]
    # A view of what another machine sees backward.
    ArrayWords(one.array[::-1])[0] = 1
    assert one == [7, 8, 1]
    one.reverse()
    assert one == [1, 8, 7]


def test_the_length_is_fixed() -> None:
    words = words_of([1, 2, 3])
    for change in (
        lambda: words.append(4),
        lambda: words.insert(0, 4),
        words.pop,
        lambda: words.extend([4]),
        words.clear,
        lambda: words.__delitem__(0),
        lambda: words.__delitem__(slice(0, 1)),
        lambda: words.__setitem__(slice(0, 2), [4]),
        lambda: words.__setitem__(slice(0, 1), [4, 5]),
        lambda: words.__setitem__(slice(0, 0), [4]),
    ):
        with pytest.raises(TypeError, match="words cannot be"):
            change()
        assert words == [1, 2, 3]


@pytest.mark.parametrize("width", WIDTHS)
def test_what_is_no_word_is_refused(width: int) -> None:
    w = Format(width, 0)
    words = ArrayWords(zeros(2, w))
    # Of 4 bits, only the byte that holds them is looked at.
    for value in (-1, 1 << max(8, width)):
        with pytest.raises(OverflowError):
            words[0] = value
        with pytest.raises(OverflowError):
            words[:1] = [value]
    assert words == [0, 0]


def test_compiled_code_and_python_see_the_same_words() -> None:
    array = np.zeros(4, dtype=np.uint64)
    words = ArrayWords(array)
    array[2] = 5
    assert words[2] == 5
    words[3] = 6
    assert array[3] == 6


def test_addresses_are_those_of_the_first_elements() -> None:
    """Of any array, in any strides, whether or not it may be written."""
    plain = np.arange(24, dtype=np.uint64).reshape(4, 6)
    frozen = plain.copy()
    frozen.flags.writeable = False
    arrays = [plain, frozen, plain[:, 2:3], plain[::-1], plain[1:, ::2], plain.T, plain[2].view(np.uint8), np.zeros(1)]
    for array in arrays:
        assert address_of(array) == array.ctypes.data
    assert address_of(None) == address_of(plain[:0]) == address_of(plain[:, 3:3]) == 0
