"""`retrograd devices`: with devices, and without."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from retrograd.simulator.engines.cuda import kernel_report
from retrograd.simulator.engines.cuda.kernel_report import KernelResources
from retrograd.simulator.engines.cuda.runtime import Device, device_error

from retrograd.cli.commands import bench as command

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


def test_a_reason_is_printed_once(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> None:
        raise device_error("RG1002", "the driver finds no device", "The CPU runs every program.")

    monkeypatch.setattr(command, "devices", fails)
    assert cli("devices")[1].count("The CPU runs every program.") == 1


def test_a_simulated_device(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    found(monkeypatch, replace(A100, name="Numba's CUDA simulator", clock=0))
    line = cli("devices")[1].splitlines()[1]
    assert "runs on the processor" in line
    assert "GHz" not in line


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


# --------------------------------------------------------------------------------------------- kernels of a program


def test_kernels_of_a_program(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each device has its rows; the figures come from the driver."""
    found(monkeypatch, A100, H200)
    known = {"sm_80": KernelResources(40, 16, None, 0.75), "sm_90": KernelResources(48, 0, None, 0.5)}
    monkeypatch.setattr(kernel_report, "resources_on", lambda kernel, device: known[device.target])
    code, out, err = cli("devices", "--program", "fib.rga")
    assert (code, err) == (OK, "")
    rows = [line.split() for line in out.splitlines() if line.startswith("retrograd_batch")]
    assert rows == [
        ["retrograd_batch", "batches", "cuda:0", "128", "40", "16", "–", "75%"],
        ["retrograd_batch", "batches", "cuda:1", "128", "48", "0", "–", "50%"],
    ]
    program = json.loads(cli("devices", "--program", "fib.rga", "--json")[1])["program"]
    assert program["instance_bytes"] == (64 + 1) * 8
    assert [(row["target"], row["registers"], row["spilled"]) for row in program["kernels"]] == [
        ("sm_80", 40, None),
        ("sm_90", 48, None),
    ]


def test_without_a_device_and_ptxas(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "devices", raising("no device"))
    monkeypatch.setattr(kernel_report, "toolkit_program", lambda name: None)
    code, out, _ = cli("devices", "--program", "fib.rga", "--arch", "sm_80")
    assert code == OK
    assert "sm_80" in out
    assert "Registers are unknown: ptxas is not installed" in out
    row = json.loads(cli("devices", "--program", "fib.rga", "--json")[1])["program"]
    assert row["unknown"] is not None
    assert "registers" not in row["kernels"][0]


def test_a_ptxas_that_is_too_old(cli: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "devices", raising("no device"))
    old = folder / "ptxas"
    old.write_text("#!/bin/sh\necho 'too old' >&2\nexit 1\n")
    old.chmod(0o700)
    monkeypatch.setattr(kernel_report, "toolkit_program", lambda name: str(old))
    code, out, _ = cli("devices", "--program", "fib.rga")
    assert code == OK
    assert "Registers are unknown:" in out
    assert "does not accept the kernel for sm_90: too old" in out


def test_a_function_and_its_arguments(cli: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = "from retrograd import reversible\n\n@reversible\ndef add(y, x):\n    y += x * x\n"
    (folder / "squares.py").write_text(source)
    monkeypatch.setattr(command, "devices", raising("no device"))
    monkeypatch.setattr(kernel_report, "toolkit_program", lambda name: None)
    sizes = [
        json.loads(cli("devices", "--json", "--program", f"squares.py:{name}", "0.0", "1.0")[1])["program"]
        for name in ("add", "~add")
    ]
    assert sizes[0]["instructions"] == sizes[1]["instructions"] > 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--arch", "sm_80"), "--arch belongs to --program"),
        (("1.0",), "an argument belongs to --program"),
        (("--program", "fib.rga", "--format", "32,16"), "--format is for functions"),
        (("1.0", "--program", "fib.rga"), "an argument is for functions"),
    ],
)
def test_options_that_do_not_apply(cli: Cli, arguments: tuple[str, ...], message: str) -> None:
    code, _, err = cli("devices", *arguments)
    assert code == 2
    assert err.startswith("error[RG0512]")
    assert message in err


def raising(message: str) -> Callable[[], object]:
    def absent() -> object:
        raise device_error("RG1002", message)

    return absent
