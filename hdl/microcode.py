"""The microcode, from the schedules of the instruction table.

    dispatch memory   (opcode, DIR, D, ra = rb) → the facts that are needed before execution, and the first row
    rows              one for each cycle of execution and of writes; equal microprograms are stored once

The hardware stores both in fewer bits (`control_store.py`). The fields of a row are in `microword.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, TypeVar

from amaranth.lib import data
from retrograd.hdl.microword import (
    MICROWORD,
    PROMPT,
    PROMPTS,
    THREAD_CONSTANTS,
    TRAPS,
    WIDE_PROMPT,
    WIDE_PROMPTS,
    WRITERS,
    Beside,
    Division,
    Field,
    Operation,
    Read,
    Select,
    TrapCause,
    Writer,
    pack,
    turn_layout,
    wide_microword,
    wide_select,
)
from retrograd.hdl.parameters import Parameters
from retrograd.isa.derivatives import cotangent_step
from retrograd.isa.entries import NOT_JUMPING, REGISTER_FIELDS, Entry, Guards, Opcode, bar
from retrograd.isa.expr import Expr, half
from retrograd.isa.microarchitecture import rows as isa_rows
from retrograd.isa.microarchitecture.micro_operations import (
    TEMPORARIES,
    Flag,
    GuardCheck,
    Input,
    Literal,
    MicroOperation,
    Passing,
    Schedule,
    Source,
    Temporary,
    Unit,
    UnitResult,
    unit_of,
)
from retrograd.isa.microarchitecture.schedule import (
    Microprogram,
    guards,
    is_truth_word,
    microprograms,
    row_program,
    schedule,
    trees,
)
from retrograd.isa.words import Format

# -----------------------------------------------------------------------------
# Dispatch: the entries of the dispatch memory.
#
# The address of an entry is made of the opcode, DIR, D, and whether ra and rb are one register.

#: bits of an address in the microcode memory
ADDRESS_BITS = 14

#: A trap that is known before execution: the instruction always traps, or always traps on a strict machine.
FORBIDDEN = data.StructLayout({"valid": 1, "order": 4, "trap": TrapCause, "overflow": 1, "strict": 1})

#: The facts that are needed before execution, and the first row.
HEAD = data.StructLayout(
    {
        # the opcode exists, and the machine has the units for it
        "legal": 1,
        "halts": 1,
        "turns": 1,
        # the instruction addresses a memory word
        "memory": 1,
        # BR must be 0
        "settled": 1,
        # the inverse has the opposite constant; and the inverse is executed here
        "negatable": 1,
        "negates": 1,
        # the instruction erases a word
        "erases": 1,
        # the fields of the encoding that the opcode uses: rd, ra, rb, imm
        "used": 4,
        # pairs of registers that must differ: rd and ra, rd and rb, ra and rb
        "distinct": 3,
        "forbidden": FORBIDDEN,
        # selections of the operands of the first row
        "x": 5,
        "y": 5,
        "z": 5,
        "word": MICROWORD,
    }
)


#: Lines of the selections of an operand in the first row of an overlapped core: latches, and from WIDE_PROMPT on
#: constants.
FIRST = WIDE_PROMPT + WIDE_PROMPTS


def wide_head(slots: int) -> data.StructLayout:
    """The head of an overlapped core: the selections of all slots, and the facts that the front end needs."""
    fields = {str(name): HEAD[name].shape for name, _ in HEAD if name not in ("x", "y", "z", "word")}
    # the next instruction is known only after this one; BR is 0 after this instruction; the new BR is the constant,
    # or a slot chooses it in
    # the last cycle of execution; cycles in addition to execution and writes
    fields |= {"redirects": 1, "lands": 1, "leaps": 1, "chooses": 1, "waiting": 3}
    fields |= {first_selection(port, k): FIRST for k in range(slots) for port in "xyz"}
    return data.StructLayout({**fields, "word": wide_microword(slots)})


def entry_of(head: data.StructLayout) -> data.StructLayout:
    """An entry: the head, then the address of the second row."""
    return data.StructLayout({**{str(name): field.shape for name, field in head}, "start": ADDRESS_BITS})


DISPATCH = entry_of(HEAD)


def first_selection(port: str, slot: int) -> str:
    """The field of the selection of a slot's operand in the first row."""
    return f"{port}{slot or ''}"


#: bits of the address of an entry
DISPATCH_BITS = 11


def dispatch_address(code: int, backward: bool, lifted: bool, same: bool) -> int:
    """Address of an opcode's entry in the dispatch memory: 8 bits of opcode, then DIR, D, and ra = rb."""
    return code | backward << 8 | lifted << 9 | same << 10


# -----------------------------------------------------------------------------
# Rows: the microprograms of all opcodes.

_LATCHES = {"d": Select.D, "a": Select.A, "b": Select.B, "m": Select.M, "br": Select.BR, "imm": Select.IMM}
_LATCHES |= {bar("d"): Select.D_BAR, bar("a"): Select.A_BAR, bar("b"): Select.B_BAR, bar("m"): Select.M_BAR}
_FIELDS = {"rd": Field.RD, "ra": Field.RA, "rb": Field.RB}
_PLACES = {register: place for place, register in REGISTER_FIELDS.items()}
_PAIRS = (("rd", "ra"), ("rd", "rb"), ("ra", "rb"))

Row = dict[str, Any]


@dataclass
class Selections:
    """The numbers of the words from which an operand of a slot is selected: in first rows, in later rows, and as a word to be written."""

    first: set[int] = field(default_factory=set)
    later: set[int] = field(default_factory=set)
    written: set[int] = field(default_factory=set)


T = TypeVar("T")


@dataclass
class Microcode:
    """The contents of the memories, and the lists that indices in microwords refer to.

    Raises ValueError for a table that the microword cannot express.
    """

    parameters: Parameters
    dispatch: list[int] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    #: constants in the operand file, from address TEMPORARIES on
    constants: list[int] = field(default_factory=list)
    #: constants that the first cycle of an execution needs, before the operand file can be read
    prompts: list[int] = field(default_factory=list)
    tables: list[tuple[int, ...]] = field(default_factory=list)
    #: shifts of products
    products: list[int] = field(default_factory=list)
    #: the shifts of products for which a guard tests whether the word fits
    tested: set[int] = field(default_factory=set)
    #: rounding constants of products; the first is 0, which floors
    halves: list[int] = field(default_factory=lambda: [0])
    #: operations of the divider
    divisions: list[Division] = field(default_factory=list)
    #: shifts of quotients
    quotients: list[int] = field(default_factory=list)

    #: port and slot, such as "x0" -> its selections; the hardware has only these
    selections: dict[str, Selections] = field(default_factory=dict)

    #: layouts of the two memories
    microword: data.StructLayout = MICROWORD
    entry: data.StructLayout = DISPATCH
    #: the entry without the address of its rows
    head: data.StructLayout = HEAD

    def __post_init__(self) -> None:
        p = self.parameters
        self._units = units = p.microarchitecture
        self._slots = len(units.slots)
        #: the slot that chooses the new BR of a jump: the last that has selections
        self.chooser = max(k for k in range(self._slots) if units.able(k, "select"))
        if units.overlapped:
            self.microword, self.head = wide_microword(self._slots), wide_head(self._slots)
            self.entry = entry_of(self.head)
        prompts = WIDE_PROMPTS if units.overlapped else PROMPTS
        self.selections = {f"{port}{slot}": Selections() for slot in range(self._slots) for port in "xyz"}
        self.dispatch = [0] * (1 << DISPATCH_BITS)
        starts: dict[tuple[int, ...], int] = {}
        for opcode in p.table:
            for backward in (False, True):
                executed = p.table.inverse(opcode) if backward else opcode
                for lifted, same in ((False, False), (False, True), (True, False), (True, True)):
                    found = self._microprogram(executed, lifted, same)
                    if not {operation.unit for operation in found.schedule.operations} <= p.units:
                        continue
                    selections, (first, *rest) = self._program(executed, found, lifted, same)
                    body = tuple(pack(self.microword, row) for row in rest)
                    if body not in starts:
                        starts[body] = len(self.rows)
                        self.rows += body
                    at = dispatch_address(opcode.code, backward, lifted, same)
                    head = self._head(opcode, executed, lifted, same) | {
                        "negates": backward and opcode.negates_immediate
                    }
                    if units.overlapped:
                        head |= {"redirects": found.redirects, "lands": found.lands, "waiting": found.waiting}
                        head |= {"leaps": found.leaps is not None, "chooses": found.leaps not in (None, -1)}
                        if found.leaps not in (None, -1, self.chooser):
                            raise ValueError(f"{executed.name}: a jump that is not chosen in slot {self.chooser}")
                    self.dispatch[at] = pack(self.entry, head | selections | {"start": starts[body], "word": first})
        if len(self.rows) > 1 << ADDRESS_BITS:
            raise ValueError(f"{len(self.rows)} rows of microcode do not fit")
        if len(self.prompts) > prompts:
            raise ValueError(f"{len(self.prompts)} constants are wanted at once")

    def _microprogram(self, executed: Opcode, lifted: bool, same: bool) -> Microprogram:
        w = self.parameters.format
        return microprograms(executed.entry, w, lifted, lifted and same, self._units)[executed.name]

    def _head(self, opcode: Opcode, executed: Opcode, lifted: bool, same: bool) -> Row:
        """The facts that are needed before execution. `opcode` is the opcode in the code; `executed` is it or its inverse."""
        w = self.parameters.format
        implied = executed.guards(w)
        return {
            "legal": 1,
            "negatable": opcode.negates_immediate,
            "halts": executed.halts,
            "turns": executed.turns,
            "memory": self._microprogram(executed, lifted, same).memory,
            "settled": NOT_JUMPING in implied,
            "erases": executed.erased_words,
            "used": used_fields(opcode),
            "distinct": distinct_pairs(opcode),
            "forbidden": self._forbidden(executed, lifted, same),
        }

    def _forbidden(self, executed: Opcode, lifted: bool, same: bool) -> Row:
        w = self.parameters.format
        return forbidden(executed, w, guards(executed, w, lifted, same), self._checks(executed, lifted, same))

    def _checks(self, executed: Opcode, lifted: bool, same: bool) -> tuple[GuardCheck, ...]:
        return self._microprogram(executed, lifted, same).schedule.checks

    # ---------------------------------------------------------------- rows

    def _program(self, executed: Opcode, found: Microprogram, lifted: bool, same: bool) -> tuple[Row, list[Row]]:
        """The selections of the first row, and the rows: one for each cycle of execution, then one for each write."""
        w = self.parameters.format
        rows: list[Row] = [{} for _ in range(found.execute + len(found.write_cycles))]
        flags = [(c.predicate, c.cycle) for c in found.schedule.checks if isinstance(c.predicate, Flag)]
        flagged = {(flag.slot, cycle) for flag, cycle in flags if flag.unit}
        for operation in found.schedule.operations:
            _slot(rows[operation.cycle], operation.slot).update(self._issue(operation))
            for result, shift in self._results(operation):
                row = _slot(rows[result.ready - 1], operation.slot)
                if operation.unit in (Unit.MULTIPLIER, Unit.DIVIDER):
                    row["shift"] = shift
                if result.register is not None:
                    temporary = result.register % TEMPORARIES
                    # A chained sum leaves with the product.
                    writer = Unit.MULTIPLIER if Passing() in operation.operands else operation.unit
                    row |= {"write": 1, "writer": WRITERS[writer], "temporary": temporary}
                if operation.unit is Unit.MULTIPLIER and (operation.slot, result.ready) in flagged:
                    self.tested.add(self.products[shift])
        of = guards(executed, w, lifted, same)
        for check in found.schedule.checks:
            match check.predicate:
                case Temporary(number):
                    row = _slot(rows[check.cycle - 1], number // TEMPORARIES)
                    if row.get("temporary") != number % TEMPORARIES:
                        raise ValueError(f"{executed.name}: a predicate that is no result")
                    values = _written(found.schedule, number, check.cycle)
                    if self._units.overlapped and not (values and all(map(is_truth_word, values))):
                        raise ValueError(f"{executed.name}: a predicate that is neither 0 nor 1")
                    self._check(executed, row, "result", check.guard, of)
                case Flag(slot, unit):
                    row = _slot(rows[check.cycle - 1], slot)
                    self._check(executed, row, "unit" if unit else "sum", check.guard, of)
                case Literal():
                    pass
                case Input() | Passing():
                    raise ValueError(f"{executed.name}: a guard on a word as it is")
        for row, slot in product(rows, range(self._slots)):
            fields = _slot(row, slot)
            begun = "operation" in fields and unit_of(fields["operation"].name.lower())
            if begun is Unit.LOGIC and fields.get("writer", Writer.LOGIC) is not Writer.LOGIC:
                raise ValueError(f"{executed.name}: two units have a result in one slot")
        self._writes(executed, found, lifted, rows)
        return self._place(rows), rows

    def _check(self, executed: Opcode, row: Row, kind: str, order: int, of: Guards) -> None:
        """Check a predicate of a guard: the result of a slot, or a flag."""
        kind = kind if self._units.overlapped else "valid"
        first: Row = row.setdefault("check", _trap_of(of, order) | {kind: 1})
        if all(_trap_of(of, k) == _trap_of(of, order) | {"order": k} for k in range(first["order"], order)):
            # The trap is the same for each of these guards.
            first[kind] = 1
        elif kind not in first or first["overflow"]:
            # One word may be the predicate of two guards. The first guard is reported, so it must trap in every mode.
            raise ValueError(f"{executed.name}: two guards at once")

    def _issue(self, m: MicroOperation) -> Row:
        if Passing() in m.operands:
            return {"chain": 1, "difference": m.operation == "sub", "z": m.operands[0]}
        row: Row = {"operation": Operation[m.operation.upper()], **dict(zip("xyz", m.operands, strict=False))}
        params = [result.node.param for result in m.results]
        shifts = [s for s in params if isinstance(s, int)]
        match m.operation:
            case "table":
                assert isinstance(params[0], tuple)
                row["parameter"] = _index(self.tables, params[0])
            case "mulround":
                row["parameter"] = _index(self.halves, half(shifts[0], self.parameters.format))
            case "divshift":
                row["parameter"] = _index(self.divisions, Division(False, max(0, *shifts)))
            case "divround":
                row["parameter"] = _index(self.divisions, Division(False, self._places(shifts[0]), rounded=True))
            case "sqrtround":
                row["parameter"] = _index(self.divisions, Division(True, shifts[0], rounded=True))
        return row

    def _results(self, m: MicroOperation) -> Iterator[tuple[UnitResult, int]]:
        """Each result with the index of its shift."""
        shifts = [s for s in (result.node.param for result in m.results) if isinstance(s, int)]
        for result in m.results:
            shift = result.node.param if isinstance(result.node.param, int) else 0
            match m.unit:
                case Unit.MULTIPLIER:
                    yield result, _index(self.products, shift)
                case Unit.DIVIDER:
                    most = max(0, *shifts) if m.operation == "divshift" else self._places(shift)
                    yield result, _index(self.quotients, 0 if m.operation == "sqrtround" else most - shift)
                case Unit.LOGIC | Unit.ROM:
                    yield result, 0

    def _places(self, shift: int) -> int:
        """The place at which a quotient is rounded."""
        return shift % self.parameters.format.width

    def _writes(self, executed: Opcode, found: Microprogram, lifted: bool, rows: list[Row]) -> None:
        after = dict(found.schedule.after)
        cycles = found.write_cycles
        for k, (word, shadow) in enumerate(cycles):
            row = rows[found.execute + k]
            commit: Row = {"first": k == 0, "last": k == len(cycles) - 1}
            for port, register, what in (("x", word, "word"), ("y", shadow, "cotangent")):
                if register is not None:
                    name = _PLACES[register] if what == "word" else bar(_PLACES[register])
                    named = "shadow" if what == "cotangent" and self._units.overlapped else "field"
                    commit |= {named: _FIELDS[register], what: name in after}
                    if name in after:
                        row[port] = after.pop(name)
            if k == 0:
                drops = cotangent_step(executed, self.parameters.format, False).drops if lifted else ()
                if drops not in ((), (bar("d"),)):
                    raise ValueError(f"{executed.name}: frees {drops}")
                commit["drop"] = bool(drops)
                row |= _elsewhere(executed, after, commit)
            row["commit"] = commit
            if commit["last"] and self._units.overlapped:
                fields = {name: commit[name] for name in ("field", "shadow") if name in commit}
                stores = commit.get("memory") or commit.get("memory_cotangent") or 0
                rows[found.execute + k - 1]["ending"] = {"last": 1, **fields, "stores": stores}
        if after:
            raise ValueError(f"{executed.name}: nothing writes {sorted(after)}")

    def _place(self, rows: Sequence[Row]) -> Row:
        """Set the selection of each operand in the row before, and return the selections of the first row."""
        first: Row = {}
        #: temporary -> first cycle in which it can be read
        ready: dict[int, int] = {}
        for cycle, row in enumerate(rows):
            for slot in range(self._slots):
                for port in "xyz":
                    source = _slot(row, slot).get(port)
                    _slot(row, slot)[port] = {}
                    if source is not None:
                        select, ahead = self._select(source, cycle, ready)
                        found = self.selections[f"{port}{slot}"]
                        if cycle == 0:
                            first[first_selection(port, slot)] = 1 << select if self._units.overlapped else select
                            found.first.add(select)
                        else:
                            (found.written if "commit" in row else found.later).add(select)
                            _slot(rows[cycle - 1], slot)[port] = {"select": select, "ahead": ahead}
            for slot in range(self._slots):
                if _slot(row, slot).get("write"):
                    ready[slot * TEMPORARIES + _slot(row, slot)["temporary"]] = cycle + 1
        return first

    def _select(self, source: Source, cycle: int, ready: Mapping[int, int]) -> tuple[int, int]:
        """The selection of an operand, and its address in the operand file."""
        match source:
            case Literal(word) if cycle == 0:
                return (WIDE_PROMPT if self._units.overlapped else PROMPT) + _index(self.prompts, word), 0
            case Literal(word):
                return Select.FILE.value, TEMPORARIES + _index(self.constants, word)
            case Input("imm", True):
                return Select.NEGATED.value, 0
            case Input(name):
                return _LATCHES[name].value, 0
            case Temporary(number):
                slot, ahead = number // TEMPORARIES, 0
                match cycle - ready[number]:
                    case 0:
                        select = Select.LAST
                    case 1:
                        select = Select.PREVIOUS
                    case 2 if self._units.overlapped:
                        select = Select.EARLIER
                    case _:
                        select, ahead = Select.FILE, number % TEMPORARIES
                return wide_select(select, slot, self._slots), ahead
            case Passing():
                raise ValueError("a product that is passed has no place")


def _written(schedule: Schedule, register: int, ready: int) -> list[Expr]:
    """The value of the result that is written into a temporary."""
    results = (result for operation in schedule.operations for result in operation.results)
    return [result.node for result in results if (result.register, result.ready) == (register, ready)]


def _slot(row: Row, slot: int) -> Row:
    """The fields of a slot in a row."""
    found: Row = row if slot == 0 else row.setdefault(f"slot{slot}", {})
    return found


def used_fields(opcode: Opcode) -> int:
    """The fields of the encoding that the opcode uses, a bit each: rd, ra, rb, imm."""
    return sum(1 << i for i, name in enumerate(("rd", "ra", "rb", "imm")) if name in opcode.fields)


def distinct_pairs(opcode: Opcode) -> int:
    """The pairs of registers that must differ, a bit each: rd and ra, rd and rb, ra and rb."""
    return sum(1 << i for i, (x, y) in enumerate(_PAIRS) if {(x, y), (y, x)} & {*opcode.distinct})


def forbidden(executed: Opcode, w: Format, known: Guards, checks: Iterable[GuardCheck]) -> Row:
    """The first guard that fails for all words."""
    strict = [g for g in executed.guards(w) if g.mode == "strict"]
    found: list[Row] = [{"order": 0, "trap": TRAPS[g.code], "strict": 1} for g in strict]
    found += [_trap_of(known, check.guard) for check in checks if check.predicate == Literal(0)]
    if not found:
        return {}
    # A guard that fails in some modes only must not hide another one.
    if len(found) > 1 and any(found[0].get(mode) for mode in ("overflow", "strict")):
        raise ValueError(f"{executed.name}: two guards that always fail")
    return found[0] | {"valid": 1}


def _trap_of(guards: Guards, order: int) -> Row:
    """The trap of the guard at this place in the order."""
    guard = guards[order]
    return {"order": order, "trap": TRAPS[guard.code], "overflow": guard.mode == "overflow"}


def _elsewhere(executed: Opcode, after: dict[str, Source], commit: Row) -> Row:
    """Changes of memory and BR in the cycle that writes the first register: one word through z, or an exchange of two words."""
    row: Row = {}
    if "br" in after:
        commit["branch"] = 1
        row["z"] = after.pop("br")
    if "m" in after:
        commit["memory"] = 1
        row["z"] = after.pop("m")
    if bar("m") in after:
        commit["memory_cotangent"] = 1
        source = after.pop(bar("m"))
        if "z" not in row:
            row["z"] = source
        elif source != Input(bar("d")) or "branch" in commit:
            raise ValueError(f"{executed.name}: too many words to write at once")
    return row


def _index(known: list[T], item: T) -> int:
    """The index of an item; a new item is appended."""
    if item not in known:
        known.append(item)
    return known.index(item)


# -----------------------------------------------------------------------------
# Rows of a core whose threads take turns.

#: bits of the address of a row
ROW_BITS = 14

#: An entry of the dispatch memory: the first row, and what a legal encoding of the opcode may have, as in HEAD.
ROW_ENTRY = data.StructLayout({"row": ROW_BITS, "legal": 1, "used": 4, "distinct": 3, "negatable": 1, "negates": 1})

_READS = {"d": Read.D, "a": Read.A, "b": Read.B, bar("d"): Read.D_BAR, bar("a"): Read.A_BAR, bar("b"): Read.B_BAR}
_BESIDE = {"m": Beside.M, bar("m"): Beside.M_BAR, "br": Beside.BR, "imm": Beside.IMM}
_TARGETS = {"m": "memory", bar("m"): "memory_cotangent", "br": "branch"}


class RowMicrocode:
    """The contents of the memories of a core whose threads take turns. Row 0 fetches an instruction and does nothing else.

    Microprograms with equal ends share them. Raises ValueError for a table that rows cannot express.
    """

    def __init__(self, parameters: Parameters) -> None:
        self.parameters = p = parameters
        #: see `Microcode`
        self.constants: list[int] = []
        self.tables: list[tuple[int, ...]] = []
        self.products: list[int] = []
        self.tested: set[int] = set()
        self.halves: list[int] = [0]
        self.divisions: list[Division] = []
        self.quotients: list[int] = []
        self.layout = turn_layout(p.slots)
        heads: dict[int, tuple[tuple[int, ...], Row]] = {}
        for opcode in p.table:
            for backward in (False, True):
                executed = p.table.inverse(opcode) if backward else opcode
                for lifted, same in ((False, False), (False, True), (True, False), (True, True)):
                    rows = row_program(executed, p.format, lifted, lifted and same, p.microarchitecture)
                    if not {unit_of(row.operation) for row in rows if row.operation} <= p.units:
                        continue
                    head = {
                        "legal": 1,
                        "used": used_fields(opcode),
                        "distinct": distinct_pairs(opcode),
                        "negatable": opcode.negates_immediate,
                        "negates": backward and opcode.negates_immediate,
                    }
                    program = self._program(executed, rows, lifted, same)
                    heads[dispatch_address(opcode.code, backward, lifted, same)] = program, head
        self.rows = [pack(self.layout, {"last": 1})]
        starts: dict[tuple[int, ...], int] = {}
        for program in sorted({program for program, _ in heads.values()}, key=lambda rows: (-len(rows), rows)):
            if program not in starts:
                starts |= {program[k:]: len(self.rows) + k for k in range(len(program))}
                self.rows += program
        self.dispatch = [0] * (1 << DISPATCH_BITS)
        for at, (program, head) in heads.items():
            self.dispatch[at] = pack(ROW_ENTRY, head | {"row": starts[program]})
        if len(self.rows) > 1 << ROW_BITS:
            raise ValueError(f"{len(self.rows)} rows do not fit")
        if len(self.constants) > THREAD_CONSTANTS:
            raise ValueError(f"{len(self.constants)} constants do not fit")

    def _program(self, executed: Opcode, rows: Sequence[isa_rows.Row], lifted: bool, same: bool) -> tuple[int, ...]:
        w = self.parameters.format
        known = guards(executed, w, lifted, same)
        fields = [self._row(executed, row, known) for row in rows]
        units = self.parameters.microarchitecture
        checks = schedule(*trees(executed, w, lifted, lifted and same, units), w, units).checks
        fields[0] |= {
            "settled": NOT_JUMPING in executed.guards(w),
            "halts": executed.halts,
            "forbidden": forbidden(executed, w, known, checks),
        }
        fields[-1]["last"] = 1
        for row, found in zip(rows, fields, strict=True):
            if row.decides:
                found["erases"] = executed.erased_words
        return tuple(pack(self.layout, row) for row in fields)

    def _row(self, executed: Opcode, row: isa_rows.Row, known: Guards) -> Row:
        out: Row = {port: self._operand(x) for port, x in zip("xyz", row.operands, strict=False)}
        if row.operation:
            assert row.node is not None or row.operation in ("ne", "or", "add")
            out |= {"operation": Operation[row.operation.upper()], "divides": unit_of(row.operation) is Unit.DIVIDER}
            out["parameter"] = self._parameter(row)
            out |= {"chain": bool(row.chain), "difference": row.chain == "sub"}
        if row.writer is not None:
            out |= {"writer": WRITERS[row.writer], "shift": self._shift(row)}
        match row.temporary, row.place:
            case None, None:
                pass
            case number, None:
                out |= {"write": 1, "target": {"kind": Read.FILE, "number": number}}
            case _, str(place):
                if place in _TARGETS:
                    out[_TARGETS[place]] = 1
                else:
                    out |= {"write": 1, "target": {"kind": _READS[place]}}
                if place != "br":
                    out["z"] = self._operand(Input(place))
        for check in row.checks:
            self._check(executed, out, check, known)
            if check.kind == "unit" and row.writer is Unit.MULTIPLIER:
                self.tested.add(self.products[out["shift"]])
        if row.second:
            out["second"] = second = self._second(executed, row.second, known)
            orders = [found["check"]["order"] for found in (out, second) if "check" in found]
            second["before"] = len(orders) > 1 and orders[1] < orders[0]
        names = ("addresses", "decides", "drops", "lands", "turns")
        return out | {name: getattr(row, name) for name in names}

    def _second(self, executed: Opcode, row: isa_rows.Row, known: Guards) -> Row:
        """The fields of the second slot."""
        x, y = row.operands
        out: Row = {"x": self._operand(x), "y": self._operand(y), "operation": Operation[row.operation.upper()]}
        out |= {"write": 1, "target": {"kind": Read.FILE, "number": row.temporary}}
        if row.place is not None:
            out["target"] = {"kind": _READS[row.place]}
            if x == Literal(0):
                out |= {"operation": Operation.NONE, "copies": 1, "x": self._operand(Input(row.place))}
        for check in row.checks:
            self._check(executed, out, check, known)
        return out

    def _operand(self, source: Source) -> Row:
        match source:
            case Literal(word):
                return {"kind": Read.FILE, "number": THREAD_CONSTANTS + _index(self.constants, word)}
            case Temporary(number):
                return {"kind": Read.FILE, "number": number}
            case Input("imm", True):
                return {"kind": Read.BESIDE, "number": 1 << Beside.NEGATED.value}
            case Input(name) if name in _BESIDE:
                return {"kind": Read.BESIDE, "number": 1 << _BESIDE[name].value}
            case Input(name):
                return {"kind": _READS[name]}
            case Passing():
                raise ValueError("a product that is passed has no place")

    def _parameter(self, row: isa_rows.Row) -> int:
        """Index of the table, of the division or of the rounding constant."""
        w, param = self.parameters.format, row.node.param if row.node is not None else None
        match row.operation, param:
            case "table", tuple():
                return _index(self.tables, param)
            case "mulround", int():
                return _index(self.halves, half(param, w))
            case (("divshift" | "divround" | "sqrtround"), int()):
                return _index(self.divisions, self._division(row.operation, param))
        return 0

    def _division(self, operation: str, param: int) -> Division:
        match operation:
            case "divshift":
                return Division(False, max(0, param))
            case "divround":
                return Division(False, param % self.parameters.width, rounded=True)
        return Division(True, param, rounded=True)

    def _shift(self, row: isa_rows.Row) -> int:
        """Index of the shift of a product or quotient."""
        if row.writer is Unit.MULTIPLIER:
            assert row.node is not None
            assert isinstance(row.node.param, int)
            return _index(self.products, row.node.param)
        if row.writer is Unit.DIVIDER:
            assert row.written is not None
            param = row.written.param
            assert isinstance(param, int)
            root = row.written.op == "sqrtround"
            return _index(self.quotients, 0 if root else self._division(row.written.op, param).s - param)
        return 0

    def _check(self, executed: Opcode, out: Row, check: isa_rows.RowCheck, known: Guards) -> None:
        first: Row = out.setdefault("check", _trap_of(known, check.guard))
        between = range(min(first["order"], check.guard), max(first["order"], check.guard) + 1)
        if any(_trap_of(known, k) | {"order": 0} != _trap_of(known, check.guard) | {"order": 0} for k in between):
            # The trap must be the same for each of these guards.
            raise ValueError(f"{executed.name}: two guards at once")
        first |= {check.kind: 1, "order": between[0]}


_made: dict[tuple[Format, frozenset[Unit], int, tuple[Entry, ...], str], Microcode] = {}


def microcode_for(parameters: Parameters) -> Microcode:
    """The microcode of a co-processor, made once for a format, units, and a table with the entries that were added to it. It must not be changed."""
    table = parameters.table
    key = parameters.format, parameters.units, id(table), table.own, parameters.core
    if key not in _made:
        _made[key] = Microcode(parameters)  # a reference keeps the table alive, so that no other table gets its id
    return _made[key]
