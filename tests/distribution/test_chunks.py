"""Arrays in chunks, in and out: files of NumPy here; Dask and Zarr in the full tier, where their packages are installed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from retrograd.isa.diagnostics import InputError

import retrograd as rg
from retrograd import Array, Stack, fixed, reversible
from retrograd.runtime._arrays import join_words

Made = Callable[..., Any]
X = np.random.default_rng(0).random(500) * 4
#: the numbers that `rg.external` statements have seen
SEEN: list[float] = []


@reversible
def wave(y: fixed, a: fixed, x: fixed) -> None:
    y += rg.sqrt(x) * a


@reversible
def table(y: Array[fixed, "n"], k: int, x: Array[fixed, "n"]) -> None:
    for i in range(len(x)):
        y[i] += x[i] * x[0]
    k += len(x)


@reversible
def pile(s: Stack[int, 4], x: int) -> None:
    rg.push(s, x)


def mapped(folder: Path, **arrays: Any) -> list[Any]:
    """Arrays as mapped files."""
    out = []
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
        out.append(np.load(folder / f"{name}.npy", mmap_mode="r"))
    return out


def read(folder: Path) -> dict[str, Any]:
    return {path.stem: np.load(path) for path in folder.glob("*.npy")}


def test_mapped_files(tmp_path: Path, losing: Made) -> None:
    y, x = mapped(tmp_path, y=X * 0, x=X)
    expected = rg.run_batch(wave, X * 0, 0.5, X, in_axes=(0, None, 0))
    for how in ({}, {"executor": losing()}, {"store": tmp_path / "store.db"}):
        found = rg.run_batch(wave, y, 0.5, x, in_axes=(0, None, 0), chunk=70, **how)
        assert np.array_equal(found.matrix, expected.matrix)
        result = rg.run_chunked(wave, y, 0.5, x, in_axes=(0, None, 0), chunk=70, out=tmp_path / "out", **how)
        assert np.array_equal(result.values["y"], expected.values.y)
        assert np.array_equal(result.steps, expected.steps)
        assert (result.elements, result.total_steps) == (500, int(expected.steps.sum()))
    files = read(tmp_path / "out")
    assert sorted(files) == ["a", "retrograd.erased_bits", "retrograd.steps", "retrograd.trap", "x", "y"]
    assert all(np.array_equal(files[name], getattr(expected.values, name)) for name in ("y", "a", "x"))


def test_arrays_of_rows_and_chosen_results(tmp_path: Path) -> None:
    rows = np.random.default_rng(1).random((50, 3))
    y, k, x = mapped(tmp_path, y=rows * 0, k=np.arange(50), x=rows)
    result = rg.run_chunked(table, y, k, x, out=tmp_path / "out", results=("y", "k"), chunk=8)
    expected = rg.run_batch(table, rows * 0, np.arange(50), rows)
    assert sorted(result.values) == ["k", "y"]
    assert np.array_equal(result.values["y"], expected.values.y)
    assert np.array_equal(result.values["k"], expected.values.k)
    assert result.values["k"].dtype == expected.values.k.dtype
    back = rg.run_chunked(~table, result.values["y"], result.values["k"], x, out=tmp_path / "back")
    assert not np.any(back.values["y"])
    assert np.array_equal(back.values["k"], np.arange(50))


def test_words_that_a_float64_would_round(tmp_path: Path) -> None:
    x = np.array([0.0, 1.0, 1 + 2**-30, 3 + 2**-31, 5.0])
    (n,) = mapped(tmp_path, n=np.array([100.0, 200.0, 2**30 + 2**-20, 1.5, 0.25]))
    rg.run_chunked(wave, x * 0, 0.5, x, in_axes=(0, None, 0), out=tmp_path / "exact")
    assert not list((tmp_path / "exact").glob("*.words.npy"))

    @reversible
    def finest(n: fixed, x: fixed) -> None:
        n += x
        n += rg.fixed(2**-32)

    (tmp_path / "out").mkdir()
    found = rg.run_chunked(finest, n, x, out=tmp_path / "out", chunk=2)
    expected = rg.run_batch(finest, np.asarray(n), x)
    files = read(tmp_path / "out")
    files["n.format"] = np.array((tmp_path / "out" / "n.format.txt").read_text())
    again = rg.run_batch(~finest, join_words(files)["n"], found.values["x"])
    assert np.array_equal(again.matrix, rg.run_batch(~finest, expected.values.n, expected.values.x).matrix)


def test_traps(tmp_path: Path) -> None:
    x = X.copy()
    x[[4, 77]] = -1.0
    (given,) = mapped(tmp_path, x=x)
    with pytest.raises(rg.ElementTrap, match=r"element 4") as caught:
        rg.run_chunked(wave, X * 0, 0.5, given, in_axes=(0, None, 0), out=tmp_path / "out", chunk=50)
    result = caught.value.result
    assert np.flatnonzero(result.trap).tolist() == [4, 77]
    assert set(result.trap.tolist()) == {0, 403}
    assert (result.trapped, [*result.traps]) == (2, [4, 77])
    assert result.values["y"][4] == 0
    x[[4, 77]] = 1e300
    (given,) = mapped(tmp_path, big=x)
    with pytest.raises(InputError, match=r"RG0601.*element 4 of|RG0601.*element 4: .*counted from element 0"):
        rg.run_chunked(wave, X * 0, 0.5, given, in_axes=(0, None, 0), out=tmp_path / "out")


def test_shared_sums_of_mapped_files(tmp_path: Path, losing: Made) -> None:
    (x,) = mapped(tmp_path, x=X)
    for scale in (0, "auto"):
        of, how = rg.value_and_grad(wave, "a", scale=scale), {"in_axes": (None, None, 0), "shared": "sum"}
        expected = rg.vmap(of, **how)(0.0, 0.5, X)
        assert rg.vmap(of, **how)(0.0, 0.5, x) == expected
        assert rg.vmap(of, executor=losing(), chunk=60, **how)(0.0, 0.5, x) == expected


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"results": ("z",)}, "RG0603.*no argument `z`"),
        ({"out": "file"}, "RG1509.*is a file"),
        ({"out": "full"}, "RG1509.*holds other files"),
        ({"out": "no/such"}, "RG0501"),
        ({"out": "."}, "RG1509.*is read from"),
        ({"traps": "ignore"}, "RG0603.*traps"),
        ({"in_axes": (0, None, 1)}, "RG0603.*no axis 1"),
    ],
)
def test_wrong_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: dict[str, Any], text: str) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("kept")
    (x,) = mapped(tmp_path, x=X)
    with pytest.raises(InputError, match=text):
        rg.run_chunked(wave, X * 0, 0.5, x, **{"out": "out", "in_axes": (0, None, 0), **change})
    assert np.array_equal(np.load("x.npy"), X)
    assert (tmp_path / "full" / "mine.txt").read_text() == "kept"


def test_mapped_files_along_another_axis_and_with_statements_for_the_host(tmp_path: Path) -> None:
    """These are loaded, as before."""
    rows = np.random.default_rng(1).random((3, 50))
    (x,) = mapped(tmp_path, x=rows)
    SEEN.clear()

    @reversible
    def noted(y: Array[fixed, 3], x: Array[fixed, 3]) -> None:
        y += x
        with rg.external():
            SEEN.append(float(x[0]))

    expected = rg.run_batch(noted, np.zeros((50, 3)), rows.T)
    found = rg.run_batch(noted, np.zeros((50, 3)), x, in_axes=(0, 1))
    assert np.array_equal(found.matrix, expected.matrix)
    (by_rows,) = mapped(tmp_path, t=rows.T)
    assert np.array_equal(rg.run_batch(noted, np.zeros((50, 3)), by_rows).matrix, expected.matrix)
    assert pytest.approx([*rows[0]] * 3, abs=1e-9) == SEEN
    report = rg.energy(rg.vmap(wave, (None, None, 0)), 0.0, 0.5, by_rows[:, 0])
    assert report.counts == rg.energy(rg.vmap(wave, (None, None, 0)), 0.0, 0.5, rows[0]).counts


def test_values_that_are_no_arrays(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"RG1509.*`s` is"):
        rg.run_chunked(pile, [[1], [2]], np.arange(2), out=tmp_path / "out")
    result = rg.run_chunked(pile, [[1], [2]], np.arange(2), out=tmp_path / "out", results=("x",))
    assert result.values["x"].tolist() == [0, 0]


# ---------------------------------------------------------------------- the full tier


@pytest.mark.long
def test_dask_and_zarr(tmp_path: Path) -> None:
    dask_array, zarr = pytest.importorskip("dask.array"), pytest.importorskip("zarr")
    expected = rg.run_batch(wave, X * 0, 0.5, X, in_axes=(0, None, 0))
    lazy = dask_array.from_array(X, chunks=64)
    kept = zarr.create_array(store=tmp_path / "x.zarr", data=X, chunks=(64,))
    for x in (lazy, lazy * 1.0, kept):
        result = rg.run_chunked(wave, X * 0, 0.5, x, in_axes=(0, None, 0), out=tmp_path / "out.zarr", chunk=50)
        assert np.array_equal(result.values["y"][:], expected.values.y)
        assert result.values["y"].chunks == (50,)
        how: dict[str, Any] = {"in_axes": (None, None, 0), "shared": "sum"}
        of = rg.grad(wave, "a")
        assert rg.vmap(of, executor=2, **how)(0.0, 0.5, x) == rg.vmap(of, **how)(0.0, 0.5, X)
    again = zarr.open_group(tmp_path / "out.zarr", mode="r")
    back = rg.run_chunked(~wave, again["y"], 0.5, again["x"], in_axes=(0, None, 0), out=tmp_path / "back")
    assert not np.any(back.values["y"])
    for name in ("out.zarr", "x.zarr"):
        with pytest.raises(InputError, match=r"RG1509"):
            rg.run_chunked(wave, X * 0, 0.5, again["x"], in_axes=(0, None, 0), out=tmp_path / name)


_LARGE = """
import resource, sys
import numpy as np
import retrograd as rg
from retrograd import fixed, reversible

@reversible
def square(y: fixed, x: fixed):
    y += x * x

count = int(sys.argv[1])
x = np.lib.format.open_memmap("x.npy", "w+", np.float64, (count,))
for first in range(0, count, 1 << 20):
    x[first : first + (1 << 20)] = np.arange(first, min(first + (1 << 20), count)) % 1024 / 64
y = np.lib.format.open_memmap("y.npy", "w+", np.float64, (count,))
result = rg.run_chunked(square, y, x, out=sys.argv[2])
for first in range(0, count, 1 << 20):
    part = slice(first, first + (1 << 20))
    assert np.array_equal(result.values["y"][part], x[part] ** 2)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, result.total_steps // result.elements)
"""


@pytest.mark.long
@pytest.mark.parametrize("out", ["out", "out.zarr"])
def test_ten_million_rows_in_two_gigabytes(tmp_path: Path, out: str) -> None:
    """Peak memory of the whole process, mapped pages included; a tenth of the rows takes little less without them."""
    if out.endswith(".zarr"):
        pytest.importorskip("zarr")
    (tmp_path / "large.py").write_text(_LARGE)
    ran = subprocess.run(
        [sys.executable, "large.py", str(10**7), out], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    peak, _ = map(int, ran.stdout.split())
    print(f"{out}: {peak / 1024:.0f} MiB")
    assert peak < 2 << 20
