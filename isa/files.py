"""Files in and out: reads with a limit, and writes that replace a file as a whole.

    read_file(path)                  the bytes, refused if there are more than the limit (RG0514)
    write_file(path, data)           a temporary file in the same folder, then os.replace
    with replacing(path) as file:    the same for a library that writes into an open file
    with command(limits):            a file that is read in here may not be written in here (RG0513)
    read_own(path)                   the bytes of a file that is executed; None where another user may have written it
    write_own(path, data)            a file that `read_own` reads

Every output of the package goes through `replacing`, which `tests/cli/test_outputs.py` checks. Until the new file is whole, the old one is
left as it was: a full disk, a limit on file sizes or an exception removes the temporary file and nothing else.
Links are followed, so that a link stays a link; the mode of a file that is replaced is kept; other hard links keep the old contents.
Devices and pipes have no contents to lose, and are written directly.
"""

from __future__ import annotations

import errno
import io
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from retrograd.isa.diagnostics import Diagnostic, InputError, nearest

#: file systems that cannot flush a file to disk answer with one of these
_NO_FSYNC = frozenset({errno.EINVAL, errno.ENOTSUP})
_CHUNK = 1 << 20
#: entries of a folder that are compared with a name
_LISTED = 4096
_ANOTHER = "write to a file of another name"


@dataclass(frozen=True)
class Limits:
    """How many bytes one input file may have, and how many the arrays of one file may have once they are unpacked."""

    input: int = 256 << 20
    expanded: int = 1 << 30


#: (device, inode): a file, the same under all its names
Identity = tuple[int, int]


@dataclass
class _Command:
    limits: Limits
    inputs: dict[Identity, str] = field(default_factory=dict)
    outputs: set[Identity] = field(default_factory=set)
    #: paths that are yet to be written
    planned: set[str] = field(default_factory=set)


_current: ContextVar[_Command | None] = ContextVar("retrograd_files", default=None)


@contextmanager
def command(limits: Limits | None = None) -> Iterator[None]:
    """One command with limits of its own, whose outputs may not replace its inputs. Outside of it nothing is recorded."""
    token = _current.set(_Command(limits or Limits()))
    try:
        yield
    finally:
        _current.reset(token)


def limits() -> Limits:
    """The limits of the current command; the defaults outside of one."""
    found = _current.get()
    return Limits() if found is None else found.limits


def _identity(status: os.stat_result) -> Identity | None:
    """Of a regular file: pipes and devices may be read and written."""
    return (status.st_dev, status.st_ino) if stat.S_ISREG(status.st_mode) else None


def _refused(path: str, error: OSError | ValueError) -> InputError:
    reason = (error.strerror if isinstance(error, OSError) else None) or error
    return InputError(Diagnostic("RG0501", f"{path}: {reason}"))


def missing(path: str | Path) -> InputError:
    """The error for an input that is not there: its hint names the nearest file of the folder, or the folder that is missing too."""
    folder = Path(path).parent
    hint = None
    try:
        with os.scandir(folder) as entries:
            near = nearest(Path(path).name, (entry.name for entry in islice(entries, _LISTED)), 0.8)
        hint = near and near.replace("`", f"`{folder}/" if folder.name else "`", 1)
    except OSError:
        hint = f"there is no folder `{folder}`" if not folder.exists() else None
    return InputError(Diagnostic("RG0501", f"{path}: {os.strerror(errno.ENOENT)}", hint=hint))


# ---------------------------------------------------------------------- in


def record_input(path: str | Path | int, name: str | None = None) -> None:
    """Note a file, or a descriptor of this name, that the current command reads, so that no output replaces it."""
    found = _current.get()
    if found is not None:
        with suppress(OSError, ValueError):
            identity = _identity(os.stat(path))
            if identity is not None:
                found.inputs[identity] = str(path) if name is None else name


def is_input(path: str | Path) -> bool:
    """Whether the current command has read this file."""
    found = _current.get()
    with suppress(OSError):
        return found is not None and _identity(os.stat(path)) in found.inputs
    return False


def read_file(path: str | Path, limit: int | None = None) -> bytes:
    """All bytes of a file.

    A file larger than `limit` (if None, the limit of the current command) is refused before memory is allocated for it. A pipe or a device,
    whose size is not known, is refused after `limit` bytes. Raises InputError RG0501, RG0514.
    """
    try:
        with open(path, "rb", buffering=0) as file:
            return read_stream(file, str(path), limit)
    except (OSError, ValueError) as error:
        raise (missing(path) if isinstance(error, FileNotFoundError) else _refused(str(path), error)) from None


def read_stream(file: io.RawIOBase | BinaryIO, name: str, limit: int | None = None) -> bytes:
    """All bytes of an open file, see `read_file`. Raises InputError RG0514, and OSError as reading does."""
    most = limits().input if limit is None else limit
    option = "--max-input" if limit is None else None
    chunks: list[bytes] = []
    total = 0
    with suppress(OSError, ValueError):  # no descriptor: a stream of the process itself
        record_input(file.fileno(), name)
        size = os.fstat(file.fileno()).st_size
        if size > most:
            raise too_large(name, size, most, option)
    while chunk := file.read(_CHUNK):
        total += len(chunk)
        if total > most:
            raise too_large(name, None, most, option)
        chunks.append(chunk)
    return b"".join(chunks)


def too_large(name: str, amount: int | None, most: int, option: str | None, unpacked: str = "") -> InputError:
    """The error for an input beyond a limit. `option`, if given, raises the limit. `amount`: the bytes, if known."""
    hint = "no file of this kind is so large"
    if option:
        enough = 1 << ((amount or 2 * most) - 1).bit_length()
        hint = f"if it is meant, allow more: {option} {size_text(enough)}"
    has = f"more than {most} bytes" if amount is None else f"{amount} bytes"
    return InputError(
        Diagnostic("RG0514", f"{name} has {has}{unpacked}, and the limit is {size_text(most)}", hint=hint)
    )


_UNITS = "KMGT"


def size_text(size: int) -> str:
    """A number of bytes as `parse_size` takes it: 256M."""
    unit = ""
    for larger in _UNITS:
        if size == 0 or size % 1024:
            break
        size, unit = size // 1024, larger
    return f"{size}{unit}"


def parse_size(text: str) -> int:
    """The bytes that 4096, 64K, 256M, 2G or 1T denotes, in powers of 1024. Raises ValueError."""
    digits, unit = (text[:-1], text[-1].upper()) if text[-1:].upper() in set(_UNITS) else (text, "")
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 15:
        raise ValueError(f"`{text[:40]}` is no number of bytes, such as 64M or 2G")
    return int(digits) << 10 * (_UNITS.index(unit) + 1 if unit else 0)


# ---------------------------------------------------------------------- out


def check_output(path: str | Path) -> None:
    """Refuse early, before hours of work, an output that cannot be written or is an input.

    Raises InputError RG0501, RG0513.
    """
    shown = str(path)
    try:
        target, status = _target(shown)
    except (OSError, ValueError) as error:
        raise _refused(shown, error) from None
    found = _current.get()
    if found is not None and (status is None or stat.S_ISREG(status.st_mode)):
        if target in found.planned:
            raise _twice(shown)
        found.planned.add(target)


def _twice(path: str) -> InputError:
    return InputError(Diagnostic("RG0513", f"{path} is written twice by this command", hint=_ANOTHER))


def _target(path: str) -> tuple[str, os.stat_result | None]:
    """(the file that would be replaced, links followed; its status, if there is one). Raises OSError, ValueError, InputError."""
    if not path:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))  # and not the current folder
    try:
        status = os.stat(path)
    except FileNotFoundError:
        status = None
    target = os.path.realpath(path)
    if status is not None:
        _refuse_known(path, status)
        if stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not os.access(path, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        if not stat.S_ISREG(status.st_mode):
            return path, status
    elif path.endswith(os.sep):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    folder = os.path.dirname(target)
    if not os.path.isdir(folder):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, f"{os.strerror(errno.EACCES)} to make a file in {folder}")
    return target, status


def _refuse_known(path: str, status: os.stat_result) -> None:
    """Raise RG0513 for a file that this command reads, has written, or prints to."""
    found, identity = _current.get(), _identity(status)
    if found is None or identity is None:
        return
    if identity in found.inputs:
        name = found.inputs[identity]
        message = f"{path} is read by this command" + (f", as {name}" if name != path else "")
        raise InputError(Diagnostic("RG0513", f"{message}: writing it would destroy an input", hint=_ANOTHER))
    if identity in found.outputs:
        raise _twice(path)
    for number, stream in ((1, "standard output"), (2, "standard error")):
        with suppress(OSError):
            if _identity(os.fstat(number)) == identity:
                raise InputError(Diagnostic("RG0513", f"{path} is where {stream} goes", hint=_ANOTHER))


@contextmanager
def replacing(path: str | Path, *, keep_partial: bool = False) -> Iterator[BinaryIO]:
    """An open file that becomes `path` when the block ends, and is removed if the block raises.

    With `keep_partial`, the bytes that were written before the block raised are kept, as for the waveforms of a run that failed.
    Raises InputError RG0501, RG0513.
    """
    shown = str(path)
    try:
        target, status = _target(shown)
    except (OSError, ValueError) as error:
        raise _refused(shown, error) from None
    try:
        if status is not None and not stat.S_ISREG(status.st_mode):
            with open(target, "wb") as file:
                yield file
            return
        with _temporary(target, status, shown, keep_partial) as file:
            yield file
        found = _current.get()
        if found is not None:
            written = os.stat(target)
            found.outputs.add((written.st_dev, written.st_ino))
    except BrokenPipeError:
        raise  # the reader of a pipe went away, which is no error
    except OSError as error:
        raise _refused(shown, error) from None


@contextmanager
def _temporary(target: str, status: os.stat_result | None, shown: str, keep_partial: bool) -> Iterator[BinaryIO]:
    """A new file in the folder of `target`, which it replaces at the end."""
    name, descriptor = _created(os.path.dirname(target))
    whole = False
    try:
        raw = io.FileIO(descriptor, "wb")
        raw.name = shown  # for writers that mention it
        with io.BufferedWriter(raw) as file:
            try:
                yield file
            except Exception as error:
                if not keep_partial or isinstance(error, OSError):
                    raise
                _finish(file, name, status)
                whole = True
                raise
            _finish(file, name, status)
            whole = True
    finally:
        try:
            if whole:
                os.replace(name, target)  # Windows replaces no open file: it is closed here
        finally:
            with suppress(OSError):
                os.unlink(name)


def _created(folder: str) -> tuple[str, int]:
    """(path, descriptor) of a new file with the permissions that a new file has, which tempfile's have not."""
    while True:
        name = os.path.join(folder, f".retrograd-{os.urandom(8).hex()}.tmp")
        with suppress(FileExistsError):
            return name, os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o666)


def _finish(file: BinaryIO, name: str, status: os.stat_result | None) -> None:
    file.flush()
    if status is not None:
        own = os.stat(name)
        if (own.st_uid, own.st_gid) != (status.st_uid, status.st_gid):
            with suppress(OSError):
                os.chown(name, status.st_uid, status.st_gid)
        os.chmod(name, stat.S_IMODE(status.st_mode))
    try:
        os.fsync(file.fileno())  # a disk that is full, or gone, may refuse here only
    except OSError as error:
        if error.errno not in _NO_FSYNC:
            raise


@contextmanager
def replacing_text(path: str | Path, *, keep_partial: bool = False) -> Iterator[io.TextIOWrapper]:
    """`replacing` for text, as UTF-8. Raises InputError RG0501, RG0513."""
    with replacing(path, keep_partial=keep_partial) as file:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="\n")
        try:
            yield text
        finally:
            text.flush()
            text.detach()


def write_file(path: str | Path, data: bytes | str, *, changed: bool = False) -> None:
    """Replace a file by these bytes, or this text as UTF-8. Raises InputError RG0501, RG0513.

    `changed`: it is an input of the command, which was asked to change it in place.
    """
    found = _current.get()
    if changed and found is not None:
        with suppress(OSError):
            identity = _identity(os.stat(path))
            if identity is not None:
                found.inputs.pop(identity, None)
    with replacing(path) as file:
        file.write(data.encode() if isinstance(data, str) else data)


# ---------------------------------------------------------------------- code


def distrust(about: os.stat_result) -> str:
    """Why a file or folder with this status may hold data of another user; empty where it cannot."""
    if not hasattr(os, "getuid"):
        return ""  # the system has no such owners and modes
    if about.st_uid != os.getuid():
        return "it belongs to another user"
    if about.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return "other users can write in it"
    return ""


def read_own(path: str | Path) -> tuple[bytes | None, str]:
    """(the bytes of a file that is to be executed, why there are none: see `distrust`).

    The file is opened once, and no link is followed. Owner and mode are those of the open file, so that no other file can take its place
    between the test and the use. A file that is not there gives None and no reason.
    """
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        with open(os.open(path, flags | getattr(os, "O_BINARY", 0)), "rb") as file:
            about = os.fstat(file.fileno())
            if not stat.S_ISREG(about.st_mode):
                return None, ""
            why = distrust(about)
            return (None, why) if why else (file.read(), "")
    except OSError:
        return None, ""


def write_own(path: Path, data: bytes) -> bool:
    """Write a file that `read_own` reads, and replace a file of this name. Returns whether the folder allows it."""
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f"{path.name}.", suffix=".part")
    except OSError:
        return False
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.replace(name, path)
    except OSError:
        with suppress(OSError):
            os.unlink(name)
        return False
    return True
