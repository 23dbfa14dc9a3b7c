"""Roles of branches: which end of a pair of PISA branches is the jump (`goto`) and which is the comefrom (`from`).

PISA has one instruction for both: `BR += offset`. The machine here checks that a comefrom is entered as its condition demands, so the
reader decides on a role for each branch:

    BRA that reaches SWAPBR or RBRA   call: as PISA's BRA, it takes a jump and receives one
    RBRA                              uncall
    BRA, paired with a branch         goto where control comes from above, from elsewhere
    conditional, paired with a BRA    the opposite of the BRA
    two conditionals                  of an `if` where the conditions are equal: goto, then from; else of a loop: from, then goto

Correct because a wrong role changes no result: where the role is wrong, the machine traps (RG0405 to RG0407). A comment
`; goto` or `; from` on the line of a branch overrides the choice. The check of pairs is the verifier's, without its demand that every
SWAPBR is the entry of a subroutine: PISA programs compute the targets of jumps. Instructions that control reaches in neither direction may
stand before a BRA that is jumped to.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from retrograd.assembler.pisa.mnemonics import CONDITIONAL, UNCONDITIONAL

_OPPOSITE = {"goto": "from", "from": "goto"}
#: words behind which control does not go on
_ENDS = ("DATA", "FINISH")


class Cell(NamedTuple):
    """A word of a PISA program: its mnemonic, the registers of a conditional, the target of a branch, the role that its comment gives."""

    mnemonic: str
    registers: tuple[int, ...] = ()
    target: int = -1
    role: str | None = None

    @property
    def is_branch(self) -> bool:
        return self.mnemonic in UNCONDITIONAL or self.mnemonic in CONDITIONAL

    @property
    def is_plain(self) -> bool:
        """Whether control passes from the cell above to the cell below, and from nowhere else."""
        return not self.is_branch and self.mnemonic not in ("SWAPBR", "START", *_ENDS)

    def same_condition(self, other: Cell) -> bool:
        return self.mnemonic == other.mnemonic and sorted(self.registers) == sorted(other.registers)


class PairFault(NamedTuple):
    """A branch, or a border between two cells, where control cannot run backward: code of the diagnostic, address, message, fix."""

    code: str
    address: int
    message: str
    hint: str


def roles_of(cells: Sequence[Cell]) -> dict[int, str]:
    """address -> goto, from, call or uncall, of every branch. The targets must be addresses of cells."""
    roles: dict[int, str] = {}
    entered = _begins_with_jump(cells)
    for pc, cell in enumerate(cells):
        if cell.mnemonic == "RBRA":
            roles[pc] = "uncall"
        elif cell.mnemonic == "BRA":
            if cells[cell.target].mnemonic in ("SWAPBR", "RBRA"):
                roles[pc] = "call"
            else:
                role = roles.get(pc) or _given(cells, pc) or ("goto" if entered else "from")
                roles[pc] = role
                roles.setdefault(cell.target, _OPPOSITE[role])
                entered = role == "from"
                continue
        # Behind a jump, an instruction is entered only where a branch or a call lands.
        entered = cell.mnemonic not in _ENDS and (entered or not cell.is_plain or cell.mnemonic == "START")
    for pc, cell in enumerate(cells):
        if cell.mnemonic in CONDITIONAL and pc not in roles:
            is_if, is_first = cell.same_condition(cells[cell.target]), pc < cell.target
            role = _given(cells, pc) or ("goto" if is_if == is_first else "from")
            roles[pc] = role
            roles.setdefault(cell.target, _OPPOSITE[role])
    return roles


def _begins_with_jump(cells: Sequence[Cell]) -> bool:
    """Whether address 0 holds a jump to the START, as compilers of ROOPL write it. The machine begins at START, beyond it."""
    first = cells[0] if cells else Cell("DATA")
    after = first.target + 1
    return first.mnemonic == "BRA" and 0 < after < len(cells) and cells[after].mnemonic == "START"


def _given(cells: Sequence[Cell], pc: int) -> str | None:
    """The role that the comment of a branch gives, or the opposite of its partner's."""
    cell = cells[pc]
    other = cells[cell.target].role
    return cell.role or (None if other is None else _OPPOSITE[other])


def with_landing(cells: Sequence[Cell]) -> list[Cell]:
    """The cells, with a partner for a BRA that reaches the FINISH.

    A FINISH at the end that only this BRA reaches becomes the partner, and the FINISH follows. Other addresses are as they were.
    """
    last = len(cells) - 1
    sources = [pc for pc, cell in enumerate(cells) if cell.is_branch and cell.target == last]
    if last < 1 or cells[last].mnemonic != "FINISH" or [cells[pc].mnemonic for pc in sources] != ["BRA"]:
        return [*cells]
    found = [*cells[:last], Cell("BRA", (), sources[0]), Cell("FINISH")]
    return [*cells] if _leaves(found, roles_of(found), last - 1) else found


def _leaves(cells: Sequence[Cell], roles: dict[int, str], pc: int) -> bool:
    """Whether control goes on to the cell below."""
    return cells[pc].mnemonic not in _ENDS and not (cells[pc].mnemonic == "BRA" and roles[pc] == "goto")


def faults(cells: Sequence[Cell], roles: dict[int, str]) -> Iterator[PairFault]:
    """Branches without a partner, partners of one role, and places where control falls in one direction only."""
    broken = False
    for pc, cell in enumerate(cells):
        if cell.is_branch:
            found = _pair_fault(cells, roles, pc)
            if found is not None:
                broken = True
                yield found
    if not broken:
        yield from _falls(cells, roles)


def _pair_fault(cells: Sequence[Cell], roles: dict[int, str], pc: int) -> PairFault | None:
    cell = cells[pc]
    other = cells[cell.target]
    if roles[pc] == "call":
        return None
    if roles[pc] == "uncall":
        if other.mnemonic == "SWAPBR" or (other.mnemonic in ("BRA", "RBRA") and other.target == pc):
            return None
        hint = "Let RBRA name the SWAPBR of a subroutine, or a BRA or RBRA that names it."
        return PairFault("RG0207", pc, f"RBRA reaches `{other.mnemonic}`, which does not end its jump", hint)
    if not other.is_branch:
        hint = "Put at the target a branch that names this one, so that BR is zero again after the jump."
        if cell.mnemonic != "BRA" and other.mnemonic == "SWAPBR":
            hint = "Put the call in an `if`: a conditional branch around a BRA."
        elif other.mnemonic == "FINISH":
            hint = "Put a branch that names this one before the FINISH, and jump there."
        return PairFault("RG0201", pc, f"{cell.mnemonic} reaches `{other.mnemonic}`, which is no branch", hint)
    if other.target != pc:
        hint = "Give each branch a partner of its own: two branches that name each other."
        return PairFault("RG0202", pc, f"the {other.mnemonic} at address {cell.target} does not name this branch", hint)
    if cell.role not in (None, roles[pc]):
        hint = "Write `; goto` on the branch that control leaves by, and `; from` on the other, or leave both out."
        return PairFault(
            "RG0202", pc, f"this branch and its partner at address {cell.target} are both `{cell.role}`", hint
        )
    return None


def _falls(cells: Sequence[Cell], roles: dict[int, str]) -> Iterator[PairFault]:
    """Control leaves a cell downward iff it can enter the next from above."""

    def enters(pc: int) -> bool:
        return cells[pc].mnemonic != "DATA" and not (cells[pc].mnemonic == "BRA" and roles[pc] == "from")

    jump = _begins_with_jump(cells)
    landing = cells[0].target if jump else -1
    hint = "Jump around with a pair of branches; after a BRA that jumps, a FINISH or DATA comes a BRA that is jumped to, or DATA."
    unreached = set(_unreached(cells, roles))
    for pc in range(len(cells) + 1):
        if pc in unreached:
            continue
        above = pc > 0 and _leaves(cells, roles, pc - 1)
        below = pc < len(cells) and enters(pc)
        if pc < len(cells) and cells[pc].mnemonic == "START":
            below = above and pc - 1 == landing
        if jump and pc == 0:
            continue
        if above and not below:
            into = f"falls into `{cells[pc].mnemonic}`" if pc < len(cells) else "runs off the end"
            yield PairFault("RG0206", pc - 1, f"after `{cells[pc - 1].mnemonic}` control {into}", hint)
        elif below and not above:
            into = f"backs into `{cells[pc - 1].mnemonic}`" if pc else "backs off the beginning"
            message = f"running backward from `{cells[pc].mnemonic}` control {into}"
            yield PairFault("RG0206", pc, message, hint)


def _unreached(cells: Sequence[Cell], roles: dict[int, str]) -> Iterator[int]:
    """The ends of plain instructions between a cell that control does not leave downward and a BRA that is jumped to."""
    for pc, cell in enumerate(cells):
        if cell.mnemonic == "BRA" and roles[pc] == "from":
            first = pc
            while first and cells[first - 1].is_plain:
                first -= 1
            if 0 < first < pc and not _leaves(cells, roles, first - 1):
                yield from (first, pc)
