"""The API reference and the layout of the site. `make site` itself is run by CI, where every warning of Sphinx is an error."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import pytest

import retrograd

ROOT = Path(__file__).resolve().parents[2]
LISTED = (ROOT / "docs" / "api.md").read_text("utf-8")


@pytest.fixture(scope="module")
def site() -> ModuleType:
    """tools/make_site.py."""
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        return import_module("make_site")
    finally:
        sys.path.remove(str(ROOT / "tools"))


def test_every_name_has_an_example(site: ModuleType) -> None:
    for page in site.pages(LISTED):
        for section in page.sections:
            blocks = re.findall(r"^```(?:python|py)\n(.*?)^```", section.text, re.MULTILINE | re.DOTALL)
            code = "\n".join(
                line
                for block in blocks
                for line in block.splitlines()
                if line.startswith((">>> ", "... ")) or "= rg." in line
            )
            assert code, section.names
            for name in site.names_of(section):
                own = name.rpartition(".")[2]
                # Results and annotations are used by way of the name beside them.
                assert re.search(rf"\b{own}\b", code) or isinstance(site.resolved(name), type), name


def test_every_function_of_the_library_is_in_the_reference(site: ModuleType) -> None:
    """As names of `retrograd.library` or, like the functions of dictionaries and random, of the module; each once."""
    listed = [n for page in site.pages(LISTED) for section in page.sections for n in site.names_of(section)]
    library = [name for name in listed if name.startswith("retrograd.library.")]
    apart = [import_module(f"retrograd.library.{name}") for name in ("dictionaries", "random")]
    assert sorted(library) == sorted(
        f"{module.__name__}.{name}"
        for module in (import_module("retrograd.library"), *apart)
        for name in module.__all__
    )
    assert set(import_module("retrograd.library.elementary").__all__) <= set(listed)


def test_every_page_can_be_written(site: ModuleType) -> None:
    pages = site.pages(LISTED)
    assert len({page.file for page in pages}) == len(pages) > 8
    for page in pages:
        text = site.page_text(page)
        assert text.count("\n::::::{py:") == sum(len([*site.names_of(section)]) for section in page.sections), (
            page.title
        )
        assert text.count("\n::::::\n") == text.count("\n::::::{py:"), page.title


def test_docstrings_become_markdown(site: ModuleType) -> None:
    text = "y *= a_b <c>, `x*y`\n\n    z = 1\n\n      w\n\n- item\n\n>>> f(1)\n2\n\nend"
    shown = list(site.markdown(text))
    assert shown == [
        "y \\*= a\\_b \\<c\\>, `x*y`", "", "```text", "z = 1", "", "  w", "```", "", "- item", "",
        "```python", ">>> f(1)", "2", "```", "", "end",
    ]  # fmt: skip


def test_signatures(site: ModuleType) -> None:
    signature = site.signature
    assert signature(retrograd.sqrt) == "(...)"
    assert signature(retrograd.encode).startswith("(")
    assert "'" not in signature(retrograd.grad)
    assert "object at 0x" not in signature(retrograd.assemble)


def test_links_to_folders_name_a_file(site: ModuleType) -> None:
    text = "## A [title](x.py)\n[hdl](../hdl) `[hdl](../hdl)` [page](language.md#x) [web](https://x.org/hdl)\n```\n[hdl](../hdl)\n```\n"
    assert site._files_for_folders(text, ROOT / "docs" / "page.md") == text.replace("[title](x.py)", "title").replace(
        "[hdl](../hdl) `", "[hdl](../hdl/__init__.py) `"
    )


def test_every_page_is_in_a_table_of_contents() -> None:
    index = (ROOT / "docs" / "index.md").read_text("utf-8")
    entries = {line for block in re.findall(r"```\{toctree\}(.*?)```", index, re.DOTALL) for line in block.split()}
    pages = (ROOT / "docs").rglob("*.md")
    names = {page.relative_to(ROOT / "docs").with_suffix("").as_posix() for page in pages} - {"index"}
    assert names <= entries


#: hosts that pages link to: a new one is added here once its link has been opened
HOSTS = {
    "amaranth-lang.org", "anywidget.dev", "distributed.dask.org", "docs.oasis-open.org", "github.com", "hypothesis.readthedocs.io",
    "microsoft.github.io", "radiona.org", "semver.org",
}  # fmt: skip


def test_external_links() -> None:
    """By their form, without a network: https, a known host, and no host that no page links to."""
    pages = [*ROOT.glob("*.md"), *(p for folder in ("docs", "examples") for p in (ROOT / folder).rglob("*.md"))]
    links = [link for page in pages for link in re.findall(r"\]\((\w+://[^)\s]*)", page.read_text("utf-8"))]
    assert {link.partition("://")[0] for link in links} == {"https"}
    assert {link.split("/")[2] for link in links} == HOSTS


@pytest.mark.long
@pytest.mark.skipif(find_spec("furo") is None, reason="needs the extra docs")
def test_a_broken_link_is_an_error(site: ModuleType, tmp_path: Path) -> None:
    """Sphinx on a small site with one wrong link, with the settings and options of `make site`."""
    source = tmp_path / "source"
    (source / "docs").mkdir(parents=True)
    for text, code in (("[good](#title)", 0), ("[bad](nowhere.md)", 1), ("[bad](#nowhere)", 1)):
        (source / "docs" / "index.md").write_text(f"# Title\n\n{text}\n")
        done = subprocess.run(
            site.sphinx_command(source, tmp_path / "html"), capture_output=True, text=True, check=False
        )
        assert done.returncode == code, done.stderr
