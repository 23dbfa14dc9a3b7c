"""Files and command lines of every degree of damage: our own errors, or a result; nothing else is raised.

Arrays (.npy, .npz), documents (JSON), and the words of a command line. The default tier takes some hundreds of each, the full one more than 10⁴.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import io
import json
import random
import struct
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from retrograd.benchmarks import reporting
from retrograd.isa.diagnostics import RetrogradError
from retrograd.isa.files import Limits, command
from retrograd.simulator.energy.gates import load_gates

from retrograd.cli.arguments import read_array, read_arrays
from retrograd.cli.main import main, parser

ROOT = Path(__file__).resolve().parents[2]
QUICK, SLOW, PIECE = 120, 20_000, 1000


def tried(name: str, sample: object, what: Callable[..., Any], *arguments: Any) -> str:
    """The code of the error that a call raises, or "" for a result. Anything else it raises is a failure, and named."""
    try:
        what(*arguments)
    except RetrogradError as error:
        return error.diagnostics[0].code
    except BaseException as error:
        raise AssertionError(f"{name}: {type(error).__name__}: {error}\n{sample!r:.2000}") from error
    return ""


# ---------------------------------------------------------------------- arrays

DESCRIPTIONS = [
    "'<i8'", "'<f8'", "'>f4'", "'<u2'", "'|b1'", "'<c16'", "'<U3'", "'|S2'", "'|O'", "'|V0'", "'|V8'", "'<M8[D]'", "'<f2'", "'<f16'",
    "()", "('<i8',)", "('<i8', (2,))", "('<i8', 0)", "[]", "[('a', '<i4')]", "[('a', '<i4', (2,))]", "[('', '')]", "{}", "None", "0", "-1",
    "True", "''", "'qq'", "'<i8,<i8'", "'i8' * 3", "'<U0'", "'|S0'", "'<U999999999'", "b'<i8'", "1.5", "...", "'<i3'", "'é'", "{'names': ['a']}",
]  # fmt: skip
SHAPES = [
    "()", "(1,)", "(3,)", "(3, 2)", "(0,)", "(0, 9999999999999999999999)", "(-1,)", "(-1, -1)", "(-3, 2)", "(True,)", "(3.0,)", "('3',)", "3",
    "[3]", "None", "(1 << 62,)", "(4611686018427387904,)", "(2, 3, (1,))", "(1,) * 70", "(3, True)", "((),)", "(10**30,)", "(None,)",
    "(" + "1, " * 70 + ")", "(3,", "(0, 4611686018427387904)", "(0, 0, 0)", "(9223372036854775808,)",
]  # fmt: skip
ORDERS = ["False", "True", "None", "1", "'C'", "[]", "..."]
KEYS = ["descr", "fortran_order", "shape", "more", "", 3]


def header(chance: random.Random) -> bytes:
    """The text between the magic and the data: right in most of its parts."""
    often = [chance.random() < 0.6 for _ in range(3)]
    parts = {
        "descr": "'<f8'" if often[0] else chance.choice(DESCRIPTIONS),
        "fortran_order": "False" if often[1] else chance.choice(ORDERS),
        "shape": "(3,)" if often[2] else chance.choice(SHAPES),
    }
    if chance.random() < 0.1:
        del parts[chance.choice([*parts])]
    if chance.random() < 0.05:
        parts[str(chance.choice(KEYS))] = chance.choice(DESCRIPTIONS)
    text = "{" + ", ".join(f"{k!r}: {v}" for k, v in parts.items()) + "}"
    if chance.random() < 0.1:
        text = chance.choice(
            [
                "(" * 3000,
                "",
                "[",
                "'",
                "\0",
                "None",
                "{" * 150,
                "1_0",
                "\\",
                text[:-1],
                text + text,
                "lambda: 0",
                "9" * 5000,
            ]
        )
    return text.encode() + b" " * chance.randrange(3) + b"\n" * (chance.random() < 0.9)


def npy(chance: random.Random) -> bytes:
    """A .npy file, or nearly."""
    version = chance.choice([(1, 0)] * 8 + [(2, 0), (3, 0), (0, 0), (1, 1), (255, 255)])
    text = header(chance)
    length = len(text) if chance.random() < 0.9 else chance.choice([0, 1, len(text) - 1, len(text) + 1, 65535])
    count = struct.pack("<H", length % 65536) if version[0] == 1 else struct.pack("<I", max(0, length))
    body = bytes(chance.choice([24, 24, 24, 3, 0, 23, 25, 48, 12, 6]))
    data = b"\x93NUMPY" + bytes(version) + count + text + body
    return damaged(data, chance) if chance.random() < 0.2 else data


def damaged(data: bytes, chance: random.Random) -> bytes:
    """The bytes cut, extended, or with some of them changed."""
    out = bytearray(data)
    for _ in range(chance.choice([1, 1, 1, 3, 10])):
        at = chance.randrange(len(out) + 1)
        match chance.randrange(5):
            case 0:
                del out[at:]
            case 1:
                del out[at : at + chance.randrange(1, 9)]
            case 2:
                out[at:at] = chance.randbytes(chance.randrange(1, 9))
            case _ if at < len(out):
                out[at] = chance.choice([0, 255, out[at] ^ 1 << chance.randrange(8), chance.randrange(256)])
    return bytes(out)


def npz(chance: random.Random) -> bytes:
    """A .npz file, or nearly: its members whole or not, packed by any method, then damaged."""
    methods = [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA]
    names = [
        "x.npy",
        "y.npy",
        "retrograd.steps.npy",
        "x",
        "../x.npy",
        ".npy",
        "",
        "x.npy/",
        "é.npy",
        "x.words.npy",
        "x.format.npy",
    ]
    stream = io.BytesIO()
    import warnings

    with zipfile.ZipFile(stream, "w") as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a name twice
        for _ in range(chance.choice([0, 1, 1, 1, 2, 3])):
            member = io.BytesIO()
            np.save(member, np.array([1.5, 2.5, 3.5]))
            data = member.getvalue() if chance.random() < 0.6 else npy(chance)
            name = "x.npy" if chance.random() < 0.6 else chance.choice(names)
            archive.writestr(zipfile.ZipInfo(name), data, chance.choice(methods))
    data = stream.getvalue()
    return damaged(data, chance) if chance.random() < 0.6 else data


FUNCTION = """\
from retrograd import Array, fixed, reversible


@reversible
def f(x: fixed):
    x += 1.0


@reversible
def g(x: Array[fixed, "n"]):
    for i in range(len(x)):
        x[i] += 1.0


@reversible
def h(n: int, x: Array[int, 3]):
    n += x[0]
"""


def quietly(*words: str) -> int:
    """The command in this process, without what it prints. Any error that it does not show itself is raised here."""
    # Streams with a `buffer`, as those of a process have: `lsp` and `dap` write bytes.
    shown = io.TextIOWrapper(io.BytesIO(), "utf-8", "backslashreplace", write_through=True)
    with contextlib.redirect_stdout(shown), contextlib.redirect_stderr(io.StringIO()):
        try:
            return main(words)
        except SystemExit as stop:
            return stop.code if isinstance(stop.code, int) else 1


def fuzz_arrays(folder: Path, first: int, count: int) -> Counter[str]:
    """Files one after the other, each to the reader; one of ten to the commands that read it, too."""
    codes: Counter[str] = Counter()
    for k in range(first, first + count):
        chance = random.Random(f"array {k}")
        single = chance.random() < 0.6
        path = folder / ("x.npy" if single else "x.npz")
        data = npy(chance) if single else npz(chance)
        path.write_bytes(data)
        with command(Limits(expanded=1 << 24)):
            codes[tried(f"array {k}", data, read_whole, path)] += 1
        if k % 10 == 0:
            place = str(folder / "f.py")
            words = [f"{place}:g", f"@{path}"] if single else [f"{place}:f", "--batch", str(path)]
            tried(f"array {k}", data, quietly, "run", *words, "--max-steps", "500", "--engine", "reference")
    return codes


def read_whole(path: Path) -> None:
    """The reader keeps what it promises."""
    found = read_array(str(path)) if path.suffix == ".npy" else read_arrays(str(path))
    for array in found.values() if isinstance(found, dict) else [found]:
        assert isinstance(array, np.ndarray)
        assert array.dtype.kind in "biufcUS"
        assert not array.dtype.hasobject
        array.tolist()


@pytest.fixture
def ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to stand in, with a program, a function and arrays."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RETROGRAD_CACHE", "")
    (tmp_path / "f.py").write_text(FUNCTION)
    (tmp_path / "p.rga").write_text(".memory 8\n.data\nx: .word 1, 2\n.text\nstart\nadd r1, 5\nfinish\n")
    np.save(tmp_path / "x.npy", np.array([1.5, 2.5, 3.5]))
    np.savez(tmp_path / "x.npz", x=np.array([1.5, 2.5, 3.5]))
    return tmp_path


def test_arrays(ready: Path) -> None:
    codes = fuzz_arrays(ready, 0, QUICK)
    assert {*codes} <= {"", "RG0504", "RG0514"}
    assert codes[""] > QUICK // 20
    assert codes["RG0504"] > QUICK // 4


@pytest.mark.long
@pytest.mark.parametrize("first", range(QUICK, QUICK + SLOW, PIECE))
def test_many_arrays(ready: Path, first: int) -> None:
    fuzz_arrays(ready, first, PIECE)


#: files that once ended in a traceback
FORMER = {
    "no descr": b"{'descr': (), 'fortran_order': False, 'shape': (3,), }\n",
    "shape of truth": b"{'descr': '<f8', 'fortran_order': False, 'shape': (True,), }\n",
    "void": b"{'descr': '|V0', 'fortran_order': False, 'shape': (3,), }\n",
    "no dtype": b"{'descr': None, 'fortran_order': False, 'shape': (3,), }\n",
    "no key": b"{}\n",
}


@pytest.mark.parametrize("name", FORMER)
def test_arrays_that_were_not_refused(ready: Path, name: str) -> None:
    data = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(FORMER[name])) + FORMER[name] + bytes(8)
    Path("x.npy").write_bytes(data)
    with zipfile.ZipFile("x.npz", "w") as archive:
        archive.writestr("x.npy", data)
    for words in (["p.rga", "--mem", "x.npy"], ["f.py:g", "@x.npy"], ["f.py:f", "--batch", "x.npz"]):
        assert tried(name, data, quietly, "run", *words) == ""
        assert quietly("run", *words) == 2


def test_members_packed_by_lzma(ready: Path) -> None:
    """Whole or damaged: numpy does not write them, and they unpack without a bound."""
    with zipfile.ZipFile("x.npz", "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("x.npy", Path("x.npy").read_bytes())
    data = Path("x.npz").read_bytes()
    for at in range(0, len(data), 7):
        Path("x.npz").write_bytes(data[:at] + bytes([data[at] ^ 85]) + data[at + 1 :])
        assert tried(str(at), data, read_arrays, "x.npz") == "RG0504"


# ---------------------------------------------------------------------- documents


@functools.cache
def documents() -> dict[str, str]:
    """Documents that commands read, by name."""
    figures = (ROOT / "docs" / "benchmarks" / "figures.json").read_text(encoding="utf-8")
    document = json.loads(figures)
    document["workloads"] = document["workloads"][:2]  # enough of each kind, at a tenth of the time
    return {
        "figures": json.dumps(document),
        "gates": (ROOT / "hdl" / "flow" / "gates_32_16.json").read_text(encoding="utf-8"),
    }


ODD = [
    None,
    True,
    False,
    0,
    -1,
    1e308,
    float("nan"),
    float("inf"),
    -0.0,
    10**400,
    "",
    "x",
    "\0",
    [],
    {},
    [[]],
    {"": None},
    "9" * 99,
    2**64,
]


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """(container, key) of everything in a document."""
    items = (
        list(value.items()) if isinstance(value, dict) else list(enumerate(value)) if isinstance(value, list) else []
    )
    for key, inner in items:
        yield value, key
        yield from places(inner)


def document(name: str, chance: random.Random) -> bytes:
    """A document with some of its values changed, exchanged or gone; or its text damaged."""
    text = documents()[name]
    if chance.random() < 0.15:
        return damaged(text.encode(), chance)
    value = json.loads(text)
    for _ in range(chance.choice([1, 1, 2, 5])):
        container, key = chance.choice(list(places(value)))
        match chance.randrange(6):
            case 0:
                del container[key]
            case 1:
                other, its = chance.choice(list(places(value)))
                container[key] = json.loads(json.dumps(other[its]))
            case 2 if isinstance(container, dict):
                container[chance.choice(["", "name", "x", str(key) + "s"])] = container.pop(key)
            case _:
                # A copy: later changes go into this document alone.
                container[key] = deepcopy(chance.choice(ODD))
    return json.dumps(value).encode()


def use(name: str, path: Path) -> None:
    """What commands do with a document."""
    if name == "gates":
        load_gates(path).cells()
        return
    good = json.loads(documents()["figures"])
    found = reporting.read(path)
    reporting.compare(good, found)
    reporting.compare(found, good)


def fuzz_documents(folder: Path, first: int, count: int) -> Counter[str]:
    codes: Counter[str] = Counter()
    path = folder / "document.json"
    for k in range(first, first + count):
        chance = random.Random(f"document {k}")
        name = "figures" if chance.random() < 0.5 else "gates"
        data = document(name, chance)
        path.write_bytes(data)

        codes[name + tried(f"document {k}", data, use, name, path)] += 1
        if k % 20 == 0:
            words = (
                ["bench", "--from", str(path), "--json", "-"]
                if name == "figures"
                else ["energy", "p.rga", "--gates", str(path)]
            )
            tried(f"document {k}", data, quietly, *words)
    return codes


def test_documents(ready: Path) -> None:
    codes = fuzz_documents(ready, 0, QUICK)
    assert {*codes} >= {"figures", "figuresRG1203", "gates", "gatesRG1110"}


@pytest.mark.long
@pytest.mark.parametrize("first", range(QUICK, QUICK + SLOW, PIECE))
def test_many_documents(ready: Path, first: int) -> None:
    fuzz_documents(ready, first, PIECE)


# ---------------------------------------------------------------------- command lines

WORDS = [
    "f.py:f", "f.py:g", "f.py:h", "f.py:~f", "f.py", "f.py:", "f.py:none", "p.rga", "none.rga", ".", "/", "-", "", " ", "\0", "\ud800", "é", "1.0", "1",
    "-1", "nan", "inf", "1e999", "9" * 400, "[1.0, 2.0]", "[1, [2]]", "[]", "()", "{}", "'text'", "x=1.0", "x=", "=1", "n=1", "word(5)", "word(-1)",
    "word(1e9)", "word(" + "9" * 30 + ")", "1" + "0" * 500, "__import__('os')", "@x.npy", "@", "@none.npy", "@.", "True", "None", "1j", "b'x'", "...", "[1,",
    "(" * 300, "-" * 300, "x" * 5000, "x.npy", "x.npz", "x=x.npy", "0=x.npy", "x:2=out.txt", "0:99=out.txt", ":=", "=", "x=x.npy,npyq", "r1=5",
    "r1=", "r256=1", "r1=1<<99", "r1='", "x=1.5q", "Q16.16", "32,16", "64,64", "Q0.0", "Q", ",", "0", "2", "1000", "0x10", "1_000", "2.5", "64K",
    "--", "--json", "-h", "--help", "-o", "out.npz", "out.txt", "no/out", "landauer", "cmos45,aqfp", "4.2K", "-4K", "1e400K", "5GHz", "x.svg", "auto",
    "reference", "resistance=10kohm", "a:b:c", "mul", "RG0101", "all", "llvm", "causes", "energy", "sm_80", "add", "0:1:2K", "'1.0", "1.0 2.0", "٣",
]  # fmt: skip
#: commands that take minutes, measure, or start processes; the options that would make others do so
SKIPPED = {"bench", "hdl", "demo", "devices"}
SLOW_OPTIONS = {"--workers", "--scheduler", "--engine", "--plot", "--plot-kind", "--store", "--emit"}


@functools.cache
def grammar() -> dict[str, list[argparse.Action]]:
    (commands,) = (action for action in parser()._actions if isinstance(action, argparse._SubParsersAction))
    return {name: p.filled()._actions for name, p in commands.choices.items() if name not in SKIPPED}


def command_line(chance: random.Random) -> list[str]:
    """A command with its own options, some of whose values are right."""
    name = chance.choice([*grammar()])
    actions = grammar()[name]
    words = [name]
    if chance.random() < 0.85:
        first = {"asm": "p.rga", "dis": "p.rga", "verify": "p.rga", "isa": "mul", "explain": "RG0101"}.get(name)
        words.append(first or chance.choice(["f.py:f", "f.py:g", "f.py:h", "p.rga"]))
    if chance.random() < 0.5 and ":" in words[-1]:
        words.append(chance.choice(["1.0", "[1.0, 2.0]", "@x.npy", *WORDS]))
    for _ in range(chance.choice([0, 1, 1, 2, 3, 5])):
        options = [a for a in actions if a.option_strings and not {*a.option_strings} & SLOW_OPTIONS]
        action = chance.choice(options)
        words.append(chance.choice(action.option_strings))
        if action.nargs != 0 and chance.random() < 0.95:
            words.append(
                chance.choice([*map(str, action.choices)] if action.choices and chance.random() < 0.5 else WORDS)
            )
        if chance.random() < 0.1:
            words.append(chance.choice(WORDS))
    if chance.random() < 0.1:
        chance.shuffle(words)
    return [*words, "--max-steps", "300"] if name in ("run", "energy", "sweep") and chance.random() < 0.9 else words


def counted(codes: Counter[int], words: list[str]) -> None:
    codes[quietly(*words)] += 1


def fuzz_command_lines(folder: Path, first: int, count: int) -> Counter[int]:
    codes: Counter[int] = Counter()
    kept = {name: (folder / name).read_bytes() for name in ("f.py", "p.rga", "x.npy", "x.npz")}
    for k in range(first, first + count):
        words = command_line(random.Random(f"command line {k}"))

        assert tried(f"command line {k}", words, counted, codes, words) == "", words
        for name, data in kept.items():
            if (folder / name).read_bytes() != data:
                # Named as an output, and no input of that command.
                (folder / name).write_bytes(data)
        assert not list(folder.glob(".retrograd-*")), words
    return codes


def test_command_lines(ready: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"start\nfinish\n")))
    codes = fuzz_command_lines(ready, 0, QUICK)
    assert {*codes} <= {0, 2, 3, 4}
    assert codes[0] > QUICK // 20
    assert codes[2] > QUICK // 4


@pytest.mark.parametrize("folder", ["\0", "\ud800", "loop"])
def test_folders_that_are_none(ready: Path, folder: str) -> None:
    (ready / "loop").symlink_to("loop")
    assert tried(folder, folder, quietly, "dis", "p.rga", "-I", folder) == ""


@pytest.mark.long
@pytest.mark.parametrize("first", range(QUICK, QUICK + SLOW, PIECE))
def test_many_command_lines(ready: Path, first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"start\nfinish\n")))
    fuzz_command_lines(ready, first, PIECE)


# ---------------------------------------------------------------------- the fuzzers can fail


def test_a_planted_fault_is_found(ready: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("retrograd.cli.arguments.DAMAGED", (ValueError, EOFError, zipfile.BadZipFile))
    with pytest.raises(AssertionError, match=r"array \d+: \w+Error"):
        fuzz_arrays(ready, 0, QUICK)
