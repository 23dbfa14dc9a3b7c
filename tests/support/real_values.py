"""Trees over real numbers: what derivatives are checked against."""

from __future__ import annotations

from fractions import Fraction
from math import sqrt

from retrograd.isa.derivatives import NoDerivative
from retrograd.isa.expr import Expr, fold
from retrograd.isa.words import Format


def real_value(root: Expr, w: Format, env: dict[str, float]) -> float:
    """The tree over real numbers: no rounding, no wrapping. For checking derivatives, not for computing."""

    def combine(node: Expr, v: list[float]) -> float:
        s = node.param if isinstance(node.param, int) else 0
        match node.op:
            case "const":
                return float(w.signed(s))
            case "input":
                return env[str(node.param)]
            case "add":
                return v[0] + v[1]
            case "sub":
                return v[0] - v[1]
            case "shl":
                return v[0] * float(2.0 ** v[1])
            case "sar":
                return v[0] / float(2.0 ** v[1])
            case "eq":
                return float(v[0] == v[1])
            case "lt":
                return float(v[0] < v[1])
            case "select":
                return v[1] if v[0] else v[2]
            case "mulshift" | "mulround":
                return v[0] * v[1] / 2.0**s
            case "divshift" | "divround":
                return float(Fraction(v[0]) * Fraction(2) ** s / Fraction(v[1]))
            case "sqrtround":
                return sqrt(v[0] * 2.0**s)
        raise NoDerivative(f"the operation {node.op!r} has no meaning over real numbers")

    return fold(root, combine)
