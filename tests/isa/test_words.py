"""Formats: what a word means, and which word is nearest to a number."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from retrograd.isa.words import WIDTHS, Format

formats = st.sampled_from(WIDTHS).flatmap(
    lambda width: st.integers(0, width - 1).map(lambda frac: Format(width, frac)),
)
formats_and_words = formats.flatmap(lambda w: st.tuples(st.just(w), st.integers(0, w.mask)))
integers = st.integers(-(1 << 140), 1 << 140)


def test_widths_are_powers_of_two() -> None:
    # A shift amount is taken mod W as a bit field, which is right for powers of two only.
    assert WIDTHS == (4, 8, 16, 32, 64)
    assert all(width & (width - 1) == 0 for width in WIDTHS)


@pytest.mark.parametrize("width", [-8, 0, 1, 2, 3, 5, 7, 12, 24, 63, 65, 128])
def test_other_widths_are_refused(width: int) -> None:
    with pytest.raises(ValueError, match="width must be one of"):
        Format(width, 0)


@pytest.mark.parametrize("width", WIDTHS)
def test_frac_lies_inside_the_word(width: int) -> None:
    for frac in range(width):
        assert Format(width, frac).frac == frac
    for frac in (-1, width, width + 1):
        with pytest.raises(ValueError, match="frac must be in"):
            Format(width, frac)


def test_default_is_q32_32() -> None:
    assert (Format().width, Format().frac, str(Format())) == (64, 32, "Q32.32")
    assert str(Format(32, 16)) == "Q16.16"
    assert str(Format(8, 0)) == "Q8.0"


@pytest.mark.parametrize("width", WIDTHS)
def test_mask_and_sign(width: int) -> None:
    w = Format(width, 0)
    assert w.mask == 2**width - 1
    assert w.sign == 2 ** (width - 1)


def test_formats_are_values() -> None:
    # Formats key the caches of opcodes: equal formats must be one key.
    assert Format(8, 4) == Format(8, 4)
    assert hash(Format(8, 4)) == hash(Format(8, 4))
    assert Format(8, 4) != Format(8, 3)
    assert Format(8, 4) != Format(16, 4)


@given(formats, integers)
def test_wrap_is_reduction_mod_2_to_the_w(w: Format, value: int) -> None:
    assert w.wrap(value) == value % 2**w.width


@given(formats, integers)
def test_signed_is_the_representative_around_zero(w: Format, value: int) -> None:
    number = w.signed(value)
    assert -(2 ** (w.width - 1)) <= number < 2 ** (w.width - 1)
    assert (number - value) % 2**w.width == 0


@given(formats_and_words)
def test_wrap_undoes_signed(case: tuple[Format, int]) -> None:
    w, word = case
    assert w.wrap(w.signed(word)) == word


@given(formats_and_words)
def test_real_value_is_exact_and_comes_back(case: tuple[Format, int]) -> None:
    w, word = case
    real = w.to_real(word)
    assert real * 2**w.frac == w.signed(word)
    assert w.from_real(real) == word


@given(formats, st.fractions(-(10**6), 10**6))
def test_from_real_is_nearest_ties_to_even(w: Format, value: Fraction) -> None:
    scaled = value * 2**w.frac
    below = scaled.numerator // scaled.denominator
    rest = scaled - below
    up = rest > Fraction(1, 2) or (rest == Fraction(1, 2) and below % 2 == 1)
    nearest = below + up
    if -(2 ** (w.width - 1)) <= nearest < 2 ** (w.width - 1):
        assert w.from_real(value) == nearest % 2**w.width
    else:
        with pytest.raises(OverflowError, match="outside the range"):
            w.from_real(value)


@given(formats.filter(lambda w: w.width >= 8), st.integers(-60, 60))
def test_ties_go_to_the_even_word(w: Format, k: int) -> None:
    halfway = Fraction(2 * k + 1, 2 * 2**w.frac)
    even = k if k % 2 == 0 else k + 1
    assert w.signed(w.from_real(halfway)) == even


@pytest.mark.parametrize(
    ("value", "word"),
    [(0.5, 0), (1.5, 2), (2.5, 2), (3.5, 4), (-0.5, 0), (-1.5, 0xFE), (-2.5, 0xFE), (127.25, 127), (-128.5, 0x80)],
)
def test_rounding_by_hand(value: float, word: int) -> None:
    assert Format(8, 0).from_real(value) == word


@pytest.mark.parametrize("w", [Format(8, 4), Format(16, 8), Format(64, 32)], ids=str)
def test_the_ends_of_the_range(w: Format) -> None:
    unit = Fraction(1, 2**w.frac)
    largest, smallest = (2 ** (w.width - 1) - 1) * unit, -(2 ** (w.width - 1)) * unit
    assert w.from_real(largest) == w.sign - 1
    assert w.from_real(smallest) == w.sign
    # A quarter unit beyond rounds back; half a unit above the top is a tie, and the even word does not fit.
    assert w.from_real(largest + unit / 4) == w.sign - 1
    assert w.from_real(smallest - unit / 2) == w.sign
    for beyond in (largest + unit / 2, largest + unit, smallest - unit * 3 / 4, smallest - unit):
        with pytest.raises(OverflowError):
            w.from_real(beyond)


def test_what_is_no_number_is_refused() -> None:
    with pytest.raises(ValueError, match="NaN"):
        Format().from_real(float("nan"))
    for infinity in (float("inf"), float("-inf")):
        with pytest.raises(OverflowError):
            Format().from_real(infinity)


reals = st.one_of(
    st.floats(-(2.0**70), 2.0**70),
    st.fractions(max_denominator=1 << 70),
    st.builds(lambda m, e: m * 2.0**e, st.integers(-9, 9), st.integers(-70, 8)),
)


@given(formats, reals)
def test_a_word_keeps_half_of_the_bits_of_a_number_or_not(w: Format, value: float | Fraction) -> None:
    word = Fraction(round(Fraction(value) * 2**w.frac), 2**w.frac)
    assert w.vanishes(value) == (value != 0 and word == 0)
    assert w.keeps(value) == (abs(word - Fraction(value)) <= abs(Fraction(value)) / 2 ** (w.width // 4))
    assert not (w.keeps(value) and w.vanishes(value))


@given(formats, reals, st.booleans())
def test_the_formats_that_keep_a_number(w: Format, value: float | Fraction, bits: bool) -> None:
    """They are all that hold the number from some fraction on, and none coarser is left out by luck alone."""

    def holds(other: Format) -> bool:
        return -other.sign <= round(Fraction(value) * 2**other.frac) < other.sign

    def good(other: Format) -> bool:
        return not other.vanishes(value) and (other.keeps(value) or not bits)

    found = w.keeping(value, bits)
    held = [other for other in (Format(w.width, frac) for frac in range(w.width)) if holds(other)]
    assert found == held[len(held) - len(found) :]
    assert all(map(good, found))
    assert len(found) == len(held) or not good(held[len(held) - len(found) - 1])
    # Once a format guarantees the bits, all finer ones do.
    enough = [o for o in held if abs(value) * 2**o.frac >= (2 ** (o.width // 4) / 2 if bits else 1)]
    assert {*enough} <= {*found}
    assert all(str(other) in w.remedy(value, bits) for other in found[:1] + found[-1:])


def test_remedies() -> None:
    assert Format().remedy(6.674e-11) == "Q15.49 to Q1.63 hold it."
    assert Format(32, 16).remedy(6.674e-11) == "No format of 32 bits holds it, but Q15.49 to Q1.63 do."
    assert Format().remedy(1e-30) == "No format holds it, but a lognum does."
