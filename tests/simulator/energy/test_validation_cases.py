"""The cases of docs/energy.md that validate counts and prices: each names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def test_thirteen_cases_with_their_tests() -> None:
    text = (ROOT / "docs" / "energy.md").read_text(encoding="utf-8").split("## Validation")[1]
    rows = re.findall(r"^\| (\d+) \| (.+) \|$", text, re.MULTILINE)
    assert [int(number) for number, _ in rows] == list(range(1, 14))
    for _, row in rows:
        named = re.findall(r"`([\w/]+\.py)::(test_\w+)`", row)
        assert named, row
        for file, test in named:
            assert f"def {test}(" in (ROOT / "tests" / file).read_text(encoding="utf-8"), (file, test)
