"""`retrograd devices`: with devices, and without."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from retrograd.simulator.engines.cuda.runtime import Device, device_error

from retrograd.cli.commands import devices as command

Cli = Callable[..., tuple[int, str, str]]
OK = 0


A100 = Device(0, "NVIDIA A100", (8, 0), 108, 1_410_000, 2048)
H200 = Device(1, "NVIDIA H200", (9, 0), 132, 1_980_000, 2048)


def found(monkeypatch: pytest.MonkeyPatch, *devices: Device) -> None:
    """These are the devices of the machine."""
    monkeypatch.setattr(command, "devices", lambda: devices)
    monkeypatch.setattr(command, "driver_version", lambda: (12, 4))
    memories = {0: 1 << 30, 1: 140 << 30}
    monkeypatch.setattr(command, "memory_of_device", lambda device: (0, memories[device.index]))


def test_with_devices(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    found(monkeypatch, A100, H200)
    code, out, err = cli("devices")
    assert (code, err) == (OK, "")
    lines = [line.split("  ") for line in out.splitlines()]
    cells = [[cell.strip() for cell in line if cell] for line in lines]
    assert cells[1] == ["cuda:0", "NVIDIA A100", "108 multiprocessors at 1.41 GHz", "1.0 GiB", "compute capability 8.0"]
    assert cells[2] == [
        "cuda:1",
        "NVIDIA H200",
        "132 multiprocessors at 1.98 GHz",
        "140.0 GiB",
        "compute capability 9.0",
    ]
    assert "The CUDA driver serves programs of CUDA 12.4 and older." in out
    output = json.loads(cli("devices", "--json")[1])
    assert output["schema"] == "retrograd.devices/1"
    assert (output["cuda"]["version"], output["cuda"]["unavailable"]) == ("12.4", None)
    assert output["cuda"]["devices"][1] == {
        "index": 1, "name": "NVIDIA H200", "compute_capability": "9.0", "memory": 140 << 30, "multiprocessors": 132, "clock": 1_980_000,
    }  # fmt: skip


@pytest.mark.parametrize("name", ["devices", "driver_version", "memory_of_device"])
def test_without_a_device(cli: Cli, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Whichever question fails, the reason is printed."""

    def fails(*_: object) -> None:
        raise device_error("RG1002", "the driver finds no device")

    found(monkeypatch, A100)
    monkeypatch.setattr(command, name, fails)
    code, out, err = cli("devices")
    assert (code, err) == (OK, "")
    assert out.startswith("cpu  ")
    assert "No CUDA device: the driver finds no device. The CPU runs every program." in out
    output = json.loads(cli("devices", "--json")[1])["cuda"]
    assert (output["devices"], output["unavailable"]["code"]) == ([], "RG1002")


def test_without_numba_cuda(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    original = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "numba_cuda" else original(name))
    code, out, err = cli("devices")
    assert (code, err) == (OK, "")
    assert "No CUDA device: the package numba-cuda is not installed. The CPU runs every program." in out
    assert "pip install 'retrograd[cuda]'" in out


def test_the_processor(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    found = json.loads(cli("devices", "--json")[1])["cpu"]
    assert found["name"]
    assert 1 <= found["cores"] <= (os.cpu_count() or 1)
    monkeypatch.setattr(command, "compiled_code", lambda: None)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3}, raising=False)
    monkeypatch.setattr(Path, "read_text", lambda *_: "processor : 0\nmodel name\t: Fake 8086: the best\n")
    assert "Fake 8086: the best  1 core\n" in cli("devices")[1]
    assert "kept in" not in cli("devices")[1]
    assert json.loads(cli("devices", "--json")[1])["cpu"]["compiled_code"] is None

    def missing(*_: object) -> str:
        raise FileNotFoundError

    monkeypatch.setattr(Path, "read_text", missing)
    monkeypatch.setattr("platform.processor", lambda: "")
    monkeypatch.setattr("platform.machine", lambda: "pdp11")
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert "pdp11  1 core\n" in cli("devices")[1]


def test_it_starts_at_once(folder: Path) -> None:
    """Without numba-cuda; Numba takes a second to import."""
    code = (
        "import importlib.util as u\nf = u.find_spec\n"
        "u.find_spec = lambda name, *more: None if name == 'numba_cuda' else f(name, *more)\n"
        "from retrograd.cli.main import main; main(['devices'])\nimport sys\nprint(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    modules = {name.split(".")[0] for name in done.stderr.decode().split()}
    assert "retrograd" in modules
    assert modules & {"numpy", "numba", "llvmlite", "amaranth", "matplotlib", "rich"} == set()
