"""The pytest plugin, in test runs of its own."""

from __future__ import annotations

import subprocess
import sys

# After each run of its own, `pytester` unloads what that run loaded, and NumPy cannot be loaded twice. What is loaded before stays.
import numpy as np  # noqa: F401
import pytest

import retrograd.testing  # noqa: F401

pytest_plugins = ["pytester"]

FUNCTIONS = """
    import retrograd as rg
    from retrograd import fixed, reversible

    @reversible
    def root(y: fixed, x: fixed):
        y += rg.sqrt(x)

    @reversible
    def forgetful(y: fixed, x: fixed):
        t = x * x
        t += 1
        y += t
        rg.erase(t)
"""


def run(pytester: pytest.Pytester, tests: str, *options: str) -> pytest.RunResult:
    """The result of a file of tests, run by this very plugin."""
    name = "test_theirs"
    pytester.makepyfile(**{name: FUNCTIONS + tests})
    return pytester.runpytest("-p", "no:xdist", "-p", "no:cacheprovider", *options)


def test_the_fixtures_are_there(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
    def test_all(check_inverse, check_gradient, assert_no_garbage, assert_erased_bits_below):
        check_inverse(root, 0.0, 2.0)
        check_gradient(root, 0.0, 2.0, loss="y")
        assert_no_garbage(root, 0.0, 2.0)
        assert_erased_bits_below(65, forgetful, 0.0, 2.0)
""",
    )
    result.assert_outcomes(passed=1)


def test_a_broken_law_is_a_failure_that_says_what(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
    def test_inverse(check_inverse):
        check_inverse(forgetful, 0.0, 2.0)

    def test_bits(assert_erased_bits_below):
        assert_erased_bits_below(64, forgetful, 0.0, 2.0)
""",
    )
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(["*LawBroken: error?RG0901?: `~forgetful` does not run*", "*def forgetful(y*"])
    result.stdout.fnmatch_lines(["*`forgetful` erases 64 bits, 1.8e-19 J at 300 K*"])


FORMATS = """
    def test_format(retrograd_format):
        assert str(retrograd_format) == str(rg.run(root, 0.0, 2.0).compiled.format)
        print("format", retrograd_format)
"""


def test_the_option_sets_the_format(pytester: pytest.Pytester) -> None:
    result = run(pytester, FORMATS, "-s")
    result.stdout.fnmatch_lines(["*format Q32.32*"])
    result = run(pytester, FORMATS, "-s", "--retrograd-format", "Q16.16")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*format Q16.16*"])


def test_the_option_again_runs_the_test_again(pytester: pytest.Pytester) -> None:
    tests = (
        FORMATS
        + """
    def test_laws(check_inverse):
        check_inverse(root, 0.0, 2.0)

    def test_other():
        pass
"""
    )
    options = ("--retrograd-format", "Q16.16", "--retrograd-format=Q8.24", "-v")
    result = run(pytester, tests, *options)
    result.assert_outcomes(passed=5)
    result.stdout.fnmatch_lines(
        ["*test_format?Q16.16?*", "*test_format?Q8.24?*", "*test_laws?Q16.16?*", "*test_other *"]
    )


def test_a_test_can_say_which_formats(pytester: pytest.Pytester) -> None:
    tests = """
    import pytest

    @pytest.mark.parametrize("retrograd_format", ["Q16.48", rg.Format(32, 8)], indirect=True)
    def test_format(retrograd_format):
        assert rg.run(root, 0.0, 2.0).compiled.format == retrograd_format
        assert retrograd_format.frac in (48, 8)
"""
    run(pytester, tests).assert_outcomes(passed=2)
    run(pytester, tests, "--retrograd-format", "Q16.16").assert_outcomes(passed=2)


def test_a_parameter_that_is_none_leaves_the_format(pytester: pytest.Pytester) -> None:
    tests = """
    import pytest

    @pytest.mark.parametrize("retrograd_format", [None, "Q16.16"], indirect=True)
    def test_format(retrograd_format, check_inverse):
        assert rg.run(root, 0.0, 2.0).compiled.format == retrograd_format
        check_inverse(root, 0.0, 2.0)
        print("format", retrograd_format)
"""
    result = run(pytester, tests, "-s")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["*format Q32.32*", "*format Q16.16*"])


@pytest.mark.parametrize("value", ["3", "'Q1'", "[]"])
def test_a_parameter_that_is_no_format_is_named(pytester: pytest.Pytester, value: str) -> None:
    tests = f"""
    import pytest

    @pytest.mark.parametrize("retrograd_format", [{value}], indirect=True)
    def test_format(retrograd_format):
        pass
"""
    result = run(pytester, tests)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*UsageError: retrograd_format: * is no format*"])


@pytest.mark.parametrize("law", ["check_inverse", "check_gradient", "assert_no_garbage"])
def test_what_is_no_function_is_refused(pytester: pytest.Pytester, law: str) -> None:
    tests = f"""
    def test_none({law}):
        {law}(None, 1.0)

    def test_plain({law}):
        {law}(len, 1.0)
"""
    result = run(pytester, tests)
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(
        ["*error?RG0603?: `None` is no reversible function*", "*error?RG0603?: `len` is no reversible function*"]
    )


@pytest.mark.parametrize("text", ["Q16", "16.16", "Q10.10", "Q0.64x"])
def test_a_format_that_there_is_not_is_a_usage_error(pytester: pytest.Pytester, text: str) -> None:
    result = run(pytester, FORMATS, "--retrograd-format", text)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*--retrograd-format: '{text}' is no format*"])


@pytest.mark.parametrize(
    "fixture", ["retrograd_format", "check_inverse", "check_gradient", "assert_no_garbage", "assert_erased_bits_below"]
)
def test_use_format_is_undone(pytester: pytest.Pytester, fixture: str) -> None:
    result = run(
        pytester,
        f"""
    def test_first({fixture}):
        rg.use_format(rg.Format(32, 16))
        assert rg.run(root, 0.0, 2.0).compiled.format == rg.Format(32, 16)

    def test_second():
        assert rg.run(root, 0.0, 2.0).compiled.format == rg.Format(64, 32)
""",
    )
    result.assert_outcomes(passed=2)


def test_fixtures_of_the_users_own_come_first(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
    import pytest

    @pytest.fixture
    def check_inverse():
        return "mine"

    def test_mine(check_inverse, assert_no_garbage):
        assert check_inverse == "mine"
        assert_no_garbage(root, 0.0, 2.0)
""",
        "--retrograd-format",
        "Q16.16",
    )
    result.assert_outcomes(passed=1)


def test_functions_of_the_same_name_can_be_imported(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
    from retrograd.testing import *

    def test_imported():
        check_inverse(root, 0.0, 2.0)
        check_laws(root, 5, low=0)
""",
    )
    result.assert_outcomes(passed=1)


def test_pytest_starts_without_loading_the_rest() -> None:
    code = "import sys, retrograd.pytest_plugin; print(*sorted(m for m in sys.modules if m.partition('.')[0] in ('retrograd', 'numpy', 'hypothesis')))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.split() == [
        "retrograd",
        "retrograd.lazy",
        "retrograd.pytest_plugin",
    ]
