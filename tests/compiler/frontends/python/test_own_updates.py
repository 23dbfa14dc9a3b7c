"""Augmented assignments that read their target and are bijections all the same; and the fixes of statements that are none."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from retrograd import Array, fixed, lognum, reversible
from retrograd.testing import check_gradient, check_inverse

Written = Callable[[Path, str], ModuleType]

HEAD = "import retrograd as rg\nfrom retrograd import Array, Stack, fixed, lognum, reversible\n\n"


def signed(word: int, width: int) -> int:
    word &= (1 << width) - 1
    return word - (1 << width) if word >> (width - 1) else word


FACTORS = [1, -1, 3, 7, -5, 6364136223846793005, 2654435761, (1 << 62) + 1]
SHIFTS = [1, 2, 5, 7, 13, 31, 40]


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory, written: Written) -> ModuleType:
    lines = [f"@reversible\ndef by_{k}(n: int):\n    n *= {c}\n" for k, c in enumerate(FACTORS)]
    lines += [f"@reversible\ndef shifted_{k}(n: int):\n    n ^= n << {k}\n" for k in SHIFTS]
    return written(tmp_path_factory.mktemp("own") / "own_updates_of_test.py", HEAD + "\n".join(lines))


@pytest.mark.parametrize("format", ["64,32", "32,16", "16,8", "8,4"])
def test_products_and_shifts_are_those_of_python_mod_two_to_the_width(own: ModuleType, format: str) -> None:
    width = int(format.partition(",")[0])
    rng = np.random.default_rng(5)
    numbers = [0, 1, -1, (1 << (width - 1)) - 1, -(1 << (width - 1))] + [
        signed(int(x), width) for x in rng.integers(-(2**63), 2**63 - 1, 20)
    ]
    wanted = {f"by_{k}": lambda n, c=c: n * c for k, c in enumerate(FACTORS) if abs(c) < 1 << (width - 1)}
    wanted |= {f"shifted_{k}": lambda n, k=k: n ^ (n << k) for k in SHIFTS}
    assert len(wanted) > 10
    for name, value in wanted.items():
        f = getattr(own, name).with_options(format=format)
        found = rg.run_batch(f, np.array(numbers, np.int64)).values.n
        assert found.tolist() == [signed(value(n), width) for n in numbers], name
        assert rg.run_batch(~f, found).values.n.tolist() == numbers, name


@reversible
def generator(out: Array[int, "n"], s: int) -> None:
    """A congruential generator whose output is mixed: each state is a bijection of the one before."""
    for i in range(len(out)):
        s *= 6364136223846793005
        s += 1442695040888963407
        out[i] += s
        out[i] ^= out[i] << 17
        out[i] *= 0x2545F4914F6CDD1D


def test_a_generator_of_random_numbers_runs_back() -> None:
    out, s = generator(np.zeros(50, np.int64), 42)
    state, expected = 42, []
    for _ in range(50):
        state = signed(state * 6364136223846793005 + 1442695040888963407, 64)
        word = signed(state ^ (state << 17), 64)
        expected.append(signed(word * 0x2545F4914F6CDD1D, 64))
    assert (out.tolist(), s) == (expected, state)
    check_inverse(generator, np.zeros(50, np.int64), 42)


@reversible
def negatives(y: fixed, x: fixed, a: Array[fixed, 2], z: complex, n: int, k: lognum) -> None:
    x *= -1
    a /= -1.0
    z *= -1
    n *= -1
    k *= -1
    y += x * a[0] * z.real


def test_negatives() -> None:
    found = negatives(0.0, 2.0, [3.0, 4.0], 5 - 1j, 6, 2.0)
    assert (found.x, found.a.tolist(), found.z, found.n, found.k) == (-2.0, [-3.0, -4.0], -5 + 1j, -6, -2.0)
    check_inverse(negatives, 0.0, 2.0, [3.0, 4.0], 5 - 1j, 6, 2.0)
    check_gradient(negatives, 0.0, 2.0, [3.0, 4.0], 5 - 1j, 6, 2.0)


@reversible
def reciprocals(y: fixed, z: lognum, zs: Array[lognum, "n"], w: lognum) -> None:
    z **= -1
    zs **= -1.0
    with rg.view(-6 / w) as m:
        m *= z
    y += fixed(z * zs[0] / zs[1] + w)


def test_reciprocals_of_lognums_are_exact() -> None:
    found = reciprocals(0.0, 4.0, [0.5, -8.0, 1e300], 3.0)
    assert [float(v) for v in found.zs] == pytest.approx([2.0, -0.125, 1e-300], rel=1e-7)
    assert (found.z, found.w) == (0.25, pytest.approx(12.0, rel=1e-8))
    check_inverse(reciprocals, 0.0, 4.0, [0.5, -8.0, 1e300], 3.0)
    check_gradient(reciprocals, 0.0, 4.0, [0.5, -8.0, 2.0], 3.0)


@reversible
def reciprocal(z: lognum) -> None:
    z **= -1


@pytest.mark.parametrize("format", ["64,32", "32,16", "8,4"])
def test_a_reciprocal_negates_the_logarithm_and_keeps_the_sign_of_every_word(format: str) -> None:
    width = int(format.partition(",")[0])
    sign = 1 << (width - 1)
    some = (0, 1, sign, sign - 1, sign | 1, sign >> 1, (sign >> 1) - 1, *range(7, 2 * sign, sign // 9))
    words = range(1 << width) if width == 8 else some
    f = reciprocal.with_options(format=format)
    for word in words:
        given = rg.lognum.to_reals(np.array([word], np.uint64), format)[0]
        found = rg.run(f, given, format=format)
        assert found.words["z"][0] % (1 << width) == word & sign | -word % sign
        assert rg.run(~f, found.values.z, format=format).words["z"][0] % (1 << width) == word


@pytest.mark.parametrize(
    ("statement", "code"),
    [("x **= -1", "RG0701"), ("n **= -1", "RG0701"), ("n *= 2", "RG0703"), ("n *= 0", "RG0703"), ("n /= -1", "RG0703"), ("n ^= n << 0", "RG0704"), ("n ^= n >> 3", "RG0704"), ("x *= 3", "RG0703"), ("n *= m", "RG0703")],
)  # fmt: skip
def test_what_forgets_a_bit_is_refused(tmp_path: Path, written: Written, statement: str, code: str) -> None:
    text = f"@reversible\ndef f(n: int, m: int, x: fixed):\n    {statement}\n"
    with pytest.raises(rg.CompileError, match=code):
        written(tmp_path / "forgetting_of_test.py", HEAD + text).f(1, 2, 3.0)


#: a wrong statement, on arguments of each type
WRONG = [
    "x = -x", "n = -n", "b = not b", "n = ~n", "a = -a", "z = -z", "k = -k", "a[0] = -a[0]", "q[1] = ~q[1]",
    "x = x + y", "x = y + x", "x = x - y", "x = 3 - x", "n = n ^ m", "n = m ^ n", "b = b ^ c", "k = k * j", "k = j * k", "k = k / j",
    "x = y", "b = c", "k = j", "a = 2.0", "x = 2 * x", "x = x * y", "n = n // 2", "b = b and c", "x = rg.sqrt(x)", "x = x * x + y",
    "x **= -1", "n **= -1", "z **= -1",
    "x **= 2", "n //= 2", "n <<= 1", "n |= m", "b |= c", "x *= 2", "n *= 4", "x /= y", "x += x", "x += -x", "x -= 2 * x", "x -= x", "k *= k",
    "x += n * x", "a[0] += a[0]", "rg.push(n, m)", "b += c", "x ^= y",
]  # fmt: skip
PARAMETERS = "x: fixed, y: fixed, n: int, m: int, b: bool, c: bool, k: lognum, j: lognum, z: complex, a: Array[fixed, 2], q: Array[int, 2]"
GIVEN: tuple[Any, ...] = (1.5, 2.0, 5, 3, True, False, 2.0, 4.0, 1 + 2j, [1.0, 2.0], [3, 4])


@pytest.mark.parametrize("statement", WRONG)
def test_a_fix_that_a_message_proposes_compiles(tmp_path: Path, written: Written, statement: str) -> None:
    def function(lines: list[str]) -> ModuleType:
        body = "".join(f"    {line}\n" for line in lines)
        return written(tmp_path / "fixes_of_test.py", f"{HEAD}@reversible\ndef f({PARAMETERS}):\n{body}")

    with pytest.raises(rg.CompileError) as caught:
        function([statement]).f(*GIVEN)
    diagnostic = caught.value.diagnostics[0]
    assert diagnostic.hint is not None, str(caught.value)
    codes = [
        c for c in re.findall(r"`([^`]*)`", diagnostic.hint) if re.search(r"[+\-^*/|]?= |^rg\.|^\w+ [+\-^*/]= ", c)
    ]
    proposals = [c for c in codes if "…" not in c and "x, y = y, x" not in c]
    assert proposals or diagnostic.code == "RG0703", str(caught.value)
    if "behind it" in diagnostic.hint:
        function(proposals).f(*GIVEN)
        return
    for fix in proposals:
        function([fix]).f(*GIVEN)
