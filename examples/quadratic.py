"""A function of two numbers with known derivatives, as a test of them.

    f(x, y) = 2x² + 3xy + 4y²

    gradient (4x + 3y, 3x + 8y)        Hessian [[4, 3], [3, 8]]        Hessian at (3, 4) times (7, 8): (52, 85)

A sum needs no variable for its terms: each is added to `out` by itself, and a run backward subtracts each.
"""

from __future__ import annotations

from retrograd import fixed, reversible


@reversible
def quadratic(out: fixed, x: fixed, y: fixed) -> None:
    """out += 2x² + 3xy + 4y². Inverse: −=. Error: 9 last places, none for integers."""
    out += 2 * x**2 + 3 * x * y + 4 * y**2


def reference(x: float, y: float) -> float:
    """f in floating point."""
    return 2 * x**2 + 3 * x * y + 4 * y**2


def gradient(x: float, y: float) -> tuple[float, float]:
    """(∂f/∂x, ∂f/∂y)."""
    return 4 * x + 3 * y, 3 * x + 8 * y


def hessian_vector(vx: float, vy: float) -> tuple[float, float]:
    """The constant Hessian times (vx, vy)."""
    return 4 * vx + 3 * vy, 3 * vx + 8 * vy


def main() -> None:
    """Print f at (3, 4), forward and back."""
    after = quadratic(0.0, 3.0, 4.0)
    print(f"f(3, 4) = {after.out}, gradient {gradient(3, 4)}, Hessian times (7, 8) {hessian_vector(7, 8)}")
    print(f"backward: {(~quadratic)(*after)}")


if __name__ == "__main__":
    main()
