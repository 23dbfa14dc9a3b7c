"""Nothing untrusted raises anything but our own errors, or hangs: texts and images of every degree of damage.

The default tier takes some hundreds of inputs; the full one 10⁵ of each kind.
"""

from __future__ import annotations

import random
import re
import signal
import struct
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from retrograd.assembler import directives, image
from retrograd.assembler.verify import findings
from support import generator

import retrograd as rg

#: seconds of processor time that no input may take: a guard against hanging, not a measure of speed
LIMIT = 2.0
QUICK, SLOW, PIECE = 250, 100_000, 2500

SEEDS = [
    "start\nadd r1, 5\nmul.add r2, r1, r1\nfinish\n",
    """.format 32, 16
.memory 40
.equ N, 5 * (2 + 1)
.reg acc, r9
.data
table: .word 1, 2, 'a', 0x1f, 1.5q, N, table + 1
       .zero 4
text:  .ascii "hello; \\"x\\" \\n"
.label end, 40
.label "a \\"b\\"; c", text + 1
.text
main:  start
       add acc, N        ; comment
top:   from.ne r1, r0, bottom
       ld.add r3, [r1 + table]
       exch r4, [acc - 2]
       push r3, r10
       pop r3, r10
       add r1, 1
bottom: goto.ne r1, r2, top
       call f
       uncall f
       finish
       proc f, r20, r21
a:     goto.gt r5, r6, b
       xor r7, 0x123456
b:     from.gt r5, r6, a
       endproc
""",
    "proc f, r1\nrol r2, 3\nendproc\nstart\ncall f\nadd r1, 0x123456789abcdef0\ngoto .+1\nfrom .-1\nfinish",
    '.include "other.rga"\nstart\nerase r1\nassertz r1\ncswap r1, r2, r3\nfinish',
]
TOKENS = [
    *(o.name for o in rg.TABLE), "add", "sub", "xor", "fadd", "goto.gt", "from.leu", "push", "pop", "proc", "endproc",
    ".equ", ".reg", ".format", ".memory", ".data", ".text", ".word", ".zero", ".ascii", ".label", ".include", ".x", ".", "r0",
    "r1", "r255", "r256", "r", "x", "y", "x:", "y:", "L.1", "_", ",", ",", ",", "[", "]", "[r1]", "[r1 + 2]", "(", ")",
    "+", "-", "*", "/", "%", "<<", ">>", "&", "|", "^", "~", "0", "1", "-1", "64", "32", "8", "0x", "0xff", "0b1", "1q",
    "1.5q", "1e99q", "9" * 30, "99999999", "1<<63", "'a'", "'", "''", "'\\n'", '"', '"s"', '"\\', "\\", ";", ":", "\n",
    "\n", "\n", "\t", " ", "\r\n", "é", "٣", "\u2028", "\x0b", "\x00", "\ud800", ".+1", ".-1", ".+99999999999", "@",
]  # fmt: skip


class Hangs(Exception):
    """An input took longer than any may."""


@contextmanager
def limited(what: object) -> Iterator[None]:
    """Interrupt what takes more than LIMIT seconds of this process's own time, so that a busy machine fails nothing."""

    def stop(number: int, frame: object) -> None:
        raise Hangs

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, LIMIT)
    try:
        yield
    except Hangs:
        pytest.fail(f"takes more than {LIMIT} s: {str(what)[:2000]!r}")
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def checked(act: Callable[[], object], what: object) -> object:
    """The result, or the RetrogradError; anything else fails and shows the input."""
    with limited(what):
        try:
            return act()
        except rg.RetrogradError as error:
            str(error)
            return error
        except Exception as error:
            error.add_note(f"input: {str(what)[:2000]!r}")
            raise


def execute(program: rg.Program) -> None:
    """Verify, and run for a while, forward and back."""
    findings(program, strict=True)
    rg.verify(program)
    machine = rg.Machine(program, memory_limit=1 << 12)
    initial = machine.state()
    trapped: rg.Trap | None = None
    try:
        machine.run(1000)
    except rg.Trap as trap:
        trapped = trap
    try:
        machine.run_back(1000)
        if machine.retired < 1000:
            assert machine.state() == initial
    except rg.Trap as trap:
        # Only an erase cannot be taken back.
        if trap.code != "RG0409":
            raise AssertionError(f"trapped backward: {trap}") from trapped


def try_text(text: str) -> object:
    """Assemble, without and with the verifier; what comes out is written and read again, and run."""
    result = checked(lambda: rg.assemble(text, check=False), text)
    if isinstance(result, rg.Program):
        checked(lambda: rg.verify(result), text)
        checked(lambda: rg.disassemble(result), text)
        checked(lambda: rg.from_image(rg.to_image(result)), text)
        checked(lambda: execute(result), text)
    return result


def try_image(data: bytes) -> object:
    result = checked(lambda: rg.from_image(data), data)
    if isinstance(result, rg.Program):
        checked(lambda: rg.disassemble(result), data)
        checked(lambda: execute(result), data)
        checked(lambda: execute(~result), data)
        # The memory is at least that of the data, whatever an image says; but for that it is the same image.
        again = checked(lambda: rg.from_image(rg.to_image(result)), data)
        assert again == result
    return result


# ------------------------------------------------------------ texts


def mutated(rng: random.Random, generated: Callable[[int], str]) -> str:
    """A valid text with some characters, tokens or lines changed."""
    text = rng.choice(SEEDS) if rng.random() < 0.6 else generated(rng.randrange(300))
    for _ in range(rng.randint(1, 4)):
        kind = rng.randrange(7)
        at = rng.randrange(len(text) + 1)
        lines = text.split("\n")
        i, j = rng.randrange(len(lines)), rng.randrange(len(lines))
        match kind:
            case 0:
                text = text[:at] + text[at + rng.randint(1, 3) :]
            case 1:
                text = text[:at] + chr(rng.choice((rng.randrange(128), rng.randrange(0x3000)))) + text[at:]
            case 2:
                text = text[:at] + rng.choice(TOKENS) + text[at:]
            case 3:
                lines[i], lines[j] = lines[j], lines[i]
                text = "\n".join(lines)
            case 4:
                text = "\n".join([*lines[:i], lines[j], *lines[i:]])
            case 5:
                words = lines[i].split(" ")
                words[rng.randrange(len(words))] = rng.choice(TOKENS)
                text = "\n".join([*lines[:i], " ".join(words), *lines[i + 1 :]])
            case 6:
                text = text[: at + 1] + text[at : at + rng.randint(1, 20)] * rng.randint(1, 3) + text[at + 1 :]
    return text


def soup(rng: random.Random, generated: Callable[[int], str]) -> str:
    """Tokens in a row; half of them as lines that are almost instructions."""
    if rng.random() < 0.5:
        return "".join(rng.choice(TOKENS) + rng.choice(("", " ", " ", "\n")) for _ in range(rng.randint(1, 60)))
    out = ["start"]
    names = list(rg.TABLE.by_name)
    for _ in range(rng.randint(1, 20)):
        operands = ", ".join(
            rng.choice(("r1", "r2", "r3", "5", "-1", "[r1]", "[r2 + 1]", ".+1", ".-1", ".+2", "x"))
            for _ in range(rng.randint(0, 3))
        )
        out.append(f"{rng.choice(names)} {operands}")
    return "\n".join([*out, rng.choice(("x:", "")), "finish"])


def noise(rng: random.Random, generated: Callable[[int], str]) -> str:
    """Bytes as text, in one way or another."""
    data = rng.randbytes(rng.randint(0, 120))
    return data.decode(rng.choice(("latin-1", "utf-16-le", "utf-8", "ascii")), rng.choice(("replace", "ignore")))


TEXTS = {"mutated": mutated, "soup": soup, "noise": noise}


@pytest.fixture(scope="module")
def generated() -> Callable[[int], str]:
    """Random programs as texts, each made once."""
    known: dict[int, str] = {}

    def text(seed: int) -> str:
        if seed not in known:
            known[seed] = rg.disassemble(generator.generate(seed, sizes=(4, 20)).program)
        return known[seed]

    return text


def fuzz_texts(kind: str, first: int, count: int, generated: Callable[[int], str]) -> int:
    """How many of the texts were programs."""
    good = 0
    for seed in range(first, first + count):
        good += isinstance(try_text(TEXTS[kind](random.Random(seed), generated)), rg.Program)
    return good


@pytest.mark.parametrize("kind", TEXTS)
def test_texts(kind: str, generated: Callable[[int], str]) -> None:
    good = fuzz_texts(kind, 0, QUICK, generated)
    # Some mutations change nothing that matters, most do.
    assert {"mutated": QUICK // 50 < good < QUICK // 2, "soup": good < QUICK // 2, "noise": True}[kind]


@pytest.mark.long
@pytest.mark.parametrize("first", range(0, SLOW, PIECE))
@pytest.mark.parametrize("kind", TEXTS)
def test_many_texts(kind: str, first: int, generated: Callable[[int], str]) -> None:
    fuzz_texts(kind, QUICK + first, PIECE, generated)


HARD = {
    "nested parentheses": "add r1, " + "(" * 100_000,
    "nested minus": "add r1, " + "-" * 100_000 + "1",
    "a long number": "add r1, " + "9" * 1_000_000,
    "a long hexadecimal": "add r1, 0x" + "f" * 1_000_000,
    "a long literal": "add r1, " + "1" * 100_000 + "q",
    "a deep exponent": "add r1, 1e999999999999999999q",
    "products": ".equ a, 1 << 4000\n.data\n.word " + " * ".join(["a"] * 1000),
    "shifts": ".data\n.word " + " << 4096" * 1000,
    "a long line": "add r1, r2" + " " * 1_000_000 + "x",
    "spaces and a bracket": "ld.add r1, [r2 + " + " " * 20_000 + "x",
    "spaces in brackets": "ld.add r1, [r2 " + " " * 20_000 + "]" * 2,
    "spaces before a comma": "mul.add r1" + " " * 20_000 + "x" + " " * 20_000 + ", r2, r3",
    "spaces between operands": "neg r1" + " " * 50_000 + "\v",
    "many commas": "add " + "," * 100_000,
    "many words": ".data\n.word " + "1," * 200_000,
    "a long name": "a" * 1_000_000 + ":\nstart\nfinish",
    "a long unknown mnemonic": "q" * 100_000 + " r1",
    "dots": "a" + "." * 100_000 + "b",
    "quotes": '.data\n.ascii "' + '\\"' * 100_000,
    "a string without end": '.data\n.ascii "' + "\\" * 99_999,
    "characters": "add r1, " + "'" * 100_000,
    "semicolons in quotes": "add r1, '" + ";" * 100_000,
    "many errors": "x y z\n" * 20_000,
    "many unknown symbols": "".join(f"add r1, u{k}\n" for k in range(5000)),
    "many labels": "start\n" + "".join(f"l{k}:\n" for k in range(50_000)) + "finish",
    "many names near one another": "".join(f".equ name{k}, {k}\n" for k in range(3000)) + "add r1, nane\n" * 60,
    "an expression of many terms": "add r1, " + "1 + " * 50_000 + "1",
    "much memory": ".memory 67108864\nstart\nfinish",
    "much more memory": ".memory 1 << 4000",
    "zeros": ".data\n" + ".zero 67108865\n" * 3,
    "only newlines": "\n" * 500_000,
    "carriage returns": "\r" * 500_000,
    "form feeds": "start" + "\f" * 100_000 + "x",
}


@pytest.mark.parametrize("name", HARD)
def test_texts_made_to_be_hard(name: str) -> None:
    result = checked(lambda: rg.assemble(HARD[name], check=False), name)
    assert isinstance(result, rg.RetrogradError) or name in {
        "a long name", "many labels", "an expression of many terms", "much memory", "only newlines", "carriage returns",
        "spaces between operands",
    }  # fmt: skip


# ------------------------------------------------------------ images


def image_of(rng: random.Random) -> bytes:
    """An image with labels and sources, or one of a random program, which has none."""
    if rng.random() < 0.5:
        return rg.to_image(rg.assemble(rng.choice(SEEDS[:-1])))
    return rg.to_image(generator.generate(rng.randrange(200), sizes=(4, 20)).program)


def signed(body: bytes) -> bytes:
    return body + struct.pack("<I", zlib.crc32(body))


def damaged(rng: random.Random) -> bytes:
    """Bytes changed, cut or added; the checksum is that of what they have become."""
    body = bytearray(image_of(rng)[:-4])
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(body))
        match rng.randrange(5):
            case 0:
                body[at] ^= 1 << rng.randrange(8)
            case 1:
                body[at] = rng.choice((0, 1, 255, 127, 128, rng.randrange(256)))
            case 2:
                del body[at : at + rng.randint(1, 16)]
                if not body:
                    return b""
            case 3:
                body[at:at] = rng.randbytes(rng.randint(1, 16))
            case 4:
                size = rng.choice((2, 4, 8))
                value = rng.choice((0, 1, 1 << 31, (1 << 64) - 1, rng.getrandbits(64))) & (1 << 8 * size) - 1
                body[at : at + size] = value.to_bytes(size, "little")
    return signed(bytes(body))


def recoded(rng: random.Random) -> bytes:
    """Every section well formed; some instructions replaced by others, legal or not."""
    data = image_of(rng)
    (length,) = struct.unpack_from("<Q", data, 28)
    body = bytearray(data[:-4])
    opcodes = list(rg.TABLE)
    for _ in range(rng.randint(1, 3)):
        at = 36 + 8 * rng.randrange(length // 8)
        (word,) = struct.unpack_from("<Q", body, at)
        match rng.randrange(4):
            case 0:
                opcode = rng.choice(opcodes)
                fields = {"rd": 1, "ra": 2, "rb": 3, "imm": rng.choice((0, 1, -1, 2, 3, -4))}
                word = rg.encode(rg.Instruction(opcode, **{f: v for f, v in fields.items() if f in opcode.fields}))
            case 1:
                word ^= 1 << rng.randrange(64)
            case 2:
                word = rng.getrandbits(64)
            case 3:
                other = 36 + 8 * rng.randrange(length // 8)
                (word,) = struct.unpack_from("<Q", body, other)
        struct.pack_into("<Q", body, at, word)
    return signed(bytes(body))


def random_bytes(rng: random.Random) -> bytes:
    """A right beginning, and anything after it."""
    start = b"\x89RGX\r\n\x1a\n" + struct.pack("<HBBQI", 1, 64, 32, 0, 5)
    return signed(start[: rng.choice((0, 8, 10, 24))] + rng.randbytes(rng.randint(0, 100)))


IMAGES = {"damaged": damaged, "recoded": recoded, "random": random_bytes}


def fuzz_images(kind: str, first: int, count: int) -> list[object]:
    return [try_image(IMAGES[kind](random.Random(seed))) for seed in range(first, first + count)]


def outcomes(results: list[object]) -> set[str]:
    return {result.code if isinstance(result, rg.RetrogradError) else "program" for result in results}


def test_images_reach_every_error() -> None:
    results = fuzz_images("damaged", 0, QUICK) + fuzz_images("random", 0, QUICK)
    # All but the checksum, which is right here.
    assert outcomes(results) >= {"program", "RG0301", "RG0302", "RG0303", "RG0305", "RG0306", "RG0307"}
    assert "RG0304" not in outcomes(results)


def test_images_with_other_instructions() -> None:
    results = fuzz_images("recoded", 0, QUICK)
    assert outcomes(results) == {"program", "RG0306"}
    assert sum(isinstance(result, rg.Program) for result in results) > QUICK // 3


@pytest.mark.long
@pytest.mark.parametrize("first", range(0, SLOW, PIECE))
@pytest.mark.parametrize("kind", ["damaged", "recoded"])
def test_many_images(kind: str, first: int) -> None:
    fuzz_images(kind, QUICK + first, PIECE // 2)


# ------------------------------------------------------------ the fuzzers can fail


def test_a_planted_error_is_found(monkeypatch: pytest.MonkeyPatch, generated: Callable[[int], str]) -> None:
    def apply(op: str, x: int, y: int, at: int) -> int:
        return x // y if op == "/" else x

    monkeypatch.setattr(directives, "_apply", apply)
    with pytest.raises(ZeroDivisionError, match="division or modulo"):
        try_text("add r1, 1 / 0")


def test_a_planted_hang_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "LIMIT", 0.2)

    def hang() -> None:
        while True:
            pass

    with pytest.raises(pytest.fail.Exception, match="takes more than"):
        checked(hang, "x")
    # In a regular expression too, which runs no Python.
    with pytest.raises(pytest.fail.Exception, match="takes more than"):
        checked(lambda: re.match("(a|a)*b", "a" * 40), "x")


def test_a_planted_fault_of_the_images_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def careless(body: memoryview, at: int, length: int, tag: bytes) -> tuple[str, int]:
        return bytes(body[at : at + length]).decode(), at + length

    monkeypatch.setattr(image, "_read_text", careless)
    with pytest.raises((UnicodeDecodeError, struct.error)):
        fuzz_images("damaged", 0, 10 * QUICK)
