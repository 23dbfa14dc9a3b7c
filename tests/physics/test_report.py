"""`rg.energy`: what it counts and says agrees with what was run, and every number says where it is from."""

from __future__ import annotations

import json
import linecache
import math
import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from retrograd.isa.diagnostics import InputError
from retrograd.simulator.energy.pricing import Covered, NotModelled, gates_for
from retrograd.simulator.energy.technology import BOLTZMANN, Range, technology

import retrograd as rg
from retrograd import Array, fixed, library, reversible
from retrograd.physics.report import EnergyReport, program_text, total_text
from retrograd.presentation import shortened_text
from retrograd.testing import check_gradient

#: energies are smaller than 1e-12, the absolute tolerance of pytest.approx
approx = partial(pytest.approx, rel=1e-6, abs=0.0)

KT_LN2 = BOLTZMANN * 300 * math.log(2)
GATES = '{"schema": "retrograd.gates/1", "format": {"width": 64, "frac": 32}, "units": {"logic unit": {"AND": 1000}}, "in levels": {"levels": 4, "cells": {"AND": 1000}}}'


@reversible
def forgetful(y: fixed, xs: Array[fixed, "n"]) -> None:
    for i in range(len(xs)):
        t = xs[i] * xs[i]
        t += 1
        y += t
        rg.erase(t)


@reversible
def root(y: fixed, x: fixed) -> None:
    y += rg.sqrt(x)


def modelled(energy: Range | NotModelled) -> Range:
    assert isinstance(energy, Range)
    return energy


def test_a_reversible_function() -> None:
    found = rg.energy(library.norm, 0.0, [3.0, 4.0])
    plain = rg.run(library.norm, 0.0, [3.0, 4.0])
    assert (found.counts.retired, found.counts.cycles) == (plain.steps, plain.machine.cycles)
    assert modelled(found.price.program).nominal == 0.0
    words = 3  # the result and two legs, in and out
    assert found.counts.host.data_bits == found.counts.host.copied_bits == words * 64
    assert modelled(found.price.of("copy-out")).nominal == approx(words * 64 * KT_LN2)


def test_engine_format_and_limit_mean_the_same_as_in_a_run() -> None:
    how: dict[str, Any] = {"engine": "threaded", "format": "Q16.16"}
    for f in (library.norm, ~library.norm):
        found, plain = rg.energy(f, 0.0, [3.0, 4.0], **how), rg.run(f, 0.0, [3.0, 4.0], **how)
        assert (found.engine, str(found.counts.format)) == (plain.engine, "Q16.16")
        assert found.counts.retired == plain.steps
    for wrong in ({"engine": "steam"}, {"format": "Q1"}, {"max_steps": 3}):
        said = []
        for run in (rg.energy, rg.run):
            with pytest.raises(rg.RetrogradError) as error:
                run(library.norm, 0.0, [3.0, 4.0], **wrong)
            said.append(str(error.value))
        assert said[0] == said[1]


def test_erase_mode_stands_beside() -> None:
    found = rg.energy(library.norm, 0.0, [3.0, 4.0])
    erasing = rg.run(library.norm.with_options(erase=True), 0.0, [3.0, 4.0])
    assert found.baseline is not None
    assert (found.baseline.retired, found.baseline.erased_bits) == (erasing.steps, erasing.erased_bits)
    assert found.uncomputing_level == approx(rg.uncomputing_level(library.norm, 0.0, [3.0, 4.0]))
    assert found.baseline_price is not None
    assert modelled(found.baseline_price.program).nominal == approx(erasing.erased_bits * KT_LN2)
    assert rg.energy(library.norm, 0.0, [3.0, 4.0], baseline=False).baseline is None
    assert rg.energy(~library.norm, 5.0, [3.0, 4.0]).baseline is None
    assert rg.energy(library.norm.with_options(erase=True), 0.0, [3.0, 4.0]).baseline is None


def test_back_costs_what_forth_did() -> None:
    forth = rg.energy(library.norm, 0.0, [3.0, 4.0], tech="cmos45")
    back = rg.energy(~library.norm, 5.0, [3.0, 4.0], tech="cmos45")
    assert back.name == "~norm"
    # Forward `start` is a step, backward `finish`: they take as long, and cost as much.
    assert back.counts.retired == forth.counts.retired
    assert back.price.program == forth.price.program


@pytest.mark.parametrize("engine", ["reference", "threaded", "translated"])
def test_engines_agree(engine: str) -> None:
    found = rg.energy(forgetful, 0.0, [1.0, 2.0, 3.0], tech="cmos45", engine=engine)
    expected = rg.energy(forgetful, 0.0, [1.0, 2.0, 3.0], tech="cmos45", engine="reference")
    told, wanted = found.as_dict(), expected.as_dict()
    assert told.pop("engine") == engine
    wanted.pop("engine")
    assert told == wanted


def test_lines_and_functions_add_up() -> None:
    found = rg.energy(forgetful, 0.0, [1.0, 2.0, 3.0], tech="cmos45")
    whole = modelled(found.price.program).nominal
    for parts in (found.lines, found.functions):
        assert sum(modelled(p.program).nominal for p in parts.values()) == approx(whole)


def test_the_line_that_erases() -> None:
    found = rg.energy(forgetful, 0.0, [1.0, 2.0])
    dear = {line.line: modelled(p.program).nominal for line, p in found.lines.items() if modelled(p.program).nominal}
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    assert dear == {lines.index("        rg.erase(t)") + 1: approx(128 * KT_LN2)}
    assert "128 by erase" in str(found)


def test_temperatures_clocks_and_figures_as_people_write_them() -> None:
    cold = rg.energy(forgetful, 0.0, [1.0], temperature="4.2 K")
    assert modelled(cold.price.program).nominal == approx(64 * BOLTZMANN * 4.2 * math.log(2))
    assert rg.energy(forgetful, 0.0, [1.0], temperature=4.2).price.program == cold.price.program
    device = {"capacitance": "0.5:1:2 fF", "voltage": (0.9, 1.0, 1.1), "resistance": 1e4, "power": "1fW"}
    found = rg.energy(forgetful, 0.0, [1.0], tech="adiabatic_rc", figures=device, frequency="2MHz")
    assert found.price.frequency == 2e6
    expected = Range(64 * 0.5e-15 * 0.81 / 2, 64 * 1e-15 / 2, 64 * 2e-15 * 1.21 / 2)
    assert found.price.of("erasure") == approx(expected)
    with pytest.raises(InputError, match="RG1105"):
        rg.energy(forgetful, 0.0, [1.0], temperature="4.2 V")


@pytest.mark.parametrize(
    "value",
    [
        (),
        (1.0,),
        (1.0, 2.0),
        (1.0, 2.0, 3.0, 4.0),
        ("a", 1, 2),
        (1, 2, 10**5000),
        (None, 1, 2),
        (3, 2, 1),
        (math.nan, 1, 2),
    ],
)
def test_what_is_no_range_of_a_figure(value: Any) -> None:
    with pytest.raises(InputError, match=r"RG0507.*is no range of a figure"):
        rg.energy(forgetful, 0.0, [1.0], tech="adiabatic_rc", figures={"voltage": value})


def test_gate_counts_by_file(tmp_path: Path) -> None:
    path = tmp_path / "gates.json"
    path.write_text(GATES)
    found = rg.energy(forgetful, 0.0, [1.0], tech="aqfp", gates=path)
    assert modelled(found.price.of("logic")).nominal == approx(found.counts.cycles * 6000 * 1.4e-21)
    assert isinstance(
        rg.energy(forgetful, 0.0, [1.0], tech="aqfp", gates=path, format=rg.Format(32, 16)).price.of("logic"),
        NotModelled,
    )


def test_another_model_needs_no_other_run() -> None:
    found = rg.energy(forgetful, 0.0, [1.0])
    other = found.priced_by("cmos45")
    assert other.counts is found.counts
    assert other.price == rg.energy(forgetful, 0.0, [1.0], tech="cmos45").price


def test_over_time() -> None:
    found = rg.energy(forgetful, 0.0, [1.0, 2.0], timeline=True)
    assert found.ledger is not None
    assert found.counts.toggled_bits == found.ledger.toggled_bits > 0
    assert found.ledger.samples[-1].erased_bits == found.counts.erased_bits == 128
    assert found.ledger.peak_bits >= 64
    assert rg.energy(forgetful, 0.0, [1.0, 2.0]).counts.toggled_bits is None
    assert found.back is None  # there is no way back


def test_over_time_forth_and_back() -> None:
    found = rg.energy(library.norm, 0.0, [3.0, 4.0], timeline=True)
    assert found.ledger is not None
    assert found.back is not None
    assert [s.live_bits for s in found.back.samples] == [s.live_bits for s in reversed(found.ledger.samples)]
    # What is counted is the way there.
    assert found.counts.executed == rg.energy(library.norm, 0.0, [3.0, 4.0]).counts.executed
    assert found.price == rg.energy(library.norm, 0.0, [3.0, 4.0]).price


def test_a_trap_is_told_in_the_terms_of_the_source_either_way() -> None:
    for timeline in (False, True):
        with pytest.raises(rg.ProgramTrap, match=r"rg\.sqrt has no value at"):
            rg.energy(root, 0.0, -1.0, timeline=timeline)
        with pytest.raises(rg.ProgramTrap, match="RG0420"):
            rg.energy(root, 0.0, 4.0, max_steps=2, timeline=timeline)


def test_gate_counts_that_come_with_the_hardware() -> None:
    small = rg.Format(32, 16)
    found = rg.energy(forgetful, 0.0, [1.0], tech="aqfp", format=small)
    gates = gates_for(small)
    assert gates is not None
    assert gates.levels is not None
    cells = gates.in_levels
    junctions = 6 * (cells["AND"] + cells["OR"]) + 2 * (cells["BUF"] + cells["splitter"] + gates.cells()["DFF"])
    clocks = math.ceil(gates.levels / 4)
    assert modelled(found.price.of("logic")).nominal == approx(found.counts.cycles * clocks * junctions * 1.4e-21)
    assert {i.label.partition(": ")[2] for i in found.price.missing if i.cause == "logic"} == {"memory bits"}
    assert gates_for(rg.Format(64, 40)) is None


# ------------------------------------------------------------------ what is told


@pytest.mark.parametrize("tech", ["landauer", "cmos45", "cmos7", "adiabatic_rc", "aqfp"])
def test_what_is_not_modelled_is_not_zero(tech: str) -> None:
    found = rg.energy(forgetful, 0.0, [1.0], tech=tech)
    text, told = str(found).partition("\ncause")[2], found.as_dict()["price"]["causes"]
    for cause, energy in found.price.causes.items():
        row = next(line for line in text.splitlines() if line.startswith(f"{cause}  "))
        if isinstance(energy, NotModelled):
            assert row.split("  ", 1)[1].strip() == told[cause] == str(energy)
            assert str(energy) == f"covered by {energy.why}" if isinstance(energy, Covered) else "not modelled"
        else:
            assert re.search(r" [a-zµ]?J\b", row)


def test_the_table() -> None:
    text = str(rg.energy(forgetful, 0.0, [1.0], timeline=True))
    for part in (
        "forgetful, Q32.32; engine: reference", "64 by erase, 0 by dropped cotangents", "landauer 1.1, 300 K",
        "erasure", "183.7 zJ", "uncomputing level", "live ancilla bits, at most", "bits toggled",
    ):  # fmt: skip
        assert part in text
    assert "not counted" in str(rg.energy(forgetful, 0.0, [1.0]))


def test_a_sum_with_gaps_is_a_lower_bound() -> None:
    text = str(rg.energy(library.norm, 0.0, [3.0, 4.0], tech="cmos45"))
    row = next(line for line in text.splitlines() if line.startswith("program, in all"))
    assert "≥" in row
    assert "the divider (1)" in text
    assert "≥" not in str(rg.energy(library.norm, 0.0, [3.0, 4.0]))


@pytest.mark.parametrize("tech", ["landauer", "cmos45", "cmos7"])
def test_the_same_source_in_erase_mode_stands_below(tech: str) -> None:
    """Each row has the energy of its own run: of the program, and with cooling and host."""
    found = rg.energy(library.norm, 0.0, [3.0, 4.0], tech=tech)
    assert found.baseline_price is not None
    rows = _rows(found)
    for name, p in (("as written", found.price), ("in erase mode", found.baseline_price)):
        assert [name, program_text(p), total_text(p)] in rows
    assert ["program", "with cooling and host"] in rows
    assert program_text(found.price) != program_text(found.baseline_price)
    assert not any(row[0] == "as written" for row in _rows(rg.energy(library.norm, 0.0, [3.0], baseline=False)))


def _rows(report: EnergyReport) -> list[list[str]]:
    return [re.split(r"\s{2,}", line.strip()) for line in str(report).splitlines()]


def test_json() -> None:
    told: Any = json.loads(json.dumps(rg.energy(forgetful, 0.0, [1.0], tech="cmos45", timeline=True).as_dict()))
    assert told["schema"] == "retrograd.energy/1"
    assert (told["technology"]["id"], told["technology"]["version"]) == ("cmos45", "2.0")
    assert told["counts"]["erased_bits"] == {"erase": 64, "dropped_cotangents": 0}
    assert told["counts"]["functions"]["erase"] == {"forward": 1, "backward": 0}
    for item in told["price"]["items"]:
        if isinstance(item["joules"], str):
            assert item["joules"] in ("not modelled", f"covered by {item['why']}")
            assert item["why"]
        elif item["joules"]["value"]:
            assert all(figure["source"] and figure["evidence"] for figure in item["figures"])
    assert told["timeline"]["samples"][0] == [0, 0, 0]
    assert sum(line["retired"] for line in told["lines"]) == told["counts"]["retired"]
    assert told["baseline"]["uncomputing_level"] is not None


def test_a_notebook() -> None:
    html = rg.energy(forgetful, 0.0, [1.0], tech="aqfp")._repr_html_()
    assert html.count("<tr>") == 1 + 8 + 3  # the head, causes, sums
    assert "not modelled" in html
    assert "<script" not in html


def test_a_model_by_its_file(tmp_path: Path) -> None:
    source = Path(technology.__code__.co_filename).parent / "models" / "landauer.toml"
    path = tmp_path / "mine.toml"
    path.write_text(
        source.read_text(encoding="utf-8")
        .replace('"landauer"', '"mine"')
        .replace("value = 1\n", "value = 2\n")
        .replace("high = 1\n", "high = 2\n"),
        encoding="utf-8",
    )
    found = rg.energy(forgetful, 0.0, [1.0], tech=path)
    assert modelled(found.price.program).nominal == approx(2 * 64 * KT_LN2)
    assert found.price.technology.id == "mine"


@pytest.mark.parametrize("lines", [1, 39, 40, 41, 500])
def test_a_prompt_shows_40_lines(lines: int) -> None:
    """The whole text where it is not longer; else its begin, and how many lines are left."""
    text = "\n".join(f"line {n}" for n in range(lines))
    shown = shortened_text(text).split("\n")
    if lines <= 40:
        assert shown == text.split("\n")
    else:
        assert len(shown) == 40
        assert shown[:39] == text.split("\n")[:39]
        assert shown[39] == f"… {lines - 39} more lines: print() shows them"


LONG = "@rg.reversible\ndef long(y: fixed, x: fixed):\n" + "".join(f"    y += x * {n}\n" for n in range(60))


def test_representations_of_reports_are_their_texts() -> None:
    """Of every kind of report, and no longer than 40 lines; the text of this function's is longer."""
    linecache.cache["long.py"] = (len(LONG), None, LONG.splitlines(keepends=True), "long.py")
    names = {"rg": rg, "fixed": rg.fixed}
    exec(compile(LONG, "long.py", "exec"), names)
    f: Any = names["long"]
    reports: list[Any] = [
        rg.energy(f, 0.0, 0.01),
        rg.ranges(f, 0.0, 0.01),
        rg.error_bound(f, 0.0, 0.01),
        rg.energy(rg.netlist(f, format="Q8.8")),
        f.lower(),
        check_gradient(f, 0.0, 0.01),
    ]
    for report in reports:
        assert repr(report) == shortened_text(str(report)), type(report)
    assert any(str(report).count("\n") >= 40 for report in reports)
    assert all(repr(report).count("\n") < 40 for report in reports)
