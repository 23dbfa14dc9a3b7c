"""`retrograd devices`: with devices that are none (tests/simulator/engines/cuda/fake_driver.py), and without."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from retrograd.simulator.engines.cuda import driver as drivers

from retrograd.cli.commands import devices as command

Cli = Callable[..., tuple[int, str, str]]
OK = 0


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], None]:
    """Make this the driver's library of the machine."""

    def install(library: Any) -> None:
        monkeypatch.setattr(drivers, "_driver", None)
        monkeypatch.setattr(drivers, "load_library", lambda: library)

    return install


def test_with_devices(cli: Cli, fakes: ModuleType, install: Callable[[Any], None]) -> None:
    fake = fakes.FakeDriver(
        devices=[fakes.FakeDevice(), fakes.FakeDevice("Fake H200", (9, 0), 140 << 30, 132, 1_980_000)]
    )
    install(fake)
    code, out, err = cli("devices")
    assert (code, err) == (OK, "")
    lines = [line.split("  ") for line in out.splitlines()]
    cells = [[cell.strip() for cell in line if cell] for line in lines]
    assert cells[1] == ["cuda:0", "Fake A100", "108 multiprocessors at 1.41 GHz", "1.0 GiB", "compute capability 8.0"]
    assert cells[2] == ["cuda:1", "Fake H200", "132 multiprocessors at 1.98 GHz", "140.0 GiB", "compute capability 9.0"]
    assert "The CUDA driver serves programs of CUDA 12.4 and older." in out
    found = json.loads(cli("devices", "--json")[1])
    assert found["schema"] == "retrograd.devices/1"
    assert (found["cuda"]["version"], found["cuda"]["unavailable"]) == ("12.4", None)
    assert found["cuda"]["devices"][1] == {
        "index": 1, "name": "Fake H200", "compute_capability": "9.0", "memory": 140 << 30, "multiprocessors": 132, "clock": 1_980_000,
    }  # fmt: skip
    assert fake.retained == 0
    assert fake.calls["cuDevicePrimaryCtxRetain"] == 0  # that would take a fifth of a second, and memory


@pytest.mark.parametrize(
    ("starts", "devices", "said", "version"),
    [(100, 1, "it finds no device", None), (999, 1, "nvidia_uvm", None), (0, 0, "it finds no device", "12.4")],
)
def test_without_a_device(
    cli: Cli,
    fakes: ModuleType,
    install: Callable[[Any], None],
    starts: int,
    devices: int,
    said: str,
    version: str | None,
) -> None:
    install(fakes.FakeDriver(devices=[fakes.FakeDevice()] * devices, starts=starts))
    code, out, err = cli("devices")
    assert (code, err) == (OK, "")
    assert out.startswith("cpu  ")
    assert said in out
    assert "The CPU runs every program." in out
    found = json.loads(cli("devices", "--json")[1])["cuda"]
    assert (found["version"], found["devices"], found["unavailable"]["code"]) == (version, [], "RG1002")


def test_without_a_driver(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drivers, "_driver", None)
    monkeypatch.setattr(drivers, "_library_names", lambda: ("libnone.so.1",))
    code, out, err = cli("devices")
    assert (code, err) == (OK, "")
    assert "No CUDA device: no CUDA driver is installed: there is no libnone.so.1. The CPU runs every program." in out


def test_a_driver_that_fails_at_a_question(cli: Cli, fakes: ModuleType, install: Callable[[Any], None]) -> None:
    for name in ("cuDriverGetVersion", "cuDeviceGetCount", "cuDeviceGetName", "cuDeviceGetAttribute"):
        fake = fakes.FakeDriver()
        fake.fail(name, 999)
        install(fake)
        code, out, err = cli("devices")
        assert (code, err) == (OK, "")
        assert "CUDA_ERROR_UNKNOWN (999)" in out


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
    code = "from retrograd.cli.main import main; main(['devices'])\nimport sys\nprint(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    modules = {name.split(".")[0] for name in done.stderr.decode().split()}
    assert "retrograd" in modules
    assert modules & {"numpy", "numba", "llvmlite", "amaranth", "matplotlib", "rich"} == set()
