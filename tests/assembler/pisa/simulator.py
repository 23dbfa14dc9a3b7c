"""A simulator of PISA text, from its specification (M. P. Frank, PhD thesis, MIT 1999, appendix B): no code of the assembler or the machine."""

from __future__ import annotations

from collections import defaultdict

BITS = 32
MASK = 2**BITS - 1


def signed(x: int) -> int:
    return (x & MASK) - 2**BITS * ((x >> (BITS - 1)) & 1)


#: rd ^= f(rs, rt or constant)
FUNCTIONS = {
    "ANDX": lambda x, y: x & y,
    "ORX": lambda x, y: x | y,
    "NORX": lambda x, y: ~(x | y),
    "SLTX": lambda x, y: signed(x) < signed(y),
    "SLLX": lambda x, y: x << y % BITS,
    "SRLX": lambda x, y: (x & MASK) >> y % BITS,
    "SRAX": lambda x, y: signed(x) >> y % BITS,
}
FUNCTIONS |= {"ANDIX": FUNCTIONS["ANDX"], "ORIX": FUNCTIONS["ORX"], "SLTIX": FUNCTIONS["SLTX"]}
FUNCTIONS |= {f"{name[:-1]}VX": f for name, f in FUNCTIONS.items() if name[:2] in ("SL", "SR") and "T" not in name}
CONDITIONS = {
    "BRA": lambda: True,
    "BEQ": lambda x, y: x == y,
    "BNE": lambda x, y: x != y,
    "BGEZ": lambda x: signed(x) >= 0,
    "BLTZ": lambda x: signed(x) < 0,
    "BGTZ": lambda x: signed(x) > 0,
    "BLEZ": lambda x: signed(x) <= 0,
}


class Simulator:
    """Registers, memory by address, and the lines of a program; `run` goes from START to FINISH."""

    def __init__(self, text: str) -> None:
        self.registers = [0] * 32
        self.memory: defaultdict[int, int] = defaultdict(int)
        self.emitted: list[int] = []
        self.lines: list[list[str]] = []
        labels: dict[str, int] = {}
        for line in text.splitlines():
            words = line.partition(";")[0].replace(",", " ").split()
            if words and words[0].endswith(":"):
                labels[words.pop(0)[:-1]] = len(self.lines)
            if words and words[0] != ".start":
                self.lines.append(words)
        for pc, words in enumerate(self.lines):
            words[0] = words[0].upper()
            words[1:] = [str(labels.get(word, word)) for word in words[1:]]
            if words[0] == "DATA":
                self.memory[pc] = int(words[1]) & MASK

    def run(self, direction: int = 1, most: int = 10**6) -> int:
        """The number of instructions until FINISH, which is not counted; with direction −1, from FINISH to START."""
        ends = [next(pc for pc, words in enumerate(self.lines) if words[0] == name) for name in ("START", "FINISH")]
        pc, br, steps = ends[direction < 0], 0, 0
        while (pc, direction) not in ((ends[1], 1), (ends[0], -1)):
            name, *operands = self.lines[pc]
            registers = [int(o[1:]) for o in operands if o[0] == "$"]
            r = [self.registers[i] for i in registers]
            constant = int(operands[-1], 0) if operands and operands[-1][0] != "$" else 0
            target = registers[0] if registers else 0
            if name in FUNCTIONS:
                self.registers[target] = (r[0] ^ FUNCTIONS[name](r[1], r[2] if len(r) > 2 else constant)) & MASK
            elif name in CONDITIONS:
                br += (constant - pc) * CONDITIONS[name](*r)
            elif name == "RBRA":
                br, direction = br + constant - pc, -direction
            elif name == "SWAPBR":
                self.registers[target], br = br * direction & MASK, signed(r[0]) * direction
            elif name == "EXCH":
                self.registers[target], self.memory[r[1]] = self.memory[r[1]], r[0]
            elif name in ("ADD", "SUB", "ADDI"):
                amount = {"ADD": r[-1], "SUB": -r[-1], "ADDI": constant}[name]
                self.registers[target] = (r[0] + direction * amount) & MASK
            elif name in ("XOR", "XORI"):
                self.registers[target] ^= (constant if name == "XORI" else r[1]) & MASK
            elif name in ("RL", "RR", "RLV", "RRV"):
                amount = r[1] if len(r) > 1 else constant
                by = direction * (amount if name[1] == "L" else -amount) % BITS
                self.registers[target] = (r[0] << by | r[0] >> BITS - by) & MASK
            elif name == "NEG":
                self.registers[target] = -r[0] & MASK
            elif name == "EMIT":
                self.emitted.append(r[0])
                self.registers[target] = 0
            else:
                assert name in ("START", "FINISH", "OUTPUT"), name
            pc, steps = pc + (br or direction), steps + 1
            assert steps <= most
        return steps
