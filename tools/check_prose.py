"""Find a few habits of prose that are always faults, in docstrings, comments and Markdown.

    python tools/check_prose.py            check the whole project except the tests
    python tools/check_prose.py FILES      check some files

The rules are few, since a regular expression cannot judge a sentence: a reader does that (see CONTRIBUTING.md). Each match is a fault. Text in
code fences, between backquotes and in questions is not read.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ["assembler", "benchmarks", "compiler", "docs", "examples", "hdl", "isa", "simulator", "src", "tools"]

#: rule -> (the words that are matched, the advice)
RULES = {
    "speaks": (r"\b(?:tell|tells|told|telling|asks|wants|owes|hears)\b", "data does not speak: give, report, state, need, hold"),
    "nobody": (r"\b(?:whoever|nobody|somebody|everybody|those\s+who)\b", "name the subject"),
    "so many": (r"\bso\s+(?:many|much)\b(?!\s+(?:\w+\s+)?that\b)", "name the number: `n bytes`"),
}  # fmt: skip
_RULES = re.compile("|".join(f"({pattern})" for pattern, _ in RULES.values()), re.IGNORECASE)

# Strings are matched whole, so that a quotation mark or a # inside them opens nothing.
_PYTHON = re.compile(
    r'(?P<prefix>^[ \t]*r?)?(?P<long>"""(?:[^\\]|\\.)*?"""|\'\'\'(?:[^\\]|\\.)*?\'\'\')'
    r'|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'|(?P<comment>#[^\n]*)',
    re.MULTILINE | re.DOTALL,
)
_CODE = re.compile(r"^(```|~~~).*?^\1|`[^`\n]*`|\]\([^)\s]*\)|^#+ [^\n]*|<!--.*?-->", re.MULTILINE | re.DOTALL)
_QUESTION = re.compile(r"[^.?!]*\?")


def passages(text: str, markdown: bool) -> Iterator[tuple[int, str]]:
    """Docstrings and comments of a Python source, or the whole Markdown text, each with its offset."""
    if markdown:
        yield 0, text
        return
    for found in _PYTHON.finditer(text):
        if found["comment"]:
            yield found.start(), found["comment"]
        elif found["long"] and found["prefix"] is not None:
            yield found.start(), found[0]


def places(text: str, markdown: bool) -> Iterator[tuple[int, str, str]]:
    """Line, rule and word of each match."""
    names = list(RULES)
    for offset, passage in passages(text, markdown):
        if not _RULES.search(passage):
            continue
        pattern = _CODE if markdown else re.compile(r"`[^`\n]*`")
        prose = pattern.sub(lambda found: re.sub(r"[^\n]", "_", found[0]), passage)
        for found in _RULES.finditer(prose):
            if not _QUESTION.match(prose, found.end()):
                yield text.count("\n", 0, offset + found.start()) + 1, names[found.lastindex - 1], found[0]  # type: ignore[operator]


def sources() -> Iterator[Path]:
    """Every Python and Markdown file of the project."""
    yield from ROOT.glob("*.md")
    for folder in FOLDERS:
        for here, folders, files in os.walk(ROOT / folder):
            folders[:] = [name for name in folders if not name.startswith((".", "__"))]
            yield from (Path(here, name) for name in files if name.endswith((".py", ".md")))


def main(arguments: list[str]) -> int:
    """List the faults; the exit code is 1 if there are any."""
    code = 0
    for path in [Path(name) for name in arguments] or sources():
        if path.suffix in (".py", ".md"):
            for line, rule, word in places(path.read_text("utf-8", errors="replace"), path.suffix == ".md"):
                print(f"{path}:{line}: {' '.join(word.split())} ({rule}): {RULES[rule][1]}", file=sys.stderr)
                code = 1
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
