"""Build the site: lay out Markdown and sources as in the repository, generate the API reference, run Sphinx.

    python tools/make_site.py [--out build/site/html] [--keep-warnings]

Every warning is an error: a link within the site that leads nowhere, a page in no table of contents, a block that cannot be
highlighted. The layout in build/site/source is that of the repository, so that relative links are the same there and on a code host.
Links to source files become downloads of these files. The notebooks are executed, and their outputs must be those of the pages. Needs `pip install 'retrograd[docs]'`.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path

import api_reference
import make_notebooks

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "site"
#: pages and the pictures that they show
DOCUMENTS = ("docs", "examples", "editors")
TOP = (
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "SECURITY.md",
    "CITATION.cff",
    "LICENSE",
    "pyproject.toml",
    "Makefile",
)
#: sources that pages link to
SOURCES = ("isa", "assembler", "simulator", "compiler", "hdl", "src", "benchmarks", "tests", "tools", ".ci")
_LINK = re.compile(r"(```.*?^```|`[^`\n]*`)|\]\(([^)\s:#]+)(#[^)\s]*)?\)", re.MULTILINE | re.DOTALL)
_API = "## "


def lay_out(source: Path) -> None:
    """Fill a folder with the pages and links to all else."""
    shutil.rmtree(source, ignore_errors=True)
    source.mkdir(parents=True)
    for name in (*TOP, *SOURCES):
        if (ROOT / name).exists():
            (source / name).symlink_to(ROOT / name)
    for folder in DOCUMENTS:
        shutil.copytree(
            ROOT / folder, source / folder, ignore=shutil.ignore_patterns("__pycache__", "site", "node_modules")
        )
    pages = [*source.glob("*.md"), *(page for folder in DOCUMENTS for page in (source / folder).rglob("*.md"))]
    for page in pages:
        text = page.read_text("utf-8")
        if page.is_symlink():
            page.unlink()
        page.write_text(_files_for_folders(text, ROOT / page.relative_to(source)), "utf-8")
    _lay_out_api(source)


def _files_for_folders(text: str, page: Path) -> str:
    """The text with links to folders replaced by links to a file that describes the folder, and without links in headings."""

    def link(found: re.Match[str]) -> str:
        if found[1] is not None or not (page.parent / found[2]).is_dir():
            return found[0]
        folder = page.parent / found[2]
        names = [name for name in ("__init__.py", "package.json") if (folder / name).exists()]
        name = names[0] if names else min(path.name for path in folder.iterdir() if path.is_file())
        return f"]({found[2].rstrip('/')}/{name})"

    # Sphinx takes no downloads into a table of contents.
    text = re.sub(r"^(#+ .*?)\[([^\]]*)\]\([^)]*\)", r"\1\2", text, flags=re.MULTILINE)
    return _LINK.sub(link, text)


def _lay_out_api(source: Path) -> None:
    """Write the pages of the API reference, and the list of them in place of docs/api.md."""
    listed = source / "docs" / "api.md"
    text = listed.read_text("utf-8")
    pages = api_reference.pages(text)
    (source / "api").mkdir()
    for page in pages:
        # docs/api.md links to the pages beside it.
        beside = re.sub(r"\]\((?=[\w/-]+\.md)", "](../docs/", api_reference.page_text(page))
        (source / "api" / f"{page.file}.md").write_text(beside, "utf-8")
    entries = "\n".join(f"../api/{page.file}" for page in pages)
    listed.write_text(f"{text.split(_API)[0]}\n```{{toctree}}\n:maxdepth: 2\n\n{entries}\n```\n", "utf-8")


def sphinx_command(source: Path, out: Path, *, strict: bool = True) -> list[str]:
    """The command that builds a layout; `strict`: warnings are errors."""
    settings = ["-b", "html", "-q", "-c", str(ROOT / "docs" / "site"), "-d", str(source.parent / "doctrees")]
    settings += ["-W", "--keep-going"] if strict else []
    return [sys.executable, "-m", "sphinx", *settings, str(source), str(out)]


def main() -> int:
    """Build; the exit code is that of Sphinx."""
    p = argparse.ArgumentParser(description="Build the site.")
    p.add_argument("--out", type=Path, default=BUILD / "html")
    p.add_argument("--keep-warnings", action="store_true", help="list all warnings, and do not fail")
    options = p.parse_args()
    lay_out(BUILD / "source")
    if wrong := make_notebooks.write_executed(BUILD / "source" / "docs" / "notebooks", BUILD / "source"):
        print("another output than the page's:", *wrong, sep="\n", file=sys.stderr)
        return 1
    command = sphinx_command(BUILD / "source", options.out, strict=not options.keep_warnings)
    code = subprocess.run(command, check=False).returncode
    if code == 0:
        print(f"{options.out}/index.html")
    return code


if __name__ == "__main__":
    sys.exit(main())
