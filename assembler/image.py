"""Binary images: Program <-> bytes, little-endian, every length checked before anything is allocated.

magic 8 · version u16 · width u8 · frac u8 · memory u64 · sections u32
section: tag 4 · length u64 · bytes      CODE DATA LBLS DLBS SRCM, then HINT if there are hints, in this order
crc32 u32 of all that comes before
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from retrograd.isa.diagnostics import Diagnostic, ImageError
from retrograd.isa.program import MAX_CODE, MAX_DATA, Hints, Program, SourceMap
from retrograd.isa.table import TABLE, Table
from retrograd.isa.words import WIDTHS, Format

#: As in PNG: the high bit, the line ends and ^Z reveal a transfer that took the image for text.
MAGIC = b"\x89RGX\r\n\x1a\n"
VERSION = 1
_HEADER = struct.Struct("<8sHBBQI")
_SECTION = struct.Struct("<4sQ")
_TAGS = (b"CODE", b"DATA", b"LBLS", b"DLBS", b"SRCM", b"HINT")
_MAX_LABELS = 1 << 20
_NOWHERE = (0xFFFFFFFF,) * 4


def to_image(program: Program) -> bytes:
    """The program as an image. Inverse: `from_image`. Source texts are not stored, spans are."""
    w = program.format
    bodies = [
        _words(program.code, 8),
        _words(program.data, max(1, w.width // 8)),
        _labels(program.labels),
        _labels(program.data_labels),
        _source(program.source),
    ]
    if program.hints.pairs:
        bodies.append(_hints(program.hints))
    out = bytearray(_HEADER.pack(MAGIC, VERSION, w.width, w.frac, program.memory, len(bodies)))
    for tag, body in zip(_TAGS, bodies, strict=False):
        out += _SECTION.pack(tag, len(body)) + body
    return bytes(out + struct.pack("<I", zlib.crc32(out)))


def _words(words: Sequence[int], size: int) -> bytes:
    return b"".join(word.to_bytes(size, "little") for word in words)


def _labels(labels: Mapping[str, int]) -> bytes:
    out = bytearray()
    for name, value in labels.items():
        text = name.encode()
        out += struct.pack("<QI", value, len(text)) + text
    return bytes(out)


def _source(source: SourceMap) -> bytes:
    out = bytearray(struct.pack("<I", len(source.files)))
    for name in source.files:
        text = name.encode("utf-8", "replace")
        out += struct.pack("<I", len(text)) + text
    for span in source.spans:
        out += struct.pack("<4I", *(span or _NOWHERE))
    return bytes(out)


def _hints(hints: Hints) -> bytes:
    """The number of pairs; pairs; accesses. Engines verify hints, so any words will do."""
    words = [len(hints.pairs), *chain.from_iterable(hints.pairs), *chain.from_iterable(hints.accesses)]
    return struct.pack(f"<{len(words)}I", *(word & 0xFFFFFFFF for word in words))


def _error(code: str, message: str) -> ImageError:
    return ImageError(Diagnostic(code, message))


def from_image(data: bytes, table: Table = TABLE) -> Program:
    """The program that an image holds, its instructions decoded and found legal. Inverse: `to_image`.

    Raises ImageError RG0301 to RG0307. The program is not verified: that is `verify`'s part.
    """
    if data[:8] != MAGIC:
        raise _error("RG0301", f"the file begins with {data[:8]!r}")
    if len(data) < _HEADER.size + 4:
        raise _error("RG0303", f"{len(data)} bytes do not hold a header")
    _, version, width, frac, memory, count = _HEADER.unpack_from(data)
    if version != VERSION:
        raise _error("RG0302", f"the image has version {version}; this reads version {VERSION}")
    body = memoryview(data)[: len(data) - 4]
    sections = _sections(body, count)
    if zlib.crc32(body) != struct.unpack_from("<I", data, len(data) - 4)[0]:
        raise _error("RG0304", "the checksum does not match: the image was damaged on its way")
    if width not in WIDTHS or frac >= width:
        raise _error("RG0307", f"no format has {width} bits, {frac} of them fraction")
    if memory > MAX_DATA:
        raise _error("RG0305", f"{memory} words of memory; the limit is {MAX_DATA}")
    w = Format(width, frac)
    code = _read_words(sections, b"CODE", 8, MAX_CODE)
    words = _read_words(sections, b"DATA", max(1, width // 8), MAX_DATA)
    if any(word > w.mask for word in words):
        raise _error("RG0307", f"a data word exceeds {width} bits")
    program = Program(
        code,
        words,
        memory,
        w,
        _read_labels(sections, b"LBLS"),
        _read_labels(sections, b"DLBS"),
        _read_source(sections[b"SRCM"], len(code)),
        table,
        hints=_read_hints(sections.get(b"HINT", memoryview(b""))),
    )
    _ = program.instructions  # raises RG0306
    return program


def _sections(body: memoryview, count: int) -> dict[bytes, memoryview]:
    """Section bodies by tag; lengths are checked against the file before anything is read."""
    if count not in (len(_TAGS) - 1, len(_TAGS)):
        raise _error("RG0307", f"{count} sections, not {len(_TAGS) - 1}")
    at = _HEADER.size
    out: dict[bytes, memoryview] = {}
    for expected in _TAGS[:count]:
        if at + _SECTION.size > len(body):
            raise _error("RG0303", f"the file ends at byte {len(body)}, before section {expected.decode()}")
        tag, length = _SECTION.unpack_from(body, at)
        at += _SECTION.size
        if tag != expected:
            raise _error("RG0307", f"section {tag!r} where {expected.decode()} belongs")
        if length > len(body) - at:
            message = f"section {expected.decode()} claims {length} bytes; {len(body) - at} are left"
            raise _error("RG0305" if length > MAX_DATA * 8 else "RG0303", message)
        out[expected] = body[at : at + length]
        at += length
    if at != len(body):
        raise _error("RG0305", f"{len(body) - at} bytes follow the last section")
    return out


def _read_words(sections: Mapping[bytes, memoryview], tag: bytes, size: int, limit: int) -> list[int]:
    body = sections[tag]
    if len(body) % size:
        raise _error("RG0307", f"section {tag.decode()} has {len(body)} bytes, no multiple of {size}")
    if len(body) // size > limit:
        raise _error("RG0305", f"section {tag.decode()} has {len(body) // size} words; the limit is {limit}")
    if size == 8:
        return list(struct.unpack(f"<{len(body) // 8}Q", body))
    return [int.from_bytes(body[i : i + size], "little") for i in range(0, len(body), size)]


def _read_labels(sections: Mapping[bytes, memoryview], tag: bytes) -> dict[str, int]:
    body = sections[tag]
    out: dict[str, int] = {}
    at = 0
    while at < len(body):
        if at + 12 > len(body):
            raise _error("RG0307", f"section {tag.decode()} ends within an entry")
        value, length = struct.unpack_from("<QI", body, at)
        name, at = _read_text(body, at + 12, length, tag)
        if name in out or not name:
            raise _error("RG0307", f"section {tag.decode()} names {name!r} twice" if name else "an empty label")
        if value > MAX_DATA:
            raise _error("RG0307", f"the label {name!r} has the value {value}")
        out[name] = value
        if len(out) > _MAX_LABELS:
            raise _error("RG0305", f"more than {_MAX_LABELS} labels")
    return out


def _read_text(body: memoryview, at: int, length: int, tag: bytes) -> tuple[str, int]:
    if at + length > len(body):
        raise _error("RG0307", f"section {tag.decode()} ends within a name")
    try:
        return bytes(body[at : at + length]).decode(), at + length
    except UnicodeDecodeError:
        raise _error("RG0307", f"a name in section {tag.decode()} is not UTF-8") from None


def _read_source(body: memoryview, instructions: int) -> SourceMap:
    if len(body) < 4:
        raise _error("RG0307", "section SRCM is too short")
    (count,) = struct.unpack_from("<I", body)
    files: list[str] = []
    at = 4
    for _ in range(count):
        if at + 4 > len(body):
            raise _error("RG0307", "section SRCM ends within a name")
        (length,) = struct.unpack_from("<I", body, at)
        name, at = _read_text(body, at + 4, length, b"SRCM")
        files.append(name)
    if len(body) == at:
        return SourceMap(tuple(files))
    if len(body) - at != 16 * instructions:
        raise _error("RG0307", f"section SRCM does not describe {instructions} instructions")
    spans: list[tuple[int, int, int, int] | None] = []
    for span in struct.iter_unpack("<4I", body[at:]):
        if span != _NOWHERE and (span[0] >= len(files) or span[1] == 0 or span[2] == 0):
            raise _error("RG0307", "section SRCM points outside its files")
        spans.append(None if span == _NOWHERE else span)
    return SourceMap(tuple(files), spans)


def _read_hints(body: memoryview) -> Hints:
    """The hints of a section; no hints for one of any other form."""
    if len(body) % 4 or not body:
        return Hints()
    pairs, *words = struct.unpack(f"<{len(body) // 4}I", body)
    return Hints(tuple(_groups(words[: 4 * pairs], 4)), tuple(_groups(words[4 * pairs :], 3)))


def _groups(words: list[int], size: int) -> Iterator[Any]:
    return zip(*(words[k::size] for k in range(size)), strict=False)
