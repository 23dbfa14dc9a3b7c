"""The picture of the papers' page: round-off of the leapfrog method against steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from retrograd.presentation import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: column -> the text of its curve
_CURVES = {
    "difference, float64": "out and back in float64: difference from the start",
    "difference from float64": "out: fixed point from float64",
    "change of energy": "out: relative change of energy, fixed point",
}


def draw_round_off(document: dict[str, Any]) -> Figure:
    """Differences on logarithmic axes. Fixed point comes back to the word, so its own curve is zero, and is named in the title."""
    rows = document["rows"].get("round-off", {})
    points = sorted(
        (int(label.split()[0].replace(",", "")), row["cells"]) for label, row in rows.items() if row["cells"]
    )
    figure = new_figure(7.0, 3.8)
    axes = figure.add_subplot()
    for (column, text), marker in zip(_CURVES.items(), "os^", strict=True):
        places = [(steps, cells[column]) for steps, cells in points if cells.get(column)]
        if places:
            axes.loglog(*zip(*places, strict=True), marker=marker, label=text)
    differing = sum(cells.get("words that differ", 0) for _, cells in points)
    axes.set_title(f"Fixed point out and back: {differing:.0f} words differ", fontsize=10)
    axes.set_xlabel("steps of a hundredth of a year")
    axes.set_ylabel("astronomical units; part of the energy")
    axes.grid(alpha=0.3)
    if points:
        axes.legend(fontsize=8)
    return figure
