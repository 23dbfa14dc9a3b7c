"""Measure the worst error of every numeric function and write docs/reference/numbers.json and docs/reference/numbers.md.

    python tools/measure_numbers.py [--quick | --check | --page] docs/reference

The expression trees are folded into C, compiled with `cc` and run over all arguments of Q16.16, or over tens of
millions of Q32.32, against the C library (float64) and libquadmath (113 bits). This is a filter: the worst points of
every block are then measured again with mpmath at 200 bits, and only that error is reported. `--quick` takes samples
and writes nothing. `--check` compares the page with the JSON, and `--page` writes it from the JSON. The full run takes
about seven minutes on two cores.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mpmath as mp
import numpy as np
from numpy.typing import NDArray
from retrograd.isa import functions
from retrograd.isa.expr import Expr, half, nodes, place
from retrograd.isa.files import write_file
from retrograd.isa.folds import emit
from retrograd.isa.table import TABLE
from retrograd.isa.words import Format

Q16, Q32 = Format(32, 16), Format(64, 32)
#: no sum within a rotation overflows for vectors shorter than this share of the largest word
SHARE = 0.92
REACH = 64
BLOCK = 1 << 22
WORDS = NDArray[np.int64]


# ------------------------------------------------------------------ trees as C


def c_source(roots: Sequence[Expr], w: Format) -> str:
    """`static void f(U d, U a, U b, U *out)`: one assignment a node, in words U, their signed form S and products P."""
    names: dict[Expr, str] = {}
    tables: dict[tuple[int, ...], str] = {}
    body: list[str] = []
    for node in nodes(*roots):
        text = _c_operation(node, [names[arg] for arg in node.args], w, tables)
        names[node] = text if node.op in ("input", "const") else f"t{len(names)}"
        if names[node] != text:
            body.append(f"    U {names[node]} = {text};")
    body += [f"    out[{i}] = {names[root]};" for i, root in enumerate(roots)]
    constants = [
        f"static const U {name}[] = {{{', '.join(f'{x & w.mask}ULL' for x in values)}}};"
        for values, name in tables.items()
    ]
    return "\n".join([*constants, "static inline void f(U d, U a, U b, U *out) {", *body, "}"])


def _c_operation(node: Expr, v: list[str], w: Format, tables: dict[tuple[int, ...], str]) -> str:
    s = node.param if isinstance(node.param, int) else 0
    n = w.width - 1
    match node.op:
        case "const":
            return f"(U){s & w.mask}ULL"
        case "input":
            return str(node.param)
        case "add" | "sub" | "and" | "or" | "xor":
            sign = {"add": "+", "sub": "-", "and": "&", "or": "|", "xor": "^"}[node.op]
            return f"(U)({v[0]} {sign} {v[1]})"
        case "shl":
            return f"(U)({v[0]} << ({v[1]} & {n}))"
        case "shr":
            return f"(U)({v[0]} >> ({v[1]} & {n}))"
        case "sar":
            return f"(U)((S){v[0]} >> ({v[1]} & {n}))"
        case "eq":
            return f"(U)({v[0]} == {v[1]})"
        case "lt":
            return f"(U)((S){v[0]} < (S){v[1]})"
        case "ltu":
            return f"(U)({v[0]} < {v[1]})"
        case "select":
            return f"{v[0]} ? {v[1]} : {v[2]}"
        case "mulshift":
            return f"(U)(((P)(S){v[0]} * (S){v[1]}) >> {min(s, 2 * w.width - 1)})"
        case "divshift":
            top, bottom = f"(P)(S){v[0]} * ((P)1 << {max(s, 0)})", f"(P)(S){v[1]} * ((P)1 << {max(-s, 0)})"
            return f"{v[1]} ? (U)floor_div({top}, {bottom}) : 0"
        case "mulround":
            return f"(U)(((P)(S){v[0]} * (S){v[1]} + (P){half(s, w)}ULL) >> {s})"
        case "divround":
            places = s % w.width
            twice = f"floor_div((P)(S){v[0]} * ((P)1 << {places + 1}), (P)(S){v[1]})"
            return f"{v[1]} ? (U)(({twice} + 1) >> {1 + places - s}) : 0"
        case "sqrtround":
            return f"(S){v[0]} < 0 ? 0 : (U)((root((UP){v[0]} << {s + 2}) + 1) >> 1)"
        case "table" if isinstance(node.param, tuple):
            name = tables.setdefault(node.param, f"T{len(tables)}")
            return f"{name}[{v[0]} & {len(node.param) - 1}]"
    raise ValueError(f"no C for operation {node.op!r}")


_PRELUDE = """
#include <stdint.h>
#include <math.h>
#if W == 64
#include <quadmath.h>
typedef uint64_t U; typedef int64_t S; typedef __int128 P; typedef unsigned __int128 UP;
typedef __float128 R;
#define F(name) name##q
#else
typedef uint32_t U; typedef int32_t S; typedef int64_t P; typedef uint64_t UP;
typedef double R;
#define F(name) name
#endif
static const R ONE = (R)(1ULL << FRAC);
static const R LIMIT = (R)((U)1 << (W - 1));
static const U SIGN = (U)1 << (W - 1);

static inline P floor_div(P x, P y) { P q = x / y; return q - (x % y != 0 && (x < 0) != (y < 0)); }

static inline UP root(UP x) {
    UP r = (UP)sqrtl((long double)x);
    while (r * r > x) r--;
    while ((r + 1) * (r + 1) <= x) r++;
    return r;
}

/* log2 of a lognum, in units; its number's sign is its top bit */
static inline S logarithm(U x) { return (S)(x << 1) >> 1; }
static inline R real(U x) { return (R)(S)x / ONE; }
static inline R size(R x) { return x < 0 ? -x : x; }

/* log2 |2^x ± 2^y|, in units: the larger logarithm, and the increment by the smaller */
static inline R log_sum(U x, U y) {
    S p = logarithm(x), q = logarithm(y);
    R d = -(R)size((R)p - (R)q) / ONE * F(log)((R)2);
    R rest = (x ^ y) & SIGN ? F(log)(-F(expm1)(d)) : F(log1p)(F(exp)(d));
    return (R)(p > q ? p : q) + rest / F(log)((R)2) * ONE;
}
"""

_KERNEL = """
/* Over n points, from arrays or counting up from `first`: points measured, the worst of them, steps downward. */
int64_t measure(const U *ds, const U *as, const U *bs, U first, int64_t n, double *worst, int64_t *at, int64_t *falls) {
    int64_t measured = 0; S before = 0; int have = 0, side = 0;
    for (int64_t i = 0; i < n; i++) {
        U d = ds ? ds[i] : 0, a = as ? as[i] : (U)(first + (U)i), b = bs ? bs[i] : 0;
        U out[8];
        if (!(DOMAIN)) { have = 0; continue; }
        f(d, a, b, out);
        R limit = LIMIT / LIMIT_PARTS, truth = TRUTH, e;
        if (out[1]) {
            S value = VALUE;
            e = size((R)value - truth);
            /* Of a number's magnitude, growing means falling on the negative side; between the sides is no step. */
            if (side != (MIRRORED && (S)a < 0)) have = 0;
            side = MIRRORED && (S)a < 0;
            if (have && (side ? value > before : value < before)) ++*falls;
            before = value; have = 1;
        } else {
            e = truth + limit < limit - truth ? truth + limit : limit - truth;
            if (e < 0) e = 0;
            have = 0;
        }
        if (!(SOUND)) e = (R)1e9;
        measured++;
        if ((double)e > *worst) { *worst = (double)e; *at = i; }
    }
    return measured;
}
"""

a, b, d = place("a"), place("b"), place("d")


# ------------------------------------------------------------------ cases


class Operands:
    """The operands of a case for mpmath: `d`, `a`, `b` as fixed-point numbers, `x`, `y` as lognums in a and b.

    `rest`: the rest of the angle a after its quarter turns, from the outputs of a shear.
    """

    def __init__(self, w: Format, words: dict[str, int], out: Sequence[int]) -> None:
        self.d, self.a, self.b = (mp.mpf(w.signed(words.get(p, 0))) / (1 << w.frac) for p in "dab")
        self.x, self.y = (
            mp.power(2, mp.mpf(log_of(w, word)) / (1 << w.frac)) * (-1 if word & w.sign else 1)
            for word in (words.get("a", 0), words.get("b", 0))
        )
        self.rest = self.a - out[-1] * mp.pi / 2


@dataclass(frozen=True)
class Case:
    """A value that an instruction computes, and the true value: in C, and by mpmath."""

    name: str
    #: column of the page
    title: str
    #: operands, in the order d, a, b
    operands: str
    #: [value, 1 if it fits, …]
    roots: Callable[[Format], list[Expr]]
    #: the true value for mpmath
    exact: Callable[[Operands], Any]
    #: C expressions over the words d, a, b and out
    truth: str
    domain: str = "1"
    value: str = "(S)out[0]"
    sound: str = "1"
    #: logarithms have half the range of a word
    limit_parts: int = 1
    bound: float = 1.0
    monotone: bool = False
    #: the value's magnitude, or its logarithm, is a function of the argument's
    mirrored: bool = False
    #: a unit is 2^-places
    places: Callable[[Format], int] = lambda w: w.frac


def _roots(name: str) -> Callable[[Format], list[Expr]]:
    """The word that the opcode leaves in a target of 0, and whether all overflow guards hold."""

    def roots(w: Format) -> list[Expr]:
        opcode = TABLE[name]
        fits = Expr("const", (), 1)
        for guard in opcode.guards(w):
            if guard.mode == "overflow":
                fits = fits & opcode.guard_predicate(guard, w).ne(0)
        return [opcode.transition(w)["d"], fits]

    return roots


def _rotated(which: str) -> Callable[[Format], list[Expr]]:
    return lambda w: [TABLE["rot"].transition(w)[which], Expr("const", (), 1)]


def _shear(part: str) -> Callable[[Format], list[Expr]]:
    def roots(w: Format) -> list[Expr]:
        r = functions.rotation(a, w)
        return [getattr(r, part), Expr("const", (), 1), r.exchanged | (r.second_negated << 1)]

    return roots


_SHORT = "F(sqrt)((R)(S)d * (S)d + (R)(S)a * (S)a) <= SHARE * LIMIT"
#: sine and cosine of the rest of the angle a after its quarter turns
_LEFT_SIN = "(out[2] == 0 ? F(sin)(real(a)) : out[2] == 1 ? -F(cos)(real(a)) : out[2] == 2 ? -F(sin)(real(a)) : F(cos)(real(a)))"
_LEFT_COS = "(out[2] == 0 ? F(cos)(real(a)) : out[2] == 1 ? F(sin)(real(a)) : out[2] == 2 ? -F(cos)(real(a)) : -F(sin)(real(a)))"

CASES = [
    Case("fexp", "e^a", "a", _roots("fexp.add"), lambda p: mp.exp(p.a),
         "F(exp)(real(a)) * ONE", monotone=True),
    Case("flog", "ln a", "a", _roots("flog.add"), lambda p: mp.log(p.a),
         "F(log)(real(a)) * ONE", "(S)a > 0", monotone=True),
    Case("fsqrt", "√a", "a", _roots("fsqrt.add"), lambda p: mp.sqrt(p.a),
         "F(sqrt)(real(a)) * ONE", "(S)a >= 0", bound=0.5, monotone=True),
    Case("fsin", "sin a", "a", _roots("fsin.add"), lambda p: mp.sin(p.a),
         "F(sin)(real(a)) * ONE"),
    Case("fcos", "cos a", "a", _roots("fcos.add"), lambda p: mp.cos(p.a),
         "F(cos)(real(a)) * ONE"),
    Case("fatan2", "the angle of (b, a)", "ab", _roots("fatan2.add"), lambda p: mp.atan2(p.a, p.b),
         "F(atan2)(real(a), real(b)) * ONE", "(a | b) != 0"),
    Case("fmul", "a · b", "ab", _roots("fmul.add"), lambda p: p.a * p.b,
         "real(a) * real(b) * ONE", bound=0.5),
    Case("fdiv", "a / b", "ab", _roots("fdiv.add"), lambda p: p.a / p.b,
         "real(a) / real(b) * ONE", "b != 0", bound=0.5),
    Case("ltof", "fixed from lognum", "a", _roots("ltof.add"), lambda p: p.x,
         "(a & SIGN ? -1 : 1) * F(exp2)((R)logarithm(a) / ONE) * ONE", monotone=True, mirrored=True),
    Case("ftol", "lognum from fixed", "a", _roots("ftol.mul"), lambda p: mp.log(abs(p.a), 2),
         "F(log2)(size(real(a))) * ONE", "a != 0", "logarithm(out[0])", "!((out[0] ^ a) & SIGN)", 2, monotone=True, mirrored=True),
    Case("ladd", "lognum a + b", "ab", _roots("ladd.mul"), lambda p: mp.log(abs(p.x + p.y), 2),
         "log_sum(a, b)", "a != (b ^ SIGN)", "logarithm(out[0])", "(out[0] & SIGN) == ((logarithm(a) >= logarithm(b) ? a : b) & SIGN)", 2),
    Case("lsub", "lognum a − b", "ab", _roots("lsub.mul"), lambda p: mp.log(abs(p.x - p.y), 2),
         "log_sum(a, b ^ SIGN)", "a != b", "logarithm(out[0])", "(out[0] & SIGN) == ((logarithm(a) >= logarithm(b) ? a : b ^ SIGN) & SIGN)", 2),
    Case("llog", "ln of a lognum", "a", _roots("llog.add"), lambda p: mp.log(p.x),
         "(R)logarithm(a) * F(log)((R)2)", "!(a & SIGN)", bound=0.63, monotone=True),
    Case("lexp", "lognum e^a", "a", _roots("lexp.mul"), lambda p: p.a / mp.log(2),
         "(R)(S)a / F(log)((R)2)", value="logarithm(out[0])", sound="!(out[0] & SIGN)", limit_parts=2, bound=0.59, monotone=True),
    Case("lpow", "lognum a^b", "ab", _roots("lpow.mul"), lambda p: p.b * mp.log(p.x, 2),
         "(R)logarithm(a) * (R)(S)b / ONE", "!(a & SIGN)", "logarithm(out[0])", "!(out[0] & SIGN)", 2, bound=0.5),
    Case("rot d", "first component", "dab", _rotated("d"), lambda p: p.d * mp.cos(p.b) - p.a * mp.sin(p.b),
         "(R)(S)d * F(cos)(real(b)) - (R)(S)a * F(sin)(real(b))", _SHORT, bound=2.0),
    Case("rot a", "second component", "dab", _rotated("a"), lambda p: p.d * mp.sin(p.b) + p.a * mp.cos(p.b),
         "(R)(S)d * F(sin)(real(b)) + (R)(S)a * F(cos)(real(b))", _SHORT, bound=2.0),
    Case("rot t", "the shear's tan(θ/2)", "a", _shear("t"), lambda p: mp.tan(p.rest / 2 % mp.pi),
         f"{_LEFT_SIN} / (1 + {_LEFT_COS}) * LIMIT * 2", bound=2.0, places=lambda w: w.width),
    Case("rot s", "the shear's sin θ", "a", _shear("s"), lambda p: mp.sin(p.rest),
         f"{_LEFT_SIN} * LIMIT", bound=2.0, places=lambda w: w.width - 1),
]  # fmt: skip


def log_of(w: Format, word: int) -> int:
    """log2 of a lognum, in units."""
    low: int = word & (w.sign - 1)
    return low - int(w.sign) if low & (w.sign >> 1) else low


def python(case: Case, w: Format) -> Callable[..., tuple[int, ...]]:
    """(d, a, b) -> the case's roots, by the emitted Python."""
    statements, out = emit(case.roots(w), w, {p: p for p in "dab"})
    if not case.name.startswith("rot"):
        statements = ["d = 0", *statements]
    scope: dict[str, Any] = {}
    body = [*statements, f"return ({', '.join(out)},)"]
    exec("def run(d, a, b):\n" + "".join(f"    {line}\n" for line in body), {"isqrt": math.isqrt}, scope)
    run: Callable[..., tuple[int, ...]] = scope["run"]
    return run


def error(case: Case, w: Format, words: dict[str, int], run: Callable[..., tuple[int, ...]]) -> Any:
    """The error in units; if overflow is reported, the distance of the true value from the end of the format."""
    with mp.workprec(200 + w.width):
        out = run(*(words.get(p, 0) for p in "dab"))
        truth = case.exact(Operands(w, words, out)) * (1 << case.places(w))
        if not out[1]:
            limit = w.sign // case.limit_parts
            return max(mp.mpf(0), min(limit - truth, truth + limit))
        return abs((log_of(w, out[0]) if case.limit_parts == 2 else w.signed(out[0])) - truth)


class Compiled:
    """The kernel of one case and format."""

    def __init__(self, case: Case, w: Format, folder: Path) -> None:
        self.case, self.w = case, w
        self.word = np.dtype(np.uint64 if w.width == 64 else np.uint32)
        path = folder / f"{case.name.replace(' ', '_')}{w.width}.c"
        macros = [f"#define W {w.width}", f"#define FRAC {w.frac}", f"#define SHARE ((R){SHARE})"]
        macros.append(f"#define MIRRORED {int(case.mirrored)}")
        pieces = {"DOMAIN": case.domain, "VALUE": case.value, "SOUND": case.sound, "LIMIT_PARTS": str(case.limit_parts)}
        # A macro without parameters may contain brackets and commas, as the text of the truth does.
        macros += [f"#define {name} {text}" for name, text in {**pieces, "TRUTH": case.truth}.items()]
        text = "\n".join([*macros, _PRELUDE, c_source(case.roots(w), w), _KERNEL])
        write_file(path, text)
        library = path.with_suffix(".so")
        command = ["cc", "-O3", "-march=native", "-shared", "-fPIC", "-o", library, path, "-lquadmath", "-lm"]
        subprocess.run(list(map(str, command)), check=True)
        self.measure = ctypes.CDLL(str(library)).measure
        self.measure.restype = ctypes.c_int64

    def __call__(self, points: Points) -> Found:
        columns: list[NDArray[Any] | None] = [
            None if column is None else np.ascontiguousarray(column.astype(self.word)) for column in points.columns
        ]
        worst, at, falls = ctypes.c_double(-1), ctypes.c_int64(0), ctypes.c_int64(0)
        pointers = [None if c is None else c.ctypes.data_as(ctypes.c_void_p) for c in columns]
        first = (ctypes.c_uint64 if self.w.width == 64 else ctypes.c_uint32)(points.first & self.w.mask)
        measured = self.measure(
            *pointers, first, ctypes.c_int64(points.count), ctypes.byref(worst), ctypes.byref(at), ctypes.byref(falls)
        )
        words = {p: int(c[at.value]) for p, c in zip("dab", columns, strict=True) if c is not None}
        if points.columns[1] is None:
            words["a"] = (points.first + at.value) & self.w.mask
        return Found(worst.value, words, int(measured) - points.overlap, falls.value)


@dataclass(frozen=True)
class Points:
    """Words d, a, b as arrays (None: zero), or a counting up from `first`."""

    columns: tuple[WORDS | None, WORDS | None, WORDS | None]
    first: int
    count: int
    #: the first point is also the last of the block before
    overlap: bool = False


@dataclass(frozen=True)
class Found:
    worst: float
    words: dict[str, int]
    measured: int
    falls: int


def counting(first: int, end: int, block: int = BLOCK) -> Iterator[Points]:
    """first … end − 1, in blocks that overlap by one point, so that each step between neighbours is within a block."""
    for start in range(first, end, block):
        yield Points((None, None, None), start, min(block + 1, end - start), start > first)


# ------------------------------------------------------------------ points of the wide format


def any_words(rng: np.random.Generator, w: Format, n: int) -> WORDS:
    """Half of the words uniform, half with uniform lengths."""
    x: WORDS = rng.integers(-w.sign, w.sign - 1, n, np.int64, endpoint=True)
    return x >> (rng.integers(0, w.width, n) * rng.integers(0, 2, n))


def samples(case: Case, w: Format, rng: np.random.Generator, n: int) -> Points:
    """Random operands of a case."""
    one, k = 1 << w.frac, 2 << functions.index_bits(w)
    x = any_words(rng, w, n)
    match case.name:
        case "fexp" | "ltof":
            scale = math.log(2) if case.name == "fexp" else 1.0
            low, high = -int((w.frac + 2) * scale * one), int((w.width - 1 - w.frac) * scale * one) + 2
            x = rng.integers(low, high, n)
            # A third near the top, where a unit is the smallest part of the value; a third near zero.
            part = rng.integers(0, 3, n)
            x = np.where(
                part == 1, high - rng.integers(0, one, n), np.where(part == 2, x >> rng.integers(0, w.width - 2, n), x)
            )
            if case.name == "ltof":
                x = (x & (w.sign - 1)) | (rng.integers(0, 2, n) << (w.width - 1))
            return Points((None, x, None), 0, n)
        case "flog" | "fsqrt":
            return Points((None, np.where(x < 0, ~x, x), None), 0, n)
        case "fatan2" | "fdiv":
            y = any_words(rng, w, n)
            # A half near the slopes of the table and between them, on either side of the diagonal.
            slope = (x >> 9) * rng.integers(-k, k, n, endpoint=True) // k * 512 + rng.integers(-3, 4, n)
            y = np.where(rng.integers(0, 2, n) == 1, slope, y)
            turned = rng.integers(0, 2, n) == 1
            return Points((None, np.where(turned, x, y), np.where(turned, y, x)), 0, n)
        case "fmul":
            return Points((None, x, any_words(rng, w, n)), 0, n)
        case "llog":
            return Points((None, x >> 1 & (w.sign - 1), None), 0, n)
        case "lexp":
            # The logarithm of a power has a bit less than a word.
            return Points((None, x >> 1, None), 0, n)
        case "lpow":
            # Half of the exponents are short, so that more powers fit.
            exponents = any_words(rng, w, n) >> rng.integers(0, w.width, n) * rng.integers(0, 2, n)
            return Points((None, x >> 1 & (w.sign - 1), exponents), 0, n)
        case "ladd" | "lsub":
            top = rng.integers(-w.sign // 4, w.sign // 4, n) >> rng.integers(0, w.width // 2, n)
            far = rng.integers(0, (w.frac + 8) * one, n)
            difference = np.where(rng.integers(0, 2, n) == 1, far, far >> rng.integers(0, w.frac + 5, n))
            lower = top - difference
            signs = [rng.integers(0, 2, n) << (w.width - 1) for _ in range(2)]
            u, v = (top & (w.sign - 1)) | signs[0], (lower & (w.sign - 1)) | signs[1]
            turned = rng.integers(0, 2, n) == 1
            return Points((None, np.where(turned, u, v), np.where(turned, v, u)), 0, n)
        case "rot d" | "rot a":
            short = rng.integers(0, w.width, n) * rng.integers(0, 2, n)
            first, second = (rng.integers(-w.sign, w.sign - 1, n, np.int64) >> short for _ in range(2))
            return Points((first, second, x), 0, n)
    return Points((None, x, None), 0, n)


def edges(case: Case, w: Format) -> list[int]:
    """Arguments (differences for sums) between two entries of a table, and ends of the domain."""
    k, one = 1 << functions.index_bits(w), 1 << w.frac
    low, high = -w.frac - 2, w.width - 1 - w.frac
    ends = [-w.sign, -1, 0, 1, w.sign - 1, *(s << n for n in range(w.width - 1) for s in (1, -1))]
    with mp.workprec(200):
        match case.name:
            case "fexp" | "ltof":
                unit = (mp.log(2) if case.name == "fexp" else mp.mpf(1)) * one
                steps = [
                    int(mp.floor((e + (j + mp.mpf(1) / 2) / k) * unit)) for e in range(low, high + 1) for j in range(k)
                ]
                if case.name == "ltof":
                    steps = [sign | (x & (w.sign - 1)) for sign in (0, w.sign) for x in steps]
                return [*steps, 0]
            case "flog" | "ftol" | "fsqrt":
                steps = [((k + j) << e) // k for e in range(w.width - 1) for j in range(k)]
                steps = [x for x in steps if x < w.sign]
                return steps + [-x for x in steps if case.name == "ftol"] + ends
            case "llog":
                # Words in the order of the numbers, from the least to the greatest; 0 is the number 1.
                least, most = w.sign // 2 + REACH, w.sign // 2 - REACH - 1
                logs = [s << n for n in range(w.width - 3) for s in (1, -1)]
                return [least, most, 0, *(x & (w.sign - 1) for x in logs if REACH < abs(x) < most)]
            case "lexp":
                return [int(s * mp.log(2) * (w.sign // 2)) for s in (1, -1)] + ends
            case "fsin" | "fcos" | "rot t" | "rot s":
                turn = 2 * mp.pi * one
                last = int(w.sign / turn)
                turns = (0, 1, -1, -2, last - 1, -last, last // 2)
                steps = [int(mp.floor((n + mp.mpf(j) / (8 * k)) * turn)) for n in turns for j in range(8 * k)]
                return [x for x in steps if -w.sign <= x < w.sign] + ends
            case "ladd" | "lsub":
                return [int(mp.floor(mp.mpf(j) / (2 * k) * one)) for j in range(2 * k * 8)] + [one // k, 0]
    return []


def around_edges(case: Case, w: Format, rng: np.random.Generator) -> Iterator[Points]:
    """Every edge and 64 neighbours on either side."""
    for edge in edges(case, w):
        if case.name in ("ladd", "lsub"):
            difference = np.arange(max(0, edge - REACH), edge + REACH + 1)
            top = rng.integers(-w.sign // 4, w.sign // 4, len(difference))
            for other in (0, 1):
                x, y = top & (w.sign - 1), ((top - difference) & (w.sign - 1)) | (np.int64(other) << (w.width - 1))
                yield Points((None, x, y), 0, len(difference))
        else:
            yield Points((None, None, None), edge - REACH, 2 * REACH + 1)


def corners(case: Case, w: Format) -> Iterator[Points]:
    """All combinations of end words and powers of two."""
    powers = [s << n for n in range(0, w.width - 1, 3) for s in (1, -1)]
    ends = [-w.sign, 1 - w.sign, -1, 0, 1, w.sign - 1, w.sign // 2, *powers]
    if len(case.operands) > 1:
        grid = np.meshgrid(*[np.array(ends)] * len(case.operands))
        columns = dict(zip(case.operands, (x.ravel() for x in grid), strict=True))
        yield Points((columns.get("d"), columns["a"], columns["b"]), 0, len(columns["a"]))


# ------------------------------------------------------------------ points of the narrow format: all


def everything(case: Case, w: Format) -> tuple[str, list[Points]] | None:
    """(the meaning of "all", the points), if the arguments are few enough to try them all."""
    one = 1 << w.frac
    match case.name:
        case "fexp":
            low, high = -(w.frac + 2) * one, (w.width - 1 - w.frac) * one
            return "all arguments whose power is neither 0 nor refused, and a million words of any size", list(
                counting(low, high, 1 << 16)
            )
        case "flog" | "fsqrt":
            return "all arguments", list(counting(0, w.sign))
        case "fsin" | "fcos" | "lexp":
            return "all arguments", list(counting(-w.sign, w.sign))
        case "llog":
            # The words of numbers from 1 on, then of those below.
            return "all arguments", [*counting(0, w.sign // 2), *counting(w.sign // 2, w.sign)]
        case "ftol":
            return "all arguments", list(counting(-w.sign, 0)) + list(counting(1, w.sign))
        case "ltof":
            low, high = -(w.frac + 2) * one, (w.width - w.frac) * one
            points = [*counting(low & (w.sign - 1), w.sign, 1 << 16), *counting(0, high, 1 << 16)]
            points += [Points(p.columns, p.first | w.sign, p.count, p.overlap) for p in points]
            return "all arguments whose power is neither 0 nor refused, and a million words of any size", points
        case "ladd" | "lsub":
            # A sum is the larger logarithm plus a function of the difference alone.
            blocks = [np.arange(first, first + (1 << 16)) for first in range(0, 1 << 22, 1 << 16)]
            points = []
            for difference, other in ((x, s) for x in blocks for s in (0, w.sign)):
                top = np.full(len(difference), w.sign // 4)
                x, y = top, (top - difference) | other
                points.append(Points((None, x, y), 0, len(difference)))
                points.append(Points((None, y, x), 0, len(difference)))
            return "all differences up to 64, beyond which nothing is added", points
    return None


# ------------------------------------------------------------------ the run


def cut(worst: Any) -> float:
    """Cut off after nine places, so that an error below its bound stays below it."""
    with mp.workprec(300):
        return int(mp.floor(worst * 10**9)) / 10**9


def run_case(case: Case, w: Format, folder: Path, quick: bool, pool: ThreadPoolExecutor) -> dict[str, Any]:
    compiled, rng = Compiled(case, w, folder), np.random.default_rng(sum(case.name.encode()) + w.width)
    all_of_them = everything(case, w) if w == Q16 and not quick else None
    edge_results: list[Found] = []
    others: list[Found] = []
    if all_of_them is not None:
        scope, points = all_of_them
        results = list(pool.map(compiled, points))
        others = list(
            pool.map(compiled, [Points((None, any_words(rng, w, 1 << 20), None), 0, 1 << 20)] * (case.operands == "a"))
        )
    else:
        scope = (
            "random points, every edge of a table's segments ± 64 neighbours, ends"
            if edges(case, w)
            else "random points, ends"
        )
        blocks, size = (20, 10_000) if quick else (1200, 10_000)
        if w == Q16 and not quick:
            blocks, size = 1000, 100_000
        edge_results = list(pool.map(compiled, around_edges(case, w, rng)))
        extra = list(map(compiled, corners(case, w)))
        results = edge_results + extra
        # A few blocks at a time, to bound the memory.
        for _ in range(0, blocks, 20):
            results += pool.map(compiled, [samples(case, w, rng, size) for _ in range(20)])

    run = python(case, w)
    worst, at = mp.mpf(-1), {}
    for found in sorted((r for r in results + others if r.measured), key=lambda r: -r.worst)[:1000]:
        e = error(case, w, found.words, run)
        # Two implementations of the tree and of the function must agree on the error.
        if abs(e - found.worst) > 2.0**-10:
            raise AssertionError(f"{case.name} in {w} at {found.words}: {found.worst} by C, {float(e)} by mpmath")
        if e > worst:
            worst, at = e, found.words
    out: dict[str, Any] = {
        "function": case.name,
        "format": str(w),
        "points": sum(r.measured for r in results),
        "exhaustive": all_of_them is not None,
        "scope": scope,
        "unit": f"2^-{case.places(w)}",
        "bound": case.bound,
        "worst": cut(worst),
        "at": {p: w.signed(at[p]) for p in case.operands},
    }
    if case.monotone:
        walked = results if all_of_them is not None else edge_results
        out["walked"] = sum(r.measured for r in walked)
        out["falls"] = sum(r.falls for r in walked)
        out["edges"] = None if all_of_them is not None else len(edge_results)
    return out


def run_all(quick: bool, only: Collection[str] = ()) -> dict[str, Any]:
    """The results of every case, or of the cases named in `only`, in both formats."""
    started = time.monotonic()
    results = []
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(os.cpu_count()) as pool:
        for w in (Q16, Q32):
            for case in [case for case in CASES if not only or case.name in only]:
                before = time.monotonic()
                r = run_case(case, w, Path(folder), quick, pool)
                results.append(r)
                seconds = time.monotonic() - before
                falls = f", {r['falls']} steps down" if "falls" in r else ""
                print(
                    f"{seconds:6.1f} s  {w} {case.name:7s} {r['points']:>13,} points: {r['worst']:.4f} at {r['at']}{falls}",
                    flush=True,
                )
    print(f"{time.monotonic() - started:6.1f} s in all")
    return {"results": results}


# ------------------------------------------------------------------ the page

_HEADER = "<!-- Generated by python tools/measure_numbers.py docs/reference; do not edit. -->\n\n"

_TEXT = """# Numbers

Look up how exact each function on numbers is, and how its error was measured. [The instruction set](isa.md) defines the functions.

## Conventions
- A format Q*I*.*F* has words of W = *I* + *F* bits; a fixed-point number is its word divided by 2^F. A **unit** is the
  last place of the format, 2^-F. For a lognum it is the last place of log2|x|.
- A float64 has 53 bits, and a word may have 64. `rg.fixed.to_words` rounds a float to the nearest word, ties to even. Numbers that a
  run or `to_reals` returned [keep their word](../language.md#what-a-call-returns), and are converted to that word.
- `fmul`, `fdiv` and `fsqrt` are exact, then rounded to nearest, so their error is at most ½ unit. At a tie the greater word is taken (ties
  up): the result is ⌊z + ½⌋. A root is never half way. `ftoi` rounds in the same way to an integer. `itof` and `fmov` are exact; `rg.floor` is no
  conversion but the function ⌊x⌋.
- Cotangents are rounded in the same way: each product or quotient with a derivative is one of these.
- The other functions round once, at the end, to nearest. Their error before that is a small part of a unit, except in `fexp` and `ltof`. There it is
  relative to the power, and reaches a quarter of a unit more where the power fills the word.
- `llog`, `lexp` and `lpow` are products of logarithms, in every format with functions: `lpow` is exact, then rounded to nearest; `llog` is within {llog} units,
  and `lexp` within {lexp}, since their constants, 1 − ln 2 and log₂ e − 1, are rounded to W places.
- Integers are not rounded: `div` floors, and `mod` is the remainder, as `//` and `%` do in Python; shifts to the right floor.
- Rounding to nearest has no bias except that of ties, which are one in 2^F of random products. The floor is ½ unit too low on average,
  and a sum of n floored products n/2 units.
- An argument without a value (the logarithm of 0 or less, the root of less than 0, the angle of the zero vector, a quotient by 0, the lognum
  of 0) traps before anything is written, and the trap holds the operand.
- A value outside the format traps on a machine that checks overflow. Without the check, the result is the low word of the value: sums, products,
  quotients and `itof` wrap. The powers `fexp` and `ltof` wrap below 2^W units; from 2^W units on they are 0.
- The functions exist in formats with 2 ≤ F ≤ W − 2; in others they trap. The bound of 1 unit is for Q16.16 and Q32.32, and holds wherever F ≥ 5 and
  F ≤ W − 10.
- With fewer bits before the point, logarithms (`flog`, `ftol`, `ladd`, `lsub`) have no room for their last places, and are wrong by up to
  2^(F − W + 10) units. `fatan2` is wrong by up to 2^(F − W + 5) from F = W − 5 on. The other functions keep the bound.
- `irot` undoes `rot` exactly, for all operands and angles. The result of `rot` is within 2 units of the true rotation in either component for vectors
  shorter than {share} · 2^(W−1); no sum within its shears overflows for these. This holds for F ≥ 8. The tables of shorter formats are
  coarser: there the vectors must be shorter than 0.9 · 2^(W−1) at F = 5, and 0.7 · 2^(W−1) at F = 2.

## Method
Each function reduces its argument to an entry of a table and a small remainder, with more bits than a word holds. A Taylor series in the remainder
corrects the entry. Products within a function are taken whole and then floored, beyond the last place of the result; there is no floating point. The tables
are exact values, rounded once (`tools/derive_constants.py`); the coefficients of the series are rational numbers. `isa/functions.py` is the definition. Every backend computes the
same bits, because it folds the same trees.

`rot` makes quarter turns by exchange and negation. Three shears turn the rest of the angle, at most about an eighth of a turn to either side.
"""

_MEASURED = """
## How it was measured
The trees were folded into C. In Q16.16 every argument of a function with one operand was tried, against the float64 functions of the C library. Sums of
lognums were tried at every difference, since the result is the larger logarithm plus a function of the difference.

In Q32.32, three kinds of arguments were tried against libquadmath (113 bits): random points (uniform, of every length, and near the slopes of tables), all words
within 64 of every edge between two entries of a table, and the ends of the domain.

The worst thousand blocks of each function were measured again by another fold of the trees (into Python) against mpmath at 200 bits and more; the two must
agree. Where a function reports overflow, the error is the distance of the true value from the end of the format.

`tests/isa/numbers/` repeats this on samples with every change, and at length in the long tier. It also has the proofs that `rot` is a bijection (every state
of 8 bits; by SMT at 16 bits, for any tables), and tests of derivatives. Run `python tools/measure_numbers.py docs/reference` to measure again.
"""


def shown(worst: float) -> str:
    """The error to four places; 1.0000 or 0.5000 only if it is not less."""
    text = f"{worst:.4f}"
    return {"1.0000": "0.9999…", "0.5000": "0.4999…"}.get(text, text) if worst < float(text) else text


def render(data: dict[str, Any]) -> str:
    """The page."""
    by_name = {case.name: case for case in CASES}
    out = [_HEADER, _TEXT.format(share=SHARE, **{name: by_name[name].bound for name in ("llog", "lexp")})]
    for w in (Q16, Q32):
        out.append(
            f"\n## Worst errors in {w}\n\n| function | computes | points | worst error, units | where |\n|---|---|---|---|---|\n"
        )
        for r in data["results"]:
            if r["format"] == str(w):
                case = by_name[r["function"]]
                where = ", ".join(f"{p} = {value}" for p, value in r["at"].items())
                count = f"{r['points']:,}{', all' if r['exhaustive'] else ''}"
                unit = "" if r["unit"] == f"2^-{w.frac}" else f" (of {r['unit']})"
                out.append(f"| `{case.name}` | {case.title} | {count} | {shown(r['worst'])}{unit} | {where} |\n")
        out.append("\nOperands are words, signed; a lognum's has its sign in the top bit. *All* means:\n")
        scopes: dict[str, list[str]] = {}
        for r in data["results"]:
            if r["format"] == str(w) and r["exhaustive"]:
                scopes.setdefault(r["scope"], []).append(f"`{r['function']}`")
        out = out if scopes else [*out[:-1], "\nOperands are words, signed; a lognum's has its sign in the top bit.\n"]
        out += [f"- {', '.join(names)}: {scope}.\n" for scope, names in scopes.items()]
    out.append(
        "\n## Monotone\nThe table counts consecutive words, and the steps at which the computed value falls although the function grows.\n\n"
    )
    out.append("| function | format | where | words | falls |\n|---|---|---|---|---|\n")
    for r in data["results"]:
        if "falls" in r:
            where = "everywhere" if r["edges"] is None else f"{r['edges']:,} edges and ends ± {REACH}"
            out.append(f"| `{r['function']}` | {r['format']} | {where} | {r['walked']:,} | {r['falls']} |\n")
    return "".join([*out, _MEASURED])


def main(arguments: list[str]) -> int:
    """Measure and write, or check the page; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python tools/measure_numbers.py", description=main.__doc__)
    parser.add_argument("--quick", action="store_true", help="samples only; writes nothing")
    parser.add_argument("--check", action="store_true", help="measure nothing; exit with 1 if the page is stale")
    parser.add_argument("--page", action="store_true", help="measure nothing; write the page from the JSON anew")
    parser.add_argument("--only", metavar="NAME", nargs="+", default=[], help="measure these functions, keep the rest")
    parser.add_argument("docs", type=Path, nargs="?", default=Path("docs/reference"))
    options = parser.parse_args(arguments)
    page, facts = options.docs / "numbers.md", options.docs / "numbers.json"
    if options.check:
        if page.read_text("utf-8") != render(json.loads(facts.read_text("utf-8"))):
            print(f"{page} is stale: run python tools/measure_numbers.py {options.docs}", file=sys.stderr)
            return 1
        return 0
    if options.page:
        write_file(page, render(json.loads(facts.read_text("utf-8"))))
        return 0
    data = run_all(options.quick, options.only)
    wrong = [r for r in data["results"] if r["worst"] > r["bound"] or r.get("falls")]
    for r in wrong:
        print(
            f"{r['function']} in {r['format']}: {r['worst']} of {r['bound']}, {r.get('falls', 0)} falls",
            file=sys.stderr,
        )
    if options.only:
        new = {(r["function"], r["format"]): r for r in data["results"]}
        known = {(r["function"], r["format"]): r for r in json.loads(facts.read_text("utf-8"))["results"]} | new
        data = {"results": [known[case.name, str(w)] for w in (Q16, Q32) for case in CASES]}
    if not options.quick:
        write_file(facts, json.dumps(data, indent=1, ensure_ascii=False) + "\n")
        write_file(page, render(data))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
