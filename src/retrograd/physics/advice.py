"""Advice on erasure and on memory, by runs on the given arguments.

    uncompute r  iff  price(all uncomputed) ≤ price(r erased)
    words of a run  =  the highest word of the heap and of the stack that the run writes, each counted from its beginning

On erasure: which routines are cheaper to erase than to uncompute, by a technology model. Both prices are those of whole runs. They
include the instructions and cycles of the routine's inverse, the erased bits, and the effects on memory and registers. The
temporaries of expressions are one more item, called `(expressions)`.

On memory: which calls of a functional function to forget, and which of its loops to run in parts, so that a run fits
into a number of words at the least instructions. Each choice is measured by a run of the program. Choices are added one
after the other: of those that make the run fit, the choice with the fewest instructions, else the choice with the
fewest words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, overload

from retrograd.compiler.compiled import NOTHING_STORED, Compiled, Options, Storage
from retrograd.compiler.frontends.functional.function import FunctionalSource
from retrograd.compiler.ir.statements import Module, Within
from retrograd.compiler.ir.traversal import bodies, walk
from retrograd.isa.diagnostics import CompileError, Diagnostic, InputError
from retrograd.physics.report import EnergyReport, energy_text, program_text, report_of
from retrograd.presentation import columns, shortened_text
from retrograd.runtime._binding import bind, types_of
from retrograd.runtime._compilation import storage_dict, storage_text
from retrograd.runtime._execution import argument_words, execute, load
from retrograd.runtime._reversible import Inverse, Reversible
from retrograd.simulator.energy.comparisons import difference
from retrograd.simulator.energy.counts import NOTHING, host_traffic
from retrograd.simulator.energy.pricing import NotModelled, Price, PricingContext, pricing_context, told
from retrograd.simulator.energy.technology import CAUSES, Range, with_prefix
from retrograd.simulator.machine import Machine
from retrograd.simulator.stores import SparseWords, WordsByAddress, limit_of

# ---------------------------------------------------------------------- memory


class _Written(WordsByAddress):
    """Words of a memory, and the highest address below and from `border` on that an instruction wrote."""

    border = 0
    low = high = -1

    def __setitem__(self, at: int, word: int) -> None:
        super().__setitem__(at, word)
        if at < self.border:
            self.low = max(self.low, at)
        else:
            self.high = max(self.high, at)


class _WatchedMachine(Machine):
    """The reference machine with a memory that keeps the highest addresses."""

    def _first_memory(self, size: int) -> SparseWords:
        memory = SparseWords((), size)
        memory.words = self.written = _Written(size)
        # An update is no write of an instruction.
        memory.words.update(enumerate(self.program.data))
        return memory


@dataclass(frozen=True)
class Measured:
    """A run in which the calls of some functions are forgotten, and some loops run in parts: words of heap and stack, and instructions."""

    names: frozenset[str]
    heap: int
    stack: int
    steps: int
    parts: frozenset[str] = frozenset()

    @property
    def words(self) -> int:
        return self.heap + self.stack

    def as_dict(self) -> dict[str, Any]:
        chosen = {"forget": sorted(self.names), "parts": sorted(self.parts)}
        return chosen | {"heap": self.heap, "stack": self.stack, "instructions": self.steps}


def measured(compiled: Compiled, values: list[Any], max_steps: int | None = None) -> Measured:
    """The words and instructions of a run. Raises InputError, ProgramTrap."""
    heap = next((r for r in compiled.module.regions if r.name == "heap" and r.data is None), None)
    machine = _WatchedMachine(compiled.program)
    machine.load(0, argument_words(compiled, values))
    machine.written.border = compiled.module.memory
    begin = compiled.module.memory if heap is None or heap.address is None else heap.address
    execute(compiled, machine, max_steps)
    used = max(0, machine.written.low - begin + 1)
    deep = max(0, machine.written.high - compiled.module.memory + 1)
    return Measured(compiled.options.forget, used, deep, machine.retired, compiled.options.parts)


@dataclass(frozen=True)
class ForgettingAdvice:
    """The calls to forget for a budget of words, and the runs that were measured: all kept, then each choice in turn."""

    function: Reversible
    budget: int
    trials: tuple[Measured, ...]
    chosen: Measured

    @property
    def fits(self) -> bool:
        """Whether the run as advised needs no more words than the budget."""
        return self.chosen.words <= self.budget

    @property
    def options(self) -> Options:
        return replace(self.function.options, forget=self.chosen.names, parts=self.chosen.parts)

    @property
    def advised(self) -> Reversible:
        """The function, compiled as advised."""
        return self.function.with_options(forget=self.chosen.names, parts=self.chosen.parts)

    def __repr__(self) -> str:
        return shortened_text(str(self))

    def __str__(self) -> str:
        rows = [["forgotten calls of", "heap", "stack", "words", "instructions", "advice"]]
        first = self.trials[0]
        for t in self.trials:
            advice = "within the budget" if t.words <= self.budget else "too many words"
            if t is self.chosen:
                advice = "chosen" if self.fits else "chosen: no choice has fewer words"
            elif t.words <= self.budget and t.steps > self.chosen.steps:
                advice = "more instructions"
            names = ", ".join([*sorted(t.names), *(f"{name}, in parts" for name in sorted(t.parts))]) or "(none)"
            rows.append([names, str(t.heap), str(t.stack), str(t.words), str(t.steps), advice])
        end = f"budget {self.budget} words; {self.chosen.steps / first.steps:.2f} times the instructions of the run that keeps all"
        table = columns(rows, right=(1, 2, 3, 4))
        return f"{self.function.__name__}: calls as compute, copy, uncompute\n{table}\n{end}"

    def as_dict(self) -> dict[str, Any]:
        """For JSON: schema retrograd.forgetting-advice/1."""
        return {
            "schema": "retrograd.forgetting-advice/1",
            "name": self.function.__name__,
            "budget": self.budget,
            "fits": self.fits,
            "chosen": self.chosen.as_dict(),
            "trials": [t.as_dict() for t in self.trials],
        }


def advise_forgetting(
    f: Reversible, args: Sequence[Any], keywords: dict[str, Any], memory: int, max_steps: int | None = None
) -> ForgettingAdvice:
    """The calls of f to forget, and its loops to run in parts, for a budget of words: see the module.

    Raises InputError for any but a functional function.
    """
    if not isinstance(f, FunctionalSource) or not isinstance(f, Reversible):
        hint = "`with_options(memory=…)` keeps results of loops; `memory=` of rg.advise forgets calls of @rg.functional functions."
        raise InputError(Diagnostic("RG0603", f"`{f.__name__}` is no functional function, and has no heap", hint=hint))
    budget = limit_of(memory, "memory")
    assert budget is not None
    values = bind(f, args, keywords)
    types = types_of(f, values)

    def run(names: frozenset[str], parts: frozenset[str]) -> Measured | None:
        try:
            compiled = f.compiled_for(types, None, replace(f.options, forget=names, parts=parts))
        except CompileError:
            # The value of such a call has no copy: it holds an array. Or the states of such a loop are of several
            # types.
            return None if names or parts else measured(f.compiled_for(types), values, max_steps)
        return measured(compiled, values, max_steps)

    chosen = run(frozenset(), frozenset())
    assert chosen is not None
    trials = [chosen]
    calls, loops = f.forgettable(), f.loops()
    while chosen.words > budget and (calls or loops):
        choices = [(chosen.names | {name}, chosen.parts) for name in calls]
        choices += [(chosen.names, chosen.parts | {name}) for name in loops]
        found = [t for t in (run(*choice) for choice in choices) if t is not None]
        trials += found
        fitting = [t for t in found if t.words <= budget]
        best = min(fitting, key=lambda t: (t.steps, t.words), default=None)
        if best is None:
            best = min(found, key=lambda t: (t.words, t.steps), default=chosen)
            if best.words >= chosen.words:
                break
        chosen = best
        calls = [name for name in calls if name not in chosen.names]
        loops = [name for name in loops if name not in chosen.parts]
    return ForgettingAdvice(f, budget, tuple(trials), chosen)


# ---------------------------------------------------------------------- erasure

#: the temporaries of expressions, which have no name
EXPRESSIONS = "(expressions)"
#: the name of no routine: erase mode in which no named routine is erased
_NONE = ""


@dataclass(frozen=True)
class Verdict:
    """The cheaper choice for one routine, and the figures behind it."""

    routine: str
    #: erase it, or uncompute it
    erase: bool
    why: str
    #: the cost of uncomputing over that of erasing, in instructions, cycles, and joules
    instructions: int
    cycles: int
    energy: Range | NotModelled
    #: the bits that erasing loses
    bits: int
    #: whether the choice is the same for all values of the figures within their ranges
    certain: bool
    #: whether the model has figures for the difference
    known: bool = True


@dataclass(frozen=True)
class Advice:
    """Verdicts on all routines of a function, and the options that follow them."""

    function: Reversible
    verdicts: tuple[Verdict, ...]
    options: Options
    #: the function as written, and as advised
    before: EnergyReport
    after: EnergyReport
    #: the results that the function keeps in memory, and the best use of more words
    storage: Storage = NOTHING_STORED

    @property
    def advised(self) -> Reversible:
        """The function, compiled as advised."""
        return self.function.with_options(erase=self.options.erase, temporaries=self.options.temporaries)

    def __repr__(self) -> str:
        return shortened_text(str(self))

    def __str__(self) -> str:
        t = self.before.price.technology
        rows = [["routine", "advice", "uncomputing takes", "erasing loses", "why"]]
        for v in self.verdicts:
            steps = f"{v.instructions} instruction{'s' * (v.instructions != 1)}"
            more = f"{steps}, {energy_text(v.energy)}" if v.bits else ""
            doubt = "" if v.certain else ", within the figures' ranges" if v.known else ", not known"
            advice = ("erase" if v.erase else "uncompute") + doubt
            rows.append([v.routine, advice, more, f"{v.bits} bits", v.why])
        if not self.verdicts:
            rows.append(["(none)", "", "", "", "nothing is uncomputed"])
        end = f"as written {program_text(self.before.price)}, as advised {program_text(self.after.price)}"
        if self.after.counts.erased_bits and isinstance(self.after.price.of("erasure"), NotModelled):
            end += f"\n{t.id} has no figure for an erased bit by itself: what erasing takes is the instruction's energy"
        head = f"{self.before.name} by {t.id} {t.version}, {self.before.price.temperature:g} K"
        kept = storage_text(self.storage)
        return "\n".join(part for part in (head, columns(rows), end, kept) if part)

    def as_dict(self) -> dict[str, Any]:
        """For JSON: schema retrograd.energy-advice/1."""
        return {
            "schema": "retrograd.energy-advice/1",
            "name": self.before.name,
            "technology": self.before.price.technology.as_dict(),
            "routines": [
                {
                    "routine": v.routine, "advice": "erase" if v.erase else "uncompute", "why": v.why,
                    "instructions": v.instructions, "cycles": v.cycles, "erased_bits": v.bits,
                    "joules": told(v.energy),
                    "certain": v.certain, "known": v.known,
                }
                for v in self.verdicts
            ],
            "as_written": self.before.price.as_dict(),
            "as_advised": self.after.price.as_dict(),
            "memory": storage_dict(self.storage),
        }  # fmt: skip


@overload
def advise(f: Reversible, /, *args: Any, memory: int, max_steps: int | None = None, **how: Any) -> ForgettingAdvice: ...


@overload
def advise(
    f: Reversible, /, *args: Any, tech: Any = "landauer", max_steps: int | None = None, memory: None = None, **how: Any
) -> Advice: ...


def advise(
    f: Reversible,
    /,
    *args: Any,
    tech: Any = "landauer",
    max_steps: int | None = None,
    memory: int | None = None,
    **how: Any,
) -> Advice | ForgettingAdvice:
    """Which routines of f to erase and which to uncompute, by their prices on these arguments.

    With `memory`, f is a functional function: which calls to forget, so that a run on these arguments needs no more than this many words of
    heap and stack, at the fewest instructions. `advised` is f compiled so. Words are those of the reference machine.

    `tech`, `temperature`, `frequency`, `figures`, `gates`: as for `rg.energy`; other keywords are arguments of f. Raises
    CompileError, InputError, ProgramTrap.
    """
    if isinstance(f, Inverse):
        raise InputError(
            Diagnostic(
                "RG0603", f"`{f.__name__}` is an inverse: what erases has none", hint="Ask for the function itself."
            )
        )
    if memory is not None:
        return advise_forgetting(f, args, how, memory, max_steps)
    priced = {key: how.pop(key) for key in ("temperature", "frequency", "figures", "gates") if key in how}
    values = bind(f, args, how)
    types = types_of(f, values)
    plain = f.compiled_for(types)
    by = pricing_context(tech, plain.format, **priced)
    trial = _Trial(f, types, values, by, max_steps)
    # Routines that are erased by name are optimised separately, so the run that they are compared with is, too.
    base = trial.report(frozenset({_NONE}), False)
    verdicts = []
    for name in [*_routines(plain.module), EXPRESSIONS]:
        erased = trial.report(*_erasing([name]))
        verdict = _verdict(name, base, erased)
        if verdict.bits or name != EXPRESSIONS:
            verdicts.append(verdict)
    chosen = [v.routine for v in verdicts if v.erase]
    before = trial.report(False, True)
    after, options = before, replace(plain.options, erase=False)
    if chosen:
        erase, temporaries = _erasing(chosen)
        tried = trial.report(erase, temporaries)
        # Routines that are cheaper to erase one by one may not be so together, where they share temporaries.
        known, cheaper = _cheaper(_without_host(tried), _without_host(before))
        if known and cheaper:
            after, options = tried, replace(plain.options, erase=erase, temporaries=temporaries)
    return Advice(f, tuple(verdicts), options, before, after, plain.storage)


def _erasing(names: Iterable[str]) -> tuple[frozenset[str], bool]:
    """The options `erase` and `temporaries` that erase these routines and no others."""
    names = set(names)
    return frozenset(names - {EXPRESSIONS}) or frozenset({_NONE}), EXPRESSIONS in names


class _Trial:
    """The function on its arguments, compiled in several ways."""

    def __init__(self, f: Reversible, types: Any, values: list[Any], by: PricingContext, max_steps: int | None) -> None:
        self.f, self.types, self.values, self.by, self.max_steps = f, types, values, by, max_steps

    def report(self, erase: bool | frozenset[str], temporaries: bool) -> EnergyReport:
        options = replace(self.f.options, erase=erase, temporaries=temporaries)
        compiled: Compiled = self.f.compiled_for(self.types, None, options)
        machine = load(compiled, self.values)
        execute(compiled, machine, self.max_steps)
        words = compiled.argument_words
        return report_of(machine, self.f.__name__, self.by, host_traffic(compiled.program, words, words))


def _routines(module: Module) -> list[str]:
    """The names of the routines that a module uncomputes, in order."""
    found = (node.name for body in bodies(module) for node in walk(body) if isinstance(node, Within))
    return list(dict.fromkeys(name for name in found if name is not None))


def _verdict(name: str, base: EnergyReport, erased: EnergyReport) -> Verdict:
    bits = erased.counts.erased_bits - base.counts.erased_bits
    more = base.counts.retired - erased.counts.retired
    cycles = base.counts.cycles - erased.counts.cycles
    price, price_erased = _without_host(base), _without_host(erased)
    known, cheaper = _cheaper(price_erased, price)
    spread = difference(*(r.priced(whole=True, counts=r.counts.with_host(NOTHING)) for r in (base, erased))).range
    certain = isinstance(spread, Range) and (spread.lo > 0 or spread.hi <= 0)
    if bits == 0:
        why = "it cannot be erased: what it changes is needed, or it is run backward"
        return Verdict(name, False, why, 0, 0, NotModelled("nothing differs"), 0, True)
    energy = _uncomputing(price, price_erased)
    if not known:
        why = "the model has no figure for all of what differs: uncomputing loses nothing"
        return Verdict(name, False, why, more, cycles, energy, bits, False, False)
    saved = _total(price) - _total(price_erased)
    if cheaper:
        why = f"erasing is cheaper by {_joules(saved)}"
    else:
        why = f"erasing costs {_joules(-saved)} more" if saved else "it costs the same, and loses nothing"
    return Verdict(name, cheaper, why, more, cycles, energy, bits, certain)


def break_even(k: int, levels: int) -> float:
    """(k / (2k − 1))ⁿ: the ξ below which Bennett's scheme takes less energy than the erasing run of the same kⁿ steps.

    ξ is the energy of a reversible operation over that of an irreversible one; n is `levels`. The scheme makes (2k − 1)ⁿ
    calls of the step at ξ each, the erasing run makes kⁿ at 1 each.
    """
    return float((k / (2 * k - 1)) ** levels)


def break_even_per_memory_unit(k: int, levels: int) -> float:
    """(2k − 1)⁻ⁿ: the ξ below which all calls of Bennett's scheme take less energy than one irreversible operation.

    (2k − 1)ⁿ > 1/ξ is the criterion for one unit of memory, which is erased once or kept by the whole scheme.
    Trap: this is no break-even of a run, since the erasing run takes kⁿ steps, too: see `break_even`.
    """
    return float((2 * k - 1) ** -levels)


def erasing_wins(k: int, levels: int, ratio: float) -> bool:
    """Whether kⁿ steps take less energy when each is erased than by Bennett's scheme: (2k − 1)ⁿ·ξ > kⁿ.

    `ratio` = ξ, as for `break_even`.
    """
    return bool((2 * k - 1) ** levels * ratio > k**levels)


def _joules(x: float) -> str:
    return with_prefix(x, "J")


def _uncomputing(base: Price, erased: Price) -> Range | NotModelled:
    """The energy of uncomputing over that of erasing, without the erasure of bits."""
    causes = [c for c in CAUSES if c != "erasure"]
    pairs = [(base.of(c), erased.of(c)) for c in causes]
    both = [(a, b) for a, b in pairs if isinstance(a, Range) and isinstance(b, Range)]
    if not both:
        return NotModelled("the model has no figure for it")
    ends = [sum(a[i] - b[i] for a, b in both) for i in range(3)]
    return Range(min(ends), ends[1], max(ends))


def _total(price: Price) -> float:
    """The sum of all modelled parts with cooling."""
    return sum(item.energy.nominal for item in price.items if isinstance(item.energy, Range))


def _without_host(report: EnergyReport) -> Price:
    """The price of the program and its cooling, without the host: the host's writes are heat that must be cooled, too."""
    return report.by.price(report.counts.with_host(NOTHING))


def _cheaper(one: Price, other: Price) -> tuple[bool, bool]:
    """(whether the prices can be compared, whether the first is less).

    Parts without a figure have counts: where the dearer run has more of all of them, it stays the dearer.
    """
    scale = max(abs(_total(one)), abs(_total(other)))
    less = _total(one) - _total(other) < -1e-12 * scale
    lacking: Counter[tuple[str, str]] = Counter()
    for price, sign in ((one, 1), (other, -1)):
        for item in price.missing:
            lacking[item.cause, item.label] += sign * round(item.count)
    unknown = [n for n in lacking.values() if n]
    return all(n < 0 for n in unknown) if less else all(n > 0 for n in unknown), less
