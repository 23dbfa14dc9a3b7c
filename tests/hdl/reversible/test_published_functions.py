"""Functions of RevLib on netlists of our own, and the published counts beside ours.

| function | published gates, quantum cost | here |
|---|---|---|
| 4_49 | 16, 60 | 13, 41 |
| mod5adder | 17, 77 | 15, 79 |

(R. Wille, D. Große, L. Teuber, G. Dueck, R. Drechsler, RevLib: an online resource for reversible functions and circuits, 2008.)
"""

from __future__ import annotations

from retrograd.hdl.reversible.circuit import count, permutation
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


def test_4_49() -> None:
    found = count(FOUR_49.circuit())
    assert permutation(FOUR_49.circuit()) == [15, 1, 12, 3, 5, 6, 8, 7, 0, 10, 13, 9, 2, 4, 14, 11]
    assert (found.gates, found.quantum_cost) == (13, 41)
    assert count(SHORTEST_4_49.circuit()).gates == 12
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
