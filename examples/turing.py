"""A reversible Turing machine whose tape is two stacks, after T. Yokoyama, H. B. Axelsen, R. Glück (2008).

A rule (q, s, s', q') writes s' where state q reads s; a rule (q, MOVE, ±1, q') moves the head. No two rules leave by the same state
and symbol, and none arrive by the same, so each step can be undone. The machine of `INCREMENT` adds 1 to a binary number
of a fixed number of digits.
"""

import retrograd as rg
from retrograd import Array, reversible

BLANK, ZERO, ONE = 0, 1, 2
#: in the place of a symbol: the rule moves the head
MOVE = -1
#: the machine begins in state 1 and ends in state 6, with its head on the blank before the digits, the lowest first
INCREMENT = [
    (1, BLANK, BLANK, 2),
    (2, MOVE, 1, 3),
    (3, ZERO, ONE, 4),
    (3, ONE, ZERO, 2),
    (3, BLANK, BLANK, 4),
    (4, MOVE, -1, 5),
    (5, ZERO, ZERO, 4),
    (5, BLANK, BLANK, 6),
]
Tape = rg.Stack[int, 64]


@reversible
def put(symbol: int, tape: Tape) -> None:
    """The symbol goes on the tape and becomes blank. An empty tape takes no blank, so it has no blanks at its end."""
    if (symbol != BLANK or tape, len(tape) > 0):
        rg.push(tape, symbol)


@reversible
def apply(q: int, symbol: int, left: Tape, right: Tape, rule: Array[int, 4]) -> None:
    """One rule, if it applies."""
    if rule[1] == MOVE:
        if (q == rule[0], q == rule[3]):
            q += rule[3] - rule[0]
            if rule[2] == 1:
                put(symbol, left)
                ~put(symbol, right)
            else:
                put(symbol, right)
                ~put(symbol, left)
    elif (q == rule[0] and symbol == rule[1], q == rule[3] and symbol == rule[2]):
        q += rule[3] - rule[0]
        symbol += rule[2] - rule[1]


@reversible
def run(q: int, symbol: int, left: Tape, right: Tape, rules: Array[int, "n", 4], start: int = 1, end: int = 6) -> None:
    """The machine from its first to its last state."""
    while (q != end, q != start):
        for rule in rules:
            apply(q, symbol, left, right, rule)


def increment(number: str, backward: bool = False) -> str:
    """A binary number plus 1, modulo 2^digits; minus 1 by the machine run backward."""
    symbols = [
        ONE if digit == "1" else ZERO for digit in number
    ]  # the last item, the top of the stack, is the lowest digit
    machine = ~run if backward else run
    out = machine(6 if backward else 1, BLANK, [], symbols, INCREMENT)
    return "".join("1" if symbol == ONE else "0" for symbol in out.right)


if __name__ == "__main__":
    for text in ("000", "0101", "0111", "1111111111"):
        print(text, "→", increment(text), "→", increment(increment(text), backward=True))
