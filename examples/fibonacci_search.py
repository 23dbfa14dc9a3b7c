"""Fibonacci numbers by recursion, and a search that uncomputes every number after a comparison.

    F(n) = F(n − 1) + F(n − 2),    F(0) = 0, F(1) = 1        `search`: the first n with F(n) ≥ bound

The recursion leaves no garbage: each call adds its number to `out` and restores n. The search needs F(n) only for the decision
whether to continue: it calls `fib`, compares, and uncalls it. Each pass of the loop thus begins with the number zero, and only
n changes. Backward, the loop ends where n is zero.

examples/fibonacci.rga does the same in assembly.
"""

from __future__ import annotations

import retrograd as rg
from retrograd import reversible


@reversible
def fib(out: int, n: int) -> None:
    """out += F(n), n ≥ 0, in about 1.6ⁿ calls. Inverse: out −= F(n)."""
    if n < 2:
        out += n
    else:
        fib(out, n - 1)
        fib(out, n - 2)


@reversible
def search(n: int, bound: int) -> None:
    """n := the first n ≥ 0 with F(n) ≥ bound, from n = 0. Inverse: n := 0."""
    value = 0
    fib(value, n)
    while (value < bound, n != 0):
        ~fib(value, n)
        n += 1
        fib(value, n)
    ~fib(value, n)


def reference(bound: int) -> int:
    """The first n with F(n) ≥ bound."""
    n, now, following = 0, 0, 1
    while now < bound:
        n, now, following = n + 1, following, now + following
    return n


def main() -> None:
    """Print F(10) and the first n with F(n) ≥ 100, forward and back."""
    after = fib(0, 10)
    print(f"F(10) = {after.out}; backward: {(~fib)(*after)}")
    found = rg.run(search, 0, 100)
    print(
        f"F(n) ≥ 100 from n = {found.values.n} on, after {found.steps} instructions; backward: {(~search)(*found.values)}"
    )


if __name__ == "__main__":
    main()
