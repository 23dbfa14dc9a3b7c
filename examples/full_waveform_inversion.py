"""Full-waveform inversion: the velocity of sound in a body, from recordings of waves that went through it.

    J(v) = ½ Σ (d − d_obs)²,    d(t, k) = q_t at receiver k,    q_tt = v² ∇²q + source

Transducers stand in a ring in a tank of water. One after another sends a pulse, a *shot*, and all of them listen. The
gradient ∂J/∂v of a shot runs the wave forward and then backward, so it holds the pressure q and its change p of one
time step, however many there are. A tape would hold both of every step; `adjoint` is that method in floating point,
with a tape or with checkpoints, and counts its words.

The walls of the tank hold q at 0 and reflect. An absorbing wall would lose the information that the run backward needs:
see `wave.py`. Lengths are in mm, times in µs, velocities in mm/µs = km/s; the pulse is HEIGHT units of pressure high.
Source: A. Tarantola, "Inversion of seismic reflection data in the acoustic approximation", Geophysics 49 (1984), 1259.

    python -m retrograd.examples.full_waveform_inversion [--size 97] [--shots 16] [--iterations 25] [--gpu cells]
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from retrograd.examples.wave import propagate, reference
from retrograd.isa.files import replacing

import retrograd as rg
from retrograd import Array, fixed, reversible
from retrograd.library import revolve

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Reals = NDArray[np.float64]

#: mm: the side of the tank, the radius of the ring of transducers, that of the disc in which the velocity is unknown
SIDE, RING, UNKNOWN = 48.0, 19.0, 16.0
#: mm/µs, of water
WATER = 1.5
#: µs of a recording; MHz of the pulse
DURATION, FREQUENCY = 45.0, 0.25
#: height of the pulse. Squares of residuals are rounded to 2^-32: with a height of 1, those of the last iterations are
#: about as large as this
HEIGHT = 256.0
#: time step × mm/µs over the width of a cell; the scheme is stable for v × RATIO ≤ 1/√2
RATIO = 0.3


@reversible(precision="ignore")
def record(
    heard: Array[fixed, "steps", "receivers"],
    q: Array[fixed, "n", "m"],
    p: Array[fixed, "n", "m"],
    c: Array[fixed, "n", "m"],
    source: Array[int, 2],
    pulse: Array[fixed, "steps"],
    places: Array[int, "receivers", 2],
) -> None:
    """heard[t, k] += q at receiver k, as the fields move on and the source adds the pulse to its cell.

    Inverse: −=, and the fields before.
    """
    for t in range(len(pulse)):
        propagate(q, p, c, 1)
        q[source[0], source[1]] += pulse[t]
        for k in range(len(places)):
            heard[t, k] += q[places[k, 0], places[k, 1]]


@reversible(precision="ignore")
def misfit(
    loss: fixed,
    q: Array[fixed, "n", "m"],
    p: Array[fixed, "n", "m"],
    c: Array[fixed, "n", "m"],
    source: Array[int, 2],
    pulse: Array[fixed, "steps"],
    places: Array[int, "receivers", 2],
    seen: Array[fixed, "steps", "receivers"],
) -> None:
    """loss += ½ Σ (q at receiver k − seen[t, k])², as `record` moves the fields.

    Inverse: −=, and the fields before.
    """
    for t in range(len(pulse)):
        propagate(q, p, c, 1)
        q[source[0], source[1]] += pulse[t]
        for k in range(len(places)):
            loss += 0.5 * (q[places[k, 0], places[k, 1]] - seen[t, k]) ** 2


class Survey(NamedTuple):
    """What is known: cells, sources and receivers, the pulse, and the cells whose velocity is to be found."""

    size: int
    sources: NDArray[np.int64]
    receivers: NDArray[np.int64]
    pulse: Reals
    unknown: NDArray[np.bool_]

    @property
    def rest(self) -> Reals:
        """A field of zeros."""
        return np.zeros((self.size, self.size))

    def fields(self, v: Reals) -> tuple[Reals, Reals, Reals]:
        """(q, p, c) before a shot, c = (v RATIO)², from the velocities of all cells."""
        return self.rest, self.rest, (v * RATIO) ** 2


def _places(size: int) -> tuple[Reals, Reals]:
    """(x, y) of each cell, in mm from the middle of the tank."""
    y, x = np.mgrid[:size, :size] * (SIDE / (size - 1)) - SIDE / 2
    return x, y


def survey(size: int, shots: int, receivers: int = 32) -> Survey:
    """`shots` sources and `receivers` receivers on a ring, in size × size cells; the pulse is Ricker's wavelet."""
    width = SIDE / (size - 1)

    def ring(count: int, turn: float) -> NDArray[np.int64]:
        angle = 2 * np.pi * (np.arange(count) + turn) / count
        at = SIDE / 2 + RING * np.stack([np.sin(angle), np.cos(angle)], axis=1)
        return np.rint(at / width).astype(np.int64)

    t = np.arange(0, DURATION, RATIO * width) - 1.2 / FREQUENCY
    a = (math.pi * FREQUENCY * t) ** 2
    pulse = HEIGHT * (1 - 2 * a) * np.exp(-a)
    return Survey(size, ring(shots, 0), ring(receivers, 0.5), pulse, np.hypot(*_places(size)) < UNKNOWN)


def water(size: int) -> Reals:
    """The velocities at the start."""
    return np.full((size, size), WATER)


def phantom(size: int) -> Reals:
    """The velocities that are to be found: a body with an ellipse of muscle and a disc of fat, in water."""
    x, y = _places(size)
    v = water(size)
    v[np.hypot(x, y) < 14] = 1.52
    v[((x + 4) / 7) ** 2 + ((y + 5) / 4.5) ** 2 < 1] = 1.57
    v[np.hypot(x - 5, y - 6) < 4.5] = 1.45
    return v


def observe(s: Survey, v: Reals) -> Reals:
    """The recordings of all shots, shots × steps × receivers. They take the place of a measurement."""
    heard = np.zeros((len(s.pulse), len(s.receivers)))
    run = rg.vmap(record, in_axes=(None, None, None, None, 0, None, None))
    return np.asarray(run(heard, *s.fields(v), s.sources, s.pulse, s.receivers).heard)


Objective = Callable[["Reals"], "tuple[float, Reals]"]


def objective(s: Survey, seen: Reals, gpu: str | None = None) -> Objective:
    """v ↦ (J(v), ∂J/∂v on the unknown cells), for velocities v of all cells.

    gpu: None: a batch of shots on the cores of the CPU. "shots": the same batch with a thread of a GPU for each shot.
    "cells": one shot after another, each with all threads on its cells, and a sum over the shots in floating point.
    Fields at rest and recordings lie on the device; c is copied there once an iteration.
    """
    known: tuple[Any, ...] = s.sources, s.pulse, s.receivers, seen
    if gpu == "cells":
        one = rg.value_and_grad(misfit, "c", loss="loss", engine="cuda")
        rest, pulse = rg.on_device(s.rest), rg.on_device(s.pulse)
        shots = [(source, rg.on_device(d)) for source, d in zip(s.sources, seen, strict=True)]

        def total(q: Reals, p: Reals, c: Reals) -> tuple[Any, Any]:
            there = rg.on_device(c)
            each = [one(0.0, rest, rest, there, source, pulse, s.receivers, d) for source, d in shots]
            return sum(value for value, _ in each), sum(slope.numpy() for _, slope in each)

    else:
        if gpu == "shots":
            known = rg.on_device(s.sources), s.pulse, s.receivers, rg.on_device(seen)
        axes = (None, None, None, None, 0, None, None, 0)
        batch = rg.vmap(rg.value_and_grad(misfit, "c", loss="loss"), in_axes=axes, shared="sum")

        def total(q: Reals, p: Reals, c: Reals) -> tuple[Any, Any]:
            value, slope = batch(0.0, q, p, c, *known)
            return value, slope

    def function(v: Reals) -> tuple[float, Reals]:
        value, by_c = total(*s.fields(v))
        on_host = by_c.numpy() if isinstance(by_c, rg.DeviceArray) else by_c
        return float(value), np.where(s.unknown, on_host * 2 * v * RATIO**2, 0)

    return function


def invert(s: Survey, j: Objective, start: Reals, iterations: int) -> tuple[Reals, list[float]]:
    """(velocities, misfit before and after each iteration) of L-BFGS-B from `start`, within 0.15 mm/µs of water."""
    try:
        from scipy.optimize import minimize  # type: ignore[import-untyped]
    except ImportError:
        raise SystemExit("L-BFGS-B is SciPy's: `pip install scipy`") from None

    # The unknowns are 10 (v − WATER) and the first misfit is 1, so that a first step of length 1 is a moderate one.
    first, _ = j(start)
    misfits = [first]

    def velocities(u: Reals) -> Reals:
        v = start.copy()
        v[s.unknown] = WATER + 0.1 * u
        return v

    def scaled(u: Reals) -> tuple[float, Reals]:
        value, slope = j(velocities(u))
        return value / first, 0.1 * slope[s.unknown] / first

    def after(intermediate_result: Any) -> None:
        misfits.append(first * float(intermediate_result.fun))

    found = minimize(
        scaled, 10 * (start[s.unknown] - WATER), jac=True, method="L-BFGS-B",
        bounds=[(-1.5, 1.5)] * int(s.unknown.sum()),
        options={"maxiter": iterations, "ftol": 1e-12, "gtol": 1e-9}, callback=after,
    )  # fmt: skip
    return velocities(found.x), misfits


def error(s: Survey, v: Reals, true: Reals) -> float:
    """The root mean square of v − true on the unknown cells, in mm/µs."""
    return float(np.sqrt(np.mean((v - true)[s.unknown] ** 2)))


class Adjoint(NamedTuple):
    value: float
    by_c: Reals
    #: words of all arrays that are held at once: the recording, c, fields and cotangents, states that are kept
    words: int
    #: time steps that were computed
    steps: int


def adjoint(s: Survey, shot: int, v: Reals, seen: Reals, states: int | None = None) -> Adjoint:
    """(J, ∂J/∂c) of a shot in floating point, by a tape of all states, or by checkpoints in `states` places."""
    n, inner = len(s.pulse), np.s_[1:-1, 1:-1]
    q, p, c = s.fields(v)
    q_bar, p_bar, c_bar = s.rest, s.rest, s.rest
    source, at = tuple(s.sources[shot]), tuple(s.receivers.T)
    kept: dict[int, tuple[Reals, Reals]] = {}
    value, words, steps = 0.0, 0, 0
    fixed_words = seen[shot].size + s.pulse.size + sum(a.size for a in (q, p, c, q_bar, p_bar, c_bar))

    def advance(q: Reals, p: Reals, t: int) -> tuple[Reals, Reals]:
        q, p = reference(q, p, c, 1)
        q[source] += s.pulse[t]
        return q, p

    for action in revolve(n, n if states is None else states):
        if action.kind == "store":
            kept[action.place] = q, p
        elif action.kind == "restore":
            q, p = kept[action.place]
            kept = {place: state for place, state in kept.items() if place <= action.place}
        elif action.kind == "advance":
            for t in range(action.first, action.last):
                q, p = advance(q, p, t)
                steps += 1
        else:
            off = advance(q, p, action.first)[0][at] - seen[shot, action.first]
            steps += 1
            value += 0.5 * float(off @ off)
            q_bar[at] += off
            p_bar[inner] += q_bar[inner]
            bend = q[:-2, 1:-1] + q[2:, 1:-1] + q[1:-1, :-2] + q[1:-1, 2:] - 4 * q[inner]
            c_bar[inner] += p_bar[inner] * bend
            push = c[inner] * p_bar[inner]
            q_bar[:-2, 1:-1] += push
            q_bar[2:, 1:-1] += push
            q_bar[1:-1, :-2] += push
            q_bar[1:-1, 2:] += push
            q_bar[inner] -= 4 * push
        words = max(words, fixed_words + sum(a.size + b.size for a, b in kept.values()))
    return Adjoint(value, c_bar, words, steps)


def running_backward(s: Survey, shot: int, v: Reals, seen: Reals) -> rg.GradientReport:
    """The gradient of a shot by running backward, with its counts."""
    args = 0.0, *s.fields(v), s.sources[shot], s.pulse, s.receivers, seen[shot]
    return rg.gradient_report(misfit, "c", loss="loss", engine="translated")(*args)


def draw_models(s: Survey, models: dict[str, Reals]) -> Any:
    """A figure of maps of velocities, with sources and receivers."""
    from retrograd.presentation import new_figure

    figure = new_figure(10, 3.6)
    axes = figure.subplots(1, len(models), sharey=True)
    half = SIDE / 2
    for ax, (name, v) in zip(axes, models.items(), strict=True):
        image = ax.imshow(v, vmin=1.42, vmax=1.58, cmap="RdBu", origin="lower", extent=(-half, half, -half, half))
        for name_of, places, marker in (("source", s.sources, "*"), ("receiver", s.receivers, ".")):
            y, x = places.T * (SIDE / (s.size - 1)) - half
            ax.plot(x, y, marker, color="black", markersize=6 if marker == "*" else 3, label=name_of)
        ax.set(title=name, xlabel="x (mm)")
    axes[0].set(ylabel="y (mm)")
    axes[0].legend(loc="lower left", fontsize="x-small")
    figure.colorbar(image, ax=axes, label="velocity (mm/µs)")
    return figure


def draw_misfits(misfits: Sequence[float]) -> Any:
    """A figure of the misfit against iterations."""
    from retrograd.presentation import COLOURS, axes_of

    figure, ax = axes_of(None, 5.5, 3.2)
    ax.semilogy(np.array(misfits) / misfits[0], color=COLOURS[0], marker=".")
    ax.set(xlabel="iterations of L-BFGS-B", ylabel="misfit, of that at the start")
    ax.grid(alpha=0.3)
    return figure


def main() -> None:
    """Invert the recordings of a phantom, compare memory, and draw."""
    p = argparse.ArgumentParser(description="Full-waveform inversion in a tank of water.")
    p.add_argument("--size", type=int, default=49, help="cells on a side (default: 49)")
    p.add_argument("--shots", type=int, default=8, help="sources (default: 8)")
    p.add_argument("--iterations", type=int, default=10, help="of L-BFGS-B (default: 10)")
    p.add_argument("--gpu", choices=("cells", "shots"), help="run on a GPU, with a thread for each cell or each shot")
    p.add_argument("--plot", metavar="FOLDER", help="draw the velocities and the misfits into files there")
    options = p.parse_args()
    s, true, start = survey(options.size, options.shots), phantom(options.size), water(options.size)
    seen = observe(s, true)
    print(
        f"{options.size} × {options.size} cells, {len(s.pulse)} time steps, {options.shots} shots,",
        f"{int(s.unknown.sum())} unknowns",
    )
    begun = time.perf_counter()
    found, misfits = invert(s, objective(s, seen, options.gpu), start, options.iterations)
    print(
        f"misfit {misfits[0]:.4f} → {misfits[-1]:.2e} in {len(misfits) - 1} iterations",
        f"({time.perf_counter() - begun:.1f} s)",
    )
    print(f"error of the velocities {error(s, start, true):.4f} → {error(s, found, true):.4f} mm/µs")
    report, states = running_backward(s, 0, start, seen), 10
    print(f"words of a gradient: {2 * report.memory_words} by running backward", end=", ")
    few, tape = (adjoint(s, 0, start, seen, k) for k in (states, None))
    print(f"{few.words} by {states} checkpoints ({few.steps} time steps), {tape.words} by a tape")
    print(f"back at the first word: {report.inputs_restored}")
    if options.plot:
        models = {"at the start": start, f"after {len(misfits) - 1} iterations": found, "true": true}
        for name, figure in (("models.png", draw_models(s, models)), ("misfits.svg", draw_misfits(misfits))):
            with replacing(Path(options.plot) / name) as out:
                metadata = {"Date": None} if name.endswith("svg") else None
                figure.savefig(out, format=name[-3:], dpi=90, metadata=metadata)


if __name__ == "__main__":
    main()
