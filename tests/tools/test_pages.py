"""Links between the pages, and from pages to sources, lead to files and headings that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").glob("*.md")])


def without_code(page: Path) -> str:
    return re.sub(r"^```.*?^```|`[^`\n]*`", "code", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub gives to the headings of a page."""
    text = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    plain = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading) for heading in headings)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", without_code(page)):
        if "://" in link:
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), f"{page.name} links to {link}"
        if anchor:
            assert anchor in anchors(target), f"{page.name} links to {link}"


def test_every_page_is_reached_from_the_readme() -> None:
    reached, waiting = set(), [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        if page not in reached and page.suffix == ".md" and page.exists():
            reached.add(page)
            links = re.findall(r"\]\(([^)\s#]+)", without_code(page))
            waiting += [(page.parent / link).resolve() for link in links if "://" not in link]
    assert {page for page in PAGES if page.name != "CHANGELOG.md"} <= reached


def test_the_readme_is_short() -> None:
    """One picture, and an example that stands in a file, so that it works where it is typed."""
    text = (ROOT / "README.md").read_text("utf-8")
    assert text.count("\n") < 120
    assert text.count("![") == 1
    assert re.search(r"^```python \w+\.py\n", text, re.MULTILINE)


def test_the_glossary_names_files_and_every_pass() -> None:
    """Each technique has a file, and each optimisation pass of the compiler is a technique."""
    glossary = (ROOT / "docs" / "glossary.md").read_text("utf-8")
    rows = re.findall(r"^\| ([^|]+) \| \[([\w/.]+)\]\(\.\./([\w/.]+)\)", glossary, re.MULTILINE)
    assert len(rows) > 40
    for technique, shown, path in rows:
        assert shown == path, technique
        assert (ROOT / path).is_file(), technique
    passes = {path.relative_to(ROOT).as_posix() for path in (ROOT / "compiler" / "passes").glob("[a-z]*.py")}
    assert passes <= {path for _, _, path in rows}
