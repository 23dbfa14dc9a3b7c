"""Contents of files: programs as text or image, memory as text, NumPy arrays or raw words."""

from __future__ import annotations

import os
import re
import sys
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from importlib.resources import files
from pathlib import Path

from retrograd.assembler.directives import evaluate
from retrograd.assembler.lexer import TextFault
from retrograd.cli.arrays import read_array, write_array
from retrograd.cli.options import fail
from retrograd.isa.diagnostics import PrecisionWarning, nearest
from retrograd.isa.files import read_file, read_stream, write_file
from retrograd.isa.program import Program
from retrograd.isa.words import Format
from retrograd.program_files import is_pisa, program_from

#: raw types -> (bytes a word, byte order); `word` has the format's own width
_RAW = {
    "u8": (1, "little"), "u16": (2, "little"), "u16be": (2, "big"), "u32": (4, "little"), "u32be": (4, "big"),
    "u64": (8, "little"), "u64be": (8, "big"),
}  # fmt: skip
TYPES = ("text", "textq", "npy", "npyq", "word", *_RAW)
#: the folder of the examples in a checkout, and their name on the command line everywhere
_EXAMPLES = "examples/"
_SUFFIXES = {".npy": "npy", ".txt": "text"}


def input_path(path: str) -> str:
    """The path of an input: where the working folder has no `examples/NAME`, that of the example that comes with the package."""
    if not path.startswith(_EXAMPLES) or Path(path).exists():
        return path
    folder = Path(str(files("retrograd.examples")))
    own = folder / path.removeprefix(_EXAMPLES)
    if own.is_file():
        return str(own)
    if Path(_EXAMPLES).is_dir():
        return path
    names = [f"{_EXAMPLES}{one.relative_to(folder).as_posix()}" for one in folder.rglob("*.*")]
    raise fail("RG0501", f"{path}: neither here nor among the examples of the package", nearest(path, names))


def read_bytes(path: str) -> bytes:
    """The bytes of a file, of standard input for "-". Raises InputError RG0501, RG0514."""
    if path != "-":
        return read_file(input_path(path))
    if sys.stdin is None:
        raise fail("RG0501", "standard input is closed")
    try:
        return read_stream(sys.stdin.buffer, "standard input")
    except (OSError, ValueError) as error:
        raise fail("RG0501", f"standard input: {getattr(error, 'strerror', None) or error}") from None


def load_program(path: str, include: Sequence[str] = (), *, check: bool = True) -> Program:
    """The program in a file, of any kind that `program_from` reads; verified unless `check` is off."""
    return read_program(path, include, check=check)[0]


def read_program(path: str, include: Sequence[str] = (), *, check: bool = True) -> tuple[Program, bool]:
    """(the program in a file, whether its reader has checked its branches by the rules of another assembly language)."""
    path = input_path(path)
    data = read_bytes(path)
    if path == "-":
        return program_from(data, "<stdin>", None, include, check=check), is_pisa(data, path)
    return program_from(data, path, Path(path), include, check=check), is_pisa(data, path)


def constant(
    text: str,
    w: Format,
    labels: Mapping[str, int],
    code: str,
    option: str,
    lost: Callable[[str], None] | None = None,
) -> int:
    """The word that a constant of the command line denotes. `lost` takes the message for a literal that loses more than half of its bits.

    Without it, that is a PrecisionWarning. Raises InputError `code`; RG0120 for a literal that becomes 0.
    """

    def told(fault: TextFault) -> None:
        message = f"{option}: {fault.message}. {fault.hint}"
        if lost is None:
            warnings.warn(message, PrecisionWarning, stacklevel=2)
        else:
            lost(message)

    try:
        value = evaluate(text, w, labels.get, told)
    except TextFault as error:
        vanishes = error.code == "RG0120"
        raise fail(
            "RG0120" if vanishes else code, f"{option}: {error.message}", error.hint if vanishes else None
        ) from None
    if not -w.sign <= value <= w.mask:
        raise fail(code, f"{option}: {value} does not fit in {w.width} bits")
    return value & w.mask


@dataclass(frozen=True)
class Region:
    """A range of memory words, and the file that they are read from or written to."""

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
        elif head and re.fullmatch(r"[a-z]+\d*[a-z]*", kind) and not os.path.exists(path):
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
        out: list[int] = []
        lost: list[str] = []
        try:
            pieces = data.decode().split()
        except UnicodeDecodeError:
            raise fail("RG0504", f"{path} is not text", "give its type, such as ,u8") from None
        for index, piece in enumerate(pieces):
            text = piece if kind == "text" or piece.endswith("q") else piece + "q"
            out.append(constant(text, w, {}, "RG0504", f"{path}, number {index}", lost.append))
        _warn(path, lost)
        return out
    size, order = _RAW.get(kind, (max(1, w.width // 8), "little"))
    data += b"\0" * (-len(data) % size)
    words = [int.from_bytes(data[i : i + size], order) for i in range(0, len(data), size)]  # type: ignore[arg-type]
    for index, word in enumerate(words):
        if word > w.mask:
            raise fail("RG0504", f"{path}: word {index} is {word}, more than {w.width} bits")
    return words


def cached_folder(name: str) -> Path:
    """A folder in the cache of compiled code; a temporary folder if there is no cache or others can write to it."""
    from retrograd.simulator.engines.llvm.jit import trusted_folder

    kept = trusted_folder(make=True)
    return Path(tempfile.mkdtemp(prefix="retrograd-")) / name if kept is None else kept / name


def _warn(path: str, lost: Sequence[str]) -> None:
    """One PrecisionWarning for all numbers of a file that lose more than half of their bits."""
    if lost:
        more = f" (and {len(lost) - 1} more numbers lose bits)" if len(lost) > 1 else ""
        warnings.warn(f"{lost[0]}{more}", PrecisionWarning, stacklevel=2)


def _read_npy(path: str, kind: str, w: Format) -> list[int]:
    """The words of an array. Its numbers may be results of floats, so a number that becomes 0 is a warning, as in arguments."""
    out: list[int] = []
    lost: list[str] = []
    for index, value in enumerate(read_array(path, "iuf").ravel().tolist()):
        try:
            word = w.from_real(value) if isinstance(value, float) or kind == "npyq" else value
        except (OverflowError, ValueError):
            raise fail("RG0504", f"{path}: element {index} is {value}, which {w} cannot hold") from None
        if not -w.sign <= word <= w.mask:
            raise fail("RG0504", f"{path}: element {index} is {value}, more than {w.width} bits")
        if isinstance(value, float) and not w.keeps(value):
            lost.append(
                f"{path}: element {index} = {value:.6g} is {float(w.to_real(word)):.6g} in {w}. {w.remedy(value)}"
            )
        out.append(word & w.mask)
    _warn(path, lost)
    return out


def write_words(region: Region, words: Sequence[int], w: Format) -> None:
    """Write words to a data file: numbers signed, `q` types as real numbers. Raises InputError."""
    path, kind = region.path, region.type
    if kind == "text":
        write_file(path, "".join(f"{w.signed(word)}\n" for word in words))
    elif kind == "textq":
        write_file(path, "".join(f"{real_text(w.to_real(word))}\n" for word in words))
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
        write_array(path, array)
    else:
        size, order = _RAW.get(kind, (max(1, w.width // 8), "little"))
        for index, word in enumerate(words):
            if word >= 1 << 8 * size:
                message = f"{path}: word {index} is {word}, more than the {8 * size} bits of {kind}"
                raise fail("RG0504", message, "choose a wider type")
        write_file(path, b"".join(word.to_bytes(size, order) for word in words))  # type: ignore[arg-type]


def real_text(value: Fraction) -> str:
    """A fixed-point value in decimal, exactly: its denominator is a power of two, so the digits end."""
    digits = value.denominator.bit_length() - 1
    scaled = abs(value.numerator) * 5**digits
    whole, rest = divmod(scaled, 10**digits)
    fraction = str(rest).rjust(digits, "0").rstrip("0") if digits else ""
    return f"{'-' if value < 0 else ''}{whole}" + (f".{fraction}" if fraction else "")
