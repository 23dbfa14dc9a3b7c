"""Build the site: lay out Markdown and sources as in the repository, generate the API reference, run Sphinx.

    python tools/make_site.py [--out build/site/html] [--keep-warnings]

Every warning is an error: a link within the site that leads nowhere, a page in no table of contents, a block that cannot be
highlighted. The layout in build/site/source is that of the repository, so that relative links are the same there and on a code host.
Links to source files become downloads of these files. The notebooks are executed, and their outputs must be those of the pages. Needs `pip install 'retrograd[docs]'`.

docs/api.md lists the public names under headings: `## Title` is a page of the API reference, and below it
`### ``grad``, ``vjp```, in single backquotes, is followed by the example of these names. The signatures, docstrings, methods and
fields are read from the package, so the page on the site has both. The name of a module of `retrograd.library` stands for all its
public functions. tests/tools/test_site.py checks that each public name has a heading.
"""

from __future__ import annotations

import argparse
import enum
import importlib
import inspect
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

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


# -----------------------------------------------------------------------------
# The API reference: signatures and docstrings of all public names, with the examples of docs/api.md.

_DOCTEST = re.compile(r">>> ")
_NAMES = re.compile(r"^### (`.*`)$", re.MULTILINE)
#: characters that Markdown reads, outside of code
_MARKUP = re.compile(r"(`[^`\n]+`)|([\\*_\[\]<>~$#|])")


class Section(NamedTuple):
    """A heading of docs/api.md: dotted names as they are imported, and the text below."""

    names: tuple[str, ...]
    text: str


class Page(NamedTuple):
    title: str
    text: str
    sections: tuple[Section, ...]

    @property
    def file(self) -> str:
        """The name of the page on the site, without its suffix."""
        return re.sub(r"\W+", "-", self.title.lower()).strip("-")


def pages(text: str) -> list[Page]:
    """The pages that docs/api.md describes."""
    found = []
    for part in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        title, _, rest = part.partition("\n")
        pieces = _NAMES.split(rest)
        sections = [
            Section(tuple(re.findall(r"`([^`]+)`", heading)), below.strip())
            for heading, below in zip(pieces[1::2], pieces[2::2], strict=True)
        ]
        found.append(Page(title.strip(), pieces[0].strip(), tuple(sections)))
    return found


def resolved(name: str) -> Any:
    """The object or the module of a dotted name; a name without a module is one of `retrograd`."""
    module, _, own = name.rpartition(".")
    package = importlib.import_module(module or "retrograd")
    return getattr(package, own) if hasattr(package, own) else importlib.import_module(name)


def names_of(section: Section) -> Iterator[str]:
    """The names of a section, with the public names of a module in place of the module, as they are imported."""
    for name in section.names:
        if isinstance(resolved(name), ModuleType):
            yield from module_names(name)
        else:
            yield name


def module_names(module: str) -> list[str]:
    """The public names of a module: the names in its `__all__`, or the names that its package imports from it."""
    found = importlib.import_module(module)
    if hasattr(found, "__all__"):
        return [f"{module}.{name}" for name in found.__all__]
    package = module.rpartition(".")[0]
    public = importlib.import_module(package).__all__
    return [f"{package}.{name}" for name, o in vars(found).items() if name in public and o.__module__ == module]


def page_text(page: Page) -> str:
    """A page in MyST: for each name its directive, then the example; for a module the example, then its names."""
    out = [f"# {page.title}", page.text]
    for section in page.sections:
        modules = [name for name in section.names if isinstance(resolved(name), ModuleType)]
        directives = ["\n".join(_directive(name, resolved(name))) for name in names_of(section)]
        if modules:
            out += [f"## {modules[0]}", "\n".join(markdown(docstring(resolved(modules[0])))), section.text, *directives]
        else:
            out += [*directives, section.text]
    return "\n\n".join(part for part in out if part) + "\n"


# ---------------------------------------------------------------------- one name


def _directive(name: str, o: Any) -> Iterator[str]:
    module, _, own = name.rpartition(".")
    kind = (
        "exception"
        if isinstance(o, type) and issubclass(o, Exception)
        else "class"
        if isinstance(o, type)
        else "function"
    )
    if not callable(o) or isinstance(o, enum.Enum):
        kind = "data"
    yield f"::::::{{py:{kind}}} {own}{'' if kind == 'data' else signature(o)}"
    yield f":module: {module or 'retrograd'}"
    yield ""
    yield from markdown(docstring(o))
    if isinstance(o, type):
        yield from _members(o)
    yield "::::::"


def _members(cls: type) -> Iterator[str]:
    for name, member in vars(cls).items():
        if name.startswith("_"):
            continue
        of = member.__func__ if isinstance(member, classmethod | staticmethod) else member
        if isinstance(member, property):
            head, text = f"{{py:property}} {name}", inspect.getdoc(member.fget) or ""
        elif inspect.isfunction(of):
            head, text = (
                f"{{py:method}} {name}{signature(of, bound=not isinstance(member, staticmethod))}",
                inspect.getdoc(of) or "",
            )
        else:
            continue
        yield from ("", f":::::{head}", ":no-index-entry:", "", *markdown(text), ":::::")
    for name, annotation in getattr(cls, "__annotations__", {}).items():
        if not name.startswith("_"):
            kind = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))
            yield from ("", f":::::{{py:attribute}} {name}", f":type: {kind}", ":no-index-entry:", "", ":::::")


def docstring(o: Any) -> str:
    """The docstring of the object itself; of a class without one, none."""
    text = inspect.getdoc(o) or ""
    if not isinstance(o, type) and text == (inspect.getdoc(type(o)) or "") and not inspect.isroutine(o):
        return ""
    return text


def signature(o: Any, *, bound: bool = False) -> str:
    """The parameters of a call, without quotes around annotations; `(…)` where they say nothing."""
    try:
        found = inspect.signature(o)
    except (TypeError, ValueError):
        return ""
    parameters = list(found.parameters.values())[bound:]
    if [p.name for p in parameters] == ["_", "__"]:
        return "(...)"
    shown = found.replace(parameters=[p if _is_plain(p.default) else p.replace(default=Ellipsis) for p in parameters])
    return re.sub(r"'([^']*)'", r"\1", str(shown)).replace("retrograd.", "")


def _is_plain(default: object) -> bool:
    return (
        default is inspect.Parameter.empty or default is None or isinstance(default, bool | int | float | str | tuple)
    )


# ---------------------------------------------------------------------- docstrings


def markdown(text: str) -> Iterator[str]:
    """A docstring as Markdown: doctests and indented blocks are code, and other text has no markup but code and lists.

    >>> list(markdown("y = a*x\\n\\n    code"))
    ['y = a\\\\*x', '', '```text', 'code', '```']
    """
    lines = text.split("\n")
    at = 0
    while at < len(lines):
        line = lines[at]
        if _DOCTEST.match(line.lstrip()):
            end = _end(lines, at, lambda text: bool(text.strip()))
            yield from _block("python", lines[at:end])
        elif line.startswith("    ") and (at == 0 or not lines[at - 1].strip()):
            end = _end(lines, at, lambda text: text.startswith("    ") or not text.strip())
            yield from _block("text", lines[at:end])
        else:
            end = at + 1
            yield _MARKUP.sub(lambda m: m[1] or f"\\{m[2]}", line.strip())
        at = end


def _end(lines: list[str], at: int, belongs: Any) -> int:
    while at < len(lines) and belongs(lines[at]):
        at += 1
    while not lines[at - 1].strip():
        at -= 1
    return at


def _block(language: str, lines: list[str]) -> Iterator[str]:
    indent = min(len(line) - len(line.lstrip()) for line in lines if line.strip())
    yield from (f"```{language}", *(line[indent:] for line in lines), "```")


# -----------------------------------------------------------------------------
# The site.


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
    described = pages(text)
    (source / "api").mkdir()
    for page in described:
        # docs/api.md links to the pages beside it.
        beside = re.sub(r"\]\((?=[\w/-]+\.md)", "](../docs/", page_text(page))
        (source / "api" / f"{page.file}.md").write_text(beside, "utf-8")
    entries = "\n".join(f"../api/{page.file}" for page in described)
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
