"""`retrograd bench --gpu`: the whole of it under the CUDA simulator, and what it does without a device."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

needs_numba_cuda = pytest.mark.skipif(
    importlib.util.find_spec("numba_cuda") is None,
    reason="numba-cuda is not installed: the script is not run in its simulator",
)


@pytest.fixture(autouse=True)
def transformations() -> None:
    """The script is run in one way only."""


ROOT = Path(__file__).parents[4]


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "retrograd.cli.main", "bench", "--gpu", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=ROOT, env=os.environ | environment, timeout=600
    )


@pytest.mark.long
@needs_numba_cuda
def test_under_the_simulator(tmp_path: Path) -> None:
    """One test: the script is run once."""
    file = tmp_path / "gpu.json"
    done = run("--fake", "--quick", "--minutes", "60", "--json", str(file))
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(file.read_text())
    assert "until" not in found
    it_does_all_of_it(found)
    it_counts(found)
    it_prints_tables(done.stdout, found)


def it_does_all_of_it(found: dict[str, Any]) -> None:
    assert found["schema"] == "retrograd.gpu/1"
    assert found["machine"]["device"] == "Numba's CUDA simulator"
    assert found["machine"]["fake"] is True
    assert found["failed"] == []
    names = [row["name"] for row in found["identical"]]
    for tier in ("translated", "interpreted"):
        assert len([name for name in names if name.startswith("random program") and tier in name]) == 2
    assert any(name.endswith("backward") for name in names)
    assert any(name.startswith("parallel loops") for name in names)
    # Each size of blocks once by rows, and twice by sums of a larger batch.
    blocks = {int(size) for name in names for size in re.findall(r"Bessel gradient, Setting\(block=(\d+)", name)}
    assert blocks == {32, 64, 128, 256, 512, 1024}
    assert len([name for name in names if name.endswith("second run")]) == 9
    assert all(row["same"] for row in found["identical"])
    ours = [row for row in found["times"] if row["system"] == "retrograd"]
    kinds = [
        "Bessel J₂, ",
        "Bessel J₂ and its slope",
        "BA errors",
        "BA Jacobian blocks",
        "graph embedding, k = 10, 3",
        "graph embedding, k = 10, gradient",
        "GMM objective",
        "GMM gradient",
        "leapfrog, nine bodies, 2 steps, 2",
        "leapfrog, nine bodies, 2 steps, gradient",
        "wave, 12 × 12 cells, 3 steps, forward",
        "wave, 12 × 12 cells, 3 steps, back",
        "wave, 12 × 12 cells, 3 steps, gradient",
    ]
    assert [next(kind for kind in kinds if row["workload"].startswith(kind)) for row in ours] == kinds
    assert all({"kernel_ms", "cores_ms"} <= row.keys() and row["error"] < 1e-6 for row in ours)
    assert all("copies_ms" in row for row in ours if not row["workload"].startswith("wave"))
    calls = found["calls"]
    assert [row["workload"].split(",")[0] for row in calls] == [
        "Bessel J₂",
        "Bessel J₂ and its slope",
        "cubic polynomials in Q32.32",
        "cubic polynomials in Q16.16",
        "BA errors",
        "graph embedding",
        "GMM objective",
        "regression",
        "leapfrog",
    ]
    assert all(row["same"] and row["device_ms"] > 0 and row["host_ms"] > 0 for row in calls)
    # A peer is there, with every workload that it has, or is named.
    systems = {row["system"] for row in found["times"]}
    assert all((peer in systems) != (peer in found["absent"]) for peer in ("jax", "Warp"))


def it_counts(found: dict[str, Any]) -> None:
    counts = found["counts"]
    assert counts["arch"] == "sm_90"
    # A sum is one instruction, and names of registers are exchanged by exchanging names.
    assert counts["instructions"]["mov.add"]["ptx"] == 1
    assert counts["instructions"]["swap"]["ptx"] == 0
    assert counts["instructions"]["fmul.add"]["ptx"] > 3
    assert counts["programs"]["bessel"]["ptx"] > counts["programs"]["bessel"]["isa"]


def it_prints_tables(text: str, found: dict[str, Any]) -> None:
    lines = text.splitlines()
    assert any(line.startswith("On one Numba's CUDA simulator (sm_52, ") for line in lines)
    assert any("times mean nothing" in line for line in lines)
    for row in found["times"]:
        assert any(line.startswith(f"| {row['workload']} | {row['system']} |") for line in lines)
    for name in found["absent"]:
        assert any(line.startswith(f"Absent: {name} (") for line in lines)


@pytest.mark.long
def test_without_a_device(tmp_path: Path) -> None:
    done = run("--quick", "--json", str(tmp_path / "gpu.json"), CUDA_VISIBLE_DEVICES="", NUMBA_ENABLE_CUDASIM="0")
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "gpu.json").read_text())
    assert done.stderr.startswith("There is no GPU here (")
    assert "| BA errors of 9,125,125 measurements, and their Jacobian blocks | not measured |" in done.stdout
    assert f"Not measured: {found['absent']['device']}" in done.stdout
    assert found["absent"]["device"]
    assert found["times"] == found["identical"] == []
    assert found["counts"]["instructions"]["mov.add"]["ptx"] == 1


@pytest.mark.long
def test_parts_are_left_out_when_the_time_has_run_out(tmp_path: Path) -> None:
    file = tmp_path / "gpu.json"
    done = run("--quick", "--minutes", "0", "--json", str(file), CUDA_VISIBLE_DEVICES="", NUMBA_ENABLE_CUDASIM="0")
    assert done.returncode == 0, done.stderr
    found = json.loads(file.read_text())
    assert found["counts"] == {}
    assert "Absent: counts (left out, since the time had run out)." in done.stdout


@pytest.mark.long
@needs_numba_cuda
def test_under_the_simulator_without_time(tmp_path: Path) -> None:
    """All parts are named."""
    file = tmp_path / "gpu.json"
    done = run("--fake", "--minutes", "0", "--json", str(file))
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(file.read_text())
    assert found["identical"] == found["times"] == []
    parts = {name for name, why in found["absent"].items() if why.startswith("left out")}
    checks = {f"identical_{name}" for name in ("programs", "examples", "cuts", "single_runs", "interpreted")}
    assert parts == {*checks, "Bessel, 50", "BA", "graph", "GMM", "leapfrog", "wave", "calls", "counts"}
