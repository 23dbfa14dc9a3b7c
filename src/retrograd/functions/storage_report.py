"""The results that a program keeps in memory, as text and for JSON: words, instructions saved, and the best use of more words."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from retrograd.compiler.compiled import Storage, StoredResult
from retrograd.presentation.tables import columns


def storage_text(storage: Storage) -> str:
    """A table of the chosen results by place, and the best of the others; empty if there are neither."""
    lines = []
    if storage.chosen:
        rows = [[_place(at), str(words), str(saved)] for at, words, saved in _by_place(storage.chosen)]
        lines.append(columns([["kept in memory", "words", "instructions saved"], *rows], right=(1, 2)))
    if storage.following:
        best = storage.following[0]
        lines.append(
            f"memory={storage.budget}: {best.words} more words, for {_place(best)}, would save {best.saved} instructions of a run"
        )
    return "\n".join(lines)


def storage_dict(storage: Storage) -> dict[str, Any]:
    """For JSON. `following`: the results that more words would keep, the best first."""
    return {
        "budget": storage.budget,
        "words": storage.words,
        "chosen": [_item(*row) for row in _by_place(storage.chosen)],
        "following": [_item(*row) for row in _by_place(storage.following)],
    }


def _by_place(results: Iterable[StoredResult]) -> list[tuple[StoredResult, int, int]]:
    """(the first result of a place, words and saved instructions of all its results)."""
    out: dict[Any, tuple[StoredResult, int, int]] = {}
    for result in results:
        first, words, saved = out.get(result.span, (result, 0, 0))
        out[result.span] = first, words + result.words, saved + result.saved
    return list(out.values())


def _item(first: StoredResult, words: int, saved: int) -> dict[str, Any]:
    span = first.span
    source = None if span is None else {"file": span.file, "line": span.line}
    return {"source": source, "words": words, "instructions_saved": saved}


def _place(result: StoredResult) -> str:
    span = result.span
    return "temporaries of a call" if span is None else f"{Path(span.file).name}:{span.line}"
