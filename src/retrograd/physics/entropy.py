"""Entropy: the information that programs and circuits lose, and the least heat of losing it (docs/entropy.md).

    H(X) = −Σ p log₂ p;  H(X, Y) of pairs;  H(X | Y) = H(X, Y) − H(Y)
    capacity ≥ Σ marginal ≥ joint ≥ H(erased | kept) = H(input) − H(kept)

Capacity counts each erased word as W bits: the cost of *uniform local erasure*, by a device that erases a word by itself and takes it for
uniform. The other three are the least costs of devices made for the distribution: of each word by itself, of all words
together, and of all words together beside the kept words. Entropies are exact where inputs have probabilities, and else estimated
from samples (`chao_wang_jost`).

A device that was made for another distribution dissipates more (`mismatch`), and so does a circuit whose gates lose information each by
itself (`Logic`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from retrograd.compiler.compiled import Options, Precision
from retrograd.errors import refuse
from retrograd.hardware.function_netlists import FunctionNetlist
from retrograd.isa.words import Format
from retrograd.physics._observations import (
    MOST_INPUTS,
    Distribution,
    Observed,
    Site,
    WordRows,
    of_netlist,
    of_runs,
    word_rows,
)
from retrograd.presentation import columns, shortened_text
from retrograd.runtime._execution import Request
from retrograd.runtime._marshal import from_words
from retrograd.runtime._reversible import Inverse, Reversible, request_of
from retrograd.simulator.energy.counts import SourceLine
from retrograd.simulator.energy.gates import GATES
from retrograd.simulator.energy.technology import quantity, thermal_energy, with_prefix

# ---------------------------------------------------------------------- estimates

#: the least share of the distribution that the values seen must cover
LEAST_COVERAGE = 0.5


class Estimate(NamedTuple):
    """A number of bits, and its standard error: 0 where it is exact."""

    #: None: the samples do not suffice
    bits: float | None
    #: None: `bits` is a lower bound, from too few samples
    error: float | None = 0.0

    def __str__(self) -> str:
        if self.bits is None:
            return "not known"
        if self.error is None:
            return f"≥ {self.bits:.4f}"
        return f"{self.bits:.4f} ± {self.error:.2g}" if self.error else f"{self.bits:.4f}"

    def as_dict(self, joules: float) -> dict[str, float | None]:
        """For JSON, with the energy at this many joules for a bit."""
        return {"bits": self.bits, "error": self.error, "joules": None if self.bits is None else self.bits * joules}


class Term(NamedTuple):
    """An entropy, as a part of sums."""

    bits: float
    #: row -> the estimate without it; None: exact
    without: NDArray[np.float64] | None = None
    #: whether the coverage suffices
    covered: bool = True


def labels(columns: Sequence[NDArray[Any]], rows: int) -> NDArray[np.int64]:
    """A number for each row, the same where the rows of all columns agree."""
    code = np.zeros(rows, np.int64)
    for column in columns:
        _, inverse = np.unique(column, return_inverse=True)
        if inverse.any():
            code = np.unique(code * (int(inverse.max()) + 1) + inverse, return_inverse=True)[1]
    return code


def numbered(values: Iterable[Any]) -> NDArray[np.int64]:
    """Values of any kind as numbers, the same for equal values."""
    known: dict[Any, int] = {}
    return np.array([known.setdefault(value, len(known)) for value in values], np.int64)


def entropy_of(code: NDArray[np.int64], probabilities: NDArray[np.float64] | None) -> Term:
    """The entropy of the labels of rows: exact with the probabilities of the rows, else estimated from rows as samples."""
    if probabilities is not None:
        return Term(of_probabilities(np.bincount(code, weights=probabilities)))
    counts = np.bincount(code)
    numbers, of_counts = np.unique(counts[counts > 0], return_counts=True)
    if _coverage(numbers, of_counts) < LEAST_COVERAGE:
        return Term(of_probabilities(counts / len(code)), None, False)
    without = np.zeros(int(numbers[-1]) + 1)
    for count in numbers:
        without[count] = _without_one(numbers, of_counts, int(count))
    return Term(chao_wang_jost(numbers, of_counts), without[counts[code]])


def of_probabilities(p: Iterable[float]) -> float:
    """−Σ p log₂ p."""
    return max(0.0, -math.fsum(x * math.log2(x) for x in map(float, p) if x > 0))


def chao_wang_jost(numbers: NDArray[Any], of_counts: NDArray[Any]) -> float:
    """The estimate in bits, from the numbers of occurrences and how many values occur so often.

    From n samples, of which fₖ values occur k times, in nats (A. Chao, Y. T. Wang, L. Jost, Methods Ecol. Evol. 4, 1091, 2013):

        Ĥ = Σ x/n · (1/x + … + 1/(n − 1)) + f₁/n · Σ_{j ≥ 1} (1 − A)ʲ / (n − 1 + j),   A = 2f₂ / ((n − 1)f₁ + 2f₂)

    The first sum, over the numbers of occurrences x, is the part of the values that were drawn; the second is that of the others. The
    standard error is that of the jackknife, which leaves out one sample at a time (B. Efron, C. Stein, Ann. Stat. 9, 586, 1981).
    Trap: 1 − f₁/n is the coverage by Good and Turing. Below 1/2 no estimator can be relied on. The entropy of the sample itself is then
    given as a lower bound: its expectation is at most the entropy, because −p log p is concave.
    """
    n = int(numbers @ of_counts)
    harmonic = np.concatenate([[0.0], np.cumsum(1 / np.arange(1, n))])
    nats = float(of_counts @ (numbers / n * (harmonic[n - 1] - harmonic[numbers - 1])))
    once, twice = (int(of_counts[numbers == k].sum()) for k in (1, 2))
    if once:
        nats += (
            once / n * _unseen(n, 2 * twice / ((n - 1) * once + 2 * twice) if twice else 2 / ((n - 1) * (once - 1) + 2))
        )
    return nats / math.log(2)


def _unseen(n: int, a: float) -> float:
    """Σ_{j ≥ 1} (1 − a)ʲ / (n − 1 + j) = (1 − a)^(1 − n) · (−log a − Σ_{r < n} (1 − a)ʳ / r)."""
    if a == 1:
        return 0.0
    if a * n < 5:  # the sum would be long, and the closed form loses few digits
        r = np.arange(1, n)
        return float((1 - a) ** (1 - n) * (-math.log(a) - math.fsum((1 - a) ** r / r)))
    j = np.arange(1, math.ceil(40 / a) + 1)
    return math.fsum((1 - a) ** j / (n - 1 + j))


def _coverage(numbers: NDArray[Any], of_counts: NDArray[Any]) -> float:
    """1 − f₁/n."""
    return 1 - int(of_counts[numbers == 1].sum()) / int(numbers @ of_counts)


def _without_one(numbers: NDArray[Any], of_counts: NDArray[Any], count: int) -> float:
    """The estimate without one of the samples whose value occurs `count` times."""
    left = dict(zip(numbers.tolist(), of_counts.tolist(), strict=True))
    left[count] -= 1
    if count > 1:
        left[count - 1] = left.get(count - 1, 0) + 1
    kept = sorted((number, times) for number, times in left.items() if times)
    if not kept:
        return 0.0
    return chao_wang_jost(*np.array(kept).T)


def total(terms: Sequence[Term]) -> Estimate:
    """Σ of entropies; a lower bound where the samples do not suffice for each."""
    bits = math.fsum(term.bits for term in terms)
    if not all(term.covered for term in terms):
        return Estimate(bits, None)
    return Estimate(bits, _jackknife([term.without for term in terms], [1] * len(terms)))


def conditional(pair: Term, given: Term) -> Estimate:
    """H(X | Y) of H(X, Y) and H(Y), at least 0; not known where the samples do not suffice."""
    if not (pair.covered and given.covered):
        return Estimate(None, None)
    return Estimate(max(0.0, pair.bits - given.bits), _jackknife([pair.without, given.without], [1, -1]))


def mean(values: NDArray[np.float64], probabilities: NDArray[np.float64] | None) -> Estimate:
    """The expectation of a number of bits."""
    if probabilities is not None:
        return Estimate(math.fsum(values * probabilities))
    n = len(values)
    return Estimate(float(values.mean()), float(values.std(ddof=1)) / math.sqrt(n) if n > 1 else None)


def _jackknife(without: Sequence[NDArray[np.float64] | None], signs: Sequence[int]) -> float:
    """√((n − 1)/n · Σ (θᵢ − θ̄)²) of θᵢ, the estimate without row i."""
    values: Any = sum(sign * column for sign, column in zip(signs, without, strict=True) if column is not None)
    if not isinstance(values, np.ndarray):
        return 0.0
    return math.sqrt((len(values) - 1) * float(values.var()))


# ---------------------------------------------------------------------- mismatch

_State = TypeVar("_State", bound=Hashable)


def mismatch(p: Mapping[_State, float], q: Mapping[_State, float], process: Callable[[_State], Any]) -> float:
    """KL(p ‖ q) − KL(Pp ‖ Pq) ≥ 0, in bits;  KL(p ‖ q) = Σ p log₂(p / q).

    A device that maps states by P, with the least heat for states of distribution q, dissipates kT ln 2 more for each bit of mismatch
    where the states have distribution p (A. Kolchinsky, D. H. Wolpert, J. Stat. Mech. 2017, 083202). It is 0 where P is a bijection.
    Erasing a word of W bits by a device for uniform words costs W = H(p) + KL(p ‖ uniform) bits.
    `process`: the state that follows a state, or a mapping of states to their probabilities. Raises InputError RG1602 where q
    excludes a state that p has.

    >>> uniform = {k: 1 / 8 for k in range(8)}
    >>> mismatch({0: 0.5, 1: 0.5}, uniform, lambda k: 0)
    2.0
    >>> mismatch({0: 0.5, 1: 0.5}, uniform, lambda k: k ^ 5)
    0.0
    """
    before = divergence(p, q)
    return max(0.0, before - divergence(_after(p, process), _after(q, process)))


def divergence(p: Mapping[_State, float], q: Mapping[_State, float]) -> float:
    """KL(p ‖ q) = Σ p log₂(p / q), in bits. Raises InputError RG1602 where it is infinite."""
    for state, x in p.items():
        if x and not q.get(state):
            raise refuse("RG1602", f"the prior has probability 0 for {state!r:.60}, which occurs")
    return math.fsum(x * math.log2(x / q[state]) for state, x in p.items() if x)


def _after(p: Mapping[Any, float], process: Callable[[Any], Any]) -> dict[Any, float]:
    """The distribution after the process."""
    parts: dict[Any, list[float]] = {}
    for state, x in p.items():
        found = process(state)
        for end, y in (found if isinstance(found, Mapping) else {found: 1.0}).items():
            parts.setdefault(end, []).append(x * y)
    return {end: math.fsum(found) for end, found in parts.items()}


# ---------------------------------------------------------------------- reports

SCHEMA = "retrograd.entropy/1"


class Loss(NamedTuple):
    """The loss by erasures, in bits."""

    #: the bits counted, on average: uniform local erasure
    capacity: Estimate
    #: the sum of the entropies of the words, each by itself. An erasure that does not happen in a run counts as a value
    marginal: Estimate
    #: the entropy of all erased words together
    joint: Estimate
    #: the entropy of all erased words given the words that are kept
    conditional: Estimate

    def as_dict(self, joules: float) -> dict[str, Any]:
        """For JSON, with energies at this many joules for a bit."""
        return {name: found.as_dict(joules) for name, found in self._asdict().items()}


@dataclass(frozen=True)
class EntropyReport:
    """The entropies of the erasures of a function, for one distribution of its arguments."""

    name: str
    format: Format
    #: whether the inputs were enumerated; else they are samples, and entropies are estimates
    exact: bool
    #: inputs that did not trap
    runs: int
    #: the probability of inputs that trap, which are left out
    trapped: float
    #: in K
    temperature: float
    #: H(input) and H(kept)
    inputs: Estimate
    kept: Estimate
    whole: Loss
    erasures: Mapping[Site, Loss] = field(repr=False)
    lines: Mapping[SourceLine, Loss] = field(repr=False)
    functions: Mapping[str, Loss] = field(repr=False)
    #: the bits by which a device for the prior dissipates more than the whole
    mismatch: float | None = None

    @property
    def joules(self) -> float:
        """kT ln 2: the least energy of losing a bit."""
        return thermal_energy(self.temperature)

    def __repr__(self) -> str:
        return shortened_text(str(self))

    def __str__(self) -> str:
        how = "inputs, exact" if self.exact else "samples, estimated"
        left_out = f"; {self.trapped:.3g} of the inputs trap and are left out" if self.trapped else ""
        rows = [["entropy in bits", "uniform local erasure", "each by itself", "all together", "given the kept words"]]
        rows += [[str(site), *map(str, loss)] for site, loss in self.erasures.items()]
        for what, parts in (("line", self.lines), ("function", self.functions)):
            if 1 < len(parts) < len(self.erasures):
                rows += [[f"{what} {owner}", *map(str, loss)] for owner, loss in parts.items()]
        rows.append(["in all", *map(str, self.whole)])
        rows.append([f"kT ln 2 at {self.temperature:g} K", *map(self._energy, self.whole)])
        ends = [f"input {self.inputs} bits, kept {self.kept} bits"]
        if self.mismatch is not None:
            ends.append(
                f"mismatch with the prior {self.mismatch:.4f} bits, {with_prefix(self.mismatch * self.joules, 'J')}"
            )
        head = f"{self.name}, {self.format}; {self.runs} {how}{left_out}"
        return "\n".join([head, columns(rows, right=(1, 2, 3, 4)), *ends])

    def _energy(self, found: Estimate) -> str:
        if found.bits is None:
            return str(found)
        shown = with_prefix(found.bits * self.joules, "J")
        return f"≥ {shown}" if found.error is None else shown

    def as_dict(self) -> dict[str, Any]:
        """For JSON: schema retrograd.entropy/1."""
        joules = self.joules
        return {
            "schema": SCHEMA,
            "name": self.name,
            "format": {"width": self.format.width, "frac": self.format.frac},
            "exact": self.exact,
            "estimator": None if self.exact else "Chao, Wang, Jost 2013; standard error by jackknife",
            "runs": self.runs,
            "trapped": self.trapped,
            "temperature": self.temperature,
            "inputs": self.inputs.as_dict(joules),
            "kept": self.kept.as_dict(joules),
            "whole": self.whole.as_dict(joules),
            "erasures": [
                {"name": site.name, "file": None if site.line is None else site.line.file or None,
                 "line": None if site.line is None else site.line.line, "function": site.function, **loss.as_dict(joules)}
                for site, loss in self.erasures.items()
            ],
            "lines": [{"file": line.file or None, "line": line.line, **loss.as_dict(joules)} for line, loss in self.lines.items()],
            "functions": [{"function": name, **loss.as_dict(joules)} for name, loss in self.functions.items()],
            "mismatch": None if self.mismatch is None else {"bits": self.mismatch, "joules": self.mismatch * joules},
        }  # fmt: skip


# ---------------------------------------------------------------------- circuits of irreversible gates

_Bits = NDArray[np.bool_]


class LogicGate(NamedTuple):
    """A gate of a kind of `GATES`, from wires to a wire."""

    kind: str
    inputs: tuple[str, ...]
    output: str


class LogicLosses(NamedTuple):
    """Bits that are lost: of a gate, H(its inputs) − H(its output); of the whole circuit, H(inputs) − H(outputs).

    A gate by itself dissipates at least kT ln 2 for each bit of the first difference. The rest above the whole is the circuit's loss of
    correlations (D. H. Wolpert, A. Kolchinsky, New J. Phys. 22, 063047, 2020). A reversible gate loses nothing.
    """

    #: of each gate, in their order
    gates: tuple[float, ...]
    whole: float

    @property
    def gate_by_gate(self) -> float:
        """The sum over the gates."""
        return sum(self.gates)


@dataclass(frozen=True)
class Logic:
    """Gates in an order in which each wire is computed before it is used.

    Raises InputError RG1603 for a wire that is not there, or that has two sources; for an unknown kind, or a wrong number of inputs.

    >>> half = Logic(("a", "b"), (LogicGate("XOR", ("a", "b"), "sum"), LogicGate("AND", ("a", "b"), "carry")), ("sum", "carry"))
    >>> found = half.losses()
    >>> print(f"{found.gate_by_gate:.4f} {found.whole:.4f}")
    2.1887 0.5000
    """

    inputs: tuple[str, ...]
    gates: tuple[LogicGate, ...]
    outputs: tuple[str, ...]

    def __post_init__(self) -> None:
        wires = set(self.inputs)
        if len(wires) < len(self.inputs):
            raise refuse("RG1603", "an input is named twice")
        for gate in self.gates:
            if gate.kind not in GATES:
                raise refuse("RG1603", f"`{gate.kind}` is no kind of gate", f"Kinds are {', '.join(GATES)}.")
            if len(gate.inputs) != GATES[gate.kind][0]:
                raise refuse(
                    "RG1603",
                    f"{gate.kind} takes {GATES[gate.kind][0]} inputs, and `{gate.output}` has {len(gate.inputs)}",
                )
            for wire in gate.inputs:
                if wire not in wires:
                    raise refuse("RG1603", f"`{gate.output}` uses `{wire}`, which no input or earlier gate is")
            if gate.output in wires:
                raise refuse("RG1603", f"`{gate.output}` has two sources")
            wires.add(gate.output)
        for wire in self.outputs:
            if wire not in wires:
                raise refuse("RG1603", f"the output `{wire}` has no source")

    def run(self, state: Mapping[str, _Bits]) -> dict[str, _Bits]:
        """All wires for arrays of input bits."""
        wires = dict(state)
        for kind, inputs, output in self.gates:
            wires[output] = GATES[kind][1](*(wires[wire] for wire in inputs))
        return wires

    def losses(self, distribution: Mapping[Sequence[int], float] | None = None) -> LogicLosses:
        """The bits that are lost, for input bits of these probabilities; without, for independent uniform bits.

        Raises InputError RG1601 for more than 65,536 inputs.
        """
        if distribution is None:
            if 1 << len(self.inputs) > MOST_INPUTS:
                raise refuse(
                    "RG1601", f"{len(self.inputs)} input bits are too many to be enumerated", "Give probabilities."
                )
            rows: Sequence[Sequence[int]] = list(itertools.product((0, 1), repeat=len(self.inputs)))
            p = np.full(len(rows), 1 / len(rows))
        else:
            rows, p = list(distribution), np.array([*distribution.values()], float)
            if any(len(row) != len(self.inputs) for row in rows):
                raise refuse("RG1601", f"each key has a bit for each of the {len(self.inputs)} inputs")
            if not (p >= 0).all() or abs(p.sum() - 1) > 1e-9:
                raise refuse("RG1601", f"the probabilities have the sum {p.sum():.9g}")
        table = np.array(rows, bool).reshape(len(rows), len(self.inputs))
        wires = self.run({name: table[:, i] for i, name in enumerate(self.inputs)})

        def entropy(names: Sequence[str]) -> float:
            return entropy_of(labels([wires[name] for name in names], len(rows)), p).bits

        gates = (entropy(gate.inputs) - entropy((gate.output,)) for gate in self.gates)
        return LogicLosses(
            tuple(max(0.0, lost) for lost in gates), max(0.0, entropy(self.inputs) - entropy(self.outputs))
        )


# ---------------------------------------------------------------------- functions

_Owner = TypeVar("_Owner", bound=Hashable)


def entropy(
    f: Reversible | Inverse | FunctionNetlist,
    distribution: Distribution,
    /,
    *,
    prior: Distribution | None = None,
    samples: int = 4096,
    seed: int = 0,
    traps: Literal["raise", "condition"] = "raise",
    temperature: float | str = 300.0,
    format: Format | str | None = None,
    options: Options | None = None,
    precision: Precision | None = None,
    max_steps: int | None = None,
) -> EntropyReport:
    """H(erased | kept), in bits, beside the bits counted: of each erasure, each line, each function, and the whole.

    `distribution`: {arguments: probability}; {name: values}, independent and uniform, where "words" stands for all words;
    "words" for all arguments; a list of samples; or a function that draws arguments from a generator of NumPy, `samples` times with this `seed`. Up to 65,536 inputs are
    enumerated, and the results are exact. Beyond, and of samples, results are estimates with a standard error, or lower bounds.
    `prior`: the distribution for which a device that computes f was made; `report.mismatch` is then its cost beyond the whole.
    `traps`: "condition" leaves out inputs that trap. Of a netlist, the lines of garbage are erased.
    Raises InputError RG1601, RG1602; CompileError, ProgramTrap.

    >>> import retrograd as rg
    >>> @rg.reversible
    ... def forget(y: int, x: int):
    ...     t = x ^ 1
    ...     y += t
    ...     rg.erase(t)
    >>> found = rg.entropy(forget, {"y": [0], "x": range(8)})
    >>> found.whole.capacity.bits, found.whole.joint.bits, found.whole.conditional.bits
    (64.0, 3.0, 0.0)
    """
    kelvins = quantity(str(temperature), "temperature", "temperature")[1]
    if not kelvins:
        raise refuse("RG0507", "temperature: 0 K is not above zero", "For example 4.2K.")
    if traps not in ("raise", "condition"):
        raise ValueError(f"traps is raise or condition, not {traps!r}")
    if isinstance(f, FunctionNetlist):
        request: Request = replace(f.request, format=f.compiled.format)
        name = request.function.__name__
    else:
        request = request_of(f, format=format, options=options, precision=precision, max_steps=max_steps)
        name = f"~{request.function.__name__}" if request.backward else request.function.__name__
    given = word_rows(request, distribution, samples, seed)
    found = _observed(f, request, given, traps)
    if not found.inputs:
        raise refuse("RG1601", "the program traps for all inputs")
    p = given.probabilities
    trapped = float(found.trapped.mean() if p is None else p @ found.trapped)
    if p is not None:
        p = p[~found.trapped] / p[~found.trapped].sum()
    losses = _Losses(found, p, None if found.trapped.any() else given.input_bits)
    return EntropyReport(
        name=name, format=given.compiled.format, exact=p is not None, runs=len(found.inputs), trapped=trapped, temperature=kelvins,
        inputs=losses.of_inputs, kept=total([losses.of_kept]), whole=losses.whole(),
        erasures={site: losses.of([site]) for site in found.erased},
        lines=losses.grouped([site.line for site in found.erased]),
        functions=losses.grouped([site.function for site in found.erased]),
        mismatch=None if prior is None else _mismatch(f, request, given, p, found, word_rows(request, prior, samples, seed), traps),
    )  # fmt: skip


def _observed(f: Any, request: Request, given: WordRows, traps: str) -> Observed:
    if isinstance(f, FunctionNetlist):
        return of_netlist(f, given)
    return of_runs(request, given, traps=traps == "condition")


def _mismatch(
    f: Any,
    request: Request,
    given: WordRows,
    p: NDArray[np.float64] | None,
    found: Observed,
    prior: WordRows,
    traps: str,
) -> float:
    """The mismatch cost of the map from inputs to the kept words."""
    if p is None or prior.probabilities is None:
        raise refuse("RG1602", "the mismatch of samples is not estimated")
    other = _observed(f, request, prior, traps)
    q = prior.probabilities[~other.trapped]  # a common factor of the prior cancels
    included = set(other.inputs)
    for row in found.inputs:
        if row not in included:
            values = ", ".join(
                f"{a.name} = {from_words(a.type, row[a.address : a.address + a.type.size], given.compiled.format)}"
                for a in given.compiled.arguments
            )
            raise refuse("RG1602", f"the prior has probability 0 for {values:.80}, which occurs")
    ends = dict(zip(found.inputs, found.kept, strict=True)) | dict(zip(other.inputs, other.kept, strict=True))
    return mismatch(_summed(found.inputs, p), _summed(other.inputs, q), ends.__getitem__)


def _summed(states: Sequence[Any], p: NDArray[np.float64]) -> dict[Any, float]:
    """The distribution of states, of which several may be equal."""
    return dict(zip(dict.fromkeys(states), np.bincount(numbered(states), weights=p).tolist(), strict=True))


class _Losses:
    """The entropies of erasures of observed runs. `input_bits`: H(input), where it is known although the rows are samples."""

    def __init__(self, found: Observed, probabilities: NDArray[np.float64] | None, input_bits: float | None) -> None:
        self.found, self.p, self.input_bits = found, probabilities, input_bits
        self.rows = len(found.inputs)
        self.kept = numbered(found.kept)
        self.of_kept = self._entropy(self.kept)

    @property
    def of_inputs(self) -> Estimate:
        """H(input)."""
        if self.input_bits is not None:
            return Estimate(self.input_bits)
        return total([self._entropy(numbered(self.found.inputs))])

    def whole(self) -> Loss:
        """The loss by all sites. H(erased) ≥ H(erased | kept) = H(input) − H(kept), where H(input) is known."""
        loss = self.of(list(self.found.erased))
        if self.input_bits is None or not self.found.erased:
            return loss
        given = conditional(Term(self.input_bits), self.of_kept)
        least = given.bits or 0.0
        marginal, joint = (
            found._replace(bits=max(found.bits or 0.0, least)) if found.error is None else found
            for found in (loss.marginal, loss.joint)
        )
        return Loss(loss.capacity, marginal, joint, given)

    def _entropy(self, code: NDArray[np.int64]) -> Term:
        return entropy_of(code, self.p)

    def of(self, sites: Sequence[Site]) -> Loss:
        """The loss by some of the sites, taken together."""
        columns = [column for site in sites for column in self.found.erased[site]]
        joint = labels(columns, self.rows)
        bits = sum((self.found.bits[site] for site in sites), np.zeros(self.rows))
        return Loss(
            mean(bits, self.p),
            total([self._entropy(labels([column], self.rows)) for column in columns]),
            total([self._entropy(joint)]),
            self._conditional(joint),
        )

    def _conditional(self, joint: NDArray[np.int64]) -> Estimate:
        if not joint.any():
            return Estimate(0.0)  # the same words in all runs
        pair = self._entropy(labels([joint, self.kept], self.rows))
        return conditional(pair, self.of_kept)

    def grouped(self, owners: Sequence[_Owner | None]) -> dict[_Owner, Loss]:
        """The loss of each owner of sites."""
        sites: dict[_Owner, list[Site]] = {}
        for site, owner in zip(self.found.erased, owners, strict=True):
            if owner is not None:
                sites.setdefault(owner, []).append(site)
        return {owner: self.of(found) for owner, found in sites.items()}
