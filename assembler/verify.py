"""The static verifier: that a program can run backward everywhere, before it runs at all.

Control flow is reversible iff every instruction has as many ways in as it has ways out in the other
direction: jumps are paired with the branches they land on, and control falls from one instruction to the next
only where it can also fall back.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

from retrograd.isa.diagnostics import Diagnostic, ImageError, Span, VerificationError
from retrograd.isa.encoding import Instruction, distance_text, write
from retrograd.isa.program import Program

#: instructions from which control does not fall to the next, and to which it does not fall from the instruction before
_NEVER_LEAVE = frozenset(("goto", "finish"))
_NEVER_ENTER = frozenset(("from", "start"))


def findings(program: Program, *, strict: bool = False) -> list[Diagnostic]:
    """Everything wrong with the program; warnings have severity "warning"."""
    try:
        code = program.instructions
    except ImageError as error:
        return list(error.diagnostics)
    found = [*_ends(program), *_pairs(program), *_falls(program), *_shifts(program)]
    if not found:
        regions = _regions(program)
        found += [*_subroutines(program, regions), *_borders(program, regions)]
    if not found:
        found += _unreachable(program)
    if strict and any(i.opcode.erased_words for i in code):
        found += erasures(program)
    return found


def erasures(program: Program) -> list[Diagnostic]:
    """A diagnostic for each instruction that erases."""
    return [
        at_address(program, pc, "RG0211", f"`{write(i)}` erases {program.format.width} bits")
        for pc, i in enumerate(program.instructions)
        if i.opcode.erased_words
    ]


def verify(program: Program, *, strict: bool = False) -> list[Diagnostic]:
    """The warnings. Raises VerificationError with every error found."""
    found = findings(program, strict=strict)
    errors = [d for d in found if d.severity == "error"]
    if errors:
        raise VerificationError(*errors)
    return found


def at_address(
    program: Program, pc: int, code: str, message: str, hint: str | None = None, severity: str = "error"
) -> Diagnostic:
    """A finding at an instruction: at its place in the source, or with its address where there is no source."""
    span = program.source.span(pc)
    where = "" if span is not None else f" (at address {pc})"
    return Diagnostic(code, message + where, span, hint, program.source.line(span), severity)


def _place(program: Program, pc: int) -> str:
    """The position of an instruction in its source, or its address where there is no source."""
    span = program.source.span(pc)
    return f"address {pc}" if span is None else f"{span.file}:{span.line}"


def _write(program: Program, pc: int) -> str:
    """The instruction as text, with the program's own labels."""
    names = {address: name for name, address in reversed(list(program.labels.items()))}
    return write(program.instructions[pc], lambda distance: names.get(pc + distance) or distance_text(distance))


def _is_jump(i: Instruction) -> bool:
    return i.opcode.entry.name.startswith("goto")


def _targets(program: Program) -> Iterator[tuple[int, int, Instruction]]:
    """(source, target, instruction) of every instruction with a target."""
    for pc, i in enumerate(program.instructions):
        if "target" in i.opcode.operands:
            yield pc, pc + i.opcode.distance(i.imm), i


def _ends(program: Program) -> Iterator[Diagnostic]:
    for name, code in (("start", "RG0204"), ("finish", "RG0205")):
        places = [pc for pc, i in enumerate(program.instructions) if i.opcode.name == name]
        if not places:
            span = Span(program.source.files[0], 1) if program.source.files else None
            yield Diagnostic(code, f"the program has no `{name}`", span)
        for pc in places[1:]:
            yield at_address(program, pc, code, f"a second `{name}`; the first is at {_place(program, places[0])}")


def _pairs(program: Program) -> Iterator[Diagnostic]:
    """Every jump lands on the partner that names it; every call lands on a `swapbr`."""
    code = program.instructions
    for pc, target, i in _targets(program):
        if not 0 <= target < len(code):
            message = f"`{_write(program, pc)}` reaches address {target}, outside the code of {len(code)} instructions"
            yield at_address(program, pc, "RG0203", message)
            continue
        other = code[target]
        if not _is_jump(i):
            if other.opcode.name != "swapbr":
                message = f"`{i.opcode.name}` reaches `{_write(program, target)}`, not a `swapbr`"
                yield at_address(program, pc, "RG0207", message)
            continue
        wanted = "from" if i.opcode.name.startswith("goto") else "goto"
        if not other.opcode.name.startswith(wanted) or not _is_jump(other):
            span = program.source.span(target)
            where = "" if span is None else f" ({span.file}:{span.line})"
            yield at_address(program, pc, "RG0201", f"the other end is `{write(other)}`, not a `{wanted}`{where}")
        elif target + other.imm != pc:
            message = (
                f"the `{wanted}` at {_place(program, target)} names {_place(program, target + other.imm)}, not this"
            )
            yield at_address(program, pc, "RG0202", message)


def _falls(program: Program) -> Iterator[Diagnostic]:
    """Control leaves an instruction downward iff it can enter the next from above."""
    code = program.instructions
    leaves = [False, *[i.opcode.name not in _NEVER_LEAVE for i in code]]
    enters = [*[i.opcode.name not in _NEVER_ENTER for i in code], False]
    if leaves == enters:
        return
    for pc, (above, below) in enumerate(zip(leaves, enters, strict=True)):
        if above and not below:
            what = f"falls into `{_write(program, pc)}`" if pc < len(code) else "runs off the end of the code"
            yield at_address(program, pc - 1, "RG0206", f"after `{_write(program, pc - 1)}` control {what}")
        elif below and not above:
            what = f"backs into `{_write(program, pc - 1)}`" if pc else "backs off the beginning of the code"
            yield at_address(program, pc, "RG0206", f"running backward from `{_write(program, pc)}` control {what}")


def _shifts(program: Program) -> Iterator[Diagnostic]:
    """Constants for which the function of an instruction has no meaning."""
    for pc, i in enumerate(program.instructions):
        legal = i.opcode.constants(program.format)
        if legal is not None and i.imm not in legal:
            takes = f"in words of {program.format.width} bits it takes {legal[0]} to {legal[-1]}"
            yield at_address(program, pc, "RG0212", f"`{_write(program, pc)}` shifts by {i.imm}; {takes}")


def _regions(program: Program) -> list[tuple[int, int, int]]:
    """(first, entry, last) of each subroutine: the innermost unconditional pair around its `swapbr`."""
    found: list[tuple[int, int, int]] = []
    open_pairs: list[tuple[int, int]] = []
    for pc, i in enumerate(program.instructions):
        while open_pairs and open_pairs[-1][1] <= pc:
            open_pairs.pop()
        if i.opcode.name in ("from", "goto") and i.imm > 0:
            open_pairs.append((pc, pc + i.imm))
        elif i.opcode.name == "swapbr":
            first, last = open_pairs[-1] if open_pairs else (pc, pc)
            found.append((first, pc, last))
    return found


def _subroutines(program: Program, regions: list[tuple[int, int, int]]) -> Iterator[Diagnostic]:
    """The Pendulum convention: `from … swapbr r; neg r … goto`, or its mirror image."""
    code = program.instructions
    for first, entry, last in regions:
        link = code[entry].rd
        if first == last:
            yield at_address(program, entry, "RG0208", "no unconditional `from` and `goto` enclose this `swapbr`")
            continue
        beside = [code[pc] for pc in (entry - 1, entry + 1)]
        if sum(i.opcode.name == "neg" and i.rd == link for i in beside) != 1:
            message = f"not one `neg r{link}` stands next to this `swapbr`: the return would go astray"
            yield at_address(program, entry, "RG0208", message)


def _borders(program: Program, regions: list[tuple[int, int, int]]) -> Iterator[Diagnostic]:
    """No jump enters or leaves a subroutine except through its `swapbr`."""
    code = program.instructions
    owner: list[int | None] = [None] * len(code)
    for index, (first, entry, last) in enumerate(regions):
        for pc in range(first, last + 1):
            if owner[pc] is not None:
                yield at_address(program, entry, "RG0209", "this subroutine overlaps another")
                return
            owner[pc] = index
    for pc, target, i in _targets(program):
        if _is_jump(i) and owner[pc] != owner[target]:
            yield at_address(program, pc, "RG0209", f"`{_write(program, pc)}` crosses the border of a subroutine")
    for pc in (program.start, program.finish):
        if owner[pc] is not None:
            yield at_address(program, pc, "RG0209", f"`{write(code[pc])}` stands inside a subroutine")


def _unreachable(program: Program) -> Iterator[Diagnostic]:
    """Instructions that no path meets; one warning for each stretch of them.

    A run of instructions ends where control does not fall to the next. As control falls backward where it falls forward, a run is
    reached as a whole, and runs reach one another by jumps and calls.
    """
    code = program.instructions
    firsts = [0, *(pc + 1 for pc, i in enumerate(code[:-1]) if i.opcode.name in _NEVER_LEAVE)]
    jumps: dict[int, list[int]] = {}
    for pc, target, _ in _targets(program):
        jumps.setdefault(bisect_right(firsts, pc), []).append(bisect_right(firsts, target))
    work = [bisect_right(firsts, pc) for pc in (program.start, program.finish)]
    reached: set[int] = set()
    while work:
        run = work.pop()
        if run not in reached:
            reached.add(run)
            work += jumps.get(run, ())
    ends = [*firsts[1:], len(code)]
    for run, first in enumerate(firsts, 1):
        if run not in reached and (run == 1 or run - 1 in reached):
            end = next((ends[r - 2] for r in range(run + 1, len(firsts) + 1) if r in reached), len(code))
            message = f"{end - first} instruction{'s' * (end - first > 1)} from here cannot be reached"
            yield at_address(program, first, "RG0210", message, severity="warning")
