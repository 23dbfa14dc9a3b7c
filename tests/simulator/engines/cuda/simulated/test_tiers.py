"""Tiers on a device: the interpreter's kernel runs pieces until the translated kernel is compiled in the background."""

from __future__ import annotations

import threading
from concurrent.futures import Future, wait
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from retrograd.isa.diagnostics import DeviceError
from retrograd.simulator.engines.batch import cpu as on_cores
from retrograd.simulator.engines.cuda import batch, interpreter, runtime
from retrograd.simulator.engines.cuda import batch as on_gpus
from retrograd.simulator.engines.cuda.batch import BatchCode, InterpreterKernel, Setting
from retrograd.simulator.engines.cuda.interpreter import all_opcodes
from retrograd.simulator.engines.cuda.runtime import Device
from retrograd.simulator.engines.tiering import Costs, Policy, Reason, recorded

import retrograd as rg

PROGRAM = ".memory 2\nstart\nld.add r1, [r0]\nmul.add r2, r1, r1\nst.add [r0 + 1], r2\nfinish\n"
ROWS = np.stack([np.arange(40, dtype=np.uint64), np.zeros(40, np.uint64)], axis=1)
MODES = {"backward": False, "overflow": True, "checks": True, "cycles": False, "core": "small"}


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
    original = batch.translated_kernel

    def slow(*arguments: Any) -> Any:
        assert go.wait(60)
        return original(*arguments)

    monkeypatch.setattr(batch, "translated_kernel", slow)
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
    submit = batch._background().submit
    monkeypatch.setattr(batch._background(), "submit", lambda *more: waiting.append(submit(*more)) or waiting[-1])
    found = on_gpus.run_batch(
        program, ROWS, setting=Setting(block=4, piece=4, devices=[0], tier="both"), progress=progress
    )
    assert found.rows.tolist() == on_cores.run_batch(program, ROWS).rows.tolist()
    assert set(launches.found) == {"InterpreterKernel", "HostKernel"}
    assert launches.found == sorted(launches.found, reverse=True)


def test_a_translation_that_fails_ends_the_batch(translated: Any, gpu: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any) -> Any:
        raise runtime.device_error("RG1003", "no such code")

    monkeypatch.setattr(batch, "translated_kernel", refused)
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


class Elsewhere:
    """A background compiler that answers at once."""

    def __init__(self, answer: bytes | Exception) -> None:
        self.jobs: list[tuple[str, str]] = []
        self._answer = answer

    def run(self, emit: Any, program: str) -> Future[bytes]:
        self.jobs.append((emit(), program))
        future: Future[bytes] = Future()
        if isinstance(self._answer, bytes):
            future.set_result(self._answer)
        else:
            future.set_exception(self._answer)
        return future


@pytest.mark.parametrize(
    "answer", [b".visible .entry interpreter(", RuntimeError("no toolkit")], ids=["kept", "failed"]
)
def test_the_interpreter_is_compiled_once_translations_have_taken_their_share(
    answer: bytes | Exception, gpu: Device, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Another process compiles it for later batches. If it cannot, batches stay with their translations."""
    monkeypatch.setenv("RETROGRAD_CACHE", str(tmp_path))
    for module in (batch, interpreter):
        monkeypatch.setattr(module, "simulated", lambda: False)
    program = rg.assemble(PROGRAM)
    price = Costs().optimised_translation(len(program.code))
    monkeypatch.setattr(batch, "policy", Policy(Costs(device_interpreter=25 * price)))
    monkeypatch.setattr(interpreter, "_begun", set())
    elsewhere = Elsewhere(answer)
    monkeypatch.setattr(interpreter, "background", lambda name: elsewhere)
    monkeypatch.setattr(batch, "translated_kernel", lambda *_: None)
    code = BatchCode(program, gpu, MODES, 10, "translated")
    for begun in (0, 0, 1):
        with recorded() as found:
            assert code._decided(10) == "translated"
        assert [reason for _, reason in found] == [Reason.DEVICE_WITHOUT_INTERPRETER]
        assert len(elsewhere.jobs) == begun
    text, other = elsewhere.jobs[0]
    assert text == interpreter.kernel_source(rg.Format(), all_opcodes())
    assert other == f"from {interpreter.__name__} import serve; serve(64, '{gpu.target}')"
    assert code._decided(10) == ("interpreted" if isinstance(answer, bytes) else "translated")
    assert len(elsewhere.jobs) == 1
