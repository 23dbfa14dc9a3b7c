"""`retrograd entropy`: values, direction, erase mode, samples, JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import retrograd as rg
from retrograd.cli.main import main

TEXT = """
import retrograd as rg
from retrograd import Array, fixed

@rg.reversible
def low_bits(x: int):
    t = x & 7
    rg.swap(t, x)
    rg.erase(t)

@rg.reversible
def length(y: fixed, x: Array[fixed, 2]):
    with rg.routine() as r:
        square = rg.sum(x ** 2)
    y += square * 2
    ~r

@rg.reversible
def root(y: fixed, x: fixed):
    y += rg.sqrt(x)
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "functions.py"
    path.write_text(TEXT)
    return str(path)


def report(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict:  # type: ignore[type-arg]
    assert main(["entropy", *arguments, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["schema"] == "retrograd.entropy/1"
    return dict(found)


def test_values_of_each_kind(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    for text, inputs in (("x=0..63", 6), ("x=-32..31", 6), ("x=0,1,2,3", 2), ("x=5", 0)):
        assert report(capsys, f"{file}:low_bits", text)["inputs"]["bits"] == inputs
    assert report(capsys, f"{file}:low_bits", "x=words", "--format", "Q4.4")["whole"]["conditional"]["bits"] == 5
    assert report(capsys, f"{file}:length", "y=0.0,1.5", "x=[1,2],[3,4],[5.5,6],[7,8]")["runs"] == 8
    found = report(capsys, f"{file}:low_bits", "x=0..7", "--prior", "x=0..63", "--temperature", "4.2K")
    assert found["mismatch"]["bits"] == 3
    assert found["mismatch"]["joules"] == pytest.approx(3 * 1.380649e-23 * 4.2 * 0.6931471805599453, rel=1e-12, abs=0)
    assert [site["name"] for site in found["erasures"]] == ["t"]
    assert [line["line"] for line in found["lines"]] == [9]
    assert found["functions"][0]["function"] == "low_bits"


def test_options(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    values = "y=0.0", "x=[1,2],[3,4],[5,6],[7,8]"
    assert report(capsys, f"{file}:length", *values)["whole"]["capacity"]["bits"] == 0
    assert report(capsys, f"{file}:~length", *values)["name"] == "~length"
    assert report(capsys, f"{file}:length", *values, "--erase")["whole"]["joint"]["bits"] == 2
    found = report(capsys, f"{file}:root", "y=0.0", "x=-1.0,1.0,4.0,-4.0", "--condition")
    assert (found["runs"], found["trapped"]) == (2, 0.5)
    one, two, other = (
        report(capsys, f"{file}:low_bits", "x=words", "--samples", "50", "--seed", seed)["kept"] for seed in "112"
    )
    assert one == two != other
    assert main(["entropy", f"{file}:low_bits", "x=words", "--samples", "50"]) == 0
    assert "50 samples, estimated" in capsys.readouterr().out


def test_text_is_that_of_the_function(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    @rg.reversible
    def low_bits(x: int) -> None:
        t = x & 7
        rg.swap(t, x)
        rg.erase(t)

    assert main(["entropy", f"{file}:low_bits", "x=0..63"]) == 0
    shown = capsys.readouterr().out.splitlines()
    expected = str(rg.entropy(low_bits, {"x": range(64)})).splitlines()
    assert shown[0] == expected[0]
    assert [line.split() for line in shown[3:]] == [line.split() for line in expected[3:]]
