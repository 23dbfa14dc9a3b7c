"""Numbers with binary points of their own where programs show them: JSON, batches in files, traces, cotangents of the debugger."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from retrograd import Array, fixed, reversible
from retrograd.cli.main import main
from retrograd.derivatives._requests import way_back
from retrograd.observe._session import Session
from retrograd.observe._variables import variables

SOURCE = """
import retrograd as rg
from retrograd import Array, fixed

@rg.struct
class Part:
    m: fixed[-20]
    q: fixed

@rg.reversible
def g(y: fixed[50], x: fixed[40], a: Array[fixed[20], 2], z: fixed):
    y += x * x + a[0] * x

@rg.reversible
def of_parts(y: fixed[20], p: Part):
    y += p.m * p.q

@rg.reversible
def plain(y: fixed, x: fixed):
    y += x * x
"""


@reversible
def g(y: fixed[50], x: fixed[40], a: Array[fixed[20], 2], z: fixed):
    with rg.routine() as r:
        s: fixed[45] = x * x
    y += s + a[0] * x + 0.0 * z
    ~r


ARGUMENTS = 0.0, 0.25, [1.5, 2.5], 1.0


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "own.py"
    path.write_text(SOURCE)
    return str(path)


def printed(capsys: pytest.CaptureFixture[str], *command: str) -> dict[str, Any]:
    assert main([*command, "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_json_of_runs_and_gradients_names_points(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    points = {"y": 50, "x": 40, "a": 20}
    arguments = ("0", "0.25", "[1.5, 2.5]", "1")
    assert printed(capsys, "run", f"{file}:g", *arguments)["points"] == points
    assert printed(capsys, "grad", f"{file}:g", *arguments)["points"] == points
    assert "points" not in printed(capsys, "run", f"{file}:plain", "0", "1")
    part = '{"m": 3145728.0, "q": 0.5}'
    assert printed(capsys, "run", f"{file}:of_parts", "0", part)["points"] == {"y": 20, "p": {"m": -20}}


def test_batches_of_files_keep_points(file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Arrays of a file are read at the points of their arguments, and the results are written as they are."""
    xs = np.array([0.25, -3.0, 2.0**-40, 1e5])
    np.savez(tmp_path / "in.npz", y=np.zeros(4), x=xs, a=np.array([1.5, 2.5]), z=np.zeros(4))
    command = ("run", f"{file}:g", "--batch", str(tmp_path / "in.npz"), "--shared", "a")
    assert main(command) == 3
    assert "`fixed[29]` holds this result" in capsys.readouterr().err
    xs[3] = 50.0
    np.savez(tmp_path / "in.npz", y=np.zeros(4), x=xs, a=np.array([1.5, 2.5]), z=np.zeros(4))
    found = printed(capsys, *command)
    assert found["points"] == {"y": 50, "x": 40, "a": 20}
    assert found["each"]["values"]["y"] == [x * x + 1.5 * x for x in (0.25, -3.0)] + [
        round((2.0**-80 + 1.5 * 2.0**-40) * 2.0**50) / 2.0**50, 2575.0
    ]  # fmt: skip
    out = str(tmp_path / "out.npz")
    assert printed(capsys, *command, "-o", out)["points"] == {"y": 50, "x": 40, "a": 20}
    with np.load(out) as written:
        assert written["y"].tolist() == found["each"]["values"]["y"]
        assert written["x"].tolist() == xs.tolist()


def test_a_recording_names_points() -> None:
    document = rg.explore(g, *ARGUMENTS).as_dict()
    points = {v["name"]: v.get("point") for v in (*document["variables"], *document["arrays"])}
    assert points["s"] == 45
    assert points["a"] == 20
    assert points["x"] == 40
    assert points.get("z") is None


def test_the_debugger_shows_the_derivatives() -> None:
    """A cotangent of a word with the point p stands at F + q − p, q being the point of the loss."""
    request = rg.grad(g, loss="y").request
    values = request.values(ARGUMENTS, {})
    turned = way_back(request, values)
    machine = request.machine(turned.compiled, values)
    machine.run()
    turned.begin(machine)
    session = Session(machine)
    session.resume()
    shown = {}
    while not shown.get("x"):
        session.step(back=True)
        shown = {v.name: v.cotangent for v in variables(machine)}
    exact = rg.grad(g, loss="y")(*ARGUMENTS)
    assert float(shown["x"]) == exact.x == 2.0
    assert list(map(float, shown["a"])) == exact.a.tolist() == [0.25, 0.0]
    assert float(shown["y"]) == 1.0
    for text, value in (("cotangent(x)", 2.0), ("cotangent(y)", 1.0), ("cotangent(a[0])", 0.25)):
        assert float(session.evaluate(text)) == value
