"""Batches of words that lie on the device: what the cores make of them, in place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from retrograd.simulator.engines.batch import cpu as on_cores
from retrograd.simulator.engines.batch.layout import BatchLayout
from retrograd.simulator.engines.cuda.arrays import ArrayError, DeviceArray
from retrograd.simulator.engines.cuda.context import Context
from retrograd.simulator.engines.cuda.resident import ResidentBatch

import retrograd as rg
from retrograd import fixed, reversible

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


@pytest.mark.parametrize("kind", [np.uint64, np.int64])
def test_it_does_what_the_cores_do(device: Any, context: Context, kind: Any) -> None:
    shared = np.array([0, 9, 0, 4], np.uint64)
    program = rg.assemble(PROGRAM)
    there = ResidentBatch(program, context, OWN, shared=shared, cycles=True)
    for count in (1, 100, 33):
        words = rows(count, seed=count)
        expected = on_cores.run_batch(program, words, columns=OWN, shared=shared, cycles=True)
        ran = there(DeviceArray.from_host(words.astype(kind), context))
        assert ran.out.dtype == kind
        assert ran.out.copy_to_host().astype(np.uint64).tolist() == expected.rows.tolist()
        assert (ran.failed.tolist(), ran.sums) == (expected.failed.tolist(), expected.sums)
        ended = np.setdiff1d(np.arange(count), ran.failed)
        assert ran.cycles is not None
        assert expected.cycles is not None
        for found, wanted in ((ran.steps, expected.steps), (ran.cycles, expected.cycles)):
            assert found[ended].tolist() == wanted[ended].tolist()


def test_the_module_is_loaded_once_and_nothing_stays(device: Any, context: Context) -> None:
    there = ResidentBatch(rg.assemble(PROGRAM), context, OWN)
    given, out = (
        DeviceArray.from_host(rows(20), context),
        DeviceArray.from_host(np.full((20, 2), 77, np.uint64), context),
    )
    before = device.calls["cuMemAlloc_v2"] - device.calls["cuMemFree_v2"]
    for _ in range(3):
        ran = there(given, out)
    assert device.calls["cuModuleLoadDataEx"] == 1
    assert device.calls["cuMemAlloc_v2"] - device.calls["cuMemFree_v2"] == before
    # Results are where they were to go; where there are none, what was there.
    assert ran.out.address == out.address
    assert ran.failed.tolist() == [0, 7, 14]
    assert {tuple(row) for row in out.copy_to_host()[ran.failed].tolist()} == {(77, 77)}
    assert given.copy_to_host().tolist() == rows(20).tolist()


def test_in_place(device: Any, context: Context) -> None:
    program = rg.assemble(".memory 2\n.text\nstart\nld.add r1, [r0]\nst.add [r0 + 1], r1\nld.sub r1, [r0]\nfinish")
    there = ResidentBatch(program, context, BatchLayout.first(2))
    words = DeviceArray.from_host(np.array([[1, 2], [3, 4]], np.uint64), context)
    there(words, words)
    there(words, words)
    assert words.copy_to_host().tolist() == [[1, 4], [3, 10]]


def test_limits_and_batches_of_none(device: Any, context: Context) -> None:
    there = ResidentBatch(rg.assemble(PROGRAM), context, OWN)
    given = DeviceArray.from_host(rows(3), context)
    assert there(given, limit=2).failed.tolist() == [0, 1, 2]
    none = there(DeviceArray.empty((0, 2), np.uint64, context))
    assert (none.out.shape, none.sums, none.steps.tolist()) == ((0, 2), [0, 0], [])


def test_arrays_that_do_not_fit(device: Any, context: Context) -> None:
    there = ResidentBatch(rg.assemble(PROGRAM), context, OWN)
    given = DeviceArray.from_host(rows(4), context)

    def said(*arrays: Any) -> str:
        with pytest.raises(ArrayError) as caught:
            there(*arrays)
        return str(caught.value)

    of = lambda shape, kind=np.uint64: DeviceArray.empty(shape, kind, context)  # noqa: E731
    assert "the array of rows has shape (4, 3); wanted are any number of rows of 2 words" in said(of((4, 3)))
    assert "has shape (8,)" in said(of((8,)))
    assert "wanted are 4 rows of 2 words" in said(given, of((5, 2)))
    assert "the array of rows" in said(of((4, 2), np.float64))
    assert "the array of rows is in the host's memory" in said(rows(4))


def test_arrays_on_a_device_as_arguments(device: Any, context: Context) -> None:
    """They are copied: what is done to them is done to words, which are made here."""

    @reversible
    def f(y: fixed, x: fixed):
        y += x * x

    xs = np.array([1.0, 2.5, -3.0])
    there = DeviceArray.from_host(xs, context)
    for engine in ("reference", "native", "cuda"):
        assert rg.run_batch(f, np.zeros(3), there, engine=engine).values.y.tolist() == (xs * xs).tolist()
