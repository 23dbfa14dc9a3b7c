"""The laws of `retrograd.testing` as pytest fixtures; pytest finds this file by its entry point.

    check_inverse(f, *args)      check_gradient(f, *args, loss=0)
    assert_no_garbage(f, *args)  assert_erased_bits_below(bits, f, *args)
    retrograd_format             the format of functions that name none, for the length of a test

Every fixture restores the format that `rg.use_format` changes in a test. `--retrograd-format Q32.32` runs the tests that use any of them
in that format; given several times, in each. Trap: pytest takes the nearest fixture of a name, so a user's fixture of the
same name hides the one here. Nothing is imported before a fixture is used.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from retrograd.isa.words import Format

_OPTION = "--retrograd-format"


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--retrograd-format`, once or more."""
    parser.getgroup("retrograd").addoption(
        _OPTION,
        action="append",
        default=[],
        metavar="Q32.32",
        help="format of numbers in reversible functions that name no other; repeat it to run such tests in each",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Refuse an unknown format before any test runs."""
    for text in config.getoption(_OPTION):
        _format(text)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test for each format of the command line, unless the test itself names formats."""
    formats = metafunc.config.getoption(_OPTION)
    name = "retrograd_format"
    if not formats or name not in metafunc.fixturenames:
        return
    for mark in metafunc.definition.iter_markers("parametrize"):
        names = mark.args[0] if mark.args else mark.kwargs.get("argnames", "")
        if name in (re.split(r"[,\s]+", names) if isinstance(names, str) else names):
            return
    metafunc.parametrize(name, formats, indirect=True)


def _format(value: str | Format, where: str = _OPTION) -> Format:
    """Q32.32 as Format(64, 32). Raises UsageError with the place of the text."""
    from retrograd.isa.diagnostics import InputError
    from retrograd.isa.words import format_of

    try:
        return format_of(value)
    except InputError as error:
        raise pytest.UsageError(f"{where}: {error.diagnostics[0].message}") from None


@pytest.fixture
def retrograd_format(request: pytest.FixtureRequest) -> Iterator[Format]:
    """The format of functions that name no other: from a parameter (`"Q16.16"` or a Format, indirect), or from the command line.

    The parameter None leaves it unchanged.
    """
    from retrograd.runtime._compilation import format_or_default
    from retrograd.runtime._reversible import use_format

    before = format_or_default(None)
    if getattr(request, "param", None) is not None:
        use_format(_format(request.param, "retrograd_format"))
    yield format_or_default(None)
    use_format(before)


@pytest.fixture
def check_inverse(retrograd_format: Format) -> Callable[..., Any]:
    """(~f)(f(x)) == x: see retrograd.testing.check_inverse."""
    from retrograd import testing

    return testing.check_inverse


@pytest.fixture
def check_gradient(retrograd_format: Format) -> Callable[..., Any]:
    """Gradients against differences: see retrograd.testing.check_gradient."""
    from retrograd import testing

    return testing.check_gradient


@pytest.fixture
def assert_no_garbage(retrograd_format: Format) -> Callable[..., Any]:
    """No garbage is left: see retrograd.testing.assert_no_garbage."""
    from retrograd import testing

    return testing.assert_no_garbage


@pytest.fixture
def assert_erased_bits_below(retrograd_format: Format) -> Callable[..., Any]:
    """Fewer bits are erased: see retrograd.testing.assert_erased_bits_below."""
    from retrograd import testing

    return testing.assert_erased_bits_below
