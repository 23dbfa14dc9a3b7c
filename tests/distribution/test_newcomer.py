"""A new user, with nothing but the installed package: to a batch on four workers in fifteen minutes, and to a training run."""

from __future__ import annotations

import math
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from retrograd.examples.mixture_training import DEVIATION, MEANS, WEIGHTS, train, write_points

import retrograd as rg

pytestmark = pytest.mark.long
ROOT = Path(__file__).resolve().parents[2]


def blocks(page: Path, heading: str) -> list[tuple[str, str]]:
    """(kind, text) of the code below a heading of a page."""
    text = page.read_text("utf-8")
    section = re.split(r"^## ", text.partition(f"## {heading}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]
    return re.findall(r"^```([\w .]+)\n(.*?)^```", section, re.MULTILINE | re.DOTALL)


def test_a_batch_on_four_workers_in_fifteen_minutes(tmp_path: Path) -> None:
    """The files of the first steps, typed as they stand there, in an empty folder; then the command line on four workers."""
    begun = time.monotonic()
    page = ROOT / "docs" / "first-steps.md"
    spring = next(
        t
        for k, t in re.findall(r"^```python (\w+\.py)\n(.*?)^```", page.read_text("utf-8"), re.M | re.S)
        if k == "spring.py"
    )
    (tmp_path / "spring.py").write_text(spring)
    found = dict(blocks(page, "A batch on four workers"))
    (tmp_path / "batch.py").write_text(found["python batch.py"])
    ran = subprocess.run([sys.executable, "batch.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (0, "(10000,) the same bits as in one process: True\n"), ran.stderr
    assert ran.stdout == found["console"].partition("\n")[2]
    np.savez(tmp_path / "in.npz", k=np.linspace(0.5, 4.0, 1000))
    retrograd = [
        str(Path(sys.executable).parent / "retrograd"),
        "run",
        "spring.py:spring",
        "1.0",
        "0.0",
        "n=64",
        "--batch",
        "in.npz",
    ]
    for more in (["-o", "alone.npz"], ["-o", "out.npz", "--workers", "4", "--store", "store.db"]):
        ran = subprocess.run([*retrograd, *more], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stderr
    with np.load(tmp_path / "out.npz") as a, np.load(tmp_path / "alone.npz") as b:
        assert all(np.array_equal(a[name], b[name]) for name in b)
    assert time.monotonic() - begun < 15 * 60


def test_wrong_ways_to_begin(tmp_path: Path) -> None:
    """A script without the line that new processes need, and an address at which there is no scheduler: our own errors."""
    script = "import numpy as np\nimport retrograd as rg\nfrom retrograd.library import relu\n"
    script += "rg.run_batch(relu, np.zeros(9), np.ones(9), executor=2)\n"
    (tmp_path / "script.py").write_text(script)
    ran = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    assert "RG1510" in ran.stderr
    assert ran.stderr.count("Traceback") == 1
    assert 'if __name__ == "__main__"' in ran.stderr
    with pytest.raises(rg.RetrogradError, match=r"RG1502.*no scheduler answers"):
        rg.run_batch(rg.library.relu, np.zeros(2), np.ones(2), executor="tcp://127.0.0.1:9")


def test_training_on_a_million_points(tmp_path: Path) -> None:
    """Two steps, on four workers and in one process; from a mapped file."""
    points = write_points(tmp_path / "points.npy", 1_000_000)
    with rg.workers(4) as executor:
        found = list(train(points, 2, executor=executor))
    for (mean, a), (other, b) in zip(found, train(points, 2), strict=True):
        assert mean == other
        assert all(np.array_equal(a[name], b[name]) for name in b)


def test_training_finds_the_mixture(tmp_path: Path) -> None:
    points = write_points(tmp_path / "points.npy", 4000)
    means = [mean for mean, _ in train(points, 60)]
    # That of the mixture that the points are drawn from.
    x, variance = np.asarray(points)[:, 0], DEVIATION**2
    squares = [((x - np.array(mean)) ** 2).sum(axis=1) for mean in MEANS]
    density = sum(w * np.exp(-s / (2 * variance)) for w, s in zip(WEIGHTS, squares, strict=True)) / (
        math.tau * variance
    )
    assert abs(means[-1] + np.log(density).mean()) < 0.01
    assert means[0] > means[-1] + 1
