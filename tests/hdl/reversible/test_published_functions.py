"""Functions of RevLib on netlists of our own, and the published counts beside ours.

| function | published gates, quantum cost | here |
|---|---|---|
| 4_49 | 16, 60 | 13, 41 |
| 4_49, a shortest circuit | 12 gates | 12, 32 |
| hwb4, a shortest circuit | | 11, 23 |
| mod5adder | 17, 77 | 15, 79 |
| hwb7, with three lines of garbage | 35, 203 | 35, 203 |

(D. Maslov, Reversible logic synthesis benchmarks page, polynomial size circuits for hwb;
R. Wille, D. Große, L. Teuber, G. Dueck, R. Drechsler, RevLib: an online resource for reversible functions and circuits,
2008.)
"""

from __future__ import annotations

import pytest
from retrograd.hdl.reversible.circuit import Circuit, Gate, count, permutation
from retrograd.hdl.reversible.formats import read_real

FOUR_49 = read_real(
    """.version 2.0
.numvars 4
.variables a b c d
.begin
t3 a b d
t3 a c b
t3 c d b
t3 a b d
t2 c a
t1 a
t3 a d c
t3 b c a
t2 a c
t2 a d
t2 d b
t3 b d a
t1 a
.end
"""
)

#: The shortest circuit of 4_49: O. Golubitsky, D. Maslov, A study of optimal 4-bit reversible Toffoli circuits and their synthesis, 2012.
SHORTEST_4_49 = read_real(
    """.version 2.0
.numvars 4
.variables a b c d
.begin
t1 a
t2 c a
t2 a d
t3 a b d
t2 d a
t3 c d b
t3 a d c
t3 b c a
t3 a b d
t1 a
t2 d b
t2 d c
.end
"""
)

#: A shortest circuit of hwb4: no circuit of 10 gates has its function, and of the 264 with 11 none costs less.
SHORTEST_HWB4 = read_real(
    """.version 2.0
.numvars 4
.variables a b c d
.begin
t2 c a
t2 a b
t2 b d
t2 d a
t3 a b c
t3 c d b
t2 a d
t2 d c
t3 b d c
t2 c a
t2 b d
.end
"""
)

#: x = abc and y = def, lowest bits first: y := (x + y) mod 5 for x, y < 5
MOD_5_ADDER = read_real(
    """.version 2.0
.numvars 6
.variables a b c d e f
.begin
t1 e
t3 a d e
t3 a f d
t4 a d e f
t2 a d
t2 b e
t3 b f e
t3 b e d
t4 b d e f
t3 b f d
t2 c d
t4 c d e f
t3 c f d
t3 c d e
t1 e
.end
"""
)

#: circuit of RevLib -> lines, the gates of each kind, the quantum cost that its file prints (from the files that MQT
#: QCEC distributes, in test/circuits/original). Not here: 0410184_169, which prints its 14 lines as the cost (90).
REVLIB = {
    "3_17_13": (3, "t1 t2*3 t3*2", 14),
    "4_49_16": (4, "t1 t2*8 t3*5 t4*2", 60),
    "4gt11-v1_85": (5, "t1 t2*2 t3", 8),
    "4gt11_84": (5, "t2*2 t3", 7),
    "4gt4-v0_72": (5, "t1 t2 t3*2 t4 t5", 54),
    "4mod5-v0_18": (5, "t1*2 t2*3 t3*4", 25),
    "4mod5-v0_19": (5, "t1 t2*2 t3*2", 13),
    "alu1_198": (20, "t1*13 t3*4 t4*15", 228),
    "cm151a_211": (28, "t1*6 t3*8 t5*11 t6*2 t7 t8 t9 t10 t11 t12", 888),
    "cm163a_213": (29, "t1*16 t2*3 t3*2 t4*5 t5*3 t6*3 t7 t8*3 t9*2 t10", 756),
    "cu_219": (25, "t1*18 t3*2 t5*5 t6*3 t7*3 t8*4 t10 t11*4", 1148),
    "dk27_225": (18, "t1*9 t2*5 t3*4 t4*2 t6 t7*3", 248),
    "ham3_103": (3, "t2*2 t3 f2", 10),
    "hwb4_51": (4, "f2*3 f3*6 f4*2", 81),
    "hwb7_59": (7, "t2*27 t3*78 t4*91 t5*63 t6*24 t7*6", 5236),
    "mod5adder_129": (6, "t1*6 t3*9 t4*2", 77),
    "rd32-v0_67": (4, "p3*2", 8),
}

#: n -> gates, lines and quantum cost of hwb with the count of ones as garbage
HWB = {4: (13, 7, 61), 5: (23, 8, 127), 6: (27, 9, 151), 7: (35, 10, 203)}


@pytest.mark.parametrize(("width", "kinds", "printed"), REVLIB.values(), ids=REVLIB)
def test_costs_that_revlib_prints(width: int, kinds: str, printed: int) -> None:
    """The cost depends on the kinds of gates and the number of lines, so any lines will do; a Peres gate is 4."""
    text = f".numvars {width}\n.variables {' '.join(f'x{k}' for k in range(width))}\n.begin\n"
    for kind in kinds.split():
        name, _, times = kind.partition("*")
        text += f"{name} {' '.join(f'x{k}' for k in range(int(name[1:])))}\n" * int(times or 1)
    found = count(read_real(text + ".end\n").circuit())
    assert found.quantum_cost - (2 * found.peres if "p" in kinds else 0) == printed


def test_4_49() -> None:
    found = count(FOUR_49.circuit())
    assert permutation(FOUR_49.circuit()) == [15, 1, 12, 3, 5, 6, 8, 7, 0, 10, 13, 9, 2, 4, 14, 11]
    assert (found.gates, found.quantum_cost) == (13, 41)
    shortest = count(SHORTEST_4_49.circuit())
    assert (shortest.gates, shortest.quantum_cost) == (12, 32)
    assert permutation(SHORTEST_4_49.circuit()) == permutation(FOUR_49.circuit())
    assert found.gates <= 16
    assert found.quantum_cost <= 60


def test_mod5adder() -> None:
    images = permutation(MOD_5_ADDER.circuit())
    for x in range(5):
        for y in range(5):
            assert images[x | y << 3] == x | (x + y) % 5 << 3
    found = count(MOD_5_ADDER.circuit())
    assert (found.width, found.gates, found.quantum_cost) == (6, 15, 79)
    assert found.gates <= 17


def counted(n: int, width: int) -> list[Gate]:
    """The lines n … of `width` bits += the number of ones among n lines: the k-th line is added to as many bits as the
    sum may have."""
    gates = []
    for k in range(n):
        bits = range(n, n + min(width, (k + 1).bit_length()))
        gates += [Gate((k, *range(n, bit)), (bit,)) for bit in reversed(bits)]
    return gates


def hidden_weighted_bit(n: int) -> Circuit:
    """The n lower lines, shifted left by the number of their ones, which the upper lines count. A rotation by 2^k has n
    exchanges, less one for each of its cycles."""
    width = n.bit_length()
    gates = counted(n, width)
    for k in range(width):
        # Exchanges that put each line of a cycle of the rotation in its place.
        seen: set[int] = set()
        for start in range(n):
            line = start
            while line not in seen:
                seen.add(line)
                source = (line - (1 << k)) % n
                if source != start and source not in seen:
                    gates.append(Gate((n + k,), (line, source)))
                line = source
    word = tuple(range(n))
    return Circuit(n + width, tuple(gates), {"x": word}, {"x": word}, tuple(range(n, n + width)))


def rotated(x: int, n: int, by: int) -> int:
    by %= n
    return (x << by | x >> n - by) & (1 << n) - 1


@pytest.mark.parametrize(("n", "figures"), HWB.items())
def test_hidden_weighted_bit(n: int, figures: tuple[int, int, int]) -> None:
    """hwb7 has the published gates and cost, where a Peres gate costs 4."""
    circuit = hidden_weighted_bit(n)
    for x in range(1 << n):
        assert circuit.run({"x": x})["x"] == rotated(x, n, x.bit_count())
    found = count(circuit)
    assert (found.gates, found.width, found.quantum_cost - 2 * found.peres) == figures


def test_hidden_weighted_bit_of_four_lines() -> None:
    """Without garbage, by a shortest circuit."""
    circuit = SHORTEST_HWB4.circuit()
    assert permutation(circuit) == [rotated(x, 4, x.bit_count()) for x in range(16)]
    found = count(circuit)
    assert (found.gates, found.width, found.quantum_cost) == (11, 4, 23)


def test_rd53() -> None:
    """The number of ones among five bits, on three lines that begin as 0."""
    word = tuple(range(5))
    circuit = Circuit(8, tuple(counted(5, 3)), {"x": word}, {"x": word, "n": (5, 6, 7)})
    for x in range(32):
        assert circuit.run({"x": x}) == {"x": x, "n": x.bit_count()}
    found = count(circuit)
    assert (found.gates, found.width, found.quantum_cost - 2 * found.peres) == (11, 8, 43)
