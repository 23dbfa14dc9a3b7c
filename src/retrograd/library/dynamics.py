"""Equations of motion in discrete time: bodies that attract each other, and a travelling wave."""

from __future__ import annotations

import retrograd as rg
from retrograd import Array, fixed, reversible


@reversible
def leapfrog(
    x: Array[fixed, "n", "d"], v: Array[fixed, "n", "d"], mass: Array[fixed, "n"], dt: fixed, steps: int
) -> None:
    """x += v dt/2, v += a(x) dt, x += v dt/2, `steps` times; aᵢ = Σⱼ mⱼ (xⱼ − xᵢ)/|xⱼ − xᵢ|³.

    Inverse: back in time, bit for bit.

    Of second order and symplectic. The inverse of every line is exact, so any number of steps out and back restores each
    bit, without memory for the steps. mass: G times the masses; 4π² for the sun, in years and astronomical units.
    Traps where two bodies meet. Source: Verlet, Physical Review 159 (1967), 98.
    """
    for _ in range(steps):
        x += v * dt / 2
        kick(v, x, mass, dt)
        x += v * dt / 2


@reversible
def kick(v: Array[fixed, "n", "d"], x: Array[fixed, "n", "d"], mass: Array[fixed, "n"], dt: fixed) -> None:
    """vᵢ += dt Σⱼ mⱼ (xⱼ − xᵢ)/|xⱼ − xᵢ|³. Inverse: −= the same.

    The unit vector first, then m dt/r², factor by factor: 1/r³ of distant bodies would have few significant places.
    """
    for i in range(len(x)):
        for j in range(i):
            with rg.routine() as r:
                difference = x[i] - x[j]
                distance = rg.sqrt(rg.sum(difference**2))
                direction = difference / distance
                on_i = mass[j] * dt / distance / distance
                on_j = mass[i] * dt / distance / distance
            v[i] -= on_i * direction
            v[j] += on_j * direction
            ~r


@reversible
def lax_wendroff_step(out: Array[fixed, "n"], u: Array[fixed, "n"], courant: fixed) -> None:
    """outᵢ += uᵢ − ½c (uᵢ₊₁ − uᵢ₋₁) + ½c² (uᵢ₊₁ − 2uᵢ + uᵢ₋₁), indices modulo n. Inverse: out −= the same.

    One step of ∂u/∂t + a ∂u/∂x = 0; c = a Δt/Δx, stable for |c| ≤ 1, exact for c = 1. The shortest waves fade, so u
    cannot be computed from out; it must be kept, or computed again by `bennett`. Source: Lax and Wendroff, Communications on Pure
    and Applied Mathematics 13 (1960), 217.
    """
    n = len(u)
    with rg.routine() as r:
        left = (courant + courant**2) / 2
        right = (courant**2 - courant) / 2
        centre = 1 - courant**2
    for i in range(n):
        out[i] += centre * u[i]
        out[(i + 1) % n] += left * u[i]
        out[(i - 1) % n] += right * u[i]
    ~r


@reversible
def lax_wendroff(u: Array[fixed, "t", "n"], courant: fixed) -> None:
    """u[t] += one step from u[t − 1], for all t from 1 on. Inverse: u[t] −= the same, the last first.

    The rows from 1 on must be zero before. The scheme is reversible because it keeps the history.
    """
    for t in range(1, len(u)):
        lax_wendroff_step(u[t], u[t - 1], courant)
