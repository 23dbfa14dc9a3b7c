"""Binary images: the same program back, or an ImageError; never anything else, and nothing allocated on a promise."""

from __future__ import annotations

import pickle
import struct
import tracemalloc
import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from retrograd.isa.program import MAX_CODE, MAX_DATA, Hints, SourceMap

import retrograd as rg

SMALL = rg.assemble(".data\nx: .word 7\n.text\nstart\na: add r1, 5\nfinish", name="f")
IMAGE = rg.to_image(SMALL)
HEADER = struct.Struct("<8sHBBQI")


def parts(image: bytes) -> tuple[list[int], dict[bytes, bytes]]:
    """The header's numbers, and the sections."""
    header = list(HEADER.unpack_from(image))[1:]
    at, out = HEADER.size, {}
    for _ in range(header[-1]):
        tag, length = struct.unpack_from("<4sQ", image, at)
        out[tag] = image[at + 12 : at + 12 + length]
        at += 12 + length
    return header, out


def rebuild(header: list[int], sections: dict[bytes, bytes], lengths: dict[bytes, int] | None = None) -> bytes:
    """An image with a checksum that is right."""
    out = HEADER.pack(b"\x89RGX\r\n\x1a\n", *header)
    for tag, body in sections.items():
        out += struct.pack("<4sQ", tag, (lengths or {}).get(tag, len(body))) + body
    return out + struct.pack("<I", zlib.crc32(out))


def code_of(image: bytes) -> str:
    with pytest.raises(rg.ImageError) as caught:
        rg.from_image(image)
    (found,) = caught.value.diagnostics
    return found.code


def test_round_trip() -> None:
    again = rg.from_image(IMAGE)
    assert again == SMALL
    assert again.code == SMALL.code
    assert again.data_labels == {"x": 0}
    assert again.labels == {"a": 1}
    assert [again.source.span(pc) for pc in range(3)] == [SMALL.source.span(pc) for pc in range(3)]
    assert rg.to_image(again) == IMAGE


def test_hints() -> None:
    """A section of their own, which an image without hints does not have, and of which any form is read."""
    hints = Hints(((1, 2, 3, 4), (5, 6, 7, 8)), ((1, 0, 3),))
    image = rg.to_image(replace(SMALL, hints=hints))
    assert rg.from_image(image).hints == hints
    header, sections = parts(image)
    assert sections.pop(b"HINT")
    assert rebuild([*header[:-1], 5], sections) == IMAGE
    assert rg.to_image(replace(SMALL, hints=Hints(((-1, 2**40, 0, 0),))))
    for body in (b"", b"abc", b"abcdefgh", b"\xff" * 40):
        assert rg.from_image(rebuild(header, {**sections, b"HINT": body})) == SMALL


def test_hints_of_the_inverse_program() -> None:
    program = replace(SMALL, hints=Hints(((0, 1, 2, 3),), ((0, 4, 5),)))
    assert (~program).hints == Hints(((0, 1, 2, 3),), ((2, 4, 5),))
    assert (~~program).hints == pickle.loads(pickle.dumps(program)).hints == program.hints


@pytest.mark.parametrize("width", [4, 8, 16, 32, 64])
def test_round_trip_of_formats(width: int) -> None:
    w = rg.Format(width, width - 1)
    program = rg.Program(SMALL.code, [0, 1, w.mask, w.sign], 99, w)
    assert rg.from_image(rg.to_image(program)) == program


def test_round_trip_without_anything() -> None:
    for program in (rg.Program([]), rg.Program([], [1]), rg.Program(SMALL.code, source=SourceMap(("a", "b")))):
        again = rg.from_image(rg.to_image(program))
        assert again == program
        assert again.source.files == program.source.files


def test_round_trip_of_the_inverse() -> None:
    inverse = ~SMALL
    again = rg.from_image(rg.to_image(inverse))
    assert again == inverse
    assert again.source.span(1) == SMALL.source.span(1)


def test_round_trip_of_the_inverse_with_a_label_at_the_end() -> None:
    program = rg.assemble("start\nfinish\nend:")
    assert ~~program == program
    assert rg.from_image(rg.to_image(~program)) == ~program


@pytest.mark.long
@given(
    st.lists(st.sampled_from(SMALL.code), max_size=20),
    st.lists(st.integers(0, 255), max_size=20),
    st.integers(0, 1000),
    st.dictionaries(st.text(min_size=1, max_size=9).filter(lambda s: s.isprintable()), st.integers(0, MAX_DATA)),
    st.dictionaries(st.text(min_size=1, max_size=9).filter(lambda s: s.isprintable()), st.integers(0, MAX_DATA)),
)
def test_round_trip_of_anything(
    code: list[int], data: list[int], memory: int, labels: dict[str, int], data_labels: dict[str, int]
) -> None:
    program = rg.Program(code, data, memory, rg.Format(8, 3), labels, data_labels)
    assert rg.from_image(rg.to_image(program)) == program


def test_sources_by_several_files() -> None:
    spans = [(0, 3, 1, 5), None, (1, 1 << 31, 2, 1)]
    program = rg.Program(SMALL.code, source=SourceMap(("a", "é" * 100), spans))
    again = rg.from_image(rg.to_image(program))
    assert again.source.files == program.source.files
    assert list(again.source.spans) == spans


def test_a_long_label() -> None:
    # A name that does not fit, if there is one, is an error of ours.
    program = rg.assemble("a" * 70_000 + ": start\nfinish")
    with suppress(rg.RetrogradError):
        assert rg.from_image(rg.to_image(program)) == program


# ------------------------------------------------------------ damage


@pytest.mark.parametrize("bit", range(8))
def test_every_flipped_bit_is_found(bit: int) -> None:
    for at in range(len(IMAGE)):
        damaged = bytearray(IMAGE)
        damaged[at] ^= 1 << bit
        with pytest.raises(rg.ImageError):
            rg.from_image(bytes(damaged))


def test_every_truncation_is_found() -> None:
    for length in range(len(IMAGE)):
        assert code_of(IMAGE[:length]) in ("RG0301", "RG0303", "RG0305", "RG0304")


@pytest.mark.parametrize("extra", [b"\0", b"x" * 4, b"\0" * 100, IMAGE])
def test_what_follows_is_found(extra: bytes) -> None:
    assert code_of(IMAGE + extra) in ("RG0304", "RG0305")


def test_what_is_no_image() -> None:
    for data in (b"", b"\x89", b"RGX", b"start\nfinish\n", IMAGE[1:], b"\x89PNG\r\n\x1a\n" + IMAGE[8:]):
        assert code_of(data) == "RG0301"
    # As a transfer in text mode leaves it.
    assert code_of(IMAGE.replace(b"\r\n", b"\n")) == "RG0301"


# ------------------------------------------------------------ each fault by itself, the checksum right


def header(**changes: int) -> Callable[[], bytes]:
    names = ["version", "width", "frac", "memory", "sections"]

    def make() -> bytes:
        numbers, sections = parts(IMAGE)
        for name, value in changes.items():
            numbers[names.index(name)] = value
        return rebuild(numbers, sections)

    return make


def section(tag: bytes, body: bytes) -> Callable[[], bytes]:
    def make() -> bytes:
        numbers, sections = parts(IMAGE)
        return rebuild(numbers, {**sections, tag: body})

    return make


def claim(tag: bytes, length: int) -> Callable[[], bytes]:
    def make() -> bytes:
        numbers, sections = parts(IMAGE)
        return rebuild(numbers, sections, {tag: length})

    return make


def renamed(old: bytes, new: bytes) -> Callable[[], bytes]:
    def make() -> bytes:
        numbers, sections = parts(IMAGE)
        return rebuild(numbers, {new if tag == old else tag: body for tag, body in sections.items()})

    return make


def label(value: int, name: bytes, length: int | None = None) -> bytes:
    return struct.pack("<QI", value, len(name) if length is None else length) + name


def source(files: list[bytes], *spans: tuple[int, int, int, int], count: int | None = None) -> bytes:
    out = struct.pack("<I", len(files) if count is None else count)
    for name in files:
        out += struct.pack("<I", len(name)) + name
    return out + b"".join(struct.pack("<4I", *span) for span in spans)


def wide_word() -> bytes:
    numbers, sections = parts(IMAGE)
    return rebuild([1, 4, 2, *numbers[3:]], {**sections, b"DATA": b"\x0f\x10"})


SPAN = (0, 1, 1, 1)
FAULTS: list[tuple[str, Callable[[], bytes], str]] = [
    ("newer", header(version=2), "RG0302"),
    ("version 0", header(version=0), "RG0302"),
    ("width", header(width=33), "RG0307"),
    ("no width", header(width=0), "RG0307"),
    ("fraction", header(frac=64), "RG0307"),
    ("memory", header(memory=MAX_DATA + 1), "RG0305"),
    ("all memory", header(memory=(1 << 64) - 1), "RG0305"),
    ("fewer sections", header(sections=4), "RG0307"),
    ("many sections", header(sections=0xFFFFFFFF), "RG0307"),
    ("a word too wide", wide_word, "RG0307"),
    ("another section", renamed(b"DATA", b"ATAD"), "RG0307"),
    ("sections exchanged", renamed(b"CODE", b"DATA"), "RG0307"),
    ("half a word of code", section(b"CODE", b"\0" * 7), "RG0307"),
    ("half a word of data", section(b"DATA", b"\0" * 9), "RG0307"),
    ("no instruction", section(b"CODE", struct.pack("<3Q", SMALL.code[0], 0, SMALL.code[2])), "RG0306"),
    ("an unused field", section(b"CODE", struct.pack("<3Q", SMALL.code[0] | 1, *SMALL.code[1:])), "RG0306"),
    ("an alias", section(b"CODE", struct.pack("<3Q", 0x0401010000000000, *SMALL.code[1:])), "RG0306"),
    ("half a label", section(b"LBLS", label(1, b"a")[:5]), "RG0307"),
    ("half a name", section(b"LBLS", label(1, b"a", 9)), "RG0307"),
    ("no name", section(b"LBLS", label(1, b"")), "RG0307"),
    ("two of a name", section(b"DLBS", label(1, b"a") + label(2, b"a")), "RG0307"),
    ("a name not in UTF-8", section(b"LBLS", label(1, b"\xff")), "RG0307"),
    ("a label far away", section(b"LBLS", label(1 << 63, b"a")), "RG0307"),
    ("a short source map", section(b"SRCM", b"\0\0"), "RG0307"),
    ("files without end", section(b"SRCM", source([], count=0xFFFFFFFF)), "RG0307"),
    ("half a file name", section(b"SRCM", source([], count=1) + b"\x05\0\0\0ab"), "RG0307"),
    ("a file name not in UTF-8", section(b"SRCM", source([b"\x80"])), "RG0307"),
    ("too few spans", section(b"SRCM", source([b"f"], SPAN)), "RG0307"),
    ("half a span", section(b"SRCM", source([b"f"], SPAN, SPAN, SPAN)[:-1]), "RG0307"),
    ("a span in no file", section(b"SRCM", source([b"f"], SPAN, SPAN, (1, 1, 1, 1))), "RG0307"),
    ("line 0", section(b"SRCM", source([b"f"], SPAN, SPAN, (0, 0, 1, 1))), "RG0307"),
    ("column 0", section(b"SRCM", source([b"f"], SPAN, SPAN, (0, 1, 0, 1))), "RG0307"),
    ("a huge claim", claim(b"CODE", (1 << 64) - 1), "RG0305"),
    ("a claim past the end", claim(b"SRCM", 1 << 20), "RG0303"),
    ("too small a claim", claim(b"SRCM", 0), "RG0305"),
    ("a claim into the next", claim(b"CODE", 25), "RG0307"),
]


@pytest.mark.parametrize(("make", "code"), [f[1:] for f in FAULTS], ids=[f[0] for f in FAULTS])
def test_each_fault(make: Callable[[], bytes], code: str) -> None:
    assert code_of(make()) == code


def test_a_wrong_checksum() -> None:
    assert code_of(IMAGE[:-4] + struct.pack("<I", zlib.crc32(IMAGE[:-4]) ^ 1)) == "RG0304"


def test_every_code_is_provoked() -> None:
    assert {f[2] for f in FAULTS} | {"RG0301", "RG0304"} == {f"RG030{k}" for k in range(1, 8)}


def test_what_the_tests_build_is_right() -> None:
    numbers, sections = parts(IMAGE)
    assert rebuild(numbers, sections) == IMAGE
    assert rg.from_image(section(b"SRCM", source([b"f"], SPAN, SPAN, SPAN))()) == SMALL


@pytest.mark.parametrize("tag", [b"CODE", b"DATA", b"LBLS", b"DLBS", b"SRCM"])
@pytest.mark.parametrize("length", [1 << 20, MAX_CODE * 8, MAX_DATA * 8, MAX_DATA * 8 + 1, 1 << 40, (1 << 64) - 1])
def test_claims_allocate_nothing(tag: bytes, length: int) -> None:
    image = claim(tag, length)()
    tracemalloc.start()
    try:
        with pytest.raises(rg.ImageError):
            rg.from_image(image)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1 << 18


@pytest.mark.parametrize("memory", [MAX_DATA, MAX_DATA - 1])
def test_memory_is_allocated_by_the_machine_alone(memory: int) -> None:
    image = header(memory=memory)()
    rg.Machine(rg.from_image(IMAGE))  # what is made once is not counted
    tracemalloc.start()
    try:
        program = rg.from_image(image)
        assert program.memory == memory
        with pytest.raises(rg.InputError, match="RG0421"):
            rg.Machine(program, memory_limit=1000)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1 << 18


def test_other_types_of_bytes() -> None:
    assert rg.from_image(bytearray(IMAGE)) == SMALL
    assert rg.from_image(memoryview(IMAGE)) == SMALL  # type: ignore[arg-type]
