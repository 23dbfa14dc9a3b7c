"""The smaller workloads of the papers on reversible programs: checked against goldens and references, counted, not timed.

A function of the library is compared by its value, and by its gradient for random seeds, with NumPy in float64 and a complex step.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from retrograd.benchmarks import ours, references
from retrograd.benchmarks.workload import Golden, Problem, Task, Workload, with_extent
from retrograd.examples import consistency, fibonacci_search, quadratic

import retrograd as rg
from retrograd import fixed, library, reversible
from retrograd.library import Quaternion, Vector3
from retrograd.runtime._reversible import Reversible

#: one unit in the last place
ULP = 2.0**-32


@dataclass(frozen=True)
class Judged:
    """A function, the same in NumPy, and arguments as arrays; `packed` makes structs of them where the function takes structs."""

    function: Reversible
    reference: Callable[..., tuple[Any, ...]]
    args: tuple[Any, ...]
    #: tolerance of the gradient, relative to its largest component; of the value, relative to 1
    bound: float = 4e-9
    value_bound: float = 1e-7
    packed: dict[int, Callable[[Any], Any]] = field(default_factory=dict)
    #: the position of the first differentiated argument: the arguments before it must be zero
    first: int = 0

    @property
    def plain(self) -> list[Any]:
        return [np.asarray(a, dtype=float) for a in self.args]

    @property
    def given(self) -> tuple[Any, ...]:
        return tuple(self.packed[i](a) if i in self.packed else a for i, a in enumerate(self.args))

    def value_error(self) -> float:
        """The error of the worst argument that changes."""
        after = rg.run(self.function, *self.given).values
        exact = self.reference(*self.plain)
        return max(_distance(found, of) for found, of in zip(after, exact, strict=False))

    def gradient_error(self) -> float:
        """The error of the worst argument, for random cotangents of all results."""
        generator = np.random.default_rng(len(self.args))
        names = [p.name for p in self.function.parameters]
        seeds = [generator.normal(size=np.shape(a)) for a in self.reference(*self.plain)]
        named = {
            name: self.packed[i](seed) if i in self.packed else seed if np.ndim(seed) else float(seed)
            for i, (name, seed) in enumerate(zip(names, seeds, strict=False))
        }
        found = rg.vjp(self.function, *self.given)[1](named)._asdict()
        worst = 0.0
        for i, a in list(enumerate(self.plain))[self.first :]:

            def loss(x: Any, i: int = i) -> Any:
                after = self.reference(*self.plain[:i], x, *self.plain[i + 1 :])
                return sum((seed * y).sum() for seed, y in zip(seeds, after, strict=True))

            exact = references.jacobian(loss, a)
            worst = max(worst, _distance(found[names[i]], exact) / (float(np.abs(exact).max()) or 1.0))
        return worst


def _distance(found: Any, exact: Any) -> float:
    return float(np.abs(_flat(found) - np.ravel(exact)).max())


def _flat(value: Any) -> Any:
    """A number, an array, a struct or an array of structs as a row of numbers."""
    if isinstance(value, np.ndarray):
        if value.dtype == object:
            return np.concatenate([_flat(part) for part in value.ravel()])
        if np.iscomplexobj(value):
            return np.stack([value.real, value.imag], axis=-1).ravel()
        return value.ravel()
    if isinstance(value, int | float):
        return np.array([value], dtype=float)
    return np.array([float(getattr(value, name)) for name in type(value).__annotations__])


def _normal(*shape: int, seed: int = 20) -> Any:
    return np.random.default_rng(seed).normal(size=shape)


def _vector(*parts: Any) -> Any:
    return Vector3(*parts)


def _quaternion(*parts: Any) -> Any:
    return Quaternion(*parts)


def _complex(a: Any) -> Any:
    return a[:, 0] + 1j * a[:, 1]


@functools.cache
def _judged() -> dict[str, tuple[str, Judged]]:
    """name -> (title, comparison)."""
    zeros = np.zeros
    waves = np.concatenate([_normal(1, 8), zeros((5, 8))])
    layers = _normal(6), _normal(3, 4, 3), _normal(3, 4), _normal(3, 3, 4), _normal(3, 3)
    return {
        "norm": ("norm of a vector", Judged(library.norm, references.norm, (0.0, _normal(6)), 2e-8)),
        "qr": ("QR", Judged(library.qr, references.qr, (zeros((5, 3)), zeros((3, 3)), _normal(5, 3)), first=2)),
        "unitary": (
            "unitary product, by rotations",
            Judged(library.rotate_planes, references.rotate_planes, (_normal(4, 2), _normal(6))),
        ),
        "affine": (
            "affine layer",
            Judged(library.affine, references.affine, (zeros(3), _normal(3, 4), _normal(4), _normal(3))),
        ),
        "nice": ("NICE coupling layers", Judged(library.nice, references.nice, layers)),
        "fft": ("FFT of 16 numbers", Judged(library.fft, references.fft, (_normal(16, 2),), packed={0: _complex})),
        "lax-wendroff": ("Lax–Wendroff", Judged(library.lax_wendroff, references.lax_wendroff, (waves, 0.75))),
        "box-muller": ("Box–Muller", Judged(library.box_muller, references.box_muller, (0.0, 0.0, 0.3, 0.2))),
    }


def _workload(name: str, title: str, judged: Judged) -> Workload:
    return Workload(
        name, title,
        lambda: [
            Golden("largest error of the values", 0, judged.value_bound, judged.value_error),
            Golden("error of the gradient", 0, judged.bound, judged.gradient_error),
        ],
        lambda: (judged.function, judged.given),
    )  # fmt: skip


def _fibonacci() -> Sequence[Golden]:
    return [
        Golden("F(10)", 55, 0, lambda: fibonacci_search.fib(0, 10).out),
        Golden("the first n with F(n) ≥ 100", 12, 0, lambda: fibonacci_search.search(0, 100).n),
    ]


def _iexp() -> Sequence[Golden]:
    expected = 4.95303242438  # eˣ is its own derivative
    return [
        Golden("e^1.6", expected, 1e-8, lambda: library.iexp(0.0, 1.6).out),
        Golden("its derivative", expected, 1e-7, lambda: rg.grad(library.iexp, "x")(0.0, 1.6)),
    ]


def _consistency() -> Sequence[Golden]:
    def last(f: Any) -> float:
        return float(consistency.learn(f).history["y"][-1])

    return [
        Golden("p that clearing x leads to", 0.5543552444685, 4 * ULP, lambda: consistency.learn(consistency.clearing).arguments.p),
        Golden("y that keeping x stays at", 5.336, 5e-4, lambda: last(consistency.keeping)),
    ]  # fmt: skip


def _sorted() -> Sequence[Golden]:
    keys = np.random.default_rng(3).normal(size=24)
    order = np.argsort(keys, kind="stable")

    def found() -> Any:
        return library.sort(keys, np.zeros(len(keys), dtype=int))

    def back() -> float:
        after = found()
        return float(
            np.abs(
                (~library.sort)(*after).x
                - library.sort(keys[order], np.zeros(len(keys), dtype=int)).x[np.argsort(order)]
            ).max()
        )

    return [
        Golden("elements out of order", 0, 0, lambda: float((np.diff(found().x) < 0).sum())),
        Golden("places wrong in the permutation", 0, 0, lambda: float((found().permutation != order).sum())),
        Golden("largest difference after the way back", 0, 0, back),
    ]


def _functional() -> Sequence[Golden]:
    turned = (270.0, 180.0, 342.0)
    x, y = np.array([1.0, 2.0, 3.0]), np.array([4.0, 5.0, 6.0])

    def rotated(axis: str) -> float:
        out = library.rotate(_vector(0, 0, 0), _vector(1, 2, 3), _quaternion(4, 5, 6, 7)).out
        return float(getattr(out, axis))

    out = [
        Golden(f"(1, 2, 3) turned by (4, 5, 6, 7), {axis}", expected, 0, functools.partial(rotated, axis))
        for axis, expected in zip("xyz", turned, strict=True)
    ]
    product = functools.partial(library.scalar_product, 0.0, _vector(1, 2, 3), _vector(4, 5, 6))
    w = _normal(3, 4)

    def row_sums() -> float:
        """∂Σ(Wx)/∂x: the sums of the columns of W."""
        _, back = rg.vjp(library.matvec, np.zeros(3), w, np.ones(4))
        return _distance(back({"y": np.ones(3)}).x, w.sum(axis=0))

    return [
        *out,
        Golden("scalar product of two 3-vectors", 32, 0, lambda: product().out),
        Golden("gradient of a dot product, off the other vector", 0, 0, lambda: _distance(rg.grad(library.dot, "x")(0.0, x, y), y)),
        Golden("gradient of the sum of a matrix times a vector", 0, 4e-9, row_sums),
    ]  # fmt: skip


def _hessian_vector() -> Sequence[Golden]:
    product = rg.hvp(quadratic.quadratic, ("x", "y"))
    at = (0.0, 3.0, 4.0), (7.0, 8.0)
    return [
        Golden("H v at (3, 4), first", 52, 0, lambda: product(*at)[0]),
        Golden("second", 85, 0, lambda: product(*at)[1]),
        Golden("the value", 118, 0, lambda: quadratic.quadratic(0.0, 3.0, 4.0).out),
        Golden("its slope by x", 24, 0, lambda: rg.grad(quadratic.quadratic, "x")(0.0, 3.0, 4.0)),
    ]


_KEYS = _normal(24, seed=3)

ALL: tuple[Workload, ...] = (
    Workload("fibonacci", "Fibonacci numbers, by recursion", _fibonacci, lambda: (fibonacci_search.fib, (0, 10))),
    Workload("iexp", "eˣ by its series", _iexp, lambda: (library.iexp, (0.0, 1.6))),
    *(_workload(name, *found) for name, found in _judged().items()),
    Workload("consistency", "learning by consistency", _consistency, lambda: (consistency.clearing, (0.0, 0.3, 1.6))),
    Workload("sorting", "sorting with a permutation", _sorted, lambda: (library.sort, (_KEYS, np.zeros(24, dtype=int)))),
    Workload(
        "functional", "products of vectors, quaternions", _functional,
        lambda: (library.rotate, (_vector(0, 0, 0), _vector(1, 2, 3), _quaternion(4, 5, 6, 7))),
    ),
    Workload("hessian-vector", "Hessian times a vector", _hessian_vector, lambda: (quadratic.quadratic, (0.0, 3.0, 4.0))),
)  # fmt: skip


# -----------------------------------------------------------------------------
# Bennett's scheme: kⁿ steps of an irreversible chain, by (2k − 1)ⁿ calls, with n(k − 1) + 2 states at a time.

#: (k, n): calls and states by Bennett's formulas
GOLDEN = {(4, 4): (2401, 14), (2, 10): (59_049, 12)}


@reversible
def logistic(y: fixed, x: fixed) -> None:
    """y += 3.5 x (1 − x), which forgets whether x was below ½. Inverse: −=."""
    y += 3.5 * (x * (1 - x))


def _chain(steps: int, x: float) -> float:
    for _ in range(steps):
        x = 3.5 * (x * (1 - x))
    return x


def _states(k: int, n: int) -> Any:
    states = np.zeros(library.bennett_states(k, n))
    states[0] = 0.3
    return states


def products(k: int, n: int) -> int:
    """Executions of the product, forward and backward together."""
    counts = rg.run(library.bennett, logistic, k, n, _states(k, n)).machine.counts()
    return sum(n for name, n in counts.items() if name.startswith("fmul"))


def calls(k: int, n: int) -> float:
    """The executed calls of the step."""
    return products(k, n) / products(1, 0)


def _bennett_goldens() -> Sequence[Golden]:
    out = []
    for (k, n), (called, states) in GOLDEN.items():
        out.append(Golden(f"calls of the step, k = {k}, n = {n}", called, 0, functools.partial(calls, k, n)))
        out.append(Golden(f"states, k = {k}, n = {n}", states, 0, functools.partial(library.bennett_states, k, n)))
    return out


def bennett_problem(k: int, n: int) -> Problem:
    """The chain converges to a cycle of four, so its errors do not grow."""
    call = ours.Call(library.bennett, (logistic, k, n, _states(k, n)[None]), {"states": 0})
    steps = library.bennett_steps(k, n)
    exact = np.array([0.3, _chain(steps, 0.3)])
    task = Task("value", None, exact, 1e-7, lambda: ours.value(call, "states"), absolute=True)
    return Problem(f"k = {k}, n = {n}: {steps} steps by {library.bennett_calls(k, n)} calls", steps, (task,), steps)


BENNETT = Workload(
    "bennett",
    "Bennett's scheme",
    _bennett_goldens,
    lambda: (library.bennett, (logistic, 2, 4, _states(2, 4))),
    lambda sizes: [bennett_problem(2, 4)] if sizes.quick else [bennett_problem(4, 4)],
    "steps of the chain",
    lambda sizes: [with_extent(bennett_problem(2, n), 2.0**n) for n in ((2, 4) if sizes.quick else (2, 4, 6, 8, 10))],
)
