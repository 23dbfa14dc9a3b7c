"""Equations of motion in discrete time: steppers for any equation, bodies that attract each other, a travelling wave.

    x″ = a(t, x)   verlet, yoshida4: in place, symplectic, of second and fourth order
    y′ = f(t, y)   reversible_heun: in place, of second order; rk4: of fourth order, keeps every state

The derivative is a function f(dy, t, y) that adds it to dy, which is zero. A function within a reversible function
may use the variables around it, and the solution then has derivatives by these.
"""

from __future__ import annotations

import retrograd as rg
from retrograd import Array, Reversible, fixed, reversible

#: the outer and the inner step of Yoshida's composition, in steps
OUTER = 1 / (2 - 2 ** (1 / 3))
INNER = 1 - 2 * OUTER


@reversible
def _add_slope(f: Reversible, y: Array[fixed, ...], t: fixed, x: Array[fixed, ...], dt: fixed) -> None:
    """y += dt f(t, x). Inverse: y −= the same. f is called and uncalled."""
    with rg.routine() as r:
        slope = rg.zeros_like(x)
        f(slope, t, x)
    y += slope * dt
    ~r


@reversible
def verlet(a: Reversible, x: Array[fixed, ...], v: Array[fixed, ...], t: fixed, dt: fixed, steps: int) -> None:
    """x″ = a(t, x) from the time t, by leapfrog: x += v dt/2, v += a dt, x += v dt/2, `steps` times.

    Inverse: back in time, bit for bit. a(out, t, x) adds the acceleration to out. Error: O(dt²); symplectic where a
    is the gradient of a potential. Source: Verlet, Physical Review 159 (1967), 98.
    """
    for i in range(steps):
        x += v * dt / 2
        _add_slope(a, v, t + (i + 0.5) * dt, x, dt)
        x += v * dt / 2


@reversible
def yoshida4(a: Reversible, x: Array[fixed, ...], v: Array[fixed, ...], t: fixed, dt: fixed, steps: int) -> None:
    """x″ = a(t, x) from the time t, by three leapfrogs of w dt, (1 − 2w) dt, w dt a step, w = 1/(2 − ∛2).

    Inverse: bit for bit. a(out, t, x) adds the acceleration to out. Error: O(dt⁴); symplectic where a is the gradient
    of a potential. Source: Yoshida, Physics Letters A 150 (1990), 262.
    """
    for i in range(steps):
        x += v * dt * (OUTER / 2)
        _add_slope(a, v, t + (i + OUTER / 2) * dt, x, OUTER * dt)
        x += v * dt * ((OUTER + INNER) / 2)
        _add_slope(a, v, t + (i + 0.5) * dt, x, INNER * dt)
        x += v * dt * ((OUTER + INNER) / 2)
        _add_slope(a, v, t + (i + 1 - OUTER / 2) * dt, x, OUTER * dt)
        x += v * dt * (OUTER / 2)


@reversible
def reversible_heun(f: Reversible, y: Array[fixed, ...], z: Array[fixed, ...], t: fixed, dt: fixed, steps: int) -> None:
    """y′ = f(t, y) from the time t: y += f(t, z) dt/2, z := 2y − z, y += f(t + dt, z) dt/2, `steps` times.

    Inverse: bit for bit. f(out, t, y) adds the derivative to out. z = y at the beginning; afterwards both are
    solutions, with an error of O(dt²). No memory for the steps, for any f. Trap: where solutions decay by more than
    1/dt the difference of y and z oscillates; choose a smaller dt. Source: Kidger, Foster, Li and Lyons, arXiv
    2105.13493.
    """
    for i in range(steps):
        _add_slope(f, y, t + i * dt, z, dt / 2)
        for j in range(len(z)):
            rg.neg(z[j])
        z += y
        z += y
        _add_slope(f, y, t + (i + 1) * dt, z, dt / 2)


@reversible
def rk4(f: Reversible, y: Array[fixed, ...], t: fixed, dt: fixed) -> None:
    """y[i + 1] += a step from y[i] by the method of Runge and Kutta of fourth order, y′ = f(t, y), for all i.

    Inverse: −=, the last first. f(out, t, y) adds the derivative to out. y[0] is the state at the time t, the rows
    from 1 on are zero before: the history makes the steps reversible. Error: O(dt⁴). To keep fewer states, see
    `bennett` and `treeverse`.
    """
    for i in range(len(y) - 1):
        with rg.routine() as r:
            first = rg.zeros_like(y[0])
            f(first, t + i * dt, y[i])
            at_first = y[i] + first * dt / 2
            second = rg.zeros_like(y[0])
            f(second, t + (i + 0.5) * dt, at_first)
            at_second = y[i] + second * dt / 2
            third = rg.zeros_like(y[0])
            f(third, t + (i + 0.5) * dt, at_second)
            at_third = y[i] + third * dt
            fourth = rg.zeros_like(y[0])
            f(fourth, t + (i + 1) * dt, at_third)
            step = (first + 2 * second + 2 * third + fourth) * dt / 6
        y[i + 1] += y[i] + step
        ~r


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
