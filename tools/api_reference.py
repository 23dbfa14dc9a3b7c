"""The API reference of the site: signatures and docstrings of all public names, with the examples of docs/api.md.

docs/api.md lists the names under headings: `## Title` is a page of the site, and below it
`### ``grad``, ``vjp```, in single backquotes, is followed by the example of these names. The signatures, docstrings, methods and
fields are read from the package, so the page on the site has both. The name of a module of `retrograd.library` stands for all its
public functions. tests/tools/test_site.py checks that each public name has a heading.
"""

from __future__ import annotations

import enum
import importlib
import inspect
import re
from collections.abc import Iterator
from types import ModuleType
from typing import Any, NamedTuple

_DOCTEST = re.compile(r">>> ")
_HEADING = re.compile(r"^### (`.*`)$", re.MULTILINE)
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
        pieces = _HEADING.split(rest)
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
