"""Functional programs beside C: they agree, a wrong value is not timed, and the page has the kept rows."""

from __future__ import annotations

import ctypes
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from retrograd.benchmarks import functional
from retrograd.benchmarks.functional import COMPILED, PROGRAMS, Program, Row
from retrograd.benchmarks.vlad import compiled_c
from retrograd.isa.diagnostics import InputError

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    if shutil.which("cc") is None:
        pytest.skip("there is no compiler `cc`")
    return compiled_c(functional._C, tmp_path_factory.mktemp("c"))


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.name)
def test_programs_agree_with_c(program: Program, library: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(functional, "_REPEATS", 1)
    row = functional.measured(replace(program, n=50, agrees=1e-7), library)
    assert min(row.run, row.run_c, row.back, row.back_c) > 0
    monkeypatch.setattr(functional, "timed", None)
    with pytest.raises(InputError, match=f"{program.name}: .* in place of"):
        functional.measured(replace(program, n=50, agrees=0.0), library)


@pytest.mark.parametrize("name", COMPILED)
def test_what_is_compiled_has_a_program(name: str) -> None:
    if "30" not in name and "800" not in name:
        assert functional.compilation(name)[1] > 100


def test_the_page_has_the_kept_rows() -> None:
    """A changed row changes the tables; all else of the page stays."""
    found = functional.stored(DOCS)
    page = (DOCS / functional.PAGE).read_text(encoding="utf-8")
    assert functional.placed(page, found) == page
    assert [row["name"] for row in found["rows"]] == [p.name for p in PROGRAMS]
    assert [row["name"] for row in found["compiled"]] == list(COMPILED)
    row = Row(**found["rows"][0])
    missed = found | {"rows": [found["rows"][0] | {"run": row.run_c * 9, "back": row.back_c * 8}]}
    assert "| 9.0 (missed) |" in functional.tables(missed)
    assert "| 8.0 |" in functional.tables(missed)
    assert functional.placed(page, missed).partition(functional.BEGIN)[0] == page.partition(functional.BEGIN)[0]
