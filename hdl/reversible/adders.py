"""Adders in place, b += a, as they were published, and the one that the lowering uses."""

from __future__ import annotations

from collections.abc import Sequence

from retrograd.hdl.reversible.circuit import Circuit, Gate


def _x(target: int) -> Gate:
    return Gate((), (target,))


def _cnot(control: int, target: int) -> Gate:
    return Gate((control,), (target,))


def _toffoli(first: int, second: int, target: int) -> Gate:
    return Gate((first, second), (target,))


def carries(a: Sequence[int], b: Sequence[int]) -> list[Gate]:
    """The first half of `takahashi`: a[i] := a[i] ⊕ (carry into place i), b[i] := a[i] ⊕ b[i], for i ≥ 1."""
    n = len(a)
    return [
        *(_cnot(a[i], b[i]) for i in range(1, n)),
        *(_cnot(a[i], a[i + 1]) for i in range(n - 2, 0, -1)),
        *(_toffoli(a[i], b[i], a[i + 1]) for i in range(n - 1)),
    ]


def takahashi(a: Sequence[int], b: Sequence[int], carry: int | None = None) -> list[Gate]:
    """b := a + b mod 2^n, and carry := carry ⊕ (its carry out), without ancillas; 2n − 1 Toffoli and 5n − 5 CNOT gates.

    The inverse subtracts. (Y. Takahashi, S. Tani, N. Kunihiro, Quantum addition circuits and unbounded fan-out, 2010.)
    Trap: the lines of a and b must be different lines.
    """
    n = len(a)
    top: list[Gate] = []
    if carry is not None:
        top = [_toffoli(a[n - 1], b[n - 1], carry)]
    out = [*([_cnot(a[n - 1], carry)] if carry is not None and n > 1 else []), *carries(a, b), *top]
    for i in range(n - 1, 0, -1):
        out += [_cnot(a[i], b[i]), _toffoli(a[i - 1], b[i - 1], a[i])]
    out += [_cnot(a[i], a[i + 1]) for i in range(1, n - 1)]
    return [*out, *(_cnot(x, y) for x, y in zip(a, b, strict=True))]


def takahashi_adder(n: int) -> Circuit:
    """The circuit of `takahashi` with its carry out, for n ≥ 2."""
    a, b, carry = _lines(0, n), _lines(n, n), 2 * n
    return Circuit(2 * n + 1, tuple(takahashi(a, b, carry)), {"a": a, "b": b}, {"a": a, "b": (*b, carry)})


def maj_uma_adder(n: int) -> Circuit:
    """Majority gates upward, unmajority gates downward: 2n Toffoli and 4n + 1 CNOT gates, one ancilla.

    (S. Cuccaro, T. Draper, S. Kutin, D. Moulton, A new quantum ripple-carry addition circuit, 2004, figures 1 to 4.)
    """
    a, b, first, carry = _lines(0, n), _lines(n, n), 2 * n, 2 * n + 1
    chain = [first, *a]
    up = [
        gate
        for i in range(n)
        for gate in (_cnot(a[i], b[i]), _cnot(a[i], chain[i]), _toffoli(chain[i], b[i], a[i]))
    ]  # fmt: skip
    down = [
        gate
        for i in reversed(range(n))
        for gate in (_toffoli(chain[i], b[i], a[i]), _cnot(a[i], chain[i]), _cnot(chain[i], b[i]))
    ]  # fmt: skip
    gates = (*up, _cnot(a[n - 1], carry), *down)
    return Circuit(2 * n + 2, gates, {"a": a, "b": b}, {"a": a, "b": (*b, carry)})


def cuccaro_adder(n: int) -> Circuit:
    """The same in less depth, 2n + 4: 2n − 1 Toffoli, 5n − 3 CNOT and 2n − 4 X gates, for n ≥ 4 (figure 6 of the same paper)."""
    if n < 4:
        raise ValueError("the adder of small depth has 4 bits or more")
    a, b, x, z = _lines(0, n), _lines(n, n), 2 * n, 2 * n + 1
    gates = [_cnot(a[i], b[i]) for i in range(1, n)]
    gates += [_cnot(a[1], x), _toffoli(a[0], b[0], x), _cnot(a[2], a[1]), _toffoli(x, b[1], a[1]), _cnot(a[3], a[2])]
    for i in range(2, n - 2):
        gates += [_toffoli(a[i - 1], b[i], a[i]), _cnot(a[i + 2], a[i + 1])]
    gates += [_toffoli(a[n - 3], b[n - 2], a[n - 2]), _cnot(a[n - 1], z), _toffoli(a[n - 2], b[n - 1], z)]
    gates += [_x(b[i]) for i in range(1, n - 1)]
    gates += [_cnot(x, b[1]), *(_cnot(a[i - 1], b[i]) for i in range(2, n))]
    gates += [_toffoli(a[n - 3], b[n - 2], a[n - 2])]
    for i in range(n - 3, 1, -1):
        gates += [_toffoli(a[i - 1], b[i], a[i]), _cnot(a[i + 2], a[i + 1]), _x(b[i + 1])]
    gates += [
        _toffoli(x, b[1], a[1]),
        _cnot(a[3], a[2]),
        _x(b[2]),
        _toffoli(a[0], b[0], x),
        _cnot(a[2], a[1]),
        _x(b[1]),
    ]
    gates += [_cnot(a[1], x), *(_cnot(a[i], b[i]) for i in range(n))]
    return Circuit(2 * n + 2, tuple(gates), {"a": a, "b": b}, {"a": a, "b": (*b, z)})


def vbe_adder(n: int) -> Circuit:
    """Carries on lines of their own: 4n − 2 Toffoli and 4n CNOT gates on 3n + 1 lines.

    (V. Vedral, A. Barenco, A. Ekert, Quantum networks for elementary arithmetic operations, 1996, figure 2.)
    """
    a, b, c = _lines(0, n), _lines(n, n), _lines(2 * n, n + 1)

    def carry(i: int) -> list[Gate]:
        return [_toffoli(a[i], b[i], c[i + 1]), _cnot(a[i], b[i]), _toffoli(c[i], b[i], c[i + 1])]

    def sum_of(i: int) -> list[Gate]:
        return [_cnot(a[i], b[i]), _cnot(c[i], b[i])]

    gates = [gate for i in range(n) for gate in carry(i)]
    gates += [_cnot(a[n - 1], b[n - 1]), *sum_of(n - 1)]
    for i in reversed(range(n - 1)):
        gates += [*reversed(carry(i)), *sum_of(i)]
    return Circuit(3 * n + 1, tuple(gates), {"a": a, "b": b}, {"a": a, "b": (*b, c[n])})


def gidney_adder(n: int) -> Circuit:
    """b := a + b mod 2^n with n − 1 carries on ancillas: an AND gate for each carry, and its undoing, so 4n − 4 T gates by measurement.

    (C. Gidney, Halving the cost of quantum addition, 2018, figures 1 and 2.)
    """
    a, b, c = _lines(0, n), _lines(n, n), (-1, *_lines(2 * n, n - 1))
    gates: list[Gate] = []
    back: list[list[Gate]] = []
    for i in range(n - 1):
        carry = [_cnot(c[i], a[i]), _cnot(c[i], b[i])] if i else []
        gates += [*carry, _toffoli(a[i], b[i], c[i + 1]), *([_cnot(c[i], c[i + 1])] if i else [])]
        undone = [_cnot(c[i], c[i + 1])] if i else []
        # a has its word back; b keeps a ⊕ b ⊕ carry.
        back.append([*undone, _toffoli(a[i], b[i], c[i + 1]), *([_cnot(c[i], a[i])] if i else []), _cnot(a[i], b[i])])
    if n > 1:
        gates.append(_cnot(c[n - 1], b[n - 1]))
    gates.append(_cnot(a[n - 1], b[n - 1]))
    for part in reversed(back):
        gates += part
    return Circuit(3 * n - 1, tuple(gates), {"a": a, "b": b}, {"a": a, "b": b})


def _lines(first: int, count: int) -> tuple[int, ...]:
    return tuple(range(first, first + count))
