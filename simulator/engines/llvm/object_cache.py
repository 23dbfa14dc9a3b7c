"""Cache of object code on disk, by keys.

    read(key) == code after write(key, code), in this process and in later ones; None where no sound file is found

A file holds a magic number, a checksum and the code. The checksum covers the key, so a file that was renamed is not taken for
another. Files appear whole or not at all. A file that is damaged, or that cannot be written, costs time only.

The folder may hold files of other programs. Only files whose name is a digest, and which begin with the magic number, are counted
and removed. The contents are executed. So a folder in which another user can write is not used, nor is a file of another user, which may
have been put into the folder while others could write there.
"""

from __future__ import annotations

import os
import re
import stat
import sys
import time
import warnings
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path

from retrograd.isa.files import distrust, read_own, write_own

_FAMILY = b"RGOBJ"
_MAGIC = _FAMILY + b"2\n"
_CHECKSUM = 32
#: the names of files of code, and of files that are still being written
_NAME = re.compile(r"[0-9a-f]{64}")
_UNFINISHED = re.compile(r"[0-9a-f]{64}\.\w{8}\.part")

#: the size of compiled code on disk above which old files are removed
CACHE_BYTES = 256 << 20
#: seconds after which an unfinished file is taken to be left behind by a process that ended
ABANDONED = 3600.0


def cache_folder() -> Path | None:
    """The folder of object code; None where the cache is switched off (`RETROGRAD_CACHE` is empty) or there is no home."""
    named = os.environ.get("RETROGRAD_CACHE")
    if named is not None:
        return Path(named) if named else None
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA", "")
    elif sys.platform == "darwin":
        base = os.path.expanduser("~/Library/Caches")
    else:
        base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(base, "retrograd") if base and not base.startswith("~") else None


def trusted_folder(make: bool = False) -> Path | None:
    """The folder, if it is there and only this user can write in it; `make`: create it where it is missing."""
    folder = cache_folder()
    if folder is None:
        return None
    try:
        if make:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        about = folder.stat()
    except (OSError, ValueError):
        return None
    why = distrust(about)
    if why:
        _note(folder, why)
        return None
    return folder


def has(key: str) -> bool:
    """Whether there is a file of code for the key."""
    folder = trusted_folder()
    if folder is None:
        return False
    try:
        about = os.lstat(folder / _digest(key))
    except OSError:
        return False
    return stat.S_ISREG(about.st_mode) and not distrust(about)


def read(key: str) -> bytes | None:
    """The code that was kept for the key, if it is there, sound, and this user's own."""
    folder = trusted_folder()
    if folder is None:
        return None
    content, why = read_own(folder / _digest(key))
    if content is None:
        if why:
            _note_file(folder, why)
        return None
    begin = len(_MAGIC) + _CHECKSUM
    code = content[begin:]
    return code if content[:begin] == _head(key, code) else None


def write(key: str, code: bytes) -> None:
    """Keep the code for the key, where the folder allows that."""
    folder = trusted_folder(make=True)
    if folder is not None and write_own(folder / _digest(key), _head(key, code) + code):
        _prune(folder)


def _digest(key: str) -> str:
    return sha256(key.encode()).hexdigest()


def _head(key: str, code: bytes) -> bytes:
    return _MAGIC + sha256(key.encode() + b"\0" + code).digest()


@cache
def _note(folder: Path, why: str) -> None:
    """Once in a process."""
    way = "RETROGRAD_CACHE names another folder."
    if "write" in why:
        way = f"Delete its contents, which others may have made, and then take the right away (chmod go-w). {way}"
    message = f"compiled code is neither kept in nor read from {folder}: {why}. {way}"
    warnings.warn(message, RuntimeWarning, stacklevel=2)


@cache
def _note_file(folder: Path, why: str) -> None:
    """Once in a process."""
    message = f"a file of compiled code in {folder} was not executed: {why}. Delete the contents of the folder."
    warnings.warn(message, RuntimeWarning, stacklevel=2)


@cache
def _prune(folder: Path) -> None:
    """Once in a process: remove the least recently used files above CACHE_BYTES.

    Code of earlier versions of this package is never read again, so it goes first.
    """
    found = []
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with suppress(OSError):  # another process may have removed it
                about = entry.stat(follow_symlinks=False)
                if _has_our_name(entry.name, about):
                    found.append((max(about.st_atime, about.st_mtime), about.st_size, entry.path))
    size = sum(size for _, size, _ in found)
    for _, bytes_, path in sorted(found):
        if size <= CACHE_BYTES:
            break
        with suppress(OSError):
            # Read only now: reading a file makes it recently used.
            with open(path, "rb") as file:
                ours = file.read(len(_FAMILY)) == _FAMILY
            if ours:
                os.unlink(path)
        size -= bytes_


def _has_our_name(name: str, about: os.stat_result) -> bool:
    """Whether the file has a name of this cache, and no process is still writing it."""
    if not stat.S_ISREG(about.st_mode):
        return False
    if _UNFINISHED.fullmatch(name):
        return time.time() - about.st_mtime > ABANDONED
    return _NAME.fullmatch(name) is not None
