"""Batches of words that lie on the device: the results of the cores, in place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from retrograd.simulator.engines.batch import cpu as on_cores
from retrograd.simulator.engines.batch.layout import BatchLayout
from retrograd.simulator.engines.cuda import batch
from retrograd.simulator.engines.cuda.device_arrays import ArrayError, ResidentBatch
from retrograd.simulator.engines.cuda.runtime import Device, address_of_array, numba_cuda

import retrograd as rg

PROGRAM = """
        .memory 5
        .text
        start
        ld.add r1, [r0]
        ld.add r2, [r0 + 2]
        mul.add r3, r1, r2
        st.add [r0 + 3], r3
        div.add r4, r2, r1
        st.sub [r0 + 1], r4
        finish
"""
OWN = BatchLayout(given=((2, 1), (0, 1)), kept=((3, 1), (1, 1)), summed=((1, 1), (3, 1)))


def rows(count: int, seed: int = 0) -> Any:
    found = np.random.default_rng(seed).integers(0, 1 << 31, (count, 2), dtype=np.uint64)
    found[::7, 1] = 0
    return found


@pytest.mark.parametrize(("kind", "core"), [(np.uint64, "small"), (np.int64, "fast")])
def test_it_does_what_the_cores_do(tier: str, gpu: Device, kind: Any, core: str) -> None:
    shared = np.array([0, 9, 0, 4], np.uint64)
    program = rg.assemble(PROGRAM)
    there = ResidentBatch(program, gpu, OWN, shared=shared, cycles=True, core=core)
    for count in (1, 100, 33):
        words = rows(count, seed=count)
        expected = on_cores.run_batch(program, words, columns=OWN, shared=shared, cycles=True, core=core)
        ran = there(numba_cuda().to_device(words.astype(kind)))
        assert ran.out.dtype == kind
        assert ran.out.copy_to_host().astype(np.uint64).tolist() == expected.rows.tolist()
        assert (ran.failed.tolist(), ran.sums) == (expected.failed.tolist(), expected.sums)
        ended = np.setdiff1d(np.arange(count), ran.failed)
        assert ran.cycles is not None
        assert expected.cycles is not None
        for found, wanted in ((ran.steps, expected.steps), (ran.cycles, expected.cycles)):
            assert found[ended].tolist() == wanted[ended].tolist()


def test_the_kernel_is_loaded_once(tier: str, gpu: Device) -> None:
    there = ResidentBatch(rg.assemble(PROGRAM), gpu, OWN)
    given, out = (
        numba_cuda().to_device(rows(20)),
        numba_cuda().to_device(np.full((20, 2), 77, np.uint64)),
    )
    for _ in range(3):
        ran = there(given, out)
    assert len(batch._loaded) == (tier == "translated")
    # The rows of `out` hold results; a row without a result keeps its words.
    assert address_of_array(ran.out) == address_of_array(out)
    assert ran.failed.tolist() == [0, 7, 14]
    assert {tuple(row) for row in out.copy_to_host()[ran.failed].tolist()} == {(77, 77)}
    assert given.copy_to_host().tolist() == rows(20).tolist()


def test_it_is_queued_in_the_stream_of_the_caller(
    translated: Any, gpu: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    streams: list[Any] = []
    launch = translated.launch

    def noted(kernel: Any, grid: int, block: int, arguments: Any, stream: Any) -> None:
        streams.append(stream)
        launch(kernel, grid, block, arguments, stream)

    monkeypatch.setattr(translated, "launch", noted)
    there, given = ResidentBatch(rg.assemble(PROGRAM), gpu, OWN), numba_cuda().to_device(rows(20))
    own = numba_cuda().stream()
    expected = there(given).out.copy_to_host()
    assert (there(given, stream=own).out.copy_to_host() == expected).all()
    assert streams[1] is own is not streams[0]


def test_in_place(tier: str, gpu: Device) -> None:
    program = rg.assemble(".memory 2\n.text\nstart\nld.add r1, [r0]\nst.add [r0 + 1], r1\nld.sub r1, [r0]\nfinish")
    there = ResidentBatch(program, gpu, BatchLayout.first(2))
    words = numba_cuda().to_device(np.array([[1, 2], [3, 4]], np.uint64))
    there(words, words)
    there(words, words)
    assert words.copy_to_host().tolist() == [[1, 4], [3, 10]]


def test_limits_and_batches_of_none(tier: str, gpu: Device) -> None:
    there = ResidentBatch(rg.assemble(PROGRAM), gpu, OWN)
    given = numba_cuda().to_device(rows(3))
    assert there(given, limit=2).failed.tolist() == [0, 1, 2]
    none = there(numba_cuda().device_array((0, 2), np.uint64))
    assert (none.out.shape, none.sums, none.steps.tolist()) == ((0, 2), [0, 0], [])


def test_arrays_that_do_not_fit(tier: str, gpu: Device) -> None:
    there = ResidentBatch(rg.assemble(PROGRAM), gpu, OWN)
    given = numba_cuda().to_device(rows(4))

    def said(*arrays: Any) -> str:
        with pytest.raises(ArrayError) as caught:
            there(*arrays)
        return str(caught.value)

    of = lambda shape, kind=np.uint64: numba_cuda().device_array(shape, kind)  # noqa: E731
    assert "the array of rows has shape (4, 3); wanted are any number of rows of 2 words" in said(of((4, 3)))
    assert "has shape (8,)" in said(of((8,)))
    assert "wanted are 4 rows of 2 words" in said(given, of((5, 2)))
    assert "the array of rows" in said(of((4, 2), np.float64))
    assert "the array of rows is in the host's memory" in said(rows(4))
