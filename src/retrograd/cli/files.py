"""Files in and out: programs as text or image, memory as text, NumPy arrays or raw words."""

from __future__ import annotations

import errno
import io
import os
import re
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import prod
from pathlib import Path
from tokenize import TokenError
from typing import Any, BinaryIO

from retrograd.assembler.assemble import assemble
from retrograd.assembler.constants import BadConstant, evaluate
from retrograd.assembler.image import MAGIC, from_image
from retrograd.assembler.sources import decode_text
from retrograd.isa.diagnostics import Diagnostic, InputError, nearest
from retrograd.isa.program import Program
from retrograd.isa.words import Format

#: raw types -> (bytes a word, byte order); `word` has the format's own width
_RAW = {
    "u8": (1, "little"), "u16": (2, "little"), "u16be": (2, "big"), "u32": (4, "little"), "u32be": (4, "big"),
    "u64": (8, "little"), "u64be": (8, "big"),
}  # fmt: skip
TYPES = ("text", "textq", "npy", "npyq", "word", *_RAW)
_SUFFIXES = {".npy": "npy", ".txt": "text"}
#: bytes that one data file may have: far more than the largest memory
_MAX_FILE = 1 << 30


def fail(code: str, message: str, hint: str | None = None) -> InputError:
    """An InputError with one diagnostic."""
    return InputError(Diagnostic(code, message, hint=hint))


def read_bytes(path: str) -> bytes:
    """The bytes of a file, of standard input for "-". Raises InputError RG0501."""
    try:
        if path == "-":
            return sys.stdin.buffer.read(_MAX_FILE)
        if Path(path).stat().st_size > _MAX_FILE:
            raise fail("RG0501", f"{path} is larger than {_MAX_FILE} bytes")
        return Path(path).read_bytes()
    except (OSError, ValueError) as error:
        raise fail("RG0501", f"{path}: {getattr(error, 'strerror', None) or error}") from None


def write_bytes(path: str, data: bytes) -> None:
    """Write a file. Raises InputError RG0501."""
    try:
        Path(path).write_bytes(data)
    except (OSError, ValueError) as error:
        raise fail("RG0501", f"{path}: {getattr(error, 'strerror', None) or error}") from None


def load_program(path: str, include: Sequence[str] = (), *, check: bool = True) -> Program:
    """The program in a file, assembly text or image by content; verified unless `check` is off."""
    data = read_bytes(path)
    if data.startswith(MAGIC[:4]):
        program = from_image(data)
        if check:
            from retrograd.assembler.verify import verify

            verify(program)
        return program
    name = "<stdin>" if path == "-" else path
    source = None if path == "-" else Path(path)
    text = decode_text(data, name)
    return assemble(text, name=name, path=source, include=[Path(p) for p in include], check=check)


def constant(text: str, w: Format, labels: Mapping[str, int], code: str, option: str) -> int:
    """The word that a constant of the command line denotes. Raises InputError `code`."""
    try:
        value = evaluate(text, w, labels.get)
    except BadConstant as error:
        raise fail(code, f"{option}: {error.message}") from None
    if not -w.sign <= value <= w.mask:
        raise fail(code, f"{option}: {value} does not fit in {w.width} bits")
    return value & w.mask


@dataclass(frozen=True)
class Region:
    """A piece of memory and the file it comes from or goes to."""

    address: int
    count: int | None
    path: str
    type: str

    @classmethod
    def parse(cls, text: str, program: Program, option: str) -> Region:
        """[WHERE[:COUNT]=]FILE[,TYPE]. Raises InputError RG0503."""
        where, path = "", text
        found = re.match(r"([A-Za-z_][\w.]*|\d\w*)?(?::([^=]+))?=", text)
        count = None
        if found is not None:
            where, path = found.group(1) or "", text[found.end() :]
            if found.group(2) is not None:
                option_text = f"{option} {text}"
                count = constant(found.group(2), program.format, program.data_labels, "RG0503", option_text)
        head, comma, kind = path.rpartition(",")
        if comma and kind in TYPES:
            path = head
        elif head and re.fullmatch(r"[a-z]+\d*[a-z]*", kind) and not Path(path).exists():
            raise fail("RG0503", f"{option} {text}: unknown type `{kind}`", nearest(kind, TYPES))
        else:
            kind = _SUFFIXES.get(Path(path).suffix, "word")
        if not path:
            raise fail("RG0503", f"{option} {text}: the file is missing")
        if path == "-" and option == "--out":
            raise fail("RG0503", f"{option} {text}: memory is saved to a file; `--json` prints it")
        return cls(_address(where, program, f"{option} {text}"), count, path, kind)


def _address(where: str, program: Program, option: str) -> int:
    if not where:
        return 0
    if where in program.data_labels:
        return program.data_labels[where]
    if where[0].isdecimal():
        return constant(where, program.format, {}, "RG0503", option)
    raise fail("RG0503", f"{option}: no data label is named `{where}`", nearest(where, program.data_labels))


def read_words(region: Region, w: Format) -> list[int]:
    """The words that a data file holds. Raises InputError RG0501, RG0504."""
    path, kind = region.path, region.type
    if kind in ("npy", "npyq"):
        return _read_npy(path, kind, w)
    data = read_bytes(path)
    if kind in ("text", "textq"):
        out = []
        try:
            pieces = data.decode().split()
        except UnicodeDecodeError:
            raise fail("RG0504", f"{path} is not text", "give its type, such as ,u8") from None
        for index, piece in enumerate(pieces):
            text = piece if kind == "text" or piece.endswith("q") else piece + "q"
            out.append(constant(text, w, {}, "RG0504", f"{path}, number {index}"))
        return out
    size, order = _RAW.get(kind, (max(1, w.width // 8), "little"))
    data += b"\0" * (-len(data) % size)
    words = [int.from_bytes(data[i : i + size], order) for i in range(0, len(data), size)]  # type: ignore[arg-type]
    for index, word in enumerate(words):
        if word > w.mask:
            raise fail("RG0504", f"{path}: word {index} is {word}, more than {w.width} bits")
    return words


#: The header of an array is Python text of somebody's, which NumPy parses as a literal: whatever that may raise.
_FLAWED = (ValueError, EOFError, SyntaxError, TokenError, TypeError, OverflowError, MemoryError, RecursionError)


def _reason(error: Exception) -> str:
    return str(error).splitlines()[0][:100] if str(error) else type(error).__name__


def _array(data: bytes, refuse: Callable[[Any], None]) -> Any:
    """The array that is written in NumPy's format, unless `refuse(dtype)` raises.

    Its length is checked against its header before anything is made of it. Raises one of _FLAWED.
    """
    import numpy as np

    stream = io.BytesIO(data)
    version = np.lib.format.read_magic(stream)
    read_header = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    if version not in read_header:
        raise ValueError(f"version {version} of the format is not read")
    shape, by_columns, dtype = read_header[version](stream)
    refuse(dtype)
    rest = stream.read()
    count = prod(shape)
    if count < 0 or count * dtype.itemsize != len(rest):
        raise ValueError(f"its header speaks of {count} elements, and {len(rest)} bytes follow")
    return np.frombuffer(rest, dtype, count).reshape(shape, order="F" if by_columns else "C")


def _load_npy(path: str) -> Any:
    """The numbers in a .npy file."""

    def refuse(dtype: Any) -> None:
        if dtype.kind not in "iuf" or dtype.itemsize > 8:
            raise fail("RG0504", f"{path} holds {dtype}, neither integers nor real numbers of up to 64 bits")

    try:
        return _array(read_bytes(path), refuse).ravel()
    except _FLAWED as error:
        raise fail("RG0504", f"{path} is not a NumPy array file: {_reason(error)}") from None


def _opened(path: str) -> BinaryIO:
    """A file for reading, or standard input. Raises InputError RG0501."""
    try:
        return io.BytesIO(read_bytes(path)) if path == "-" else open(path, "rb")
    except (OSError, ValueError) as error:
        raise fail("RG0501", f"{path}: {getattr(error, 'strerror', None) or error}") from None


def read_arrays(path: str) -> dict[str, Any]:
    """The arrays in a .npz file by name, of any type but Python objects. Raises InputError RG0501, RG0504."""
    import zipfile
    import zlib

    def refuse(dtype: Any) -> None:
        if dtype.hasobject:
            raise ValueError("it holds Python objects, which are not read from files")

    hint = "numpy.savez writes such a file: arrays of numbers by name"
    out: dict[str, Any] = {}
    member = ""
    try:
        with _opened(path) as file, zipfile.ZipFile(file) as archive:
            for member in archive.namelist():
                if not member.endswith(".npy"):
                    raise ValueError("it is no array")
                out[member.removesuffix(".npy")] = _array(archive.read(member), refuse)
    except (*_FLAWED, zipfile.BadZipFile, zlib.error, OSError, NotImplementedError, RuntimeError) as error:
        message = f"{path}: `{member}` cannot be read" if member else f"{path} is no archive of arrays"
        raise fail("RG0504", f"{message}: {_reason(error)}", hint) from None
    return out


def cached_folder(name: str) -> Path:
    """A folder beside compiled code on disk; where nothing is kept, or others can write there, one that this process alone has."""
    from retrograd.simulator.engines.code_cache import trusted_folder

    kept = trusted_folder(make=True)
    return Path(tempfile.mkdtemp(prefix="retrograd-")) / name if kept is None else kept / name


def check_output(path: str) -> None:
    """Raise InputError RG0501 early, before hours of work, where it is plain that a file cannot be written."""
    place = Path(path)
    code = 0
    try:
        if place.is_dir():
            code = errno.EISDIR
        elif not place.parent.is_dir():
            code = errno.ENOENT
        elif not os.access(place if place.exists() else place.parent, os.W_OK):
            code = errno.EACCES
    except (OSError, ValueError) as error:
        raise fail("RG0501", f"{path}: {getattr(error, 'strerror', None) or error}") from None
    if code:
        raise fail("RG0501", f"{path}: {os.strerror(code)}")


def write_arrays(path: str, arrays: Mapping[str, Any]) -> None:
    """Write a .npz file, as numpy.savez does; any name will do. Raises InputError RG0501."""
    import zipfile

    import numpy as np

    try:
        with zipfile.ZipFile(path, "w") as archive:
            for name, array in arrays.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                    np.lib.format.write_array(file, np.asarray(array), allow_pickle=False)
    except OSError as error:
        raise fail("RG0501", f"{path}: {error.strerror or error}") from None


def _read_npy(path: str, kind: str, w: Format) -> list[int]:
    out = []
    for index, value in enumerate(_load_npy(path).tolist()):
        try:
            word = w.from_real(value) if isinstance(value, float) or kind == "npyq" else value
        except (OverflowError, ValueError):
            raise fail("RG0504", f"{path}: element {index} is {value}, which {w} cannot hold") from None
        if not -w.sign <= word <= w.mask:
            raise fail("RG0504", f"{path}: element {index} is {value}, more than {w.width} bits")
        out.append(word & w.mask)
    return out


def write_words(region: Region, words: Sequence[int], w: Format) -> None:
    """Write words to a data file: numbers signed, `q` types as real numbers. Raises InputError."""
    path, kind = region.path, region.type
    if kind == "text":
        write_bytes(path, "".join(f"{w.signed(word)}\n" for word in words).encode())
    elif kind == "textq":
        write_bytes(path, "".join(f"{real_text(w.to_real(word))}\n" for word in words).encode())
    elif kind in ("npy", "npyq"):
        import numpy as np

        if kind == "npy":
            array = np.array([w.signed(word) for word in words], dtype=np.int64)
        else:
            for index, word in enumerate(words):
                if Fraction(float(w.to_real(word))) != w.to_real(word):
                    message = f"{path}: word {index} is {w.signed(word)}, which a float64 would round"
                    raise fail("RG0606", message, "The types npy, textq and word hold it.")
            array = np.array([float(w.to_real(word)) for word in words], dtype=np.float64)
        stream = io.BytesIO()
        np.save(stream, array, allow_pickle=False)
        write_bytes(path, stream.getvalue())
    else:
        size, order = _RAW.get(kind, (max(1, w.width // 8), "little"))
        for index, word in enumerate(words):
            if word >= 1 << 8 * size:
                message = f"{path}: word {index} is {word}, more than the {8 * size} bits of {kind}"
                raise fail("RG0504", message, "choose a wider type")
        write_bytes(path, b"".join(word.to_bytes(size, order) for word in words))  # type: ignore[arg-type]


def real_text(value: Fraction) -> str:
    """A fixed-point value in decimal, exactly: its denominator is a power of two, so the digits end."""
    digits = value.denominator.bit_length() - 1
    scaled = abs(value.numerator) * 5**digits
    whole, rest = divmod(scaled, 10**digits)
    fraction = str(rest).rjust(digits, "0").rstrip("0") if digits else ""
    return f"{'-' if value < 0 else ''}{whole}" + (f".{fraction}" if fraction else "")
