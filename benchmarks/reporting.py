"""Compare two runs, and write or check the pages of the kept runs: `python -m retrograd.benchmarks.reporting DOCS`.

Runs are compared by ratios and counts. Times are not compared, since they depend on the machine.

    gradient over value, uncall over call, of our systems:   at most ALLOWED times the earlier ratio
    ours over a peer, where both runs have it:               the same
    instructions, words of memory:                           equal or less

Only problems of equal size are compared. Quantities that only one run has are listed. A ratio of times counts as worse if a second
run of its workload confirms it.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from retrograd.benchmarks import papers, vlad
from retrograd.benchmarks.page import FIGURES, page, read_gpu, read_points, table, write
from retrograd.benchmarks.papers import PAPERS, STORE
from retrograd.benchmarks.papers import page as tables_page
from retrograd.benchmarks.papers import write as write_tables
from retrograd.benchmarks.run import SCHEMA
from retrograd.isa.diagnostics import Diagnostic, InputError
from retrograd.isa.files import read_file, write_file

#: the allowed growth of a ratio of times: those of small sizes vary by a factor of two between runs on a shared machine
ALLOWED = 2.5
#: counts may differ by rounding only
ROUNDING = 1e-9


@dataclass(frozen=True)
class Worse:
    """A quantity that has become worse."""

    what: str
    before: float
    now: float
    #: `ratio` of times, or `count`
    kind: str = "ratio"

    @property
    def workload(self) -> str:
        return self.what.partition(",")[0]

    def __str__(self) -> str:
        return f"{self.what}: {self.now:.4g}, and was {self.before:.4g}"


@dataclass(frozen=True)
class Comparison:
    """The result of a comparison."""

    compared: int
    worse: list[Worse]
    #: quantities that only one of the runs has
    apart: list[str]


def read(path: Path) -> dict[str, Any]:
    """Read the document of a run. Raises InputError RG0501, RG1203."""
    try:
        text = read_file(path).decode()
    except UnicodeDecodeError as error:
        raise InputError(Diagnostic("RG0501", f"{path}: {error}")) from None
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(Diagnostic("RG1203", f"{path} is no JSON: {str(error)[:100]}")) from None
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        found = document.get("schema") if isinstance(document, dict) else None
        said = f"its schema is {found!r:.60}" if found is not None else "it names no schema"
        raise InputError(Diagnostic("RG1203", f"{path} is no document of {SCHEMA}: {said}"))
    try:
        _look(document)
    except (
        LookupError,
        TypeError,
        ValueError,
        AttributeError,
        ArithmeticError,
        AssertionError,
        RecursionError,
    ) as error:
        what = (
            f"lacks {error}"
            if isinstance(error, KeyError)
            else f"has something else where it should have a figure: {error}"
        )
        raise InputError(Diagnostic("RG1203", f"{path} {what:.120}")) from None
    return document


def _look(document: dict[str, Any]) -> None:
    """Access every value that readers of a document use. Raises the exception of the first access that fails."""
    table(document)
    page(document)
    for (_, name), value in _quantities(document):
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise TypeError(f"{name} is {value!r:.40}")
        float(value)  # OverflowError for an integer beyond all floats
    for w in document["workloads"]:
        for point in w["curve"]["points"] if w["curve"] else ():
            float(point["extent"]), [float(found["seconds"]) for found in point["tasks"].values()]


def compare(before: dict[str, Any], now: dict[str, Any]) -> Comparison:
    """Compare the quantities that both runs have."""
    old, new = dict(_quantities(before)), dict(_quantities(now))
    worse = []
    both = [key for key in new if key in old]
    for key in both:
        allowed = 1 + ROUNDING if key[0] == "count" else ALLOWED
        if new[key] > old[key] * allowed:
            worse.append(Worse(key[1], old[key], new[key], key[0]))
    apart = [key[1] for key in sorted({*old} ^ {*new})]
    return Comparison(len(both), worse, apart)


def confirmed(before: dict[str, Any], found: Comparison, again: Callable[[list[str]], dict[str, Any]]) -> Comparison:
    """The comparison without ratios that a second run of their workloads, made by `again`, does not confirm."""
    doubtful = list(dict.fromkeys(one.workload for one in found.worse if one.kind == "ratio"))
    if not doubtful:
        return found
    still = {one.what for one in compare(before, again(doubtful)).worse}
    return Comparison(found.compared, [w for w in found.worse if w.kind == "count" or w.what in still], found.apart)


def _quantities(document: dict[str, Any]) -> Iterator[tuple[tuple[str, str], float]]:
    """((kind, name), value): kind is `ratio` or `count`; a smaller value is better."""
    for w in document["workloads"]:
        if w["counts"]:
            for key in ("instructions", "cycles"):
                yield ("count", f"{w['name']}, one run: {key}"), w["counts"][key]
        for problem in w["problems"]:
            where = f"{w['name']}, {problem['size']}"
            peers = {s["system"] for task in problem["tasks"] for s in task["systems"] if not s["ours"]}
            times = {
                (task["what"], s["system"]): s["minimum"]
                for task in problem["tasks"]
                for s in task["systems"]
                if s["status"] == "timed"
            }
            for task in problem["tasks"]:
                what = task["what"]
                for key in ("instructions", "words"):
                    if task[key] is not None:
                        yield ("count", f"{where}: {key} of {what}"), task[key]
                ours = times.get((what, "translated"))
                if ours is None:
                    continue
                value = times.get(("value", "translated"))
                if what != "value" and value:
                    yield ("ratio", f"{where}: {what} over value"), ours / value
                for (of, system), seconds in times.items():
                    if of == what and system in peers:
                        yield ("ratio", f"{where}: {what} over that by {system}"), ours / seconds
                if (what, "uncall") in times:
                    yield ("ratio", f"{where}: uncall over call"), times[what, "uncall"] / ours


# -----------------------------------------------------------------------------
# `python -m retrograd.benchmarks.reporting DOCS`: write the page and its pictures from the kept figures, or check the page.

COMMAND = "python -m retrograd.benchmarks.reporting"


def main() -> None:
    """Write the page and its pictures, or compare the page with its file."""
    parser = argparse.ArgumentParser(prog=COMMAND, description=main.__doc__)
    parser.add_argument("--check", action="store_true", help="compare the page, write nothing")
    parser.add_argument("docs", type=Path)
    options = parser.parse_args()
    document = read(options.docs / "benchmarks" / FIGURES)
    tables = papers.read(options.docs / STORE)
    if not options.check:
        write(document, options.docs)
        write_tables(tables, options.docs)
        write_file(options.docs / vlad.PAGE, vlad.page(vlad.stored(options.docs)))
    elif (options.docs / "benchmarks.md").read_text(encoding="utf-8") != page(
        document, read_gpu(options.docs), read_points(options.docs)
    ):
        sys.exit(f"{options.docs}/benchmarks.md is stale: run {COMMAND} {options.docs}")
    elif (options.docs / PAPERS).read_text(encoding="utf-8") != tables_page(tables, read_gpu(options.docs)):
        sys.exit(f"{options.docs}/{PAPERS} is stale: run {COMMAND} {options.docs}")
    elif (options.docs / vlad.PAGE).read_text(encoding="utf-8") != vlad.page(vlad.stored(options.docs)):
        sys.exit(f"{options.docs}/{vlad.PAGE} is stale: run {COMMAND} {options.docs}")


if __name__ == "__main__":
    main()
