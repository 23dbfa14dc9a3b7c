"""Compiled code on disk: made once, found again, and never trusted. Whatever is wrong with it costs time only."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import retrograd.isa
from retrograd.isa import files
from retrograd.simulator.engines import interpreter
from retrograd.simulator.engines.llvm import jit
from retrograd.simulator.engines.llvm import jit as code_cache
from retrograd.simulator.engines.llvm.jit import JitCompiler, cache_folder, package_digest, source_digest
from retrograd.simulator.engines.tiered_machine import TieredMachine
from retrograd.simulator.engines.translator import translate
from support.machines import Lockstep

import retrograd as rg


class Process:
    """A compiler that has nothing but what is on disk, and counts how often it is asked to write code."""

    def __init__(self) -> None:
        self.host = JitCompiler()
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


def test_threads_at_once(folder: Path) -> None:
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


def test_processes_at_once(tmp_path: Path) -> None:
    """Processes that write and read the same few files, one of them damaged again and again, read whole code or none."""
    script = """
import random, sys
from retrograd.simulator.engines.llvm import jit as code_cache
r, found = random.Random(int(sys.argv[1])), 0
for _ in range(200):
    key = f"key {r.randrange(3)}"
    if r.random() < 0.5:
        code_cache.write(key, key.encode() * 5000)
    code = code_cache.read(key)
    assert code in (None, key.encode() * 5000)
    found += code is not None
    if r.random() < 0.1:
        for file in code_cache.cache_folder().glob("*"):
            file.write_bytes(b"RGOBJ2 damaged")
            break
assert found
"""
    environment = {**os.environ, "RETROGRAD_CACHE": str(tmp_path)}
    running = [subprocess.Popen([sys.executable, "-c", script, str(k)], env=environment) for k in range(3)]
    assert [process.wait(60) for process in running] == [0, 0, 0]


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


def test_code_under_the_name_of_other_code(folder: Path) -> None:
    """The checksum covers the key: the code of one program does not run as another's."""
    one = Process()
    assert one.load(43, "another") == 43
    here, there = (folder / code_cache._digest(one.host._key(key, 2)) for key in ("number", "another"))
    here.write_bytes(there.read_bytes())
    other = Process()
    assert (other.load(), other.emitted) == (42, 1)


@pytest.mark.parametrize("code", [b"", b"garbage", b"\x7fELF" + bytes(300)], ids=["empty", "text", "header"])
def test_a_right_checksum_over_garbage(folder: Path, code: bytes) -> None:
    one = Process()
    code_cache.write(one.host._key("number", 2), code)
    assert (one.load(), one.emitted) == (42, 1)
    other = Process()
    assert (other.load(), other.emitted) == (42, 0)


def test_a_right_checksum_over_code_without_the_function(folder: Path) -> None:
    one = Process()
    code_cache.write(one.host._key("number", 2), one.host.compile("define i64 @other() {\n  ret i64 1\n}\n", 2))
    assert (one.load(), one.emitted) == (42, 1)


def test_kept_text_is_text(folder: Path) -> None:
    one = Process()
    code_cache.write(one.host._key("text", 0), b"\xff\xff")
    assert one.host.kept("text", lambda: "written anew") == "written anew"
    assert Process().host.kept("text", lambda: "never asked for") == "written anew"


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
                monkeypatch.setattr(files.tempfile, "mkstemp", refuse)
        case "full":
            monkeypatch.setattr(code_cache.os, "replace", refuse)
    monkeypatch.setenv("RETROGRAD_CACHE", str(place))
    for _ in range(2):
        one = Process()
        assert (one.load(), one.load(), one.emitted) == (42, 42, 1)
    if place.is_dir():
        # Nothing half done is left behind.
        assert list(place.iterdir()) == []


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="the system has no owners and modes")
@pytest.mark.parametrize("distrusted", ["group", "others", "owner"])
def test_a_folder_in_which_others_can_write(distrusted: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its code is not executed, nothing is written there, and a note says so once."""
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    if distrusted == "owner":
        me = os.getuid()
        monkeypatch.setattr(code_cache.os, "getuid", lambda: me + 1)
    else:
        folder.chmod(0o770 if distrusted == "group" else 0o702)
    code_cache._note.cache_clear()
    one = Process()
    with pytest.warns(RuntimeWarning, match="another user" if distrusted == "owner" else "other users"):
        assert not one.host.has("number")
    assert (one.load(), one.load(1, "another"), one.emitted) == (42, 1, 2)
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before
    monkeypatch.undo()
    code_cache._note.cache_clear()


def planted(folder: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sound code for the key, which returns another number, as another user would have left it."""
    one = Process()
    file = only_file(folder)
    code_cache.write(one.host._key("number", 2), one.host.compile("define i64 @answer() {\n  ret i64 43\n}\n", 2))
    match kind:
        case "owner":
            if os.getuid() == 0:
                os.chown(file, 65534, 65534)
            else:
                real, inode = os.fstat, file.stat().st_ino

                def fstat(descriptor: int) -> os.stat_result:
                    about = real(descriptor)
                    return os.stat_result((*about[:4], 65534, *about[5:])) if about.st_ino == inode else about

                monkeypatch.setattr(os, "fstat", fstat)
        case "group":
            file.chmod(0o660)
        case "others":
            file.chmod(0o602)
        case "link":
            elsewhere = folder.parent / "elsewhere"
            file.rename(elsewhere)
            file.symlink_to(elsewhere)
        case "pipe":
            file.unlink()
            os.mkfifo(file)


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="the system has no owners and modes")
@pytest.mark.parametrize("kind", ["owner", "group", "others", "link", "pipe"])
def test_a_file_that_another_user_has_planted(kind: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was put there while others could write in the folder, which they cannot any more: it is not executed, and replaced."""
    planted(folder, kind, monkeypatch)
    code_cache._note_file.cache_clear()
    one = Process()
    with warnings.catch_warnings(record=True) as noted:
        warnings.simplefilter("always")
        assert (one.load(), one.emitted) == (42, 1)
    reasons = {"owner": "another user", "group": "other users", "others": "other users"}
    assert [kind in reasons and reasons[kind] in str(w.message) for w in noted] == [True] * (kind in reasons)
    monkeypatch.undo()
    monkeypatch.setenv("RETROGRAD_CACHE", str(folder))
    assert only_file(folder).stat().st_uid == os.getuid()
    other = Process()
    assert other.host.has("number")
    assert (other.load(), other.emitted) == (42, 0)


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="the system has no owners and modes")
def test_the_advice_deletes_what_others_have_made(folder: Path) -> None:
    folder.chmod(0o777)
    code_cache._note.cache_clear()
    with pytest.warns(RuntimeWarning, match="Delete its contents.* and then .*chmod go-w"):
        assert not Process().host.has("number")


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="the system has no owners and modes")
def test_a_new_folder_is_for_its_user_alone(folder: Path) -> None:
    assert folder.stat().st_mode & 0o077 == 0


# ---------------------------------------------------------------- room


def test_the_cache_does_not_grow_for_ever(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files that were not used for the longest time go; to look costs time, so that is once in a process."""
    only_file(folder).unlink()
    monkeypatch.setattr(code_cache, "CACHE_BYTES", 2500)
    for name, read, written in (("new", 40, 40), ("lately read", 30, 1), ("old", 20, 20), ("older", 10, 10)):
        code_cache.write(name, bytes(1000))
        os.utime(folder / code_cache._digest(name), (read, written))
    old_family = folder / code_cache._digest("by an earlier version")
    old_family.write_bytes(b"RGOBJ1\n" + bytes(1000))
    abandoned = folder / f"{code_cache._digest('left behind')}.abcd_123.part"
    abandoned.write_bytes(b"RGOBJ2\n")
    for file in (old_family, abandoned):
        os.utime(file, (5, 5))
    unfinished = folder / f"{code_cache._digest('being written')}.abcd_123.part"
    unfinished.write_bytes(b"RGOBJ2\n")
    code_cache._prune.cache_clear()
    code_cache.write("newest", bytes(10))
    kept = {"new", "lately read", "newest"}
    assert {file.name for file in folder.iterdir()} == {*map(code_cache._digest, kept), unfinished.name}
    code_cache.write("more", bytes(5000))
    assert len(list(folder.iterdir())) == 5


def test_files_of_others_stay(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache that is full, in a folder with a user's own files of every kind."""
    monkeypatch.setattr(code_cache, "CACHE_BYTES", 0)
    ours = only_file(folder)
    digest = "0" * 64
    others = {
        "note.txt": b"a note",
        "large": bytes(1 << 20),
        digest: b"a file whose name happens to be a digest",
        f"{digest}.abcdefgh.part": b"",
        "RGOBJ2": b"RGOBJ2\n",
        digest[1:]: b"RGOBJ2\n",
        digest[1:] + "g": b"RGOBJ2\n",
        digest + "\n": b"RGOBJ2\n",
    }
    for name, content in others.items():
        (folder / name).write_bytes(content)
        os.utime(folder / name, (1, 1))
    (folder / ("1" * 64)).mkdir()
    target = tmp_path / "elsewhere"
    target.write_bytes(b"RGOBJ2\n")
    (folder / ("2" * 64)).symlink_to(target)
    code_cache._prune.cache_clear()
    Process().load(1, "one")
    assert not ours.exists()
    assert {name: (folder / name).read_bytes() for name in others} == others
    assert (folder / ("1" * 64)).is_dir()
    assert (folder / ("2" * 64)).is_symlink()
    assert target.exists()


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
    monkeypatch.setattr(code_cache.sys, "platform", platform)
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
_alive: list[JitCompiler] = []


@pytest.fixture
def forget(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """As in a process that has compiled nothing yet."""
    caches = (
        interpreter.entry,
        interpreter._handlers,
        interpreter._decoded,
        translate._translation_of,
        jit._jit_compiler,
    )

    def forget() -> None:
        _alive.append(jit.jit_compiler())
        for cache in caches:
            cache.cache_clear()
        translate._loaded.clear()
        interpreter._loaded.clear()

    yield forget
    forget()


@pytest.mark.parametrize("tier", ["threaded", "translated"])
@pytest.mark.parametrize("damage", ["cut", "flipped", "unwritable", "off"])
def test_machines_with_a_damaged_cache(
    tier: str, damage: str, forget: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = partial(TieredMachine, engine=tier, level=0)
    monkeypatch.setenv("RETROGRAD_CACHE", str(tmp_path / "cache"))
    forget()
    both = Lockstep(make, rg.assemble(PROGRAM))
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
    both = Lockstep(make, rg.assemble(PROGRAM))
    both.run()
    both.turn()
    both.run()
    assert both.tested.engine == tier


def test_code_belongs_to_the_sources_it_was_made_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A byte changed in the definition, and nothing compiled before is used."""
    before = package_digest.__wrapped__()
    assert source_digest().startswith(before)
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
            assert package_digest.__wrapped__() == before
            changed = min(copy.rglob("*.py"))
            changed.write_text(changed.read_text() + "\n")
            assert package_digest.__wrapped__() != before
