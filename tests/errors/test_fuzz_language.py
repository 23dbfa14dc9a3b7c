"""Working programs made wrong at random: whatever comes of it, it comes as a diagnostic, and what is accepted runs backward.

Each program of working/ defines `f`, and `ARGUMENTS` that it works with. Words of its text are deleted, doubled, exchanged,
or replaced by others; then `f` is called forward and backward with right and with wrong arguments. Python may refuse
the text, since it comes first; what Retrograd says after that is a RetrogradError.
"""

from __future__ import annotations

import io
import linecache
import random
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from retrograd.isa.diagnostics import RetrogradError

from retrograd.runtime._binding import types_of
from retrograd.runtime._execution import Result
from retrograd.runtime._marshal import to_words
from retrograd.runtime._reversible import Reversible, run

WORKING = sorted((Path(__file__).resolve().parent / "working").glob("*.py"))
STEPS = 5000

OPERATORS = ["+", "-", "*", "/", "//", "%", "**", "&", "|", "^", "<<", ">>", "@", "<", ">=", "==", "and", "or", "not"]
UPDATES = ["+=", "-=", "*=", "/=", "^=", "//=", "=", "|="]
VALUES = [
    "0",
    "1",
    "-1",
    "2",
    "3",
    "0.5",
    "True",
    "None",
    "'x'",
    "10**12",
    "1e300",
    "x",
    "y",
    "i",
    "n",
    "t",
    "a",
    "f",
    "rg",
    "...",
]
WRONG: list[Any] = [
    0, 1, -1, 7, 2**70, 0.0, 0.5, -2.0, 1e300, float("nan"), float("inf"), True, None, "x", 1j, [], [1.0, 2.0],
    [[1.0], [2.0, 3.0]], np.zeros((2, 2)), np.array([1, 2, 3]), np.array([None, 1.0]), np.float32(0.5), {}, len,
]  # fmt: skip


def words_of(text: str) -> list[str]:
    """The text in pieces that can be exchanged: joined, they are the text."""
    pieces: list[str] = []
    lines = text.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    at = 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in (tokenize.INDENT, tokenize.DEDENT, tokenize.NEWLINE, tokenize.NL, tokenize.ENDMARKER):
            continue
        begin, end = (starts[row - 1] + column for row, column in (token.start, token.end))
        pieces += [text[at:begin], text[begin:end]]
        at = end
    return [*pieces, text[at:]]


def changed_words(text: str, chance: random.Random) -> str:
    """The text with one of its words changed, mostly into one of its kind."""
    pieces = words_of(text)
    places = [i for i in range(pieces.index("def"), len(pieces)) if pieces[i].strip()]
    i, j = chance.choice(places), chance.choice(places)
    word = pieces[i]
    like = [k for k in places if pieces[k].isidentifier() is word.isidentifier()]
    match chance.randrange(8):
        case 0:
            pieces[i] = ""
        case 1:
            pieces[i] = f"{word} {word}"
        case 2:
            pieces[i], pieces[j] = pieces[j], word
        case 3 | 4 if word in OPERATORS:
            pieces[i] = chance.choice(OPERATORS)
        case 3 | 4 if word in UPDATES:
            pieces[i] = chance.choice(UPDATES)
        case 3 | 4 | 5 if word.isidentifier():
            k = chance.choice(like)
            pieces[i], pieces[k] = pieces[k], word if chance.randrange(2) else pieces[k]
        case _:
            pieces[i] = chance.choice(VALUES)
    return "".join(pieces)


def changed_lines(text: str, chance: random.Random) -> str:
    """The text with one of its lines deleted, doubled, indented otherwise or exchanged with another."""
    lines = text.splitlines(keepends=True)
    first = next(i for i, line in enumerate(lines) if "def " in line)
    i, j = chance.randrange(first, len(lines)), chance.randrange(first, len(lines))
    match chance.randrange(4):
        case 0:
            del lines[i]
        case 1:
            lines.insert(j, lines[i])
        case 2:
            lines[i] = f"    {lines[i]}" if chance.randrange(2) else lines[i].removeprefix("    ")
        case _:
            lines[i], lines[j] = lines[j], lines[i]
    return "".join(lines)


def mutated(text: str, chance: random.Random) -> str:
    """The text changed in one to three places, such that Python still reads it."""
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        change = chance.choice((changed_words, changed_words, changed_lines))
        for _ in range(20):
            candidate = change(text, chance)
            try:
                compile(candidate, "", "exec")
            except (SyntaxError, SyntaxWarning, ValueError):
                continue
            text = candidate
            break
    return text


def defined(text: str, name: str) -> dict[str, Any] | None:
    """What a text defines, or None where Python refuses it. The text stays at hand under a file name."""
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    module = sys.modules["working"] = ModuleType("working")
    space = vars(module)
    try:
        exec(compile(text, name, "exec"), space)
    except Exception:
        return None
    return space


def attempt(f: Reversible, arguments: list[Any], backward: bool) -> Result | None:
    """The run, or None where it was refused or trapped. Any other exception is a failure."""
    try:
        return run(f, *arguments, backward=backward, max_steps=STEPS)
    except RetrogradError as error:
        str(error)  # which must not fail either
        return None


def check(text: str, arguments: list[tuple[Any, ...]], chance: random.Random, name: str) -> None:
    space = defined(text, name)
    f = None if space is None else space.get("f")
    if not isinstance(f, Reversible):
        return
    given = list(chance.choice(arguments))
    if chance.randrange(3) == 0:
        given[chance.randrange(len(given))] = chance.choice(WRONG)
    forward = attempt(f, given, False)
    attempt(f, given, True)
    if forward is not None and forward.erased_bits == 0:
        back = run(f, *forward.values, backward=True, max_steps=STEPS * 2)
        types = types_of(f, given)
        for t, p, before, after in zip(types, f.parameters, given, back.values, strict=True):
            w = forward.compiled.format
            assert to_words(t, before, w, p.name) == to_words(t, after, w, p.name), p.name


def samples(path: Path, seed: int, count: int) -> Iterator[tuple[str, random.Random, str]]:
    text = path.read_text(encoding="utf-8")
    for k in range(count):
        chance = random.Random(f"{path.stem} {seed} {k}")
        yield mutated(text, chance), chance, f"<{path.stem} {seed} {k}>"


def fuzz(path: Path, seed: int, count: int) -> None:
    space = defined(path.read_text(encoding="utf-8"), f"<{path.stem}>")
    assert space is not None
    for text, chance, name in samples(path, seed, count):
        try:
            check(text, space["ARGUMENTS"], chance, name)
        except Exception as error:
            raise AssertionError(f"{name}: {type(error).__name__}: {error}\n{text}") from error


@pytest.mark.parametrize("path", WORKING, ids=lambda p: p.stem)
def test_working_programs_work(path: Path) -> None:
    space = defined(path.read_text(encoding="utf-8"), f"<{path.stem}>")
    assert space is not None
    for arguments in space["ARGUMENTS"]:
        forward = run(space["f"], *arguments)
        back = run(space["f"], *forward.values, backward=True)
        for t, before, after in zip(types_of(space["f"], arguments), arguments, back.values, strict=True):
            w = forward.compiled.format
            assert to_words(t, before, w, "") == to_words(t, after, w, "")


@pytest.mark.parametrize("path", WORKING, ids=lambda p: p.stem)
def test_wrong_programs_are_told_of(path: Path) -> None:
    fuzz(path, 0, 20)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1, 41))
@pytest.mark.parametrize("path", WORKING, ids=lambda p: p.stem)
def test_many_wrong_programs_are_told_of(path: Path, seed: int) -> None:
    fuzz(path, seed, 50)
