"""`rg.netlist`: a whole function of the language as a reversible netlist.

rg.netlist(f, *examples, format="Q8.8").run(*args) == f(*args),  bit for bit, where f does not trap
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from retrograd.compiler.compiled import Compiled, Options
from retrograd.compiler.deep_recursion import with_deep_stack
from retrograd.compiler.ir.statements import Kind, Module
from retrograd.compiler.language.types import StackType, Type, layouts, leaves
from retrograd.hardware._program_lowering import Cell, ProgramLowering, Word
from retrograd.hdl.reversible.builder import FALSE
from retrograd.hdl.reversible.circuit import Circuit, Counts, count, simulate, transposed
from retrograd.hdl.reversible.irreversible import Network, network_of
from retrograd.hdl.reversible.lowering import Strategy, need_strategy, within_budget
from retrograd.isa.diagnostics import api_boundary
from retrograd.isa.words import Format
from retrograd.runtime._binding import bind, types_from_annotations
from retrograd.runtime._execution import Request, argument_words
from retrograd.runtime._marshal import from_words
from retrograd.runtime._reversible import Inverse, Reversible, request_of
from retrograd.simulator.engines.choice import machine_for
from retrograd.simulator.machine import Trap


@dataclass(frozen=True)
class FunctionNetlist:
    """A function as a circuit on the words of its arguments, which it changes in place.

    The words are named as in the source: `x`; `v_0`, `v_1` of an array; `p_x` of a struct. The word of a bool is one line. `circuit.inverse()` is the inverse of the
    function. Trap: for arguments for which the function traps, the outputs mean nothing.
    """

    circuit: Circuit
    compiled: Compiled
    #: whether the netlist is that of the inverse of the compiled function
    backward: bool
    #: the words of the arguments, in the order of memory
    words: tuple[str, ...]
    request: Request = field(repr=False)

    @property
    def counts(self) -> Counts:
        """Gates, depth, lines, ancillas, garbage and costs."""
        return count(self.circuit)

    @property
    def irreversible(self) -> Network:
        """The same function of the words that change, in gates that lose information. It computes new words and uncomputes nothing."""
        return network_of(self.circuit)

    @api_boundary
    def run(self, *args: Any, **keywords: Any) -> Any:
        """All arguments after the circuit has been simulated, as `f(*args)` returns them. Raises InputError."""
        compiled, w = self.compiled, self.compiled.format
        values = bind(self.request.function, args, keywords, w)
        ends = self.circuit.run(dict(zip(self.words, argument_words(compiled, values), strict=True)))
        after = [ends[name] for name in self.words]
        found = (from_words(a.type, after[a.address : a.address + a.type.size], w) for a in compiled.arguments)
        return self.request.function.results(*found)

    def disagreement(self, rows: Sequence[Sequence[int]]) -> str | None:
        """The first fault of the circuit on these rows of argument words, or None.

        Checked are the words, against the program on a machine; that ancillas end as 0; and that the inverse restores every line.
        Rows for which the program traps are left out of the first two checks. Of the word of a bool the lowest bit is taken.
        """
        masks = [(1 << len(self.circuit.inputs[name])) - 1 for name in self.words]
        rows = [[word & mask for word, mask in zip(row, masks, strict=True)] for row in rows]
        results: list[list[int] | None] = []
        for row in rows:
            machine = machine_for(self.compiled.program, "auto", backward=self.backward)
            machine.load(0, row)
            try:
                machine.run()
            except Trap:
                results.append(None)
            else:
                results.append(list(machine.memory[: len(row)]))
        circuit, ones = self.circuit, (1 << len(rows)) - 1
        meant = sum(1 << k for k, result in enumerate(results) if result is not None)
        state = [0] * circuit.lines
        for name, column in zip(self.words, zip(*rows, strict=True), strict=True):
            lines = circuit.inputs[name]
            for line, bits in zip(lines, transposed(column, len(lines)), strict=True):
                state[line] = bits
        before = list(state)
        simulate(circuit.gates, state, ones)
        for line in circuit.zeros:
            if state[line] & meant:
                return f"line {line} is not 0 at the end"
        for i, name in enumerate(self.words):
            words = transposed([state[line] for line in circuit.outputs[name]], len(rows))
            for row, word, result in zip(rows, words, results, strict=True):
                if result is not None and word != result[i]:
                    return f"{name} is {word} in place of {result[i]} at {list(row)}"
        if simulate(circuit.gates[::-1], state, ones) != before:
            return "the inverse does not restore the lines"
        return None


def netlist(
    f: Reversible | Inverse,
    *args: Any,
    format: Format | str | None = None,
    strategy: Strategy = "bennett",
    budget: int | None = None,
    options: Options | None = None,
    **keywords: Any,
) -> FunctionNetlist:
    """The function as a reversible netlist, for arguments of these types and shapes; without any, for the annotated types.

    Loops are unrolled, calls inlined, and both branches of a condition that depends on data are made, each under the condition. A word at
    an index that depends on data is chosen among all words of its array. `strategy`: `bennett` computes intermediate values once and
    uncomputes them once; `eager` uncomputes those of an instruction at once; `garbage` never does, and leaves them as garbage; `pebble` computes values again where
    the `budget` of ancillas has no room for them.
    An erased word is garbage. `options`: how the function is compiled.

    Raises InputError RG1402 where the program undoes an erasure, RG1404 where passes of a loop or calls depend on data, RG1405 for a netlist that is too
    large, RG1406 for a budget that is too small; CompileError.

    >>> import retrograd as rg
    >>> @rg.reversible
    ... def add(y: int, x: int):
    ...     y += x
    >>> rg.netlist(add, format="Q4.4").counts.toffoli
    14
    """
    need_strategy(strategy, budget)
    request = request_of(f, format=format, options=options)
    function = request.function
    if args or keywords or not function.parameters:
        types = function.types_of(request.values(args, keywords))
    else:
        types = types_from_annotations(function)
    compiled = function.compiled_for(types, request.format, request.options)
    module = ~compiled.module if request.backward else compiled.module
    arguments = [(a.name, a.type) for a in compiled.arguments]
    names = _word_names(arguments)
    widths = dict(zip(names, _widths(arguments, compiled.format.width), strict=True))
    if budget is None:
        circuit = with_deep_stack(lambda: _circuit(module, widths, strategy, 0))
    else:
        circuit = within_budget(
            lambda chosen, most: with_deep_stack(lambda: _circuit(module, widths, chosen, most)), budget
        )
    return FunctionNetlist(circuit, compiled, request.backward, tuple(names), request)


def _circuit(module: Module, widths: Mapping[str, int], strategy: Strategy, budget: int) -> Circuit:
    """The module as a circuit on the words at the beginning of its memory: name -> the bits that may be 1, the lowest ones."""
    lowering = ProgramLowering(module, strategy, sum(widths.values()) + budget)
    inputs = {name: tuple(lowering.b.inputs(bits)) for name, bits in widths.items()}
    for address, lines in enumerate(inputs.values()):
        lowering.memory[address] = Cell(Word(lines + (FALSE,) * (module.format.width - len(lines))))
    lowering.block(module.entry)
    return lowering.circuit(inputs, {name: (lowering.at(k), bits) for k, (name, bits) in enumerate(widths.items())})


def _widths(arguments: Sequence[tuple[str, Type]], width: int) -> list[int]:
    """The bits of each word that may be 1: one of a bool, which is 0 or 1."""
    found: list[int] = []
    for name, t in arguments:
        words = [width] * t.size
        for layout in layouts(t, name):
            if layout.kind == Kind.BOOL.value:
                for index in product(*map(range, layout.shape)):
                    words[layout.offset + sum(i * s for i, s in zip(index, layout.strides, strict=True))] = 1
        found += words
    return found


def _word_names(arguments: Sequence[tuple[str, Type]]) -> list[str]:
    """A name for each word: `x`, `v_0_1`, `p_x`; with further underscores where two would be equal."""
    found: list[str] = []
    for name, t in arguments:
        words = [f"{name}_{k}" for k in range(t.size)] if t.size > 1 else [name] * t.size
        for layout in layouts(t, name):
            base = layout.name.replace(".", "_")
            for k in range(_elements(layout.shape)):
                rest, where, label = k, layout.offset, ""
                for length, stride in zip(reversed(layout.shape), reversed(layout.strides), strict=True):
                    rest, i = divmod(rest, length)
                    where, label = where + i * stride, f"_{i}{label}"
                words[where] = base + label
            for axis, away in enumerate(layout.counts):
                for before in product(*map(range, layout.shape[:axis])) if away else ():
                    where = layout.offset + sum(i * s for i, s in zip(before, layout.strides, strict=False)) - away
                    words[where] = "_".join(map(str, (base, *before, "size")))
        for part, where, of in leaves(t, name):
            if isinstance(of, StackType):
                words[where] = f"{part.replace('.', '_')}_size"
        for word in words:
            free = word
            while free in found:
                free += "_"
            found.append(free)
    return found


def _elements(shape: Sequence[int]) -> int:
    total = 1
    for length in shape:
        total *= length
    return total
