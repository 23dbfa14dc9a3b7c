"""How exact programs are with one binary point, with a point for each variable, and in float64: the section
"Exactness" of the page.

    error = |result − reference| / size of the result         reference: the same program over real numbers of 120 bits

Every program is written as a formula is, without factors. `rg.autoscale` chooses the points, from the run that is
measured. References of derivatives
are central differences of the references, with a step of 10⁻²⁰, so they are right to 30 decimal places.

    python -m retrograd.benchmarks.points docs
"""

from __future__ import annotations

import json
import math
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import mpmath
import numpy as np
from retrograd.benchmarks.page import FIGURES, POINTS, page, read_gpu, write_picture
from retrograd.benchmarks.reporting import read
from retrograd.compiler.ir.real_numbers import RealProgram, RealTrap
from retrograd.compiler.passes.inlining import inline_calls, rename_locals
from retrograd.examples import bundle_adjustment, gmm, graph_embedding, leapfrog, sparse_dot, wave
from retrograd.isa.diagnostics import RetrogradError
from retrograd.isa.files import write_file
from retrograd.isa.words import Q32_32

import retrograd as rg
from retrograd import Array, fixed, reversible
from retrograd.derivatives._arguments import kinds
from retrograd.observe._autoscale import lowered_for, numbers_of_argument
from retrograd.presentation import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: decimal places of the references, some 120 bits
DIGITS = 36
SCHEMA = "retrograd.points/1"


@reversible
def drift(q: Array[fixed, "n", 3], v: Array[fixed, "n", 3], dt: fixed) -> None:
    q += v * dt


@reversible
def attract(
    v: Array[fixed, 3], w: Array[fixed, 3], q: Array[fixed, 3], p: Array[fixed, 3], gm: fixed, gn: fixed, dt: fixed
) -> None:
    with rg.routine() as r:
        d = p - q
        square = rg.sum(d * d)
        u = d / rg.sqrt(square)
        pull = gn * dt / square
        push = gm * dt / square
    v += pull * u
    w -= push * u
    ~r


@reversible
def planets(q: Array[fixed, "n", 3], v: Array[fixed, "n", 3], gm: Array[fixed, "n"], steps: int, dt: fixed) -> None:
    """Leapfrog: AU, AU a year, G m in AU³ a year²."""
    half = dt / 2
    for _ in range(steps):
        drift(q, v, half)
        for i in range(len(gm)):
            for j in range(i + 1, len(gm)):
                attract(v[i], v[j], q[i], q[j], gm[i], gm[j], dt)
        drift(q, v, half)
    rg.free(half, dt / 2)


@reversible
def attract_by_direction(
    v: Array[fixed, 3], w: Array[fixed, 3], q: Array[fixed, 3], p: Array[fixed, 3], gm: fixed, gn: fixed, dt: fixed
) -> None:
    """The same with distances over the greater of two coordinates: their squares lie between 1 and 3."""
    with rg.routine() as r:
        d = p - q
        far = max(abs(d[0]), abs(d[1]))
        u = d / far
        square = rg.sum(u * u)
        pull = gn * dt / far / square / far
        push = gm * dt / far / square / far
        e = u / rg.sqrt(square)
    v += pull * e
    w -= push * e
    ~r


@reversible
def planets_by_direction(
    q: Array[fixed, "n", 3], v: Array[fixed, "n", 3], gm: Array[fixed, "n"], steps: int, dt: fixed
) -> None:
    """`planets` with `attract_by_direction`."""
    half = dt / 2
    for _ in range(steps):
        drift(q, v, half)
        for i in range(len(gm)):
            for j in range(i + 1, len(gm)):
                attract_by_direction(v[i], v[j], q[i], q[j], gm[i], gm[j], dt)
        drift(q, v, half)
    rg.free(half, dt / 2)


@reversible
def attract_by_one_place_more(
    v: Array[fixed, 3], w: Array[fixed, 3], q: Array[fixed, 3], p: Array[fixed, 3], gm: fixed, gn: fixed, dt: fixed
) -> None:
    """`attract`, the squares of the distances without a bit of room."""
    with rg.routine() as r:
        d = p - q
        square: fixed[51] = rg.sum(d * d)
        u = d / rg.sqrt(square)
        pull = gn * dt / square
        push = gm * dt / square
    v += pull * u
    w -= push * u
    ~r


@reversible
def planets_by_one_place_more(
    q: Array[fixed, "n", 3], v: Array[fixed, "n", 3], gm: Array[fixed, "n"], steps: int, dt: fixed
) -> None:
    """`planets` with `attract_by_one_place_more`."""
    half = dt / 2
    for _ in range(steps):
        drift(q, v, half)
        for i in range(len(gm)):
            for j in range(i + 1, len(gm)):
                attract_by_one_place_more(v[i], v[j], q[i], q[j], gm[i], gm[j], dt)
        drift(q, v, half)
    rg.free(half, dt / 2)


@reversible
def multiply(y: fixed, x: fixed, crumbs: fixed) -> None:
    crumbs += y * x
    y -= crumbs / x
    y, crumbs = crumbs, y
    y += crumbs * x


@reversible
def bessel(out: fixed, z: fixed, nu: rg.static = 2, atol: rg.static = 1e-17) -> None:
    """out += Jν(z), by its series."""
    with rg.routine() as series:
        minus = -((z / 2) ** 2)
        term = (z / 2) ** nu / math.factorial(nu)
        total = fixed(0)
        crumbs = fixed(0)
        step, divisor = nu - 1, 0
        total += term
        while (abs(term) > atol, divisor != 0):
            step += 2
            divisor += step
            x = minus / divisor
            multiply(term, x, crumbs)
            total += term
    out += total
    ~series


@reversible
def sun_and_earth(
    x: Array[fixed, 2],
    v: Array[fixed, 2],
    y: Array[fixed, 2],
    w: Array[fixed, 2],
    sun: fixed,
    earth: fixed,
    dt: fixed,
    n: int,
) -> None:
    """Leapfrog in SI units: the Earth (x, v) and the Sun (y, w); kg, m, s."""
    for _ in range(n):
        x += v * (dt * 0.5)
        y += w * (dt * 0.5)
        with rg.routine() as r:
            d = y - x
            s = d[0] * d[0] + d[1] * d[1]
            k = 6.674e-11 * dt / (s * rg.sqrt(s))
            pull = k * sun
            push = k * earth
        v += pull * d
        w -= push * d
        ~r
        x += v * (dt * 0.5)
        y += w * (dt * 0.5)


@reversible
def sir(s: Array[fixed, "m"], i: Array[fixed, "m"], beta: fixed, gamma: fixed, dt: fixed) -> None:
    """Susceptible and infected people over time, by Euler's method; beta: infections a person, person and day."""
    for k in range(len(s) - 1):
        with rg.routine() as r:
            new = beta * s[k] * i[k] * dt
            over = gamma * i[k] * dt
        s[k + 1] += s[k] - new
        i[k + 1] += i[k] + new - over
        ~r


@reversible
def kalman(
    x: Array[fixed, "m"], p: Array[fixed, "m"], z: Array[fixed, "n"], process: fixed, noise: fixed, loss: fixed
) -> None:
    """A Kalman filter of a random walk:

    estimates x and variances p; loss: Σ squared innovations over their variances.
    """
    for k in range(len(z)):
        with rg.routine() as r:
            before = p[k] + process
            total = before + noise
            gain = before / total
            seen = z[k] - x[k]
        x[k + 1] += x[k] + gain * seen
        p[k + 1] += (1 - gain) * before
        loss += seen * seen / total
        ~r


@reversible
def kalman_first_apart(
    x: Array[fixed, "n"],
    p0: fixed,
    p: Array[fixed, "n"],
    z0: fixed,
    z: Array[fixed, "m"],
    process: fixed,
    noise: fixed,
    loss: fixed,
) -> None:
    """The same from the estimate 0, with the first measurement in variables of its own: its variance p0 is large."""
    with rg.routine() as first:
        before0 = p0 + process
        total0 = before0 + noise
        gain0 = before0 / total0
    x[0] += gain0 * z0
    p[0] += gain0 * noise
    loss += z0 * z0 / total0
    ~first
    for k in range(len(z)):
        with rg.routine() as r:
            before = p[k] + process
            total = before + noise
            gain = before / total
            seen = z[k] - x[k]
        x[k + 1] += x[k] + gain * seen
        p[k + 1] += (1 - gain) * before
        loss += seen * seen / total
        ~r


@reversible
def black_scholes(out: fixed, s: fixed, k: fixed, sigma: fixed, r: fixed, t: fixed) -> None:
    """The price of a call."""
    with rg.routine() as q:
        d1 = (rg.log(s / k) + (r + sigma * sigma / 2) * t) / (sigma * rg.sqrt(t))
        d2 = d1 - sigma * rg.sqrt(t)
        n1 = 0.5 + 0.5 * rg.erf(d1 / math.sqrt(2))
        n2 = 0.5 + 0.5 * rg.erf(d2 / math.sqrt(2))
    out += s * n1 - k * rg.exp(-r * t) * n2
    ~q


@reversible
def logistic_regression(
    loss: fixed, w: Array[fixed, "d"], points: Array[fixed, "n", "d"], labels: Array[fixed, "n"]
) -> None:
    """loss += Σ ln(1 + e^(−y w·x))"""
    with rg.routine() as r:
        z = points @ w
    loss += rg.sum(rg.log(1 + rg.exp(-labels * z)))
    ~r


@reversible
def orbit(x: Array[fixed, 2], v: Array[fixed, 2], gm: fixed, dt: fixed, n: int) -> None:
    """n steps of leapfrog around a sun, in any units."""
    for _ in range(n):
        x += v * (dt * 0.5)
        with rg.routine() as r:
            s = x[0] * x[0] + x[1] * x[1]
            k = gm * dt / (s * rg.sqrt(s))
        v -= k * x
        ~r
        x += v * (dt * 0.5)


#: metres in an astronomical unit, seconds in a year of 365.25 days, G times the mass of the Sun in m³/s²
AU, YEAR, GM = 149_597_870_700.0, 31_557_600.0, 1.32712440018e20


@dataclass(frozen=True)
class Case:
    """A program with arguments:

    `result` is compared; `loss` and `by` name a result and an argument of which one is derived by the other.
    """

    name: str
    function: Any
    arguments: tuple[Any, ...]
    result: str
    loss: str = ""
    by: str = ""
    #: whether the second derivative by one number is measured, too
    second: bool = False


@dataclass(frozen=True)
class Row:
    """Relative errors; None where there is no such result. `refused`: why the program does not run with one point.

    `size`: the greatest number of the result, to which they are relative.
    """

    name: str
    what: str
    float64: float | None
    one: float | None
    points: float
    format: str
    refused: str = ""
    size: float = 0.0


def cases() -> Iterator[Case]:
    """The programs of the page."""
    q, v, gm = leapfrog.solar_system()
    yield Case("planets, 10,000 steps", planets, (q, v, gm, 10_000, 0.01), "q")
    yield Case("the same, distances by direction", planets_by_direction, (q, v, gm, 10_000, 0.01), "q")
    yield Case("the same, `square: fixed[51]`", planets_by_one_place_more, (q, v, gm, 10_000, 0.01), "q")
    yield Case("planets, 300 steps", planets, (q, v, gm, 300, 0.01), "q", "q", "v")
    for z in (0.5, 1.0, 1.5):
        yield Case(f"Bessel J₂({z})", bessel, (0.0, z), "out", "out", "z", second=True)
    si = ([1.496e11, 0.0], [0.0, 29780.0], [0.0, 0.0], [0.0, 0.0])
    yield Case(
        "Sun and Earth in SI units, 1,000 steps",
        sun_and_earth,
        (*si, 1.989e30, 5.972e24, 8640.0, 1000),
        "x",
        "x",
        "sun",
    )
    yield Case(
        "the same, by the mass of the Earth", sun_and_earth, (*si, 1.989e30, 5.972e24, 8640.0, 1000), "y", "y", "earth"
    )
    people = np.zeros(101), np.zeros(101)
    people[0][0], people[1][0] = 8e7, 100.0
    yield Case("SIR, 100 days, rates of 10⁻⁹", sir, (*people, 3e-9, 0.1, 1.0), "i", "i", "beta")
    rng = np.random.default_rng(7)
    walk = np.cumsum(rng.normal(size=50)) * 1e-3
    states, variances = np.zeros(51), np.zeros(51)
    variances[0] = 1.0
    yield Case(
        "Kalman filter, 50 measurements", kalman, (states, variances, walk, 1e-6, 1e-4, 0.0), "loss", "loss", "noise"
    )
    apart = np.zeros(50), 1.0, np.zeros(50), float(walk[0]), walk[1:], 1e-6, 1e-4, 0.0
    yield Case("the same, its first step apart", kalman_first_apart, apart, "loss", "loss", "noise")
    yield Case("Black–Scholes", black_scholes, (0.0, 100.0, 95.0, 0.2, 0.03, 0.5), "out", "out", "sigma")
    points, labels = rng.normal(size=(50, 4)), np.sign(rng.normal(size=50))
    yield Case(
        "logistic regression, 50 × 4",
        logistic_regression,
        (0.0, rng.normal(size=4), points, labels),
        "loss",
        "loss",
        "w",
    )
    yield from _workloads()


def _workloads() -> Iterator[Case]:
    """The workloads of the benchmark, small: their programs are written for one point."""
    rng = np.random.default_rng(3)
    mixture = rng.normal(size=4), rng.normal(size=(4, 3)), 0.5 * rng.normal(size=(4, 6)), rng.normal(size=(20, 3))
    yield Case("Gaussian mixture, d = 3, k = 4, 20 points", gmm.gmm_objective, (0.0, *mixture), "out", "out", "means")
    edges = rng.normal(size=(10, 5))
    yield Case("graph embedding, k = 5", graph_embedding.embedding_loss, (0.0, edges), "out", "out", "x")
    turn, centre = 0.1 * rng.normal(size=3), rng.normal(size=3)
    camera = np.concatenate([turn, centre, [500.0], rng.normal(size=2), 1e-2 * rng.normal(size=2)])
    point, seen = centre + np.array([0.3, -0.2, -5.0]), 10 * rng.normal(size=2)
    error = (np.zeros(2), camera, point, 0.7, seen)
    yield Case(
        "bundle adjustment, one measurement", bundle_adjustment.reprojection_error, error, "error", "error", "camera"
    )
    grid = wave.pulse(16), np.zeros((16, 16)), wave.medium(16)
    yield Case("acoustic wave, 16 × 16, 100 steps", wave.propagate, (*grid, 100), "q")
    a, b = (np.where(rng.random((30, 30)) < 0.1, rng.normal(size=(30, 30)), 0.0) for _ in range(2))
    sparse = (0.0, *sparse_dot.csc(a), *sparse_dot.csc(b))
    yield Case("trace(AᵀB), sparse, 30 × 30", rg.library.sparse_dot, sparse, "out")


class Exact:
    """A program over real numbers: of 120 bits with mpmath, of 53 with floats."""

    def __init__(self, case: Case) -> None:
        f = case.function
        self.case, self.names = case, [p.name for p in f.parameters]
        values = _bound(f, case.arguments)
        self.types = f.types_of(values)
        lowered = lowered_for(f, self.types, Q32_32, real=True)
        self.arguments = lowered.arguments
        self.program = RealProgram(rename_locals(inline_calls(lowered.module)))
        self.values = values

    def run(self, real: Callable[[Fraction], Any], functions: Any, moved: tuple[int, Any] | None = None) -> list[Any]:
        """The result. `moved`: (position of a number of the argument `by`, what is added to it)."""
        given: dict[int, Any] = {}
        for a, t, value in zip(self.arguments, self.types, self.values, strict=True):
            own, numbers = numbers_of_argument(t, value, a.name, Q32_32)
            numbers = [real(Fraction(x)) if r else x for r, x in zip(own, numbers, strict=True)]
            if moved is not None and a.name == self.case.by:
                numbers[moved[0]] += moved[1]
            given.update(enumerate(numbers, a.address))
        memory = self.program.run(given, {}, real, functions)
        a, t = next((a, t) for a, t in zip(self.arguments, self.types, strict=True) if a.name == self.case.result)
        return memory[a.address : a.address + len(kinds(t))]

    def exact(self, moved: tuple[int, Any] | None = None) -> list[Any]:
        """The result by numbers of many places:

        by decimal, which is fast, or where the program needs sines by mpmath.
        """
        with localcontext() as context:
            context.prec = mpmath.mp.dps
            shifted = None if moved is None else (moved[0], Decimal(mpmath.nstr(moved[1], mpmath.mp.dps)))
            try:
                return [mpmath.mpf(str(x)) for x in self.run(_decimal, Decimals, shifted)]
            except RealTrap:
                return self.run(_mpf, mpmath, moved)

    def slopes(self, at: Sequence[int]) -> list[Any]:
        """∂Σ result / ∂(numbers of the argument `by`), by central differences."""
        step = mpmath.mpf(10) ** -20
        out = []
        for i in at:
            size = step * max(
                abs(mpmath.mpf(np.ravel(self.values[self.names.index(self.case.by)])[i])), mpmath.mpf(10) ** -6
            )
            up, down = (mpmath.fsum(self.exact((i, s * size))) for s in (1, -1))
            out.append((up - down) / (2 * size))
        return out

    def curvature(self) -> Any:
        """∂²Σ result / ∂x² of the one number of the argument `by`, by central differences."""
        size = mpmath.mpf(10) ** -15
        up, middle, down = (mpmath.fsum(self.exact((0, s * size))) for s in (1, 0, -1))
        return (up - 2 * middle + down) / size**2


def _bound(f: Any, args: tuple[Any, ...]) -> list[Any]:
    from retrograd.runtime._reversible import request_of

    return request_of(f).values(args, {})


class Decimals:
    """Functions of decimals."""

    sqrt, exp, log, floor = Decimal.sqrt, Decimal.exp, Decimal.ln, math.floor


def _decimal(x: Fraction) -> Decimal:
    return Decimal(x.numerator) / x.denominator


def _mpf(x: Fraction) -> Any:
    return mpmath.mpf(x.numerator) / x.denominator


def error(found: Sequence[Any], exact: Sequence[Any]) -> float:
    """The greatest difference, relative to the greatest number."""
    size = max(abs(x) for x in exact)
    return float(max(abs(mpmath.mpf(x) - y) for x, y in zip(found, exact, strict=True)) / size)


#: slopes that are compared, of an argument with more numbers
_SLOPES = 3


def measured(case: Case) -> list[Row]:
    """The rows of a case: its value and, where it has a loss, its derivative."""
    with mpmath.workdps(DIGITS + 24), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exact = Exact(case)
        truth = exact.exact()
        in_float = exact.run(float, math)
        plain = case.function
        one, refused = None, ""
        try:
            one = error(_exact_words(plain(*case.arguments), case.result), truth)
        except RetrogradError as failed:
            refused = failed.code
        scaled = rg.autoscale(plain, *case.arguments)
        with_points = error(_exact_words(scaled(*case.arguments), case.result), truth)
        size = float(max(abs(x) for x in truth))
        rows = [Row(case.name, "value", error(in_float, truth), one, with_points, str(scaled.format), refused, size)]
        if case.loss:
            count = np.size(exact.values[exact.names.index(case.by)])
            at = sorted({0, count // 2, count - 1})[:_SLOPES]
            slopes = exact.slopes(at)
            mine = error(_slope(scaled, case, at), slopes)
            by_one = None
            try:
                by_one = None if refused else error(_slope(plain, case, at), slopes)
            except RetrogradError as failed:
                refused = failed.code
            rows.append(Row(case.name, f"derivative by `{case.by}`", None, by_one, mine, str(scaled.format), refused))
        if case.second:
            curved = exact.curvature()
            mine = error([_second(scaled, case)], [curved])
            by_one = None if refused else error([_second(plain, case)], [curved])
            rows.append(Row(case.name, f"second, by `{case.by}`", None, by_one, mine, str(scaled.format), refused))
        return rows


def _exact_words(result: Any, name: str) -> list[Any]:
    """The numbers of a result; those that remember their word are exact."""
    return [_mpf(Fraction(x)) for x in np.ravel(np.asarray(getattr(result, name))).tolist()]


def _slope(f: Any, case: Case, at: Sequence[int]) -> list[float]:
    ones = np.ones_like(np.asarray(case.arguments[[p.name for p in f.parameters].index(case.loss)], dtype=float))
    value, back = rg.vjp(f, *case.arguments)
    del value
    found = back({case.loss: ones if ones.ndim else 1.0})
    return [float(np.ravel(getattr(found, case.by))[i]) for i in at]


def _second(f: Any, case: Case) -> Any:
    return rg.hessian(f, case.by, case.loss)(*case.arguments)


def series(steps: Sequence[int] = (10, 30, 100, 300, 1000, 3000, 10_000)) -> dict[str, list[float]]:
    """Errors of an orbit of the Earth after these steps of a hundredth of a year, by system:

    the picture of the tutorial.
    """
    out: dict[str, list[float]] = {
        "steps": [*map(float, steps)],
        "float64": [],
        "one point, AU and years": [],
        "points, SI units": [],
    }
    si = [0.98 * AU, 0.0], [0.0, 30290.0], GM, YEAR / 100
    au = [0.98, 0.0], [0.0, 30290.0 * YEAR / AU], GM * YEAR**2 / AU**3, 0.01
    scaled = rg.autoscale(orbit, *si, 300)
    with mpmath.workdps(DIGITS):
        for n in steps:
            exact = Exact(Case("", orbit, (*si, n), "x"))
            truth = exact.exact()
            by_au = Exact(Case("", orbit, (*au, n), "x")).exact()
            out["float64"].append(error(exact.run(float, math), truth))
            out["one point, AU and years"].append(error(_exact_words(orbit(*au, n), "x"), by_au))
            out["points, SI units"].append(error(_exact_words(scaled(*si, n), "x"), truth))
    return out


def draw(found: dict[str, list[float]]) -> Figure:
    """Errors against steps."""
    figure = new_figure(6.4, 3.6)
    axes = figure.subplots()
    for (name, errors), style in zip(
        ((k, v) for k, v in found.items() if k != "steps"), ("o--", "s:", "D-"), strict=True
    ):
        axes.loglog(found["steps"], errors, style, label=name, markersize=4)
    axes.set_xlabel("steps")
    axes.set_ylabel("error of the position, relative")
    axes.legend()
    axes.grid(True, which="major", alpha=0.3)
    return figure


def document(progress: Callable[[str], None] = lambda _: None) -> dict[str, Any]:
    """All rows, for JSON."""
    rows = []
    for case in cases():
        begun = time.perf_counter()
        rows += measured(case)
        progress(f"{case.name}: {time.perf_counter() - begun:.0f} s")
    return {"schema": SCHEMA, "digits": DIGITS, "rows": [asdict(row) for row in rows], "orbit": series()}


def main(docs: Path) -> None:
    """Measure, and write figures and page."""
    found = document(lambda text: print(text, file=sys.stderr))
    write_file(docs / "benchmarks" / POINTS, json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    write_picture(docs / "benchmarks" / "points.svg", lambda _: draw(found["orbit"]), found)
    write_file(docs / "benchmarks.md", page(read(docs / "benchmarks" / FIGURES), read_gpu(docs), found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
