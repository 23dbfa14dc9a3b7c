"""`faults` finds what a reader could not read, each by itself; the pictures of the pages have none."""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from matplotlib.axes import Axes
from matplotlib.ticker import ScalarFormatter
from matplotlib.transforms import Bbox
from retrograd.benchmarks import page, papers, points
from retrograd.benchmarks.papers import draw_round_off
from retrograd.benchmarks.reporting import read

from retrograd.presentation import _TOUCH, _inside, axes_of, counts_by_decades, faults, legend, new_figure, two_decades

ROOT = Path(__file__).resolve().parents[2]


def good(ax: Axes) -> None:
    ax.plot([1, 10, 100], [1, 20, 300], label="a curve")
    ax.set_xlabel("x")
    ax.set_title("a picture")
    ax.annotate("a point", (10, 200))
    legend(ax)


def labels_collide(ax: Axes) -> None:
    ax.set_xticks(range(1, 100, 3), [f"number {i}" for i in range(1, 100, 3)])


def annotations_collide(ax: Axes) -> None:
    ax.annotate("another point", (11, 201))


def label_over_a_curve(ax: Axes) -> None:
    ax.annotate("the curve runs here", (40, 110))


def label_over_a_bar(ax: Axes) -> None:
    ax.bar([20], [290], width=30)


def label_over_points(ax: Axes) -> None:
    ax.scatter([12], [205])


def legend_over_a_curve(ax: Axes) -> None:
    ax.legend(loc="lower left")


def text_is_cut_off(ax: Axes) -> None:
    ax.figure.text(0.95, 0.5, "half of this text is outside")


def factor_at_the_end(ax: Axes) -> None:
    ax.plot([1, 100], [1e-7, 2e-7])
    ax.set_ylim(0, 3e-7)


def tick_of_a_factor(ax: Axes) -> None:
    ax.set_yscale("symlog", linthresh=10)
    ax.set_yticks([3.15, 100], ["$\\mathdefault{3.15\\times10^{0}}$", "100"])


def one_tick_alone(ax: Axes) -> None:
    ax.set_yscale("log")
    ax.set_ylim(20, 300)
    ax.yaxis.set_minor_formatter(ScalarFormatter())
    ax.minorticks_off()


def linear_over_decades(ax: Axes) -> None:
    ax.plot([1, 100], [1e-9, 1e-9])


FAULTS: dict[Callable[[Axes], None], str] = {
    labels_collide: " over 'number", annotations_collide: "'a point' over 'another point'", label_over_a_curve: "over the curve 'a curve'",
    label_over_a_bar: "over a bar", label_over_points: "over points", legend_over_a_curve: "'legend' over the curve",
    text_is_cut_off: "is cut off", factor_at_the_end: "an axis times", tick_of_a_factor: "3.15", one_tick_alone: "1 ticks on a logarithmic",
    linear_over_decades: "a linear axis for 1e-09 beside 300",
}  # fmt: skip


def test_a_good_picture_has_no_faults() -> None:
    figure, ax = axes_of(None)
    good(ax)
    assert faults(figure) == []


@pytest.mark.parametrize("plant", FAULTS)
def test_a_fault_is_found(plant: Callable[[Axes], None]) -> None:
    figure, ax = axes_of(None)
    good(ax)
    plant(ax)
    assert any(FAULTS[plant] in fault for fault in faults(figure)), faults(figure)


@pytest.mark.parametrize(("lo", "hi"), [(20, 300), (20, 30), (1, 1.5), (1e-9, 1e9), (0.9, 9.9)])
def test_two_decades(lo: float, hi: float) -> None:
    figure, ax = axes_of(None)
    ax.loglog([lo, hi], [lo, hi])
    two_decades(ax.xaxis)
    two_decades(ax.yaxis)
    assert faults(figure) == []
    assert ax.get_ylim()[0] <= lo < hi <= ax.get_ylim()[1]


@pytest.mark.parametrize("most", [0, 1, 3, 9, 10, 4711, 50_000, 10**6])
def test_counts_by_decades(most: float) -> None:
    figure, ax = axes_of(None)
    ax.plot([1, 2, 3], [0, most / 2, most])
    counts_by_decades(ax)
    assert faults(figure) == []
    assert ax.get_ylim()[0] < 0 <= most < ax.get_ylim()[1]
    assert len(ax.get_yticks()) <= 6


def test_axes_that_are_given_are_used() -> None:
    figure = new_figure(3, 2)
    ax = figure.add_subplot()
    assert axes_of(ax) == (figure, ax)


def analysis() -> ModuleType:
    spec = importlib.util.spec_from_file_location("analyse_energy", ROOT / "tools" / "analyse_energy.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.long
def test_the_pictures_of_the_analysis() -> None:
    drawn = analysis().page()[1]
    assert {name: found for name, figure in drawn.items() if (found := faults(figure))} == {}
    names = ("reversible-gates-compared.md", "when-a-reversible-machine-wins.md")
    others = [
        name for page in names for name in re.findall(r"energy/(\w+)\.svg", (ROOT / "docs" / page).read_text("utf-8"))
    ]
    assert others
    assert {path.stem for path in (ROOT / "docs" / "energy").glob("*.svg")} == drawn.keys() | set(others)


@pytest.mark.long
def test_the_pictures_of_the_benchmarks() -> None:
    document = read(ROOT / "docs" / "benchmarks" / page.FIGURES)
    assert {name: found for name, draw in page.PICTURES.items() if (found := faults(draw(document)))} == {}
    assert faults(draw_round_off(json.loads((ROOT / "docs" / papers.STORE).read_text()))) == []
    assert faults(points.draw(json.loads((ROOT / "docs" / "benchmarks" / page.POINTS).read_text())["orbit"])) == []
    kept = {path.stem for path in (ROOT / "docs" / "benchmarks").glob("*.svg")}
    assert kept == page.PICTURES.keys() | {Path(papers.PICTURE).stem, "points"}


@pytest.mark.parametrize(
    ("shown", "expected"), [((2, 150), (2, 150)), ((1, 10), (1, 10)), ((3, 40), (1, 100)), ((2, 8), (1, 10))]
)
def test_an_axis_shows_two_powers_of_ten(shown: tuple[float, float], expected: tuple[float, float]) -> None:
    """An axis that shows two powers of ten keeps its limits."""
    _, ax = axes_of(None)
    ax.set_xscale("log")
    ax.set_xlim(*shown)
    two_decades(ax.xaxis)
    assert ax.get_xlim() == pytest.approx(expected)


@pytest.mark.parametrize("side", range(4))
def test_a_text_may_touch_each_edge(side: int) -> None:
    whole = Bbox([[0, 0], [100, 100]])
    for beyond, inside in ((_TOUCH / 2, True), (_TOUCH * 2, False)):
        ends = [20.0, 20.0, 80.0, 80.0]
        ends[side] = -beyond if side < 2 else 100 + beyond
        assert _inside(Bbox.from_extents(*ends), whole) == inside
