"""Two runs compared: by ratios and counts, not by times."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from retrograd.benchmarks.reporting import ALLOWED, compare, confirmed, read
from retrograd.isa.diagnostics import InputError


def each_system(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for w in document["workloads"]:
        for problem in w["problems"]:
            for task in problem["tasks"]:
                for s in task["systems"]:
                    yield task["what"], s


def changed(document: dict[str, Any], change: Callable[[str, dict[str, Any]], float]) -> dict[str, Any]:
    """The document with the times multiplied."""
    out = copy.deepcopy(document)
    for what, s in each_system(out):
        if s["minimum"] is not None:
            s["minimum"] *= change(what, s)
    return out


@pytest.mark.long
def test_the_same_run_is_no_worse(document: dict[str, Any]) -> None:
    found = compare(document, document)
    assert (found.worse, found.apart) == ([], [])
    # Instructions and words of two tasks, counts of one run, gradient over value, uncall over call, one peer on two tasks.
    assert found.compared == 4 + 2 + 1 + 1 + 2


def test_a_slower_machine_is_no_worse(document: dict[str, Any]) -> None:
    assert compare(document, changed(document, lambda what, s: 10.0)).worse == []


def test_a_slower_gradient_is_worse(document: dict[str, Any]) -> None:
    slower = changed(document, lambda what, s: 1.01 * ALLOWED if s["ours"] and what == "gradient" else 1.0)
    worse = [w.what.partition(": ")[2] for w in compare(document, slower).worse]
    assert worse == ["gradient over value", "gradient over that by right"]
    barely = changed(document, lambda what, s: 0.99 * ALLOWED if s["ours"] and what == "gradient" else 1.0)
    assert compare(document, barely).worse == []
    # What became better is no regression.
    assert compare(slower, document).worse == []


def test_a_ratio_that_a_second_run_does_not_confirm_is_no_worse(document: dict[str, Any]) -> None:
    slower = changed(document, lambda what, s: 1.01 * ALLOWED if s["ours"] and what == "gradient" else 1.0)
    slower["workloads"][0]["counts"]["cycles"] += 1
    found = compare(document, slower)
    asked: list[list[str]] = []

    def again(second: dict[str, Any], names: list[str]) -> dict[str, Any]:
        asked.append(names)
        return second

    kinds = [w.kind for w in confirmed(document, found, lambda names: again(document, names)).worse]
    assert (kinds, asked) == (["count"], [["quadratic"]])
    assert confirmed(document, found, lambda names: again(slower, names)).worse == found.worse
    same = compare(document, document)
    assert confirmed(document, same, lambda names: again(slower, names)) is same
    assert len(asked) == 2


def test_more_instructions_are_worse(document: dict[str, Any]) -> None:
    more = copy.deepcopy(document)
    more["workloads"][0]["problems"][0]["tasks"][1]["instructions"] += 1
    more["workloads"][0]["counts"]["cycles"] += 1
    worse = compare(document, more).worse
    assert [w.what.partition(": ")[2] for w in worse] == ["cycles", "instructions of gradient"]
    assert "and was" in str(worse[0])


def test_what_one_run_has_not_is_told(document: dict[str, Any]) -> None:
    fewer = copy.deepcopy(document)
    fewer["workloads"][0]["problems"][0]["size"] = "four numbers"
    found = compare(document, fewer)
    assert found.compared == 2
    assert len(found.apart) == 2 * (4 + 1 + 1 + 2)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "RG1203"),
        ("[" * 100_000, "RG1203"),
        ("[]", "RG1203"),
        ('{"schema": ["retrograd.bench/3"]}', "RG1203"),
        ('{"schema": "retrograd.bench/3"}', "RG1203"),
        (None, "RG0501"),
    ],
)
def test_files_that_are_none(tmp_path: Path, text: str | None, code: str) -> None:
    path = tmp_path / "figures.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(InputError) as caught:
        read(path)
    assert caught.value.code == code


@pytest.mark.parametrize("value", [None, 7, "text", [], {}])
def test_a_document_that_was_meddled_with(tmp_path: Path, document: dict[str, Any], value: Any) -> None:
    """Whatever stands in the place of a part: the file is refused, or does without it."""
    path = tmp_path / "figures.json"
    for place in list(places(document))[::7]:
        changed_ = copy.deepcopy(document)
        *way, last = place
        at: Any = changed_
        for key in way:
            at = at[key]
        at[last] = value
        path.write_text(json.dumps(changed_))
        code = "RG1203"
        try:
            read(path)
        except InputError as error:
            code = error.code
        assert code == "RG1203"


def places(part: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The ways to all that is in a document."""
    for key, value in part.items() if isinstance(part, dict) else enumerate(part) if isinstance(part, list) else ():
        yield (*way, key)
        yield from places(value, (*way, key))


def test_a_document_is_read(tmp_path: Path, document: dict[str, Any]) -> None:
    path = tmp_path / "figures.json"
    path.write_text(json.dumps(document))
    assert read(path) == document
