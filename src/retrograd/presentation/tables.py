"""Tables as text and as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from retrograd.isa.diagnostics import printable


def columns(rows: Sequence[Sequence[str]], right: Iterable[int] = ()) -> str:
    """Rows in aligned columns; columns in `right` are aligned to the right."""
    rows = [[printable(cell) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    flush = set(right)
    lines = []
    for row in rows:
        cells = [c.rjust(n) if i in flush else c.ljust(n) for i, (c, n) in enumerate(zip(row, widths, strict=True))]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def markdown(rows: Sequence[Sequence[str]], right: Iterable[int] = ()) -> str:
    """Rows as a Markdown table, the first of them the head; columns in `right` are aligned to the right."""
    flush = set(right)
    head, *body = [[printable(cell) for cell in row] for row in rows]
    lines = [head, ["--:" if i in flush else "---" for i in range(len(head))], *body]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
