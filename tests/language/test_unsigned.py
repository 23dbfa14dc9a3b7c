"""The type `uint` against Python's integers mod 2^W: operators, updates, bijections, and functions known from elsewhere."""

from __future__ import annotations

import itertools
import linecache
import random
import sys
import types
from typing import Any

import numpy as np
import pytest
from retrograd.isa.diagnostics import CompileError, InputError, RetrogradError

import retrograd as rg
from retrograd import Array, reversible, uint

_numbers = itertools.count()
FORMATS = (rg.Format(16, 8), rg.Format(32, 16), rg.Format(64, 32), rg.Format(64, 0))
HEAD = "import retrograd as rg\nfrom retrograd import Array, Stack, fixed, reversible, uint\n"


def defined(text: str) -> Any:
    """The function `f` of a module with this text."""
    name = f"unsigned_{next(_numbers)}"
    text = HEAD + text
    linecache.cache[f"<{name}>"] = (len(text), None, text.splitlines(keepends=True), f"<{name}>")
    module = sys.modules[name] = types.ModuleType(name)
    exec(compile(text, f"<{name}>", "exec"), vars(module))
    return module.f


# ---------------------------------------------------------------------- expressions


def host_names(width: int) -> dict[str, Any]:
    """The names of an expression in Python: `uint` makes an integer mod 2^W, whose operators are those of this type."""

    class U(int):
        pass

    def wrapped(value: int) -> U:
        return U(value % (1 << width))

    def signed(value: int) -> int:
        return (int(value) + (1 << width - 1)) % (1 << width) - (1 << width - 1)

    def operator(name: str) -> Any:
        own = getattr(int, name)
        return lambda self, *y: wrapped(own(int(self), *map(int, y)))

    for name in ("add", "sub", "mul", "and", "or", "xor", "floordiv", "mod", "pow", "lshift", "rshift"):
        setattr(U, f"__{name}__", operator(f"__{name}__"))
        setattr(U, f"__r{name}__", operator(f"__r{name}__"))
    for name in ("neg", "pos", "invert", "abs"):
        setattr(U, f"__{name}__", operator(f"__{name}__"))
    return {"uint": wrapped, "int": signed}


RING = ("+", "-", "*", "&", "|", "^")
ORDER = ("<", "<=", ">", ">=", "==", "!=")


class Expressions:
    """Random expressions of uints u, v, of an int n beside a uint, and of a bool b."""

    def __init__(self, seed: int, width: int) -> None:
        self.rng, self.width = random.Random(f"{seed} {width}"), width

    def number(self) -> int:
        top = 1 << self.width
        return self.rng.choice(
            (1, 2, 3, 7, 10, top // 2 - 1, top // 2, top // 2 + 1, top - 1, self.rng.randrange(1, top))
        )

    def operand(self, depth: int) -> str:
        """An operand beside a uint: a uint, an int, a bool, or a constant, also one below zero."""
        rng = self.rng
        return rng.choice(
            (
                lambda: self.uint(depth),
                lambda: "n",
                lambda: "b",
                lambda: "int(v)",
                lambda: str(self.number()),
                lambda: "-3",
            )
        )()

    def uint(self, depth: int) -> str:
        rng = self.rng
        if depth == 0:
            return rng.choice(("u", "v"))

        def sub() -> str:
            return self.uint(depth - 1)

        count = rng.choice((0, 1, 7, self.width - 1, self.width, self.width + 3))
        forms = (
            lambda: f"({sub()} {rng.choice(RING)} {self.operand(depth - 1)})",
            lambda: f"({sub()} {rng.choice(RING)} {self.operand(depth - 1)})",
            lambda: f"({self.number()} {rng.choice(RING)} {sub()})",
            lambda: f"({sub()} {rng.choice(('//', '%'))} ({sub()} | 1))",
            lambda: f"({sub()} {rng.choice(('//', '%'))} {self.number()})",
            lambda: f"({self.number()} {rng.choice(('//', '%'))} ({sub()} | 1))",
            lambda: f"({sub()} {rng.choice(('<<', '>>'))} {count})",
            lambda: f"({sub()} {rng.choice(('<<', '>>'))} ({sub()} & {self.width - 1}))",
            lambda: f"({rng.choice('-~+')}{sub()})",
            lambda: f"abs({sub()})",
            lambda: f"{rng.choice(('min', 'max'))}({sub()}, {rng.choice((sub(), str(self.number())))})",
            lambda: f"({sub()} if {self.condition(depth - 1)} else {sub()})",
            lambda: f"({sub()} ** {rng.choice(('2', '3', '(v & 7)', '(b + 1)'))})",
            lambda: "uint(n)",
            lambda: f"uint(int({sub()}))",
        )  # fmt: skip
        return rng.choice(forms)()

    def condition(self, depth: int) -> str:
        x = self.uint(depth)
        y = self.rng.choice((self.uint(depth), str(self.number()), "b"))
        return self.rng.choice(
            (f"{x} {self.rng.choice(ORDER)} {y}", f"{y} {self.rng.choice(ORDER)} {x}", f"bool({x})", f"not {x}")
        )


def rows_of(rng: random.Random, width: int) -> list[dict[str, Any]]:
    top = 1 << width
    edges = (0, 1, top // 2 - 1, top // 2, top - 1)
    drawn = [(rng.choice((*edges, rng.randrange(top))), rng.choice((*edges, rng.randrange(top)))) for _ in range(6)]
    return [
        {"u": u, "v": v, "n": rng.choice((-1, 0, 3, -top // 2, top // 2 - 1)), "b": rng.random() < 0.5}
        for u, v in drawn
    ]


@pytest.mark.parametrize("w", FORMATS, ids=str)
@pytest.mark.parametrize("seed", range(42))
def test_expressions_have_the_value_of_pythons_integers_mod_2_to_the_width(seed: int, w: rg.Format) -> None:
    make = Expressions(seed, w.width)
    words, truths = [make.uint(3) for _ in range(4)], [make.condition(2) for _ in range(2)]
    names = [f"o{k}" for k in range(6)]
    declared = ", ".join([*(f"{o}: uint" for o in names[:4]), *(f"{o}: bool" for o in names[4:])])
    lines = [
        f"    {o} {'+=' if k < 4 else '^='} {e}" for k, (o, e) in enumerate(zip(names, words + truths, strict=True))
    ]
    f = defined(f"@reversible\ndef f({declared}, u: uint, v: uint, n: int, b: bool):\n" + "\n".join(lines) + "\n")
    f = f.with_options(format=w)
    given = ", ".join(["uint"] * 4 + ["bool"] * 2)
    text = f"@rg.functional\ndef f(u: uint, v: uint, n: int, b: bool) -> tuple[{given}]:\n"
    g = defined(f"{text}    return {', '.join(words + truths)}\n").with_options(format=w)
    host = host_names(w.width)
    for row in rows_of(make.rng, w.width):
        known = row | {"u": host["uint"](row["u"]), "v": host["uint"](row["v"])}
        wanted = [int(eval(e, host | known)) % (1 << w.width) for e in words]
        wanted += [bool(eval(e, host | known)) for e in truths]
        before = (0, 0, 0, 0, False, False, *row.values())
        got = f(*before)
        for text, x, y in zip(words + truths, got, wanted, strict=False):
            assert x == y, (text, row)
        assert tuple((~f)(*got)) == before
        assert g(*row.values()) == tuple(wanted), (words, truths, row)


# ---------------------------------------------------------------------- functions known from elsewhere


@reversible
def fnv1a(h: uint, data: Array[uint, "n"]) -> None:
    h += 0xCBF29CE484222325
    for x in data:
        h ^= x
        h *= 0x100000001B3


@pytest.mark.parametrize(
    ("text", "hashed"), [(b"", 0xCBF29CE484222325), (b"a", 0xAF63DC4C8601EC8C), (b"foobar", 0x85944171F73967E8)]
)
def test_fnv1a_has_its_published_values_and_is_undone(text: bytes, hashed: int) -> None:
    got = fnv1a(0, np.frombuffer(text, np.uint8))
    assert got.h == hashed
    assert (~fnv1a)(*got).h == 0


@reversible
def speck64(x: uint, y: uint, k: Array[uint, 27]) -> None:
    for i in range(27):
        rg.ror(x, 8)
        x += y
        x ^= k[i]
        rg.rol(y, 3)
        y ^= x


def speck_keys(*key: int) -> list[int]:
    """The round keys of Speck64/128, by Python's integers."""
    k, *words = key
    out = [k]
    for i in range(26):
        x = ((words[i] >> 8 | words[i] << 24) + k) % 2**32 ^ i
        words.append(x)
        k = (k << 3 | k >> 29) % 2**32 ^ x
        out.append(k)
    return out


def test_speck64_has_its_published_vector_and_is_decrypted_by_its_inverse() -> None:
    keys = speck_keys(0x03020100, 0x0B0A0908, 0x13121110, 0x1B1A1918)
    encrypt = speck64.with_options(format=rg.Format(32, 0))
    got = encrypt(np.uint32(0x3B726574), np.uint32(0x7475432D), np.array(keys, np.uint32))
    assert (got.x, got.y) == (0x8C6FA548, 0x454E028B)
    assert tuple((~encrypt)(*got))[:2] == (0x3B726574, 0x7475432D)


ROUND = np.array(
    [
        int(p ** (1 / 3) % 1 * 2**32)
        for p in (n for n in range(2, 312) if all(n % q for q in range(2, int(n**0.5) + 1)))
    ],
    np.uint32,
)


def schedule_of_abc() -> list[int]:
    """The words of the 64 rounds for the message `abc`, by Python's integers."""
    message = [0x61626380, *[0] * 14, 24]
    for t in range(16, 64):
        x, y = message[t - 15], message[t - 2]
        s0 = (x >> 7 | x << 25) ^ (x >> 18 | x << 14) ^ x >> 3
        s1 = (y >> 17 | y << 15) ^ (y >> 19 | y << 13) ^ y >> 10
        message.append((message[t - 16] + s0 + message[t - 7] + s1) % 2**32)
    return message


@reversible
def sha256(a: uint, b: uint, c: uint, d: uint, e: uint, f: uint, g: uint, h: uint, w: Array[uint, 64]) -> None:
    """64 rounds, each a bijection of the eight words"""
    for t in range(64):
        h += (e >> 6 | e << 26) ^ (e >> 11 | e << 21) ^ (e >> 25 | e << 7)
        h += (e & f) ^ (~e & g)
        h += ROUND[t] + w[t]
        d += h
        h += (a >> 2 | a << 30) ^ (a >> 13 | a << 19) ^ (a >> 22 | a << 10)
        h += (a & b) ^ (a & c) ^ (b & c)
        a, b, c, d, e, f, g, h = h, a, b, c, d, e, f, g


START = (0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A, 0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19)


def test_sha256_of_abc_is_the_published_digest() -> None:
    rounds = sha256.with_options(format=rg.Format(32, 16))
    got = rounds(*START, np.array(schedule_of_abc(), np.uint32))
    digest = "".join(f"{(x + y) % 2**32:08x}" for x, y in zip(START, got[:8], strict=True))
    assert digest == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert (~rounds)(*got)[:8] == START


# ---------------------------------------------------------------------- statements


TOP = 1 << 64


def undone(f: Any, *args: Any) -> Any:
    """The results of f, after its inverse has given the arguments back."""
    got = f(*args)
    assert all(np.array_equal(x, y) for x, y in zip((~f)(*got), args, strict=True)), args
    return got


@pytest.mark.parametrize("w", FORMATS, ids=str)
@pytest.mark.parametrize("statement", [
    "x ^= x >> 7", "x ^= x << 13", "x ^= x >> 1", "x ^= x >> 70", "x *= 0x9E3779B97F4A7C15 % 2**W", "x *= -3", "x *= -1",
    "x += n", "x -= n", "x ^= n", "x += b", "rg.rol(x, 5)", "rg.ror(x, y)", "rg.neg(x)", "rg.flip(x)",
])  # fmt: skip
def test_updates_are_bijections_mod_2_to_the_width(statement: str, w: rg.Format) -> None:
    width, top = w.width, 1 << w.width
    text = statement.replace("W", str(width))
    f = defined(f"@reversible\ndef f(x: uint, y: uint, n: int, b: bool):\n    {text}\n").with_options(format=w)
    of_calls = {
        "rg.rol(x, 5)": lambda x, y: x << 5 | x >> (width - 5), "rg.ror(x, y)": lambda x, y: x >> y % width | x << (width - y % width),
        "rg.neg(x)": lambda x, y: -x, "rg.flip(x)": lambda x, y: ~x,
    }  # fmt: skip
    for x, y in ((0, 3), (1, 0), (top - 1, 5), (top // 2, width - 1), (0x1234_5678_9ABC_DEF0 % top, 9)):
        if statement in of_calls:
            wanted = of_calls[statement](x, y)
        else:
            known = {"x": x, "n": -5, "b": True}
            exec(text, {}, known)
            wanted = known["x"]
        assert undone(f, x, y, -5, True).x == wanted % top


def test_an_int_is_updated_by_a_uint_mod_2_to_the_width() -> None:
    f = defined("@reversible\ndef f(n: int, m: int, k: int, u: uint):\n    n += u\n    m -= u\n    k ^= u\n")
    assert undone(f, 5, -5, 1, TOP - 1)[:3] == (4, -4, -2)


@pytest.mark.parametrize("step", [1, 3])
@pytest.mark.parametrize(
    ("a", "b"), [(0, 5), (5, 5), (6, 5), (TOP - 4, TOP - 1), (TOP - 1, TOP - 4), (2**63 - 2, 2**63 + 3)]
)
def test_ranges_of_uints_are_unsigned(a: int, b: int, step: int) -> None:
    f = defined(
        "@reversible\ndef f(y: uint, passes: int, a: uint, b: uint):\n"
        f"    for i in range(a, b, {step}):\n        y += i * i\n        passes += 1\n"
    )
    got = undone(f, 0, 0, a, b)
    assert got[:2] == (sum(i * i for i in range(a, b, step)) % TOP, len(range(a, b, step)))


def test_a_range_may_have_more_passes_than_a_signed_word_counts() -> None:
    f = defined("@reversible\ndef f(y: uint, n: uint):\n    for i in reversed(range(n)):\n        y += i\n")
    assert undone(f.with_options(format=rg.Format(16, 0)), 0, 40_000).y == sum(range(40_000)) % 2**16


def test_indices_slices_and_lengths_are_uints_that_lie_in_the_array() -> None:
    f = defined(
        "@reversible\ndef f(y: uint, t: Array[uint, 4], n: uint):\n"
        "    with rg.routine() as r:\n        z = rg.zeros(n, dtype=uint)\n"
        "    y += t[n] + rg.sum(t[:n]) + 100 * uint(len(z))\n    ~r\n"
    )
    assert undone(f, 0, np.array([1, 2, 3, TOP - 1], np.uint64), 3).y == 305
    for n in (4, TOP - 1, 2**63):
        with pytest.raises(RetrogradError) as found:
            f(0, [1, 2, 3, 4], n)
        assert found.value.code == "RG0801"
        assert str(n) in str(found.value)  # as it is, and not as a number below zero


def test_reductions_are_unsigned() -> None:
    f = defined(
        "@reversible\ndef f(s: uint, low: uint, high: uint, a: Array[uint, 'n']):\n    s += rg.sum(a)\n    low += rg.min(a)\n    high += rg.max(a)\n"
    )
    for values in ([2**63 + 5, 7, TOP - 2], [1, 2], [2**63 + 5, TOP - 2]):
        wanted = (sum(values) % TOP, min(values), max(values))
        assert undone(f, 0, 0, 0, np.array(values, np.uint64))[:3] == wanted


def test_views_of_uints_are_places() -> None:
    f = defined(
        "@reversible\ndef add(n: int, u: uint):\n    n -= 5\n    u += 3\n"
        "@reversible\ndef f(n: int, u: uint):\n    add(int(u), uint(n))\n    add(~n, -u)\n"
    )
    assert undone(f, -7, 2)[:2] == (~(~(-7 + 3) - 5), -(-(2 - 5) + 3) % TOP)


def test_constants_of_64_bits_in_lists_and_arrays_are_exact() -> None:
    f = defined(
        "import numpy as np\nK = [0xCBF29CE484222325, 3]\nN = np.array([2**64 - 1, 3], np.uint64)\n"
        "@reversible\ndef f(y: uint, less: bool, n: int, i: int):\n    y += K[i] ^ N[i]\n    less ^= y < K[i]\n    n ^= N[i]\n"
    )
    for i, (k, n) in enumerate(((0xCBF29CE484222325, TOP - 1), (3, 3))):
        wanted = k ^ n
        assert undone(f, 0, False, 0, i)[:3] == (wanted, wanted < k, n if n < TOP // 2 else n - TOP)


def test_a_uint_beside_a_fixed_is_its_number_or_a_trap() -> None:
    f = defined("@reversible\ndef f(y: fixed, u: uint):\n    y += u / 2 + fixed(u) * 0.25 + u * 0.25\n")
    assert undone(f, 0.0, 12).y == 12.0
    for u in (2**31, 2**63, TOP - 1):
        with pytest.raises(RetrogradError) as found:
            f(0.0, u)
        assert found.value.code == "RG0404"
    # Without a fraction, the conversion of an int would take the word for a number below zero.
    whole = defined("@reversible\ndef f(y: fixed, u: uint):\n    y += u\n").with_options(format=rg.Format(64, 0))
    assert whole(0.0, 2**63 - 1).y == 2.0**63
    with pytest.raises(RetrogradError, match=str(TOP - 1)):
        whole(0.0, TOP - 1)


def test_no_gradient_flows_through_a_uint() -> None:
    f = defined("@reversible\ndef f(y: fixed, x: fixed, u: uint):\n    y += x * x * (u % 5)\n")
    assert rg.grad(f, "x")(0.0, 1.5, TOP - 2) == 3.0 * ((TOP - 2) % 5)
    with pytest.raises(InputError, match="uint has no derivative"):
        rg.grad(f, "u")(0.0, 1.5, 4)


def test_a_uint_divided_by_zero_is_a_trap() -> None:
    for sign in ("//", "%"):
        f = defined(f"@reversible\ndef f(y: uint, u: uint, v: uint):\n    y += u {sign} v\n")
        with pytest.raises(RetrogradError) as found:
            f(0, TOP - 1, 0)
        assert found.value.code == "RG0402"


# ---------------------------------------------------------------------- values


def test_structs_stacks_and_arrays_hold_uints() -> None:
    f = defined(
        "@rg.struct\nclass P:\n    k: uint\n    a: Array[uint, 2]\n"
        "@reversible\ndef f(p: P, q: P, s: Stack[uint, 4], x: uint):\n    p += q\n    p.k ^= p.a[0]\n    rg.push(s, x)\n    q.k += s[0] // 2\n"
    )
    made = sys.modules[f.__module__].P
    got = f(made(TOP - 1, [TOP - 1, 5]), made(2, [3, 4]), [], TOP - 1)
    assert (got.p.k, got.p.a.tolist(), got.q.k, got.s, got.x) == (1 ^ 2, [2, 9], 2 + TOP // 2 - 1, [TOP - 1], 0)
    assert got.p.a.dtype == np.uint64
    back = (~f)(*got)
    assert (back.p.k, back.p.a.tolist(), back.q.k, back.s, back.x) == (TOP - 1, [TOP - 1, 5], 2, [], TOP - 1)


ADDED = "@reversible\ndef f(x: uint, a: Array[uint, 2]):\n    x += 1\n    a += 1\n"


@pytest.mark.parametrize("x", [3, np.uint64(TOP - 2), np.uint32(7), np.int8(5), np.array(9, np.uint64), 4.0])
@pytest.mark.parametrize(
    "a",
    [[5, 2**63 + 1], (np.int64(5), TOP - 2), np.array([1, TOP - 2], np.uint64), np.array([1, 2]), [1.0, 2.0]],
    ids=str,
)
def test_arguments_are_taken_exactly(x: Any, a: Any) -> None:
    got = defined(ADDED)(x, a)
    assert (got.x, got.a.tolist()) == (
        int(x) + 1,
        [int(v) + 1 for v in (a.tolist() if isinstance(a, np.ndarray) else a)],
    )


@pytest.mark.parametrize(("x", "a", "code"), [
    (-1, [0, 0], "RG0601"), (TOP, [0, 0], "RG0601"), (0, [1, -1], "RG0601"), (0, np.array([1, -1]), "RG0601"), (0, [TOP, 1], "RG0603"),
    (0, [np.int64(-5), 2**63 + 1], "RG0601"), (0.5, [0, 0], "RG0602"), (0, [0.5, 1], "RG0602"), ("1", [0, 0], "RG0603"),
])  # fmt: skip
def test_other_arguments_are_refused(x: Any, a: Any, code: str) -> None:
    with pytest.raises(InputError) as found:
        defined(ADDED)(x, a)
    assert found.value.code == code


def test_an_int_refuses_a_number_beyond_its_range_and_names_the_type_that_has_it() -> None:
    f = defined("@reversible\ndef f(n: int):\n    n += 1\n")
    for value in (0xCBF29CE484222325, np.uint64(2**63)):
        with pytest.raises(InputError, match="`uint`"):
            f(value)
    with pytest.raises(InputError) as found:
        f(TOP)
    assert "`uint`" not in str(found.value)


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_each_element_of_a_batch_is_a_run_of_its_own(engine: str) -> None:
    f = defined(
        "@reversible\ndef f(x: uint, y: uint, q: uint, less: bool):\n    q += x // y\n    less ^= x < y\n    x ^= x >> 7\n    y *= 5\n"
    )
    rows = [(1, 3, 0, False), (2**63 + 5, 7, 1, True), (TOP - 1, 2**63 + 1, TOP - 1, False)]
    x, y, q, less = zip(*rows, strict=True)
    found = rg.run_batch(f, np.array(x, np.uint64), list(y), np.array(q, np.uint64), list(less), engine=engine).values
    assert [*zip(*(v.tolist() for v in found), strict=True)] == [tuple(f(*row)) for row in rows]
    assert found.x.dtype == np.uint64


def test_the_expressions_that_mix_int_and_uint_where_order_matters_are_refused() -> None:
    for e in ("u < n", "n >= u", "u == n", "u // n", "n % u", "min(u, n)", "max(n, u)", "u / n"):
        with pytest.raises(CompileError, match=r"int and a uint") as found:
            defined(f"@reversible\ndef f(y: fixed, b: bool, u: uint, n: int):\n    t = {e}\n    del t\n")(
                0.0, False, 3, 4
            )
        assert found.value.code == "RG0703", e
