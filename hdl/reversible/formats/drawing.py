"""Circuits as drawings in SVG: a line for each wire with its name and role, a column for each step of gates.

Gates whose wires overlap stand in different columns. A control is a filled circle; a target a circle with a cross; the two targets of an
exchange are crosses, ×. Drawings are made of short circuits only.
"""

from __future__ import annotations

from retrograd.hdl.reversible.circuit import Gate
from retrograd.hdl.reversible.formats.netlists import Netlist
from retrograd.isa.diagnostics import Diagnostic, InputError, markup

#: gates and wires of a drawing at most: more cannot be read
MOST_GATES, MOST_WIRES = 400, 100
_STEP, _ROW, _TOP, _RADIUS = 22, 22, 24, 7


def draw_svg(net: Netlist, title: str) -> str:
    """The netlist as an SVG image. Raises InputError RG1407 for a netlist that is too long or too wide.

    Trap: gates of one column may be drawn in either order, since their wires do not overlap.
    """
    if len(net.gates) > MOST_GATES or len(net.names) > MOST_WIRES:
        message = f"the netlist has {len(net.gates)} gates on {len(net.names)} lines"
        raise InputError(Diagnostic("RG1407", f"{message}; at most {MOST_GATES} on {MOST_WIRES} are drawn"))
    labels = [_label(net, line) for line in range(len(net.names))]
    left = 14 + 7 * max(map(len, labels), default=0)
    columns = _columns(net.gates)
    width = left + _STEP * (max(columns, default=0) + 2) + 74
    height = _TOP + _ROW * len(net.names) + 12
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img">',
        f"<title>{markup(title)}</title>",
        '<rect width="100%" height="100%" fill="white"/>',
        '<g font-family="monospace" font-size="11" fill="#222">',
        f'<text x="8" y="15" font-weight="bold">{markup(title)}</text>',
    ]
    right = width - 70
    for line, label in enumerate(labels):
        y = _height(line)
        colour = "#999" if line in net.constants else "#222"
        out.append(f'<text x="{left - 6}" y="{y + 4}" text-anchor="end">{markup(label)}</text>')
        out.append(f'<line x1="{left}" y1="{y}" x2="{right}" y2="{y}" stroke="{colour}"/>')
        out.append(f'<text x="{right + 5}" y="{y + 4}" fill="#666">{_end(net, line)}</text>')
    out.append("</g>")
    for gate, column in zip(net.gates, columns, strict=True):
        out += _drawn(gate, left + _STEP * (column + 1))
    return "\n".join([*out, "</svg>", ""])


def _label(net: Netlist, line: int) -> str:
    """The name of a wire, and its role: an ancilla with its first bit, or an input."""
    role = f"|{net.constants[line]}⟩" if line in net.constants else "in"
    return f"{net.names[line]} {role}"


def _end(net: Netlist, line: int) -> str:
    """The role of a wire at its end, where the netlist was made here: of a file it is not known."""
    if net.garbage is None:
        return ""
    return "garbage" if line in net.garbage else f"|{net.constants[line]}⟩" if line in net.constants else "out"


def _height(line: int) -> int:
    return _TOP + _ROW * line + _ROW // 2


def _columns(gates: tuple[Gate, ...]) -> list[int]:
    """The column of each gate: the first behind all gates whose wires, from the highest to the lowest, overlap with its own."""
    taken: dict[int, int] = {}
    out = []
    for controls, targets in gates:
        lines = controls + targets
        span = range(min(lines), max(lines) + 1)
        column = max((taken.get(line, -1) for line in span), default=-1) + 1
        taken |= dict.fromkeys(span, column)
        out.append(column)
    return out


def _drawn(gate: Gate, x: int) -> list[str]:
    lines = gate.controls + gate.targets
    out = []
    if len(lines) > 1:
        top, bottom = _height(min(lines)), _height(max(lines))
        out.append(f'<line x1="{x}" y1="{top}" x2="{x}" y2="{bottom}" stroke="#1a4f8a"/>')
    for line in gate.controls:
        out.append(f'<circle cx="{x}" cy="{_height(line)}" r="4" fill="#1a4f8a"/>')
    for line in gate.targets:
        y, r = _height(line), _RADIUS
        if len(gate.targets) == 1:
            out.append(f'<circle cx="{x}" cy="{y}" r="{r}" fill="white" stroke="#1a4f8a"/>')
            out.append(f'<path d="M{x - r} {y}H{x + r}M{x} {y - r}V{y + r}" stroke="#1a4f8a"/>')
        else:
            out.append(f'<path d="M{x - 5} {y - 5}l10 10m0 -10l-10 10" stroke="#1a4f8a" stroke-width="1.5"/>')
    return out
