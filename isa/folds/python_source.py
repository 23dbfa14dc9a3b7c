"""Fold: the expression tree as Python source, for the machines that run in plain Python ints.

Words are held as ints in [0, 2^W); every emitted expression keeps them there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from retrograd.isa.expr import Expr, half, nodes
from retrograd.isa.words import Format

#: nesting that Python's own parser takes without complaint, with room to spare
_MAX_DEPTH = 24


def emit(roots: Sequence[Expr], w: Format, names: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """(statements, one expression per root): Python source that computes the trees.

    `names` gives the Python variable that holds each input's word; `isqrt` must be in scope. Nodes used more
    than once become assignments, so shared subexpressions cost once. All nodes are total: nothing raises.
    """
    uses = Counter(arg for node in nodes(*roots) for arg in node.args)
    statements: list[str] = []
    source: dict[Expr, str] = {}
    depth: dict[Expr, int] = {}
    for node in nodes(*roots):
        text = _operation(node, [source[arg] for arg in node.args], w, names)
        depth[node] = 1 + max((depth[arg] for arg in node.args), default=0)
        if (uses[node] > 1 or depth[node] > _MAX_DEPTH) and node.op not in ("const", "input"):
            depth[node] = 0
            name = f"t{len(statements)}"
            statements.append(f"{name} = {text}")
            text = name
        source[node] = text
    return statements, [source[root] for root in roots]


def _operation(node: Expr, v: list[str], w: Format, names: Mapping[str, str]) -> str:
    mask, sign = w.mask, w.sign
    s = node.param if isinstance(node.param, int) else 0

    def signed(text: str) -> str:
        return f"(({text} ^ {sign}) - {sign})"

    def amount(text: str) -> str:
        return str(int(text) % w.width) if text.isdecimal() else f"({text} & {w.width - 1})"

    match node.op:
        case "const":
            return str(s & mask)
        case "input":
            return names[str(node.param)]
        case "add":
            return f"(({v[0]} + {v[1]}) & {mask})"
        case "sub":
            return f"(({v[0]} - {v[1]}) & {mask})"
        case "and":
            return f"({v[0]} & {v[1]})"
        case "or":
            return f"({v[0]} | {v[1]})"
        case "xor":
            return f"({v[0]} ^ {v[1]})"
        case "shl":
            return f"(({v[0]} << {amount(v[1])}) & {mask})"
        case "shr":
            return f"({v[0]} >> {amount(v[1])})"
        case "sar":
            return f"(({signed(v[0])} >> {amount(v[1])}) & {mask})"
        case "eq":
            return f"(1 if {v[0]} == {v[1]} else 0)"
        case "lt":
            return f"(1 if ({v[0]} ^ {sign}) < ({v[1]} ^ {sign}) else 0)"
        case "ltu":
            return f"(1 if {v[0]} < {v[1]} else 0)"
        case "select":
            return f"({v[1]} if {v[0]} else {v[2]})"
        case "mulshift" if s == 0:
            return f"(({v[0]} * {v[1]}) & {mask})"
        case "mulshift":
            return f"(({signed(v[0])} * {signed(v[1])} >> {s}) & {mask})"
        case "divshift":
            top = f"({signed(v[0])} << {s})" if s > 0 else signed(v[0])
            bottom = f"({signed(v[1])} << {-s})" if s < 0 else signed(v[1])
            return f"(({top} // {bottom}) & {mask} if {v[1]} else 0)"
        case "mulround":
            return f"((({signed(v[0])} * {signed(v[1])} + {half(s, w)}) >> {s}) & {mask})"
        case "divround":
            places = s % w.width
            twice = f"({signed(v[0])} << {places + 1}) // {signed(v[1])}"
            return f"(({twice} + 1 >> {1 + places - s}) & {mask} if {v[1]} else 0)"
        case "sqrtround":
            return f"(0 if {v[0]} & {sign} else (isqrt({v[0]} << {s + 2}) + 1 >> 1) & {mask})"
        case "table" if isinstance(node.param, tuple):
            # A tuple of constants is a constant to Python's compiler: no table is built at run time.
            entries = "".join(f"{entry & mask}," for entry in node.param)
            return f"({entries})[{v[0]} & {len(node.param) - 1}]"
    raise ValueError(f"no Python source for operation {node.op!r}")
