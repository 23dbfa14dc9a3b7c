"""Tables as text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def columns(rows: Sequence[Sequence[str]], right: Iterable[int] = ()) -> str:
    """Rows in aligned columns; those numbered in `right` are set to the right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    flush = set(right)
    lines = []
    for row in rows:
        cells = [c.rjust(n) if i in flush else c.ljust(n) for i, (c, n) in enumerate(zip(row, widths, strict=True))]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)
