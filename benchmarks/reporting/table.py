"""The results of a run as text: one line for each task and system, then counts, bars, and errors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from retrograd.simulator.energy.technology import with_prefix

from retrograd.presentation import columns


def seconds_text(seconds: float | None) -> str:
    """12.3 µs."""
    return "" if seconds is None else with_prefix(seconds, "s", 3)


def number_text(value: float | None) -> str:
    """1,234 or 0.123."""
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 1000 or value == int(value) else f"{value:.3g}"


def joules_text(found: dict[str, Any]) -> str:
    """An energy; ≥ if the model lacks a figure for one of its parts."""
    if found["joules"] is None:
        return "not modelled"
    return f"{'' if found['complete'] else '≥ '}{with_prefix(found['joules'], 'J', 3)}"


def table(document: dict[str, Any]) -> str:
    """The whole table as text."""
    parts = [_head(document), _timed(document)]
    parts += [
        part
        for part in (_streams(document), _goldens(document), _counts(document), _toolchain(document), _bars(document))
        if part
    ]
    absent = [f"Absent: {name} ({found['absent']})." for name, found in document["peers"].items() if found["absent"]]
    not_written = _not_written(document)
    parts += ["\n".join([*absent, *not_written])] if absent or not_written else []
    if document["wrong"]:
        parts.append("\n".join(["WRONG:", *(f"  {line}" for line in document["wrong"])]))
    else:
        parts.append("Every golden is met; every result of ours is right, and the same on all engines.")
    return "\n\n".join(part for part in parts if part)


def _head(document: dict[str, Any]) -> str:
    m = document["machine"]
    pinned = "one of its cores" if m["pinned"] else "cores as the system chose"
    versions = ", ".join(
        [f"{name} {version}" for name, version in document["versions"].items()]
        + [f"{name} {found['version']}" for name, found in document["peers"].items() if not found["absent"]]
    )
    return f"{m['processor']}, {pinned}; Python {m['python']}\n{versions}"


def ratios(problem: dict[str, Any]) -> dict[str, float]:
    """The ratio of derivative (gradient or Jacobian) to value in time, by system."""
    by: dict[str, dict[str, float]] = {}
    for task in problem["tasks"]:
        for s in task["systems"]:
            if s["status"] == "timed":
                by.setdefault(task["what"], {})[s["system"]] = s["minimum"]
    for what in ("gradient", "jacobian"):
        if what in by:
            return {name: t / by["value"][name] for name, t in by[what].items() if name in by["value"]}
    return {}


def system_cells(problem: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any], list[str]]]:
    """(the task in the first row of its systems; system; median, least, over value, error and memory) for each row."""
    over = ratios(problem)
    for task in problem["tasks"]:
        what = task["what"]
        for s in task["systems"]:
            if s["status"] == "not written":
                continue
            ratio = over.get(s["system"]) if task["what"] in ("gradient", "jacobian") else None
            yield (
                what,
                s,
                [
                    seconds_text(s["median"]),
                    seconds_text(s["minimum"]),
                    "" if ratio is None else f"{ratio:.2f}",
                    "" if s["error"] is None else f"{s['error']:.0e}",
                    "" if s["peak_bytes"] is None else f"{s['peak_bytes'] / 1024:,.0f} KiB",
                ],
            )
            what = ""


def _timed(document: dict[str, Any]) -> str:
    """One block for each problem."""
    blocks = []
    for w in document["workloads"]:
        for problem in w["problems"]:
            rows = [["", "system", "each", "at least", "over value", "error", "peak memory", ""]]
            for what, s, cells in system_cells(problem):
                status = s["status"] if s["status"] == "left out" else s["status"].upper()
                rows.append([what, s["system"], *cells, f"{status}: {s['reason']}" if s["reason"] else s["note"]])
            blocks.append(f"{w['title']}: {problem['size']}\n{columns(rows, right=(2, 3, 4, 5, 6))}")
    return "\n\n".join(blocks)


def stream_rows(document: dict[str, Any]) -> list[list[str]]:
    """Name, evaluations, total seconds, seconds of one evaluation, for each task of the streams."""
    return [
        [w["title"], f"{s['name']}, {s['pieces']} pieces", what, f"{s['evaluations']:,}", f"{seconds:.3g} s",
         seconds_text(seconds / s["evaluations"]), f"{s['errors'][what]:.0e}"]
        for w in document["workloads"] for s in w["streams"] for what, seconds in s["seconds"].items()
    ]  # fmt: skip


#: the head of these columns
STREAM_HEAD = ["in pieces", "", "", "evaluations", "in all", "each", "error"]


def _streams(document: dict[str, Any]) -> str:
    rows = stream_rows(document)
    return columns([STREAM_HEAD, *rows], right=(3, 4, 5, 6)) if rows else ""


def _goldens(document: dict[str, Any]) -> str:
    rows = [["golden", "expected", "found", "tolerance", ""]]
    for w in document["workloads"]:
        for g in w["goldens"]:
            found = g["reason"] if g["found"] is None else f"{g['found']:.13g}"
            rows.append(
                [f"{w['name']}: {g['what']}", f"{g['expected']:.13g}", found, f"{g['tolerance']:.0e}" if g["tolerance"] else "exact",
                 "" if g["met"] else "WRONG"]
            )  # fmt: skip
    return columns(rows, right=(1, 2, 3)) if len(rows) > 1 else ""


def mix_text(counts: dict[str, Any], shown: int = 4) -> str:
    """The instructions that were executed most: fmul 38 %, exch 22 %."""
    total = counts["instructions"]
    most = sorted(counts["mix"].items(), key=lambda part: -part[1])[:shown]
    return ", ".join(f"{name} {100 * n / total:.0f} %" for name, n in most)


def _counts(document: dict[str, Any]) -> str:
    found = [w for w in document["workloads"] if w["counts"]]
    if not found:
        return ""
    models = list(found[0]["counts"]["energy"])
    rows = [["one run", "instructions", "cycles", "level", *models, "most of it"]]
    for w in found:
        c = w["counts"]
        level = "" if c["uncomputing_level"] is None else f"{c['uncomputing_level']:.2f}"
        energy = [joules_text(c["energy"][m]) for m in models]
        rows.append([w["title"], number_text(c["instructions"]), number_text(c["cycles"]), level, *energy, mix_text(c)])
    return columns(rows, right=range(1, 4 + len(models)))


def _toolchain(document: dict[str, Any]) -> str:
    if not document["toolchain"]:
        return ""
    rows = [["toolchain", "", "", "bar", ""]]
    for row in document["toolchain"]:
        bar = "" if row["bar"] is None else f"{'≤' if row['lower_is_better'] else '≥'} {row['bar']:g}"
        verdict = {None: "", True: "met", False: "MISSED"}[row["met"]]
        value = f"{row['value']:,.0f}" if row["value"] > 1000 else f"{row['value']:.3f}"
        rows.append([row["name"], value, row["unit"], bar, verdict])
    return columns(rows, right=(1,))


def bar_rows(document: dict[str, Any]) -> list[list[str]]:
    """Name, measurement, bar and verdict of each bar."""
    out = []
    for bar in document["bars"]:
        measured, limit = (
            ""
            if value is None
            else seconds_text(value)
            if bar["unit"] == "s"
            else f"{value:,.0f} {bar['unit']}"
            if value >= 1000
            else f"{value:.3g} {bar['unit']}"
            for value in (bar["measured"], bar["limit"])
        )
        verdict = {"met": "met", "missed": "MISSED", "open": "not measured"}[bar["verdict"]]
        out.append(
            [
                bar["name"],
                measured,
                f"{'≥' if bar['at_least'] else '≤'} {limit}",
                verdict + (f" ({bar['reason']})" if bar["reason"] else ""),
            ]
        )
    return out


def _bars(document: dict[str, Any]) -> str:
    if not any(w["problems"] for w in document["workloads"]):
        return ""
    return columns([["bar", "measured", "", ""], *bar_rows(document)], right=(1,))


def not_written(document: dict[str, Any]) -> dict[str, list[str]]:
    """For each available peer, the tasks that it has no implementation of."""
    out: dict[str, list[str]] = {}
    for w in document["workloads"]:
        for problem in w["problems"][:1]:
            for task in problem["tasks"]:
                for s in task["systems"]:
                    if s["status"] == "not written":
                        out.setdefault(s["system"], []).append(f"{w['name']} {task['what']}")
    return out


def _not_written(document: dict[str, Any]) -> Sequence[str]:
    return [f"Not written with {peer}: {', '.join(tasks)}." for peer, tasks in not_written(document).items()]
