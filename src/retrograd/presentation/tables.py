"""Tables as text, as Markdown and as HTML; texts of reports that a prompt shows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from retrograd.isa.diagnostics import markup, printable

#: lines of a report that a prompt shows
_SHOWN = 40


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


def html_table(rows: Sequence[Sequence[str]]) -> str:
    """Rows as an HTML table, the first of them the head."""
    head = "".join(f"<th>{markup(cell)}</th>" for cell in rows[0])
    body = "".join("<tr>" + "".join(f"<td>{markup(cell)}</td>" for cell in row) + "</tr>" for row in rows[1:])
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def shortened_text(text: str) -> str:
    """The representation of a report: its text, of which a prompt shows 40 lines at most. `print` shows the whole."""
    lines = text.split("\n")
    if len(lines) <= _SHOWN:
        return text
    left = len(lines) - _SHOWN + 1
    return "\n".join([*lines[: _SHOWN - 1], f"… {left} more lines: print() shows them"])
