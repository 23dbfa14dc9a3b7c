"""Compiled code on disk: made once, found again, and never trusted. Whatever is wrong with it costs time only."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import retrograd.isa
from retrograd.simulator.engines import handlers, host, translations
from retrograd.simulator.engines.host import Host, cache_folder, definition
from retrograd.simulator.engines.native import NativeMachine

import retrograd as rg


class Process:
    """A compiler that has nothing but what is on disk, and counts how often it is asked to write code."""

    def __init__(self) -> None:
        self.host = Host()
        self.emitted = 0

    def load(self, number: int = 42, key: str = "number", level: int = 2) -> int:
        """What a function returns that was to return the number."""

        def emit() -> str:
            self.emitted += 1
            return f"define i64 @answer() {{\n  ret i64 {number}\n}}\n"

        address = self.host.load(key, ("answer",), emit, level)["answer"]
        return int(ctypes.CFUNCTYPE(ctypes.c_int64)(address)())


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache with one file."""
    found = tmp_path / "deep" / "cache"
    monkeypatch.setenv("RETROGRAD_CACHE", str(found))
    assert Process().load() == 42
    assert len(list(found.iterdir())) == 1
    return found


def only_file(folder: Path) -> Path:
    (found,) = folder.iterdir()
    return found


# ---------------------------------------------------------------- found again


def test_code_is_compiled_once(folder: Path) -> None:
    one = Process()
    assert one.host.has("number")
    # What another would write is not asked for: the key says what it is.
    assert (one.load(1), one.load(2), one.emitted) == (42, 42, 0)
    assert len(list(folder.iterdir())) == 1


@pytest.mark.parametrize("other", ["key", "level", "compiler"])
def test_other_code_is_other_code(folder: Path, other: str) -> None:
    one = Process()
    if other == "compiler":
        # Of another processor, or another LLVM.
        one.host._digest = "another"
    key, level = ("another" if other == "key" else "number"), 1 if other == "level" else 2
    assert not one.host.has(key, level)
    assert (one.load(43, key, level), one.emitted) == (43, 1)
    assert one.host.has(key, level)
    assert len(list(folder.iterdir())) == 2


def test_processes_at_once(folder: Path) -> None:
    """All write the same file, and each finds it whole or not at all."""
    for file in folder.iterdir():
        file.unlink()
    found: list[int] = []
    processes = [Process() for _ in range(4)]
    threads = [threading.Thread(target=lambda p=p: found.append(p.load())) for p in processes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [42] * 4
    only_file(folder)


# ---------------------------------------------------------------- damaged


def damages() -> Iterator[tuple[str, Any]]:
    for length in (0, 3, 7, 20, 39, 40, -1):
        yield f"cut at {length}", lambda content, n=length: content[:n]
    for at in (0, 6, 7, 38, 39, 100, -1):
        yield f"bit in byte {at}", lambda content, k=at: content[:k] + bytes([content[k] ^ 4]) + content[k:][1:]
    yield "longer", lambda content: content + b"\0"
    yield "empty code", lambda content: content[:7] + bytes(32)
    yield "text", lambda content: b"no object code"


@pytest.mark.parametrize("damage", [d[1] for d in damages()], ids=[d[0] for d in damages()])
def test_a_damaged_file_is_written_anew(folder: Path, damage: Any) -> None:
    file = only_file(folder)
    whole = file.read_bytes()
    file.write_bytes(damage(whole))
    one = Process()
    assert (one.load(), one.emitted) == (42, 1)
    assert only_file(folder).read_bytes() == whole
    other = Process()
    assert (other.load(), other.emitted) == (42, 0)


def test_a_folder_in_place_of_a_file(folder: Path) -> None:
    file = only_file(folder)
    file.unlink()
    file.mkdir()
    one = Process()
    assert (one.load(), one.emitted) == (42, 1)


# ---------------------------------------------------------------- not to be had


@pytest.mark.parametrize("obstacle", ["a file", "below a file", "read-only", "full"])
def test_a_cache_that_cannot_be_written(obstacle: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "cache"
    match obstacle:
        case "a file":
            place.write_text("taken")
        case "below a file":
            (tmp_path / "file").write_text("taken")
            place = tmp_path / "file" / "cache"
        case "read-only":
            place.mkdir(mode=0o500)
            if os.access(place, os.W_OK):
                # For whom nothing is read-only, say so in the system's stead.
                monkeypatch.setattr(host.tempfile, "mkstemp", refuse)
        case "full":
            monkeypatch.setattr(host.os, "replace", refuse)
    monkeypatch.setenv("RETROGRAD_CACHE", str(place))
    for _ in range(2):
        one = Process()
        assert (one.load(), one.load(), one.emitted) == (42, 42, 1)
    if place.is_dir():
        # Nothing half done is left behind.
        assert list(place.iterdir()) == []


def test_the_cache_does_not_grow_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RETROGRAD_CACHE", str(tmp_path))
    monkeypatch.setattr(host, "CACHE_BYTES", 2500)
    for name, read, written in (("new", 40, 40), ("lately read", 30, 1), ("old", 20, 20), ("older", 10, 10)):
        (tmp_path / name).write_bytes(bytes(1000))
        os.utime(tmp_path / name, (read, written))
    (tmp_path / "folder").mkdir()
    one = Process()
    one.load(1, "one")
    assert {f.name for f in tmp_path.iterdir()} > {"new", "folder"}
    assert not (tmp_path / "old").exists()
    assert not (tmp_path / "older").exists()
    # Once in a process: to look costs time, too.
    (tmp_path / "more").write_bytes(bytes(5000))
    one.load(2, "two")
    assert (tmp_path / "more").exists()


def refuse(*arguments: Any, **options: Any) -> Any:
    raise OSError("no")


def test_no_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RETROGRAD_CACHE", "")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for _ in range(2):
        one = Process()
        assert (one.load(), one.emitted) == (42, 1)
    assert list(tmp_path.iterdir()) == []
    assert cache_folder() is None


@pytest.mark.parametrize(
    ("platform", "environment", "expected"),
    [
        ("linux", {"RETROGRAD_CACHE": "/named"}, "/named"),
        ("linux", {"XDG_CACHE_HOME": "/xdg"}, "/xdg/retrograd"),
        ("linux", {"HOME": "/home/me"}, "/home/me/.cache/retrograd"),
        ("darwin", {"HOME": "/Users/me"}, "/Users/me/Library/Caches/retrograd"),
        ("win32", {"LOCALAPPDATA": "/local"}, "/local/retrograd"),
        ("win32", {}, None),
    ],
)
def test_where_it_lies(
    platform: str, environment: dict[str, str], expected: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("RETROGRAD_CACHE", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(host.sys, "platform", platform)
    assert cache_folder() == (None if expected is None else Path(expected))


# ---------------------------------------------------------------- engines


PROGRAM = """
        start
        add r2, 50
top:    from.ne r1, r0, bottom
        add r1, 1
        mul.xor r3, r1, r2
bottom: goto.ne r1, r2, top
        finish
"""
#: compilers whose code may still be called
_alive: list[Host] = []


@pytest.fixture
def forget(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """As in a process that has compiled nothing yet."""
    caches = (handlers.entry, handlers._handlers, translations._translation_of, host._host)

    def forget() -> None:
        _alive.append(host.host())
        for cache in caches:
            cache.cache_clear()
        translations._loaded.clear()

    yield forget
    forget()


@pytest.mark.parametrize("tier", ["threaded", "translated"])
@pytest.mark.parametrize("damage", ["cut", "flipped", "unwritable", "off"])
def test_machines_with_a_damaged_cache(
    lockstep: Any, tier: str, damage: str, forget: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = partial(NativeMachine, tier=tier, level=0)
    monkeypatch.setenv("RETROGRAD_CACHE", str(tmp_path / "cache"))
    forget()
    both = lockstep(make, rg.assemble(PROGRAM))
    both.run()
    both.turn()
    both.run()
    files = list((tmp_path / "cache").iterdir())
    assert len(files) > 1
    for k, file in enumerate(files):
        content = file.read_bytes()
        match damage:
            case "cut":
                file.write_bytes(content[: len(content) * k // len(files)])
            case "flipped":
                at = len(content) * k // len(files)
                file.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
    if damage == "unwritable":
        monkeypatch.setenv("RETROGRAD_CACHE", str(files[0] / "cache"))
    if damage == "off":
        monkeypatch.setenv("RETROGRAD_CACHE", "")
    forget()
    both = lockstep(make, rg.assemble(PROGRAM))
    both.run()
    both.turn()
    both.run()
    assert both.tested.engine == tier


def test_code_belongs_to_the_sources_it_was_made_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A byte changed in the definition, and nothing compiled before is used."""
    before = definition.__wrapped__()
    assert before == definition()
    for package in ("isa", "simulator"):
        (source,) = set(getattr(retrograd, package).__path__)
        copy = tmp_path / package
        copy.mkdir()
        for file in Path(source).rglob("*.py"):
            to = copy / file.relative_to(source)
            to.parent.mkdir(parents=True, exist_ok=True)
            to.write_bytes(file.read_bytes())
        with monkeypatch.context() as patch:
            patch.setattr(getattr(retrograd, package), "__path__", [str(copy)])
            assert definition.__wrapped__() == before
            changed = next(copy.rglob("words.py"))
            changed.write_text(changed.read_text() + "\n")
            assert definition.__wrapped__() != before
