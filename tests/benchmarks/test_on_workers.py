"""Workloads on workers: goldens and counts of one process, and a store that goes on."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from retrograd.benchmarks import run as benchmarks
from retrograd.benchmarks.workload import Sizes
from retrograd.benchmarks.workloads import ALL
from retrograd.hdl.formal import proofs as formal
from retrograd.hdl.formal.proofs import ProofResult
from retrograd.isa.words import Format

from retrograd.hardware import proofs
from retrograd.hardware.proofs import distributed_proofs
from retrograd.runtime._distribution import Distribution


def test_workloads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def workload(one: Any, peers: Any, sizes: Sizes, say: Any) -> dict[str, Any]:
        ran.append(one.name)
        return {"name": one.name, "goldens": [], "failed": [], "problems": [], "curve": None}

    ran: list[str] = []
    monkeypatch.setattr(benchmarks, "_workload", workload)
    some = ALL[:4]
    expected = [one.name for one in some]
    with ThreadPoolExecutor(2) as pool:
        over = Distribution(pool, tmp_path / "store.db")
        for _ in range(2):
            found = benchmarks.run(some, over=over)
            assert [w["name"] for w in found["workloads"]] == expected
    assert sorted(ran) == sorted(expected)
    benchmarks.run(some, sizes=Sizes(False), over=Distribution(store=tmp_path / "store.db"))
    assert len(ran) == 8


def test_proofs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One task for each opcode, in the order of the table; `hdl formal --workers 2` of tests/cli proves on processes."""

    def prove(w: Format, seconds: float, core: str, slots: int, opcode: str) -> list[ProofResult]:
        proved.append(opcode)
        return [ProofResult(f"{opcode} D={d}", d == 0, 0.5, 9, "r1 = 2") for d in (0, 1)]

    proved: list[str] = []
    monkeypatch.setattr(formal, "_proofs_of", prove)
    w, opcodes = Format(8, 4), {"swap", "not", "mul.add"}
    alone = list(distributed_proofs(w, opcodes))
    assert len(alone) == 6
    with ThreadPoolExecutor(2) as pool:
        over = Distribution(pool, tmp_path / "store.db")
        assert list(distributed_proofs(w, opcodes, 60, over)) == alone
        assert list(distributed_proofs(w, opcodes, 60, over)) == alone
    assert len(proved) == 6
    assert list(distributed_proofs(w, opcodes, 30, Distribution(store=tmp_path / "store.db"))) == alone
    assert len(proved) == 9
    assert list(distributed_proofs(w, opcodes, 30, Distribution(store=tmp_path / "store.db"), "fast")) == alone
    assert len(proved) == 12
    # Proofs of one slot are not those of two.
    for slots in (1, 2):
        found = distributed_proofs(w, opcodes, 30, Distribution(store=tmp_path / "store.db"), "barrel", slots)
        assert list(found) == alone
    assert len(proved) == 18
    assert proofs._decoded(b"[{}]") is None
