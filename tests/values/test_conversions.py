"""`retrograd.fixed` and `retrograd.lognum`: real numbers to words and back, for whole arrays."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from retrograd.compiler.language.types import BOOL, INT, ArrayType
from retrograd.isa.diagnostics import InputError
from retrograd.isa.words import WIDTHS, Format, format_of

import retrograd as rg
from retrograd.runtime._marshal import word_array

FORMATS = [Format(n, f) for n in WIDTHS for f in sorted({0, 1, n // 2, n - 2, n - 1})]
all_formats = st.sampled_from(FORMATS)
finite = st.floats(allow_nan=False, allow_infinity=False)


def code_of(caught: pytest.ExceptionInfo[rg.InputError]) -> str:
    return caught.value.diagnostics[0].code


def message_of(caught: pytest.ExceptionInfo[rg.InputError]) -> str:
    return caught.value.diagnostics[0].message


# ------------------------------------------------------------------ fixed


@given(all_formats, st.data())
def test_fixed_words_survive(w: Format, data: st.DataObject) -> None:
    """word -> real -> word is the identity as far as a float64 holds the word."""
    word = data.draw(st.integers(0, w.mask))
    signed = w.signed(word)
    reals = rg.fixed.to_reals([word], w)
    assert reals.dtype == np.float64
    assert reals[0] == float(w.to_real(word))
    if float(signed) == signed:
        assert rg.fixed.to_words(reals, w).tolist() == [word]
        assert rg.fixed.to_words(reals, w, "floor").tolist() == [word]


@given(all_formats, finite)
def test_fixed_rounds_to_nearest_and_ties_to_even(w: Format, x: float) -> None:
    nearest, floor = round(Fraction(x) * (1 << w.frac)), math.floor(Fraction(x) * (1 << w.frac))
    for rounding, scaled in (("nearest", nearest), ("floor", floor)):
        if -w.sign <= scaled < w.sign:
            words = rg.fixed.to_words(x, w, rounding)  # type: ignore[arg-type]
            assert int(words) == scaled & w.mask
            assert words.dtype == np.uint64
        else:
            with pytest.raises(rg.InputError) as caught:
                rg.fixed.to_words(x, w, rounding)  # type: ignore[arg-type]
            assert code_of(caught) == "RG0601"


@given(st.integers(-1000, 1000), st.sampled_from([Format(16, 4), Format(32, 16), Format(64, 32)]))
def test_ties(n: int, w: Format) -> None:
    half = (n + 0.5) / (1 << w.frac)
    even = n if n % 2 == 0 else n + 1
    assert w.signed(int(rg.fixed.to_words(half, w))) == even
    assert w.signed(int(rg.fixed.to_words(half, w, "floor"))) == n
    assert int(rg.fixed.to_words(half, w)) == w.from_real(half)


@given(st.sampled_from([f for f in FORMATS if f.width <= 32]), st.data())
def test_fixed_near_the_ends(w: Format, data: st.DataObject) -> None:
    """The last numbers that fit, and the first that do not, on both sides and in both roundings."""
    quarter = data.draw(st.integers(-8, 8))
    one = 1 << w.frac
    for end in (w.sign, -w.sign):
        x = (end + quarter / 4) / one
        for rounding, scaled in (("nearest", round(Fraction(x) * one)), ("floor", math.floor(Fraction(x) * one))):
            if -w.sign <= scaled < w.sign:
                assert int(rg.fixed.to_words(x, w, rounding)) == scaled & w.mask  # type: ignore[arg-type]
            else:
                with pytest.raises(rg.InputError, match=r"does not fit"):
                    rg.fixed.to_words(x, w, rounding)  # type: ignore[arg-type]


def test_the_widest_words() -> None:
    w = Format(64, 32)
    assert rg.fixed.to_words([-(2.0**31)], w).tolist() == [1 << 63]
    largest = math.nextafter(2.0**31, 0)
    assert rg.fixed.to_words([largest], w).tolist() == [w.from_real(largest)]
    for x in (2.0**31, math.nextafter(-(2.0**31), -math.inf), 1e300, -1e300, math.inf, -math.inf):
        with pytest.raises(rg.InputError) as caught:
            rg.fixed.to_words([x], w)
        assert code_of(caught) == "RG0601"


# ------------------------------------------------------------------ lognum


def log_of(w: Format, word: int) -> int:
    low = word & (w.sign - 1)
    return low - w.sign if low & (w.sign >> 1) else low


@settings(max_examples=300)
@given(st.sampled_from([f for f in FORMATS if 0 < f.frac < f.width - 1]), st.data())
def test_lognum_words_survive(w: Format, data: st.DataObject) -> None:
    """word -> real -> word: exact while the float64 of 2^log tells neighbouring logarithms apart."""
    # A float64 of relative error 2^-53 (and exp2's own) is 2^(F−52) words of its logarithm.
    lost = 0 if w.frac <= 40 else 1 << (w.frac - 50)
    limit = min(w.sign // 2, 1000 << w.frac)
    log = data.draw(st.integers(-limit + lost, limit - 1 - lost))
    word = data.draw(st.sampled_from((0, w.sign))) | (log & (w.sign - 1))
    reals = rg.lognum.to_reals([word], w)
    assert (reals[0] < 0) == bool(word & w.sign)
    back = int(rg.lognum.to_words(reals, w)[0])
    assert abs(log_of(w, back) - log) <= lost
    assert back & w.sign == word & w.sign


@given(finite.filter(lambda x: abs(x) > 1e-300), st.sampled_from([Format(32, 16), Format(64, 32), Format(16, 4)]))
def test_lognum_rounds_to_nearest(x: float, w: Format) -> None:
    if not -w.sign / 2 <= round(math.log2(abs(x)) * (1 << w.frac)) < w.sign / 2:
        with pytest.raises(rg.InputError) as caught:
            rg.lognum.to_words(x, w)
        assert code_of(caught) == "RG0601"
        return
    word = int(rg.lognum.to_words(x, w))
    assert bool(word & w.sign) == (x < 0)
    # log2 in float64 is wrong in its last place: 2^-43 of a value below 1024, scaled.
    assert abs(log_of(w, word) - math.log2(abs(x)) * 2.0**w.frac) <= 0.5 + 2.0 ** (w.frac - 42)
    back = float(rg.lognum.to_reals(word, w))
    if 1e-290 < abs(x) < 1e290:
        assert back == pytest.approx(x, rel=math.log(2) * 0.51 * 2.0**-w.frac + 1e-12)


@pytest.mark.parametrize("w", [Format(n, f) for n in WIDTHS for f in range(0, n - 1, max(1, n // 8))], ids=str)
def test_powers_of_two_are_exact(w: Format) -> None:
    high = w.sign // 2
    for n in range(-1070, 1024):
        inside = -high <= n << w.frac < high
        if inside and abs(n) > 40 and n % 7:
            continue
        for sign in (1, -1):
            x = sign * 2.0**n
            if inside:
                word = int(rg.lognum.to_words(x, w))
                assert (bool(word & w.sign), log_of(w, word)) == (sign < 0, n << w.frac)
                assert float(rg.lognum.to_reals(word, w)) == x
            elif abs(n) < 40 or n % 97 == 0:
                with pytest.raises(rg.InputError) as caught:
                    rg.lognum.to_words(x, w)
                assert code_of(caught) == "RG0601"


def test_lognums_beyond_a_float() -> None:
    w = Format(64, 32)
    assert rg.lognum.to_reals([5000 << 32, (5000 << 32) | w.sign], w).tolist() == [math.inf, -math.inf]
    assert rg.lognum.to_reals([-5000 << 32 & (w.sign - 1)], w).tolist() == [0.0]


# ------------------------------------------------------------------ errors name the element


@pytest.mark.parametrize("number", [rg.fixed, rg.lognum], ids=["fixed", "lognum"])
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 1e300], ids=str)
def test_errors_name_the_element(number: Any, bad: float) -> None:
    w = Format(16, 8)  # neither holds 1e300: log2 is 997, and lognums of this format reach 2^64
    code = "RG0602" if math.isnan(bad) else "RG0601"
    values = np.ones((2, 3, 4))
    values[1, 2, 0] = values[1, 2, 3] = bad
    with pytest.raises(rg.InputError) as caught:
        number.to_words(values, w)
    assert code_of(caught) == code
    assert "element (1, 2, 0)" in message_of(caught)
    with pytest.raises(rg.InputError) as caught:
        number.to_words([1.0, 2.0, bad], w)
    assert "element 2:" in message_of(caught)
    with pytest.raises(rg.InputError) as caught:
        number.to_words(bad, w)
    assert code_of(caught) == code
    assert "element" not in message_of(caught)
    if code == "RG0601":
        assert str(bad) in message_of(caught)
        assert "Q8.8" in message_of(caught)


@pytest.mark.parametrize("value", [2.0**31, -(2.0**31) - 1, 3.986e14, 2.0**31 - 2.0**-40, 2**40, 2.0**62])
def test_the_format_of_the_hint_holds_the_number(value: float) -> None:
    with pytest.raises(rg.InputError) as caught:
        rg.fixed.to_words([value])
    name = re.search(r"fix: (Q\d+\.\d+) holds it; `fixed", str(caught.value))
    assert name is not None
    w = format_of(name[1])
    assert rg.fixed.to_reals(rg.fixed.to_words([value], w), w)[0] == pytest.approx(value)


def test_zero_has_no_lognum() -> None:
    for zero in (0.0, -0.0):
        with pytest.raises(rg.InputError) as caught:
            rg.lognum.to_words([[1.0, zero], [zero, 1.0]])
        assert code_of(caught) == "RG0411"
        assert "element (0, 1)" in message_of(caught)
    with pytest.raises(rg.InputError) as caught:
        rg.lognum.to_words(0)
    assert code_of(caught) == "RG0411"
    assert rg.fixed.to_words([0.0, -0.0]).tolist() == [0, 0]


@pytest.mark.parametrize("number", [rg.fixed, rg.lognum], ids=["fixed", "lognum"])
@pytest.mark.parametrize("values", [[1 + 2j], ["1"], [None], [10**400], np.array(["2024"], "datetime64[Y]")], ids=repr)
def test_what_is_no_real_number(number: Any, values: Any) -> None:
    with pytest.raises(rg.InputError) as caught:
        number.to_words(values)
    assert code_of(caught) == "RG0602"


# ------------------------------------------------------------------ shapes and types


@pytest.mark.parametrize("number", [rg.fixed, rg.lognum], ids=["fixed", "lognum"])
@pytest.mark.parametrize("dtype", ["b1", "i1", "u1", "i2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "g", ">f8"])
def test_types(number: Any, dtype: str) -> None:
    values = np.array([[1, 1], [1, 1]], dtype)
    words = number.to_words(values)
    assert (words.dtype, words.shape) == (np.uint64, (2, 2))
    assert number.to_reals(words).tolist() == [[1.0, 1.0], [1.0, 1.0]]
    for stored in ("u8", "i8"):
        assert (number.to_reals(words.astype(stored)) == 1).all()


@pytest.mark.parametrize("number", [rg.fixed, rg.lognum], ids=["fixed", "lognum"])
def test_shapes(number: Any) -> None:
    for shape in ((), (0,), (3,), (2, 0, 3), (2, 3, 4)):
        values = np.full(shape, 2.5)
        words = number.to_words(values)
        assert words.shape == shape
        assert number.to_reals(words).shape == shape
    flipped = np.asfortranarray(np.arange(1.0, 13).reshape(3, 4))[::-1, ::2]
    assert np.allclose(number.to_reals(number.to_words(flipped)), flipped, rtol=1e-8)


def test_signed_words_are_taken_too() -> None:
    w = Format(32, 16)
    assert rg.fixed.to_reals([-65536, 65536], w).tolist() == [-1.0, 1.0]
    # Bits above the word are not part of it.
    assert rg.fixed.to_reals([(7 << 32) | 65536], w).tolist() == [1.0]


@settings(max_examples=50)
@given(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=20))
def test_an_array_is_its_elements(values: list[float]) -> None:
    whole = rg.fixed.to_words(values)
    assert whole.tolist() == [int(rg.fixed.to_words(x)) for x in values]
    some = [x for x in values if x]
    if some:
        assert rg.lognum.to_words(some).tolist() == [int(rg.lognum.to_words(x)) for x in some]


def test_formats_are_printable() -> None:
    assert [str(Format(*f)) for f in ((64, 32), (32, 16), (8, 4), (16, 0))] == ["Q32.32", "Q16.16", "Q4.4", "Q16.0"]


def test_words_feed_the_machine() -> None:
    """The words are those that the instructions speak of."""
    w = Format(64, 32)
    program = rg.assemble("start\nfmul.add r1, r2, r3\nltof.add r4, r5\nfinish", format=w)
    machine = rg.Machine(program)
    machine.registers[2:4] = rg.fixed.to_words([1.5, -2.25], w).tolist()
    machine.registers[5] = int(rg.lognum.to_words(-0.125, w))
    machine.run()
    assert rg.fixed.to_reals([machine.registers[1], machine.registers[4]], w).tolist() == [-3.375, -0.125]


@given(
    st.sampled_from([Format(8, 4), Format(32, 16), Format(64, 32)]),
    st.sampled_from([np.int8, np.uint8, np.int32, np.uint32, np.int64, np.uint64, np.bool_]),
    st.sampled_from([INT, BOOL]),
    st.data(),
)
def test_arrays_of_integers_have_the_words_of_their_elements(
    w: Format, dtype: Any, kind: Any, data: st.DataObject
) -> None:
    """A whole array at once, and element by element as Python's numbers: the same words, or the same error."""
    near = st.sampled_from([0, 1, w.sign - 1, w.sign, -w.sign, -w.sign - 1])
    least, most = (0, 1) if dtype is np.bool_ else (int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))
    element = st.one_of(st.integers(0, 1), near, st.integers(least, most)).filter(lambda n: least <= n <= most)
    array = np.array(data.draw(st.lists(element, max_size=4)), dtype=dtype)

    def words(given: np.ndarray[Any, Any]) -> Any:
        try:
            return word_array(ArrayType(kind, (len(array),)), given, w, "x").tolist()
        except InputError as error:
            return error.diagnostics[0].code, error.diagnostics[0].message

    assert words(array) == words(array.astype(object))
