"""Lines of assembly a second, to a verified program: on lines that all differ, and on repeated lines."""

from __future__ import annotations

import random

from retrograd.assembler.assemble import assemble
from retrograd.assembler.image import from_image, to_image
from retrograd.benchmarks.measure import Row, seconds

#: the name of the row that is a bar
DIFFERENT = "assembler, all lines different"


def _source(lines: int) -> str:
    r = random.Random(1)
    out = ["start"]
    for i in range(lines // 5):
        a, b, c = r.sample(range(256), 3)
        out += [
            f"L{i}: add r{a}, {i}",
            f"    mul.add r{a}, r{b}, r{c}        ; r{a} += r{b} * r{c}",
            f"    fmul.sub r{a}, r{b}, r{c}",
            f"    exch r{a}, [r{b} + {i}]",
            f"    xor r{a}, r{b}",
        ]
    return "\n".join([*out, "finish"]) + "\n"


def measure(quick: bool) -> list[Row]:
    """Text to program, with and without the verifier; program to image and back."""
    lines = 20_000 if quick else 200_000
    different = _source(lines)
    repeated = "start\n" + "    mul.add r1, r2, r3\n    xor r4, r1\n" * (lines // 2) + "finish\n"
    image = to_image(assemble(different))
    tasks = {
        "different": lambda: assemble(different, check=False),
        "repeated": lambda: assemble(repeated, check=False),
        "verified": lambda: assemble(different),
        "image": lambda: from_image(image),
    }
    best = {name: lines / low for name, (_, low) in seconds(tasks, 3 if quick else 5).items()}
    return [
        Row(DIFFERENT, best["different"], "lines/s", 200_000),
        Row("assembler, repeated lines", best["repeated"], "lines/s", 200_000),
        Row("assembler and verifier, all lines different", best["verified"], "lines/s"),
        Row("image reader", best["image"], "instructions/s"),
    ]
