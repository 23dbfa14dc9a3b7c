"""Ratios and differences: each figure has one value in both energies, and a bound on one side stays one."""

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from retrograd.simulator.energy.comparisons import Comparison, Priced, at, difference, ratio, uncertain
from retrograd.simulator.energy.pricing import Item, NotModelled, Price
from retrograd.simulator.energy.technology import Range, Technology, exactly, technology

import retrograd as rg

SIZES = st.lists(st.integers(0, 20), min_size=4, max_size=4)


def linear(weights: list[int], complete: bool = True) -> Priced:
    """A model whose price is a weighted sum of the first four uncertain figures of cmos45."""
    model = technology("cmos45")
    names = uncertain([model])[:4]

    def price(by: Technology) -> Price:
        own = [figure for charge in by.charges for figure in charge.all_figures()]
        base = [figure for charge in model.charges for figure in charge.all_figures()]
        values = [own[base.index(name)].at(300.0) for name in names]
        items = [
            Item("logic", f"{k}", n, "", v * n, 300.0) for k, (v, n) in enumerate(zip(values, weights, strict=True))
        ]
        lacking = [] if complete else [Item("memory", "all", 1, "", NotModelled("no figure"), 300.0)]
        return Price(by, 300.0, None, (*items, *lacking))

    return Priced(model, price)


@given(SIZES, SIZES)
def test_the_extremes_are_those_of_all_corners(a: list[int], b: list[int]) -> None:
    one, other = linear(a), linear([n + 1 for n in b])
    model = one.technology
    names = uncertain([model])[:4]
    corners = []
    for ends in itertools.product((0, 2), repeat=4):
        by = at(model, {f: f.written[end] for f, end in zip(names, ends, strict=True) if f.written is not None})
        corners.append([p.energy(by) for p in (one, other)])
    pairs = [(x.nominal, y.nominal) for x, y in corners if isinstance(x, Range) and isinstance(y, Range)]
    for found, f in ((ratio(one, other), lambda x, y: x / y), (difference(one, other), lambda x, y: x - y)):
        assert isinstance(found.range, Range)
        assert found.range.lo == pytest.approx(min(f(*p) for p in pairs))
        assert found.range.hi == pytest.approx(max(f(*p) for p in pairs))


@pytest.mark.parametrize(("first", "second", "bound"), [(1, 1, ""), (0, 1, "≥"), (1, 0, "≤"), (0, 0, "no bound")])
def test_bounds(first: int, second: int, bound: str) -> None:
    found = ratio(linear([1, 2, 3, 4], bool(first)), linear([2, 4, 6, 8], bool(second)))
    assert found.bound == bound
    assert found.range == exactly(0.5)
    assert str(found) == f"{bound} 0.5".strip() if bound != "no bound" else "0.5, no bound"


@rg.reversible
def norm(y: rg.fixed, x: rg.Array[rg.fixed, "n"]) -> None:
    with rg.routine() as r:
        s = rg.sum(x * x)
    y += s
    ~r


def test_reports() -> None:
    """Both programs have the overhead of an instruction, whose range cancels; that of the ends does not."""
    report = rg.energy(norm, 0.0, [1.0, 2.0], tech="cmos45")
    assert report.ratio_to(report).range == exactly(1.0)
    found, beside = report.baseline_ratio().range, report.baseline_price
    assert beside is not None
    energies = report.price.program, beside.program
    assert all(isinstance(e, Range) for e in energies)
    assert isinstance(found, Range)
    wide: Any = energies
    assert found.nominal == pytest.approx(wide[0].nominal / wide[1].nominal)
    assert wide[0].lo / wide[1].hi < 0.5 < found.lo < found.nominal < found.hi < 3 < wide[0].hi / wide[1].lo
    assert f"ratio          {report.baseline_ratio()}" in str(report)
    assert report.as_dict()["baseline"]["ratio"] == report.baseline_ratio().as_dict()
    assert str(report.priced_by("adiabatic_rc").baseline_ratio()) == "not modelled"


def test_a_figure_of_two_models_is_one_figure() -> None:
    """Static gates and a resonator: both energies are proportional to CV², so the ranges of a given C and V cancel."""
    circuit = rg.netlist(norm, 0.0, [1.0], format="Q4.4")
    found = []
    for c, v in (("0.1:1:10fF", "0.5:0.8:1V"), ("1fF", "0.8V")):
        figures: Any = {"capacitance": c, "voltage": v, "power": "0W"}
        static = rg.energy(circuit.irreversible, tech="cmos_switching", figures=figures)
        ramped = rg.energy(circuit, tech="adiabatic_rc", figures={**figures, "resistance": "0ohm", "quality": "1e3"})
        found.append(static.ratio_to(ramped).range)
    assert isinstance(found[0], Range)
    assert found[0] == pytest.approx(found[1])
    assert found[0].lo < found[0].nominal < found[0].hi
    assert str(Comparison(NotModelled("x"))) == "not modelled"
