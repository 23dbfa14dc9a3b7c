"""Fold: the reversible IR of a program as gates.

Loops are unrolled, calls are inlined, and addresses are computed, where the bits that decide are constants; each word is a tuple
of lines and constants, with the condition under which the constants hold. Operations on lines become gates:

    if test: s else: t fi post     e := test;  s where e;  t where not e;  e ⊕= post, which leaves 0
    within c do s                  the gates of c;  s;  the gates of c in reverse order
    d ⊕= m[x]                      one line for each address, of which one is 1; the word that it chooses
    m[x] ⊕= v                      the word that is chosen changes places with a word of zeros, is updated, and changes back

A `Within` that computes temporaries for one update becomes a single update by forward substitution. The schedule of the strategy
`pebble` then decides which values are held, and which are computed again:

    within t += a; u += t · b do y += u   →   y += (0 + (0 + a) · b)

A statement under a condition computes its values in any case, and changes its places where the condition holds.
Trap: for arguments for which the program traps, the netlist is a permutation like any other, and its outputs mean nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple, NoReturn

from retrograd.compiler.ir import statements as ir
from retrograd.compiler.ir.effects import AccessAnalysis, bound, locals_left, of_test, union
from retrograd.hdl.reversible.builder import FALSE, TRUE, Bit, Bits, Builder, constant_bits
from retrograd.hdl.reversible.circuit import Circuit
from retrograd.hdl.reversible.lowering import EffectLowering, Strategy, lower_operation, places_of
from retrograd.isa.diagnostics import Diagnostic, InputError, Span
from retrograd.isa.effects import UPDATE_OPERATORS, Effects, Erase, Exchange, Permute, Unerase, Update, transition
from retrograd.isa.effects import written as written_places
from retrograd.isa.expr import ZERO, Expr, const, evaluate, place, substitute
from retrograd.isa.words import Format


class Word(NamedTuple):
    """The bits of a variable or of a word in memory, lowest first.

    `owned`: its lines are its own, and may be changed; else they belong to other words, or to the computation that made them.
    `control`: a constant bit b stands for `b and control`, since the variable lives in a branch that is taken where `control` is 1.
    """

    bits: tuple[Bit, ...]
    owned: bool = True
    control: Bit = TRUE

    @property
    def constant(self) -> int | None:
        """The number, where no bit is a line."""
        if any(bit >= 0 for bit in self.bits):
            return None
        return sum(1 << i for i, bit in enumerate(self.bits) if bit == TRUE)

    @property
    def is_zero(self) -> bool:
        return all(bit == FALSE for bit in self.bits)

    def bounds(self, signed: bool) -> tuple[int, int]:
        """The least and the greatest number that the constant bits allow."""
        low = high = 0
        for at, bit in enumerate(self.bits):
            weight = -(1 << at) if signed and at == len(self.bits) - 1 else 1 << at
            low += weight if bit == TRUE or (bit >= 0 and weight < 0) else 0
            high += weight if bit == TRUE or (bit >= 0 and weight > 0) else 0
        return low, high

    def lowest(self, count: int) -> Word:
        """The lowest bits of the word."""
        return self._replace(bits=self.bits[:count])

    def on_lines(self, b: Builder, left: Collection[int] = ()) -> Word:
        """The same word with a line of its own for each bit; bits that are 0 may be `left`, by their places."""
        if self.owned and all(bit >= 0 for bit in self.bits):
            return self
        out = []
        for k, bit in enumerate(self.bits):
            if (bit >= 0 and self.owned) or k in left:
                out.append(bit)
            else:
                (line,) = b.keep()
                b.flip(line, bit, self.control)
                out.append(line)
        return Word(tuple(out), True, self.control)


def constant(number: int, width: int, control: Bit = TRUE) -> Word:
    """A word without lines."""
    return Word(tuple(constant_bits(number, width)), True, control)


class Cell:
    """A place that holds a word: a variable, or a word in memory."""

    __slots__ = ("word",)

    def __init__(self, word: Word) -> None:
        self.word = word


def one_hot(b: Builder, index: Bits, count: int) -> list[Bit]:
    """Bits of which number `index` is 1, if that is below `count`: AND gates in a tree. Index bits are lowest first."""
    chosen: list[tuple[Bit, int]] = [(TRUE, 0)]
    for at in reversed(range(len(index))):
        split: list[tuple[Bit, int]] = []
        for line, first in chosen:
            upper_first = first + (1 << at)
            bit = index[at]
            if bit == FALSE or upper_first >= count:
                split.append((line, first))
            elif bit == TRUE:
                split.append((line, upper_first))
            else:
                (upper,) = b.masked([bit], line) if line >= 0 else b.copy([bit])
                (lower,) = b.copy([line])
                b.flip(lower, upper)
                split += [(lower, first), (upper, upper_first)]
        chosen = split
    out: list[Bit] = [FALSE] * count
    for line, number in chosen:
        if number < count:
            out[number] = line
    return out


# ---------------------------------------------------------------------- forward substitution of temporaries


class _Merge:
    """Trees over the cells that live outside of the statement."""

    def __init__(self, w: Format, cell: Callable[[ir.Operand | None], Cell], at: Callable[[int], Cell]) -> None:
        self.w, self._cell, self._at = w, cell, at
        self.temporaries: dict[ir.Var, Expr] = {}
        self.cells: dict[str, Cell] = {}

    def _read(self, name: str, cell: Cell) -> Expr:
        self.cells[name] = cell
        return place(name)

    def _operand(self, operand: ir.Operand | None) -> Expr:
        if not isinstance(operand, ir.Var):
            return const(0 if operand is None else operand.word)
        known = self.temporaries.get(operand)
        return self._read(f"v{id(operand)}", self._cell(operand)) if known is None else known

    def update_of(self, op: ir.Op) -> Update | None:
        """The instruction as an update of its register by such a tree, or None."""
        effects = op.opcode.effects(self.w)
        if len(effects) != 1 or not isinstance(effects[0], Update) or effects[0].place != "d":
            return None
        update = effects[0]
        given = {"imm": const(op.imm), "a": self._operand(op.a), "b": self._operand(op.b)}
        if "m" in update.value.inputs:
            base = None if op.a in self.temporaries else self._cell(op.a).word.constant
            if base is None:
                return None
            address = (base + op.imm) & self.w.mask
            given["m"] = self._read(f"m{address}", self._at(address))
        return Update("d", update.operator, substitute(update.value, given))


def merged_update(
    node: ir.Within, w: Format, cell: Callable[[ir.Operand | None], Cell], at: Callable[[int], Cell]
) -> tuple[Update, dict[str, Cell]] | None:
    """The update of `d` that the statement makes, and the cells by the names of its places; None for any other statement."""
    merge = _Merge(w, cell, at)
    for inner in node.compute:
        match inner:
            case ir.Local(var):
                merge.temporaries[var] = ZERO
            case ir.Op(d=ir.Var() as d) if d in merge.temporaries:
                found = merge.update_of(inner)
                if found is None:
                    return None
                merge.temporaries[d] = UPDATE_OPERATORS[found.operator].combine(w, merge.temporaries[d], found.value)
            case ir.Check():
                pass
            case _:
                return None
    match node.body:
        case (ir.Op(d=ir.Var() as d) as op,) if d not in merge.temporaries:
            found = merge.update_of(op)
            if found is not None:
                return found, {"d": cell(d), **{name: merge.cells[name] for name in found.value.inputs}}
    return None


# ---------------------------------------------------------------------- statements

#: gates of a netlist, statements that are lowered, and calls within calls, at most
MOST_GATES = 1 << 22
MOST_STATEMENTS = 1 << 20
MOST_CALLS = 64

#: condition of a branch -> (operation, whether it is negated)
_TESTS = {
    "eq": ("eq", False), "ne": ("eq", True), "lt": ("lt", False), "ge": ("lt", True), "ltu": ("ltu", False), "geu": ("ltu", True),
}  # fmt: skip


class ProgramLowering:
    """A program, lowered statement by statement; `memory` has its words by address."""

    def __init__(self, module: ir.Module, strategy: Strategy, limit: int = 0) -> None:
        self.module, self.w, self.strategy = module, module.format, strategy
        self.b = Builder()
        self.memory: dict[int, Cell] = {}
        self._effects = EffectLowering(self.b, self.w, strategy)
        self._effects.limit = limit
        self._control: Bit = TRUE
        #: whether computed values stay: they are garbage, or the block around is undone as a whole
        self._stays = strategy == "garbage"
        self._cells: dict[ir.Var, Cell] = {ir.SP: Cell(constant(module.memory, self.w.width))}
        self._regions: dict[ir.Region, ir.Region | None] = {}
        #: whether no word from outside of the open computation changes while the words that it makes are in use
        self._frozen = False
        #: the words that cells held before the open computation changed them
        self._before: list[tuple[Cell, Word]] | None = None
        self._accesses = AccessAnalysis(module)
        self._pure: dict[str, bool] = {}
        self._statements = self._calls = 0
        for region in module.regions:
            for k, number in enumerate(region.data or ()):
                assert region.address is not None
                self.memory[region.address + k] = Cell(constant(number, self.w.width))

    def circuit(self, inputs: Mapping[str, tuple[int, ...]], outputs: Mapping[str, tuple[Cell, int]]) -> Circuit:
        """The circuit of all that has been lowered, between words on lines and the cells that hold them in the end.

        Of each output, as many bits are kept as are given: the others are 0.
        """
        ends = {name: cell.word.lowest(n).on_lines(self.b).bits for name, (cell, n) in outputs.items()}
        held = {line for word in inputs.values() for line in word} | self.b.taken
        if self.strategy != "garbage":
            held &= set(self._effects.erased)
        garbage = held.difference(*ends.values())
        return Circuit(self.b.lines, tuple(self.b.gates), inputs, ends, tuple(sorted(garbage)))

    # ---------------------------------------------------------------- refusals

    def _refuse(self, code: str, message: str, span: Span | None, hint: str | None = None) -> NoReturn:
        text = None
        if span is not None and span.file in self.module.files[: len(self.module.texts)]:
            rows = self.module.texts[self.module.files.index(span.file)]
            text = rows[span.line - 1] if span.line <= len(rows) else None
        raise InputError(Diagnostic(code, message, span, hint=hint, line=text))

    # ------------------------------------------------------------------- words

    def _cell(self, operand: ir.Operand | None) -> Cell:
        if isinstance(operand, ir.Var):
            return self._cells[operand]
        return Cell(constant(0 if operand is None else operand.word, self.w.width))

    def at(self, address: int) -> Cell:
        """The word of memory at an address; zero at first."""
        return self.memory.setdefault(address, Cell(constant(0, self.w.width)))

    def _set(self, cell: Cell, word: Word) -> None:
        if self._before is not None:
            self._before.append((cell, cell.word))
        cell.word = word

    def _using(self, compute: Callable[[], None], body: Callable[[], None]) -> None:
        """compute; body; and the gates of `compute` in reverse order, unless computed values stay."""
        if self._stays:
            compute()
            body()
            return
        self.b.within(compute, lambda _: body())

    @contextmanager
    def _mode(
        self, *, stays: bool | None = None, control: Bit | None = None, frozen: bool | None = None
    ) -> Iterator[None]:
        before = self._stays, self._control, self._frozen
        self._stays = before[0] if stays is None else stays
        self._control = before[1] if control is None else control
        self._frozen = before[2] if frozen is None else frozen
        yield
        self._stays, self._control, self._frozen = before

    # -------------------------------------------------------------- statements

    def block(self, block: ir.Block) -> None:
        """Lower statements in a row."""
        cleared = _cleared(block)
        for k, node in enumerate(block):
            self._statement(node, k in cleared)

    def _statement(self, node: ir.Node, clears: bool) -> None:
        self._count(node)
        match node:
            case ir.Op():
                self._op(node, clears)
            case ir.Local(var):
                self._cells[var] = Cell(constant(0, self.w.width, self._control))
            case ir.Delocal(var, _, span):
                word = self._cells.pop(var).word
                if word.constant:
                    self._traps(f"`{var.name}` is {word.constant} where it is freed", span)
                if word.owned:
                    self.b.give_back([bit for bit in word.bits if bit >= 0])
            case ir.Within():
                self._within(node)
            case ir.If():
                self._if(node)
            case ir.While():
                self._while(node)
            case ir.For():
                self._for(node)
            case ir.Call():
                self._call(node)
            case ir.Check(test, _, _, span, of):
                if not of and self._static(test) is False:
                    self._traps("a condition of the program never holds", span)
            case ir.External():
                pass  # the host looks, and changes nothing

    def _count(self, node: ir.Node) -> None:
        self._statements += 1
        if self._statements > MOST_STATEMENTS or len(self.b.gates) > MOST_GATES:
            message = f"the netlist has more than {MOST_GATES} gates, or {MOST_STATEMENTS} statements that are unrolled"
            self._refuse("RG1405", message, node.span)

    def _traps(self, message: str, span: Span | None) -> None:
        if self._control == TRUE:
            self._refuse("RG1404", f"{message}: the program traps for all arguments", span, "Correct the program.")

    # ------------------------------------------------------------------ blocks

    def _within(self, node: ir.Within) -> None:
        compute = union(map(self._accesses.of, node.compute), bound(node.compute))
        body = union(map(self._accesses.of, node.body))
        own = locals_left(node.compute)
        outside = bool(compute.writes.difference(own) or compute.stores)
        if body.clobbers(compute) or (outside and self.strategy == "garbage"):
            self.block(node.compute)
            self.block(node.body)
            self.block(ir.invert(node.compute))
            return
        if self.strategy == "pebble":
            merged = merged_update(node, self.w, self._cell, self.at)
            if merged is not None:
                self._apply((merged[0],), merged[1], False)
                return
        # A computation needs no condition, unless it could leave lines that are not 0 where the condition does not hold.
        control = TRUE if self._is_pure(node.compute) else self._control
        if self._stays and not outside:
            with self._mode(control=control, frozen=True):
                self.block(node.compute)
            self.block(node.body)
        else:
            changed: list[tuple[Cell, Word]] = []

            def run_compute() -> None:
                outer, self._before = self._before, changed
                with self._mode(stays=self.strategy in ("bennett", "garbage"), control=control, frozen=not outside):
                    self.block(node.compute)
                self._before = outer

            def run_body(_: None) -> None:
                with self._mode(stays=False):
                    self.block(node.body)

            self.b.within(run_compute, run_body)
            for cell, word in reversed(changed):
                cell.word = word
        for var in own:
            del self._cells[var]

    def _is_pure(self, block: ir.Block) -> bool:
        """Whether the gates of the block leave every line that they release at 0, for all words."""
        return all(map(self._is_pure_statement, block))

    def _is_pure_statement(self, node: ir.Node) -> bool:
        match node:
            case ir.Op(opcode):
                return not any(isinstance(e, Permute | Erase) for e in opcode.effects(self.w))
            case ir.Local() | ir.Check():
                return True
            case ir.Within(compute, body):
                return self._is_pure(compute) and self._is_pure(body)
            case ir.For(body=body):
                return self._is_pure(body)
            case ir.Call(procedure):
                if procedure not in self._pure:
                    self._pure[procedure] = False  # a recursive procedure
                    self._pure[procedure] = self._is_pure(self.module.procedures[procedure].body)
                return self._pure[procedure]
            case ir.Delocal() | ir.If() | ir.While() | ir.External():
                return False

    def _if(self, node: ir.If) -> None:
        chosen = self._static(node.test)
        if chosen is not None:
            self.block(node.then if chosen else node.orelse)
            return
        outer = self._control

        def branches(line: int) -> None:
            with self._mode(control=line):
                self.block(node.then)
            if node.orelse:
                # The line was outer and test; it becomes outer and not test.
                self.b.flip(line, outer)
                with self._mode(control=line):
                    self.block(node.orelse)
                self.b.flip(line, outer)

        inner = union(map(self._accesses.of, (*node.then, *node.orelse)))
        if not self._stays and node.test == node.post and inner.writes.isdisjoint(of_test(node.test).reads):

            def condition() -> int:
                (line,) = self.b.keep()
                self.b.flip(line, self._test(node.test), outer)
                return line

            self.b.within(condition, branches)
            return
        (line,) = self.b.keep()
        self._flip_by(node.test, line)
        branches(line)
        if not self._stays:
            self._flip_by(node.post, line)
            self.b.give_back([line])

    def _flip_by(self, test: ir.Test, line: int) -> None:
        """line ⊕= test and control."""
        found: list[Bit] = []
        self._using(lambda: found.append(self._test(test)), lambda: self.b.flip(line, found[0], self._control))

    def _test(self, test: ir.Test) -> Bit:
        """The condition; the values that it is computed from stay."""
        operation, negated = _TESTS[test.cc]
        words = [list(self._cell(x).word.bits) for x in (test.a, test.b)]
        bit = lower_operation(self.b, self.w, Expr(operation, (place("a"), place("b"))), words)[0]
        return self.b.opposite(bit) if negated else bit

    def _static(self, test: ir.Test) -> bool | None:
        """The condition where bits that are constant decide it, else None."""
        x, y = (self._cell(operand).word for operand in (test.a, test.b))
        operation, negated = _TESTS[test.cc]
        if operation == "eq":
            if any({p, q} == {FALSE, TRUE} for p, q in zip(x.bits, y.bits, strict=True)):
                return negated
            return not negated if x.constant is not None and x.constant == y.constant else None
        signed = operation == "lt"
        (least, most), (lowest, highest) = x.bounds(signed), y.bounds(signed)
        return not negated if most < lowest else negated if least >= highest else None

    def _while(self, node: ir.While) -> None:
        while True:
            again = self._static(node.test)
            if again is None:
                self._refuse("RG1404", "the number of passes of this loop depends on data", node.span)
            if not again:
                return
            self._count(node)
            self.block(node.body)

    def _for(self, node: ir.For) -> None:
        start, stop = (self._cell(x).word.constant for x in (node.start, node.stop))
        if start is None or stop is None:
            self._refuse("RG1404", "the bounds of this loop depend on data", node.span)
        distance = self.w.signed(stop - start)
        numbers = range(start, start + distance, node.step)
        for number in reversed(numbers) if node.backward else numbers:
            self._cells[node.var] = Cell(constant(number, self.w.width))
            self._count(node)
            self.block(node.body)
        self._cells.pop(node.var, None)

    def _call(self, node: ir.Call) -> None:
        procedure = self.module.procedures[node.procedure]
        if self._calls == MOST_CALLS:
            self._refuse(
                "RG1404", f"calls are nested deeper than {MOST_CALLS}: the depth may depend on data", node.span
            )
        cells, regions = self._cells, self._regions
        self._cells = {ir.SP: cells[ir.SP]}
        self._cells |= {
            p: cells[x] if isinstance(x, ir.Var) else Cell(constant(x.word, self.w.width))
            for p, x in zip(procedure.params, node.args, strict=True)
        }
        self._regions = {
            p: None if r is None else regions.get(r, r) for p, r in zip(procedure.regions, node.regions, strict=True)
        }
        self._calls += 1
        self.block(ir.invert(procedure.body) if node.backward else procedure.body)
        self._calls -= 1
        self._cells, self._regions = cells, regions

    # ------------------------------------------------------------ instructions

    def _op(self, node: ir.Op, clears: bool) -> None:
        effects = node.opcode.effects(self.w)
        names = places_of(effects)
        if not effects:
            return  # an instruction that is there for its trap
        if any(isinstance(effect, Unerase) for effect in effects):
            self._refuse("RG1402", "an erasure is undone here, and no netlist brings back an erased word", node.span)
        cells = {
            name: self._cell(operand)
            for name, operand in zip("dab", (node.d, node.a, node.b), strict=True)
            if name in names
        }
        cells["imm"] = Cell(constant(node.imm, self.w.width))
        if "m" not in names:
            self._apply(effects, cells, clears)
            return
        base = self._cell(node.a).word
        if base.constant is not None:
            address = (base.constant + node.imm) & self.w.mask
            self._apply(effects, {**cells, "m": self.at(address)}, clears)
        else:
            self._indexed(node, effects, cells, base, clears)

    def _indexed(self, node: ir.Op, effects: Effects, cells: dict[str, Cell], base: Word, clears: bool) -> None:
        """An instruction on a word of memory whose address depends on data."""
        first, count = self._range(node)
        chosen: list[Bit] = []
        m = Cell(constant(0, self.w.width))

        def select() -> None:
            size = (count - 1).bit_length()
            index = list(base.bits[:size])
            offset = (node.imm - first) & ((1 << size) - 1)
            if offset:
                index = self.b.copy(index)
                self.b.add(index, constant_bits(offset, size))
            chosen.extend(one_hot(self.b, index, count))

        def read() -> None:
            select()
            out = self.b.fresh(self.w.width)
            for k, line in enumerate(chosen):
                for bit, target in zip(self.at(first + k).word.bits, out, strict=True):
                    self.b.flip(target, bit, line)
            m.word = Word(tuple(out), owned=False)

        if "m" not in written_places(effects):
            self._using(read, lambda: self._apply(effects, {**cells, "m": m}, clears))
            return

        def exchange() -> None:
            m.word = m.word.on_lines(self.b)
            for k, line in enumerate(chosen):
                if line != FALSE:
                    cell = self.at(first + k)
                    self._set(cell, cell.word.on_lines(self.b))
                    for x, y in zip(m.word.bits, cell.word.bits, strict=True):
                        self.b.exchange(x, y, line)

        def change() -> None:
            m.word = Word(tuple(self.b.keep(self.w.width)))
            exchange()
            self._apply(effects, {**cells, "m": m}, False)
            exchange()
            self.b.give_back(m.word.bits)

        self._using(select, change)

    def _range(self, node: ir.Op) -> tuple[int, int]:
        """(first address, number of words) that the instruction may access."""
        region = node.region
        region = self._regions.get(region, region) if region is not None else None
        if region is not None and region.address is not None:
            return region.address, region.size
        top = self._cells[ir.SP].word.constant
        if top is None:
            self._refuse("RG1404", "the place of an array in memory depends on data", node.span)
        return (0, top) if region is None else (self.module.memory, top - self.module.memory)

    def _apply(self, effects: Effects, cells: Mapping[str, Cell], clears: bool) -> None:
        """The effects on cells by the places' names."""
        changed = written_places(effects)
        # Constants may change without gates where they are meant under this very condition.
        free = all(self._control in (TRUE, cells[name].word.control) for name in changed)
        numbers = {name: cell.word.constant for name, cell in cells.items()}
        if free and None not in numbers.values():
            words = {name: n for name, n in numbers.items() if n is not None}
            for name, tree in transition(effects, self.w).items():
                self._set(cells[name], constant(evaluate(tree, self.w, words), self.w.width, cells[name].word.control))
            return
        match effects:
            case (Exchange(left, right, None),) if free:
                x, y = cells[left], cells[right]
                first, second = x.word, y.word
                self._set(x, second)
                self._set(y, first)
                return
            case (Update(where, operator, value),) if clears and where == "d":
                self._clear(cells, value)
                return
            case (Update(where, operator, value),) if operator in ("add", "xor", "mul") and cells[where].word.is_zero:
                self._set_zero(where, cells, value)
                return
            case (Update(where, "xor", value),) if cells[where].word.owned and TRUE not in cells[where].word.bits:
                self._flip_word(where, cells, value)
                return
            case (Exchange(left, right, None),):
                self._exchange(cells[left], cells[right])
                return
        for name in changed:
            self._set(cells[name], cells[name].word.on_lines(self.b))
        self._load(cells)
        self._effects.effects(effects)
        for name in changed:
            self._set(cells[name], cells[name].word._replace(bits=tuple(self._effects.places[name])))

    def _load(self, cells: Mapping[str, Cell]) -> None:
        self._effects.places = {name: list(cell.word.bits) for name, cell in cells.items()}
        self._effects.control = self._control
        self._effects.strategy = (
            "garbage" if self._stays else "bennett" if self.strategy == "garbage" else self.strategy
        )

    def _set_zero(self, where: str, cells: Mapping[str, Cell], value: Expr) -> None:
        """A word that is 0 becomes the value; where computed values stay, it becomes the very lines of the value."""
        cell = cells[where]
        self._load(cells)
        if self._stays and self._control == TRUE:
            changing = self._changing_lines(cells)
            bits = [self.b.copy([bit])[0] if bit in changing else bit for bit in self._effects.trees(value)[0]]
            self._set(cell, Word(tuple(bits), owned=False))
            return
        out: list[Bit] = []

        def copy(bits: list[Bit]) -> None:
            # A schedule may try the body on another builder first.
            b = self._effects.b
            out.clear()
            for bit in bits:
                if bit == FALSE or (bit == TRUE and self._control in (TRUE, cell.word.control)):
                    out.append(bit)
                else:
                    (line,) = b.keep()
                    b.flip(line, bit, self._control)
                    out.append(line)

        self._effects.with_trees([value], lambda words: copy(words[0]))
        self._set(cell, cell.word._replace(bits=tuple(out), owned=True))

    def _flip_word(self, where: str, cells: Mapping[str, Cell], value: Expr) -> None:
        """d ⊕= value; bits of both that are 0, as those of bools are, get no lines."""
        cell = cells[where]
        word, out = cell.word, list[Bit]()

        def flip(bits: list[Bit]) -> None:
            # A schedule may try the body on another builder first.
            b = self._effects.b
            out.clear()
            for own, bit in zip(word.bits, bits, strict=True):
                line = own if bit == FALSE or own >= 0 else b.keep()[0]
                if bit != FALSE:
                    b.flip(line, bit, self._control)
                out.append(line)

        self._load(cells)
        self._effects.with_trees([value], lambda words: flip(words[0]))
        self._set(cell, word._replace(bits=tuple(out)))

    def _exchange(self, x: Cell, y: Cell) -> None:
        """x and y change places under the condition; bits of both that are 0 stay constants."""
        zero = {k for k, bits in enumerate(zip(x.word.bits, y.word.bits, strict=True)) if bits == (FALSE, FALSE)}
        for cell in (x, y):
            self._set(cell, cell.word.on_lines(self.b, zero))
        for k, (p, q) in enumerate(zip(x.word.bits, y.word.bits, strict=True)):
            if k not in zero:
                self.b.exchange(p, q, self._control)

    def _changing_lines(self, cells: Mapping[str, Cell]) -> set[Bit]:
        """The lines of these words that may change while the value that is computed now is in use."""
        lines = {bit for cell in cells.values() if cell.word.owned for bit in cell.word.bits if bit >= 0}
        return lines & self.b.taken if self._frozen else lines

    def _clear(self, cells: Mapping[str, Cell], value: Expr) -> None:
        """d, which is the value up to its sign, becomes 0, and its lines go back to the pool."""
        cell = cells["d"]
        word = cell.word
        if word.owned and any(bit >= 0 for bit in word.bits):

            def undo(bits: list[Bit]) -> None:
                for line, bit in zip(word.bits, bits, strict=True):
                    if line >= 0:
                        self._effects.b.flip(line, bit, self._control)

            self._load(cells)
            self._effects.with_trees([value], lambda words: undo(words[0]))
            self.b.give_back([bit for bit in word.bits if bit >= 0])
        self._set(cell, constant(0, self.w.width, word.control))


def _cleared(block: Iterable[ir.Node]) -> set[int]:
    """Numbers of the statements that are the last to change a variable before it dies, by `d −= value`."""
    out: set[int] = set()
    nodes = tuple(block)
    for k, node in enumerate(nodes):
        if not isinstance(node, ir.Delocal):
            continue
        for j in range(k - 1, -1, -1):
            before = nodes[j]
            if isinstance(before, ir.Op) and before.d is node.var:
                if before.opcode.name.endswith((".sub", ".xor", ".div")):
                    out.add(j)
                break
            if not isinstance(before, ir.Delocal):
                break
    return out
