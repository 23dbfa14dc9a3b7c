"""STALINGRAD's benchmark programs in VLAD, beside C: docs/vlad-benchmarks.md.

    particle, saddle                                       FF, FR, RF, RR: outer and inner gradient forward (F) or reverse (R)
    probabilistic λ-calculus, probabilistic Prolog         F, R: 1000 steps of ascent
    back-propagation                                       F, R: 10⁶ steps of descent

Each program is a file of examples/vlad with one expression behind its definitions. C computes in float64 by the same
algorithm, written by hand:
F carries a tangent for each component, R goes back over the states that were kept. An inner gradient, and the
interpreters of λ-calculus and
Prolog, are in C the formulas to which they reduce. Each value is compared with that of C before it is timed.

    python -m retrograd.benchmarks.vlad docs

Sources: B. Pearlmutter, J. Siskind, Reverse-Mode AD in a Functional Framework, TOPLAS 2008; the same, Using Programming
Language Theory to Make
Automatic Differentiation Sound and Efficient, AD 2008; the names and counts of the programs are those of
github.com/Functional-AutoDiff/STALINGRAD, examples/examples2009.
"""

from __future__ import annotations

import ctypes
import datetime
import itertools
import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from retrograd.benchmarks.measure import machine, one_core, optimised, timed
from retrograd.benchmarks.page import seconds_text
from retrograd.compiler.frontends.vlad.translation import Expression, read_vlad
from retrograd.isa.diagnostics import Diagnostic, InputError
from retrograd.isa.files import read_file, write_file

from retrograd.derivatives._functional import LARGEST, VladFunction, deep_recursion, settled, value_of
from retrograd.runtime._reversible import run

SCHEMA = "retrograd.vlad-benchmarks/1"
#: in the folder of the documentation
STORE, PAGE = "benchmarks/vlad.json", "vlad-benchmarks.md"
FLAGS = ("-O3",)
#: repeats of a run, and seconds for all of them
_REPEATS, _BUDGET = 5, 10.0

# fmt: off
_C = r"""
#include <math.h>
#include <stdlib.h>

/* A descent: the step doubles after ten steps that succeed, and halves after each that fails. */
#define DESCENT(N, VALUE, SLOPE)                                                                             \
    double fx = VALUE(x), g[N], next[N], eta = 1e-5;                                                         \
    SLOPE(x, g);                                                                                             \
    for (int i = 0;;) {                                                                                      \
        double size = 0, moved = 0;                                                                          \
        for (int c = 0; c < N; c++) size += g[c] * g[c];                                                     \
        if (sqrt(size) <= 1e-5) break;                                                                       \
        if (i == 10) { eta *= 2; i = 0; continue; }                                                          \
        for (int c = 0; c < N; c++) { next[c] = x[c] - eta * g[c]; moved += (x[c] - next[c]) * (x[c] - next[c]); } \
        if (sqrt(moved) <= 1e-5) break;                                                                      \
        double fnext = VALUE(next);                                                                          \
        if (fnext < fx) { for (int c = 0; c < N; c++) x[c] = next[c]; fx = fnext; SLOPE(x, g); i++; }        \
        else { eta /= 2; i = 0; }                                                                            \
    }

/* ---- saddle: the greatest value over v of u·u − v·v, and its derivatives by u. The inner gradient is 2v. */

typedef struct { double p, t; } dual;

static int kept_count, kept_room;
static double *kept;
static void keep(double x) {
    if (kept_count == kept_room) kept = realloc(kept, (kept_room = 2 * kept_room + 1024) * sizeof *kept);
    kept[kept_count++] = x;
}

static void highest(const double *u, double *x, int record) {
    #define LOW(v) (-((u[0] * u[0] + u[1] * u[1]) - (v[0] * v[0] + v[1] * v[1])))
    double fx = LOW(x), next[2], eta = 1e-5;
    for (int i = 0;;) {
        double g0 = 2 * x[0], g1 = 2 * x[1];
        if (sqrt(g0 * g0 + g1 * g1) <= 1e-5) break;
        if (i == 10) { eta *= 2; i = 0; continue; }
        next[0] = x[0] - eta * g0; next[1] = x[1] - eta * g1;
        double d0 = x[0] - next[0], d1 = x[1] - next[1];
        if (sqrt(d0 * d0 + d1 * d1) <= 1e-5) break;
        double fnext = LOW(next);
        if (fnext < fx) { if (record) keep(eta); x[0] = next[0]; x[1] = next[1]; fx = fnext; i++; }
        else { eta /= 2; i = 0; }
    }
}
static double most(const double *u) {
    double v[2] = {1, 1};
    highest(u, v, 0);
    return (u[0] * u[0] + u[1] * u[1]) - (v[0] * v[0] + v[1] * v[1]);
}
static double most_forward(const dual *u) {
    dual x[2] = {{1, 0}, {1, 0}}, next[2];
    #define LOW_DUAL(v) {-((u[0].p * u[0].p + u[1].p * u[1].p) - (v[0].p * v[0].p + v[1].p * v[1].p)), \
                         -2 * ((u[0].p * u[0].t + u[1].p * u[1].t) - (v[0].p * v[0].t + v[1].p * v[1].t))}
    dual fx = LOW_DUAL(x);
    double eta = 1e-5;
    for (int i = 0;;) {
        dual g[2] = {{2 * x[0].p, 2 * x[0].t}, {2 * x[1].p, 2 * x[1].t}};
        if (sqrt(g[0].p * g[0].p + g[1].p * g[1].p) <= 1e-5) break;
        if (i == 10) { eta *= 2; i = 0; continue; }
        for (int c = 0; c < 2; c++) { next[c].p = x[c].p - eta * g[c].p; next[c].t = x[c].t - eta * g[c].t; }
        double d0 = x[0].p - next[0].p, d1 = x[1].p - next[1].p;
        if (sqrt(d0 * d0 + d1 * d1) <= 1e-5) break;
        dual fnext = LOW_DUAL(next);
        if (fnext.p < fx.p) { x[0] = next[0]; x[1] = next[1]; fx = fnext; i++; }
        else { eta /= 2; i = 0; }
    }
    return 2 * ((u[0].p * u[0].t + u[1].p * u[1].t) - (x[0].p * x[0].t + x[1].p * x[1].t));
}
static void most_slope_F(const double *u, double *g) {
    for (int c = 0; c < 2; c++) {
        dual w[2] = {{u[0], c == 0}, {u[1], c == 1}};
        g[c] = most_forward(w);
    }
}
static void most_slope_R(const double *u, double *g) {
    double v[2] = {1, 1};
    kept_count = 0;
    highest(u, v, 1);
    double b[2] = {-2 * v[0], -2 * v[1]};
    while (kept_count) { double eta = kept[--kept_count]; b[0] -= 2 * eta * b[0]; b[1] -= 2 * eta * b[1]; }
    /* The inner start does not depend on u, so nothing of b goes on. */
    volatile double end = b[0] + b[1]; (void)end;
    g[0] = 2 * u[0]; g[1] = 2 * u[1];
}
#define SADDLE(MODE) void saddle_##MODE(double *out) { \
    double x[2] = {1, 1}; DESCENT(2, most, most_slope_##MODE) \
    out[0] = x[0]; out[1] = x[1]; out[2] = out[3] = 1; highest(x, out + 2, 0); }
SADDLE(F) SADDLE(R)

/* ---- particle: how far from x = 0 it crosses y = 0. The force is Σ d/|d|³ over the charges. */

static void force(const double *x, double w, double *f) {
    double a = x[0] - 10, b = x[1] - (10 - w), c = x[1];
    double r = sqrt(a * a + b * b), s = sqrt(a * a + c * c), p = 1 / (r * r * r), q = 1 / (s * s * s);
    f[0] = a * p + a * q; f[1] = b * p + c * q;
}
/* the force's derivative along (t, u), the direction of x and of w: I/r³ − 3 d dᵀ/r⁵ for each charge */
static void bend(const double *x, double w, const double *t, double u, double *f) {
    double a = x[0] - 10, b = x[1] - (10 - w), c = x[1], u1 = t[1] + u;
    double r2 = a * a + b * b, s2 = a * a + c * c, r = sqrt(r2), s = sqrt(s2);
    double p = 1 / (r2 * r), q = 1 / (s2 * s), m = 3 * (a * t[0] + b * u1) / r2, n = 3 * (a * t[0] + c * t[1]) / s2;
    f[0] = p * (t[0] - m * a) + q * (t[0] - n * a); f[1] = p * (u1 - m * b) + q * (t[1] - n * c);
}
static double crossing(const double *given) {
    double w = given[0], x[2] = {0, 8}, v[2] = {.75, 0}, f[2];
    for (;;) {
        force(x, w, f);
        double n0 = x[0] + .1 * v[0], n1 = x[1] + .1 * v[1];
        if (!(n1 > 0)) { double end = x[0] + -x[1] / v[1] * v[0]; return end * end; }
        x[0] = n0; x[1] = n1; v[0] += .1 * f[0]; v[1] += .1 * f[1];
    }
}
static void crossing_slope_F(const double *given, double *g) {
    double w = given[0], x[2] = {0, 8}, v[2] = {.75, 0}, f[2], xt[2] = {0, 0}, vt[2] = {0, 0}, ft[2];
    for (;;) {
        force(x, w, f); bend(x, w, xt, 1, ft);
        double n0 = x[0] + .1 * v[0], n1 = x[1] + .1 * v[1];
        if (!(n1 > 0)) {
            double rest = -x[1] / v[1], rt = (-xt[1] - rest * vt[1]) / v[1], end = x[0] + rest * v[0];
            g[0] = 2 * end * (xt[0] + rt * v[0] + rest * vt[0]);
            return;
        }
        x[0] = n0; x[1] = n1;
        for (int c = 0; c < 2; c++) { xt[c] += .1 * vt[c]; v[c] += .1 * f[c]; vt[c] += .1 * ft[c]; }
    }
}
static void crossing_slope_R(const double *given, double *g) {
    double w = given[0], x[2] = {0, 8}, v[2] = {.75, 0}, f[2];
    kept_count = 0;
    for (;;) {
        force(x, w, f);
        double n0 = x[0] + .1 * v[0], n1 = x[1] + .1 * v[1];
        if (!(n1 > 0)) break;
        keep(x[0]); keep(x[1]);
        x[0] = n0; x[1] = n1; v[0] += .1 * f[0]; v[1] += .1 * f[1];
    }
    double rest = -x[1] / v[1], end = 2 * (x[0] + rest * v[0]), zero[2] = {0, 0};
    double xb[2] = {end, -end * v[0] / v[1]}, vb[2] = {end * rest, -end * v[0] * rest / v[1]}, wb = 0;
    while (kept_count) {
        double at[2] = {kept[kept_count - 2], kept[kept_count - 1]}, fb[2] = {.1 * vb[0], .1 * vb[1]}, along[2], by[2];
        kept_count -= 2;
        bend(at, w, fb, 0, along);              /* the derivative of the force by x is symmetric */
        bend(at, w, zero, 1, by);
        wb += by[0] * fb[0] + by[1] * fb[1];
        for (int c = 0; c < 2; c++) { vb[c] += .1 * xb[c]; xb[c] += along[c]; }
    }
    g[0] = wb;
}
#define PARTICLE(MODE) void particle_##MODE(double *out) { \
    double x[1] = {0}; DESCENT(1, crossing, crossing_slope_##MODE) out[0] = x[0]; }
PARTICLE(F) PARTICLE(R)

/* ---- the likelihoods, of which the first shares its distribution, and the second proves each query anew */

#define TIMES(a, b) (dual){a.p * b.p, a.p * b.t + a.t * b.p}
static double calculus_forward(dual p, dual q) {
    dual np = {1 - p.p, -p.t}, nq = {1 - q.p, -q.t}, one = TIMES(np, q), two = TIMES(np, nq), both = TIMES(p, one), last = TIMES(two, two);
    return (TIMES(both, last)).t;
}
static double prolog_forward(dual p, dual q) {
    dual np = {1 - p.p, -p.t}, nq = {1 - q.p, -q.t}, one = TIMES(np, q), two = TIMES(np, nq), again = TIMES(np, nq);
    dual inner = TIMES(two, again), outer = TIMES(one, inner);
    return (TIMES(p, outer)).t;
}
static void back(double p, double q, double *g) {
    double np = 1 - p, nq = 1 - q, one = np * q, two = np * nq, both = p * one, last = two * two;
    double bothb = last, lastb = both, twob = 2 * two * lastb, oneb = p * bothb;
    double npb = oneb * q + twob * nq, nqb = twob * np;
    g[0] = bothb * one - npb; g[1] = oneb * np - nqb;
}
#define ASCENT(NAME, SLOPES) void NAME(double *out) { \
    double p = .5, q = .5, g[2]; \
    for (int i = 0; i < 1000; i++) { SLOPES; p += .1 * g[0]; q += .1 * g[1]; } \
    out[0] = p; out[1] = q; }
#define TWICE(f) g[0] = f((dual){p, 1}, (dual){q, 0}), g[1] = f((dual){p, 0}, (dual){q, 1})
ASCENT(calculus_F, TWICE(calculus_forward)) ASCENT(calculus_R, back(p, q, g))
ASCENT(prolog_F, TWICE(prolog_forward)) ASCENT(prolog_R, back(p, q, g))

/* ---- back-propagation: exclusive or, two layers, weights with the bias first */

static const double data[4][3] = {{0, 0, 0}, {0, 1, 1}, {1, 0, 1}, {1, 1, 0}};
static double sigmoid(double z) { return 1 / (1 + exp(-z)); }
static double loss(const double *w) {
    double total = 0;
    for (int k = 0; k < 4; k++) {
        double x = data[k][0], y = data[k][1], a = sigmoid(w[0] + w[1] * x + w[2] * y), b = sigmoid(w[3] + w[4] * x + w[5] * y);
        double e = sigmoid(w[6] + w[7] * a + w[8] * b) - data[k][2];
        total += e * e;
    }
    return .5 * total;
}
static double loss_forward(const double *w, const double *t) {
    double total = 0;
    for (int k = 0; k < 4; k++) {
        double x = data[k][0], y = data[k][1], a = sigmoid(w[0] + w[1] * x + w[2] * y), b = sigmoid(w[3] + w[4] * x + w[5] * y);
        double at = a * (1 - a) * (t[0] + t[1] * x + t[2] * y), bt = b * (1 - b) * (t[3] + t[4] * x + t[5] * y);
        double o = sigmoid(w[6] + w[7] * a + w[8] * b);
        total += (o - data[k][2]) * o * (1 - o) * (t[6] + t[7] * a + w[7] * at + t[8] * b + w[8] * bt);
    }
    return total;
}
static void loss_slope_F(const double *w, double *g) {
    for (int c = 0; c < 9; c++) { double t[9] = {0}; t[c] = 1; g[c] = loss_forward(w, t); }
}
static void loss_slope_R(const double *w, double *g) {
    for (int c = 0; c < 9; c++) g[c] = 0;
    for (int k = 0; k < 4; k++) {
        double x = data[k][0], y = data[k][1], a = sigmoid(w[0] + w[1] * x + w[2] * y), b = sigmoid(w[3] + w[4] * x + w[5] * y);
        double o = sigmoid(w[6] + w[7] * a + w[8] * b), s = (o - data[k][2]) * o * (1 - o);
        double ab = s * w[7] * a * (1 - a), bb = s * w[8] * b * (1 - b);
        g[0] += ab; g[1] += ab * x; g[2] += ab * y; g[3] += bb; g[4] += bb * x; g[5] += bb * y;
        g[6] += s; g[7] += s * a; g[8] += s * b;
    }
}
#define DESCENDED(MODE) void backprop_##MODE(double *out, int steps) { \
    double w[9] = {0, -0.284227, 1.16054, 0, 0.617194, 1.30467, 0, -0.084395, 0.648461}, g[9]; \
    for (int i = 0; i < steps; i++) { loss_slope_##MODE(w, g); for (int c = 0; c < 9; c++) w[c] -= .3 * g[c]; } \
    out[0] = loss(w); }
DESCENDED(F) DESCENDED(R)
"""
# fmt: on


@dataclass(frozen=True)
class Case:
    """A program: its name, the file of its definitions, its expression, and the function of C."""

    name: str
    file: str
    expression: str
    c: str
    numbers: int
    steps: str
    argument: int | None = None


def cases(backprop_steps: int = 1_000_000) -> Iterator[Case]:
    """The fourteen programs; `backprop_steps`: of the descent."""
    modes = {"F": "gradient-F", "R": "gradient-R"}
    for name, expression, numbers in (("particle", "control", 1), ("saddle", "saddle", 4)):
        for (outer, f), (inner, g) in itertools.product(modes.items(), repeat=2):
            text = f"({expression} {f} {g})"
            yield Case(f"{name} {outer}{inner}", name, text, f"{name}_{outer}", numbers, "to convergence")
    for name, file, c in (("λ-calculus", "probability", "calculus"), ("Prolog", "logic", "prolog")):
        for mode, gradient in modes.items():
            text = f"(greatest {gradient} likelihood '(.5 .5) .1 1000)"
            yield Case(f"probabilistic {name} {mode}", file, text, f"{c}_{mode}", 2, "1,000")
    for mode, gradient in modes.items():
        text = f"(loss (descend {gradient} start {backprop_steps}))"
        yield Case(f"backprop {mode}", "xor", text, f"backprop_{mode}", 1, f"{backprop_steps:,}", backprop_steps)


def read(case: Case) -> Expression:
    """The expression of a case behind the definitions of its file."""
    path = files("retrograd.examples") / "vlad" / f"{case.file}.vlad"
    text = path.read_text(encoding="utf-8")
    *_, last = read_vlad(f"{text}\n{case.expression}\n", f"{case.file}.vlad").expressions
    return last


def compiled_c(text: str, folder: Path) -> ctypes.CDLL:
    """A program in C, compiled by `cc` in a folder. Raises InputError where there is no compiler."""
    source, library = folder / "programs.c", folder / "programs.so"
    source.write_text(text)
    try:
        subprocess.run(["cc", *FLAGS, "-shared", "-fPIC", str(source), "-o", str(library), "-lm"], check=True)
    except FileNotFoundError:
        raise InputError(Diagnostic("RG0603", "there is no compiler `cc`", hint="Install gcc or clang.")) from None
    return ctypes.CDLL(str(library))


class CLibrary:
    """The programs in C. Raises InputError where there is no compiler."""

    def __init__(self, folder: Path) -> None:
        self._library = compiled_c(_C, folder)

    def call(self, case: Case) -> Callable[[], list[float]]:
        """A run of a case."""
        out = (ctypes.c_double * case.numbers)()
        function = getattr(self._library, case.c)
        function.restype = None

        def called() -> list[float]:
            function(out, *(() if case.argument is None else (case.argument,)))
            return list(out)

        return called


def numbers(value: Any) -> list[float]:
    """The numbers of a value of VLAD, from left to right."""
    if isinstance(value, tuple):
        return [x for part in value for x in numbers(part)]
    return [float(value)]


@dataclass(frozen=True)
class Row:
    """A measured case: values, seconds of the compiler, of a run and of C, instructions of a run."""

    name: str
    steps: str
    found: list[float]
    expected: list[float]
    format: str
    infer: float
    compile: float
    run: float
    c: float
    instructions: int
    #: the loops that ran in parts
    parts: list[str]

    @property
    def error(self) -> float:
        return max(abs(x - y) for x, y in zip(self.found, self.expected, strict=True))


#: the greatest difference between a value and that of C: a descent ends within 1e-5 of a minimum, by its own rule
AGREES = 1e-7


def measured(case: Case, library: CLibrary) -> Row:
    """The row of a case. Raises InputError where the value is not that of C."""
    by_c = library.call(case)
    expected = by_c()
    with deep_recursion(), optimised():
        expression = read(case)
        begun = time.process_time()
        function = VladFunction(expression, expression.file.format)
        function.result_type  # noqa: B018 (inferred here)
        inferred = time.process_time()
        types = function.types_of([0.0] * len(function.parameters))
        function.compiled_for(types, function.format_for())
        compiled = time.process_time()
        sized, found, *_ = settled(expression, expression.file.format, "auto", LARGEST, {})
        value = numbers(value_of(sized.result_type, iter(found.values)))
        error = max(abs(x - y) for x, y in zip(value, expected, strict=True))
        if not error <= AGREES:
            message = f"{case.name}: {value} in place of {expected}"
            raise InputError(Diagnostic("RG0603", message, hint="The program or its peer is wrong: nothing is timed."))
        tasks: dict[str, Callable[[], Any]] = {"VLAD": lambda: run(sized), "C": by_c}
        spent = timed(tasks, _REPEATS, _BUDGET, clock=time.process_time)
    return Row(
        case.name, case.steps, value, expected, str(sized.format_for()), inferred - begun, compiled - inferred,
        spent["VLAD"].minimum, spent["C"].minimum, found.steps, sorted(sized.options.parts),
    )  # fmt: skip


def document(say: Callable[[str], None] = lambda _: None) -> dict[str, Any]:
    """All rows, for JSON."""
    rows = []
    with tempfile.TemporaryDirectory() as folder, one_core() as core:
        library = CLibrary(Path(folder))
        for case in cases():
            row = measured(case, library)
            rows.append(asdict(row))
            say(f"{row.name}: {seconds_text(row.run)}, C {seconds_text(row.c)}, difference {row.error:.1e}")
        about = machine(core)
    compiler = subprocess.run(["cc", "--version"], check=True, capture_output=True, text=True).stdout.splitlines()[0]
    date = datetime.datetime.now(datetime.UTC).date().isoformat()
    return {"schema": SCHEMA, "date": date, "machine": about, "compiler": compiler, "rows": rows}


# -----------------------------------------------------------------------------
# The page.

_TEXT = """<!-- Generated by `python -m retrograd.benchmarks.vlad docs`; do not edit. -->

# STALINGRAD's programs

The benchmark programs of Pearlmutter and Siskind's compiler STALINGRAD (2008, 2009), written anew in [VLAD](vlad.md) in
[examples/vlad](../examples/vlad), each with its derivatives taken forward (F) or in reverse (R), and the same algorithms in C.

```
python -m retrograd.benchmarks.vlad docs       # this page and its figures anew: a quarter of an hour
```

{table}

- **Values.** The greatest difference of a number from C in float64. Before a program is timed, this must be at most {agrees}.
- **Compile.** Seconds from the text to the program: types first, then all else. **Run.** Seconds of a run: forward, copy of the result, and back, so that
  no bit is erased. All are seconds of one processor, the least of {repeats}; a run longer than {budget} seconds is timed once.
- **C.** `cc {flags}`, one thread, written by hand. F carries a tangent for each component, R goes back over the states that were kept. Inner gradients,
  and the interpreters of λ-calculus and Prolog, are the formulas to which they reduce.
- **Steps.** Of ascent or descent, as in STALINGRAD's own files. The descents of particle and saddle stop by their own rule, when a step or a gradient is
  shorter than 1e-5; those files repeat them 1,000 times to measure them, and a row here is one run.
- **In parts.** The run needs more than {words} words for history, and as many for recursion. So its outermost loop runs [in parts](functional.md#memory),
  which takes two to five times the instructions.

{date}, {processor}, {system}, Python {python}, {compiler}. Compare times within a row: the machine had other work.
"""


def page(found: dict[str, Any]) -> str:
    """The page as Markdown."""
    head = "| program | steps | value | C, float64 | difference | compile | run | C | run / C | instructions | |"
    lines = [head, "| --- " * head.count("|", 1) + "|"]
    for given in found["rows"]:
        row = Row(**given)
        cells = [
            row.name, row.steps, _shown(row.found), _shown(row.expected), f"{row.error:.1e}",
            f"{row.infer:.2f} + {row.compile:.2f} s", seconds_text(row.run), seconds_text(row.c), _times(row.run / row.c),
            f"{row.instructions:,}", "in parts" if row.parts else "",
        ]  # fmt: skip
        lines.append("| " + " | ".join(cells) + " |")
    about = found["machine"]
    return _TEXT.format(
        table="\n".join(lines), agrees=f"{AGREES:.0e}", repeats=_REPEATS, budget=f"{_BUDGET:g}", flags=" ".join(FLAGS),
        words=f"{LARGEST:,}", date=found["date"], processor=about["processor"], system=about["system"],
        python=about["python"], compiler=found["compiler"],
    )  # fmt: skip


def _shown(values: Sequence[float]) -> str:
    """Values, of which equal ones are shown once."""
    return ", ".join(dict.fromkeys(f"{x:.9g}" for x in values))


def _times(ratio: float) -> str:
    return f"{ratio:.2g}" if ratio < 10 else f"{round(ratio, 1 - math.floor(math.log10(ratio))):,.0f}"


def stored(docs: Path) -> dict[str, Any]:
    """The measured rows. Raises InputError RG1203 for a file of another kind."""
    try:
        found = json.loads(read_file(docs / STORE))
    except ValueError as error:
        raise InputError(Diagnostic("RG1203", f"{docs / STORE} holds no measured programs: {error}")) from None
    if not isinstance(found, dict) or found.get("schema") != SCHEMA:
        message = f"{docs / STORE} holds no measured programs: its schema is not {SCHEMA}"
        raise InputError(Diagnostic("RG1203", message))
    return found


def main(docs: Path) -> None:
    """Measure, and write figures and page."""
    found = document(lambda text: print(text, file=sys.stderr, flush=True))
    write_file(docs / STORE, json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    write_file(docs / PAGE, page(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
