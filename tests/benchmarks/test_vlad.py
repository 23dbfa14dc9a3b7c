"""STALINGRAD's programs: C and VLAD agree with the values that are known, wrong values are not timed, and the page is that of the kept rows."""

from __future__ import annotations

import copy
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from retrograd.benchmarks import vlad
from retrograd.benchmarks.vlad import Case, CLibrary
from retrograd.isa.diagnostics import InputError

DOCS = Path(__file__).parents[2] / "docs"
#: the programs with values that other systems gave, or that float64 gives in NumPy
KNOWN = {
    "particle": [0.2071918746486],
    "saddle": [8.246324826e-06] * 4,
    "probabilistic": [0.25, 0.3333333335],
    "backprop": [0.4911168310722],
}
CASES = {case.name: case for case in vlad.cases(100)}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> CLibrary:
    if shutil.which("cc") is None:
        pytest.skip("there is no compiler `cc`")
    return CLibrary(tmp_path_factory.mktemp("c"))


def test_the_programs() -> None:
    """All of the set of 2009, each with its modes."""
    pairs = [f"{outer}{inner}" for outer in "FR" for inner in "FR"]
    expected = [f"{name} {pair}" for name in ("particle", "saddle") for pair in pairs]
    expected += [f"{n} {m}" for n in ("probabilistic λ-calculus", "probabilistic Prolog", "backprop") for m in "FR"]
    assert list(CASES) == expected
    assert [c.steps for c in vlad.cases()][-4:] == ["1,000", "1,000", "1,000,000", "1,000,000"]


@pytest.mark.parametrize("name", CASES)
def test_c_has_the_known_values(name: str, library: CLibrary) -> None:
    found = library.call(CASES[name])()
    assert found == pytest.approx(KNOWN[name.split(maxsplit=1)[0]], abs=1e-11, rel=1e-9)


@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
def test_vlad_agrees_with_c(name: str, library: CLibrary, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vlad, "_REPEATS", 1)
    row = vlad.measured(CASES[name], library)
    assert row.error <= (1e-11 if row.format == "Q16.48" else 1e-8)
    assert min(row.run, row.c, row.compile) > 0


class Wrong:
    """A peer with another value."""

    def call(self, case: Case) -> Any:
        return lambda: [0.25, 0.3334]


def test_a_wrong_value_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    def unexpected(*args: Any, **keywords: Any) -> Any:
        raise AssertionError

    monkeypatch.setattr(vlad, "timed", unexpected)
    wrong: Any = Wrong()
    with pytest.raises(InputError, match="in place of"):
        vlad.measured(CASES["probabilistic λ-calculus F"], wrong)


def test_the_kept_rows() -> None:
    """Each program has a row, whose value is that of C."""
    found = vlad.stored(DOCS)
    rows = [vlad.Row(**row) for row in found["rows"]]
    assert [row.name for row in rows] == list(CASES)
    assert [row.steps for row in rows] == [case.steps for case in vlad.cases()]
    assert all(row.error <= vlad.AGREES for row in rows)
    assert (DOCS / vlad.PAGE).read_text(encoding="utf-8") == vlad.page(found)


def test_the_page_has_each_number() -> None:
    found = vlad.stored(DOCS)
    changed = copy.deepcopy(found)
    for field in ("run", "c", "infer", "compile", "instructions"):
        changed["rows"][3][field] *= 3
        assert vlad.page(changed) != vlad.page(found), field
        changed = copy.deepcopy(found)
    lines = [line for line in vlad.page(found).splitlines() if line.startswith("|")]
    assert {line.count("|") for line in lines} == {lines[0].count("|")}


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema": "retrograd.bench/3"}'])
def test_a_store_of_another_kind_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / vlad.STORE).write_text(text)
    with pytest.raises(InputError):
        vlad.stored(tmp_path)
    (tmp_path / vlad.STORE).write_text(json.dumps({"schema": vlad.SCHEMA, "rows": []}))
    assert vlad.stored(tmp_path)["rows"] == []
