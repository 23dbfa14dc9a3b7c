"""The interpreter's kernel: every format and mode, and faults planted in it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest
from retrograd.simulator.engines.batch import cpu as on_cores
from retrograd.simulator.engines.batch.layout import BatchLayout
from retrograd.simulator.engines.cuda import batch as on_gpus
from retrograd.simulator.engines.cuda import interpreter
from retrograd.simulator.engines.cuda.batch import Setting
from retrograd.simulator.engines.cuda.interpreter import all_opcodes

import retrograd as rg
from retrograd import Format

FORMATS = (Format(64, 32), Format(32, 16), Format(16, 8), Format(8, 4))

#: products, quotients, those between binary points, a branch, a call and its inverse, an erased word
PROGRAM = """
        .memory 6
        proc both, r9
        fmul.add r3, r1, r2
        fdiv.add r4, r1, r2
        fmulp.sub r3, r1, r2, 9
        fmovp.sub r4, r1, -3
        fdivp.add r4, r1, r2, 2
        fabs.add r7, r1
        fsqrtp.add r3, r7, 2
        fmovp.add r3, r7, 1
        endproc
        start
        ld.add r1, [r0]
        ld.add r2, [r0 + 1]
        call both
        st.add [r0 + 2], r3
        st.xor [r0 + 3], r4
        uncall both
        mul.add r5, r1, r2
less:   goto.lt r1, r2, on
        add r6, 3
on:     from.lt r1, r2, less
        st.add [r0 + 4], r5
        st.sub [r0 + 5], r6
        finish
"""
OWN = BatchLayout(given=((1, 1), (0, 1)), kept=((2, 4),), summed=((2, 2), (5, 1)))


def rows_of(w: Format, count: int = 16) -> Any:
    rng = np.random.default_rng(w.width)
    wide = rng.integers(0, 1 << 63, (count, 2), dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    small = wide >> np.uint64(w.width // 2 + 64 - w.width)
    rows = np.where(rng.random((count, 2)) < 0.5, wide & np.uint64(w.mask), small)
    rows[::9, 0] = 0
    return rows


def differences(w: Format, **modes: Any) -> tuple[list[str], int]:
    """(the parts of the result in which the CUDA engine and the cores differ, instances that failed)."""
    program, rows = rg.assemble(PROGRAM, format=w), rows_of(w)
    more = {"columns": OWN, "shared": np.array([0, 0, 1, 2, 3, 1], np.uint64), **modes}
    found = on_gpus.run_batch(program, rows, setting=Setting(block=8, piece=13), **more)
    expected = on_cores.run_batch(program, rows, threads=1, **more)
    ended = np.setdiff1d(np.arange(len(rows)), expected.failed)
    out = [p for p in ("rows", "failed") if not np.array_equal(getattr(found, p), getattr(expected, p))]
    counts = ("steps", "lost_words", *(("cycles",) if modes.get("cycles") else ()))
    # A count has no meaning where an instance failed.
    out += [p for p in counts if not np.array_equal(getattr(found, p)[ended], getattr(expected, p)[ended])]
    return out + ["sums"] * (found.sums != expected.sums), len(expected.failed)


MODES = [{"cycles": True}, {"overflow": False}, {"checks": False}, {"backward": True}]


def formats_and_modes() -> Iterator[Any]:
    """Every pair. Each format and each mode is in one pair of the default tier, and the others are slow."""
    for (i, w), (k, modes) in product(enumerate(FORMATS), enumerate(MODES)):
        marks = () if i % len(MODES) == k else pytest.mark.long
        yield pytest.param(w, modes, marks=marks, id=f"{modes}-{w}")


@pytest.mark.parametrize(("w", "modes"), list(formats_and_modes()))
def test_every_format_and_mode(w: Format, modes: dict[str, bool]) -> None:
    found, failed = differences(w, **modes)
    assert found == []
    assert failed < 16 or modes == {"backward": True}


#: a fault: the text of the kernel before and after, and the part of the result that shows it
FAULTS = {
    "an address beyond memory": (") >= (n ^ MIN)", ") > (n ^ MIN)"),
    "the sum of a block": ("thread + half < cuda.blockDim.x", "thread + half < cuda.blockDim.x - 28"),
    "the upper half of a word": (">> 32 if good", ">> 33 if good"),
    "a step": (" left -= 1", " left -= 2"),
    "a kept word": ("word = memory[a * stride + t]", "word = memory[a * stride + t] ^ (i < 5)"),
    "a failed instance": ("good = why == 0", "good = why >= 0"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_are_found(monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    before, after = FAULTS[fault]
    source = interpreter.kernel_source
    assert before in source(FORMATS[0], all_opcodes())
    monkeypatch.setattr(interpreter, "kernel_source", lambda *given: source(*given).replace(before, after))
    interpreter.simulated_kernel.cache_clear()
    try:
        if fault == "an address beyond memory":
            program = rg.assemble(".memory 2\nstart\nld.add r1, [r0 + 2]\nfinish\n", format=FORMATS[0])
            assert not len(on_gpus.run_batch(program, np.zeros((1, 2), np.uint64)).failed)
        else:
            assert differences(FORMATS[0])[0]
    finally:
        interpreter.simulated_kernel.cache_clear()
