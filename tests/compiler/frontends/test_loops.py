"""What a `for` goes through: every nesting of range, enumerate, zip and reversed gives the items that Python gives."""

from __future__ import annotations

import linecache
import re
from typing import Any

import numpy as np
import pytest
from retrograd.compiler.frontends.python import control_flow
from retrograd.simulator.machine import Stop

import retrograd as rg
from retrograd import Array, fixed, reversible
from retrograd.runtime._execution import ProgramTrap

WEIGHTS = np.array([5, 7, 11, 13])
#: what each target stands for, and what is gone through; `a` and `b` have four elements
LOOPS = {
    "k": (
        "reversed(range(n))",
        "range(a[0], n, 3)",
        "reversed(range(n, -5, -2))",
        "reversed(range(-2, 9, 4))",
        "reversed(range(0, n, 3))",
        "range(n, -9, -a[1])",
        "reversed(range(-4, n + 4, b[2]))",
        "reversed(b)",
        "reversed(WEIGHTS)",
    ),
    "j, k": (
        "enumerate(reversed(b))",
        "enumerate(range(2, n))",
        "enumerate(reversed(range(n, -9, -a[0])))",
        "enumerate(reversed(range(2, n, 2)))",
        "enumerate(b, 3)",
        "enumerate(b, start=-1)",
        "zip(a, reversed(b))",
        "zip(reversed(a), reversed(b))",
        "zip(range(n), range(n))",
        "zip(range(4), b)",
        "zip(reversed(range(4, 12, 2)), b, strict=True)",
        "zip((3, 1, 4, 1), b)",
        "zip(WEIGHTS, reversed(a))",
        "enumerate(range(3, 6))",
    ),
    "i, (j, k)": (
        "enumerate(zip(a, b))",
        "enumerate(zip(a, reversed(b)), 1)",
        "zip(b, enumerate(a))",
        "zip(reversed(b), enumerate(reversed(a)))",
        "enumerate(zip(reversed(range(4)), b))",
        "enumerate(zip((1, 2, 3, 4), (5, 6, 7, 8)))",
        "zip(a, ((1, 2), (3, 4), (5, 6), (7, 8)))",
    ),
}
CASES = [(target, through) for target, loops in LOOPS.items() for through in loops]


def compiled(text: str, name: str = "f") -> Any:
    """What a source text defines under a name; the text is where `inspect` finds it."""
    file = f"<loop {hash(text)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    names: dict[str, Any] = {"rg": rg, "reversible": reversible, "Array": Array, "WEIGHTS": WEIGHTS}
    exec(compile(text, file, "exec"), names)
    return names[name]


def items_of(target: str, through: str, n: int, a: list[int], b: list[int]) -> list[int]:
    """Σ 3ⁱ · itemᵢ for each pass of the loop, run by Python."""
    names = target.replace("(", "").replace(")", "")
    found: dict[str, Any] = {"WEIGHTS": WEIGHTS, "n": n, "a": a, "b": b, "out": []}
    exec(f"for {target} in {through}: out.append(sum(3**i * int(x) for i, x in enumerate(({names},))))", found)
    return list(found["out"])


@pytest.mark.parametrize(("target", "through"), CASES)
def test_a_loop_goes_through_what_python_goes_through(target: str, through: str) -> None:
    """The items of each pass, one behind the other in an array."""
    names = [x.strip() for x in target.replace("(", "").replace(")", "").split(",")]
    total = " + ".join(f"{3**i} * {name}" for i, name in enumerate(names))
    f = compiled(
        f"""@reversible
def f(s: Array[int, 20], p: int, n: int, a: Array[int, 4], b: Array[int, 4]):
    for {target} in {through}:
        s[p] += {total}
        p += 1
"""
    )
    for level, ns in ((0, (8,)), (1, (-3, 0, 5, 8) if "n" in re.findall(r"\w+", through) else (8,))):
        g = f.with_options(level=level)
        for n in ns:
            a, b = [1, -2, 3, 9], [4, 0, 6, -7]
            items = items_of(target, through, n, a, b)
            out = g([0] * 20, 0, n, a, b)
            assert out.s.tolist() == items + [0] * (20 - len(items))
            assert out.p == len(items)
            back = (~g)(*out)
            assert (back.s.tolist(), back.p) == ([0] * 20, 0)


@pytest.mark.parametrize(
    ("through", "copied"),
    [
        ("WEIGHTS", True), ("WEIGHTS.tolist()", True), ("reversed(WEIGHTS.tolist())", True), ("enumerate(WEIGHTS.tolist())", True),
        ("zip(range(4), WEIGHTS.tolist())", True), ("zip(WEIGHTS.tolist(), WEIGHTS.tolist())", True),
        ("enumerate(zip(range(4), WEIGHTS.tolist()))", True),
        ("zip(WEIGHTS.tolist(), a)", True), ("zip(a, WEIGHTS.tolist())", True),
        ("zip(reversed(WEIGHTS.tolist()), b)", True), ("enumerate(zip(a, WEIGHTS.tolist()))", True), ("range(4)", False), ("reversed(range(4))", False), ("enumerate(range(4))", False), ("zip(range(4), range(1, 5))", False),
        ("enumerate(zip(range(4), range(4)))", False), ("zip(a, b)", False),
    ],
)  # fmt: skip
def test_copies_of_a_body_are_limited(monkeypatch: pytest.MonkeyPatch, through: str, copied: bool) -> None:
    """One for each constant, and a loop for the others; here the most is 3 in place of 10,000."""
    text = f"@reversible\ndef f(y: int, a: Array[int, 4], b: Array[int, 4]):\n    for k in {through}:\n        y += 1\n"
    if not through.startswith(("range", "reversed", "WEIGHTS")):
        text = text.replace("for k in", "for j, (i, k) in" if "enumerate(z" in through else "for j, k in")
    arguments = 0, [0] * 4, [0] * 4
    assert compiled(text)(*arguments).y == 4
    monkeypatch.setattr(control_flow, "MOST_COPIES", 3)
    if copied:
        with pytest.raises(rg.CompileError, match="RG0720"):
            compiled(text)(*arguments)
    else:
        assert compiled(text)(*arguments).y == 4


@pytest.mark.parametrize(
    ("loop", "code"),
    [
        ("for i, (j, k) in enumerate(a): y += j", "RG0703"),
        ("for i, j, k in enumerate(zip(a, b)): y += j", "RG0703"),
        ("for k in reversed(zip(a, b)): y += 1", "RG0703"),
        ("for k in reversed(enumerate(a)): y += 1", "RG0703"),
        ("for j, k in zip(range(n), b): y += k", "RG0717"),
        ("for j, k in zip(range(3), b): y += k", "RG0712"),
        ("for j, k in enumerate(range(n, n + 3)): n += 1", "RG0708"),
        ("for j, k in enumerate(range(a[0], a[0] + 3)): a[j] += k", "RG0708"),
        ("for k in reversed(range(n)): k += 1", "RG0709"),
        ("for j, k in enumerate(range(n)): k += 1", "RG0709"),
        ("for y, k in enumerate(b): k += 1", "RG0706"),
        ("for j, k in enumerate(b, n): y += k", "RG0717"),
        ("for j, k in enumerate(b, 1 << 80): y += k", "RG0714"),
        ("for j, k in enumerate(b, stop=3): y += k", "RG0715"),
        ("for j, k in zip(y, b): y += k", "RG0703"),
        ("for k in enumerate(): y += k", "RG0715"),
    ],
)
def test_a_loop_that_has_no_meaning_is_refused(loop: str, code: str) -> None:
    f = compiled(
        f"@reversible\ndef f(y: int, n: int, a: Array[int, 4], b: Array[int, 4]):\n    {loop.replace(': ', ':' + chr(10) + '        ')}\n"
    )
    with pytest.raises(rg.CompileError) as refused:
        f.lower()
    assert refused.value.code == code
    assert refused.value.diagnostics[0].span is not None


@reversible
def steps_up(y: int, z: int, a: int, b: int) -> None:
    for i in range(a, b, 3):
        y += 1
        z += i


@reversible
def steps_down(y: int, z: int, a: int, b: int) -> None:
    for i in range(a, b, -6):
        y += 1
        z += i


@reversible
def counted(y: int, z: int, a: int, b: int) -> None:
    for i, _ in zip(range(a, b, 3), range(a, b, 3), strict=True):
        y += 1
        z += i


@pytest.mark.parametrize("level", [0, 1])
def test_a_range_longer_than_a_signed_word(level: int) -> None:
    """In words of 8 bits, where b − a may not be one; with all ends near the ends of the range."""
    w = rg.Format(8, 3)
    ends = (-128, -100, -2, 5, 99, 127)
    for a in ends:
        for b in ends[:: 1 if level else 3]:
            for f, step in ((steps_up, 3), (steps_down, -6), (counted, 3)):
                found = rg.run(f.with_options(level=level), 0, 0, a, b, format=w).values
                indices = range(a, b, step)
                assert found[:2] == (w.signed(len(indices) & w.mask), w.signed(sum(indices) & w.mask)), (a, b, step)


@reversible
def halved(out: int, n: int) -> None:
    """out += the number of halvings of n until it is at most 3."""
    with rg.routine() as r:
        m = n
        k = 0
        while (m * m > 9, k * k != 0):
            k += 1
            m -= k
    out += k
    ~r


@reversible
def stepped(y: int, z: int, a: int, b: int, s: int) -> None:
    """Counts the passes, and adds the indices up."""
    for k in range(a, b, s):
        y += 1
        z += k


@pytest.mark.parametrize("level", [0, 1])
def test_a_step_known_only_when_the_program_runs(level: int) -> None:
    """Python's passes, also where the distance of the ends is longer than a signed word."""
    f, least, most = stepped.with_options(level=level), -(2**63), 2**63 - 1
    ends = ((0, 10), (10, 0), (5, 5), (-7, 8), (least, most), (most, least))
    for a, b in ends:
        for s in (1, -1, 3, -3, 100, 2**61, -(2**61), most, least):
            indices = range(a, b, s)
            if (b - a) // s > 20:
                continue
            found = f(0, 0, a, b, s)
            assert found[:2] == (len(indices), (sum(indices) + 2**63) % 2**64 - 2**63), (a, b, s)
            assert (~f)(*found)[:2] == (0, 0)
        with pytest.raises(ProgramTrap, match="RG0402"):
            f(0, 0, a, b, 0)


@pytest.mark.parametrize("level", [0, 1])
@pytest.mark.parametrize("n", [0, 2, 3, 4, 9, 25])
def test_both_conditions_of_a_while_compute_an_operand(level: int, n: int) -> None:
    m, k = n, 0
    while m * m > 9:
        k += 1
        m -= k
    assert halved.with_options(level=level)(0, n).out == k
    assert (~halved.with_options(level=level))(k, n).out == 0


def test_a_while_computes_each_condition_once_a_pass() -> None:
    """The squares of m and k are computed and uncomputed once in each pass, where `halved` runs and where it is undone."""
    runs = [rg.run(halved, 0, n) for n in (4, 25)]
    few, many = (run.machine.counts() for run in runs)
    passes = runs[1].values.out - runs[0].values.out
    assert passes == 6
    for name in ("mul.add", "mul.sub"):
        assert many[name] - few[name] == 4 * passes


@reversible
def astray(n: int, k: int, m: int) -> None:
    """n becomes 0 after the third pass; k is 4 after the fourth."""
    while (k * k < m * m, n * n > 0):
        k += 1
        n += 2 - k


@pytest.mark.parametrize("level", [0, 1])
@pytest.mark.parametrize(
    ("backward", "n", "k", "m", "message"),
    [
        (False, -1, 0, 4, "`n * n > 0` is true before the first pass of the loop"),
        (False, 0, 0, 3, "`n * n > 0` is false after a pass of the loop"),
        (False, 0, 0, 4, "`n * n > 0` is false after a pass of the loop"),
        (True, 1, 2, 4, "`k * k < m * m` is true after the last pass of the loop"),
        (True, 1, 8, 4, "`k * k < m * m` is false before a pass of the loop"),
        (True, -9, 5, 4, "`k * k < m * m` is false before a pass of the loop"),
    ],
)
def test_a_condition_that_contradicts_the_path_of_control(
    level: int, backward: bool, n: int, k: int, m: int, message: str
) -> None:
    f = astray.with_options(level=level)
    with pytest.raises(ProgramTrap) as caught:
        (~f if backward else f)(n, k, m)
    assert message in str(caught.value)
    assert caught.value.machine.run_back().stop is Stop.HALTED


@reversible
def unpacked(y: fixed, points: Array[fixed, "n", 2], boxes: Array[fixed, "n", 2, 2], s: fixed, c: fixed) -> None:
    """Tuples and rows are unpacked into the names of a loop. Of an array, numbers are read and rows changed."""
    for a, b in points:
        y += a * b
    for i, (a, b) in enumerate(points):
        y += a * i - b
    for (low, high), (a, b) in zip(boxes, points):  # noqa: B905
        low[0] += a
        high += b
    for t, v in ((s, 2.0), (c, y)):
        t += v
    for (u, w), k in zip(((s, c), (c, y)), (3, 4)):  # noqa: B905
        u += w * k


def test_tuples_and_rows_are_unpacked_as_in_python() -> None:
    points, boxes = np.arange(1.0, 7.0).reshape(3, 2), np.arange(12.0).reshape(3, 2, 2)
    y, s, c = 0.5, 1.0, 2.0
    wanted = boxes.copy()
    for i, (a, b) in enumerate(points):
        y += a * b + a * i - b
    for (low, high), (a, b) in zip(wanted, points, strict=True):
        low[0] += a
        high += b
    s, c = s + 2.0, c + y
    s += c * 3
    c += y * 4
    found = unpacked(0.5, points, boxes, 1.0, 2.0)
    assert (found.y, found.s, found.c, found.boxes.tolist()) == (y, s, c, wanted.tolist())
    back = (~unpacked)(*found)
    assert (back.y, back.s, back.c, back.boxes.tolist()) == (0.5, 1.0, 2.0, boxes.tolist())


@reversible
def three_of_two(y: fixed, points: Array[fixed, "n", 2]) -> None:
    for a, b, c in points:
        y += a + b + c


@reversible
def changed_number(y: fixed, points: Array[fixed, "n", 2]) -> None:
    for a, b in points:
        a += b


def test_wrong_unpackings_are_refused() -> None:
    with pytest.raises(rg.CompileError, match="names 3 values of 2"):
        three_of_two(0.0, [[1.0, 2.0]])
    with pytest.raises(rg.CompileError, match="RG0709"):
        changed_number(0.0, [[1.0, 2.0]])
