"""`retrograd run`: registers, memory in and out, direction, limits, breakpoints, modes, JSON."""

from __future__ import annotations

import json
import pickle
import re
import struct
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from retrograd.isa.diagnostics import PrecisionWarning
from retrograd.isa.words import Format

from retrograd.cli.main import parser

Cli = Callable[..., tuple[int, str, str]]
OK, BAD_INPUT, TRAPPED, LIMIT = 0, 2, 3, 4
SIGNED = [1, -2, 3]
WORDS = [w & (1 << 64) - 1 for w in SIGNED]


@pytest.fixture(autouse=True)
def _by_the_reference_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """`auto` would go by what this process has run before."""
    monkeypatch.setenv("RETROGRAD_ENGINE", "reference")


@pytest.fixture
def outcome(cli: Cli) -> Callable[..., dict[str, Any]]:
    """The outcome of a run as JSON, with its exit code under "exit"."""

    def run(*arguments: str) -> dict[str, Any]:
        code, out, err = cli("run", *arguments, "--json")
        assert out, err
        return {**json.loads(out), "exit": code}

    return run


Outcome = Callable[..., dict[str, Any]]


def refused(ran: tuple[int, str, str], code: str) -> str:
    """The message of a command that must be refused with this code, and print nothing else."""
    status, out, err = ran
    assert (status, out) == (BAD_INPUT, "")
    assert err.startswith(f"error[{code}]: "), err
    assert "  fix: " in err
    return err.split("\n")[0]


# -------------------------------------------------------------------------------------------------- --set


@pytest.mark.parametrize(
    ("value", "word"),
    [
        ("42", 42), ("0x2A", 42), ("0b101010", 42), ("0o52", 42), ("1_000", 1000), ("-1", -1), ("~0", -1),
        ("'A'", 65), ("1.5q", 3 << 31), ("-0.25q", -(1 << 30)), ("(1 << 40) | 1", 1 << 40 | 1),
        ("0xffffffffffffffff", -1), ("-0x8000000000000000", -(1 << 63)), ("table", 1), ("table + 2", 3),
    ],
)  # fmt: skip
def test_set_a_register(outcome: Outcome, value: str, word: int) -> None:
    assert outcome("add.rga", "--set", f"r7={value}")["registers"] == {"r7": word}


def test_set_a_register_by_its_name(cli: Cli) -> None:
    code, out, _ = cli("run", "fib.rga", "--set", "n=5", "--json")
    assert (code, json.loads(out)["registers"]["r1"]) == (OK, 8)


def test_set_the_word_at_a_label(outcome: Outcome) -> None:
    found = outcome("add.rga", "--set", "sum=40", "--set", "r1=2")
    assert found["memory"]["nonzero"]["0"] == 42


def test_the_last_set_counts(outcome: Outcome) -> None:
    assert outcome("square.rga", "--set", "r255=1", "--set", "r255=7")["registers"] == {"r255": 7}


def test_set_comes_after_mem(outcome: Outcome, folder: Path) -> None:
    (folder / "in.txt").write_text("5 6")
    found = outcome("add.rga", "--set", "sum=9", "--mem", "in.txt")
    assert [found["memory"]["nonzero"][k] for k in ("0", "1")] == [9, 6]


@pytest.mark.parametrize(
    "text", ["r1", "=1", "r1=", "r1=x", "r1=1.5", "r1==1", "r256=1", "R1=1", "nope=1", "again=1", "r1=1<<64", "r1=1 2"]
)
def test_set_refused(cli: Cli, text: str) -> None:
    assert f"--set {text}: " in refused(cli("run", "add.rga", "--set", text), "RG0502")


def test_set_names_the_register_of_pisa(cli: Cli) -> None:
    assert "fix: write r3" in cli("run", "add.rga", "--set", "$3=1")[2]


def test_set_refuses_what_the_format_cannot_hold(cli: Cli) -> None:
    assert cli("run", "small.rga", "--set", "r1=0xffff")[0] == OK
    refused(cli("run", "small.rga", "--set", "r1=0x10000"), "RG0502")
    refused(cli("run", "small.rga", "--set", "r1=128.5q"), "RG0502")


# -------------------------------------------------------------------------------------------- --mem, --out

#: type -> the bytes of [1, 2, 3]
FILES: dict[str, bytes] = {
    "text": b"1\n2\n3\n",
    "word": struct.pack("<3Q", 1, 2, 3),
    "u8": bytes([1, 2, 3]),
    "u16": struct.pack("<3H", 1, 2, 3),
    "u16be": struct.pack(">3H", 1, 2, 3),
    "u32": struct.pack("<3I", 1, 2, 3),
    "u32be": struct.pack(">3I", 1, 2, 3),
    "u64": struct.pack("<3Q", 1, 2, 3),
    "u64be": struct.pack(">3Q", 1, 2, 3),
}


def test_every_type_is_tried_here(cli: Cli) -> None:
    text = " ".join(cli("run", "--help")[1].split())
    named = text.split("TYPE: ")[1].split(" (")[0].split()
    assert named == ["text", "textq", "npy", "npyq", *[k for k in FILES if k != "text"]]


@pytest.mark.parametrize("kind", FILES)
def test_types_in_and_out(outcome: Outcome, folder: Path, kind: str) -> None:
    (folder / "in.dat").write_bytes(FILES[kind])
    found = outcome("add.rga", "--mem", f"table=in.dat,{kind}", "--out", f"table:3=out.dat,{kind}")
    assert found["memory"]["nonzero"] == {"1": 1, "2": 2, "3": 3}
    assert (folder / "out.dat").read_bytes() == FILES[kind]


@pytest.mark.parametrize(("kind", "bits"), [(k, int(k[1:3])) for k in FILES if k[0] == "u" and k[1:3] != "64"])
def test_a_word_that_a_type_cannot_hold_is_refused(
    outcome: Outcome, cli: Cli, folder: Path, kind: str, bits: int
) -> None:
    """The largest word comes back, and the next one is refused, at its place."""
    for word in ((1 << bits) - 1, 1 << bits, -1):
        (folder / "in.txt").write_text(f"0 {word}")
        ran = cli("run", "add.rga", "--mem", "in.txt", "--out", f"0:2=out.dat,{kind}")
        if word == (1 << bits) - 1:
            assert ran[0] == OK
            assert outcome("add.rga", "--mem", f"out.dat,{kind}")["memory"]["nonzero"]["1"] == word
            (folder / "out.dat").unlink()
        else:
            whole = word & (1 << 64) - 1
            assert f"word 1 is {whole}, more than the {bits} bits of {kind}" in refused(ran, "RG0504")
            assert not (folder / "out.dat").exists()


@pytest.mark.parametrize(
    ("kind", "size"), [("u16", 2), ("u16be", 2), ("u32", 4), ("u32be", 4), ("u64be", 8), ("word", 8)]
)
def test_a_last_word_is_padded_with_zeros(outcome: Outcome, folder: Path, kind: str, size: int) -> None:
    data = bytes(range(1, size + 2))
    (folder / "in.dat").write_bytes(data)
    found = outcome("small.rga" if size == 2 else "add.rga", "--memory", "8", "--mem", f"in.dat,{kind}")
    order = "big" if kind.endswith("be") else "little"
    last = int.from_bytes(data[size:].ljust(size, b"\0"), order)  # type: ignore[arg-type]
    assert found["memory"]["nonzero"]["1"] == last


@pytest.mark.parametrize("kind", ["text", "u8", "u32be", "word"])
def test_an_empty_file_changes_nothing(outcome: Outcome, folder: Path, kind: str) -> None:
    (folder / "in.dat").write_bytes(b"")
    assert outcome("add.rga", "--mem", f"in.dat,{kind}")["memory"] == outcome("add.rga")["memory"]


def test_negative_words(outcome: Outcome, folder: Path) -> None:
    outcome("add.rga", "--out", "table:3=out.txt", "--out", "table:3=out.bin", "--out", "table:3=out.npy")
    assert (folder / "out.txt").read_text() == "1\n-2\n3\n"
    assert (folder / "out.bin").read_bytes() == struct.pack("<3Q", *WORDS)
    array = np.load(folder / "out.npy")
    assert (array.tolist(), array.dtype) == (SIGNED, np.int64)


def test_text_holds_constants(outcome: Outcome, folder: Path) -> None:
    (folder / "in.txt").write_text("0x10 -1\n 'a'\t1.5q\r\n")
    found = outcome("add.rga", "--mem", "in.txt")
    assert list(found["memory"]["nonzero"].values()) == [16, -1, 97, 3 << 31]


def test_textq_in_and_out(outcome: Outcome, folder: Path) -> None:
    (folder / "in.txt").write_text("1 -0.75 2.5q 1e-3")
    found = outcome("add.rga", "--mem", "in.txt,textq", "--out", "0:4=out.txt,textq")
    q = Format()
    assert list(found["memory"]["nonzero"].values())[:3] == [1 << 32, -(3 << 30), 5 << 31]
    lines = (folder / "out.txt").read_text().split()
    assert lines[:3] == ["1", "-0.75", "2.5"]
    assert q.from_real(float(lines[3])) == q.from_real(1e-3)


@pytest.mark.parametrize("zero", ["1e-12", "-1e-12", "1e-12q", "-0.00000000001q"])
def test_a_number_of_a_file_that_becomes_0_is_refused(cli: Cli, folder: Path, zero: str) -> None:
    """As `.word 1e-12q` is."""
    (folder / "in.txt").write_text(f"1 2 {zero} 4")
    line = refused(cli("run", "add.rga", "--mem", "in.txt,textq"), "RG0120")
    assert "in.txt, number 2: " in line
    assert line.endswith("would be 0 in Q32.32")
    if zero.endswith("q"):
        refused(cli("run", "add.rga", "--mem", "in.txt"), "RG0120")
        refused(cli("run", "add.rga", "--set", f"r1={zero}"), "RG0120")


@pytest.mark.parametrize("kind", ["textq", "npyq"])
def test_numbers_of_a_file_that_lose_bits_are_one_warning(outcome: Outcome, folder: Path, kind: str) -> None:
    numbers = [0.5, 1e-9, 0.0, 3e-9]
    (folder / "in.textq").write_text(" ".join(map(str, numbers)))
    with (folder / "in.npyq").open("wb") as file:
        np.save(file, np.array(numbers))
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        memory = outcome("add.rga", "--mem", f"in.{kind},{kind}")["memory"]["nonzero"]
    assert [memory.get(str(k), 0) for k in range(4)] == [Format().from_real(x) for x in numbers]
    (warning,) = found
    assert warning.category is PrecisionWarning
    assert re.search(r"(number|element) 1\b.* 1e-09", str(warning.message))
    assert "(and 1 more numbers lose bits)" in str(warning.message)


def test_npy_of_reals_and_integers(outcome: Outcome, folder: Path) -> None:
    np.save(folder / "reals.npy", np.array([[1.5, -0.25], [0.1, 3]], dtype=">f4"))
    found = outcome("add.rga", "--mem", "reals.npy", "--out", "0:4=out.npy,npyq")
    assert found["memory"]["nonzero"]["0"] == 3 << 31
    out = np.load(folder / "out.npy")
    assert out.dtype == np.float64
    assert np.abs(out - [1.5, -0.25, np.float32(0.1), 3]).max() < 2**-32
    np.save(folder / "integers.npy", np.array([1, 2], dtype=np.uint8))
    found = outcome("add.rga", "--mem", "sum=integers.npy")
    assert [found["memory"]["nonzero"][k] for k in "01"] == [1, 2]


def test_npy_by_columns_is_read_by_rows(outcome: Outcome, folder: Path) -> None:
    """How an array lies in its file does not change what it says."""
    rows = np.array([[1, 2, 3], [4, 5, 6]])
    for name, array in (("rows.npy", rows), ("columns.npy", np.asfortranarray(rows))):
        np.save(folder / name, array)
        assert list(outcome("add.rga", "--mem", name)["memory"]["nonzero"].values()) == [1, 2, 3, 4, 5, 6]


def test_npyq_refuses_words_that_it_would_round(outcome: Outcome, cli: Cli, folder: Path) -> None:
    """The same words come back by every other type."""
    words = [1 << 53, (1 << 53) + 1, (1 << 63) - 1]
    (folder / "in.txt").write_text("\n".join(map(str, words)))
    code, out, err = cli("run", "add.rga", "--mem", "in.txt", "--out", "0:3=out.npy,npyq")
    assert (code, out) == (2, "")
    assert f"error[RG0606]: out.npy: word 1 is {words[1]}, which a float64 would round" in err
    for file in ("out.npy,npy", "out.txt,textq", "out.bin,word"):
        outcome("add.rga", "--mem", "in.txt", "--out", f"0:3={file}")
        assert outcome("add.rga", "--mem", file)["memory"] == outcome("add.rga", "--mem", "in.txt")["memory"]


def test_npyq_reads_integers_as_real_numbers(outcome: Outcome, folder: Path) -> None:
    """As textq does: `1` is one, not the smallest number."""
    np.save(folder / "in.npy", np.array([1, -2]))
    found = outcome("add.rga", "--mem", "in.npy,npyq")
    assert [found["memory"]["nonzero"][k] for k in "01"] == [1 << 32, -(2 << 32)]


@pytest.mark.parametrize("name", ["out.npy", "out.dat"])
def test_npy_is_written_where_it_was_asked_for(cli: Cli, folder: Path, name: str) -> None:
    assert cli("run", "add.rga", "--out", f"table:3={name},npy")[0] == OK
    assert np.load(folder / name).tolist() == SIGNED


def test_the_suffix_gives_the_type(outcome: Outcome, folder: Path) -> None:
    for name in ("out.txt", "out.npy", "out.bin", "out"):
        outcome("add.rga", "--out", f"sum:4={name}")
        again = outcome("add.rga", "--mem", name)
        assert list(again["memory"]["nonzero"].values()) == SIGNED
    assert (folder / "out.txt").read_text() == "0\n1\n-2\n3\n"
    assert (folder / "out").read_bytes() == (folder / "out.bin").read_bytes()


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("", [0]), ("sum=", [0]), ("0=", [0]), ("table=", [1, -2, 3, 0, 0, 0, 0]), ("1=", [1, -2, 3, 0, 0, 0, 0]),
        ("0x2=", [-2, 3, 0, 0, 0, 0]), ("table:2=", [1, -2]), (":2=", [0, 1]), ("1:0x3=", SIGNED), ("sum:0=", []),
        ("8=", []), ("0:table=", [0]),
    ],
)  # fmt: skip
def test_out_addresses_labels_and_counts(cli: Cli, folder: Path, where: str, expected: list[int]) -> None:
    """Without a count: to the next label, or the end of memory."""
    assert cli("run", "add.rga", "--out", f"{where}out.txt")[0] == OK
    assert [int(line) for line in (folder / "out.txt").read_text().split()] == expected


def test_a_file_may_have_an_equals_sign_or_a_comma_in_its_name(outcome: Outcome, folder: Path) -> None:
    (folder / "a=b,c.txt").write_text("5")
    assert outcome("add.rga", "--mem", "sum=a=b,c.txt")["memory"]["nonzero"]["0"] == 5


@pytest.mark.parametrize(
    "text",
    ["", "nope=in.txt", "sum=", "sum:1=in.txt", "in.txt,u23", "5x=in.txt", "99999999999999999999=in.txt", ",u8"],
)
def test_mem_refused(cli: Cli, folder: Path, text: str) -> None:
    (folder / "in.txt").write_text("1")
    refused(cli("run", "add.rga", "--mem", text), "RG0503")


@pytest.mark.parametrize("text", ["", "nope=out.txt", "sum=", "sum:x=out.txt", "sum:1+=out.txt", "out.bin,u128"])
def test_out_refused(cli: Cli, folder: Path, text: str) -> None:
    refused(cli("run", "add.rga", "--out", text), "RG0503")
    assert not list(folder.glob("out*"))


def test_a_dash_is_standard_output_or_refused(cli: Cli, folder: Path) -> None:
    """As `-` is standard input elsewhere, `--out -` must not make a file of that name."""
    cli("run", "add.rga", "--out", "-")
    assert not (folder / "-").exists()


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ("--mem", "in.txt"), ("--mem", "8=one.txt"), ("--mem", "sum=many.txt"), ("--out", "sum:9=out.txt"),
        ("--out", "9=out.txt"), ("--out", "0:-1=out.txt"),
    ],
)  # fmt: skip
def test_outside_the_memory(cli: Cli, folder: Path, option: str, text: str) -> None:
    (folder / "one.txt").write_text("1")
    for name in ("in.txt", "many.txt"):
        (folder / name).write_text("1 " * 9)
    refused(cli("run", "add.rga", option, text), "RG0505")


ARRAYS: dict[str, Any] = {
    "objects": np.array([1, None], dtype=object),
    "strings": np.array(["one"]),
    "nan": np.array([float("nan")]),
    "infinity": np.array([float("inf")]),
    "complex": np.array([1j]),
    "booleans": np.array([True]),
    "dates": np.array(["2020-01-01"], dtype="M8[D]"),
    "records": np.zeros(2, dtype=[("a", "i4")]),
    "large reals": np.array([1e300]),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_that_are_no_words(cli: Cli, folder: Path, name: str) -> None:
    np.save(folder / "in.npy", ARRAYS[name], allow_pickle=True)
    refused(cli("run", "add.rga", "--mem", "in.npy"), "RG0504")


def npy(header: bytes, body: bytes = b"") -> bytes:
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + body


def shaped(shape: str) -> bytes:
    return npy(b"{'descr': '<i8', 'fortran_order': False, 'shape': %s, }\n" % shape.encode())


BROKEN_ARRAYS: dict[str, bytes] = {
    "empty": b"",
    "text": b"1 2 3",
    "magic only": b"\x93NUMPY",
    "version 9": b"\x93NUMPY\x09\x00",
    "pickle": pickle.dumps([1, 2, 3]),
    "zip": b"PK\x03\x04 but nothing else",
    "header cut": npy(b"{'descr': '<i8', 'fortr"),
    "header of brackets": npy(b"("),
    "header of open string": npy(b"'''"),
    "header of many brackets": npy(b"(" * 5000),
    "header not a dictionary": npy(b"[1, 2]\n"),
    "negative shape": shaped("(-5,)"),
    "huge shape": shaped("(1152921504606846976,)"),
    "shape beyond 64 bits": shaped("(11529215046068469760000,)"),
    "unknown dtype": npy(b"{'descr': 'qq', 'fortran_order': False, 'shape': (1,), }\n"),
    "truncated": npy(b"{'descr': '<i8', 'fortran_order': False, 'shape': (4,), }\n", b"\1\2"),
}


@pytest.mark.parametrize("name", BROKEN_ARRAYS)
def test_array_files_that_are_none(cli: Cli, folder: Path, name: str) -> None:
    (folder / "in.npy").write_bytes(BROKEN_ARRAYS[name])
    refused(cli("run", "add.rga", "--mem", "in.npy"), "RG0504")


def test_extended_reals_are_read_or_refused(cli: Cli, folder: Path) -> None:
    np.save(folder / "in.npy", np.array([1.5], dtype=np.longdouble))
    code, _, err = cli("run", "add.rga", "--mem", "in.npy")
    assert code == OK or (code == BAD_INPUT and "RG0504" in err)


@pytest.mark.parametrize(
    ("file", "data"),
    [
        ("in.txt", b"one"), ("in.txt", b"1.5"), ("in.txt", "größe".encode("latin-1")), ("in.txt", b"\xff\xfe1\0"),
        ("in.txt", b"99999999999999999999"), ("in.txt,textq", b"9999999999"), ("in.txt,textq", b"nan"),
        ("in.txt,textq", b"1e9999"), ("in.txt", b"9" * 3000), ("in.txt,textq", b"0x10"), ("in.txt", b"1,2,3"),
    ],
)  # fmt: skip
def test_texts_that_are_no_numbers(cli: Cli, folder: Path, file: str, data: bytes) -> None:
    (folder / "in.txt").write_bytes(data)
    refused(cli("run", "add.rga", "--mem", file), "RG0504")


def test_words_wider_than_the_format(cli: Cli, folder: Path) -> None:
    (folder / "in.dat").write_bytes(b"\1\0\1\0")
    assert cli("run", "tiny.rga", "--mem", "in.dat,u8")[0] == OK
    (folder / "in.dat").write_bytes(b"\0\1\0\0")
    refused(cli("run", "tiny.rga", "--mem", "in.dat,u16"), "RG0504")
    refused(cli("run", "add.rga", "--out", "table:3=out.dat,u32"), "RG0504")
    assert not (folder / "out.dat").exists()


@pytest.mark.parametrize("path", [".", "nope", "nope/nope", "in\0.txt", "n" * 5000])
def test_files_that_cannot_be_read(cli: Cli, path: str) -> None:
    refused(cli("run", "add.rga", "--mem", f"{path},u8"), "RG0501")
    refused(cli("run", path), "RG0501")


@pytest.mark.parametrize("path", [".", "nope/out"])
@pytest.mark.parametrize("kind", ["text", "npy", "u64"])
def test_files_that_cannot_be_written(cli: Cli, path: str, kind: str) -> None:
    status, _, err = cli("run", "add.rga", "--out", f"{path},{kind}")
    assert status == BAD_INPUT
    assert "error[RG0501]" in err


# ---------------------------------------------------------------------------------------- direction, modes


def test_forward_and_backward(outcome: Outcome) -> None:
    forward = outcome("fib.rga", "--set", "r3=10")
    assert forward["registers"] == {"r1": 89, "r2": 144, "r3": 10}
    assert (forward["stop"], forward["exit"], forward["direction"], forward["br"]) == ("halted", OK, 1, 0)
    backward = outcome("fib.rga", "--set", "r3=10", "--set", "r1=89", "--set", "r2=144", "--backward")
    assert backward["registers"] == {"r3": 10}
    assert (backward["stop"], backward["exit"], backward["direction"]) == ("halted", OK, -1)
    assert backward["steps"] == forward["steps"]
    assert (backward["executed"]["forward"], backward["memory"]["nonzero"]) == ({}, {})


def test_the_inverse_forward_is_the_program_backward(outcome: Outcome) -> None:
    start = ("--set", "r3=5", "--set", "r1=8", "--set", "r2=13")
    inverse = outcome("fib.rga", *start, "--inverse")
    assert inverse["registers"] == {"r3": 5} == outcome("fib.rga", *start, "--backward")["registers"]
    assert inverse["direction"] == 1
    assert outcome("fib.rga", "--set", "r3=5", "--inverse", "--backward")["registers"] == {"r1": 8, "r2": 13, "r3": 5}


@pytest.mark.parametrize("kind", ["u64", "word", "npy", "text", "textq", "u64be"])
def test_round_trip_through_files(cli: Cli, folder: Path, kind: str) -> None:
    """Forward into a file, backward from it: the bytes that were there at first."""
    (folder / "plain").write_bytes(struct.pack("<8Q", *(3**i * 0x9E3779B97F4A7C15 & (1 << 64) - 1 for i in range(8))))
    options = ("cipher.rga", "--set", "r4=8")
    assert cli("run", *options, "--mem", "text=plain,u64", "--out", f"text=cipher,{kind}")[0] == OK
    assert cli("run", *options, "--backward", "--mem", f"text=cipher,{kind}", "--out", "text=again,u64")[0] == OK
    plain = (folder / "plain").read_bytes()
    assert (folder / "again").read_bytes() == plain
    assert len(plain) == 64
    assert cli("run", *options, "--mem", "text=plain,u64", "--out", "text=cipher,u64")[0] == OK
    assert (folder / "cipher").read_bytes() != plain


def test_overflow_traps_unless_it_may_wrap(outcome: Outcome) -> None:
    trapped = outcome("square.rga", "--set", "r1=100000q")
    assert (trapped["stop"], trapped["exit"], trapped["trap"]["code"]) == ("trap", TRAPPED, "RG0404")
    wrapped = outcome("square.rga", "--set", "r1=100000q", "--no-overflow")
    assert (wrapped["stop"], wrapped["exit"], wrapped["trap"]) == ("halted", OK, None)
    assert wrapped["registers"]["r2"] == (10**10 << 32) % (1 << 64)


def test_erasing(outcome: Outcome) -> None:
    erased = outcome("erase.rga")
    assert (erased["exit"], erased["erased_bits"], erased["registers"]) == (OK, 64, {})
    strict = outcome("erase.rga", "--strict")
    assert (strict["exit"], strict["trap"]["code"], strict["erased_bits"]) == (TRAPPED, "RG0408", 0)
    assert outcome("erase.rga", "--backward")["trap"]["code"] == "RG0409"


def test_a_trap_for_people(cli: Cli, folder: Path) -> None:
    code, out, err = cli("run", "square.rga", "--set", "r1=100000q")
    assert code == TRAPPED
    assert err.startswith("error[RG0404]: fixed-point overflow in Q32.32")
    assert "  --> square.rga:2:9\n" in err
    assert out.startswith("trap at pc 1 after 1 steps, running forward; 0 bits erased\n")


def test_memory_is_saved_even_where_the_run_trapped(cli: Cli, folder: Path) -> None:
    (folder / "trap.rga").write_text(
        ".data\nx: .word 1\n.text\nstart\nadd r1, 5\nst.add [r0], r1\nassertz r1\nfinish\n"
    )
    assert cli("run", "trap.rga", "--out", "out.txt")[0] == TRAPPED
    assert (folder / "out.txt").read_text() == "6\n"


# -------------------------------------------------------------------------------------------------- limits


@pytest.mark.parametrize("steps", [0, 1, 2, 25, 1000])
def test_step_limit(outcome: Outcome, steps: int) -> None:
    found = outcome("endless.rga", "--max-steps", str(steps))
    assert (found["stop"], found["steps"], found["exit"], found["trap"]) == ("limit", steps, LIMIT, None)


def test_step_limit_for_people(cli: Cli) -> None:
    code, out, err = cli("run", "endless.rga", "--max-steps", "0x10")
    assert code == LIMIT
    assert err.startswith("error[RG0420]: stopped by the limit of 16 steps\n")
    assert "--max-steps" in err
    assert out.startswith("limit at pc ")


def test_a_limit_that_is_not_reached(outcome: Outcome) -> None:
    needed = outcome("fib.rga")["steps"]
    assert outcome("fib.rga", "--max-steps", str(needed))["stop"] == "halted"
    assert outcome("fib.rga", "--max-steps", str(needed - 1))["stop"] == "limit"
    assert outcome("fib.rga", "--max-steps", str(10**30))["stop"] == "halted"


@pytest.mark.parametrize("option", ["--max-steps", "--memory", "--memory-limit"])
@pytest.mark.parametrize("text", ["", "x", "-1", "1.5", "1e3", "0x", "nan", "9" * 5000])
def test_numbers_refused(cli: Cli, option: str, text: str) -> None:
    message = refused(cli("run", "add.rga", f"{option}={text}"), "RG0507")
    assert message.startswith(f"error[RG0507]: {option}: ")


@pytest.mark.parametrize(("asked", "words"), [("100", 100), ("0x20", 32), ("8", 8), ("3", 8), ("0", 8)])
def test_memory(outcome: Outcome, asked: str, words: int) -> None:
    """It gives more than `.memory` asks for, never less."""
    assert outcome("add.rga", "--memory", asked)["memory"]["words"] == words


def test_memory_limit(cli: Cli) -> None:
    assert cli("run", "add.rga", "--memory-limit", "8")[0] == OK
    refused(cli("run", "add.rga", "--memory-limit", "7"), "RG0421")
    refused(cli("run", "add.rga", "--memory-limit", "0"), "RG0421")
    refused(cli("run", "add.rga", "--memory", "9", "--memory-limit", "8"), "RG0421")
    refused(cli("run", "add.rga", "--memory", str(1 << 40)), "RG0421")


@pytest.mark.parametrize("words", [10**12, 10**18, 10**30])
def test_memory_that_no_machine_has(cli: Cli, words: int) -> None:
    code, out, err = cli("run", "add.rga", "--memory", str(words), "--memory-limit", str(words))
    assert (code, out) == (BAD_INPUT, "")
    assert err.startswith("error")


@pytest.mark.parametrize(("where", "pc"), [("again", 1), ("1", 1), ("2", 2)])
def test_break(outcome: Outcome, where: str, pc: int) -> None:
    found = outcome("add.rga", "--set", "r1=5", "--break", where)
    assert (found["stop"], found["pc"], found["exit"]) == ("breakpoint", pc, OK)
    assert found["memory"]["nonzero"].get("0", 0) == (5 if pc == 2 else 0)


def test_break_backward_and_several(outcome: Outcome) -> None:
    found = outcome("add.rga", "--break", "0", "--break", "again", "--backward")
    assert (found["stop"], found["pc"]) == ("breakpoint", 1)
    assert outcome("fib.rga", "--set", "r3=3", "--break", "fib.base")["pc"] == 17


@pytest.mark.parametrize("where", ["", "nope", "agian", "-1", "3", "99999999999999999999999", "²", "1.5"])
def test_break_refused(cli: Cli, where: str) -> None:
    refused(cli("run", "add.rga", f"--break={where}"), "RG0507")


# ------------------------------------------------------------------------------------------------- reports


def test_trace(cli: Cli) -> None:
    code, out, err = cli("run", "add.rga", "--set", "r1=5", "--trace")
    assert code == OK
    lines = [line.split() for line in err.splitlines()]
    assert [(n, arrow, pc, name) for n, arrow, pc, name, *_ in lines] == [
        ("1", "→", "0", "start"),
        ("2", "→", "1", "st.add"),
    ]
    assert err.endswith("M[0]: 0 → 5\n")
    assert out == cli("run", "add.rga", "--set", "r1=5")[1]
    backward = cli("run", "add.rga", "--set", "r1=5", "--set", "sum=5", "--trace", "--backward")[2]
    assert backward.splitlines()[1].endswith("M[0]: 5 → 0")
    assert "←" in backward


def test_trace_shows_registers_and_br(cli: Cli) -> None:
    err = cli("run", "fib.rga", "--trace")[2]
    assert "BR: 0 → 5" in err
    assert "r1: 0 → 1" in err


def test_trace_and_json_do_not_mix(cli: Cli) -> None:
    _, out, err = cli("run", "add.rga", "--trace", "--json")
    assert json.loads(out)["stop"] == "halted"
    assert err.count("\n") == 2


def test_table(cli: Cli) -> None:
    code, out, err = cli("run", "add.rga", "--set", "r1=1.5q", "--set", "r200=-1")
    assert (code, err) == (OK, "")
    assert out == (
        "halted at pc 2 after 2 steps, running forward; 0 bits erased\n\n"
        "register     decimal  hexadecimal                   Q32.32\n"
        "r1        6442450944  0x0000000180000000               1.5\n"
        "r200              -1  0xffffffffffffffff  -2.328306437e-10\n\n"
        "label  address  words\n"
        "sum          0  6442450944\n"
        "table        1  1 -2 3 0 0 0 0\n"
        "memory: 8 words, 4 not zero\n"
    )


KEYS = {
    "schema", "format", "stop", "steps", "engine", "pc", "br", "direction", "registers", "memory", "executed", "erased_bits", "trap",
}  # fmt: skip


def test_json_schema(outcome: Outcome) -> None:
    found = outcome("add.rga", "--set", "r1=-5")
    assert set(found) == KEYS | {"exit"}
    assert found["schema"] == "retrograd.run/1"
    assert found["format"] == {"width": 64, "frac": 32}
    assert (found["steps"], found["pc"], found["registers"]) == (2, 2, {"r1": -5})
    assert found["engine"] == "reference"
    assert found["memory"] == {
        "words": 8,
        "nonzero": {"0": -5, "1": 1, "2": -2, "3": 3},
        "labels": {"sum": 0, "table": 1},
    }
    assert found["executed"] == {"forward": {"start": 1, "st.add": 1}, "backward": {}}


def test_json_of_a_trap(outcome: Outcome) -> None:
    trap = outcome("square.rga", "--set", "r1=100000q")["trap"]
    assert set(trap) == {"code", "severity", "title", "message", "span", "why", "fix", "pc", "value"}
    assert trap["span"] == {"file": "square.rga", "line": 2, "column": 9, "end": 28}
    assert (trap["pc"], trap["value"]) == (1, 100000 << 32)


def test_json_of_what_did_not_run(cli: Cli) -> None:
    code, out, err = cli("run", "wrong.rga", "--json")
    found = json.loads(out)
    assert (code, err, found["schema"]) == (BAD_INPUT, "", "retrograd.findings/1")
    assert [f["code"] for f in found["findings"]] == ["RG0101", "RG0108"]


def test_precision_is_of_functions(cli: Cli) -> None:
    """Its effect on numbers is in tests/values/test_precision.py."""
    code, _, err = cli("run", "square.rga", "--precision", "error")
    assert (code, "RG0512]: --precision is for functions" in err) == (BAD_INPUT, True)
    code, _, err = cli("run", "square.rga", "--precision", "loud")
    assert (code, "`loud` is none of warn, error, ignore" in err) == (BAD_INPUT, True)


def test_every_option_of_run_is_tried(cli: Cli) -> None:
    """A new option without a test fails."""
    text = cli("run", "--help")[1]
    options = {word.strip("[],") for word in text.split() if word.startswith("--")}
    own = "".join(
        next(Path(__file__).parents[1].rglob(f"test_{name}.py")).read_text("utf-8")
        for name in ("run", "engines", "batches", "cycles", "limits", "functions", "debug", "color", "sarif")
    )
    assert parser() is not None
    assert {o for o in options if f'"{o}' not in own and o not in ("--help", "--include")} == set()


def test_numbers_that_a_program_reads(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "reads.vlad").write_text("(* (read-real) (read-real))\n")
    (tmp_path / "numbers").write_text("1.5 4\n")
    code, out, _ = cli("run", str(tmp_path / "reads.vlad"), "--input", str(tmp_path / "numbers"))
    assert (code, out.splitlines()[0]) == (OK, "6")
    code, _, err = cli("run", str(tmp_path / "reads.vlad"), "--input", str(tmp_path / "none"))
    assert (code, "RG0501" in err) == (BAD_INPUT, True)
