"""Arrays in files: .npy and .npz.

    read_array(path)     one array, as numpy.save writes it
    read_arrays(path)    arrays by name, as numpy.savez writes them

A file is untrusted. The length of its data is compared with its header before an array is made, and the unpacked size of an archive
with the limit before a member is read. Objects are refused, since unpickling would execute code. A file is written as a whole.
"""

from __future__ import annotations

import ast
import io
import os
import re
import stat
import sys
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from inspect import Parameter
from math import prod
from tokenize import TokenError
from typing import TYPE_CHECKING, Any, BinaryIO

from retrograd.cli.options import fail
from retrograd.isa.diagnostics import Diagnostic, InputError
from retrograd.isa.files import limits, missing, read_file, read_stream, record_input, replacing, too_large

if TYPE_CHECKING:
    from retrograd.runtime._reversible import Reversible

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

#: All that NumPy, zipfile and zlib raise for damaged files. The header of an array is a Python literal, hence SyntaxError and its like.
DAMAGED = (
    ValueError, EOFError, SyntaxError, TokenError, TypeError, LookupError, AttributeError, AssertionError, OverflowError, MemoryError,
    RecursionError, zlib.error, zipfile.BadZipFile, zipfile.LargeZipFile, NotImplementedError, RuntimeError, Warning,
)  # fmt: skip
#: kind of an element -> its largest size in bytes on every machine. Texts have any length.
_KINDS = {"b": 1, "i": 8, "u": 8, "f": 8, "c": 16, "U": 1 << 30, "S": 1 << 30}
#: how members are stored by numpy.savez and numpy.savez_compressed; bzip2 and LZMA may unpack without a bound
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
#: version of the format -> the bytes of the length of a header, NumPy's reader of it
_READERS = {(1, 0): (2, "read_array_header_1_0"), (2, 0): (4, "read_array_header_2_0")}
#: the header of an array of 64 axes has fewer bytes
_LONGEST_HEADER = 2048
#: a literal without escapes, comments and lines
_HEADER = re.compile(rb"\{(?:[\w\[\]()<>|=:,. +-]|'[^'\\\n]*'|\"[^\"\\\n]*\")*\} *\n?")
_HINT = "numpy.savez writes such a file: arrays of numbers by name"


def _fail(message: str, hint: str | None = None) -> InputError:
    return InputError(Diagnostic("RG0504", message, hint=hint))


def _reason(error: BaseException) -> str:
    return str(error).splitlines()[0][:100] if str(error) else type(error).__name__


def _open(path: str) -> BinaryIO:
    """A file of known length: pipes and standard input are read into memory. Raises InputError RG0501, RG0514."""
    try:
        if path == "-":
            if sys.stdin is None:
                raise OSError("standard input is closed")
            return io.BytesIO(read_stream(sys.stdin.buffer, "standard input"))
        file = io.BufferedReader(io.FileIO(path))
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            with file:
                return io.BytesIO(read_stream(file, path))
    except FileNotFoundError:
        raise missing(path) from None
    except (OSError, ValueError) as error:
        raise InputError(
            Diagnostic("RG0501", f"{path}: {getattr(error, 'strerror', None) or _reason(error)}")
        ) from None
    record_input(file.fileno(), path)
    return file


def _length(file: BinaryIO) -> int:
    length = file.seek(0, os.SEEK_END)
    file.seek(0)
    return length


def _read(file: BinaryIO, length: int) -> Array:
    """The array that `length` bytes of a file hold. Raises one of DAMAGED, OSError."""
    import warnings

    import numpy as np

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        shape, by_columns, dtype = _header(file)
    if dtype.hasobject:
        raise ValueError("it holds Python objects, which are not read from files")
    if not 0 < dtype.itemsize <= _KINDS.get(dtype.kind, 0):
        raise ValueError(f"it holds {dtype}, neither numbers of up to 64 bits nor texts")
    count, rest = prod(shape), length - file.tell()
    if count * dtype.itemsize != rest:
        raise ValueError(f"its header describes {count} elements, and {rest} bytes follow")
    data = file.read(rest)
    if len(data) != rest:
        raise EOFError("it ends before its last element")
    return np.frombuffer(data, dtype, count).reshape(shape, order="F" if by_columns else "C")


def _header(file: BinaryIO) -> tuple[tuple[int, ...], bool, Any]:
    """(shape, whether columns come first, type) of the array in a file, from its header. Raises one of DAMAGED.

    The header is a literal of Python. NumPy takes a time that grows with the square of its length, and more for a damaged one,
    so the length and the characters are tested before.
    """
    import numpy as np

    version = np.lib.format.read_magic(file)
    if version not in _READERS:
        raise ValueError(f"version {version} of the format is not read")
    size, name = _READERS[version]
    start = file.read(size)
    length = int.from_bytes(start, "little")
    if length > _LONGEST_HEADER:
        raise ValueError(f"its header has {length} bytes, more than that of an array of numbers")
    text = file.read(length)
    if len(start) < size or len(text) < length:
        raise EOFError("it ends within its header")
    if _HEADER.fullmatch(text) is None:
        raise ValueError("its header is no dictionary of `descr`, `fortran_order` and `shape`")
    read: Callable[[BinaryIO], tuple[tuple[int, ...], bool, Any]] = getattr(np.lib.format, name)
    return read(io.BytesIO(start + text))


def read_array(path: str, kinds: str = "biuf") -> Array:
    """The array in a .npy file; `kinds` are the allowed kinds of NumPy types. Raises InputError RG0501, RG0504, RG0514."""
    with _open(path) as file:
        try:
            length = _length(file)
            if length > limits().input:
                raise too_large(path, length, limits().input, "--max-input")
            found = _read(file, length)
        except (*DAMAGED, OSError) as error:
            raise _fail(f"{path} cannot be read as an array: {_reason(error)}") from None
    if found.dtype.kind not in kinds:
        raise _fail(f"{path} holds {found.dtype}, neither integers nor real numbers")
    return found


def read_arrays(path: str) -> dict[str, Array]:
    """The arrays of numbers and texts in a .npz file, by name. Raises InputError RG0501, RG0504, RG0514."""
    out: dict[str, Array] = {}
    member = ""
    with _open(path) as file:
        try:
            if _length(file) > limits().input:
                raise too_large(path, _length(file), limits().input, "--max-input")
            with zipfile.ZipFile(file) as archive:
                entries = archive.infolist()
                expanded, most = sum(entry.file_size for entry in entries), limits().expanded
                if expanded > most:
                    raise too_large(path, expanded, most, "--max-expanded", " once it is unpacked")
                for entry in entries:
                    member = entry.filename
                    name = member.removesuffix(".npy")
                    if name == member:
                        raise ValueError("it is no array")
                    if entry.compress_type not in _METHODS:
                        raise ValueError(
                            f"it is compressed by method {entry.compress_type}, which NumPy does not write"
                        )
                    if name in out:
                        raise ValueError("there are two of this name")
                    with archive.open(entry) as stream:
                        out[name] = _read(stream, entry.file_size)  # type: ignore[arg-type]
        except (*DAMAGED, OSError) as error:
            message = f"{path}: `{member}` cannot be read" if member else f"{path} is no archive of arrays"
            raise _fail(f"{message}: {_reason(error)}", _HINT) from None
    return out


def read_folder(path: str) -> dict[str, Any]:
    """The arrays in a folder of .npy files, mapped into memory, or in an archive of Zarr, by name. Raises InputError RG0501, RG0504."""
    import numpy as np

    if path.rstrip("/").endswith(".zarr"):
        return _read_zarr(path)
    out: dict[str, Any] = {}
    for name in _listed(path):
        stem, file = name.removesuffix(".npy"), os.path.join(path, name)
        if name.endswith(".format.txt"):
            out[name.removesuffix(".txt")] = np.array(read_file(file, 64).decode("ascii", "replace"))
        elif stem != name:
            record_input(file)
            try:
                # A file that is shorter than its header describes is refused by the mapping.
                with open(file, "rb") as opened:
                    _header(opened)
                found = np.load(file, mmap_mode="r", allow_pickle=False)
            except (*DAMAGED, OSError) as error:
                raise _fail(f"{file} cannot be read as an array: {_reason(error)}") from None
            if found.dtype.kind not in "biufc":
                raise _fail(f"{file} holds {found.dtype}, which is no number")
            out[stem] = found
    if not out:
        raise _fail(f"{path} has no .npy files")
    return out


def _listed(path: str) -> list[str]:
    try:
        return sorted(os.listdir(path))
    except OSError as error:
        raise InputError(Diagnostic("RG0501", f"{path}: {error.strerror}")) from None


def _read_zarr(path: str) -> dict[str, Any]:
    import numpy as np

    try:
        import zarr
    except ImportError:
        raise InputError(Diagnostic("RG0515", f"{path} needs `zarr`", hint="pip install 'retrograd[sweep]'")) from None
    try:
        group = zarr.open_group(path, mode="r")
        out: dict[str, Any] = dict(group.arrays())
        texts = {name: np.array(value) for name, value in group.attrs.items() if name.endswith(".format")}
    except Exception as error:  # Zarr raises many kinds for damaged metadata
        raise _fail(f"{path} cannot be read as an archive of Zarr: {_reason(error)}") from None
    for name, array in out.items():
        if array.dtype.kind not in "biufc":
            raise _fail(f"{path}: `{name}` holds {array.dtype}, which is no number")
    return out | texts


def write_array(path: str, array: Array) -> None:
    """Write a .npy file, as numpy.save does. Raises InputError RG0501, RG0513."""
    import numpy as np

    with replacing(path) as file:
        np.save(file, array, allow_pickle=False)


def write_arrays(path: str, arrays: Mapping[str, Any]) -> None:
    """Write a .npz file, as numpy.savez does, with arrays of any names. Raises InputError RG0501, RG0513."""
    import numpy as np

    with replacing(path) as file, zipfile.ZipFile(file, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asarray(array), allow_pickle=False)


# -----------------------------------------------------------------------------
# Arguments of functions as text: Python literals, words and arrays in files; and values as text and JSON.
#
#     parse_arguments(["1.5", "y=[1, 2]", "@x.npy"])  =  ([1.5, …], {"y": …})
#
# A float64 has 53 bits. A number whose word has more is written `VALUE = word(N)`, and `word(N)` reads it back exactly.


def parse_arguments(texts: Sequence[str], function: Reversible | None = None) -> tuple[list[Any], dict[str, Any]]:
    """(arguments by position, arguments by name) of literals, NAME=LITERAL and @FILE.npy. Raises InputError RG0510.

    `function`: needed for `word(N)`, the fixed number or lognum whose word is N.
    """
    args: list[Any] = []
    keywords: dict[str, Any] = {}
    declared = {} if function is None else {p.name: p.annotation for p in function.parameters}
    for i, text in enumerate(texts):
        named = re.match(r"([A-Za-z_][\w.]*)=(.*)", text, re.DOTALL)
        if named is not None and named[1] in keywords:
            raise fail("RG0510", f"`{named[1]}` is given twice", "Give each argument once.")
        literal, name = (text, next(iter(list(declared)[i:]), "")) if named is None else (named[2], named[1])
        value = _literal(literal, text, declared.get(name), partial(_number_of, function, declared.get(name)))
        if named is not None:
            keywords[named[1]] = value
        elif keywords:
            raise fail("RG0510", f"`{text}`: an argument without a name comes after one with a name")
        else:
            args.append(value)
    return args, keywords


def _literal(text: str, whole: str, annotation: Any, number: Callable[[int], float]) -> Any:
    """The value of a literal. Lists are arrays, but a list of a stack; a dict is a struct, where one is declared."""
    if text.startswith("@"):
        return read_array(text[1:])
    try:
        value = _evaluated(ast.parse(text.strip(), mode="eval").body, number)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        hint = "write numbers such as 1.5, lists such as [1.0, 2.0], or @FILE.npy"
        raise fail("RG0510", f"`{whole[:60]}` is no value", hint) from None
    if annotation is Parameter.empty and _has_dict(value):
        # The types of an open parameter are those of its value, as in a call.
        return value
    if isinstance(value, dict):
        fields = getattr(annotation, "__dataclass_fields__", None)
        if not isinstance(annotation, type) or fields is None:
            raise fail("RG0510", f"`{whole[:60]}` stands for a struct, and the parameter is declared otherwise")
        if set(value) != set(fields):
            raise fail("RG0510", f"`{whole[:60]}`: the fields of {annotation.__name__} are {', '.join(fields)}")
        return annotation(**value)
    if isinstance(value, list | tuple):
        from retrograd.compiler.language.types import ArrayAnnotation, StackAnnotation
        from retrograd.compiler.language.values import Structure
        from retrograd.isa.diagnostics import InputError
        from retrograd.runtime._arrays import Ragged, as_array

        of = annotation.element if isinstance(annotation, ArrayAnnotation) else annotation
        if isinstance(of, StackAnnotation | Structure):
            return value

        try:
            array = as_array(value)
        except Ragged:
            raise fail("RG0510", f"`{whole[:60]}`: its rows have different lengths") from None
        except InputError as error:
            d = error.diagnostics[0]
            raise fail("RG0510", f"`{whole[:60]}`: {d.message}", d.hint) from None
        return array if array.dtype.kind in "iufb" else value
    return value


def _has_dict(value: Any) -> bool:
    return isinstance(value, dict) or (isinstance(value, list | tuple) and any(map(_has_dict, value)))


def _evaluated(node: ast.expr, number: Callable[[int], float]) -> Any:
    """The value of a literal in which words may stand for numbers, and bools may be written as in JSON. Raises ValueError."""
    match node:
        case ast.List(elts=elements):
            return [_evaluated(e, number) for e in elements]
        case ast.Tuple(elts=elements):
            return tuple(_evaluated(e, number) for e in elements)
        case ast.Dict(keys=keys, values=values) if None not in keys:
            names = [ast.literal_eval(key) for key in keys if key is not None]
            return {key: _evaluated(e, number) for key, e in zip(names, values, strict=True)}
        case ast.Name(id="true" | "false" as word):
            return word == "true"
        case ast.Call(func=ast.Name(id="word"), args=[ast.Constant(value=int(word))], keywords=[]):
            return number(word)
    return ast.literal_eval(node)


def _number_of(function: Reversible | None, annotation: Any, word: int) -> float:
    """The number of a word, for a parameter of this annotation. Raises InputError RG0510."""
    from retrograd.compiler.language.types import ArrayAnnotation, ScalarType, StackAnnotation, element_of
    from retrograd.runtime._arrays import real_of

    element = annotation.element if isinstance(annotation, ArrayAnnotation | StackAnnotation) else annotation
    t = None if function is None else element_of(element)
    if function is None or not isinstance(t, ScalarType) or not t.kind.is_real:
        hint = "Annotate the parameter, or write the value itself: integers and bools are exact."
        raise fail("RG0510", f"word({word}) stands for a number of a parameter that is declared fixed or lognum", hint)
    w = function.format_for()
    if word > w.mask:
        raise fail("RG0510", f"word({word}) does not fit in {w.width} bits")
    return real_of(word, "fixed" if t.kind.is_fixed else "lognum", t.kind.numbers(w))


def plain(value: Any) -> Any:
    """A value of types that JSON has."""
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if hasattr(value, "_asdict"):
        return {name: plain(v) for name, v in value._asdict().items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if hasattr(type(value), "__retrograd_data__"):
        return {"class": type(value).__name__} | {n: plain(getattr(value, n)) for n in type(value).__match_args__}
    if hasattr(value, "__dataclass_fields__"):
        return {name: plain(getattr(value, name)) for name in value.__dataclass_fields__}
    return value if isinstance(value, int | float | bool | str) or value is None else str(value)


def rounded_words(values: Any, words: dict[str, Any]) -> dict[str, Any]:
    """The words of the arguments whose values a float64 rounds."""
    from retrograd.runtime._arrays import needs_words

    named = values._asdict().values()  # parameters may have names that no field has
    return {name: words[name] for name, value in zip(words, named, strict=True) if needs_words(value)}


def shown(value: Any) -> str:
    """A value for readers; a rounded float is followed by its word, in the form that `parse_arguments` reads."""
    if isinstance(value, float):
        from retrograd.runtime._arrays import WordFloat, needs_words

        return f"{value!r} = word({value.word})" if isinstance(value, WordFloat) and needs_words(value) else repr(value)
    if hasattr(value, "tolist"):
        import numpy as np

        return np.array2string(value, precision=10, separator=", ", threshold=200)
    return repr(value)


def argument_named(text: str) -> int | str:
    """An argument of a function, by name or by position."""
    return int(text) if text.removeprefix("-").isdecimal() and len(text) < 10 else text
