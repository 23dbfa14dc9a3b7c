"""The example programs against independent Python, in every direction, and copies with a fault in them."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import chain, groupby
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import retrograd as rg

EXAMPLES = Path(__file__).parents[2] / "examples"
WORD = 1 << 64
MESSAGE = (EXAMPLES / "message.txt").read_bytes()

#: data label -> words loaded there
Data = dict[str, list[int]]


@dataclass(frozen=True)
class Refusal:
    """Inputs that must trap with this code, forward, or backward from `finish`."""

    code: str
    data: Data
    backward: bool = False


@dataclass(frozen=True)
class Example:
    """A program, what it should do, and inputs to try it on."""

    name: str
    #: the words that the program changes, computed without it
    answer: Callable[[Data], Data]
    inputs: st.SearchStrategy[Data]
    goldens: tuple[tuple[Data, Data], ...]
    refusals: tuple[Refusal, ...] = ()
    #: a constant of the program and a smaller one, so that many runs are quick
    shrink: tuple[str, str] = ("", "")

    @property
    def full_text(self) -> str:
        return (EXAMPLES / f"{self.name}.rga").read_text(encoding="utf-8")

    @property
    def text(self) -> str:
        assert self.shrink[0] in self.full_text
        return self.full_text.replace(*self.shrink)


@cache
def assembled(text: str) -> rg.Program:
    program = rg.assemble(text)
    assert rg.verify(program, strict=True) == []
    return program


def image(program: rg.Program, *blocks: Data) -> list[int]:
    """The program's memory with blocks of data laid over it."""
    words = list(program.data) + [0] * (program.memory - len(program.data))
    for name, values in chain.from_iterable(block.items() for block in blocks):
        at = program.data_labels[name]
        words[at : at + len(values)] = [value & program.format.mask for value in values]
    assert len(words) == program.memory
    return words


def machine_with(program: rg.Program, memory: list[int], *, backward: bool = False) -> rg.Machine:
    machine = rg.Machine(program, backward=backward, strict=True)
    machine.load(0, memory)
    return machine


def ends_with(machine: rg.Machine, memory: list[int], max_steps: int | None) -> int:
    """Run to the end, which leaves this memory and nothing else; the number of steps."""
    outcome = machine.run(max_steps)
    assert outcome.stop is rg.Stop.HALTED
    assert machine.at_end
    assert machine.memory == memory
    assert not any(machine.registers)
    assert machine.br == 0
    assert machine.erased_bits == 0
    return outcome.steps


def check(program: rg.Program, data: Data, answer: Data, *, pause: int = 0, max_steps: int | None = None) -> int:
    """Every law of an example on one input; the number of steps that it takes."""
    before, after = image(program, data), image(program, data, answer)

    machine = machine_with(program, before)
    begun = machine.state()
    steps = ends_with(machine, after, max_steps)
    machine.run_back()
    assert machine.state() == begun

    # Stop somewhere on the way, and go back from there.
    machine.run(pause % (steps + 1))
    machine.run_back()
    assert machine.state() == begun

    # The same code from the end to the beginning; and the inverse program, forward.
    ends_with(machine_with(program, after, backward=True), before, max_steps)
    ends_with(machine_with(~program, after), before, max_steps)
    return steps


def check_refusal(program: rg.Program, refusal: Refusal) -> None:
    """It traps with the code, and runs back to where it began."""
    machine = machine_with(program, image(program, refusal.data), backward=refusal.backward)
    begun = machine.state()
    with pytest.raises(rg.Trap) as caught:
        machine.run(100_000)
    assert caught.value.diagnostics[0].code == refusal.code
    machine.run_back()
    assert machine.state() == begun


# ---------------------------------------------------------------- the answers, without the programs


def root_of(data: Data) -> Data:
    return {"root": [data["root"][0] + math.isqrt(data["n"][0])]}


def fibonacci_of(data: Data) -> Data:
    f = [0, 1]
    while len(f) <= data["n"][0]:
        f.append(f[-1] + f[-2])
    return {"fib": [data["fib"][0] + f[data["n"][0]]]}


def runs_of(data: Data) -> Data:
    runs = [(byte, len(list(group))) for byte, group in groupby(data["text"])]
    return {
        "length": [0],
        "text": [0] * len(data["text"]),
        "number": [len(runs)],
        "runs": [word for run in runs for word in run],
    }


def sorted_of(data: Data) -> Data:
    ordered = sorted((key, i) for i, key in enumerate(data["keys"]))
    return {"keys": [key for key, _ in ordered], "perm": [i for _, i in ordered]}


def xtea(block: bytes, key: bytes) -> bytes:
    """One block, after the routine that Needham and Wheeler published."""
    y, z = struct.unpack(">2L", block)
    k = struct.unpack(">4L", key)
    total, mask = 0, 0xFFFFFFFF
    for _ in range(32):
        y = (y + ((((z << 4) ^ (z >> 5)) + z) ^ (total + k[total & 3]))) & mask
        total = (total + 0x9E3779B9) & mask
        z = (z + ((((y << 4) ^ (y >> 5)) + y) ^ (total + k[(total >> 11) & 3]))) & mask
    return struct.pack(">2L", y, z)


def words_of(data: bytes) -> list[int]:
    return [word for (word,) in struct.iter_unpack(">L", data)]


def cipher_of(data: Data) -> Data:
    text = struct.pack(f">{len(data['text'])}L", *data["text"])
    key = struct.pack(">4L", *data["key"])
    return {"text": words_of(b"".join(xtea(text[i : i + 8], key) for i in range(0, len(text), 8)))}


# ---------------------------------------------------------------- inputs


def root_data(n: int, root: int = 0) -> Data:
    return {"n": [n], "root": [root]}


def fibonacci_data(n: int, fib: int = 0) -> Data:
    return {"n": [n], "fib": [fib]}


def text_data(text: bytes) -> Data:
    return {"text": list(text), "length": [len(text)]}


def keys_data(keys: list[int]) -> Data:
    return {"keys": keys, "n": [len(keys)]}


def cipher_data(key: bytes, text: bytes) -> Data:
    return {"key": words_of(key), "text": words_of(text), "blocks": [len(text) // 8]}


def run_data(*runs: tuple[int, int]) -> Data:
    return {"number": [len(runs)], "runs": [word for run in runs for word in run]}


def xtea_golden(key: str, plain: str, cipher: str) -> tuple[Data, Data]:
    data = cipher_data(bytes.fromhex(key), bytes.fromhex(plain))
    return data, {"text": words_of(bytes.fromhex(cipher))}


any_word = st.integers(0, WORD - 1)
near_squares = st.builds(
    lambda root, by: min(max(root * root + by, 0), WORD - 1), st.integers(0, (1 << 32) - 1), st.integers(-2, 2)
)
long_runs = st.lists(st.tuples(st.sampled_from([0, 1, 65, 255]), st.integers(1, 60)), max_size=12).map(
    lambda runs: b"".join(bytes([byte]) * count for byte, count in runs)
)
signed = st.integers(-WORD // 2, WORD // 2 - 1)
COUNT_UP = "000102030405060708090a0b0c0d0e0f"
ZERO_KEY = "00" * 16
#: capacity of the run-length coder in most tests
SMALL = 720
LAST, FIRST = WORD // 2 - 1, -WORD // 2

ISQRT = Example(
    "isqrt",
    root_of,
    st.builds(root_data, any_word | near_squares | st.integers(0, 100), any_word),
    (
        (root_data(0), {"root": [0]}),
        (root_data(1), {"root": [1]}),
        (root_data(3), {"root": [1]}),
        (root_data(4), {"root": [2]}),
        (root_data(10**18 - 1), {"root": [10**9 - 1]}),
        (root_data(2**62 - 1), {"root": [2**31 - 1]}),
        (root_data(2**62, 5), {"root": [2**31 + 5]}),
        (root_data(2**64 - 1), {"root": [2**32 - 1]}),
    ),
)
FIBONACCI = Example(
    "fibonacci",
    fibonacci_of,
    st.builds(fibonacci_data, st.integers(0, 120), any_word),
    (
        *((fibonacci_data(n), {"fib": [f]}) for n, f in enumerate([0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55])),
        (fibonacci_data(93), {"fib": [12200160415121876738]}),
        (fibonacci_data(94, 1), {"fib": [19740274219868223168]}),
        (fibonacci_data(1023), fibonacci_of(fibonacci_data(1023))),
    ),
    (Refusal("RG0401", fibonacci_data(1024)), Refusal("RG0401", fibonacci_data(WORD - 1))),
)
RUNLENGTH = Example(
    "runlength",
    runs_of,
    st.builds(text_data, st.binary(max_size=300) | long_runs),
    (
        (text_data(b""), {"length": [0], "number": [0]}),
        (text_data(b"\0"), {"length": [0], "number": [1], "runs": [0, 1]}),
        (
            text_data(b"\xff\xff\0\0\0a\xff"),
            {"length": [0], "text": [0] * 7, "number": [4], "runs": [255, 2, 0, 3, 97, 1, 255, 1]},
        ),
    ),
    (
        Refusal("RG0407", {"length": [SMALL + 1]}),
        Refusal("RG0407", {"length": [-1]}),
        Refusal("RG0407", run_data((65, SMALL + 1)), backward=True),
        Refusal("RG0407", run_data((65, 1), (66, -3)), backward=True),
        Refusal("RG0406", run_data((65, 2), (65, 1)), backward=True),
        Refusal("RG0401", {"number": [SMALL + 1]}, backward=True),
    ),
    shrink=("CAPACITY, 65536", f"CAPACITY, {SMALL}"),
)
SORT = Example(
    "sort",
    sorted_of,
    st.builds(keys_data, st.lists(signed, max_size=24) | st.lists(st.integers(-3, 3), max_size=24)),
    (
        (keys_data([]), {}),
        (keys_data([7]), {"keys": [7], "perm": [0]}),
        (keys_data([30, -10, 20, -10]), {"keys": [-10, -10, 20, 30], "perm": [1, 3, 2, 0]}),
        (keys_data([5, 5, 5]), {"keys": [5, 5, 5], "perm": [0, 1, 2]}),
        (keys_data([LAST, FIRST, 0, FIRST]), {"keys": [FIRST, FIRST, 0, LAST], "perm": [1, 3, 2, 0]}),
    ),
    (
        Refusal("RG0407", {"n": [4097]}),
        Refusal("RG0407", {"n": [-1]}),
        Refusal("RG0407", {"n": [4097]}, backward=True),
        # not sorted; not stable; not a permutation
        Refusal("RG0406", {"n": [2], "keys": [2, 1], "perm": [0, 1]}, backward=True),
        Refusal("RG0406", {"n": [2], "keys": [1, 1], "perm": [1, 0]}, backward=True),
        Refusal("RG0401", {"n": [2], "keys": [1, 2], "perm": [0, 0]}, backward=True),
    ),
)
XTEA = Example(
    "xtea",
    cipher_of,
    st.integers(0, 3).flatmap(
        lambda n: st.builds(cipher_data, st.binary(min_size=16, max_size=16), st.binary(min_size=8 * n, max_size=8 * n))
    ),
    (
        (cipher_data(bytes(16), b""), {}),
        xtea_golden(COUNT_UP, "4142434445464748", "497df3d072612cb5"),
        xtea_golden(COUNT_UP, "4141414141414141", "e78f2d13744341d8"),
        xtea_golden(COUNT_UP, "5a5b6e278948d77f", "4141414141414141"),
        xtea_golden(ZERO_KEY, "4142434445464748", "a0390589f8b8efa5"),
        xtea_golden(ZERO_KEY, "4141414141414141", "ed23375a821a8c2d"),
        xtea_golden(ZERO_KEY, "70e1225d6e4e7655", "4141414141414141"),
        xtea_golden(COUNT_UP, "41424344454647484141414141414141", "497df3d072612cb5e78f2d13744341d8"),
    ),
    (
        Refusal("RG0407", {"blocks": [8193]}),
        Refusal("RG0407", {"blocks": [1 << 31]}),
        Refusal("RG0407", {"blocks": [8193]}, backward=True),
    ),
)
ALL = (ISQRT, FIBONACCI, RUNLENGTH, SORT, XTEA)
each_example = pytest.mark.parametrize("example", ALL, ids=lambda example: example.name)


# ---------------------------------------------------------------- tests


def check_goldens(program: rg.Program, example: Example) -> None:
    """All that is known beforehand of an example."""
    for data, answer in example.goldens:
        check(program, data, answer, pause=7, max_steps=50_000)
    for refusal in example.refusals:
        check_refusal(program, refusal)


@each_example
def test_goldens(example: Example) -> None:
    check_goldens(assembled(example.text), example)


@each_example
def test_answers_agree_with_goldens(example: Example) -> None:
    program = assembled(example.text)
    for data, answer in example.goldens:
        assert image(program, data, example.answer(data)) == image(program, data, answer)


@each_example
@settings(max_examples=40)
@given(st.data(), st.integers(0, 10**6))
def test_any_input(example: Example, draw: st.DataObject, pause: int) -> None:
    data = draw.draw(example.inputs)
    check(assembled(example.text), data, example.answer(data), pause=pause)


@each_example
def test_back_from_every_step(example: Example) -> None:
    program = assembled(example.text)
    data, _ = example.goldens[2]
    machine = machine_with(program, image(program, data))
    begun = machine.state()
    steps = machine.run().steps
    machine.run_back()
    for pause in range(0, steps, 1 + steps // 60):
        machine.run(pause)
        machine.run_back()
        assert machine.state() == begun


@pytest.mark.parametrize(
    ("example", "data", "steps"),
    [
        (RUNLENGTH, text_data(bytes(65536)), 458_803),
        (RUNLENGTH, text_data(MESSAGE), 28_638),
        (XTEA, cipher_data(bytes(range(16)), MESSAGE + bytes(-len(MESSAGE) % 8)), 215_674),
        (ISQRT, root_data(10**12), 728),
        (FIBONACCI, fibonacci_data(93), 3384),
        (SORT, keys_data(list(range(100))), 1931),
        (SORT, keys_data(list(range(100, 0, -1))), 71_231),
    ],
    ids=["one long run", "message", "cipher of the message", "root", "fibonacci", "sorted already", "sorted falling"],
)
def test_steps(example: Example, data: Data, steps: int) -> None:
    assert check(assembled(example.full_text), data, example.answer(data), pause=steps // 3) == steps


@given(st.lists(st.tuples(st.integers(0, 255), st.integers(1, 20)), min_size=1, max_size=10), st.data())
def test_neighbours_of_the_same_byte_trap(runs: list[tuple[int, int]], draw: st.DataObject) -> None:
    split = draw.draw(st.integers(0, len(runs) - 1))
    runs.insert(split, runs[split])
    check_refusal(assembled(RUNLENGTH.text), Refusal("RG0406", run_data(*runs), backward=True))


def test_capacity_of_runs() -> None:
    program = assembled(RUNLENGTH.full_text)
    check_refusal(program, Refusal("RG0407", text_data(bytes(65537))))
    check_refusal(program, Refusal("RG0407", run_data((0, 65537)), backward=True))


def test_message() -> None:
    assert 1000 < len(MESSAGE) < 2000
    assert MESSAGE.isascii()


# ---------------------------------------------------------------- the tests can fail


def test_a_full_text_needs_the_word_for_the_sentinel() -> None:
    data = text_data(bytes(SMALL))
    check(assembled(RUNLENGTH.text), data, runs_of(data))
    right, wrong = "CAPACITY + 1", "CAPACITY"
    assert right in RUNLENGTH.text
    with pytest.raises((AssertionError, rg.RetrogradError)):
        check(rg.assemble(RUNLENGTH.text.replace(right, wrong)), data, runs_of(data), max_steps=50_000)


def without_one_line(text: str) -> Iterator[tuple[int, str]]:
    """(line number, the text without that instruction) for each instruction."""
    lines = text.split("\n")
    for number, line in enumerate(lines):
        label, colon, rest = line.partition(";")[0].rpartition(":")
        word = rest.split()[:1]
        if word and not word[0].startswith(".") and word[0] not in ("start", "finish", "proc", "endproc"):
            yield number + 1, "\n".join([*lines[:number], label + colon, *lines[number + 1 :]])


def caught(text: str, example: Example) -> bool:
    try:
        check_goldens(rg.assemble(text), example)
    except (AssertionError, rg.RetrogradError, pytest.fail.Exception):
        return True
    return False


@each_example
def test_every_instruction_matters(example: Example) -> None:
    missed = [number for number, text in without_one_line(example.text) if not caught(text, example)]
    assert missed == []


@pytest.mark.parametrize(
    ("example", "right", "wrong"),
    [
        (ISQRT, "sltu.add above", "slt.add above"),
        (ISQRT, "1 << 31", "1 << 30"),
        (FIBONACCI, "add     b, 1", "add     b, 2"),
        (FIBONACCI, "DEPTH, 1024", "DEPTH, 1023"),
        (RUNLENGTH, "from.ne count, zero", "from.ne next, zero"),
        (SORT, "goto.le before", "goto.lt before"),
        (SORT, "goto.le before", "goto.leu before"),
        (SORT, "-0x8000000000000000", "-0x7fffffffffffffff"),
        (XTEA, "right, 5", "right, 6"),
        (XTEA, "sum, 11", "sum, 10"),
        (XTEA, "CYCLES, 32", "CYCLES, 31"),
        (XTEA, "0x9E3779B9", "0x9E3779B8"),
    ],
)
def test_planted_faults_are_caught(example: Example, right: str, wrong: str) -> None:
    assert right in example.text
    assert caught(example.text.replace(right, wrong), example)
