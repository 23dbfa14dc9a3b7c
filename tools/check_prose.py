"""List the worst habits of prose in docstrings, comments and Markdown, and let their number only fall.

    python tools/check_prose.py            count every folder, and compare with tools/prose_counts.json
    python tools/check_prose.py FILES      list the places in some files, with the rule that each breaks
    python tools/check_prose.py --update   lower the recorded counts to those of today

The rules are regular expressions, so a match is a hint and not a proof: a sentence that needs the word may keep it. Text
in code fences, between backquotes and in questions is not read. A folder that is not recorded is allowed no match;
`--update` records folders that moved, but refuses when the total has grown.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from retrograd.isa.files import write_file

ROOT = Path(__file__).resolve().parent.parent
COUNTS = ROOT / "tools" / "prose_counts.json"
FOLDERS = [
    "assembler",
    "benchmarks",
    "compiler",
    "docs",
    "examples",
    "hdl",
    "isa",
    "simulator",
    "src",
    "tests",
    "tools",
]

#: rule -> (what is matched, what to write instead)
RULES = {
    "speaks": (r"\b(?:tell|tells|told|telling|says|said|asks|wants|owes|knows|remembers?|forgets|hears)\b", "data does not speak: give, report, state, need, hold"),
    "nobody": (r"\b(?:whoever|whatever|nobody|somebody|everybody|those\s+(?:who|that|which))\b", "name the subject"),
    "what": (r"\bwhat\b", "`what` as a noun: name the thing"),
    "so many": (r"\bso\s+(?:many|much)\b(?!\s+(?:\w+\s+)?that\b)", "name the number: `n bytes`"),
    "one": (r"(?<!\bthe\s)(?<!\bonly\s)\bones?\s+(?:that|who|which|whose)\b|\bone's\b", "`one` as a noun: name the thing"),
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


def count() -> dict[str, int]:
    """The number of matches in each folder that has any."""
    found: Counter[str] = Counter()
    for path in sources():
        n = sum(1 for _ in places(path.read_text("utf-8", errors="replace"), path.suffix == ".md"))
        found[path.parent.relative_to(ROOT).as_posix()] += n
    return {folder: n for folder, n in sorted(found.items()) if n}


def compare(now: dict[str, int], allowed: dict[str, int]) -> list[str]:
    """A message for each folder with more matches than are recorded."""
    return [
        f"{folder}: {n} places break a rule of prose, {allowed.get(folder, 0)} are recorded; "
        f"list them by: python tools/check_prose.py {folder}/*.*"
        for folder, n in now.items()
        if n > allowed.get(folder, 0)
    ]


def main(arguments: list[str]) -> int:
    """List, count or record; returns the exit code."""
    for name in (name for name in arguments if name != "--update"):
        if name.endswith((".py", ".md")):
            for line, rule, word in places(Path(name).read_text("utf-8", errors="replace"), name.endswith(".md")):
                print(f"{name}:{line}: {' '.join(word.split())} ({rule}): {RULES[rule][1]}")
    if arguments and arguments != ["--update"]:
        return 0
    now = count()
    allowed: dict[str, int] = json.loads(COUNTS.read_text("utf-8"))
    if arguments:
        if sum(now.values()) > sum(allowed.values()):
            print(
                f"{sum(now.values())} places break a rule, {sum(allowed.values())} are recorded: mend some",
                file=sys.stderr,
            )
            return 1
        write_file(COUNTS, json.dumps(now, indent=1) + "\n")
        return 0
    wrong = compare(now, allowed)
    for message in wrong:
        print(message, file=sys.stderr)
    if not wrong and sum(now.values()) < sum(allowed.values()):
        print(f"{sum(now.values())} places, {sum(allowed.values())} recorded; record the lower number by --update")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
