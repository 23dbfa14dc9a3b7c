"""The tests in simulated/, in processes of their own: Numba reads NUMBA_ENABLE_CUDASIM when it is imported."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent / "simulated"
FILES = sorted(path.name for path in FOLDER.glob("test_*.py"))
#: files of the default tier, whose tests take a few seconds: kernels of batches, and of single runs
QUICK = ["test_borrowed_arrays.py", "test_single_runs.py"]

needs_numba_cuda = pytest.mark.skipif(
    importlib.util.find_spec("numba_cuda") is None,
    reason="numba-cuda is not installed: the CUDA engine is not run in its simulator",
)


def run(file: str, tier: str, marks: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", tier, "-m", marks]
    there = os.environ | {"NUMBA_ENABLE_CUDASIM": "1"}
    return subprocess.run([*command, str(FOLDER / file)], capture_output=True, text=True, check=False, env=there)


def check_under_the_simulator(file: str) -> None:
    done = run(file, "--everything", "not long")
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert " passed" in done.stdout


@needs_numba_cuda
@pytest.mark.parametrize("file", QUICK)
def test_under_the_simulator(file: str) -> None:
    check_under_the_simulator(file)


@pytest.mark.long
@needs_numba_cuda
@pytest.mark.parametrize("file", [file for file in FILES if file not in QUICK])
def test_others_under_the_simulator(file: str) -> None:
    check_under_the_simulator(file)


@pytest.mark.long
@needs_numba_cuda
@pytest.mark.parametrize("file", FILES)
def test_long_tests_under_the_simulator(file: str) -> None:
    """Those that the full tier draws: 5 is the status of a run without tests."""
    done = run(file, "--full", "long")
    assert done.returncode in (0, 5), done.stdout[-6000:] + done.stderr[-2000:]


def test_files_are_found() -> None:
    assert len(FILES) >= 4


def test_importing_retrograd_imports_no_numba() -> None:
    """Neither does importing the engine on GPUs: its first use does."""
    engine = "retrograd.simulator.engines.cuda"
    code = (
        "import importlib, pkgutil, sys\n"
        "import retrograd, retrograd.cli.main, retrograd.cli.commands.bench\n"
        f"import {engine} as engine\n"
        "for found in pkgutil.iter_modules(engine.__path__):\n"
        f"    importlib.import_module('{engine}.' + found.name)\n"
        "print(*(m for m in sys.modules if m.startswith(('numba', 'cuda'))))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not done.stdout.strip()
