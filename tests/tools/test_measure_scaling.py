"""The table of times by workers: its formula, and its page."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.fixture(scope="module")
def tool(module: Callable[[str], ModuleType]) -> ModuleType:
    return module("tools/measure_scaling.py")


def test_the_page_is_fresh(tool: ModuleType) -> None:
    figures = json.loads((DOCS / tool.FIGURES).read_text())
    text = (DOCS / tool.PAGE).read_text("utf-8")
    assert tool.page(text, figures) == text
    assert tool.page(text, {**figures, "row_seconds": 1.0}) != text


def test_the_formula(tool: ModuleType) -> None:
    """Workers share the points; the caller and its network share nothing."""
    figures = {"row_seconds": 1e-6, "task_seconds": 1e-3, "task_bytes": 1e6}
    n = 64 * tool.CHUNK
    assert tool.seconds(figures, n, 1, 1e12) == pytest.approx(n * 1e-6)
    assert tool.seconds(figures, n, 4, 1e12) == pytest.approx(n * 1e-6 / 4)
    assert tool.seconds(figures, n, 10**6, 1e9) == pytest.approx(64 * 2e-3)
    most = tool.most_workers(figures, 1e9)
    assert tool.seconds(figures, n, most, 1e9) == pytest.approx(64 * 2e-3)
    assert tool.seconds(figures, n, most / 2, 1e9) == pytest.approx(2 * 64 * 2e-3)


def test_a_busy_machine_is_named(tool: ModuleType) -> None:
    figures = json.loads((DOCS / tool.FIGURES).read_text())
    assert "to be repeated" in tool.table({**figures, "load": 3.0})
    assert "to be repeated" not in tool.table({**figures, "load": 0.1})
