"""`retrograd grad FILE.py:FUNCTION`: what it prints, whole, and what it says of misuse."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from retrograd.cli.terminal import BAD_INPUT, OK, TRAPPED

Cli = Callable[..., tuple[int, str, str]]

SOURCE = """\
import retrograd as rg
from retrograd import Array, fixed, reversible
from retrograd.library import Complex

@reversible
def hypot(r: fixed, x: fixed, y: fixed):
    r += rg.sqrt(x * x + y * y)

@reversible
def quadratic(y: fixed, m: Array[fixed, "n", "n"], x: Array[fixed, "n"]):
    for i in range(len(x)):
        for j in range(len(x)):
            y += m[i, j] * x[i] * x[j]

@reversible
def size(r: fixed, z: Complex, n: int = 2):
    for i in range(n):
        r += z.re * z.re + z.im * z.im

@reversible
def divide(q: fixed, x: fixed, y: fixed):
    q += x / y

@rg.struct
class Layer:
    w: fixed
    k: int

@reversible
def layer(y: fixed, l: Layer, s: fixed):
    y += l.w * l.w * s

plain = abs
"""


@pytest.fixture(autouse=True)
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("f.py").write_text(SOURCE)


def test_the_report(cli: Cli) -> None:
    code, out, err = cli("grad", "f.py:hypot", "1.0", "3.0", "4.0", "--scale", "20", "--wrt", "x", "--wrt", "0")
    assert (code, err) == (OK, "")
    # 1/(2·5) is no binary number; with 20 places more it is one to 15 digits.
    first, x, r, *rest = out.splitlines()
    assert first == "r     = 6.0"
    assert x.startswith("∂r/∂x = 0.6") or x.startswith("∂r/∂x = 0.5999999999999")
    assert r == "∂r/∂r = 1.0"
    assert rest == [
        "",
        "12 steps forward, 16 back (× 1.33); 3 words of memory, and their cotangents; 64 bits of cotangents dropped",
        "the arguments are what they were",
    ]


def test_arrays_are_shown_below_each_other(cli: Cli) -> None:
    np.save("m.npy", np.array([[1.0, 2.0], [0.5, -1.0]]))
    code, out, _ = cli("grad", "f.py:quadratic", "0.0", "@m.npy", "x=[1.0, 2.0]")
    assert code == OK
    assert out.splitlines()[:4] == ["y     = 2.0", "∂y/∂m = [[1., 2.],", "         [2., 4.]]", "∂y/∂x = [ 7. , -1.5]"]


def test_structs_defaults_and_other_formats(cli: Cli) -> None:
    code, out, _ = cli("grad", "f.py:size", "0.0", "3+4j", "--format", "32,16")
    assert code == OK
    assert out.splitlines()[:2] == ["r     = 50.0", "∂r/∂z = Complex(re=12.0, im=16.0)"]
    assert cli("grad", "f.py:size", "0.0", "3+4j", "--format", "Q16.16")[1] == out
    assert cli("grad", "f.py:size", "0.0", "300+4j", "--format", "Q16.16")[0] == TRAPPED


def test_inverses(cli: Cli) -> None:
    out = cli("grad", "f.py:~size", "50.0", "3+4j")[1]
    assert out.splitlines()[:2] == ["r     = 0.0", "∂r/∂z = Complex(re=-12.0, im=-16.0)"]


def test_json(cli: Cli) -> None:
    code, out, _ = cli("grad", "f.py:quadratic", "0", "[[1.0, 2.0], [0.5, -1.0]]", "[1.0, 2.0]", "--json", "--wrt", "x")
    assert code == OK
    report = json.loads(out)
    assert report.pop("ratio") == report["backward_steps"] / report["forward_steps"]
    assert 0 <= report.pop("backward_steps") - (report["forward_steps"] - 1) < report["forward_steps"] / 2
    assert report.pop("forward_steps") > 10
    assert report == {
        "schema": "retrograd.gradient/1", "function": "quadratic", "loss": "y", "scale": 16, "value": 2.0,
        "gradients": {"x": [7.0, -1.5]}, "memory_words": 7, "dropped_bits": 256, "inputs_restored": True,
    }  # fmt: skip
    assert json.loads(cli("grad", "f.py:~size", "0", "1j", "--json", "--scale", "0x4")[1])["gradients"] == {
        "z": {"re": 0.0, "im": -4.0}
    }


def test_the_loss_by_name_or_position(cli: Cli) -> None:
    by_name = cli("grad", "f.py:hypot", "1.0", "3.0", "4.0", "--loss", "x")[1]
    assert by_name.splitlines()[:3] == ["x     = 3.0", "∂x/∂r = 0.0", "∂x/∂y = 0.0"]
    assert cli("grad", "f.py:hypot", "1.0", "3.0", "4.0", "--loss", "1")[1] == by_name


def test_traps(cli: Cli) -> None:
    code, out, err = cli("grad", "f.py:divide", "0.0", "1.0", "0.0")
    assert (code, out) == (TRAPPED, "")
    assert err.startswith("error[RG0402]: division by zero")
    assert "and can run back from there" in err
    code, out, err = cli("grad", "f.py:divide", "0.0", "1.0", "0.001", "--scale", "25", "--json")
    assert (code, err) == (TRAPPED, "")
    (finding,) = json.loads(out)["findings"]
    assert finding["code"] == "RG0404"
    assert "cotangent overflow" in finding["message"]
    assert finding["span"]["line"] == 22


HYPOT = ("grad", "f.py:hypot", "0.0", "3.0", "4.0")


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        (("grad", "none.py:f"), "error[RG0501]: none.py: No such file or directory"),
        (("grad", "f.py"), "error[RG0509]: `f.py` is a file: which of its functions is meant?"),
        (("grad", "f.py:hypto"), "did you mean `hypot`?"),
        (("grad", "f.py:plain", "1.0"), "error[RG0509]: `plain` in f.py is no reversible function"),
        (("grad", "f.py:hypot", "0.0"), "error[RG0603]: `hypot` is called without `x`"),
        (("grad", "f.py:hypot", "0.0", "3.0", "[4.0"), "error[RG0510]"),
        (("grad", "f.py:hypot", "0.0", "3.0", "[4.0]"), "error[RG0603]: `y` of `hypot` is one fixed"),
        ((*HYPOT, "--loss", "z"), "fix: its arguments are r, x, y"),
        ((*HYPOT, "--loss", "7"), "error[RG0603]: `hypot` has no argument 7"),
        ((*HYPOT, "--wrt", "z"), "error[RG0603]: `hypot` has no argument 'z'"),
        ((*HYPOT, "--wrt", "x", "--wrt", "1"), "error[RG0603]: `x` of `hypot` is chosen twice"),
        ((*HYPOT, "--scale", "31"), "fix: -32 to 30 in Q32.32"),
        ((*HYPOT, "--scale", "much"), "error[RG0507]: --scale: `much` is no integer"),
        ((*HYPOT, "--format", "33,1"), "error[RG0604]: '33,1' is no format: width must be one of"),
        ((*HYPOT, "--format", "Q16"), "error[RG0604]: 'Q16' is no format: a format is written"),
        (("grad", "f.py:size", "0.0", "1j", "--wrt", "n"), "error[RG0603]: `n` of `size` is int: int has no derivative"),
        (("grad", "f.py:size", "0.0", "1j", "--loss", "z"), "error[RG0603]: the loss `z` of `size` is Complex"),
    ],
)  # fmt: skip
def test_misuse(cli: Cli, arguments: tuple[str, ...], found: str) -> None:
    code, out, err = cli(*arguments)
    assert (code, out) == (BAD_INPUT, "")
    assert found in err
    assert "Traceback" not in err
    code, out, err = cli(*arguments, "--json")
    assert (code, err) == (BAD_INPUT, "")
    assert json.loads(out)["schema"] == "retrograd.findings/1"


def test_the_whole_message_of_an_error(cli: Cli) -> None:
    assert cli(*HYPOT, "--wrt", "z")[2] == (
        "error[RG0603]: `hypot` has no argument 'z'\n"
        "  why: The function takes another number of arguments, other types, or other shapes.\n"
        "  fix: its arguments are r, x, y\n"
    )


@pytest.mark.parametrize("wrt", [(), ("--wrt", "l", "--wrt", "s")])
def test_a_struct_that_holds_an_int_is_not_left_out(cli: Cli, wrt: tuple[str, ...]) -> None:
    code, out, err = cli("grad", "f.py:layer", "0.0", '{"w": 3.0, "k": 2}', "2.0", "--json", *wrt)
    assert (code, err) == (OK, "")
    assert json.loads(out)["gradients"] == {"l": {"w": 12.0, "k": 0}, "s": 9.0}
