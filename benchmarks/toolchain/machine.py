"""Instructions a second of the reference machine, and the ratio of backward to forward time."""

from __future__ import annotations

from retrograd.assembler.assemble import assemble
from retrograd.benchmarks.measure import Row, seconds
from retrograd.simulator.machine import Machine

#: two loops: the sum of products over an array; fixed-point product and quotient, as in the series of a Bessel function
LOOPS = {
    "dot loop": """
        .memory 1024
                start
        top:    from.ne r1, r0, bottom
                ld.add r4, [r1]
                ld.add r5, [r1 + 1]
                mul.add r6, r4, r5
                ld.sub r5, [r1 + 1]
                ld.sub r4, [r1]
                add r1, 1
        bottom: goto.ne r1, r9, top
                finish
        """,
    "series loop": """
                start
        top:    from.ne r1, r0, bottom
                add r1, 1
                fmul.add r4, r2, r3
                fdiv.add r5, r4, r8
                fmov.add r6, r5
                fmov.sub r6, r5
                fdiv.sub r5, r4, r8
                fmul.sub r4, r2, r3
        bottom: goto.ne r1, r9, top
                finish
        """,
}


def measure(quick: bool) -> list[Row]:
    """Each loop forward and backward."""
    rows = []
    for name, text in LOOPS.items():
        machine = Machine(assemble(text))
        trips = 500 if name == "dot loop" else (10_000 if quick else 100_000)
        machine.registers[2:4] = [3 << 31, 5 << 30]
        machine.registers[8:10] = [7 << 32, trips]
        steps = machine.run().steps
        machine.run_back()
        repeats = 5 if quick else 9
        rounds = max(1, (50_000 if quick else 500_000) // steps)

        def forward(machine: Machine = machine) -> None:
            machine.run()

        def backward(machine: Machine = machine) -> None:
            machine.run_back()

        low = {"forward": 1e9, "backward": 1e9}
        for _ in range(rounds):
            for way, (_, least) in seconds({"forward": forward, "backward": backward}, repeats).items():
                low[way] = min(low[way], least)
        rows.append(Row(f"reference machine, {name}", steps / low["forward"], "instructions/s", 500_000))
        ratio = low["backward"] / low["forward"]
        rows.append(Row(f"backward over forward, {name}", ratio, "ratio", 1.1, lower_is_better=True))
    return rows
