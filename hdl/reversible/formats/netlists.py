"""A circuit with a name for each line, as netlist files have it."""

from __future__ import annotations

from dataclasses import dataclass, field

from retrograd.hdl.reversible.circuit import Circuit, Gate
from retrograd.isa.diagnostics import Diagnostic, InputError, Span

#: lines of a file at most: a header costs no memory before its lines are used
MOST_LINES = 1 << 20


@dataclass(frozen=True)
class Netlist:
    """Gates on named lines. A line in `constants` begins with that bit; the others are inputs. All lines are outputs."""

    names: tuple[str, ...]
    gates: tuple[Gate, ...]
    #: line -> the bit with which it begins
    constants: dict[int, int]
    #: of a netlist that is made of a circuit: the lines that end as garbage; of a file they are not known
    garbage: frozenset[int] | None = field(default=None, compare=False)

    def circuit(self) -> Circuit:
        """The netlist as a circuit whose word `lines` has all lines. Constants are left to the caller."""
        word = tuple(range(len(self.names)))
        return Circuit(len(self.names), self.gates, {"lines": word}, {"lines": word})

    def with_constants(self) -> Circuit:
        """The netlist as a circuit whose inputs are the other lines, and whose ancillas are the constants; all lines are outputs."""
        word = tuple(range(len(self.names)))
        ones = tuple(Gate((), (line,)) for line, bit in self.constants.items() if bit)
        given = tuple(line for line in word if line not in self.constants)
        return Circuit(len(word), ones + self.gates, {"inputs": given}, {"lines": word})


def netlist(circuit: Circuit) -> Netlist:
    """The circuit with lines named by its words: `d0` is the lowest bit of d. A word that leaves on other lines is exchanged back.

    Cotangents are named `d_bar`. Ancillas are `z0`, `z1`, … and begin as 0.
    """
    names = [""] * circuit.lines
    for word, lines in circuit.inputs.items():
        for place, line in enumerate(lines):
            names[line] = f"{word.replace(chr(0x304), '_bar')}_{place}"
    constants = {}
    for number, line in enumerate(circuit.ancillas):
        names[line], constants[line] = f"z_{number}", 0
    gates = list(circuit.gates)
    homes = {
        out: home
        for word, lines in circuit.inputs.items()
        for out, home in zip(circuit.outputs[word], lines, strict=True)
    }
    # Which line has the bit that the circuit leaves on a line, and which bit a line has.
    places, bits = list(range(circuit.lines)), list(range(circuit.lines))
    for out, home in sorted(homes.items()):
        here = places[out]
        if here != home:
            gates.append(Gate((), (here, home)))
            moved = bits[home]
            places[out], places[moved], bits[home], bits[here] = home, here, out, moved
    return Netlist(tuple(names), tuple(gates), constants, frozenset(places[line] for line in circuit.garbage))


def malformed(file: str, line: int, text: str, message: str, start: int = 0, end: int | None = None) -> InputError:
    """InputError RG1401 at columns start … end of a line, counted from 0."""
    last = len(text.rstrip()) if end is None else end
    span = Span(file, line, start + 1, max(last, start + 1) + 1 if end is None else end + 1)
    return InputError(Diagnostic("RG1401", message, span, line=text))
