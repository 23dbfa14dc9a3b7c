"""Resources of kernels: by ptxas, and computed."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from retrograd.examples import gmm, wave
from retrograd.isa.diagnostics import DeviceError
from retrograd.simulator.engines.cuda import kernel_report
from retrograd.simulator.engines.cuda.kernel_report import (
    assembled,
    bytes_of_instance,
    computed_occupancy,
    program_kernels,
    resources,
    resources_on,
    toolkit_program,
)
from retrograd.simulator.engines.cuda.runtime import Device
from retrograd.simulator.engines.cuda.stepped_machine import ADD, STEPS, TEST

import retrograd as rg
from retrograd.runtime._binding import bind, types_of

PROGRAM = ".memory 3\nstart\nld.add r1, [r0]\nfmul.add r2, r1, r1\nst.add [r0 + 1], r2\nfinish\n"
H200 = Device(0, "NVIDIA H200", (9, 0), 132, 1_980_000, 2048)

needs_ptxas = pytest.mark.skipif(toolkit_program("ptxas") is None, reason="ptxas is absent: registers are not counted")


@pytest.mark.parametrize(
    ("registers", "threads", "expected"),
    [(32, 128, 1.0), (64, 128, 0.5), (72, 128, 28 / 64), (96, 128, 20 / 64), (255, 128, 8 / 64), (48, 1, 0.5), (255, 256, 8 / 64)],
)  # fmt: skip
def test_occupancy(registers: int, threads: int, expected: float) -> None:
    """As NVIDIA's occupancy calculator has it for compute capability 9.0."""
    assert computed_occupancy(registers, threads) == expected


def test_the_kernels_of_programs() -> None:
    assert [kernel.use for kernel in program_kernels(rg.assemble(PROGRAM), "sm_90")] == ["batches"]
    fields = np.zeros((8, 8))
    types = types_of(wave.propagate, bind(wave.propagate, (fields, fields, fields, 2), {}))
    found = program_kernels(wave.propagate.compiled_for(types).program, "sm_80")
    assert [(kernel.name, kernel.threads) for kernel in found[1:4]] == [(STEPS, 1), (TEST, 128), (ADD, 128)]
    assert all(f".entry {kernel.name}(" in kernel.text and "sm_80" in kernel.text for kernel in found)


def mixture(points: int) -> rg.Program:
    """The log-likelihood of a mixture with a number of points."""
    data = gmm.read(gmm.DATA / "test.txt")
    x = np.resize(data.x, (points, data.x.shape[1]))
    given = bind(gmm.gmm_objective, (0.0, data.alphas, data.means, data.icf, x, data.gamma, data.m), {})
    program: rg.Program = gmm.gmm_objective.compiled_for(types_of(gmm.gmm_objective, given)).program
    return program


@pytest.mark.parametrize(("points", "threads"), [(2, 1), (9, 8), (40, 32)])
def test_the_kernel_of_teams(points: int, threads: int) -> None:
    """The threads of a team exchange words: one mask for the whole warp, and one that is computed."""
    plain, *teams = program_kernels(mixture(points), "sm_80")
    masks = [set(re.findall(r"shfl\.sync\.bfly\.b32 .*, (\S+);", kernel.text)) for kernel in (plain, *teams)]
    assert masks[0] == {"-1"}
    if threads == 1:
        assert not teams
        return
    (kernel,) = teams
    assert (kernel.name, kernel.use) == (plain.name, f"batches, up to {threads} threads an element")
    assert len(masks[1]) > 1


@needs_ptxas
def test_a_team_spills_nothing() -> None:
    found = resources(program_kernels(mixture(40), "sm_90")[-1], "sm_90")
    assert found is not None
    assert found.spilled == 0


def test_bytes_of_an_instance() -> None:
    assert bytes_of_instance(rg.assemble(PROGRAM)) == 4 * 8
    assert bytes_of_instance(rg.assemble(".format 16, 8\n" + PROGRAM)) == 4 * 2


@needs_ptxas
def test_ptxas_reports_each_kernel() -> None:
    (kernel,) = program_kernels(rg.assemble(PROGRAM), "sm_90")
    found = resources(kernel, "sm_90")
    assert found is not None
    assert 10 < found.registers < 128
    assert (found.local_bytes, found.spilled) == (0, 0)
    assert found.occupancy == computed_occupancy(found.registers, 128)


@needs_ptxas
def test_spilled_bytes_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few registers are allowed, so some are spilled."""
    (kernel,) = program_kernels(rg.assemble(PROGRAM), "sm_90")
    limited = kernel.text.replace(".visible .entry", ".visible .entry", 1).replace(")\n{", ")\n.maxnreg 16\n{", 1)
    ptxas = toolkit_program("ptxas")
    assert ptxas is not None
    found = assembled(limited, "sm_90", ptxas)[kernel.name]
    assert found.spilled
    assert found.local_bytes > 0


def test_without_ptxas_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_report, "toolkit_program", lambda name: None)
    (kernel,) = program_kernels(rg.assemble(PROGRAM), "sm_90")
    assert resources(kernel, "sm_90") is None


def test_a_ptxas_that_does_not_accept_the_kernel(tmp_path: Path) -> None:
    (kernel,) = program_kernels(rg.assemble(PROGRAM), "sm_90")
    old = tmp_path / "ptxas"
    old.write_text("#!/bin/sh\necho 'ptxas fatal   : Unsupported .version 8.0; current version is 7.0' >&2\nexit 255\n")
    for mode, why in ((0o700, "Unsupported .version 8.0"), (0o600, "cannot be run")):
        old.chmod(mode)
        with pytest.raises(DeviceError, match=f"RG1003.*{why}"):
            assembled(kernel.text, "sm_90", str(old))


def test_the_ptxas_of_a_wheel_comes_before_that_of_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in ("nvidia/cu13/bin", "path"):
        file = tmp_path / folder / "ptxas"
        file.parent.mkdir(parents=True)
        file.touch(0o700)
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    wheel = SimpleNamespace(submodule_search_locations=[str(tmp_path / "nvidia")])
    for spec, place in ((wheel, "nvidia/cu13/bin"), (None, "path")):
        monkeypatch.setattr("importlib.util.find_spec", lambda name, spec=spec: spec)
        assert toolkit_program("ptxas") == str(tmp_path / place / "ptxas")


def test_on_a_device_the_driver_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    class Loaded:
        registers, local_bytes = 40, 16

        def __init__(self, *given: Any) -> None:
            self.given = given

        def occupancy(self, threads: int) -> float:
            return threads / 1024

    monkeypatch.setattr(kernel_report, "Kernel", Loaded)
    (kernel,) = program_kernels(rg.assemble(PROGRAM), "sm_90")
    found = resources_on(kernel, H200)
    assert (found.registers, found.local_bytes, found.spilled, found.occupancy) == (40, 16, None, 0.125)
