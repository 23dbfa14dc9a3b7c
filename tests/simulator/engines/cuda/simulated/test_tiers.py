"""Tiers on a device: the interpreter's kernel runs pieces until the translated kernel is compiled in the background."""

from __future__ import annotations

import threading
from concurrent.futures import wait
from typing import Any

import numpy as np
import pytest
from retrograd.isa.diagnostics import DeviceError
from retrograd.simulator.engines.batch import cpu as on_cores
from retrograd.simulator.engines.cuda import batch as on_gpus
from retrograd.simulator.engines.cuda import batch_code, runtime
from retrograd.simulator.engines.cuda.batch import Setting
from retrograd.simulator.engines.cuda.batch_code import BatchCode, InterpreterKernel
from retrograd.simulator.engines.cuda.runtime import Device
from retrograd.simulator.engines.tiering import Reason, recorded

import retrograd as rg

PROGRAM = ".memory 2\nstart\nld.add r1, [r0]\nmul.add r2, r1, r1\nst.add [r0 + 1], r2\nfinish\n"
ROWS = np.stack([np.arange(40, dtype=np.uint64), np.zeros(40, np.uint64)], axis=1)
MODES = {"backward": False, "overflow": True, "checks": True, "cycles": False}


class Launches:
    """The kernels of the pieces, in order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, host: Any) -> None:
        self.found: list[str] = []
        for kind in (InterpreterKernel, host):
            monkeypatch.setattr(kind, "launch", self._noted(kind.__name__, kind.launch))

    def _noted(self, name: str, launch: Any) -> Any:
        def noted(kernel: Any, *arguments: Any) -> None:
            self.found.append(name)
            launch(kernel, *arguments)

        return noted


def test_a_batch_changes_its_tier(translated: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The translation is compiled while the first piece runs; the results are those of the cores."""
    go = threading.Event()
    original = batch_code.translated_kernel

    def slow(*arguments: Any) -> Any:
        assert go.wait(60)
        return original(*arguments)

    monkeypatch.setattr(batch_code, "translated_kernel", slow)
    launches = Launches(monkeypatch, translated)
    program = rg.assemble(PROGRAM)
    ended: list[int] = []

    def progress(count: int) -> None:
        ended.append(count)
        if sum(ended) >= 20:
            go.set()
            for future in waiting:
                future.result()

    waiting: list[Any] = []
    submit = batch_code._background().submit
    monkeypatch.setattr(batch_code._background(), "submit", lambda *more: waiting.append(submit(*more)) or waiting[-1])
    found = on_gpus.run_batch(
        program, ROWS, setting=Setting(block=4, piece=4, devices=[0], tier="both"), progress=progress
    )
    assert found.rows.tolist() == on_cores.run_batch(program, ROWS).rows.tolist()
    assert set(launches.found) == {"InterpreterKernel", "HostKernel"}
    assert launches.found == sorted(launches.found, reverse=True)


def test_a_translation_that_fails_ends_the_batch(translated: Any, gpu: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any) -> Any:
        raise runtime.device_error("RG1003", "no such code")

    monkeypatch.setattr(batch_code, "translated_kernel", refused)
    code = BatchCode(rg.assemble(PROGRAM), gpu, MODES, 10, "both")
    assert code._translation is not None
    wait([code._translation])
    with pytest.raises(DeviceError, match="no such code"):
        code.kernel()


def test_the_simulator_interprets(gpu: Device) -> None:
    with recorded() as found:
        assert isinstance(BatchCode(rg.assemble(PROGRAM), gpu, MODES, 10).kernel(), InterpreterKernel)
    assert ("interpreted", Reason.DEVICE_ONLY) in found


def test_a_kernel_is_loaded_once(translated: Any, gpu: Device) -> None:
    first, other = (BatchCode(rg.assemble(PROGRAM), gpu, modes, 10) for modes in (MODES, MODES | {"backward": True}))
    assert first.kernel() is BatchCode(rg.assemble(PROGRAM), gpu, MODES, 99).kernel()
    assert first.kernel() is not other.kernel()
